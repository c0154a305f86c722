"""Batch norm exchanged for group norm: statistics of each image alone, so that a batch may be split over devices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from engine.params import setting

if TYPE_CHECKING:
    import torch

Norm = Literal["batch", "group"]
GROUPS = 32


def norm_setting() -> Any:
    return setting("batch", title="Normalisation",
                   help="batch: as the model is known. group: GroupNorm in its place, which does not look at the other "
                        "images of a batch: only then do one and several devices train alike.")


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
