"""The code that runs stored blocks: which modules a network is made of, by the kind that its snapshots name.

Two families: `synthetic`, a residual network of equal blocks for measuring strategies, and torchvision's models, cut
into blocks. torch is loaded when called.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.blocks import cut
from engine.models import MODELS, build_model, image_size_problem, remove_head
from engine.params import InputError
from engine.snapshots import StoredModel

if TYPE_CHECKING:
    import torch

RESIDUAL_SCALE = 0.3
"""Of each block's own contribution, so that fifty of them with random weights neither fade nor blow up."""


class Block(NamedTuple):
    kind: str
    module: torch.nn.Module


def synthetic_network(blocks: int, channels: int, image_size: int, features: int) -> dict[str, Any]:
    return {"family": "synthetic", "blocks": blocks, "channels": channels, "image_size": image_size,
            "features": features}


def build_blocks(network: dict[str, Any]) -> list[Block]:
    """Every block of a network in order, in evaluation mode, with random weights after torch's current seed."""
    if network.get("family") == "synthetic":
        return _synthetic(network)
    if network.get("family") == "torchvision":
        return cut_features(build_model(network["model"], network["image_size"], "random"), network)
    raise InputError(f"network family {network.get('family')!r}: not known here; add the snapshot again with this "
                     "version")


def torchvision_network(model: str, image_size: int) -> dict[str, Any]:
    """Of the vision models only: what is searched over here are images."""
    if problem := image_size_problem(model, image_size, "random"):
        raise InputError(problem)
    if MODELS[model].kind != "vision":
        raise InputError(f"model={model}: it reads text, and a search runs on images; choose a vision model")
    return {"family": "torchvision", "model": model, "image_size": image_size}


def size_problem(network: dict[str, Any], image_size: int) -> str | None:
    """Why a stored network cannot run on items of this size, without a full stop; None when it can."""
    if network.get("family") != "torchvision":
        return None
    model, made_for = network["model"], network["image_size"]
    if problem := image_size_problem(model, image_size, "random"):
        return problem.rstrip(".")
    if MODELS[model].size_multiple > 1 and image_size != made_for:
        return f"image_size={image_size}: {model} was imported for {made_for} px and takes no other"
    return None


def cut_features(model: torch.nn.Module, network: dict[str, Any]) -> list[Block]:
    """A torchvision model as blocks that end with the features its last layer would have read."""
    remove_head(model)
    # A vision transformer is built for one size; the others run any.
    size = f"-{network['image_size']}" if MODELS[network["model"]].size_multiple > 1 else ""
    return [Block(f"{network['model']}{size}:{block.name}", block.module.eval().requires_grad_(False))
            for block in cut(model)]


def _synthetic(network: dict[str, Any]) -> list[Block]:
    from torch import nn

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.conv = nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            # In place where it may be: the input itself can be kept for another child.
            return self.conv(x.relu()).mul_(RESIDUAL_SCALE).add_(x)

    channels, features = network["channels"], network["features"]
    made: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1)]
    made += [Residual(channels) for _ in range(network["blocks"] - 2)]
    made.append(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, features), nn.Tanh()))
    shape = f"synthetic-{channels}x{network['image_size']}"
    kinds = [f"{shape}-stem", *[f"{shape}-residual"] * (len(made) - 2), f"{shape}-head{features}"]
    return [Block(kind, module.eval().requires_grad_(False)) for kind, module in zip(kinds, made, strict=True)]


def build_modules(models: Sequence[StoredModel], device: str) -> dict[str, torch.nn.Module]:
    """One module per kind of block that the models use; their weights are put in as they are needed."""
    import torch

    networks = {json.dumps(model.network, sort_keys=True): model.network for model in models}
    # Parameters that were made in inference mode could not take other weights later.
    with torch.inference_mode(False):
        found = {block.kind: block.module.to(device) for network in networks.values()
                 for block in build_blocks(network)}
    for model in models:
        if missing := [block.kind for block in model.blocks if block.kind not in found]:
            raise InputError(f"snapshot {model.name}: its network has no block of kind {missing[0]}; add it again with "
                             "this version")
    return found
