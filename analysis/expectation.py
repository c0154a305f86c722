"""How long will it take? Only from runs measured under the same conditions, as a range and never a promise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class PastRun(NamedTuple):
    """An ok run of the same experiment on the same machine with the same libraries."""

    cell_key: str
    model: str | None
    wall_s: float


class Expectation(NamedTuple):
    low_s: float
    high_s: float
    """If every run takes as long as its shortest, or its longest, predecessor."""
    cells_known: int
    """Cells that have been measured before, or whose model has."""
    exact: int
    """Cells that have been measured before."""
    runs_used: int


def expect(cells: Sequence[tuple[str, str | None]], repeats: int, past: Iterable[PastRun]) -> Expectation:
    """`cells` are keys with their models. A cell is expected from its own past, else from its model's."""
    runs = list(past)
    by_cell, by_model = defaultdict[str, list[int]](list), defaultdict[str | None, list[int]](list)
    for number, run in enumerate(runs):
        by_cell[run.cell_key].append(number)
        by_model[run.model].append(number)
    low = high = 0.0
    known = exact = 0
    used: set[int] = set()
    for key, model in cells:
        basis = by_cell.get(key) or by_model.get(model)
        if basis:
            known, exact = known + 1, exact + (key in by_cell)
            used.update(basis)
            times = [runs[number].wall_s for number in basis]
            low, high = low + min(times) * repeats, high + max(times) * repeats
    return Expectation(low, high, known, exact, len(used))
