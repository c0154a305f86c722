"""Synthetic stores: snapshots that grew from one base by copying another one and re-initialising its last blocks.

How many blocks are new is drawn from a truncated normal: the three distributions of the study of shared prefixes
(Strassenburg, Glavic, Rabl, SIGMOD 2025, doi 10.1145/3725264).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from engine.search_network import build_blocks
from engine.snapshots import SnapshotStore

CACHE = "snapshots-v1"


class Distribution(NamedTuple):
    """Share of the blocks that a copy re-initialises: mean and standard deviation before truncation."""

    mean: float
    deviation: float


DISTRIBUTIONS = {"top_layers": Distribution(0.10, 0.05), "quarter": Distribution(0.25, 0.125),
                 "half": Distribution(0.50, 0.125)}


class Descent(NamedTuple):
    """Where a snapshot comes from: the number of the one it copies, and how many of its last blocks are new."""

    parent: int
    new_blocks: int


def draw_descent(distribution: str, models: int, blocks: int, seed: int) -> list[Descent]:
    """Of every snapshot after the base, which is number 0. A copy has at least one new block."""
    source = random.Random(f"{distribution} {seed}")
    mean, deviation = (share * blocks for share in DISTRIBUTIONS[distribution])
    found = []
    for number in range(1, models):
        new = 0
        while not 1 <= new <= blocks:
            new = round(source.gauss(mean, deviation))
        found.append(Descent(source.randrange(number), new))
    return found


def names_of(descent: list[Descent], blocks: int) -> list[list[str]]:
    """Every snapshot as a list of made-up block names that are shared as the blocks would be: for planning alone."""
    made = [[f"0/{index}" for index in range(blocks)]]
    for number, (parent, new) in enumerate(descent, 1):
        kept = blocks - new
        made.append(made[parent][:kept] + [f"{number}/{index}" for index in range(kept, blocks)])
    return made


def prepare_synthetic(cache: Path, distribution: str, models: int, network: dict[str, Any], seed: int,
                      progress: Callable[[int, int], None]) -> None:
    """Make the store unless it is there: beside its place first, so that it is there whole or not at all."""
    folder = synthetic_folder(cache, distribution, models, network, seed)
    if folder.is_dir():
        return
    import torch

    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        store = SnapshotStore(aside)
        torch.manual_seed(seed)
        descent = draw_descent(distribution, models, network["blocks"], seed)
        made = [[(block.kind, block.module.state_dict()) for block in build_blocks(network)]]
        for parent, new in descent:
            fresh = [(block.kind, block.module.state_dict()) for block in build_blocks(network)[-new:]]
            made.append([*made[parent][:-new], *fresh])
        width = len(str(models))
        for number, blocks in enumerate(made):
            store.add(f"model_{number:0{width}d}", network, blocks)
            progress(number + 1, models)
        os.rename(aside, folder)
    except OSError:
        if not folder.is_dir():  # another process made it meanwhile
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def synthetic_folder(cache: Path, distribution: str, models: int, network: dict[str, Any], seed: int) -> Path:
    shape = f"{network['blocks']}x{network['channels']}x{network['image_size']}x{network['features']}"
    return cache / CACHE / f"{distribution}-{models}-{shape}-{seed}"
