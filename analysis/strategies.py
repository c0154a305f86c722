"""Search strategies against each other: time by group, speed-up over exhaustive, work saved. The unit is the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean, median
from typing import NamedTuple

from analysis.comparison import Estimate, Ratio, compare, estimate

BASELINE = "exhaustive"
ORDER = ("exhaustive", "halving", "shared_prefix", "shared_prefix_halving")
STORES = ("top_layers", "quarter", "half")
UNACCOUNTED = "unaccounted"


class SearchRun(NamedTuple):
    """One ok run of a search. `setting` is everything that was asked except strategy and store."""

    snapshots: str
    setting: str
    strategy: str
    seconds: float
    phases_s: Mapping[str, float]
    block_items: float
    loads: float
    models: int
    items: int
    block_item_s: float | None = None
    block_call_s: float | None = None
    """What a block costs per item and per call, measured before the search."""
    bound_block_items: float | None = None
    activation_peak_bytes: float | None = None
    predicted_peak_bytes: float | None = None
    kept_peak_bytes: float | None = None
    noisy: bool | None = None
    resumed: bool = False
    """Part of its work was done by an earlier attempt: its time is not that of a search."""
    run_id: str = ""
    chunk_items: int | None = None
    """The most items that were under way at once."""
    priced_s: float | None = None
    """Inference as the plan was priced with block costs, before it was executed."""


class StrategyTimes(NamedTuple):
    """One strategy on one store over its runs."""

    snapshots: str
    setting: str
    strategy: str
    seconds: Estimate
    phases_s: dict[str, float]
    """Means over runs, so that they add up to the mean of the whole; `unaccounted` is what no phase covers."""
    overlap_s: float
    """By how much the phases add up to more than the mean of the whole: on a device they can run at the same time."""
    block_items: float
    bound_block_items: float | None
    loads: float
    """Means over runs, as runs may have drawn different stores; None where a run does not tell."""
    activation_peak_bytes: float | None
    predicted_peak_bytes: float | None
    kept_peak_bytes: float | None
    """The highest over runs."""
    models: int
    items: int
    block_item_s: float | None
    block_call_s: float | None
    """Medians over runs."""
    runs: int
    noisy_runs: int
    faster: Ratio | None
    """Exhaustive's time over this one's; None for exhaustive itself and where it was not measured."""
    less_work: float | None
    """Exhaustive's block-item pairs over this one's."""
    run_ids: tuple[str, ...] = ()
    chunk_items: float | None = None
    """Median over runs."""
    priced_s: float | None = None
    """Mean over runs, to be held against the phase `inference`; None where a run does not tell."""


def compare_strategies(runs: Iterable[SearchRun]) -> list[StrategyTimes]:
    """By store and setting, strategies in a fixed order. Resumed runs are left out."""
    grouped: dict[tuple[str, str, str], list[SearchRun]] = {}
    for run in runs:
        if not run.resumed and run.seconds > 0:
            grouped.setdefault((run.snapshots, run.setting, run.strategy), []).append(run)
    found = []
    for (snapshots, setting, strategy), members in grouped.items():
        base = grouped.get((snapshots, setting, BASELINE))
        faster = less = None
        if base and strategy != BASELINE:
            faster = compare([run.seconds for run in base], [run.seconds for run in members])
            less = fmean(run.block_items for run in base) / fmean(run.block_items for run in members)
        names = dict.fromkeys(name for run in members for name in run.phases_s)
        phases = {name: fmean(run.phases_s.get(name, 0.0) for run in members) for name in names}
        left = fmean(run.seconds for run in members) - sum(phases.values())
        if left > 0:
            phases[UNACCOUNTED] = left
        found.append(StrategyTimes(
            snapshots, setting, strategy, estimate([run.seconds for run in members]), phases, max(-left, 0.0),
            fmean(run.block_items for run in members), _mean_of_all(run.bound_block_items for run in members),
            fmean(run.loads for run in members), _highest(run.activation_peak_bytes for run in members),
            _highest(run.predicted_peak_bytes for run in members), _highest(run.kept_peak_bytes for run in members),
            members[0].models, members[0].items, _median(run.block_item_s for run in members),
            _median(run.block_call_s for run in members), len(members), sum(bool(run.noisy) for run in members),
            faster, less, tuple(run.run_id for run in members if run.run_id),
            _median(run.chunk_items for run in members), _mean_of_all(run.priced_s for run in members)))
    return sorted(found, key=lambda cell: (cell.setting, _place(cell.snapshots, STORES), cell.snapshots,
                                           _place(cell.strategy, ORDER)))


class Winner(NamedTuple):
    """The best model of a search."""

    model: str
    exhaustive_rank: int | None
    """From 1, equal scores alike; None where exhaustive search did not rank it."""


def find_winners(rankings: Mapping[str, Mapping[str, float]]) -> dict[str, Winner]:
    """By strategy. `rankings` are scores by model, best first, of searches over the same models and items."""
    scores = rankings.get(BASELINE, {})
    ranks = {model: 1 + sum(other > score for other in scores.values()) for model, score in scores.items()}
    best = {strategy: next(iter(ranking)) for strategy, ranking in rankings.items() if ranking}
    return {strategy: Winner(model, ranks.get(model)) for strategy, model in best.items()}


def _mean_of_all(values: Iterable[float | None]) -> float | None:
    """None where one is not known: the mean of the others is not that of all."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return fmean(known) if known and len(known) == len(listed) else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _place(name: str, order: tuple[str, ...]) -> int:
    return order.index(name) if name in order else len(order)
