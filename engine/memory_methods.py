"""Ways of training with less memory: what is not kept is computed again during backward.

All of them give the gradients and batch-norm statistics of plain training; engine/gradient_gate.py checks it.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal

from engine.blocks import cut
from engine.params import InputError
from engine.reversible import frozen_statistics

if TYPE_CHECKING:
    import torch

Method = Literal["plain", "checkpoint", "selective", "reversible"]
KEPT_OPERATORS = ("convolution", "mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention",
                  "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention_for_cpu",
                  "_scaled_dot_product_cudnn_attention")
"""What selective checkpointing keeps: products are dear to compute again, norms and activations are not."""


def method_problem(model: str, method: Method) -> str | None:
    """Why a model cannot be trained this way, in one sentence; None when it can."""
    if method == "reversible" and not model.startswith("revnet_"):
        return f"method=reversible: {model} has no reversible blocks; choose a RevNet, or the method checkpoint."
    return None


def apply_method(model: Any, method: Method, blocks_per_checkpoint: int = 1) -> torch.nn.Module:
    """The model as it trains under a method; weights and statistics are the model's own."""
    if hasattr(model, "reversible"):
        model.reversible = method == "reversible"
    elif method == "reversible":
        raise InputError(f"method=reversible: {type(model).__name__} has no reversible blocks; choose checkpoint")
    if method in ("plain", "reversible"):
        plain: torch.nn.Module = model
        return plain
    stem, *body, head = [block.module for block in cut(model)]
    groups = [[stem], *(body[at : at + blocks_per_checkpoint] for at in range(0, len(body), blocks_per_checkpoint))]
    if method == "selective":
        _keep_what_is_kept(groups)
    checkpointed: torch.nn.Module = _checkpointed_class()(groups, head, method == "selective")
    return checkpointed


def _keep_what_is_kept(groups: list[list[Any]]) -> None:
    """An activation in place would write over the result of a convolution that backward gets back as it was."""
    for block in (block for group in groups for block in group):
        for module in block.modules():
            if getattr(module, "inplace", False):
                module.inplace = False


@cache
def _checkpointed_class() -> Any:
    from torch import nn
    from torch.nn.modules.dropout import _DropoutNd
    from torch.utils.checkpoint import checkpoint
    from torchvision.ops import StochasticDepth

    class Checkpointed(nn.Module):  # type: ignore[misc]
        """Of the stem and of each group of blocks only the input is kept. The head, which is small, is run as it is."""

        def __init__(self, groups: list[list[Any]], head: Any, selective: bool) -> None:
            super().__init__()
            self.head, self.selective = head, selective
            self.groups = nn.ModuleList(nn.Sequential(*group) for group in groups)

        def forward(self, inputs: Any) -> Any:
            held = inputs
            for group in self.groups:
                # What is dropped must be the same both times; a network that drops nothing is spared the copies of
                # the generator.
                random = any(isinstance(module, _DropoutNd | StochasticDepth) and module.p > 0
                             for module in group.modules())
                held = checkpoint(group, held, use_reentrant=False, preserve_rng_state=random and not _is_fake(held),
                                  context_fn=partial(_contexts, group, self.selective))
            return self.head(held)

    return Checkpointed


def _contexts(group: Any, selective: bool) -> tuple[Any, Any]:
    """What surrounds the first pass and the one that is computed again: that one must not count statistics."""
    if not selective:
        return nullcontext(), frozen_statistics([group])
    import torch
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    kept = [getattr(torch.ops.aten, name).default for name in KEPT_OPERATORS if hasattr(torch.ops.aten, name)]
    first, again = create_selective_checkpoint_contexts(kept)
    # The copies of statistics are made before operators are matched with those of the first pass.
    return first, _Both(frozen_statistics([group]), again)


class _Both:
    """Two contexts entered as one, when the pass is computed again and not before."""

    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*error)


def _is_fake(held: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(held, FakeTensor)
