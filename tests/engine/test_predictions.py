"""Predictions for processes without torch: from a helper once, from the lab's folder after that, never beside a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from driven_lab import Lab

from engine.files import try_lock
from engine.params import InputError
from engine.predictions import Predictor, kept_at, key_of, open_predictor, read_kept
from engine.queue import editing, enqueue

ASKED = {"model": "revnet_3", "batch_size": 2, "method": "reversible", "size": 32}
COMMAND = ("predict-memory", "--model", "revnet_3", "--batch-size", "2", "--method", "reversible", "--image-size", "32")


def test_an_answer_is_the_command_lines_and_is_kept(lab: Lab) -> None:
    told = lab.json(*COMMAND)
    with open_predictor(lab.home) as predictor:
        assert predictor.peak_bytes(ASKED) == told["peak_bytes"]
        with pytest.raises(InputError, match="reversible"):
            predictor.peak_bytes({**ASKED, "model": "resnet18"})
    assert read_kept(lab.home) == {key_of(ASKED): told["peak_bytes"]}
    again = Predictor(lab.home)
    assert again.peak_bytes(dict(reversed(ASKED.items()))) == told["peak_bytes"]
    assert again._process is None, "a kept answer needs no process"


def test_it_is_refused_while_a_sweep_is_measured(lab: Lab) -> None:
    enqueue(lab.home, "20260101-000000-aaaa")
    with editing(lab.home) as queue:
        queue.entries[0].state = "measuring"
    with open_predictor(lab.home) as predictor, pytest.raises(InputError, match="aaaa is being measured now"):
        predictor.peak_bytes(ASKED)
    assert "aaaa is being measured now" in lab.json(*COMMAND, expect=2)["error"]


def test_it_is_refused_while_another_lab_measures(lab: Lab) -> None:
    assert try_lock(Path(lab.environment["PHASELAB_MACHINE_LOCK"])) is not None
    with open_predictor(lab.home) as predictor, pytest.raises(InputError, match="by another lab"):
        predictor.peak_bytes(ASKED)
    told = lab.json(*COMMAND, expect=2)["error"]
    assert "by another lab" in told and told.endswith("or give --anyway")
    assert lab.json(*COMMAND, "--anyway")["peak_bytes"] > 0


@pytest.mark.parametrize("content", ["", "[]", '{"torch": "0", "peak_bytes": {"a": 1}}', '{"torch"'])
def test_damaged_or_foreign_answers_count_as_none(lab: Lab, content: str) -> None:
    lab.home.root.mkdir(parents=True)
    kept_at(lab.home).write_text(content)
    assert read_kept(lab.home) == {}
