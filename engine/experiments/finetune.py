"""How long does fine-tuning a model take, and what does it reach?

Trains a pretrained or random network on images, all of it or its last layer only, and validates after every epoch. Each
training batch is split into the wait for the loader (load_data), the copy (data_to_device), forward, backward and
optimizer. Validation is a stage of its own between epochs, outside the measured window. Seed 000's settings are the
defaults: SGD with momentum, the rate cut to a tenth every seven epochs, ten epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import model_validator

from engine.models import image_size_problem
from engine.norms import values_per_channel
from engine.params import Params as BaseParams
from engine.params import setting
from engine.profiling import profile_batches
from engine.settings import (
    DataName,
    DeviceName,
    ModelName,
    data_setting,
    device_setting,
    image_size_setting,
    model_setting,
    no_such_device,
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
    with_augmentation,
)

if TYPE_CHECKING:
    import torch

    from engine.clock import Clock
    from engine.nvml import Gpus
    from engine.recorder import Recorder

Layers = Literal["all", "head"]
LEAST_VALUES = 8
"""Per channel in the smallest batch. With two, whatever they are, batch norm gives plus and minus one."""


class Params(BaseParams):
    model: ModelName = model_setting()
    layers: Layers = setting("all", title="Layers trained", help="all, or the head (the last layer) only; what is not "
                             "trained is in evaluation mode, batch statistics included.")
    train_images: int = train_setting()
    val_images: int | None = val_setting()
    epochs: int = setting(10, title="Epochs", unit="epochs", ge=1, le=999, help="Passes over the training images.")
    batch_size: int = setting(32, title="Batch size", unit="images", ge=1, le=65536,
                              help="Images per batch; the last batch of a pass holds what is left.")
    workers: int = workers_setting()
    learning_rate: float = setting(0.001, title="Learning rate", gt=0, le=100, help="Of SGD, at the start.")
    momentum: float = setting(0.9, title="Momentum", ge=0, lt=1, help="Of SGD.")
    step_epochs: int = setting(7, title="Rate falls every", unit="epochs", ge=1, le=999,
                               help="After so many epochs the learning rate is a tenth of what it was.")
    data: DataName = data_setting()
    classes: int | None = classes_setting()
    head_classes: int | None = head_setting()
    image_size: int = image_size_setting()
    augment: bool = setting(False, title="Random crops and flips",
                            help="While training, as seed 000 did. The generated classes are directions and widths of "
                                 "stripes, which flips and crops mix up.")
    weights: Literal["random", "pretrained"] = setting(
        "random", title="Weights", help="pretrained downloads torchvision's weights once; the head is new.")
    device: DeviceName = device_setting()
    precision: Literal["fp32", "bf16"] = setting("fp32", title="Precision",
                                                 help="bf16 runs the forward pass under autocast.")
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if problem := image_size_problem(self.model, self.image_size, self.weights):
            raise ValueError(problem)
        if self.layers == "all" and (problem := self._too_little_to_normalise()):
            raise ValueError(problem)
        return self

    def _too_little_to_normalise(self) -> str | None:
        """Batch norm cannot train on one value per channel, and on a few it learns statistics of nothing."""
        smallest = self.train_images % self.batch_size or self.batch_size
        values = values_per_channel(self.model, smallest, self.image_size)
        if values is None or values >= LEAST_VALUES:
            return None
        return (f"batch_size={self.batch_size}: of {self.train_images} training images the smallest batch has "
                f"{smallest}, so at {self.image_size} px the last batch norm of {self.model} has {values} of the "
                f"{LEAST_VALUES} values per channel that it needs; use other batches, larger images or layers=head")

    @property
    def held_out(self) -> int:
        return count_val(self.train_images, self.val_images)


class Epoch(NamedTuple):
    loss: float
    accuracy: float


def check(cells: Iterable[Params], cache: Path) -> None:
    check_splits(list(cells), cache)


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    prepare_splits(cells, cache, progress)


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.devices import autocast, begin_torch, settle
    from engine.models import build_model

    device = begin_torch(params, params.device)
    with recorder.stage("prepare_data"):
        split = open_split(params.data, recorder.cache, params.image_size, params.train_images, params.held_out,
                           params.classes, params.head_classes)
        train_items = with_augmentation(split.train, params.image_size) if params.augment else split.train
        train = open_loader(train_items, params.batch_size, params.workers, shuffle=True, seed=params.seed)
        val = open_loader(split.val, params.batch_size, params.workers)
    recorder.effective(threads=torch.get_num_threads(), device=device, workers=train.num_workers,
                       prefetch_factor=train.prefetch_factor, val_images=params.held_out, classes=split.classes,
                       head_classes=split.head_classes,
                       timing="host" if device == "cpu" else "overlapped",
                       loader_context="fork" if params.workers else "none")
    with recorder.stage("init_model"):
        model = build_model(params.model, params.image_size, params.weights, split.head_classes,
                            recorder.cache / "weights")
        trained = choose_trained(model, params.layers)
    with recorder.stage("model_to_device"):
        model = model.to(device)
        settle(device)
    optimizer = torch.optim.SGD(trained, lr=params.learning_rate, momentum=params.momentum)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, params.step_epochs, 0.1)
    recorder.metric("parameters_trained", sum(parameter.numel() for parameter in trained))
    precision = autocast(device, params.precision)

    with recorder.stage("warm_up"):
        # Forward only: a step would already train.
        with torch.inference_mode(), precision:
            example = torch.rand(params.batch_size, 3, params.image_size, params.image_size, device=device)
            model.eval()
            for _ in range(2):
                model(example)
                recorder.alive()
        settle(device)

    train_s = validate_s = best = 0.0
    with recorder.measure(device) as clock:
        for epoch in range(1, params.epochs + 1):
            started = perf_counter()
            seen = train_epoch(model, params.layers, train, optimizer, clock, device, precision)
            schedule.step()
            settle(device)
            trained_at = perf_counter()
            with recorder.aside("validate", clock):
                right = validate(model, val, device, precision, recorder.alive)
                validated_at = perf_counter()
                train_s, validate_s = train_s + trained_at - started, validate_s + validated_at - trained_at
                best = max(best, right.accuracy)
                for name, value, unit in (("train_s", trained_at - started, "s"), ("train_loss", seen.loss, ""),
                                          ("train_accuracy", seen.accuracy, ""),
                                          ("validate_s", validated_at - trained_at, "s"), ("val_loss", right.loss, ""),
                                          ("val_accuracy", right.accuracy, "")):
                    recorder.metric(f"epoch_{epoch:03d}_{name}", value, unit)
    recorder.metric("train_s", train_s, "s")
    recorder.metric("validate_s", validate_s, "s")
    # Training and validation of all epochs. The workers of both loaders start in the first, and so inside.
    recorder.metric("finetune_s", train_s + validate_s, "s")
    recorder.metric("train_accuracy", seen.accuracy)
    recorder.metric("val_accuracy", right.accuracy)
    recorder.metric("best_val_accuracy", best)
    if params.profile:
        model.train(params.layers == "all")
        profile_batches(recorder, device, train, partial(train_batch, model, optimizer, device, precision))


def choose_trained(model: torch.nn.Module, layers: Layers) -> list[Any]:
    """The parameters that are trained; all others ask for no gradient."""
    from engine.models import find_head

    chosen = list((model if layers == "all" else find_head(model)[1]).parameters())
    ids = {id(parameter) for parameter in chosen}
    for parameter in model.parameters():
        parameter.requires_grad_(id(parameter) in ids)
    return chosen


def train_epoch(model: torch.nn.Module, layers: Layers, loader: Any, optimizer: Any, clock: Clock,
                device: str, precision: Any) -> Epoch:
    """One pass over the training images. Loss and accuracy are of the batches as they were met."""
    import torch
    from torch.nn.functional import cross_entropy

    # A frozen network must give the same features for the same image: no batch statistics, no dropout.
    model.train(layers == "all")
    load, copy = clock.phase("load_data"), clock.phase("data_to_device", on_device=True)
    forward, backward = clock.phase("forward", on_device=True), clock.phase("backward", on_device=True)
    step = clock.phase("optimizer", on_device=True)
    # Kept on the device: reading a number would wait for it.
    losses, right = torch.zeros((), device=device), torch.zeros((), device=device)
    images = 0
    loading = None
    for _ in range(len(loader)):
        with load:
            # The workers start inside the first wait: their start-up is part of the first batch.
            loading = loading or iter(loader)
            pixels, labels = next(loading)
        with copy:
            pixels, labels = pixels.to(device), labels.to(device)
        with forward, precision:
            scores = model(pixels)
            loss = cross_entropy(scores, labels)
        with backward:
            loss.backward()
        with step:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses += loss.detach() * len(labels)
        right += (scores.detach().argmax(1) == labels).sum()
        images += len(labels)
        clock.end_batch(len(labels))
    return Epoch(float(losses) / images, float(right) / images)


def train_batch(model: torch.nn.Module, optimizer: Any, device: str, precision: Any, pixels: torch.Tensor,
                labels: torch.Tensor) -> None:
    """A step outside the clock."""
    from torch.nn.functional import cross_entropy

    with precision:
        loss = cross_entropy(model(pixels.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def validate(model: torch.nn.Module, loader: Iterable[Any], device: str, precision: Any,
             alive: Callable[[], None] = lambda: None) -> Epoch:
    import torch
    from torch.nn.functional import cross_entropy

    model.eval()
    losses = right = images = 0.0
    with torch.inference_mode(), precision:
        for pixels, labels in loader:
            labels = labels.to(device)
            scores = model(pixels.to(device))
            losses += float(cross_entropy(scores, labels)) * len(labels)
            right += float((scores.argmax(1) == labels).sum())
            images += len(labels)
            alive()
    return Epoch(losses / images, right / images)
