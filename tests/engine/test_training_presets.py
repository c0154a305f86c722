"""The training presets keep what the studies did, and the small ones can show what their comments promise."""

from __future__ import annotations

from typing import Any

import pytest

from engine.experiments.training import Params, cannot_run
from engine.nvml import GpuDevice, Gpus
from engine.presets import read_preset
from engine.spec import make_cells

REVNETS = ["revnet_3", "revnet_5", "revnet_9", "revnet_18"]
RESNETS = ["adjusted_resnet18", "adjusted_resnet34", "adjusted_resnet50"]


@pytest.fixture
def two_gpus() -> Gpus:
    gpus = Gpus()
    gpus.devices = [GpuDevice(index, f"uuid-{index}", "GPU", 16 * 2**30, None) for index in range(2)]
    return gpus


def cells(name: str, gpus: Gpus) -> list[Params]:
    """Those that are not skipped."""
    found: list[Any] = [cell.params for cell in make_cells(read_preset(name, 2, bool(gpus.devices)))]
    return [cell for cell in found if not cannot_run(cell, gpus)]


def test_seed_002_has_the_batches_and_settings_of_the_study(two_gpus: Gpus) -> None:
    found = cells("seed-002-training", two_gpus)
    assert {cell.method: (cell.used_devices, cell.device_batch_size, cell.global_batch_size) for cell in found} == {
        "baseline": (1, 512, 512), "checkpointing": (1, 1500, 1500), "dp": (2, 1250, 2500), "ddp": (2, 1500, 3000)}
    assert {cell.method for cell in found if cell.checkpointed} == {"checkpointing", "dp", "ddp"}
    for cell in found:
        assert (cell.model, cell.optimizer, cell.image_size, cell.workers) == ("resnet18", "adam", 224, 2)
        assert (cell.train_images, cell.epochs, cell.norm, cell.precision) == (100_000, 1, "batch", "fp32")


def test_small_seed_002_has_one_and_two_processes_with_the_same_global_batches() -> None:
    """Group norm, or statistics of the batch would set them apart."""
    found = cells("seed-002-training-small", Gpus())
    alike = {(cell.method, cell.used_devices, cell.device_batch_size) for cell in found if cell.global_batch_size == 16}
    assert {("baseline", 1, 16), ("checkpointing", 1, 16), ("ddp", 2, 8), ("fsdp", 2, 8)} <= alike
    assert {cell.norm for cell in found} == {"group"} and {cell.optimizer for cell in found} == {"adam"}
    assert all(cell.train_images % cell.global_batch_size == 0 for cell in found), "the same images, none left out"
    for method in ("ddp", "fsdp"):
        assert {(1, 8), (2, 8)} <= {(cell.used_devices, cell.device_batch_size) for cell in found
                                    if cell.method == method}, "efficiency needs one device, too"


@pytest.mark.parametrize(("name", "models"), [("seed-003-training", REVNETS + RESNETS),
                                              ("seed-003-training-small", ["revnet_3", "adjusted_resnet18"])])
def test_seed_003_is_one_epoch_of_every_network(name: str, models: list[str]) -> None:
    found = cells(name, Gpus())
    assert {(cell.model, cell.method) for cell in found} == {
        *((model, "baseline") for model in models),
        *((model, "reversible") for model in models if model.startswith("revnet"))}
    assert {(cell.epochs, cell.batch_size, cell.norm) for cell in found} == {(1, 8, "batch")}


def test_seed_003_has_the_images_of_the_study() -> None:
    assert {cell.image_size for cell in cells("seed-003-training", Gpus())} == {224}


@pytest.mark.parametrize("study", ["002", "003"])
def test_a_small_preset_has_the_models_and_methods_of_the_large_one(study: str, two_gpus: Gpus) -> None:
    large, small = (cells(f"seed-{study}-training{size}", two_gpus) for size in ("", "-small"))
    assert {cell.model for cell in small} <= {cell.model for cell in large}
    assert {cell.method for cell in small} >= {cell.method for cell in large}
