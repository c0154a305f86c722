"""The gate lets correct methods through and catches backward passes that are broken on purpose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from engine.devices import autocast
from engine.gradient_gate import check_gradients, error_in_precision
from engine.memory_methods import apply_method
from engine.models import build_model
from engine.training_step import make_batch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("name", "method", "blocks"), [
    ("resnet18", "checkpoint", 1), ("resnet18", "checkpoint", 3), ("resnet18", "selective", 1),
    ("mobilenet_v2", "checkpoint", 1), ("mobilenet_v2", "selective", 2), ("vit_b_32", "checkpoint", 4),
    ("vit_b_32", "selective", 1), ("revnet_3", "reversible", 1), ("revnet_3", "checkpoint", 1),
    ("revnet_3", "selective", 1), ("revnet_18", "reversible", 1), ("adjusted_resnet50", "checkpoint", 2),
    ("eff_net_v2_s", "checkpoint", 1), ("eff_net_v2_s", "selective", 1),  # drops whole blocks, and acts in place
])
def test_correct_methods_pass(name: str, method: Any, blocks: int) -> None:
    torch.manual_seed(0)
    model = build_model(name, 32, "random")
    gate = check_gradients(model, lambda copy: apply_method(copy, method, blocks), *make_batch(name, 2, 32, "cpu"))
    assert gate.passed, gate.problem
    assert gate.error < 1e-12 and 0 <= gate.worst <= 1


def test_rounding_is_told_in_the_precision_of_the_run() -> None:
    """Nothing is wrong with these, though bf16 moves the gradient by more than the gate would allow."""
    torch.manual_seed(0)
    model = build_model("revnet_5", 32, "random")
    batch = make_batch("revnet_5", 2, 32, "cpu")
    errors = [error_in_precision(model, lambda copy: apply_method(copy, "reversible"), *batch, autocast("cpu", name))
              for name in ("fp32", "bf16")]
    assert 1e-12 < errors[0] < 1e-2 < errors[1] < 2
    assert error_in_precision(model, lambda copy: copy, *batch, autocast("cpu", "bf16")) == 0


def broken(model: Any, how: str) -> Any:
    """A network of two linear blocks and a batch norm, with one thing wrong."""

    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs: Any) -> Any:
            first, second = self.model[:2], self.model[2:]
            if how == "reentrant":  # seed 002: the input needs no gradient, so the checkpoint has none
                return second(checkpoint(first, inputs, use_reentrant=True))
            if how == "nan":
                held = first(inputs)
                held.register_hook(lambda gradient: gradient * math.nan)
                return second(held)
            if how == "statistics":  # torch's own checkpoint counts what it computes again
                return second(checkpoint(first, inputs, use_reentrant=False))
            held = first(inputs)
            held.register_hook(lambda gradient: gradient * 1.01)
            return second(held)

    return Broken()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize(("how", "words"), [
    ("reentrant", "parameters got no gradient"), ("nan", "is not finite"), ("statistics", "counted twice"),
    ("off by a hundredth", "times what is allowed"),
])
def test_what_is_broken_on_purpose_is_caught(how: str, words: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 5))
    inputs, labels = torch.rand(8, 20), torch.randint(0, 5, (8,))
    assert check_gradients(model, lambda copy: copy, inputs, labels).passed
    gate = check_gradients(model, lambda copy: broken(copy, how), inputs, labels)
    assert not gate.passed and words in gate.problem


def test_a_reversible_backward_that_forgets_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only activation gradients, none of parameters: what seed 003 measured."""
    from engine import reversible

    undo = reversible._undo
    monkeypatch.setattr(reversible, "_undo", lambda half, *rest: (*undo(half, *rest)[:2],
                                                                  [None for _ in half.parameters()]))
    torch.manual_seed(0)
    model = build_model("revnet_3", 32, "random")
    gate = check_gradients(model, lambda copy: apply_method(copy, "reversible"), *make_batch("revnet_3", 2, 32, "cpu"))
    assert not gate.passed and "got no gradient" in gate.problem and math.isinf(gate.error)


def test_the_model_itself_stays_untouched() -> None:
    model = build_model("revnet_3", 32, "random")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    check_gradients(model, lambda copy: apply_method(copy, "checkpoint"), *make_batch("revnet_3", 2, 32, "cpu"))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
