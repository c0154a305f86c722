"""Which pair of batch size and workers suits all models: regret under three objectives, and top-n counts.

regret(c) = mean over models m of (t(m, c) - best(m)) / best(m), where t is the median over runs and best is over all
cells of the grid. Beside it the worst model's regret and the total time: the best cell differs between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from analysis.grids import Grid, GridRun, Pair

TOP = 3
Times = Mapping[str, Mapping[Pair, float]]
"""Model -> pair -> seconds."""


class Missing(NamedTuple):
    """A cell without a time for one model, and why."""

    model: str
    pair: Pair
    reason: str


class PairRegret(NamedTuple):
    """A pair over all models. Without a time for every model it is not eligible: its figures are None."""

    pair: Pair
    mean_regret: float | None
    worst_regret: float | None
    worst_model: str | None
    total_s: float | None
    top_n: int
    """Models for which it is among the n fastest; ties at the n-th place all count."""
    missing_models: tuple[str, ...] = ()

    @property
    def eligible(self) -> bool:
        return self.mean_regret is not None


def run_times(grid: Grid, model: str, pair: Pair, per_item: bool = False) -> list[float]:
    """One figure per run: end to end, or divided by its items where they are known."""
    runs = grid.measured(model, pair)
    if not per_item:
        return [run.end_to_end_s for run in runs if run.end_to_end_s is not None]
    return [run.end_to_end_s / run.items for run in runs
            if run.end_to_end_s is not None and run.items is not None and run.items > 0]


def median_times(grid: Grid, models: Iterable[str], per_item: bool = False) -> dict[str, dict[Pair, float]]:
    return {model: {pair: median(times) for pair in grid.pairs if (times := run_times(grid, model, pair, per_item))}
            for model in models}


def rank_pairs(times: Times, pairs: Iterable[Pair], top: int = TOP) -> list[PairRegret]:
    """Best mean regret first; pairs that are not eligible last, by batch size and workers."""
    best = {model: min(cells.values()) for model, cells in times.items() if cells}
    fast = {model: fastest(cells, top) for model, cells in times.items()}
    ranked = []
    for pair in pairs:
        count = sum(pair in found for found in fast.values())
        if absent := tuple(model for model, cells in times.items() if pair not in cells):
            ranked.append(PairRegret(pair, None, None, None, None, count, absent))
            continue
        if not times:
            continue
        regrets = {model: (cells[pair] - best[model]) / best[model] for model, cells in times.items()}
        worst = max(regrets, key=lambda model: regrets[model])
        ranked.append(PairRegret(pair, fmean(regrets.values()), regrets[worst], worst,
                                 sum(cells[pair] for cells in times.values()), count))
    return sorted(ranked, key=lambda row: (row.mean_regret is None, row.mean_regret or 0.0, row.pair))


def fastest(cells: Mapping[Pair, float], top: int) -> set[Pair]:
    """The n fastest; whoever ties with the last of them is among them."""
    if not cells or top < 1:
        return set()
    limit = sorted(cells.values())[min(top, len(cells)) - 1]
    return {pair for pair, seconds in cells.items() if seconds <= limit}


def best_by_objective(ranked: Sequence[PairRegret]) -> dict[str, PairRegret]:
    """The best eligible pair under each objective; nothing when no pair is eligible."""
    eligible = [row for row in ranked if row.eligible]
    if not eligible:
        return {}
    return {name: min(eligible, key=lambda row: (getattr(row, name), row.pair))
            for name in ("mean_regret", "worst_regret", "total_s")}


def list_missing(grid: Grid, models: Iterable[str], per_item: bool = False) -> list[Missing]:
    """Every cell without a time, or with none per item: how its runs ended, or that there was none."""
    found = []
    for model in models:
        for pair in grid.pairs:
            if run_times(grid, model, pair, per_item):
                continue
            reasons = dict.fromkeys(map(_why_missing, grid.runs.get((model, pair), [])))
            found.append(Missing(model, pair, "; ".join(reasons) or "no run"))
    return found


def _why_missing(run: GridRun) -> str:
    if run.counts:
        return "ok, but its number of items is unknown"
    if run.reason:
        return f"{run.status}: {run.reason}"
    return "ok, but without an end-to-end time" if run.status == "ok" else run.status
