"""Extraction: features without gradients, every score with its seconds, and a model that is as it was before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measured_run import MeasuredRun

from engine.data import prepare_data
from engine.experiments.extract import Params, run
from engine.features import extract_features
from engine.models import build_model, remove_head
from engine.splits import open_loader, open_split

SMALL: dict[str, Any] = {"image_size": 32, "workers": 0, "batch_size": 16, "train_images": 40, "val_images": 20,
                         "threads": 1}


@pytest.fixture
def measured(tmp_path: Path, image_cache: Path) -> MeasuredRun:
    prepare_data("generated", 60, image_cache, lambda done, total: None)
    return MeasuredRun(tmp_path, image_cache)


@pytest.mark.parametrize("head_classes", [None, 100])
def test_one_pass_over_all_images_and_every_score_with_its_seconds(measured: MeasuredRun, head_classes: Any) -> None:
    run(Params(**SMALL, head_classes=head_classes), measured.recorder)
    assert measured.stages() == ["start_process", "prepare_data", "init_model", "model_to_device", "warm_up", "measure",
                                 "score"]
    assert measured.phase_names() == {"load_data", "data_to_device", "inference"}
    assert measured.items() == [16, 16, 8, 16, 4]
    found = measured.metrics()
    assert (found["feature_dimension"], found["feature_bytes"], found["items"]) == (512, 60 * 512 * 4, 60)
    scores = ("linear", "ridge", "lda", "knn", "logme")
    assert all(found[f"score_{name}_s"] > 0 for name in scores)
    assert found["score_s"] == pytest.approx(sum(found[f"score_{name}_s"] for name in scores))
    assert all(0 <= found[f"score_{name}_top1"] <= 1 for name in scores[:-1])
    assert found["score_logme"] < 10 and found["score_linear_loss"] > 0


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_extraction_changes_nothing_in_the_model(measured: MeasuredRun, image_cache: Path, name: str) -> None:
    import torch

    torch.manual_seed(0)
    model = build_model(name, 32, "random")
    dimension = remove_head(model)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    split = open_split("generated", image_cache, 32, 40, 20, None, None)
    with measured.recorder.measure() as clock:
        features, labels = extract_features(model, open_loader(split.train, 16, 0), clock, "cpu",
                                            torch.autocast("cpu", enabled=False))
    assert [key for key, value in model.state_dict().items() if not torch.equal(value, before[key])] == []
    assert features.shape == (40, dimension) and not features.requires_grad
    assert labels.tolist() == split.train.labels
    model.eval()
    torch.testing.assert_close(features[3], model(split.train[3][0][None])[0], rtol=1e-4, atol=1e-6)
