"""How long will it take? Only from runs measured under the same conditions, as a range and never a promise."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

HOW = ("workers", "threads", "seed", "prefetch_factor", "pin_memory")
"""Parameters that change how the work is done, not how much there is."""


class PastRun(NamedTuple):
    """An ok run of the same experiment on the same machine with the same libraries."""

    cell_key: str
    work: str
    wall_s: float


def work_of(params: Mapping[str, Any]) -> str:
    """What has to be done, whatever it is done with: cells of the same work can be judged by each other.

    With a number of images given the batch size only cuts them up; with a number of batches it is the work itself.
    """
    how = (*HOW, "batch_size") if params.get("images") is not None else HOW
    return json.dumps({name: value for name, value in params.items() if name not in how}, sort_keys=True)


class Expectation(NamedTuple):
    low_s: float
    high_s: float
    """If every run takes as long as its shortest, or its longest, predecessor."""
    cells_known: int
    """Cells that have been measured before, or whose work has with other workers and the like."""
    exact: int
    """Cells that have been measured before."""
    runs_used: int
    cells_repeated: int = 0
    """Cells with at least two predecessors, so that shortest and longest say something about the spread."""


def expect(cells: Sequence[tuple[str, str]], repeats: int, past: Iterable[PastRun]) -> Expectation:
    """`cells` are keys with their work. A cell is expected from its own past, else from that of the same work."""
    runs = list(past)
    by_cell, by_work = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for number, run in enumerate(runs):
        by_cell[run.cell_key].append(number)
        by_work[run.work].append(number)
    low = high = 0.0
    known = exact = repeated = 0
    used: set[int] = set()
    for key, work in cells:
        basis = by_cell.get(key) or by_work.get(work)
        if basis:
            known, exact, repeated = known + 1, exact + (key in by_cell), repeated + (len(basis) > 1)
            used.update(basis)
            times = [runs[number].wall_s for number in basis]
            low, high = low + min(times) * repeats, high + max(times) * repeats
    return Expectation(low, high, known, exact, len(used), repeated)
