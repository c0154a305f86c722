"""The recommended pair, and the pairs that these runs cannot tell apart from it.

The best pair is compared with each of the k-1 others on the logarithm of each run's time, averaged over the models:
the ratio of geometric means, with Welch's interval. Many comparisons at 95 % each would find differences by chance, so
each is made at 1 - 0.05/(k-1) (Bonferroni). The truly best pair is then called slower in at most 1 of 20 grids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from analysis.comparison import LEVEL, Estimate, Ratio, compare_over_models, estimate_over_models
from analysis.grids import Grid, Pair
from analysis.regret import PairRegret, run_times


class Against(NamedTuple):
    """Another pair's time as a multiple of the best one's."""

    pair: Pair
    ratio: Ratio

    @property
    def slower(self) -> bool:
        return self.ratio.verdict == "higher"

    @property
    def quicker(self) -> bool:
        return self.ratio.verdict == "lower"

    @property
    def words(self) -> str:
        if self.ratio.low is None:
            return "too few runs to tell"
        told = "slower" if self.slower else "lower, but with more regret" if self.quicker else "not told apart"
        return f"{told}{self.ratio.caution}"


class Recommendation(NamedTuple):
    best: PairRegret
    time: Estimate
    """Geometric mean over models and runs, with its own 95 % interval."""
    others: list[Against]
    level: float
    """Of each comparison, after the correction for their number."""

    @property
    def tied(self) -> list[Against]:
        """No difference shown, though there were runs enough to ask."""
        return [other for other in self.others if other.ratio.verdict == "no difference shown"]

    @property
    def quicker(self) -> list[Against]:
        """A lower geometric mean, though more regret: the two objectives need not agree on the best pair."""
        return [other for other in self.others if other.quicker]

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
