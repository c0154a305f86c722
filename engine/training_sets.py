"""Images to train on and to validate with, as one process of several sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.formats import open_items
from engine.params import InputError
from engine.settings import StoredItems
from engine.training_loop import Place

if TYPE_CHECKING:
    from torch.utils.data import DataLoader


class TrainingSets(NamedTuple):
    """This process's share: full batches of one epoch, and its part of the validation images (None: there are none).
    `val_images` counts those of all ranks."""

    train: DataLoader[Any]
    val: DataLoader[Any] | None
    sampler: Any
    batches: int
    val_images: int
    classes: int


def open_sets(asked: StoredItems, cache: Path, train_images: int, global_batch_size: int, place: Place, seed: int,
              load: Callable[..., DataLoader[Any]]) -> TrainingSets:
    """`load` makes a loader of items and a batch size."""
    from torch.utils.data import Subset
    from torch.utils.data.distributed import DistributedSampler

    items: Any = open_items(asked.data, asked.format, cache, asked.image_size, asked.items)
    batches = min(train_images, len(items)) // global_batch_size
    if batches == 0:
        raise InputError(f"batch_size: {asked.data} has only {len(items)} images, fewer than one global batch of "
                         f"{global_batch_size}; choose a smaller batch or more images")
    images = batches * global_batch_size
    chosen: Any = Subset(items, range(images))
    # Every rank takes every n-th image of one order: together they see the batches that one process would.
    sampler: Any = DistributedSampler(chosen, place.ranks, place.rank, shuffle=True, seed=seed, drop_last=True)
    batch_size = global_batch_size // place.ranks  # of this process: DataParallel splits a batch itself
    train = load(chosen, batch_size, sampler=sampler)
    # The same number for every rank: FSDP's ranks wait for each other in every batch.
    share = max(0, min(asked.items - train_images, len(items) - images)) // place.ranks
    first = len(items) - share * place.ranks
    own = Subset(items, range(first + place.rank, len(items), place.ranks))
    val = load(own, batch_size, drop_last=False) if share else None
    return TrainingSets(train, val, sampler, batches, share * place.ranks, len(items.classes))
