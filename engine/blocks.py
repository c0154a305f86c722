"""One way of cutting every network into a sequence of blocks: stem, the repeating blocks one by one, head.

A block is a module that takes one tensor and gives one tensor, so blocks run one after another give what the whole
network gives. Blocks share their weights with the network they were cut from; nothing is copied.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from engine.models import ModelError

if TYPE_CHECKING:
    import torch

ShareBy = Literal["blocks", "parameters", "compute"]
Part = Literal["full", "last_50%", "last_25%", "last_3_blocks", "last_1_block"]


class Block(NamedTuple):
    """`name` is unique in its network: stem, head, and between them the path of a repeating block."""

    name: str
    module: torch.nn.Module
    parameters: int


def cut(model: torch.nn.Module) -> list[Block]:
    """The blocks of a model from engine.models, from input to output: token ids or pixels in, scores out."""
    pieces = _pieces(model)
    assert len({name for name, _ in pieces}) == len(pieces)
    return [Block(name, module, sum(parameter.numel() for parameter in module.parameters()))
            for name, module in pieces]


def join(blocks: Iterable[Block]) -> torch.nn.Module:
    """Blocks as one module that runs them in order; its weights are theirs."""
    from torch import nn

    return nn.Sequential(*(block.module for block in blocks))


def join_heads(prefix: Sequence[Block], heads: Sequence[Sequence[Block]]) -> torch.nn.Module:
    """One shared prefix and several continuations: one input gives a list with the output of each."""
    joint: torch.nn.Module = _modules()["Joint"](join(prefix), [join(head) for head in heads])
    return joint


def count_compute(blocks: Sequence[Block], example: torch.Tensor) -> list[int]:
    """Floating-point operations of each block on the example; on the meta device nothing is computed for it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counts = []
    # With gradients: without them torch takes fused paths through attention that its counter does not know.
    with torch.enable_grad():
        for block in blocks:
            with FlopCounterMode(display=False) as counter:
                example = block.module(example)
            counts.append(int(counter.get_total_flops()))
            example = example.detach()
    return counts


def first_block(part: Part, sizes: Sequence[float]) -> int:
    """Where a part begins, as an index into the blocks of a whole network.

    `sizes` has one number per block: all 1 for a share by blocks, else parameters or compute. Shares and counts are of
    the repeating blocks; the head is in every part, the stem in the full network only. A share that falls inside a
    block takes that block in.
    """
    last = len(sizes) - 2  # the last repeating block; the head comes after it
    if part == "full":
        return 0
    if part in ("last_3_blocks", "last_1_block"):
        return max(last - (2 if part == "last_3_blocks" else 0), 1)
    share = {"last_50%": 0.50, "last_25%": 0.25}[part]
    body = list(sizes[1:-1])
    wanted = share * sum(body)
    reached = list(accumulate(reversed(body)))
    # Compared with a grain of tolerance: sums of equal floats may miss each other by rounding.
    taken = next(index for index, size in enumerate(reached) if size >= wanted * (1 - 1e-12))
    return last - taken


def _pieces(model: Any) -> list[tuple[str, Any]]:
    """By the structure of the network: the names are torchvision's and transformers'."""
    from torch import nn

    def sequence(**modules: Any) -> Any:
        return nn.Sequential(OrderedDict(modules))

    if hasattr(model, "conv_proj"):
        vit = _modules()
        layers = model.encoder.layers.named_children()
        return [("stem", vit["PatchStem"](model)), *((f"encoder.{name}", layer) for name, layer in layers),
                ("head", vit["TokenHead"](model))]
    if hasattr(model, "cut"):
        pieces: list[tuple[str, Any]] = model.cut()
        return pieces
    if hasattr(model, "layer4"):
        body = [(f"layer{stage}.{name}", block) for stage in range(1, 5)
                for name, block in model.get_submodule(f"layer{stage}").named_children()]
        pool = {"maxpool": model.maxpool} if hasattr(model, "maxpool") else {}
        stem = sequence(conv1=model.conv1, bn1=model.bn1, relu=model.relu, **pool)
        return [("stem", stem), *body, ("head", sequence(avgpool=model.avgpool, flatten=nn.Flatten(), fc=model.fc))]
    if hasattr(model, "features") and hasattr(model, "classifier"):
        first, *middle, last = model.features.named_children()
        # EfficientNet keeps its blocks in stages, MobileNet in one row.
        body = [pair for name, piece in middle for pair in (
            [(f"features.{name}.{inner}", block) for inner, block in piece.named_children()]
            if type(piece) is nn.Sequential else [(f"features.{name}", piece)])]
        head = sequence(conv=last[1], pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), classifier=model.classifier)
        return [("stem", first[1]), *body, ("head", head)]
    if hasattr(model, "encoder") and hasattr(model.encoder, "pooler"):
        body = [(f"layer.{name}", layer) for name, layer in model.encoder.encoder.layer.named_children()]
        head = sequence(pooler=model.encoder.pooler, dropout=model.dropout, head=model.head)
        return [("stem", model.encoder.embeddings), *body, ("head", head)]
    raise ModelError(f"{type(model).__name__}: this network cannot be cut into blocks; choose another model.")


@functools.cache
def _modules() -> dict[str, Any]:
    """Modules for what torchvision does between its own; defined when first used, as torch is not loaded with us."""
    import torch
    from torch import nn

    class PatchStem(nn.Module):  # type: ignore[misc]
        """A vision transformer up to its first encoder layer: patches, class token, positions."""

        def __init__(self, vit: Any) -> None:
            super().__init__()
            self.conv_proj, self.dropout = vit.conv_proj, vit.encoder.dropout
            self.class_token, self.pos_embedding = vit.class_token, vit.encoder.pos_embedding

        def forward(self, pixels: Any) -> Any:
            patches = self.conv_proj(pixels).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.class_token.expand(len(patches), -1, -1), patches], dim=1)
            return self.dropout(tokens + self.pos_embedding)

    class TokenHead(nn.Module):  # type: ignore[misc]
        """From the last encoder layer to the scores: only the class token is read."""

        def __init__(self, vit: Any) -> None:
            super().__init__()
            self.ln, self.heads = vit.encoder.ln, vit.heads

        def forward(self, tokens: Any) -> Any:
            return self.heads(self.ln(tokens)[:, 0])

    class Joint(nn.Module):  # type: ignore[misc]
        def __init__(self, prefix: Any, heads: list[Any]) -> None:
            super().__init__()
            self.prefix, self.heads = prefix, nn.ModuleList(heads)

        def forward(self, values: Any) -> list[Any]:
            shared = self.prefix(values)
            return [head(shared) for head in self.heads]

    return {"PatchStem": PatchStem, "TokenHead": TokenHead, "Joint": Joint}
