"""Which runs may be compared as one grid of batch size x workers: those that differ in nothing else but the model.

Another parameter, another environment or another imported sweep makes another grid: nobody knows whether two files
came from one machine, and pooling would show the machines' difference as an effect of the batch size. Data formats are
grids of their own that are shown side by side.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from analysis.lasting_ids import lasting_id

AXES = ("model", "batch_size", "workers")
FORMAT = "format"
"""How the images are stored: its values are put side by side."""
IMPORTED = "imported "
"""How the place of an imported run begins; its sweep's id follows."""
ONLY_MODEL = "the only model"
SAME_WORK = 0.01
"""Cells whose number of items differs by more than this share did not do the same work."""
NOT_BEGUN = "not begun"
"""The status of a run that was planned and never started: no journal has it."""
MOST_PLANNED = 100_000
"""Planned cells that are looked at: a specification from elsewhere may span more than can be."""


class Pair(NamedTuple):
    """A cell for all models: batch size and workers. Written 128/12."""

    batch_size: int
    workers: int

    def __str__(self) -> str:
        return f"{self.batch_size}/{self.workers}"


class GridRun(NamedTuple):
    """One run as a grid needs it. `place` is the environment it was measured in, or `imported` and its sweep."""

    run_id: str
    status: str
    reason: str
    noisy: bool | None
    place: str
    params: Mapping[str, Any]
    end_to_end_s: float | None
    first_batch_s: float | None = None
    items: float | None = None
    phases_s: Mapping[str, float] = {}
    experiment: str = ""
    sweep_id: str = ""
    cores: float | None = None
    """That it was allowed to use."""
    batches: float | None = None
    """Measured, over all epochs."""

    @property
    def counts(self) -> bool:
        """Whether it has a time to be compared: zero or less was not measured."""
        return self.status == "ok" and self.end_to_end_s is not None and 0 < self.end_to_end_s < float("inf")


class Plan(NamedTuple):
    """A sweep that has not come to the end of its plan."""

    sweep_id: str
    name: str
    experiment: str
    status: str
    planned_runs: int
    ended_runs: int
    spec: Mapping[str, Any]
    begun: Sequence[Mapping[str, Any]]
    """What was asked of every run that it began, deleted ones too."""


@dataclass
class Grid:
    """Runs that differ in model, batch size and workers only."""

    place: str
    setting: dict[str, Any]
    """The value of every other parameter."""
    experiment: str = ""
    runs: dict[tuple[str, Pair], list[GridRun]] = field(default_factory=dict)

    @property
    def models(self) -> list[str]:
        return sorted({model for model, _ in self.runs})

    @property
    def pairs(self) -> list[Pair]:
        return sorted({pair for _, pair in self.runs})

    @property
    def format(self) -> str:
        return str(self.setting.get(FORMAT, "jpeg"))

    @property
    def imported_sweep(self) -> str | None:
        """The sweep it was imported as; None for runs of this lab."""
        return self.place.removeprefix(IMPORTED) if self.place.startswith(IMPORTED) else None

    @property
    def cores(self) -> float | None:
        """That its runs were allowed to use; None where nobody knows."""
        return next((run.cores for runs in self.runs.values() for run in runs if run.cores), None)

    def measured(self, model: str, pair: Pair) -> list[GridRun]:
        return [run for run in self.runs.get((model, pair), []) if run.counts]

    def count(self, noisy_only: bool = False) -> int:
        return sum(run.counts and (not noisy_only or bool(run.noisy)) for runs in self.runs.values() for run in runs)

    def count_lost(self) -> int:
        """Runs without a time to compare, those never begun among them."""
        return sum(not run.counts for runs in self.runs.values() for run in runs)

    def count_without_items(self) -> int:
        """Runs that have a time, but none per item."""
        return sum(run.counts and (run.items or 0) <= 0 for runs in self.runs.values() for run in runs)

    def items(self) -> tuple[float, float] | None:
        """Fewest and most items of a run, where runs say it."""
        known = [run.items or 0.0 for runs in self.runs.values() for run in runs if run.counts and (run.items or 0) > 0]
        return (min(known), max(known)) if known else None

    def epoch_batches(self) -> dict[Pair, float]:
        """The fewest batches that a run of a pair measured in an epoch, where runs say it."""
        found: dict[Pair, float] = {}
        for (_, pair), runs in self.runs.items():
            for run in runs:
                if run.counts and run.batches:
                    found[pair] = min(run.batches / self.setting.get("epochs", 1), found.get(pair, run.batches))
        return dict(sorted(found.items()))

    @property
    def unequal_work(self) -> bool:
        """Whether larger batches meant more images: then end-to-end times compare different work."""
        items = self.items()
        return items is not None and items[1] > items[0] * (1 + SAME_WORK)


