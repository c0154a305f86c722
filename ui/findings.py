"""The sentence that a chart shows, computed from the same numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from analysis.cells import CellTimes, compare_ends
from analysis.comparison import Ratio
from ui.frame import safe
from ui.units import number, seconds

ENOUGH_RUNS = 3


def about_batches(rows: list[dict[str, Any]], which: str = "these") -> str:
    """Rows: batch, phase, seconds."""
    totals: dict[str, float] = defaultdict(float)
    for row in rows:
        totals[row["phase"]] += row["seconds"]
    whole = sum(totals.values())
    if whole <= 0:
        return "No time was spent in any phase."
    phase = max(totals, key=lambda name: totals[name])
    count = len({row["batch"] for row in rows})
    return (f"**{safe(phase)}** takes {totals[phase] / whole:.0%} of the phases' time in {which} {count} "
            f"{'batch' if count == 1 else 'batches'}.")


def about_cells(cells: list[CellTimes]) -> str:
    if not cells:
        return ""
    ends = compare_ends(cells)
    noisy = sum(cell.noisy_runs for cell in cells)
    disturbed = f" {noisy} of {sum(cell.runs for cell in cells)} runs were noisy: other work disturbed them."
    if ends is None:
        return f"{safe(cells[0].cell)}: {_range(cells[0])} per item, end to end." + (disturbed if noisy else "")
    fast, slow = ends.fastest, ends.slowest
    sentence = (f"Fastest of {len(cells):,} cells: **{safe(fast.cell)}** with {_range(fast)} per item; slowest: "
                f"{safe(slow.cell)} with {_range(slow)}, {ends.ratio:.2f} times as long.")
    if noisy:
        sentence += disturbed
    if fast.runs > 1 and slow.runs > 1 and not ends.apart:
        return sentence + " Their runs overlap: these runs do not tell them apart."
    if min(fast.runs, slow.runs) < ENOUGH_RUNS:
        return sentence + f" So few runs ({fast.runs} and {slow.runs}): repeat before you believe it."
    return sentence


def _range(cell: CellTimes) -> str:
    """The mean, with the lowest and the highest run where there are several."""
    if cell.runs < 2:
        return seconds(cell.item_s)
    return f"{seconds(cell.item_s)} (its {cell.runs} runs: {seconds(cell.low_s)} to {seconds(cell.high_s)})"


def about_readings(title: str, values: list[float]) -> str:
    """Values in the unit that the title names."""
    return (f"**{safe(title)}**: median {number(median(values))}, highest {number(max(values))} "
            f"({len(values):,} readings).")


def about_stages(stages: list[dict[str, Any]]) -> str:
    """Rows: stage, start_s, seconds."""
    whole = sum(stage["seconds"] for stage in stages)
    measured = sum(stage["seconds"] for stage in stages if stage["stage"] == "measure")
    if whole <= 0 or not measured:
        return "The run's life from request to end; it never came to measuring."
    return (f"The run's life from request to end: {seconds(measured)} of {seconds(whole)} "
            f"({measured / whole:.0%}) were measured, the rest is preparation and ending.")


def about_few_runs(ratios: Iterable[Ratio]) -> str:
    """After verdicts that were counted; empty where every difference has runs enough."""
    few = sum(bool(ratio.caution) for ratio in ratios)
    if not few:
        return ""
    return (f" {few} of the differences {'is' if few == 1 else 'are'} from two runs only: measure each cell at least "
            "three times.")


def about_overlap(what: str, groups_s: float, overlap_s: float) -> str:
    """Empty where groups add up to the time, apart from rounding."""
    if overlap_s <= 0.001 * groups_s:
        return ""
    return (f"{what}: the groups add up to {seconds(groups_s)} and the clock shows {seconds(groups_s - overlap_s)}, "
            "because they overlap on the device; shares are of their sum.")
