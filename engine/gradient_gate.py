"""The gate before any timing of a memory-saving method: its gradients and statistics are those of plain training.

A checkpointed model that trained only its last layer was once measured and published (seed 002): fast, small and wrong.
"""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.models import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

RELATIVE = 1e-4
OF_WHOLE = 1e-6
"""Per element: |difference| <= 1e-4 |gradient| + 1e-6 of the whole gradient's norm. A bias before batch norm has a true
gradient of zero, so a purely relative test would fail a correct method."""
STATISTICS = 1e-5
LARGEST_SIDE, MOST_TOKENS = 64, 16


class GateFailed(RuntimeError):
    """A method whose gradients are not those of plain training; it is not timed."""


class Gate(NamedTuple):
    """`error` is the norm of the difference over the norm of the whole gradient; `worst` is the largest difference of
    an element over what is allowed for it, and fails above 1."""

    error: float
    worst: float
    problem: str

    @property
    def passed(self) -> bool:
        return not self.problem


def gate_size(model: str, size: int) -> int:
    """The side of an image, or the tokens of a text, that is enough to compare gradients on. A network that is built
    for one image size keeps it."""
    entry = MODELS[model]
    if entry.kind == "text":
        return min(size, MOST_TOKENS)
    return size if entry.size_multiple > 1 else min(size, LARGEST_SIDE)


def check_gradients(model: Any, method: Callable[[Any], Any], inputs: torch.Tensor, labels: torch.Tensor,
                    seed: int = 0) -> Gate:
    """One backward pass of two copies of the model, plain and under the method. The model itself stays untouched.

    In double precision: in single precision an input that RevNet-18 computes again can fall on the other side of a
    ReLU, which moves the gradient by up to 6e-3 of its norm though nothing is wrong.
    """
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    return compare(*_train_both([copy.deepcopy(model).double() for _ in range(2)], method, inputs, labels, seed))


def error_in_precision(model: Any, method: Callable[[Any], Any], inputs: torch.Tensor, labels: torch.Tensor,
                       precision: Any, seed: int = 0) -> float:
    """The same error as a run has it, rounding included: told beside the gate's, not judged by it."""
    pair = [copy.deepcopy(model) for _ in range(2)]
    return compare(*_train_both(pair, method, inputs, labels, seed, precision)).error


def _train_both(pair: list[Any], method: Callable[[Any], Any], inputs: Any, labels: Any, seed: int,
                precision: Any = None) -> tuple[Any, Any]:
    """Two copies of a model, with the gradients of plain training and of the method."""
    import torch

    reference, candidate = (network.train() for network in pair)
    if hasattr(reference, "reversible"):
        reference.reversible = False
    for network in (reference, method(candidate)):
        torch.manual_seed(seed)  # dropout falls alike
        with precision or nullcontext():
            loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
    return reference, candidate


def compare(reference: Any, candidate: Any) -> Gate:
    """Gradients parameter by parameter, then batch-norm statistics."""
    import torch

    expected = {name: parameter.grad for name, parameter in reference.named_parameters()}
    found = {name: parameter.grad for name, parameter in candidate.named_parameters()}
    missing = [name for name, gradient in expected.items() if gradient is not None and found[name] is None]
    if missing:
        return Gate(math.inf, math.inf, f"{len(missing)} of {len(expected)} parameters got no gradient, "
                                        f"{missing[0]} among them")
    trained = {name: gradient for name, gradient in expected.items() if gradient is not None}
    whole = torch.stack([gradient.double().norm() for gradient in trained.values()]).norm()
    error, worst, worst_name = 0.0, 0.0, ""
    for name, gradient in trained.items():
        difference = (found[name].double() - gradient.double()).abs()
        share = (difference / (RELATIVE * gradient.double().abs() + OF_WHOLE * whole)).max().item()
        error = math.hypot(error, difference.norm().item())
        if not share <= worst:  # also what is not a number
            worst, worst_name = share, name
        if not math.isfinite(share):
            return Gate(math.inf, math.inf, f"the gradient of {name} is not finite")
    error /= whole.item()
    if worst > 1:
        return Gate(error, worst, f"the gradient of {worst_name} differs by {worst:.3g} times what is allowed "
                                  f"({error:.3g} of the whole gradient)")
    return Gate(error, worst, _compare_statistics(reference, candidate))


def _compare_statistics(reference: Any, candidate: Any) -> str:
    import torch

    for (name, expected), (_, found) in zip(reference.named_buffers(), candidate.named_buffers(), strict=True):
        if not torch.allclose(found.double(), expected.double(), rtol=STATISTICS, atol=STATISTICS * 1e-3):
            return f"the statistic {name} is not that of plain training: it was counted twice or not at all"
    return ""
