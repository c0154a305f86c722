"""RevNets and the adjusted ResNets they are compared with, as seed 003 built them; RevNets here train every parameter.

The classes need torch as their base and are made on first use.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.reversible import run_reversibly

if TYPE_CHECKING:
    import torch

WIDTHS = (32, 64, 112)
STRIDES = (1, 2, 2)
ADJUSTED = {"adjusted_resnet18": ("BasicBlock", (2, 2, 2, 2)), "adjusted_resnet34": ("BasicBlock", (3, 4, 6, 3)),
            "adjusted_resnet50": ("Bottleneck", (3, 4, 6, 3))}
ADJUSTED_WIDTHS = (32, 32, 64, 128)
"""Seed 003 prints 112 for the last one; its published parameter counts need 128."""


def build_revnet(units_per_stage: int, classes: int) -> torch.nn.Module:
    """RevNet n-n-n. It trains plainly, as every model does; with `reversible` set it computes inputs again instead of
    keeping them (engine/memory_methods.py)."""
    network: torch.nn.Module = _revnet_class()(units_per_stage, classes)
    return network


def build_adjusted_resnet(name: str, classes: int) -> torch.nn.Module:
    """3x3 stem at full resolution, no max pooling, narrow stages."""
    from torch import nn
    from torchvision.models.resnet import BasicBlock, Bottleneck, conv1x1

    kind, counts = ADJUSTED[name]
    block = BasicBlock if kind == "BasicBlock" else Bottleneck
    channels = ADJUSTED_WIDTHS[0]
    stages: dict[str, nn.Module] = {}
    for stage, (width, count, stride) in enumerate(zip(ADJUSTED_WIDTHS, counts, (1, 2, 2, 2), strict=True), 1):
        blocks = []
        for number in range(count):
            step = stride if number == 0 else 1
            out = width * block.expansion
            skip = None
            if step != 1 or channels != out:
                skip = nn.Sequential(conv1x1(channels, out, step), nn.BatchNorm2d(out))
            blocks.append(block(channels, width, step, skip))
            channels = out
        stages[f"layer{stage}"] = nn.Sequential(*blocks)
    # Named like torchvision's parts.
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(3, ADJUSTED_WIDTHS[0], 3, padding=1, bias=False), bn1=nn.BatchNorm2d(ADJUSTED_WIDTHS[0]),
        relu=nn.ReLU(), **stages, avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(),
        fc=nn.Linear(channels, classes)))


@cache
def _revnet_class() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional

    def half_of_unit(source: int, channels: int, stride: int, leading: bool) -> nn.Sequential:
        first = [nn.BatchNorm2d(source), nn.ReLU()] if leading else []
        return nn.Sequential(*first, nn.Conv2d(source, channels, 3, stride, padding=1), nn.BatchNorm2d(channels),
                             nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1))

    class RevUnit(nn.Module):  # type: ignore[misc]
        """Two halves of the channels, each added to after a look at the other."""

        def __init__(self, source: int, channels: int, stride: int, first: bool) -> None:
            super().__init__()
            self.stride, self.more = stride, channels - source
            self.f = half_of_unit(source, channels, stride, leading=not first)
            self.g = half_of_unit(channels, channels, 1, leading=True)

        @property
        def can_be_undone(self) -> bool:
            return self.stride == 1 and self.more == 0

        def skip(self, half: Any) -> Any:
            if self.stride > 1:
                half = functional.avg_pool2d(half, 3, self.stride, padding=1)
            return functional.pad(half, (0, 0, 0, 0, 0, self.more)) if self.more else half

        def forward(self, left: Any, right: Any) -> tuple[Any, Any]:
            left = self.skip(left) + self.f(right)
            return left, self.skip(right) + self.g(left)

    class JoinedUnit(nn.Module):  # type: ignore[misc]
        def __init__(self, unit: Any) -> None:
            super().__init__()
            self.unit = unit

        def forward(self, halves: Any) -> Any:
            return torch.cat(self.unit(*halves.chunk(2, dim=1)), dim=1)

    class RevNet(nn.Module):  # type: ignore[misc]
        def __init__(self, units_per_stage: int, classes: int) -> None:
            super().__init__()
            self.reversible = False
            self.stem = nn.Sequential(nn.Conv2d(3, WIDTHS[0], 3, padding=1), nn.BatchNorm2d(WIDTHS[0]))
            self.stages = nn.ModuleList()
            source = WIDTHS[0] // 2
            for width, stride in zip(WIDTHS, STRIDES, strict=True):
                units = [RevUnit(source if number == 0 else width // 2, width // 2, stride if number == 0 else 1,
                                 first=number == 0) for number in range(units_per_stage)]
                self.stages.append(nn.ModuleList(units))
                source = width // 2
            self.head = nn.Linear(WIDTHS[-1], classes)

        def forward(self, pixels: Any) -> Any:
            left, right = self.stem(pixels).chunk(2, dim=1)
            for stage in self.stages:
                units = list(stage)
                while units and not (self.reversible and torch.is_grad_enabled() and units[0].can_be_undone):
                    left, right = units.pop(0)(left, right)
                if units:
                    left, right = run_reversibly(units, left, right)
            return self.head(torch.cat([left, right], dim=1).mean(dim=(2, 3)))

        def cut(self) -> list[tuple[str, Any]]:
            """As blocks of one tensor in and one out; the halves are joined between them."""
            pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), self.head)
            return [("stem", self.stem), *((f"stages.{stage}.{number}", JoinedUnit(unit)) for stage, units in
                                           enumerate(self.stages) for number, unit in enumerate(units)), ("head", pool)]

    return RevNet
