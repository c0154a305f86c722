"""Items that are tensors already, and how a batch of any items is fetched: at once, one by one, or by threads.

A set with `whole_batches` is read a batch at a time into memory that is allocated once: nothing is left to collate.
Importable without torch and numpy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.data import DataError

if TYPE_CHECKING:
    import torch

Batch = tuple["torch.Tensor", "torch.Tensor"]
"""Pixels (items, 3, side, side) and labels."""


@dataclass(eq=False)
class TensorFiles:
    """One file of raw float32 per item, which is a whole normalised tensor."""

    folder: Path
    labels: list[int]
    classes: list[str]
    image_size: int

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import torch

        pixels = torch.empty(3, self.image_size, self.image_size)
        file = record_file(self.folder, index)
        try:
            with open(file, "rb", buffering=0) as stream:
                read_bytes = stream.readinto(pixels.numpy().data.cast("B"))
        except OSError as error:
            raise DataError(f"data: the record {str(file)!r} cannot be read ({error.strerror}); run again: what is "
                            f"missing is made anew.") from error
        if read_bytes != pixels.nbytes:
            raise DataError(f"data: the record {str(file)!r} has {read_bytes} of {pixels.nbytes} bytes; run again: it "
                            f"is made anew.")
        return pixels, self.labels[index]


def record_file(folder: Path, index: int) -> Path:
    """A thousand records per folder: no file system likes a hundred thousand in one."""
    return folder / f"{index // 1000:04d}" / f"{index:07d}.f32"


@dataclass(eq=False)
class MappedItems:
    """All items in one file of raw float32, mapped into memory. Holds names only until it is first read."""

    file: Path
    labels: list[int]
    classes: list[str]
    image_size: int
    whole_batches = True
    _arrays: tuple[Any, Any] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        import torch

        pixels, _ = self._mapped()
        return torch.from_numpy(pixels[index].copy()), self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """A whole batch. Neighbours, which is what a loader in order asks for, are one copy."""
        import torch
        from torch.utils.data import get_worker_info

        pixels, labels = self._mapped()
        chosen = slice(indices[0], indices[0] + len(indices))
        neighbours = list(indices) == list(range(chosen.start, chosen.stop))
        if neighbours and get_worker_info() is None:
            return torch.from_numpy(pixels[chosen].copy()), torch.from_numpy(labels[chosen].copy())
        batch = self.new_batch(len(indices))
        if neighbours:
            batch[0].numpy()[:], batch[1].numpy()[:] = pixels[chosen], labels[chosen]
        else:
            for place, index in enumerate(indices):
                self.copy_into(batch, place, index)
        return batch

    def new_batch(self, count: int) -> Batch:
        """Memory for a batch; in a loader's worker it is shared, so that handing it over copies nothing."""
        import numpy as np
        import torch
        from torch.utils.data import get_worker_info

        shape = (count, 3, self.image_size, self.image_size)
        if get_worker_info() is None:
            # numpy asks the kernel for huge pages: filling new memory takes far fewer page faults than torch's own.
            return torch.from_numpy(np.empty(shape, np.float32)), torch.empty(count, dtype=torch.int64)
        # As torch's own collation does it.
        storage = torch.UntypedStorage._new_shared(count * self.record_bytes, device="cpu")
        return torch.empty(0).set_(storage, 0, shape), torch.empty(count, dtype=torch.int64)

    def copy_into(self, batch: Batch, place: int, index: int) -> None:
        pixels, labels = self._mapped()
        batch[0].numpy()[place] = pixels[index]
        batch[1].numpy()[place] = labels[index]

    @property
    def record_bytes(self) -> int:
        return record_bytes(self.image_size)

    def _mapped(self) -> tuple[Any, Any]:
        import numpy as np

        if self._arrays is None:
            try:
                pixels = np.memmap(self.file, "<f4", "r", shape=(len(self), 3, self.image_size, self.image_size))
            except (OSError, ValueError) as error:  # numpy's word for a file that is too short
                raise DataError(f"data: the array {str(self.file)!r} cannot be read ({error}); run again: it is made "
                                f"anew.") from error
            # A plain array over the same memory: slicing the subclass costs more than it gives.
            self._arrays = np.asarray(pixels), np.asarray(self.labels, dtype=np.int64)
        return self._arrays


def stored_files(items: Any) -> list[str | Path]:
    """The files that the items are read from."""
    if isinstance(items, MappedItems):
        return [items.file]
    if isinstance(items, TensorFiles):
        return [record_file(items.folder, index) for index in range(len(items))]
    return list(items.files)


def record_bytes(image_size: int) -> int:
    return 3 * image_size * image_size * 4


@dataclass(eq=False)
class FetchedItems:
    """A set whose batches are fetched by `threads` at a time, each item `latency_s` late, as from a far storage."""

    items: Any
    threads: int
    latency_s: float
    _pool: tuple[int, ThreadPoolExecutor] | None = field(default=None, repr=False)

    @property
    def whole_batches(self) -> bool:
        return bool(getattr(self.items, "whole_batches", False))

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        self._wait()
        return self.items[index]

    def __getitems__(self, indices: Sequence[int]) -> Any:
        if not self.whole_batches:
            return self._each(lambda place: self[indices[place]], len(indices))
        batch = self.items.new_batch(len(indices))

        def fetch(place: int) -> None:
            self._wait()
            self.items.copy_into(batch, place, indices[place])

        self._each(fetch, len(indices))
        return batch

    def _wait(self) -> None:
        if self.latency_s > 0:
            time.sleep(self.latency_s)

    def _each(self, fetch: Callable[[int], Any], count: int) -> list[Any]:
        if self.threads == 1:
            return [fetch(place) for place in range(count)]
        # Threads do not survive a fork: each worker has its own.
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), ThreadPoolExecutor(self.threads)
        return list(self._pool[1].map(fetch, range(count)))
