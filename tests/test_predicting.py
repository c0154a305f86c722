"""What a page asks the predictor about a cell, and which of many cells it asks about."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.nvml import Gpus
from engine.spec import make_cells, make_spec
from predicting import MOST_SETTINGS, ask_for_cell, cells_that_run, largest_questions


def cells(experiment: str, **grid: list[Any]) -> list[Any]:
    return [cell.params for cell in make_cells(make_spec({"experiment": experiment, "grid": grid}))]


def test_of_each_setting_the_largest_batch_is_asked_about() -> None:
    questions, settings = largest_questions(
        cells("memory", method=["plain", "checkpoint"], batch_size=[2, 32, 8], batches=[3, 5]), gpus=0)
    assert settings == 2
    assert {(one.asked["method"], one.asked["batch_size"]) for one in questions} == {("plain", 32), ("checkpoint", 32)}


def test_many_settings_are_cut_to_those_with_the_most_pixels() -> None:
    questions, settings = largest_questions(
        cells("memory", image_size=list(range(32, 32 + MOST_SETTINGS + 5))), gpus=0)
    assert (len(questions), settings) == (MOST_SETTINGS, MOST_SETTINGS + 5)
    assert questions[0].asked["size"] == 32 + MOST_SETTINGS + 4


def test_every_model_is_asked_about_before_a_second_setting_of_any() -> None:
    grid = cells("memory", model=["resnet18", "revnet_18"], batch_size=[8], blocks_per_checkpoint=[1],
                 image_size=[64, *range(225, 225 + MOST_SETTINGS)])
    small = [cell for cell in grid if cell.model == "resnet18" or cell.image_size == 64]
    questions, settings = largest_questions(small, gpus=0)
    assert (len(questions), settings) == (MOST_SETTINGS, MOST_SETTINGS + 2)
    assert [one.asked["model"] for one in questions[:3]] == ["resnet18", "revnet_18", "resnet18"]


def test_cells_that_will_be_skipped_need_no_memory() -> None:
    spec = make_spec({"experiment": "training", "grid": {"method": ["baseline", "dp", "ddp"], "devices": [1, 2]}})
    assert [(cell.method, cell.devices) for cell in cells_that_run(spec, Gpus())] == [
        ("baseline", 1), ("ddp", 1), ("ddp", 2)]


@pytest.mark.parametrize(("settings", "said"), [
    (2, ["The largest cell **needs about 4.0 GiB"]),
    (9, ["The largest of 2 predicted cells **needs about 4.0 GiB", "7 of 9 settings were not predicted"])])
def test_the_largest_of_all_is_named_only_where_all_were_predicted(settings: int, said: list[str]) -> None:
    page = AppTest.from_function(_tell, kwargs={"settings": settings}).run()
    (box,) = [*page.info, *page.warning]
    assert all(part in box.value for part in said)


def _tell(settings: int) -> None:
    from engine.nvml import Gpus
    from predicting import Need, Question, ask_for, tell_need

    tell_need(Need(Question(ask_for("resnet18", 8, "plain", 64), 1, False), 4 * 2**30, 2, settings), Gpus(), "memory")


def test_texts_have_tokens_and_blocks_count_only_where_they_matter() -> None:
    (text,) = cells("memory", model=["bert"])
    assert ask_for_cell(text, 0).asked["size"] == text.tokens
    plain, checkpoint = cells("memory", method=["plain", "checkpoint"], blocks_per_checkpoint=[3])
    assert ask_for_cell(plain, 0).asked["blocks_per_checkpoint"] == 1
    assert ask_for_cell(checkpoint, 0).asked["blocks_per_checkpoint"] == 3


def test_training_is_asked_by_its_method_and_processes_on_a_cpu_share_its_memory() -> None:
    baseline, checkpointing, ddp = cells("training", method=["baseline", "checkpointing", "ddp"])
    assert [ask_for_cell(cell, 0).asked["method"] for cell in (baseline, checkpointing, ddp)] == [
        "plain", "checkpoint", "plain"]
    assert [ask_for_cell(cell, 0).copies for cell in (baseline, checkpointing, ddp)] == [1, 1, 2]
    assert ask_for_cell(ddp, 2).copies == 1
    (reversible,) = cells("training", method=["reversible"], model=["revnet_3"])
    assert ask_for_cell(reversible, 0).asked["method"] == "reversible"
    assert ask_for_cell(ddp, 1).copies == 2, "two ranks with one GPU are on the CPU"
    (pinned,) = cells("training", method=["ddp"], device=["cpu"])
    assert ask_for_cell(pinned, 2) == (ask_for_cell(ddp, 0).asked, 2, False), "beside GPUs that others use"


def test_fine_tuning_is_predicted_as_plain_training() -> None:
    (cell,) = cells("finetune", batch_size=[16])
    asked = ask_for_cell(cell, 0).asked
    assert (asked["method"], asked["optimizer"], asked["batch_size"]) == ("plain", "sgd_momentum", 16)
