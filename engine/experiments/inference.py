"""How long does a model take to run over images, and where does the time go: loading, copying or computing?

Each batch is split into waiting for the loader (load_data), the copy to the device (data_to_device) and the forward
pass (inference). Batch size and loader workers are the usual things to sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from engine.building import prepare_items
from engine.formats import Format
from engine.models import fetch_weights, image_size_problem
from engine.params import InputError, setting
from engine.params import Params as BaseParams
from engine.profiling import profile_batches
from engine.settings import (
    DataName,
    DeviceName,
    ModelName,
    Precision,
    StoredItems,
    check_stored_items,
    data_setting,
    device_setting,
    format_setting,
    image_size_setting,
    model_setting,
    need_at_most,
    no_such_device,
    pin_memory_setting,
    precision_setting,
    prefetch_setting,
    profile_setting,
    workers_setting,
)

if TYPE_CHECKING:
    from engine.nvml import Gpus
    from engine.recorder import Recorder

DEFAULT_BATCHES = 20


class Params(BaseParams):
    model: ModelName = model_setting()
    batch_size: int = setting(32, title="Batch size", unit="images", ge=1, le=65536,
                              help="Images per batch; only full batches are measured.")
    workers: int = workers_setting()
    batches: int | None = setting(None, title="Batches", unit="batches", ge=1, le=1_000_000,
                                  help=f"How many batches to measure. Empty, with no images given: {DEFAULT_BATCHES}.")
    images: int | None = setting(None, title="Images", unit="images", ge=1, le=100_000_000,
                                 help="Measure so many images instead, whatever the batch size (9216 in seed 004).")
    data: DataName = data_setting()
    image_size: int = image_size_setting()
    device: DeviceName = device_setting()
    precision: Precision = precision_setting()
    channels_last: bool = setting(False, title="Channels last", help="Keep images and weights in NHWC memory order.")
    compile: bool = setting(False, title="torch.compile", help="Compile the model; compiling happens in the warm-up.")
    weights: Literal["random", "pretrained"] = setting(
        "random", title="Weights", help="pretrained downloads torchvision's weights once; speed does not depend on it.")
    timing: Literal["overlapped", "isolated"] = setting(
        "overlapped", title="Timing on a GPU",
        help="isolated waits for the GPU around each phase: phases add up, but the pipeline no longer overlaps.")
    warm_up_batches: int = setting(2, title="Warm-up", unit="batches", ge=2, le=1000,
                                   help="Batches of the real shape run before the clock starts.")
    prefetch_factor: int = prefetch_setting()
    pin_memory: bool = pin_memory_setting()
    format: Format = format_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if self.batches is not None and self.images is not None:
            raise ValueError("batches and images are both given; keep one of them")
        if self.images is not None and self.images < self.batch_size:
            raise ValueError(f"images={self.images}: fewer than one batch of {self.batch_size}; ask for more images")
        if problem := image_size_problem(self.model, self.image_size, self.weights):
            raise ValueError(problem)
        return self

    @property
    def asked_batches(self) -> int:
        """Full batches only, as the original study measured."""
        return self.images // self.batch_size if self.images is not None else self.batches or DEFAULT_BATCHES

    @property
    def stored_items(self) -> StoredItems:
        return StoredItems(self.data, self.format, self.image_size, self.asked_batches * self.batch_size)


def check(cells: Iterable[Params], cache: Path) -> None:
    check_stored_items((cell.stored_items for cell in cells), cache)


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    for need in need_at_most(cell.stored_items for cell in cells):
        prepare_items(*need, cache, progress)
    for model in {cell.model for cell in cells if cell.weights == "pretrained"}:
        fetch_weights(model, cache / "weights")


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.data import make_loader
    from engine.devices import autocast, begin_torch, settle
    from engine.formats import open_items
    from engine.models import build_model, load_pretrained

    device = begin_torch(params, params.device)

    with recorder.stage("prepare_data"):
        images = open_items(params.data, params.format, recorder.cache, params.image_size,
                            params.asked_batches * params.batch_size)
        batches = min(params.asked_batches, len(images) // params.batch_size)
        if batches == 0:
            raise InputError(f"batch_size={params.batch_size}: {params.data} has only {len(images)} images; "
                             "choose a smaller batch or more images")
        loader = make_loader(images, params.batch_size, params.workers, pin_memory=params.pin_memory,
                             prefetch_factor=params.prefetch_factor, seed=params.seed)
    recorder.effective(
        threads=torch.get_num_threads(), device=device, batches=batches, images=batches * params.batch_size,
        workers=loader.num_workers, prefetch_factor=loader.prefetch_factor,
        pin_memory=params.pin_memory and torch.cuda.is_available(),  # without CUDA torch leaves it out
        timing=params.timing if device.startswith("cuda") else "host",
        loader_context="fork" if params.workers else "none")

    layout = torch.channels_last if params.channels_last else torch.contiguous_format
    with recorder.stage("init_model"):
        model = build_model(params.model, params.image_size, "random").eval()
    if params.weights == "pretrained":
        with recorder.stage("load_state"):
            load_pretrained(model, params.model, recorder.cache / "weights")
    with recorder.stage("model_to_device"):
        model = model.to(device, memory_format=layout)
        forward: Any = torch.compile(model) if params.compile else model
        settle(device)

    precision = autocast(device, params.precision)
    with recorder.stage("warm_up"), torch.inference_mode(), precision:
        shape = (params.batch_size, 3, params.image_size, params.image_size)
        example = torch.rand(shape).to(device, memory_format=layout)
        for _ in range(params.warm_up_batches):
            forward(example)
            recorder.alive()
        del example
        settle(device)

    with recorder.measure(device, params.timing == "isolated") as clock, torch.inference_mode(), precision:
        load = clock.phase("load_data")
        copy = clock.phase("data_to_device", on_device=True)
        infer = clock.phase("inference", on_device=True)
        loading = None
        for _ in range(batches):
            with load:
                # The workers start inside the first wait: their start-up is part of the first batch.
                loading = loading or iter(loader)
                pixels, _labels = next(loading)
            with copy:
                pixels = pixels.to(device, memory_format=layout, non_blocking=params.pin_memory)
            with infer:
                forward(pixels)
            clock.end_batch(params.batch_size)

    if params.profile:
        def infer_batch(pixels: Any, _labels: Any) -> None:
            with torch.inference_mode(), precision:
                forward(pixels.to(device, memory_format=layout, non_blocking=params.pin_memory))

        profile_batches(recorder, device, loader, infer_batch)
