"""What is said and drawn about the largest batch."""

from __future__ import annotations

from typing import Any

import pytest

from ui.max_batch_view import about_tries, limit_row, limit_text, tries_chart, tries_frame

MIB = 2**20


def one_try(number: int, batch_size: int, fits: bool | None, peak_bytes: float | None = None) -> dict[str, Any]:
    return {"number": number, "batch_size": float(batch_size), "fits": fits, "peak_bytes": peak_bytes,
            "usable_bytes": 100.0 * MIB if peak_bytes else None, "seconds": 1.5}


def limit(largest: int, too_large: int | None, lower_bound_only: bool = False) -> dict[str, Any]:
    return {"max_batch_size": float(largest), "too_large_batch_size": None if too_large is None else float(too_large),
            "lower_bound_only": lower_bound_only}


@pytest.mark.parametrize(("found", "text"), [
    (limit(254, 255), "254"), (limit(256, 260), "256 to 259"), (limit(4096, None, True), "at least 4096"),
    (limit(0, 1), "none fits"),
])
def test_a_limit_says_how_exact_it_is(found: dict[str, Any], text: str) -> None:
    assert limit_text(found) == text


def test_what_was_published_for_inference_does_not_stand_beside_training() -> None:
    published = {"resnet18": {"study": "seed 001", "max_batch_size": 1024.0, "caveat": ""}}
    found = {**limit(254, 255), "model": "resnet18", "image_size": 224, "device": "cpu", "budget_bytes": 2**30,
             "peak_bytes": 2**29, "tries": 3.0, "noisy": False}
    assert limit_row({**found, "mode": "inference"}, published)["Published"] == "1024"
    assert limit_row({**found, "mode": "training"}, published)["Published"] == "–"


def test_the_sentence_of_a_run() -> None:
    tries = [one_try(1, 8, True, 80 * MIB), one_try(2, 16, False, 160 * MIB), one_try(3, 9, False, 100.5 * MIB)]
    assert about_tries([limit(8, 9)], tries) == (
        "**The largest batch that fits is 8**: 3 tries; 9 images need 512.0 KiB more than the 100.0 MiB there are.")
    assert "9 images were refused memory" in about_tries([limit(8, 9)], [*tries[:2], one_try(3, 9, False)])
    assert about_tries([limit(0, 1)], [one_try(1, 1, False)]) == "**Not even 1 image fits**: 1 try."
    assert about_tries([], [one_try(1, 8, None)]) == "No answer: 1 try, and the last one, 8 images, failed."


def test_the_chart_has_every_try_on_a_logarithmic_axis() -> None:
    tries = [one_try(1, 8, True, 80 * MIB), one_try(2, 16, False, 160 * MIB), one_try(3, 12, None)]
    frame = tries_frame(tries)
    assert list(frame["Outcome"]) == ["fits", "too large", "failed"]
    drawn = tries_chart(frame).to_dict()
    assert drawn["layer"][0]["encoding"]["y"]["scale"]["type"] == "log"
    (rows,) = drawn["datasets"].values()
    assert [row["Batch size"] for row in rows] == [8, 16, 12]
