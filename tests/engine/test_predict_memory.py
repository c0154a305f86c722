"""The predicted peak of a training step: near what the allocator measured, without allocating it."""

from __future__ import annotations

from typing import Any

import pytest
from driven_lab import Lab
from own_process import in_child

from engine.params import InputError
from engine.predict_memory import predict_memory
from engine.training_peak import TrainingPeak, measure_training_peak


def measured(combination: tuple[Any, ...]) -> TrainingPeak:
    import torch

    torch.set_num_threads(1)
    return measure_training_peak(*combination, "adam", "fp32", "cpu")


@pytest.mark.parametrize("combination", [
    ("resnet18", 4, "plain", 96), ("resnet18", 4, "checkpoint", 96), ("mobilenet_v2", 4, "checkpoint", 96),
    ("revnet_3", 2, "reversible", 96), ("revnet_3", 2, "plain", 96), ("adjusted_resnet18", 2, "selective", 64),
])
def test_near_the_allocator_of_a_real_step(combination: tuple[Any, ...]) -> None:
    """Two instruments: shapes followed on fake tensors, and the profiler's memory events of a real step."""
    predicted = in_child(predict_memory, *combination, optimizer="adam")
    assert predicted.peak_bytes == pytest.approx(in_child(measured, combination).allocated_bytes, rel=0.1)
    assert sum(predicted.by_category.values()) == predicted.peak_bytes


def predict_and_grow(combination: tuple[Any, ...]) -> tuple[int, int]:
    import torchvision  # noqa: F401

    from engine.training_peak import _resident_peak_bytes

    before = _resident_peak_bytes()
    peak = predict_memory(*combination).peak_bytes
    return peak, _resident_peak_bytes() - before


@pytest.mark.parametrize(("combination", "gib"), [
    (("resnet18", 512, "plain", 224), 10.7), (("vit_b_16", 256, "plain", 224), 28),
    (("revnet_18", 64, "reversible", 224), 3.4),
])
def test_nothing_is_allocated(combination: tuple[Any, ...], gib: float) -> None:
    peak, grew = in_child(predict_and_grow, combination)
    assert peak / 2**30 == pytest.approx(gib, rel=0.05)
    assert grew < 200e6


def test_depth_of_a_revnet_costs_only_its_parameters() -> None:
    peaks = {(units, method): in_child(predict_memory, f"revnet_{units}", 4, method, 64).by_category["activations"]
             for units in (3, 9) for method in ("plain", "reversible")}
    assert peaks[9, "reversible"] == pytest.approx(peaks[3, "reversible"], rel=0.05)
    assert peaks[9, "plain"] > 2.5 * peaks[3, "plain"]


def test_wrong_input_is_one_sentence() -> None:
    for asked, words in ((("resnet18", 8, "reversible"), "resnet18 has no reversible blocks"),
                         (("vit_b_16", 8, "plain", 100), "96 or 112"), (("resnet19", 8), "did you mean resnet18")):
        with pytest.raises(InputError, match=words):
            predict_memory(*asked)  # type: ignore[arg-type]


def test_the_command(lab: Lab) -> None:
    found = lab.json("predict-memory", "--model", "revnet_3", "--batch-size", "8", "--method", "checkpoint",
                     "--image-size", "64", "--precision", "bf16", "--blocks-per-checkpoint", "4")
    assert set(found) == {"peak_bytes", "by_category", "seconds"}
    assert found["peak_bytes"] == sum(found["by_category"].values()) > 4 * 476_020
    expected = in_child(predict_memory, "revnet_3", 8, "checkpoint", 64, precision="bf16", blocks_per_checkpoint=4)
    assert found["peak_bytes"] == expected.peak_bytes
    error = lab.json("predict-memory", "--model", "bert", "--batch-size", "4", "--method", "reversible", expect=2)
    assert "bert has no reversible blocks" in error["error"]
    code, out, _ = lab.call("predict-memory", "--model", "resnet18", "--batch-size", "2")
    assert code == 0 and "MiB at the peak" in out and "optimizer state" in out
