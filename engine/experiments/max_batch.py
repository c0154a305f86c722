"""What is the largest batch that fits into memory?

Sizes are doubled until one does not fit, then the gap is halved down to the exact limit or a stated step. Each size is
tried in a process of its own and every try is kept. On a GPU the allocator itself says no; on a CPU the limit is a
stated budget, held against the allocator's peak of the try.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import model_validator

from engine.limit_search import find_limit
from engine.machine import memory_limit_bytes
from engine.models import image_size_problem
from engine.params import InputError, setting
from engine.params import Params as BaseParams
from engine.profiling import keep_profile, write_profile
from engine.settings import (
    DeviceName,
    ModelName,
    Precision,
    device_setting,
    image_size_setting,
    model_setting,
    no_such_device,
    precision_setting,
    profile_setting,
)
from engine.training_step import OptimizerName, optimizer_setting
from engine.tries import Tried, try_alone

if TYPE_CHECKING:
    from engine.nvml import Gpus
    from engine.recorder import Recorder

PASSES = 2
"""The optimiser's state exists only after the first step, so the second is the one that counts."""
SPARE_BYTES = 2 * 2**30
"""A try on a CPU may take twice the budget and this much before the system refuses it memory."""


class Params(BaseParams):
    model: ModelName = model_setting()
    mode: Literal["inference", "training"] = setting(
        "inference", title="What is run", help="A forward pass without gradients, or whole training steps.")
    image_size: int = image_size_setting()
    start: int = setting(32, title="First size", unit="images", ge=1, le=65536,
                         help="The first batch size tried; seed 001 began with 32.")
    step: int = setting(1, title="Exact to", unit="images", ge=1, le=65536,
                        help="The search ends when a size that fits and one that does not are this close. 1: exact.")
    cap: int = setting(65536, title="Largest size tried", unit="images", ge=1, le=1_048_576,
                       help="The search ends here; a cap that fits is a lower bound.")
    budget_bytes: int | None = setting(
        None, title="Memory budget", unit="bytes", ge=1, le=2**50,
        help="Empty: the whole memory of a GPU; on a CPU a quarter of what this machine allows.")
    margin: float = setting(0.0, title="Margin", unit="share", ge=0, le=0.9,
                            help="Share of the budget that must stay free for a size to count as fitting.")
    optimizer: OptimizerName = optimizer_setting()
    try_s: float = setting(600.0, title="Longest try", unit="s", ge=1, le=86400,
                           help="A try that takes longer is taken for hung, and the run fails.")
    device: DeviceName = device_setting()
    precision: Precision = precision_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if self.start > self.cap:
            raise ValueError(f"start={self.start}: must not be above cap={self.cap}")
        if problem := image_size_problem(self.model, self.image_size, "random"):
            raise ValueError(problem)
        return self


class Memory(NamedTuple):
    """What a try found. `usable_bytes` is the budget without the margin."""

    allocated_bytes: int
    reserved_bytes: int | None
    usable_bytes: int
    budget_bytes: int
    device: str
    threads: int


class TryFailed(RuntimeError):
    """A try that ended in another way than by fitting or by running out of memory."""


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    with recorder.stage("measure"):
        tries: dict[int, tuple[bool, Memory | None]] = {}
        limit = find_limit(partial(_fits, params, recorder, tries), params.start, params.cap, params.step)
    recorder.metric("max_batch_size", limit.largest, "images")
    recorder.metric("tries", limit.tries, "tries")
    recorder.metric("lower_bound_only", limit.too_large is None)
    if limit.too_large is not None:
        recorder.metric("too_large_batch_size", limit.too_large, "images")
    found = tries.get(limit.largest, (False, None))[1]
    if found is None:
        raise MemoryError(f"not even a batch of {limit.too_large} fits; max_batch_size is 0")
    recorder.metric("peak_memory_bytes", found.allocated_bytes, "bytes")
    if found.reserved_bytes is not None:
        recorder.metric("peak_reserved_bytes", found.reserved_bytes, "bytes")
    if params.profile:
        with recorder.stage("profile"):
            tried = try_alone(partial(_profile_try, params, recorder, limit.largest), params.try_s, recorder.alive)
            if tried.outcome == "done":
                keep_profile(recorder, tried.answer)
            else:  # the limit is known all the same
                recorder.event(f"batch size {limit.largest} could not be profiled: {tried.reason}")


