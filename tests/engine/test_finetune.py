"""Fine-tuning: it learns, the head alone changes only the head, and every epoch is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measured_run import MeasuredRun
from pydantic import ValidationError

from engine.data import prepare_data
from engine.experiments.finetune import Params, choose_trained, prepare, run, train_epoch, validate
from engine.models import build_model, find_head
from engine.splits import open_loader, open_split


@pytest.fixture
def measured(tmp_path: Path, image_cache: Path) -> MeasuredRun:
    prepare_data("generated", 60, image_cache, lambda done, total: None)
    return MeasuredRun(tmp_path, image_cache)


SMALL: dict[str, Any] = {"image_size": 32, "workers": 0, "batch_size": 16, "train_images": 40, "val_images": 20,
                         "threads": 1}


@pytest.mark.parametrize("layers", ["all", "head"])
def test_every_epoch_is_told_and_validation_is_outside_the_window(measured: MeasuredRun, layers: Any) -> None:
    run(Params(**SMALL, layers=layers, epochs=2, head_classes=100), measured.recorder)
    assert measured.stages() == ["start_process", "prepare_data", "init_model", "model_to_device", "warm_up",
                                 "measure", "validate", "measure", "validate", "measure"]
    assert measured.phase_names() == {"load_data", "data_to_device", "forward", "backward", "optimizer"}
    assert measured.items() == [16, 16, 8] * 2
    found = measured.metrics()
    for epoch in ("001", "002"):
        assert 0 <= found[f"epoch_{epoch}_val_accuracy"] <= 1 and found[f"epoch_{epoch}_train_loss"] > 0
    assert found["train_s"] == pytest.approx(sum(found[f"epoch_00{n}_train_s"] for n in (1, 2)))
    assert found["validate_s"] == pytest.approx(sum(found[f"epoch_00{n}_validate_s"] for n in (1, 2)))
    assert found["finetune_s"] == pytest.approx(found["train_s"] + found["validate_s"])
    assert found["end_to_end_s"] == pytest.approx(found["train_s"], rel=0.2, abs=1.0)
    assert found["val_accuracy"] == found["epoch_002_val_accuracy"]
    head = 512 * 100 + 100
    assert found["parameters_trained"] == (head if layers == "head" else 11_176_512 + head)
    assert measured.effective()["head_classes"] == 100


@pytest.mark.timeout(900)
def test_a_fine_tuned_resnet18_learns_what_chance_cannot_know(tmp_path: Path, image_cache: Path) -> None:
    """Four directions of stripes, chance a quarter. 0.62 was measured after seven epochs."""
    params = Params(classes=4, train_images=160, val_images=40, image_size=64, batch_size=16, learning_rate=0.005,
                    epochs=7, step_epochs=99, workers=0, threads=1)
    prepare([params], image_cache, lambda done, total: None)
    measured = MeasuredRun(tmp_path, image_cache)
    run(params, measured.recorder)
    found = measured.metrics()
    assert found["best_val_accuracy"] >= 0.5
    assert found["epoch_007_train_loss"] < found["epoch_001_train_loss"] / 2


def snapshot(model: Any) -> dict[str, Any]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_the_head_alone_changes_only_the_head(measured: MeasuredRun, image_cache: Path, name: str) -> None:
    """Batch statistics are no parameters and must not move either."""
    import torch

    torch.manual_seed(0)
    model = build_model(name, 32, "random", 10)
    split = open_split("generated", image_cache, 32, 40, 20, None, None)
    optimizer = torch.optim.SGD(choose_trained(model, "head"), lr=0.1, momentum=0.9)
    before = snapshot(model)
    with measured.recorder.measure() as clock:
        train_epoch(model, "head", open_loader(split.train, 16, 0, shuffle=True), optimizer, clock, "cpu",
                    torch.autocast("cpu", enabled=False))
    validate(model, open_loader(split.val, 16, 0), "cpu", torch.autocast("cpu", enabled=False))
    changed = {key for key, value in snapshot(model).items() if not torch.equal(value, before[key])}
    path = find_head(model)[0]
    assert changed == {f"{path}.weight", f"{path}.bias"}


def test_all_layers_change_every_parameter(measured: MeasuredRun, image_cache: Path) -> None:
    import torch

    torch.manual_seed(0)
    model = build_model("resnet18", 32, "random", 10)
    split = open_split("generated", image_cache, 32, 40, 20, None, None)
    optimizer = torch.optim.SGD(choose_trained(model, "all"), lr=0.1, momentum=0.9)
    before = snapshot(model)
    with measured.recorder.measure() as clock:
        train_epoch(model, "all", open_loader(split.train, 16, 0), optimizer, clock, "cpu",
                    torch.autocast("cpu", enabled=False))
    assert [key for key, value in snapshot(model).items() if torch.equal(value, before[key])] == []


@pytest.mark.parametrize(("values", "words"), [
    ({"train_images": 0}, "train_images"),
    ({"val_images": 0}, "val_images"),
    ({"train_images": 33}, "batch_size=16: of 33 training images the smallest batch has 1, so at 32 px the last "
                           "batch norm of resnet18 has 1 of the 8 values per channel"),
    ({"batch_size": 1}, "the smallest batch has 1"),
    ({"batch_size": 1, "image_size": 64}, "has 4 of the 8 values"),
    ({"batch_size": 7}, "the smallest batch has 5"),
    ({"model": "bert"}, "reads text, not images"),
    ({"epochs": 0}, "epochs"),
    ({"learning_rate": 0.0}, "learning_rate"),
    ({"head_classes": 1}, "head_classes"),
])
def test_wrong_settings_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Params(**{**SMALL, **values})


@pytest.mark.parametrize("values", [
    {"batch_size": 8}, {"layers": "head", "batch_size": 1}, {"model": "vit_b_32", "batch_size": 1},
    {"model": "revnet_3", "batch_size": 1}, {"image_size": 65, "batch_size": 1}])
def test_a_small_batch_is_allowed_where_it_can_be_normalised(values: dict[str, Any]) -> None:
    assert Params(**{**SMALL, **values})
