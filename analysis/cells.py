"""Cells of a sweep side by side: time per item, so that cells with different batch sizes or lengths can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

UNACCOUNTED = "unaccounted"


class RunTimes(NamedTuple):
    """One ok run: its measured window, the items in it and the total of each phase."""

    cell: str
    items: float | None
    end_to_end_s: float | None
    phases_s: Mapping[str, float]
    noisy: bool | None = None
    run_id: str = ""


class CellTimes(NamedTuple):
    """A cell over its runs, in seconds per item. Means, because means of parts add up to the mean of the whole."""

    cell: str
    runs: int
    noisy_runs: int
    item_s: float
    low_s: float
    high_s: float
    """Lowest and highest run: describes these runs, promises nothing about the next one."""
    phases_s: dict[str, float]
    """By phase, `unaccounted` being what no phase covered. Phases on a device can overlap: then they exceed item_s."""
    values: Mapping[str, Any] = {}
    """The parameters that set it apart from the other cells of its sweep."""
    run_ids: tuple[str, ...] = ()


class Spread(NamedTuple):
    """The fastest and the slowest of some cells, and how far apart they are."""

    fastest: CellTimes
    slowest: CellTimes
    ratio: float
    apart: bool
    """Whether no run of the fastest was as slow as any run of the slowest; with one run each nothing is known."""


def time_cells(runs: Iterable[RunTimes]) -> list[CellTimes]:
    """Cells in the order of their first run. Runs without items or without a measured window are left out; zero or less
    was not measured."""
    grouped: dict[str, list[RunTimes]] = {}
    for run in runs:
        if (run.items or 0) > 0 and (run.end_to_end_s or 0) > 0:
            grouped.setdefault(run.cell, []).append(run)
    return [_time_cell(cell, members) for cell, members in grouped.items()]


def _time_cell(cell: str, runs: list[RunTimes]) -> CellTimes:
    per_item = [run.end_to_end_s / run.items for run in runs if run.end_to_end_s is not None and run.items]
    names = dict.fromkeys(name for run in runs for name in run.phases_s)
    phases = {name: sum(run.phases_s.get(name, 0.0) / run.items for run in runs if run.items) / len(runs)
              for name in names}
    item_s = sum(per_item) / len(per_item)
    left_s = item_s - sum(phases.values())
    if left_s > 0:
        phases[UNACCOUNTED] = left_s
    noisy = sum(bool(run.noisy) for run in runs)
    return CellTimes(cell, len(runs), noisy, item_s, min(per_item), max(per_item), phases,
                     run_ids=tuple(run.run_id for run in runs if run.run_id))


def compare_ends(cells: list[CellTimes]) -> Spread | None:
    """Fastest against slowest; None with fewer than two cells or nothing measured."""
    if len(cells) < 2:
        return None
    fastest, slowest = min(cells, key=lambda c: c.item_s), max(cells, key=lambda c: c.item_s)
    if fastest.item_s <= 0:
        return None
    apart = fastest.runs > 1 and slowest.runs > 1 and fastest.high_s < slowest.low_s
    return Spread(fastest, slowest, slowest.item_s / fastest.item_s, apart)
