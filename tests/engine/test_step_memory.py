"""Memory by category over a step, against bytes counted by hand, on real and on fake tensors."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import Any

import torch
from own_process import in_child
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.memory_methods import apply_method
from engine.models import build_model
from engine.step_memory import CATEGORIES, StepMemory, watch_memory, watched_step
from engine.training_step import make_batch, make_optimizer

LAYER, BATCH, WIDTH = 100 * 50 * 4 + 50 * 4, 16, 100 * 4


def watch(model: Any, optimizer: str = "sgd_momentum", inputs: Any = None) -> StepMemory:
    used = make_optimizer(optimizer, model)  # type: ignore[arg-type]
    inputs = torch.rand(BATCH, 100) if inputs is None else inputs
    labels = torch.randint(0, 50, (BATCH,))
    with watch_memory(model, used, inputs, labels) as memory:
        for _ in range(2):
            memory.moments.clear()
            watched_step(memory, model, used, inputs, labels, nullcontext())
    return memory


def at_peak(memory: StepMemory) -> dict[str, int]:
    return dict(zip(CATEGORIES, memory.peak.held_bytes, strict=True))


def test_a_linear_layer_by_hand() -> None:
    for fake in (False, True):
        last, highest = in_child(watch_a_layer, fake)
        inputs = BATCH * WIDTH + BATCH * 8
        assert last == {"parameters": LAYER, "buffers": 0, "gradients": LAYER, "optimizer_state": LAYER,
                        "activations": inputs, "temporaries": 0}
        # Scores and their logarithms are kept for backward, which then makes a gradient of the scores.
        assert inputs + 2 * BATCH * 50 * 4 <= highest["activations"] + highest["temporaries"]


def watch_a_layer(fake: bool) -> tuple[dict[str, int], dict[str, int]]:
    with FakeTensorMode() if fake else nullcontext():
        memory = watch(nn.Linear(100, 50))
    return dict(zip(CATEGORIES, memory.moments[-1].held_bytes, strict=True)), at_peak(memory)


def test_state_belongs_to_its_optimiser() -> None:
    for name, copies in (("sgd", 0), ("sgd_momentum", 1), ("adam", 2)):
        memory = watch(nn.Linear(100, 50), name)
        held = dict(zip(CATEGORIES, memory.moments[-1].held_bytes, strict=True))
        assert copies * LAYER <= held["optimizer_state"] <= copies * LAYER + 16  # adam counts its steps
        assert held["gradients"] == held["parameters"] == LAYER


def test_what_is_freed_is_not_held() -> None:
    memory = StepMemory()
    first = torch.empty(1000, dtype=torch.uint8)
    memory.count(first, "activations")
    memory.count(first.view(10, 100), "activations")  # the same storage
    memory.mark()
    del first
    gc.collect()
    memory.mark()
    assert [moment.total_bytes for moment in memory.moments] == [1000, 0]


def test_methods_lower_the_activations() -> None:
    peaks = {method: in_child(peak_under, method) for method in ("plain", "checkpoint", "selective", "reversible")}
    assert peaks["reversible"] < peaks["checkpoint"] < peaks["selective"] < peaks["plain"]


def peak_under(method: Any) -> int:
    with FakeTensorMode():
        model = build_model("revnet_5", 64, "random")
        used = make_optimizer("sgd", model)
        batch = make_batch("revnet_5", 8, 64, "cpu")
        trained = apply_method(model, method)
        with watch_memory(model, used, *batch) as memory:
            watched_step(memory, trained, used, *batch, nullcontext())
    return memory.peak.total_bytes


def test_what_the_forward_pass_saved_by_hand() -> None:
    memory = watch(nn.Linear(100, 50))
    kept = BATCH * WIDTH + BATCH * 8 + BATCH * 50 * 4  # the batch, and the logarithms that the loss keeps
    assert kept <= (memory.saved_bytes or 0) <= kept + 64
