"""What a page asks the predictor about a cell, and which of many cells it asks about."""

from __future__ import annotations

from typing import Any

from engine.spec import make_cells, make_spec
from predicting import MOST_SETTINGS, ask_for_cell, largest_questions


def cells(experiment: str, **grid: list[Any]) -> list[Any]:
    return [cell.params for cell in make_cells(make_spec({"experiment": experiment, "grid": grid}))]


def test_of_each_setting_the_largest_batch_is_asked_about() -> None:
    questions, settings = largest_questions(
        cells("memory", method=["plain", "checkpoint"], batch_size=[2, 32, 8], batches=[3, 5]), on_gpu=False)
    assert settings == 2
    assert {(one.asked["method"], one.asked["batch_size"]) for one in questions} == {("plain", 32), ("checkpoint", 32)}


def test_many_settings_are_cut_to_those_with_the_most_pixels() -> None:
    questions, settings = largest_questions(
        cells("memory", image_size=list(range(32, 32 + MOST_SETTINGS + 5))), on_gpu=False)
    assert (len(questions), settings) == (MOST_SETTINGS, MOST_SETTINGS + 5)
    assert questions[0].asked["size"] == 32 + MOST_SETTINGS + 4


def test_texts_have_tokens_and_blocks_count_only_where_they_matter() -> None:
    (text,) = cells("memory", model=["bert"])
    assert ask_for_cell(text, False).asked["size"] == text.tokens
    plain, checkpoint = cells("memory", method=["plain", "checkpoint"], blocks_per_checkpoint=[3])
    assert ask_for_cell(plain, False).asked["blocks_per_checkpoint"] == 1
    assert ask_for_cell(checkpoint, False).asked["blocks_per_checkpoint"] == 3


def test_processes_on_a_cpu_share_its_memory_and_gpus_do_not() -> None:
    baseline, checkpointing, ddp = cells("training", method=["baseline", "checkpointing", "ddp"])
    assert [ask_for_cell(cell, False).asked["method"] for cell in (baseline, checkpointing, ddp)] == [
        "plain", "checkpoint", "plain"]
    assert [ask_for_cell(cell, False).copies for cell in (baseline, checkpointing, ddp)] == [1, 1, 2]
    assert ask_for_cell(ddp, True).copies == 1


def test_fine_tuning_is_predicted_as_plain_training() -> None:
    (cell,) = cells("finetune", batch_size=[16])
    asked = ask_for_cell(cell, False).asked
    assert (asked["method"], asked["optimizer"], asked["batch_size"]) == ("plain", "sgd_momentum", 16)
