"""Batch norm exchanged for group norm: statistics of each image alone, so that a batch may be split over devices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from engine.models import MODELS
from engine.params import setting

if TYPE_CHECKING:
    import torch

Norm = Literal["batch", "group"]
GROUPS = 32


def norm_setting() -> Any:
    return setting("batch", title="Normalisation",
                   help="batch: as the model is known. group: GroupNorm in its place, which does not look at the other "
                        "images of a batch: only then do one and several devices train alike.")


def values_per_channel(model: str, images: int, image_size: int) -> int | None:
    """How many the last batch norm of a model sees in a batch; None for a model without batch norm."""
    stride = MODELS[model].norm_stride
    return None if stride is None else images * (-(-image_size // stride)) ** 2


def single_value_problem(model: str, batch_size: int, image_size: int, instead: str = "") -> str | None:
    """Why batch norm cannot train on such a batch, in one sentence; None when it can. `instead` is one more way."""
    if values_per_channel(model, batch_size, image_size) != 1:
        return None
    return (f"batch_size={batch_size}: at {image_size} px the last batch norm of {model} has one value per channel and "
            f"cannot train on it; use two images or more, larger images{instead}")


def count_batch_norms(model: torch.nn.Module) -> int:
    from torch.nn.modules.batchnorm import _BatchNorm

    return sum(isinstance(module, _BatchNorm) for module in model.modules())


def use_group_norm(model: torch.nn.Module) -> int:
    """Exchange every batch norm in place; returns how many there were."""
    from torch import nn

    exchanged = 0
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.BatchNorm2d):
                groups = math.gcd(GROUPS, child.num_features)
                setattr(parent, name, nn.GroupNorm(groups, child.num_features, eps=child.eps))
                exchanged += 1
    return exchanged
