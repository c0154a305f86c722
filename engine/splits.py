"""Images for training and for validation: how many of which classes, their loaders, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from engine.data import GENERATED, ImageItems, check_data, list_classes, list_images, open_images
from engine.data import prepare_data as make_images
from engine.decoding import IMAGENET_MEAN, IMAGENET_STD
from engine.drawing import GENERATED_CLASSES
from engine.file_cache import read_ahead
from engine.models import fetch_weights
from engine.params import InputError, setting
from engine.settings import check_image_sets

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

MOST_ITEMS = 10_000_000


def train_setting() -> Any:
    return setting(80, title="Training images", unit="images", ge=1, le=MOST_ITEMS,
                   help="The first so many of the set, all classes in turn (80, 800 and 3200 in seed 000).")


def val_setting() -> Any:
    return setting(None, title="Validation images", unit="images", ge=1, le=MOST_ITEMS,
                   help="The next so many, never trained on. Empty: a quarter as many as for training, as in seed 000.")


def count_val(train: int, val: int | None) -> int:
    """How many images validate."""
    return max(train // 4, 1) if val is None else val


def classes_setting() -> Any:
    return setting(None, title="Classes used", unit="classes", ge=2, le=100_000,
                   help="Only the first so many classes of the data. Empty: all of them.")


def head_setting() -> Any:
    return setting(None, title="Head", unit="classes", ge=2, le=1_000_000,
                   help="Outputs of the last layer: 1000, 100, 2, or any number of at least the data's classes. Empty: "
                        "as many as the data has classes.")


class Asked(Protocol):
    """What of an experiment's Params decides which images and weights are needed."""

    @property
    def data(self) -> str: ...
    @property
    def classes(self) -> int | None: ...
    @property
    def head_classes(self) -> int | None: ...
    @property
    def train_images(self) -> int: ...
    @property
    def held_out(self) -> int: ...
    @property
    def model(self) -> str: ...
    @property
    def weights(self) -> str: ...


class Split(NamedTuple):
    train: ImageItems
    val: ImageItems
    classes: int
    head_classes: int


def check_splits(cells: Sequence[Asked], cache: Path) -> None:
    """Sets and classes are there, or one sentence about the first that is not."""
    check_image_sets((cell.data for cell in cells), cache)
    for data, classes, head in sorted({(c.data, c.classes, c.head_classes) for c in cells}, key=str):
        classes_used(data, classes, head, len(list_classes(data, cache)))


def classes_used(data: str, classes: int | None, head: int | None, available: int) -> int:
    """How many classes take part."""
    if available < 2:
        raise InputError(f"data={data}: has one class only, so there is nothing to tell apart; give a folder with at "
                         "least two class folders")
    if classes is not None and classes > available:
        raise InputError(f"classes={classes}: {data} has only {available}; ask for at most that many")
    used = classes or available
    if head is not None and head < used:
        raise InputError(f"head_classes={head}: the data has {used} classes, more than the head; "
                         f"raise head_classes to {used} or lower classes to {head}")
    return used


def prepare_splits(cells: Sequence[Asked], cache: Path, progress: Callable[[int, int], None]) -> None:
    """Make or count the images, read them once so that the first run is like the others, and fetch weights that were
    asked for."""
    needs: dict[tuple[str, int | None], int] = {}
    for cell in cells:
        key = (cell.data, cell.classes)
        needs[key] = max(needs.get(key, 0), cell.train_images + cell.held_out)
    for (data, classes), items in needs.items():
        make_images(data, _drawn(data, items, classes) or items, cache, progress)
        files, labels, _ = list_images(check_data(data, cache), cache, _drawn(data, items, classes))
        used = [file for file, label in zip(files, labels, strict=True) if classes is None or label < classes]
        read_ahead(used[:items], progress)
    for model in {cell.model for cell in cells if cell.weights == "pretrained"}:
        fetch_weights(model, cache / "weights")


def _drawn(data: str, items: int, classes: int | None) -> int | None:
    """How many images hold `items` of the first classes; None where only looking tells."""
    if classes is None:
        return items
    whole = len(GENERATED_CLASSES)
    return (items // classes) * whole + (items % classes or 0) if data == GENERATED and classes <= whole else None


def open_split(data: str, cache: Path, image_size: int, train: int, val: int, classes: int | None,
               head_classes: int | None) -> Split:
    """The first images for training, the next ones for validation, both through the evaluation transform."""
    whole = open_images(data, cache, image_size, _drawn(data, train + val, classes))
    used = classes_used(data, classes, head_classes, len(whole.classes))
    chosen = [index for index, label in enumerate(whole.labels) if label < used][: train + val]
    if len(chosen) < train + val:
        raise InputError(f"train_images={train}, val_images={val}: {data} has only {len(chosen)} images"
                         f"{'' if classes is None else f' of these {classes} classes'}; ask for fewer")
    parts = [_some(whole, chosen[:train], used), _some(whole, chosen[train:], used)]
    if len(set(parts[0].labels)) < 2:
        raise InputError(f"train_images={train}: they are all of one class; ask for at least {used}, one per class")
    return Split(parts[0], parts[1], used, head_classes or used)


def _some(items: ImageItems, indices: list[int], classes: int) -> ImageItems:
    return replace(items, files=[items.files[i] for i in indices], labels=[items.labels[i] for i in indices],
                   classes=items.classes[:classes])


def with_augmentation(items: ImageItems, image_size: int) -> ImageItems:
    """As seed 000 trained: a random crop of random size, flipped at random."""
    from torchvision import transforms

    transform = transforms.Compose([
        transforms.RandomResizedCrop(image_size), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)])
    return replace(items, transform=transform)


def open_loader(items: Any, batch_size: int, workers: int, *, shuffle: bool = False, seed: int = 0,
                pin_memory: bool = False) -> DataLoader[Any]:
    """Every item once per pass, the last batch being what is left. Workers live on from pass to pass."""
    import torch
    from torch.utils.data import DataLoader

    return DataLoader(items, batch_size=batch_size, shuffle=shuffle, num_workers=workers, pin_memory=pin_memory,
                      # See engine.data.make_loader: a run would hand `forkserver` on.
                      multiprocessing_context="fork" if workers > 0 else None, persistent_workers=workers > 0,
                      generator=torch.Generator().manual_seed(seed))
