"""How fast does a loader deliver batches, and who waits for whom?

The loader alone, without a model: load_data is the wait for each batch, consume a pause of stated length that stands
for the computing. Every file is read once before the clock starts: what fits into memory comes from there, whichever
run is the first, and a slow storage is an injected latency.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from engine.building import prepare_items
from engine.decoding import Decoder
from engine.formats import Format
from engine.params import InputError, setting
from engine.params import Params as BaseParams
from engine.profiling import profile_batches
from engine.settings import (
    DataName,
    StoredItems,
    check_all_jpeg,
    check_stored_items,
    data_setting,
    format_setting,
    image_size_setting,
    need_at_most,
    pin_memory_setting,
    prefetch_setting,
    profile_setting,
    workers_setting,
)

if TYPE_CHECKING:
    from engine.recorder import Recorder

DEFAULT_BATCHES = 20


class Params(BaseParams):
    batch_size: int = setting(32, title="Batch size", unit="images", ge=1, le=65536,
                              help="Images per batch; only full batches are measured.")
    workers: int = workers_setting()
    batches: int | None = setting(None, title="Batches", unit="batches", ge=1, le=1_000_000,
                                  help=f"Batches of one epoch. Empty, with no images given: {DEFAULT_BATCHES}.")
    images: int | None = setting(None, title="Images", unit="images", ge=1, le=100_000_000,
                                 help="Load so many images per epoch instead, whatever the batch size.")
    epochs: int = setting(1, title="Epochs", unit="passes", ge=1, le=1000,
                          help="Passes over the images. Persistent workers differ from the second one on.")
    data: DataName = data_setting()
    image_size: int = image_size_setting()
    format: Format = format_setting()
    decoder: Decoder = setting("pil", title="Decoder",
                               help="pil, or torchvision's decode_jpeg, which reads JPEG only. Without effect on "
                                    "preprocessed items.")
    fetch_threads: int = setting(1, title="Concurrent fetch", unit="threads per worker", ge=1, le=1024,
                                 help="Threads inside each worker that fetch the items of a batch at the same time. "
                                      "1: one item after another.")
    latency_s: float = setting(0.0, title="Storage latency", unit="s per item", ge=0, le=10,
                               help="Injected wait before each item, as from a far storage. 0.02 is 20 ms.")
    consume_s: float = setting(0.0, title="Consumer", unit="s per batch", ge=0, le=60,
                               help="Pause after each batch, in place of computing. 0: batches are taken at once.")
    prefetch_factor: int = prefetch_setting()
    persistent_workers: bool = setting(False, title="Persistent workers",
                                       help="Keep the workers between epochs instead of starting new ones.")
    pin_memory: bool = pin_memory_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if self.batches is not None and self.images is not None:
            raise ValueError("batches and images are both given; keep one of them")
        if self.images is not None and self.images < self.batch_size:
            raise ValueError(f"images={self.images}: fewer than one batch of {self.batch_size}; ask for more images")
        return self

    @property
    def asked_batches(self) -> int:
        return self.images // self.batch_size if self.images is not None else self.batches or DEFAULT_BATCHES

    @property
    def stored_items(self) -> StoredItems:
        return StoredItems(self.data, self.format, self.image_size, self.asked_batches * self.batch_size)


def check(cells: Iterable[Params], cache: Path) -> None:
    chosen = list(cells)
    check_stored_items((cell.stored_items for cell in chosen), cache)
    for name in {cell.data for cell in chosen if cell.decoder == "torchvision" and cell.format == "jpeg"}:
        check_all_jpeg(name, cache)


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    for need in need_at_most(cell.stored_items for cell in cells):
        prepare_items(*need, cache, progress)


def run(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.data import make_loader
    from engine.devices import begin_torch
    from engine.fetching import FetchedItems, stored_files
    from engine.file_cache import read_once
    from engine.formats import open_items

    begin_torch(params, "cpu")
    with recorder.stage("prepare_data"):
        items: Any = open_items(params.data, params.format, recorder.cache, params.image_size,
                                params.asked_batches * params.batch_size, params.decoder)
        batches = min(params.asked_batches, len(items) // params.batch_size)
        if batches == 0:
            raise InputError(f"batch_size={params.batch_size}: {params.data} has only {len(items)} images; "
                             "choose a smaller batch or more images")
        files = stored_files(items)[: batches * params.batch_size]
        threads = min(params.fetch_threads, params.batch_size)
        if threads > 1 or params.latency_s > 0:
            items = FetchedItems(items, threads, params.latency_s)
        loader = make_loader(items, params.batch_size, params.workers, pin_memory=params.pin_memory,
                             prefetch_factor=params.prefetch_factor, persistent_workers=params.persistent_workers,
                             seed=params.seed)
    recorder.effective(
        threads=torch.get_num_threads(), batches_per_epoch=batches, images=batches * params.batch_size,
        workers=loader.num_workers, prefetch_factor=loader.prefetch_factor, fetch_threads=threads,
        persistent_workers=loader.persistent_workers,
        pin_memory=params.pin_memory and torch.cuda.is_available(),  # without CUDA torch leaves it out
        decoder=params.decoder if params.format == "jpeg" else "none",
        loader_context="fork" if params.workers else "none")

    with recorder.stage("warm_up"):
        for number, file in enumerate(files):
            read_once(file)
            if number % 100 == 0:
                recorder.alive()

    with recorder.measure() as clock:
        load, consume = clock.phase("load_data"), clock.phase("consume")
        loading: Any = None
        for _ in range(params.epochs):
            for batch in range(batches):
                with load:
                    if batch == 0:
                        # Workers start inside the first wait of an epoch, and those of the last one end in it.
                        loading = None
                        loading = iter(loader)
                    pixels, _labels = next(loading)
                if params.consume_s > 0:
                    with consume:
                        time.sleep(params.consume_s)
                del pixels, _labels
                clock.end_batch(params.batch_size)
    if params.profile:
        # The profiler sees its own process only: what a worker does is done here once.
        alone = make_loader(items, params.batch_size, 0, pin_memory=params.pin_memory, seed=params.seed)
        profile_batches(recorder, "cpu", alone, lambda *batch: None)