def never_begun(runs: Sequence[GridRun], plans: Iterable[Plan],
                defaults: Mapping[str, Mapping[str, Any]]) -> list[GridRun]:
    """What is planned and was never begun, as runs without a time: without them a whole model could be missing and
    nothing would say so. They belong where their sweep's last run was measured; `runs` are in the order of measuring.
    Of a sweep that has no run at all nobody knows where."""
    places = {run.sweep_id: run.place for run in runs}
    found = []
    for plan in plans:
        if plan.sweep_id not in places:
            continue
        usual = defaults.get(plan.experiment, {})
        begun = Counter(_key({**usual, **asked}) for asked in plan.begun)
        grid, shared = plan.spec.get("grid", {}), plan.spec.get("fixed", {})
        for values in itertools.islice(itertools.product(*grid.values()), MOST_PLANNED):
            cell = {**usual, **shared, **dict(zip(grid, values, strict=True))}
            for _ in range(plan.spec.get("repeats", 1) - begun[_key(cell)]):
                found.append(GridRun("", NOT_BEGUN, "", None, places[plan.sweep_id], cell, None,
                                     experiment=plan.experiment, sweep_id=plan.sweep_id))
    return found


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def split_grids(runs: Iterable[GridRun], defaults: Mapping[str, Mapping[str, Any]]) -> list[Grid]:
    """The grids among some runs, the one with the most times first. `defaults`, by experiment, fill in what older runs
    do not name."""
    grids: dict[str, Grid] = {}
    for run in runs:
        params = {**defaults.get(run.experiment, {}), **run.params}
        pair = Pair(params.get("batch_size", 0), params.get("workers", -1))
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in pair) or pair < (1, 0):
            continue
        setting = {name: value for name, value in params.items() if name not in AXES}
        key = _key([run.experiment, run.place, setting])
        grid = grids.setdefault(key, Grid(run.place, setting, run.experiment))
        grid.runs.setdefault((str(params.get("model") or ONLY_MODEL), pair), []).append(run)
    return sorted(grids.values(), key=lambda grid: (-grid.count(), -grid.count_lost()))


def varying_settings(grids: Sequence[Grid]) -> list[str]:
    """Parameters that tell some grids apart, in the order of the experiment's own list."""
    names = dict.fromkeys(name for grid in grids for name in grid.setting)
    return [name for name in names
            if len({_key(grid.setting.get(name)) for grid in grids}) > 1]


def beside_each_other(grids: Sequence[Grid]) -> list[list[Grid]]:
    """Grids that differ in the data format only, in one group: they are shown side by side."""
    groups: dict[str, list[Grid]] = {}
    for grid in grids:
        groups.setdefault(group_id(grid), []).append(grid)
    return [sorted(group, key=lambda grid: (grid.format != "jpeg", grid.format)) for group in groups.values()]


def compares_per_item(group: Sequence[Grid]) -> bool:
    """Whether grids that stand side by side compare like with like only per item."""
    return any(grid.unequal_work for grid in group)


def group_id(grid: Grid) -> str:
    """The same for grids that stand side by side, whatever others there are: links name it."""
    rest = {name: value for name, value in grid.setting.items() if name != FORMAT}
    return lasting_id(grid.experiment, grid.place, rest)
