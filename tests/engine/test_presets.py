"""Presets fit themselves to the machine: its cores, and whether it has a GPU."""

from __future__ import annotations

import pytest

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