def _fits(params: Params, recorder: Recorder, tries: dict[int, tuple[bool, Memory | None]], batch_size: int) -> bool:
    tried = try_alone(partial(run_try, params, batch_size), params.try_s, recorder.alive)
    memory: Memory | None = tried.answer
    fits = tried.outcome == "done" and memory is not None and memory.allocated_bytes <= memory.usable_bytes
    if memory is not None and not any(earlier for _, earlier in tries.values()):
        recorder.effective(device=memory.device, threads=memory.threads, budget_bytes=memory.budget_bytes)
    tries[batch_size] = fits, memory
    recorder.sample("try", **_readings(batch_size, tried, memory, fits))
    recorder.event(f"batch size {batch_size}: {_verdict(tried, memory, fits)}")
    if tried.outcome == "failed":
        raise TryFailed(f"batch size {batch_size}: {tried.reason}")
    return fits


def _readings(batch_size: int, tried: Tried, memory: Memory | None, fits: bool) -> dict[str, float]:
    """A try as rows of the store. The peak of one that was refused memory is not known."""
    readings: dict[str, float] = {"batch_size": batch_size, "seconds": tried.seconds}
    if tried.outcome != "failed":
        readings["fits"] = fits
    if memory is not None:
        readings |= {"peak_bytes": memory.allocated_bytes, "usable_bytes": memory.usable_bytes}
    return readings


def _verdict(tried: Tried, memory: Memory | None, fits: bool) -> str:
    if memory is None:
        return f"{'out of memory' if tried.outcome == 'oom' else 'failed'}: {tried.reason}"
    return f"{'fits' if fits else 'too large'}: peak {memory.allocated_bytes} of {memory.usable_bytes} bytes"


def run_try(params: Params, batch_size: int) -> Memory:
    """In a process of its own: two passes over a batch of this size, and what they took."""
    import torch

    from engine.allocator_peak import allocator_peak
    from engine.devices import begin_torch

    device = begin_torch(params, params.device)
    budget_bytes, usable_bytes = _limit_memory(params, device)
    with allocator_peak(device) as peak:
        one_pass = _make_pass(params, batch_size, device)
        for _ in range(PASSES):
            one_pass()
    assert peak.allocated_bytes is not None
    return Memory(peak.allocated_bytes, peak.reserved_bytes, usable_bytes, budget_bytes, device,
                  torch.get_num_threads())


def _make_pass(params: Params, batch_size: int, device: str) -> Callable[[], None]:
    import torch

    from engine.devices import autocast
    from engine.models import build_model
    from engine.training_step import make_batch, make_optimizer, train_once

    precision = autocast(device, params.precision)
    model = build_model(params.model, params.image_size, "random").to(device)
    pixels, labels = make_batch(params.model, batch_size, params.image_size, device)
    if params.mode == "training":
        return partial(train_once, model, make_optimizer(params.optimizer, model.train()), pixels, labels, precision)
    model.eval()

    def infer() -> None:
        with torch.inference_mode(), precision:
            model(pixels)

    return infer


def _profile_try(params: Params, recorder: Recorder, batch_size: int) -> list[Path]:
    """In a process of its own, too, and without the limit: the profiler needs memory beside the batch."""
    from engine.devices import begin_torch

    device = begin_torch(params, params.device)
    return write_profile(recorder, device, repeat(()), _make_pass(params, batch_size, device), lambda: None)


def _limit_memory(params: Params, device: str) -> tuple[int, int]:
    """Budget and usable bytes. On a GPU the allocator is held to them; on a CPU the system stops what goes far beyond,
    so that a size which is much too large cannot take the machine down."""
    if device.startswith("cuda"):
        return _limit_cuda(params, device)
    machine_bytes = memory_limit_bytes()
    budget_bytes = params.budget_bytes or machine_bytes // 4
    if budget_bytes > machine_bytes:
        raise InputError(f"budget_bytes={budget_bytes}: this machine allows {machine_bytes}; choose less")
    ceiling = _data_bytes() + 2 * budget_bytes + SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return budget_bytes, int(budget_bytes * (1 - params.margin))


def _limit_cuda(params: Params, device: str) -> tuple[int, int]:
    import torch

    total: int = torch.cuda.get_device_properties(device).total_memory
    budget_bytes = params.budget_bytes or total
    if budget_bytes > total:
        raise InputError(f"budget_bytes={budget_bytes}: {device} has {total}; choose less, or leave it empty")
    usable_bytes = int(budget_bytes * (1 - params.margin))
    torch.cuda.set_per_process_memory_fraction(usable_bytes / total, device)
    return budget_bytes, usable_bytes


def _data_bytes() -> int:
    """What the system counts against the limit already."""
    with open("/proc/self/status") as status:
        lines: dict[str, Any] = dict(line.split(":", 1) for line in status if ":" in line)
    return int(lines["VmData"].split()[0]) * 1024
