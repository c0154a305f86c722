"""What blocks cost on this machine: memory by torch's allocator, seconds by the clock. Measured before a search.

torch is loaded when called. The CUDA path has not run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from engine.allocator_peak import allocator_peak
from engine.search_tree import BlockCost
from engine.snapshots import SnapshotStore, StoredModel

if TYPE_CHECKING:
    import torch

FEW, MANY = 8, 64
"""Items in the two calls whose difference is the cost of an item; what is left is the cost of a call."""
CALLS = 3
PAGE = 4096


def peak_bytes_of(act: Callable[[], object], device: str) -> int:
    """The most that torch's allocator gave out during an act beyond what it had given out before."""
    import torch

    before = torch.cuda.memory_allocated(device) if device.startswith("cuda") else 0
    with allocator_peak(device) as peak:
        act()
    return int((peak.allocated_bytes or 0) - before)


def measure_costs(store: SnapshotStore, models: Sequence[StoredModel], modules: dict[str, torch.nn.Module],
                  items: torch.Tensor, device: str, alive: Callable[[], None]) -> dict[str, BlockCost]:
    """By block hash. Each kind of block is measured once, on activations that the blocks before it made.

    Loading is measured from the file cache: what a first reading from the disk takes is not known beforehand.
    """
    import torch

    by_kind: dict[str, BlockCost] = {}
    few, many = (torch.cat([items[:1]] * count).to(device) for count in (FEW, MANY))
    for model in models:
        if all(block.kind in by_kind for block in model.blocks):
            continue
        inputs = few, many
        for block in model.blocks:
            module = modules[block.kind]
            outputs = module(inputs[0]), module(inputs[1])
            if block.kind not in by_kind:
                by_kind[block.kind] = _measure(module, inputs, device, store, block.hash)
                alive()
            inputs = outputs
    return {block.hash: by_kind[block.kind] for model in models for block in model.blocks}


def _measure(module: torch.nn.Module, inputs: tuple[torch.Tensor, torch.Tensor], device: str, store: SnapshotStore,
             block: str) -> BlockCost:
    kept: list[torch.Tensor] = []  # the result must not be freed inside the act: its bytes are counted apart
    beside = []
    for given in inputs:
        peak = peak_bytes_of(partial(_keep, kept, module, given), device)
        beside.append(max(peak - kept[-1].nbytes, 0))
    work = max(-(-(beside[1] - beside[0]) // (MANY - FEW)), 0)
    fixed = max(beside[0] - work * FEW, beside[1] - work * MANY, 0)
    # The allocator rounds every block up; with one call of few items that shows.
    fixed += PAGE
    few_s, many_s = (_time(partial(module, given), device) for given in inputs)
    item_s = max((many_s - few_s) / (MANY - FEW), 0.0)
    return BlockCost(kept[-1].nbytes // MANY, work, fixed, item_s, max(few_s - FEW * item_s, 0.0),
                     _time(lambda: store.load(block), "cpu"), store.size_bytes(block))


def _keep(kept: list[torch.Tensor], module: torch.nn.Module, given: torch.Tensor) -> None:
    kept.append(module(given))


def _time(act: Callable[[], object], device: str) -> float:
    from engine.devices import settle

    times = []
    for _ in range(CALLS):
        start = perf_counter()
        act()
        settle(device)
        times.append(perf_counter() - start)
    return median(times)
