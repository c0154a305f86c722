"""Rate of the memory-mapped reader through a loader, against a plain loop that copies the same slices."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from comparison import at_least, estimate, print_report, progress, ratio, spread

ROUNDS = 15
ITEMS = 512
BATCH = 32
SIDE = 224
JPEG_ITEMS = 32
"""Decoding is so much slower that a few say enough."""
QUICK = ("plain_loop", "whole_batches")
PASSES = 15
"""Of the quick ones in every round, mixed at random; their median is the round's rate. A pass takes 50 ms, and one that
another process interrupts says nothing about reading."""
LIMIT = 0.9


class Itemwise:
    """The mapped items as a loader takes any set: item by item, then collated."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def plain_loop(pixels: Any, labels: Any) -> int:
    """What the reader cannot beat by much: each slice copied into memory of its own, labels beside it."""
    import numpy as np
    import torch

    for first in range(0, len(pixels), BATCH):
        batch = torch.from_numpy(np.array(pixels[first : first + BATCH]))
        kept = torch.from_numpy(labels[first : first + BATCH].copy())
        assert len(batch) == len(kept) == BATCH
    return len(pixels)


def through_loader(items: Any, workers: int) -> int:
    from engine.data import make_loader

    count = 0
    for pixels, _labels in make_loader(items, BATCH, workers):
        count += len(pixels)
    return count


def main() -> None:
    import numpy as np
    import torch

    from engine.building import prepare_items
    from engine.formats import open_items

    torch.set_num_threads(1)  # as in a loader's worker; otherwise stacking items would be done by several threads
    cache = Path(tempfile.mkdtemp(prefix="phaselab-reading-"))
    try:
        for kind in ("memmap", "tensor_files"):
            progress(f"building {kind}")
            prepare_items("generated", kind, SIDE, ITEMS, cache, lambda done, total: None)
        mapped, files = (open_items("generated", kind, cache, SIDE, ITEMS) for kind in ("memmap", "tensor_files"))
        # Mapped once, like the reader's: a new mapping would have to be paged in again in every round.
        pixels = np.memmap(mapped.file, np.float32, "r", shape=(ITEMS, 3, SIDE, SIDE))
        labels = np.asarray(mapped.labels)
        images = open_items("generated", "jpeg", cache, SIDE, JPEG_ITEMS)
        for slice_copied, item in zip(mapped.__getitems__(range(8))[0], range(8), strict=True):
            torch.testing.assert_close(slice_copied, images[item][0])
        ways: dict[str, Callable[[], int]] = {
            "plain_loop": lambda: plain_loop(pixels, labels),
            "whole_batches": lambda: through_loader(mapped, 0),
            "item_by_item": lambda: through_loader(Itemwise(mapped), 0),
            "tensor_files": lambda: through_loader(files, 0),
            "jpeg": lambda: through_loader(images, 0),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        draw = random.Random(0)
        for way in ways.values():
            way()  # pages in memory, libraries loaded
        for number in range(ROUNDS):
            progress(f"round {number + 1} of {ROUNDS}")
            passes: dict[str, list[float]] = {name: [] for name in ways}
            plan = [name for name in ways for _ in range(PASSES if name in QUICK else 1)]
            for name in draw.sample(plan, len(plan)):
                start = perf_counter()
                count = ways[name]()
                passes[name].append(count / (perf_counter() - start))
            for name, found in passes.items():
                rates[name].append(median(found))
    finally:
        shutil.rmtree(cache)
    to_plain = ratio(rates["whole_batches"], rates["plain_loop"])
    results: dict[str, Any] = {f"{name}_items_per_s": estimate(values) for name, values in rates.items()}
    results |= {f"{name}_rounds_items_per_s": spread(values) for name, values in rates.items()}
    results |= {f"{name}_to_plain_loop": ratio(values, rates["plain_loop"]) for name, values in rates.items()
                if name != "plain_loop"}
    print_report(
        "reading", f"Float32 batches of {BATCH} at {SIDE} px from a memory-mapped array, through a loader without "
        "workers, collation included; beside it the same item by item, tensor files and JPEG.",
        results, [at_least("rate of the memory-mapped reader to a plain loop's over the same slices", LIMIT, to_plain)])


if __name__ == "__main__":
    main()
