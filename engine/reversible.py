"""Reversible units: their inputs are computed again from their outputs during backward, so depth costs no memory.

y1 = x1 + F(x2), y2 = x2 + G(y1). Backward takes one extra evaluation of each F and G. The classes need torch as their
base and are made on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def frozen_statistics(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Batch norms inside these modules count what they see on copies of their statistics, which are then dropped: for
    computing again what was counted the first time. Copies, because checkpointing asks that autograd keeps the same
    tensors both times, running statistics among them."""
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = [norm for module in modules for norm in module.modules()
             if isinstance(norm, _BatchNorm) and norm.training and norm.track_running_stats]
    counted = [dict(norm._buffers) for norm in norms]
    for norm in norms:
        norm._buffers.update({name: None if value is None else value.clone() for name, value in norm._buffers.items()})
    try:
        yield
    finally:
        for norm, statistics in zip(norms, counted, strict=True):
            norm._buffers.update(statistics)


def run_reversibly(units: list[Any], left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A chain of units with `f` and `g`, keeping only the last outputs. Every parameter of the units gets its gradient
    through autograd itself, so hooks on parameters (DDP's) see it."""
    parameters = [parameter for unit in units for half in (unit.f, unit.g) for parameter in half.parameters()]
    answer: tuple[torch.Tensor, torch.Tensor] = _reversible_chain().apply(units, left, right, *parameters)
    return answer


@cache
def _reversible_chain() -> Any:
    import torch

    class ReversibleChain(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, units: list[Any], left: Any, right: Any, *parameters: Any) -> Any:
            ctx.units, ctx.precision = units, _same_autocast(left.device.type)
            with ctx.precision():
                for unit in units:
                    left = left + unit.f(right)
                    right = right + unit.g(left)
            ctx.save_for_backward(left, right)
            return left, right

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            left, right = ctx.saved_tensors
            d_left, d_right = gradients
            of_parameters: list[Any] = []
            with ctx.precision():
                for unit in reversed(ctx.units):
                    right, d_left, of_g = _undo(unit.g, left, right, d_left, d_right)
                    left, d_right, of_f = _undo(unit.f, right, left, d_right, d_left)
                    of_parameters[:0] = [*of_f, *of_g]
            return None, d_left, d_right, *of_parameters

    return ReversibleChain


def _same_autocast(kind: str) -> Callable[[], Any]:
    """The autocast in effect now, to be entered now and again in backward. Weights that it casts and keeps while
    gradients are off would have no gradient later, so it keeps none."""
    import torch

    if not torch.amp.is_autocast_available(kind):
        return nullcontext  # the meta device has shapes only
    return partial(torch.autocast, kind, enabled=torch.is_autocast_enabled(kind),
                   dtype=torch.get_autocast_dtype(kind), cache_enabled=False)


def _undo(half: Any, source: Any, result: Any, d_source: Any, d_result: Any) -> tuple[Any, Any, list[Any]]:
    """result = before + half(source): gives `before`, the gradient of the source and those of half's parameters."""
    import torch

    parameters = [parameter for parameter in half.parameters() if parameter.requires_grad]
    source = source.detach().requires_grad_()
    with torch.enable_grad(), frozen_statistics([half]):
        added = half(source)
    with torch.no_grad():
        before = result - added
    found = torch.autograd.grad(added, [source, *parameters], d_result.to(added.dtype))
    of_trained = iter(found[1:])
    of_all = [next(of_trained) if parameter.requires_grad else None for parameter in half.parameters()]
    return before, d_source + found[0], of_all
