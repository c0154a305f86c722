"""One grid as the page shows it: ranked, with its recommendation, and its numbers as rows for charts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from analysis.cells import UNACCOUNTED
from analysis.comparison import Estimate, estimate
from analysis.grids import Grid, Pair
from analysis.limits import Limit, find_limit
from analysis.recommendation import Recommendation, recommend
from analysis.regret import Missing, PairRegret, list_missing, median_times, rank_pairs, run_times


class GridView(NamedTuple):
    grid: Grid
    models: list[str]
    per_item: bool
    times: dict[str, dict[Pair, float]]
    ranked: list[PairRegret]
    missing: list[Missing]
    recommendation: Recommendation | None
    limits: dict[str, Limit]
    """Of the recommended pair, by model."""


class CellTime(NamedTuple):
    """One bar: the median over runs, with the interval of their geometric mean."""

    model: str
    pair: Pair
    median_s: float
    interval: Estimate
    noisy_runs: int


def view_grid(grid: Grid, models: Sequence[str], top: int, per_item: bool = False) -> GridView:
    """`models` that the grid does not have are left out."""
    there = [model for model in grid.models if model in models]
    times = median_times(grid, there, per_item)
    ranked = rank_pairs(times, grid.pairs, top)
    found = recommend(grid, there, ranked, per_item)
    pair = found.best.pair if found else None
    limits = {model: find_limit(grid.measured(model, pair), pair.workers, {}) for model in there} if pair else {}
    return GridView(grid, there, per_item, times, ranked, list_missing(grid, there, per_item), found, limits)


def cell_times(view: GridView, models: Sequence[str], pairs: Sequence[Pair]) -> list[CellTime]:
    """Cells with a time, in the order asked for."""
    found = []
    for model in models:
        for pair in pairs:
            if runs := run_times(view.grid, model, pair, view.per_item):
                noisy = sum(bool(run.noisy) for run in view.grid.measured(model, pair))
                found.append(CellTime(model, pair, median(runs), estimate(runs), noisy))
    return found


class PhaseMeans(NamedTuple):
    runs: int
    """Those that have phases, and items where the means are per item."""
    phases_s: dict[str, float]


def mean_phases(grid: Grid, model: str, pair: Pair, per_item: bool = False) -> PhaseMeans:
    """Means over runs, because means of parts add up to the mean of the whole; what no phase covers is named."""
    runs = [(run, (run.items or 0) if per_item else 1.0) for run in grid.measured(model, pair) if run.phases_s]
    runs = [(run, share) for run, share in runs if share > 0]
    if not runs:
        return PhaseMeans(0, {})
    names = dict.fromkeys(name for run, _ in runs for name in run.phases_s)
    phases = {name: fmean(run.phases_s.get(name, 0.0) / share for run, share in runs) for name in names}
    left = fmean((run.end_to_end_s or 0.0) / share for run, share in runs) - sum(phases.values())
    return PhaseMeans(len(runs), phases | ({UNACCOUNTED: left} if left > 0 else {}))


def first_batches(grid: Grid, model: str) -> dict[Pair, Estimate]:
    """How long the first batch took, by pair; pairs without a reading are left out."""
    found = {}
    for pair in grid.pairs:
        waits = [run.first_batch_s for run in grid.measured(model, pair) if run.first_batch_s]
        if waits:
            found[pair] = estimate(waits)._replace(value=median(waits))
    return found
