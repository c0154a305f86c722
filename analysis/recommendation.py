"""The recommended pair, and the pairs that these runs cannot tell apart from it.

The best pair is compared with each of the k-1 others on the logarithm of each run's time, averaged over the models:
the ratio of geometric means, with Welch's interval. Many comparisons at 95 % each would find differences by chance, so
each is made at 1 - 0.05/(k-1) (Bonferroni). The truly best pair is then called slower in at most 1 of 20 grids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple

from scipy.special import stdtrit

from analysis.comparison import LEVEL, Estimate, Ratio
from analysis.grids import Grid, Pair
from analysis.regret import PairRegret, run_times


class Against(NamedTuple):
    """Another pair's time as a multiple of the best one's."""

    pair: Pair
    ratio: Ratio

    @property
    def slower(self) -> bool:
        return self.ratio.verdict == "higher"


class Recommendation(NamedTuple):
    best: PairRegret
    time: Estimate
    """Geometric mean over models and runs, with its own 95 % interval."""
    others: list[Against]
    level: float
    """Of each comparison, after the correction for their number."""

    @property
    def tied(self) -> list[Against]:
        """Not shown to be slower, though there were runs enough to ask."""
        return [other for other in self.others if other.ratio.low is not None and not other.slower]

    @property
    def untold(self) -> list[Against]:
        """Too few runs to tell."""
        return [other for other in self.others if other.ratio.low is None]


def recommend(grid: Grid, models: Sequence[str], ranked: Sequence[PairRegret],
              per_item: bool = False) -> Recommendation | None:
    """The pair with the least mean regret; None when no pair has a time for every model."""
    eligible = [row for row in ranked if row.eligible]
    if not eligible or not models:
        return None
    best, others = eligible[0], eligible[1:]
    level = corrected_level(len(others))
    times = {row.pair: [run_times(grid, model, row.pair, per_item) for model in models] for row in eligible}
    return Recommendation(best, estimate_over_models(times[best.pair]),
                          [Against(row.pair, compare_over_models(times[row.pair], times[best.pair], level))
                           for row in others], level)


def corrected_level(comparisons: int) -> float:
    return 1 - (1 - LEVEL) / max(comparisons, 1)


def estimate_over_models(times: Sequence[Sequence[float]], level: float = LEVEL) -> Estimate:
    """One list of runs per model: the geometric mean over models of their geometric means."""
    centre = fmean(fmean(map(math.log, runs)) for runs in times)
    half = _half_width(times, len(times), level)
    runs = min(map(len, times))
    if half is None:
        return Estimate(math.exp(centre), None, None, runs)
    return Estimate(math.exp(centre), _exp(centre - half), _exp(centre + half), runs)


def compare_over_models(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], level: float = LEVEL) -> Ratio:
    """a / b, model by model. With one model it is `analysis.comparison.compare`."""
    assert a and len(a) == len(b), "the same models on both sides"
    centre = fmean(fmean(map(math.log, runs)) for runs in a) - fmean(fmean(map(math.log, runs)) for runs in b)
    half = _half_width([*a, *b], len(a), level)
    fewest = (min(map(len, a)), min(map(len, b)))
    if half is None:
        return Ratio(math.exp(centre), None, None, *fewest)
    return Ratio(math.exp(centre), _exp(centre - half), _exp(centre + half), *fewest)


def _half_width(groups: Sequence[Sequence[float]], models: int, level: float) -> float | None:
    """Half the interval of a mean over models, on logarithms; None when one group has a single run."""
    if any(len(runs) < 2 for runs in groups):
        return None
    shares = [variance(list(map(math.log, runs))) / len(runs) / models**2 for runs in groups]
    whole = sum(shares)
    if whole == 0:
        return 0.0
    freedom = whole**2 / sum(share**2 / (len(runs) - 1) for share, runs in zip(shares, groups, strict=True))
    return float(stdtrit(freedom, 0.5 + level / 2)) * math.sqrt(whole)


def _exp(value: float) -> float:
    """An interval may be wider than a float can say."""
    return math.exp(value) if value < 700 else math.inf
