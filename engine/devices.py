"""Devices of a run process: which one takes effect, and CUDA's events for the clock. Imports torch when called.

The CUDA paths are written for a real GPU and have not run on one; tests drive them through a stand-in event API.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from engine.clock import Device
from engine.params import Params


class StreamEvent:
    """A CUDA event that is recorded on its own device's stream, whichever device is the current one."""

    def __init__(self, event: Any, stream: Callable[[], Any]) -> None:
        self._event, self._stream = event, stream

    def record(self) -> None:
        self._event.record(self._stream())

    def query(self) -> bool:
        return bool(self._event.query())

    def elapsed_time(self, end_event: StreamEvent) -> float:
        return float(self._event.elapsed_time(end_event._event))


class CudaDevice:
    """A CUDA device as the clock sees it: events on its current stream, and a wait for all of its work."""

    def __init__(self, index: int) -> None:
        import torch

        self._cuda = torch.cuda
        self._index = index

    def event(self) -> StreamEvent:
        return StreamEvent(self._cuda.Event(enable_timing=True), lambda: self._cuda.current_stream(self._index))

    def synchronize(self) -> None:
        self._cuda.synchronize(self._index)


def begin_torch(params: Params, device: str) -> str:
    """Threads, seed and device as asked; returns the device that takes effect. First in every experiment's run."""
    import torch

    from engine.recorder import Skip

    if params.threads:
        torch.set_num_threads(params.threads)
    torch.manual_seed(params.seed)
    chosen = choose_device(device)
    if chosen.startswith("cuda") and not torch.cuda.is_available():
        raise Skip(f"device={device}: torch finds no usable CUDA device")
    return chosen


def autocast(device: str, precision: str) -> Any:
    """The context of a forward pass in this precision; it can be entered again and again."""
    import torch

    if precision == "fp32":
        return nullcontext()
    dtype = torch.bfloat16 if precision == "bf16" else torch.float16
    return torch.autocast(device.partition(":")[0], dtype=dtype)


def settle(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def forget_peaks(device: str) -> None:
    """On a GPU: give back what is free, and let the allocator's peaks begin now. What came before, such as the copies
    of a gradient gate, is no part of them."""
    import torch

    if device.startswith("cuda"):
        gc.collect()
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def choose_device(asked: str) -> str:
    """`auto` is the first CUDA device, or the CPU where there is none."""
    import torch

    if asked != "auto":
        return asked
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def clock_device(name: str) -> Device | None:
    """None for the CPU: host time is device time there."""
    return CudaDevice(int(name.partition(":")[2] or 0)) if name.startswith("cuda") else None


def torch_facts() -> dict[str, Any]:
    """What only torch itself knows about this machine. Asked in a process of its own, before the first run."""
    import torch

    return {
        "cuda_built_for": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None,
        "cuda_available": torch.cuda.is_available(),
        "cuda_devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.is_available(),
    }
