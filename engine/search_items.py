"""The items that a search extracts features from, all of them in memory before the clock starts.

`patterns` are drawn in memory: noisy copies of one random picture per class. Other names are image sets of engine.data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.params import InputError

if TYPE_CHECKING:
    import torch

PATTERNS = "patterns"
PATTERN_CLASSES = 10
NOISE = 2.0
"""Standard deviation of the noise on a picture of unit variance: no model tells all classes apart."""


class Items(NamedTuple):
    pixels: torch.Tensor
    labels: torch.Tensor
    classes: int


def load_items(data: str, count: int, image_size: int, seed: int, cache: Path, alive: Callable[[], None]) -> Items:
    if data == PATTERNS:
        return draw_patterns(count, image_size, seed)
    import torch

    from engine.data import open_images

    images = open_images(data, cache, image_size, count)
    if len(images) < count:
        raise InputError(f"items={count}: {data} has only {len(images)} images; ask for fewer")
    pixels, labels = [], []
    for index in range(count):
        picture, label = images[index]
        pixels.append(picture)
        labels.append(label)
        alive()
    return Items(torch.stack(pixels), torch.tensor(labels), len(images.classes))


def draw_patterns(count: int, image_size: int, seed: int) -> Items:
    """Classes take turns, so that any number of first items holds all of them."""
    import torch

    source = torch.Generator().manual_seed(seed)
    pictures = torch.randn(PATTERN_CLASSES, 3, image_size, image_size, generator=source)
    labels = torch.arange(count) % PATTERN_CLASSES
    noise = torch.randn(count, 3, image_size, image_size, generator=source)
    return Items(pictures[labels] + NOISE * noise, labels, PATTERN_CLASSES)
