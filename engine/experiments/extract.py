"""How long does it take to score a model without training it, and what does the score say?

Features of the training and validation images in one pass without gradients, through the evaluation transform; then
every score of them: a linear head (SGD 0.1, 100 epochs), ridge regression, LDA, nearest neighbours and LogME, each with
its seconds. The measured window is the pass, as in seed 000; the scores are the stage after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from engine.features import extract_features, record_scores
from engine.models import image_size_problem
from engine.params import Params as BaseParams
from engine.params import setting
from engine.profiling import profile_batches
from engine.settings import (
    DataName,
    DeviceName,
    ModelName,
    Precision,
    data_setting,
    device_setting,
    image_size_setting,
    model_setting,
    no_such_device,
    precision_setting,
    profile_setting,
    workers_setting,
)
from engine.splits import (
    check_splits,
    classes_setting,
    count_val,
    head_setting,
    open_loader,
    open_split,
    prepare_splits,
    train_setting,
    val_setting,
)

if TYPE_CHECKING:
    from engine.nvml import Gpus
    from engine.recorder import Recorder


def standardise_setting() -> Any:
    return setting(True, title="Standardise features",
                   help="To mean 0 and deviation 1 before scoring. Without it the scores depend on how large the "
                        "features are, which differs by orders of magnitude between networks with random weights.")


class Params(BaseParams):
    model: ModelName = model_setting()
    train_images: int = train_setting()
    val_images: int | None = val_setting()
    batch_size: int = setting(32, title="Batch size", unit="images", ge=1, le=65536,
                              help="Images per batch; the last batch of a pass holds what is left.")
    workers: int = workers_setting()
    data: DataName = data_setting()
    classes: int | None = classes_setting()
    head_classes: int | None = head_setting()
    standardise: bool = standardise_setting()
    image_size: int = image_size_setting()
    weights: Literal["random", "pretrained"] = setting(
        "random", title="Weights", help="pretrained downloads torchvision's weights once; scores of random weights "
                                        "rank architectures, not what they have learnt.")
    device: DeviceName = device_setting()
    precision: Precision = precision_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if problem := image_size_problem(self.model, self.image_size, self.weights):
            raise ValueError(problem)
        return self

    @property
    def held_out(self) -> int:
        return count_val(self.train_images, self.val_images)


def check(cells: Iterable[Params], cache: Path) -> None:
    check_splits(list(cells), cache)


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    prepare_splits(cells, cache, progress)


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.devices import autocast, begin_torch, settle
    from engine.models import build_model, remove_head
    from engine.scores import Features

    device = begin_torch(params, params.device)
    with recorder.stage("prepare_data"):
        split = open_split(params.data, recorder.cache, params.image_size, params.train_images, params.held_out,
                           params.classes, params.head_classes)
        train = open_loader(split.train, params.batch_size, params.workers)
        val = open_loader(split.val, params.batch_size, params.workers)
    recorder.effective(threads=torch.get_num_threads(), device=device, workers=train.num_workers,
                       prefetch_factor=train.prefetch_factor, val_images=params.held_out, classes=split.classes,
                       head_classes=split.head_classes,
                       timing="host" if device == "cpu" else "overlapped",
                       loader_context="fork" if params.workers else "none")
    with recorder.stage("init_model"):
        model = build_model(params.model, params.image_size, params.weights, weights_cache=recorder.cache / "weights")
        dimension = remove_head(model)
        model.eval()
    with recorder.stage("model_to_device"):
        model = model.to(device)
        settle(device)
    precision = autocast(device, params.precision)
    with recorder.stage("warm_up"), torch.inference_mode(), precision:
        example = torch.rand(params.batch_size, 3, params.image_size, params.image_size, device=device)
        for _ in range(2):
            model(example)
            recorder.alive()
        settle(device)

    with recorder.measure(device) as clock:
        trained = extract_features(model, train, clock, device, precision)
        held_out = extract_features(model, val, clock, device, precision)
    features = Features(*trained, *held_out)
    recorder.metric("feature_dimension", dimension)
    recorder.metric("feature_bytes", (features.train.numel() + features.val.numel()) * features.train.element_size(),
                    "bytes")
    with recorder.stage("score"):
        score_s = record_scores(features.standardised() if params.standardise else features, split.head_classes,
                                params.seed, device, recorder)
    recorder.metric("score_s", score_s, "s")
    if params.profile:
        def extract_batch(pixels: torch.Tensor, _labels: torch.Tensor) -> None:
            with torch.inference_mode(), precision:
                model(pixels.to(device))

        profile_batches(recorder, device, train, extract_batch)
