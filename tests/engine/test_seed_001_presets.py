"""Presets of seed 000 and of seed 001's bottlenecks ask for what the studies did, as MEASURING.md has it."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.bottlenecks import bars
from analysis.search import SearchRun
from engine.presets import read_preset
from engine.spec import make_cells

SEARCHED = {"mobilenet_v2", "resnet18", "resnet50", "resnet152", "vit_b_16", "vit_l_16"}
IMAGES = SEARCHED | {"eff_net_v2_s", "eff_net_v2_l"}
TEXTS = {"bert", "roberta"}
ITEMS = {96, 1024, 9216}
PARTS = {"full", "last_50%", "last_25%", "last_3_blocks", "last_1_block"}
JOINED = {"arrangement": {"joint", "separate"}, "part": {"last_50%", "last_3_blocks"}}
OUTPUTS = {"part": {"full"}, "head_classes": {1000, 100, 2}, "classes": {2}}
FAITHFUL: dict[str, dict[str, set[Any]]] = {
    "seed-000-finetune": {
        "model": SEARCHED, "train_images": {80, 800, 3200}, "held_out": {20, 200, 800}, "batch_size": {32},
        "workers": {4}, "layers": {"all", "head"}, "epochs": {10}, "learning_rate": {0.001}, "momentum": {0.9},
        "step_epochs": {7}, "data": {"imagenette"}},
    "seed-000-extract": {
        "model": SEARCHED, "train_images": {80, 800, 3200}, "held_out": {20, 200, 800}, "batch_size": {32},
        "workers": {4}, "data": {"imagenette"}},
    "seed-001-bottlenecks": {
        "model": IMAGES, "part": PARTS, "items": ITEMS, "batch_size": {128}, "head_classes": {1000},
        "data": {"imagenette"}},
    "seed-001-joint": {"model": IMAGES, **JOINED, "items": ITEMS, "batch_size": {128}, "head_classes": {1000},
                       "data": {"imagenette"}},
    # Two classes of Imagenette have fewer than 9216 images.
    "seed-001-scores": {"model": IMAGES, **OUTPUTS, "items": {96, 1024}, "batch_size": {128}, "data": {"imagenette"}},
    "seed-001-text": {"model": TEXTS, "part": PARTS, "items": ITEMS, "batch_size": {128}, "head_classes": {1000}},
    "seed-001-text-joint": {"model": TEXTS, **JOINED, "items": ITEMS, "batch_size": {128}, "head_classes": {1000}},
    "seed-001-text-scores": {"model": TEXTS, **OUTPUTS, "items": ITEMS, "batch_size": {128}},
}
REPEATS = {"seed-000-finetune": 5, "seed-000-extract": 5}


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_preset_asks_for_what_the_study_did(name: str) -> None:
    spec = read_preset(name, 2, False)
    cells = [cell.params for cell in make_cells(spec)]
    assert {field: {getattr(cell, field) for cell in cells} for field in FAITHFUL[name]} == FAITHFUL[name]
    assert spec.repeats >= REPEATS.get(name, 3)


@pytest.mark.parametrize(("parts", "joint"), [("seed-001-bottlenecks", "seed-001-joint"),
                                              ("seed-001-text", "seed-001-text-joint")])
def test_whole_partial_and_joint_models_stand_in_one_chart(parts: str, joint: str) -> None:
    drawn = bars([run for name in (parts, joint) for run in measured(name)])
    assert {bar.setting for bar in drawn} == {""}
    assert {bar.arrangement for bar in drawn} == {"one", "joint", "separate"}
    for model in {bar.model for bar in drawn}:
        assert len([bar for bar in drawn if (bar.model, bar.items) == (model, 96)]) == 5 + 2 * 2, model


def measured(name: str) -> list[SearchRun]:
    """One run of every cell, as the store would give it."""
    seconds = dict.fromkeys(("end_to_end_s", "init_model_s", "load_state_s", "model_to_device_s", "score_s"), 1.0)
    return [SearchRun(cell.key, "bottleneck", cell.key, "e", False, cell.params.model_dump(mode="json"), seconds, {})
            for cell in make_cells(read_preset(name, 2, False))]


@pytest.mark.parametrize(("sweep", "counterpart"), [("seed-000-finetune", "seed-000-extract")])
def test_both_sides_of_a_speed_up_are_asked_for_alike(sweep: str, counterpart: str) -> None:
    """A pair is compared only when everything that both were asked for is equal."""
    tuned, extracted = ([cell.params.model_dump() for cell in make_cells(read_preset(name, 2, False))]
                        for name in (sweep, counterpart))
    shared = tuned[0].keys() & extracted[0].keys()
    alike = [{str({name: cell[name] for name in sorted(shared)}) for cell in cells} for cells in (tuned, extracted)]
    assert alike[0] == alike[1]
