"""Presets fit themselves to the machine: its cores, and whether it has a GPU."""

from __future__ import annotations

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


def test_a_study_keeps_its_own_grid() -> None:
    jpeg, stored = (read_preset(f"seed-004-{name}", 2, False) for name in ("jpeg", "preprocessed"))
    assert jpeg.grid == stored.grid and stored.fixed == {**jpeg.fixed, "format": "tensor_files"}
    assert read_preset("seed-004-jpeg", 2, False).grid["workers"] == [1, 2, 4, 8, 12, 16, 32, 48, 64]


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
