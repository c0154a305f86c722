"""What training needs memory for, and what needing less costs: cells of the memory experiment against plain training,
against depth and against time. A cell is a model under a method; the unit of every interval is the run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from analysis.comparison import Estimate, Ratio, compare, estimate

CATEGORIES = ("parameters", "buffers", "gradients", "optimizer_state", "activations", "temporaries")
METHODS = ("plain", "checkpoint", "selective", "reversible")
IN_GROUPS = ("checkpoint", "selective")
"""Methods that heed blocks_per_checkpoint; the others are the same with any."""
NO_PART_OF_THE_SETTING = {"model", "method", "blocks_per_checkpoint", "batches", "warm_up_batches", "seed",
                          "profile"}


class MemoryRun(NamedTuple):
    """One ok run. What it did not record is None. `place` is its environment, or `imported`."""

    run_id: str
    params: Mapping[str, Any]
    place: str
    peak_bytes: float
    predicted_bytes: float | None
    saved_bytes: float | None
    parameters: float | None
    batch_s: float | None
    noisy: bool | None
    reserved_bytes: float | None = None
    """What the allocator had taken from the device at its peak; a CPU's keeps no account."""
    resident_bytes: float | None = None
    """How much resident memory grew in the process that measured the peak."""

    @property
    def model(self) -> str:
        return str(self.params.get("model"))

    @property
    def method(self) -> str:
        return str(self.params.get("method", "plain"))

    @property
    def blocks(self) -> int:
        return int(self.params.get("blocks_per_checkpoint", 1)) if self.method in IN_GROUPS else 1

    @property
    def setting(self) -> str:
        """What must agree for two runs to be compared."""
        rest = {name: value for name, value in self.params.items() if name not in NO_PART_OF_THE_SETTING}
        return json.dumps({**rest, "environment": self.place}, sort_keys=True)

    @property
    def error(self) -> float | None:
        """Of the prediction, as a share of what was measured."""
        return None if self.predicted_bytes is None else self.predicted_bytes / self.peak_bytes - 1


class MemoryCell(NamedTuple):
    """A model under a method, over its runs of one setting."""

    model: str
    method: str
    blocks: int
    runs: Sequence[MemoryRun]

    @property
    def name(self) -> str:
        """Stays the same when the sweep grows: links know the cell by it."""
        return f"{self.model}.{self.method}.{self.blocks}"

    @property
    def peak(self) -> Estimate:
        return estimate([run.peak_bytes for run in self.runs])

    @property
    def times_s(self) -> list[float]:
        return [run.batch_s for run in self.runs if run.batch_s]

    @property
    def batch(self) -> Estimate | None:
        return estimate(self.times_s) if self.times_s else None

    @property
    def saved_bytes(self) -> float | None:
        """Shapes decide it, so that every run of a cell has the same."""
        return next((run.saved_bytes for run in self.runs if run.saved_bytes is not None), None)

    @property
    def reserved_bytes(self) -> float | None:
        """Median over runs, as below."""
        return median(known) if (known := [run.reserved_bytes for run in self.runs
                                           if run.reserved_bytes is not None]) else None

    @property
    def resident_bytes(self) -> float | None:
        return median(known) if (known := [run.resident_bytes for run in self.runs
                                           if run.resident_bytes is not None]) else None

    @property
    def noisy_runs(self) -> int:
        return sum(bool(run.noisy) for run in self.runs)

    @property
    def layers(self) -> int | None:
        return count_layers(self.model)


class Saving(NamedTuple):
    """A method against plain training of the same model in the same setting."""

    cell: MemoryCell
    peak: Ratio
    time: Ratio | None


class Growth(NamedTuple):
    """Saved activations of a family of networks under one method, from the shallowest to the deepest."""

    family: str
    method: str
    blocks: int
    shallowest: MemoryCell
    deepest: MemoryCell
    fold: float
    spread: float
    """The largest over the smallest of all depths, less one."""


def group_cells(runs: Iterable[MemoryRun]) -> list[MemoryCell]:
    """Cells of one setting, by depth or name, then plain first."""
    groups: dict[tuple[str, str, int], list[MemoryRun]] = {}
    for run in runs:
        groups.setdefault((run.model, run.method, run.blocks), []).append(run)
    cells = [MemoryCell(*key, members) for key, members in groups.items()]
    return sorted(cells, key=lambda cell: (family_of(cell.model) or cell.model, cell.layers or 0, cell.model,
                                           _place(cell.method), cell.blocks))


def _place(method: str) -> int:
    return METHODS.index(method) if method in METHODS else len(METHODS)


def find_savings(cells: Sequence[MemoryCell]) -> list[Saving]:
    plain = {cell.model: cell for cell in cells if cell.method == "plain"}
    found = []
    for cell in cells:
        base = plain.get(cell.model)
        if base is None or cell is base:
            continue
        time = compare(cell.times_s, base.times_s) if cell.times_s and base.times_s else None
        found.append(Saving(cell, compare([run.peak_bytes for run in cell.runs],
                                          [run.peak_bytes for run in base.runs]), time))
    return found


def count_layers(model: str) -> int | None:
    """Weighted layers on the longest path. A RevNet of n units per stage has 3 n units of four convolutions, a stem and
    a linear layer; ResNets are named by theirs."""
    if found := re.fullmatch(r"revnet_(\d+)", model):
        return 12 * int(found[1]) + 2
    found = re.fullmatch(r"(?:adjusted_)?resnet(\d+)", model)
    return int(found[1]) if found else None


def family_of(model: str) -> str | None:
    for beginning, family in (("revnet_", "RevNet"), ("adjusted_resnet", "Adjusted ResNet"), ("resnet", "ResNet")):
        if model.startswith(beginning) and count_layers(model) is not None:
            return family
    return None


def find_growths(cells: Sequence[MemoryCell]) -> list[Growth]:
    """How saved activations grow with depth, where at least two depths are known."""
    groups: dict[tuple[str, str, int], dict[int, MemoryCell]] = {}
    for cell in cells:
        family = family_of(cell.model)
        if family and cell.saved_bytes and cell.layers:
            groups.setdefault((family, cell.method, cell.blocks), {})[cell.layers] = cell
    found = []
    for (family, method, blocks), members in groups.items():
        if len(members) > 1:
            ordered = [members[layers] for layers in sorted(members)]
            saved = [cell.saved_bytes for cell in ordered if cell.saved_bytes]
            found.append(Growth(family, method, blocks, ordered[0], ordered[-1], saved[-1] / saved[0],
                                max(saved) / min(saved) - 1))
    return found


def find_front(cells: Sequence[MemoryCell]) -> list[MemoryCell]:
    """Cells that no other beats in both peak and time, by their means; fastest first."""
    timed = [(cell.batch.value, cell.peak.value, cell) for cell in cells if cell.batch]
    front = [cell for time_s, peak, cell in timed
             if not any(t <= time_s and p <= peak and (t < time_s or p < peak) for t, p, _ in timed)]
    return sorted(front, key=lambda cell: cell.batch.value if cell.batch else 0)


def is_shown_slower(cell: MemoryCell, front: Sequence[MemoryCell]) -> bool:
    """Whether the runs show that some cell of the front with no larger peak is faster; means alone do not."""
    return any(other.peak.value <= cell.peak.value and compare(cell.times_s, other.times_s).verdict == "higher"
               for other in front if other.times_s)
