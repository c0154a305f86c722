"""The allocator's own peak: torch.cuda's counters on a GPU, the profiler's memory events on a CPU, exact to the byte.

Resident memory is another number: it has torch's code, freed pages and whatever else the process holds.
The CUDA path has not run on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from engine.devices import forget_peaks


class Allocation(NamedTuple):
    """One event of the CPU allocator: bytes are negative when they are given back."""

    time_ns: int
    address: int
    size_bytes: int


class Peak:
    """Filled in when the watched block has ended, also when it failed."""

    allocated_bytes: int | None = None
    """The most that tensors held at once, of what was allocated inside the block; on a GPU of all that is there."""
    reserved_bytes: int | None = None
    """What CUDA's caching allocator took from the device. The CPU's has no such reserve."""
    events: tuple[Allocation, ...] = ()


@contextmanager
def allocator_peak(device: str) -> Iterator[Peak]:
    """Watch what the block allocates. On a CPU it is profiled and therefore slow: never time it."""
    peak = Peak()
    if device.startswith("cuda"):
        with _cuda_peak(device, peak):
            yield peak
    else:
        with _cpu_peak(peak):
            yield peak


@contextmanager
def _cuda_peak(device: str, peak: Peak) -> Iterator[None]:
    import torch

    forget_peaks(device)
    try:
        yield
    finally:
        torch.cuda.synchronize(device)
        peak.allocated_bytes = torch.cuda.max_memory_allocated(device)
        peak.reserved_bytes = torch.cuda.max_memory_reserved(device)


@contextmanager
def _cpu_peak(peak: Peak) -> Iterator[None]:
    from torch.autograd.profiler import profile

    # Otherwise the profiler tells the run's log that it found no GPU, as an error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    # What torch.profiler.profile is made of: that one imports the compiler first, which takes seconds in every run.
    profiler = profile(profile_memory=True)
    try:
        with profiler:
            yield
    finally:
        peak.events = tuple(_allocations(profiler))
        peak.allocated_bytes = highest_bytes(peak.events)


def _allocations(profiler: Any) -> list[Allocation]:
    """In the order they happened. Only what was allocated under this profiler counts, so an older block that is freed
    does not lower the sum."""
    from torch._C._profiler import _EventType

    found: list[Allocation] = []
    branches = list(profiler.kineto_results.experimental_event_tree())
    while branches:
        branch = branches.pop()
        branches.extend(branch.children)
        kind, fields = branch.typed
        if kind == _EventType.Allocation and fields.device.type == "cpu":
            found.append(Allocation(branch.start_time_ns, fields.ptr, fields.alloc_size))
    found.sort(key=lambda event: event.time_ns)
    held: set[int] = set()
    kept = []
    for event in found:
        if event.size_bytes > 0:
            held.add(event.address)
        elif event.address not in held:
            continue
        else:
            held.remove(event.address)
        kept.append(event)
    return kept


def highest_bytes(events: tuple[Allocation, ...]) -> int:
    highest = held = 0
    for event in events:
        held += event.size_bytes
        highest = max(highest, held)
    return highest
