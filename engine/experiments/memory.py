"""What does training need memory for, and what does needing less of it cost in time?

One model, trained plainly or under a method that computes again instead of keeping: memory by category over a step, the
allocator's peak, its prediction, and seconds per batch. Before anything is timed the method's gradients are compared
with plain training's; a method that fails that is not measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from engine.memory_methods import Method, apply_method, method_problem
from engine.models import MODELS
from engine.norms import single_value_problem
from engine.params import InputError, setting
from engine.params import Params as BaseParams
from engine.predict_memory import Prediction, input_problem, predict_memory
from engine.profiling import profile_batches
from engine.settings import (
    AnyModelName,
    DeviceName,
    Precision,
    device_setting,
    image_size_setting,
    model_setting,
    no_such_device,
    precision_setting,
    profile_setting,
)
from engine.training_step import OptimizerName, optimizer_setting

if TYPE_CHECKING:
    from engine.nvml import Gpus
    from engine.recorder import Recorder
    from engine.step_memory import Moment

GATE_ITEMS = 2
CURVE_POINTS = 300
CHILD_LIMIT_S = 3600.0


class Params(BaseParams):
    model: AnyModelName = model_setting(text=True)
    method: Method = setting(
        "plain", title="Method",
        help="checkpoint keeps the inputs of blocks, selective also products and convolutions, reversible (RevNets "
             "only) computes inputs from outputs.")
    blocks_per_checkpoint: int = setting(
        1, title="Blocks per checkpoint", unit="blocks", ge=1, le=1000,
        help="With checkpoint and selective: so many blocks are computed again at once.")
    batch_size: int = setting(8, title="Batch size", unit="items", ge=1, le=65536, help="Images or texts per step.")
    image_size: int = image_size_setting()
    tokens: int = setting(128, title="Tokens", unit="tokens", ge=1, le=512, help="Length of a text, for text models.")
    optimizer: OptimizerName = optimizer_setting()
    precision: Precision = precision_setting()
    batches: int = setting(10, title="Batches", unit="batches", ge=1, le=100_000, help="Steps that are timed.")
    warm_up_batches: int = setting(2, title="Warm-up", unit="batches", ge=2, le=1000,
                                   help="Steps before the clock starts; the optimiser's state exists from then on.")
    device: DeviceName = device_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        # Whether the model can do the method is asked later: one sweep may hold models that can and models that cannot.
        if problem := input_problem(self.model, "plain", self.size):
            raise ValueError(problem)
        if problem := single_value_problem(self.model, self.batch_size, self.size):
            raise ValueError(problem)
        return self

    @property
    def size(self) -> int:
        return self.tokens if MODELS[self.model].kind == "text" else self.image_size


def check(cells: Iterable[Params], cache: Path) -> None:
    """A sweep none of whose models can do its method is a mistake; where some can the others are skipped."""
    problems = [method_problem(cell.model, cell.method) for cell in cells]
    if problems and all(problems):
        raise InputError(str(problems[0]))


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return method_problem(params.model, params.method) or no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.devices import autocast, begin_torch, settle
    from engine.models import build_model
    from engine.training_step import make_batch, make_optimizer

    # Children first: they are forked while this process has computed nothing.
    if params.method != "plain":
        with recorder.stage("validate"):
            _pass_gate(params, recorder)
    with recorder.stage("measure_memory"):
        prediction: Prediction = _in_child(recorder, partial(_predict, params), "the prediction")
        peak: Any = _in_child(recorder, partial(_measure_peak, params), "the memory pass")
        curve, saved_bytes = _in_child(recorder, partial(_measure_curve, params), "the memory pass by category")
    _record_peaks(recorder, prediction, peak)
    _record_curve(recorder, curve)
    recorder.metric("saved_activations_bytes", saved_bytes, "bytes")

    device = begin_torch(params, params.device)
    recorder.effective(threads=torch.get_num_threads(), device=device)
    precision = autocast(device, params.precision)
    with recorder.stage("init_model"):
        model = build_model(params.model, params.size, "random").train()
    recorder.metric("parameters", sum(parameter.numel() for parameter in model.parameters()), "parameters")
    with recorder.stage("model_to_device"):
        model = model.to(device)
        inputs, labels = make_batch(params.model, params.batch_size, params.size, device)
        optimizer = make_optimizer(params.optimizer, model)
        trained = _under_method(params, model)
        settle(device)
    with recorder.stage("warm_up"):
        for _ in range(params.warm_up_batches):
            _timed_step(None, trained, optimizer, inputs, labels, precision)
            recorder.alive()
        settle(device)
    with recorder.measure(device) as clock:
        for _ in range(params.batches):
            _timed_step(clock, trained, optimizer, inputs, labels, precision)
            clock.end_batch(params.batch_size)
    if params.profile:
        profile_batches(recorder, device, repeat((inputs, labels)),
                        lambda inputs, labels: _timed_step(None, trained, optimizer, inputs, labels, precision))


def _timed_step(clock: Any, model: Any, optimizer: Any, inputs: Any, labels: Any, precision: Any) -> None:
    from contextlib import nullcontext

    from torch.nn import functional

    def phase(name: str) -> Any:
        return clock.phase(name, on_device=True) if clock else nullcontext()

    optimizer.zero_grad(set_to_none=True)
    with phase("forward"), precision:
        loss = functional.cross_entropy(model(inputs), labels)
    with phase("backward"):
        loss.backward()
    with phase("optimizer"):
        optimizer.step()


def _in_child(recorder: Recorder, work: Any, name: str) -> Any:
    from engine.tries import try_alone

    tried = try_alone(work, CHILD_LIMIT_S, recorder.alive)
    if tried.outcome == "oom":
        raise MemoryError(f"{name}: {tried.reason}")
    if tried.outcome == "failed":
        raise RuntimeError(f"{name}: {tried.reason}")
    return tried.answer


def _predict(params: Params) -> Prediction:
    return predict_memory(params.model, params.batch_size, params.method, params.size, params.optimizer,
                          params.precision, params.blocks_per_checkpoint)


def _measure_peak(params: Params) -> Any:
    from engine.devices import begin_torch
    from engine.training_peak import measure_training_peak

    device = begin_torch(params, params.device)
    return measure_training_peak(params.model, params.batch_size, params.method, params.size, params.optimizer,
                                 params.precision, device, params.blocks_per_checkpoint)


def _record_peaks(recorder: Recorder, prediction: Prediction, peak: Any) -> None:
    recorder.metric("predicted_peak_bytes", prediction.peak_bytes, "bytes")
    recorder.metric("prediction_s", prediction.seconds, "s")
    recorder.metric("peak_memory_bytes", peak.allocated_bytes, "bytes")
    recorder.metric("prediction_error", prediction.peak_bytes / peak.allocated_bytes - 1, "share")
    recorder.metric("resident_growth_bytes", peak.resident_bytes, "bytes")
    if peak.reserved_bytes is not None:
        recorder.metric("peak_reserved_bytes", peak.reserved_bytes, "bytes")


def _pass_gate(params: Params, recorder: Recorder) -> None:
    from engine.gradient_gate import Gate, GateFailed

    gate: Gate
    gate, error_in_precision = _in_child(recorder, partial(_check_gradients, params), "the gradient gate")
    recorder.metric("gradient_error", gate.error)
    recorder.metric("gradient_error_in_precision", error_in_precision)
    recorder.metric("gradient_error_of_allowed", gate.worst)
    if not gate.passed:
        raise GateFailed(f"method={params.method}: {gate.problem}; it is not timed")


def _check_gradients(params: Params) -> Any:
    from engine.devices import autocast, begin_torch
    from engine.gradient_gate import check_gradients, error_in_precision, gate_size
    from engine.models import build_model
    from engine.training_step import make_batch

    device = begin_torch(params, params.device)
    size = gate_size(params.model, params.size)
    model = build_model(params.model, params.size, "random").to(device)
    method, batch = partial(_under_method, params), make_batch(params.model, GATE_ITEMS, size, device)
    return (check_gradients(model, method, *batch, params.seed),
            error_in_precision(model, method, *batch, autocast(device, params.precision), params.seed))


def _under_method(params: Params, model: Any) -> Any:
    return apply_method(model, params.method, params.blocks_per_checkpoint)


def _measure_curve(params: Params) -> tuple[list[Moment], int]:
    """A step by category, after one that leaves the optimiser's state behind; and what its forward pass saved."""
    from engine.devices import autocast, begin_torch
    from engine.models import build_model
    from engine.step_memory import watch_memory, watched_step
    from engine.training_step import make_batch, make_optimizer

    device = begin_torch(params, params.device)
    model = build_model(params.model, params.size, "random").to(device).train()
    batch = make_batch(params.model, params.batch_size, params.size, device)
    optimizer = make_optimizer(params.optimizer, model)
    trained = _under_method(params, model)
    with watch_memory(model, optimizer, *batch) as memory:
        for _ in range(2):
            memory.moments.clear()
            watched_step(memory, trained, optimizer, *batch, autocast(device, params.precision))
    assert memory.saved_bytes is not None
    return thin_out(memory.moments, CURVE_POINTS), memory.saved_bytes


def _record_curve(recorder: Recorder, curve: list[Moment]) -> None:
    """As samples of the device `memory`, and the peak as metrics."""
    from engine.step_memory import CATEGORIES

    for moment in curve:
        recorder.sample("memory", moment.at, **{f"{name}_bytes": size for name, size in
                                                zip(CATEGORIES, moment.held_bytes, strict=True)})
    peak = max(curve, key=lambda moment: moment.total_bytes)
    recorder.metric("tensor_peak_bytes", peak.total_bytes, "bytes")
    recorder.metric("tensor_peak_at_s", peak.at - recorder.origin, "s")
    for name, size in zip(CATEGORIES, peak.held_bytes, strict=True):
        recorder.metric(f"peak_{name}_bytes", size, "bytes")


def thin_out(moments: list[Moment], most: int) -> list[Moment]:
    """First, last and the highest of each of `most` equal parts: the peak is always among them."""
    if len(moments) <= most:
        return moments
    bounds = [len(moments) * part // most for part in range(most + 1)]
    parts = [moments[low:high] for low, high in pairwise(bounds)]
    kept = [moments[0], *(max(part, key=lambda moment: moment.total_bytes) for part in parts), moments[-1]]
    return list(dict.fromkeys(kept))
