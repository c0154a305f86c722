"""Presets fit themselves to the machine: its cores, and whether it has a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.search import ENOUGH_MODELS
from engine.experiments.memory import cannot_run
from engine.nvml import Gpus
from engine.presets import list_presets, read_preset
from engine.spec import make_cells


@pytest.mark.parametrize("cores", [1, 2, 6.5, 64])
@pytest.mark.parametrize("gpu", [False, True])
def test_sized_presets_ask_for_no_more_workers_than_cores(cores: float, gpu: bool) -> None:
    presets = list_presets(cores, gpu)
    assert list(presets)[:2] == ["tour", "this-machine"] and not any(name.endswith("-gpu") for name in presets)
    for name in ("tour", "this-machine"):
        spec = presets[name].spec
        assert spec.grid["workers"] and max(spec.grid["workers"]) <= max(cores, 2)
        assert make_cells(spec)


def test_a_gpu_gets_larger_images() -> None:
    assert read_preset("tour", 2, False).fixed["image_size"] < read_preset("tour", 2, True).fixed["image_size"]


VISION = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "mobilenet_v2", "eff_net_v2_s", "eff_net_v2_l",
          "vit_b_16", "vit_l_16", "vit_b_32", "vit_l_32"]
SEED_000: dict[str, list[Any]] = {
    "model": ["mobilenet_v2", "resnet18", "resnet50", "resnet152", "vit_b_16", "vit_l_16"],
    "train_images": [80, 800, 3200], "held_out": [20, 200, 800], "batch_size": [32], "workers": [4],
    "data": ["imagenette"], "weights": ["pretrained"]}
SEED_004: dict[str, list[Any]] = {
    "model": VISION, "batch_size": [32, 128, 256, 512, 1024], "workers": [1, 2, 4, 8, 12, 16, 32, 48, 64],
    "images": [9216], "data": ["imagenette"], "image_size": [224]}
PARTS = ["full", "last_50%", "last_25%", "last_3_blocks", "last_1_block"]
FAITHFUL: dict[str, tuple[int, int, dict[str, list[Any]]]] = {
    "seed-000-finetune": (36, 5, {**SEED_000, "layers": ["all", "head"], "epochs": [10], "learning_rate": [0.001],
                                  "momentum": [0.9], "step_epochs": [7]}),
    "seed-000-extract": (18, 5, SEED_000),
    "seed-001-batch-size": (72, 3, {"model": VISION, "batch_size": [32, 64, 128, 256, 512, 1024], "workers": [12],
                                    "images": [9216], "data": ["imagenette"], "image_size": [224]}),
    "seed-001-max-batch": (12, 1, {"model": VISION, "mode": ["inference"], "start": [32], "image_size": [224]}),
    "seed-001-text": (30, 3, {"model": ["bert", "roberta"], "part": PARTS, "items": [96, 1024, 9216],
                              "head_classes": [1000]}),
    "seed-002-memory": (3, 1, {"model": ["resnet18"], "method": ["plain", "checkpoint", "selective"],
                               "batch_size": [512], "image_size": [224], "optimizer": ["adam"]}),
    "seed-003-loading": (48, 3, {"format": ["jpeg", "tensor_files", "memmap"], "workers": [0, 4, 8, 16],
                                 "fetch_threads": [1, 16], "persistent_workers": [False, True], "latency_s": [0.0]}),
    "seed-003-decoders": (32, 3, {"decoder": ["pil", "torchvision"], "workers": [0, 4, 8, 16],
                                  "prefetch_factor": [2, 8], "pin_memory": [False, True]}),
    "seed-003-memory": (21, 1, {"model": ["revnet_3", "revnet_5", "revnet_9", "revnet_18", "adjusted_resnet18",
                                          "adjusted_resnet34", "adjusted_resnet50"],
                                "method": ["reversible", "plain", "checkpoint"], "batch_size": [8],
                                "image_size": [224]}),
    "seed-004-jpeg": (540, 3, {**SEED_004, "format": ["jpeg"]}),
    "seed-004-preprocessed": (540, 3, {**SEED_004, "format": ["tensor_files"]}),
}
"""Cells, repeats, and the values of each setting in the preset that asks a study's question as the study asked it."""


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_study_is_asked_again_with_its_own_settings(name: str) -> None:
    """Of the cells and not of the file: a setting that the file leaves out has its default, which is tied too."""
    spec = read_preset(name, 2, False)
    cells, repeats, values = FAITHFUL[name]
    params = [cell.params for cell in make_cells(spec)]
    assert (len(params), spec.repeats) == (cells, repeats)
    assert {setting: list(dict.fromkeys(getattr(cell, setting) for cell in params)) for setting in values} == values


def test_seed_004s_two_grids_differ_in_the_data_only() -> None:
    jpeg, stored = (read_preset(f"seed-004-{name}", 2, False) for name in ("jpeg", "preprocessed"))
    assert jpeg.grid == stored.grid and stored.fixed == {**jpeg.fixed, "format": "tensor_files"}


@pytest.mark.parametrize("name", ["seed-003-memory", "seed-003-memory-small"])
def test_revnets_and_resnets_are_in_one_sweep(name: str) -> None:
    """Drawn against depth together, and of one environment."""
    cells = [cell.params for cell in make_cells(read_preset(name, 2, False))]
    can = {(cell.model, cell.method) for cell in cells if not cannot_run(cell, Gpus())}
    assert {("revnet_3", "reversible"), ("revnet_18", "reversible"), ("revnet_18", "plain"),
            ("adjusted_resnet18", "plain"), ("adjusted_resnet34", "plain")} <= can
    assert {cell.model for cell in cells if cell.method == "reversible" and cannot_run(cell, Gpus())} == {
        cell.model for cell in cells if cell.model.startswith("adjusted")}


def test_the_small_pair_of_a_search_has_the_models_that_an_agreement_needs() -> None:
    tuned, extracted = (read_preset(f"search-{name}-small", 2, False) for name in ("finetune", "extract"))
    assert tuned.grid == extracted.grid and len(tuned.grid["model"]) >= ENOUGH_MODELS
