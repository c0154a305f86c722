"""Is the verdict right? Simulated pairs of cells: how often equal ones come out as different, and how often a shift of
10 % is shown, for several variations between runs and several repeats; and the shift that such repeats could show.

Variations are standard deviations of the logarithm of a run's figure: 0.01 to 0.02 is a quiet machine, 0.08 what quiet
cells had where this was built, 0.2 what noisy ones had. The table goes to stderr, the document to stdout.
"""

from __future__ import annotations

import math
import random
from statistics import median

from comparison import print_report, progress

from analysis.comparison import compare, smallest_shift

PAIRS = 2_000
SHIFT = 1.10
REPEATS = (3, 5, 10, 20)
VARIATIONS = (0.01, 0.02, 0.05, 0.08, 0.2)


def main() -> None:
    progress(f"{PAIRS:,} pairs each. False: equal cells that come out as different, at most 5 % wanted.")
    progress(f"Power: a shift of {SHIFT - 1:.0%} that is shown. Could show: the median shift that the page would name.")
    progress(f"{'variation':>9} {'repeats':>8} {'false':>7} {'power':>7} {'could show':>11}")
    found = []
    for variation in VARIATIONS:
        for repeats in REPEATS:
            found.append(measure(variation, repeats))
            false, power, shift = (found[-1][name] for name in ("false_share", "power_share", "could_show_ratio"))
            progress(f"{variation:>9} {repeats:>8} {false:>7.1%} {power:>7.1%} {shift - 1:>10.1%}")
    print_report("verdict", "Simulated verdicts of Compare over equal cells and over a shift of 10 %.",
                 {"pairs": PAIRS, "shift_ratio": SHIFT, "verdicts": found}, [])


def measure(variation: float, repeats: int) -> dict[str, float]:
    source = random.Random(f"{variation} {repeats}")
    false = power = 0
    shifts = []
    for _ in range(PAIRS):
        a, b = (draw(source, variation, repeats) for _ in range(2))
        false += compare(a, b).verdict != "no difference shown"
        power += compare([value * SHIFT for value in draw(source, variation, repeats)], b).verdict == "higher"
        shifts.append(smallest_shift(a, b) or math.inf)
    return {"variation": variation, "repeats": repeats, "false_share": false / PAIRS, "power_share": power / PAIRS,
            "could_show_ratio": median(shifts)}


def draw(source: random.Random, variation: float, repeats: int) -> list[float]:
    return [math.exp(source.gauss(0, variation)) for _ in range(repeats)]


if __name__ == "__main__":
    main()
