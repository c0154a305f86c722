"""How long until a loader's first batch? The same code as a run and, started by itself, as a plain script."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from engine.params import Params as BaseParams
from engine.params import setting

if TYPE_CHECKING:
    from engine.recorder import Recorder

BATCH_SIZE, WORKERS, IMAGE_SIZE, IMAGES = 32, 2, 64, 256


class Params(BaseParams):
    inherit: bool = setting(False, title="Inherit", help="Give the loader no context of its own.")


def run(params: Params, recorder: Recorder) -> None:
    recorder.metric("first_batch_s", first_batch_s(recorder.cache, params.inherit), "s")


def first_batch_s(cache: Path, inherit: bool = False) -> float:
    """Seconds from iter() to the first batch, worker start-up included."""
    from torch.utils.data import DataLoader

    from engine.data import make_loader, open_images, prepare_data

    prepare_data("generated", IMAGES, cache, lambda done, total: None)
    images = open_images("generated", cache, IMAGE_SIZE, IMAGES)
    loader = (DataLoader(images, BATCH_SIZE, num_workers=WORKERS, drop_last=True) if inherit
              else make_loader(images, BATCH_SIZE, WORKERS))
    started = perf_counter()
    batches = iter(loader)
    next(batches)
    return perf_counter() - started


if __name__ == "__main__":
    print(first_batch_s(Path(sys.argv[1])))
