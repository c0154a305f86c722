"""The largest batch is found exactly under a budget; what is not out of memory is a failure."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from driven_lab import Lab
from own_process import in_child

from engine.experiments.max_batch import Memory, Params, run_try
from engine.limit_search import tries_allowed
from engine.predict_memory import predict_memory
from engine.tries import try_alone

FIXED = {"model": "resnet18", "image_size": 40, "threads": 1, "budget_bytes": 2**30}


def peak_bytes(batch_size: int, **settings: Any) -> int:
    tried = try_alone(lambda: run_try(Params(**{**FIXED, **settings}), batch_size), 240, lambda: None)
    assert isinstance(tried.answer, Memory), tried
    return tried.answer.allocated_bytes


def sweep_of(lab: Lab, **settings: Any) -> str:
    """One cell."""
    return lab.sweep_file(experiment="max_batch", grid={name: [value] for name, value in settings.items()})


@pytest.mark.parametrize(("mode", "limit"), [("inference", 21), ("training", 6)])
def test_a_budget_is_found_exactly(lab: Lab, mode: str, limit: int) -> None:
    """The budget is what a batch of `limit` takes: one byte less would be one image less."""
    budget = peak_bytes(limit, mode=mode)
    file = lab.sweep_file(experiment="max_batch", order="as_listed", grid={"budget_bytes": [budget, budget - 1]},
                          fixed={**{k: v for k, v in FIXED.items() if k != "budget_bytes"}, "mode": mode, "start": 4})
    assert lab.json("sweep", file, "--wait")["runs"] == {"ok": 2}
    first, second = lab.json("runs")["runs"]
    assert first["metrics"]["max_batch_size"] == limit and first["metrics"]["too_large_batch_size"] == limit + 1
    assert second["metrics"]["max_batch_size"] == limit - 1
    assert first["metrics"]["peak_memory_bytes"] == budget
    for run in (first, second):
        assert run["metrics"]["tries"] <= tries_allowed(limit, 4)
        assert run["effective"]["device"] == "cpu" and run["metrics"]["lower_bound_only"] == 0
    check_tries(lab, first, limit)


def check_tries(lab: Lab, run: dict[str, Any], limit: int) -> None:
    """Every size tried is a row with its outcome, and told in words."""
    from store.database import Store
    from store.max_batch import list_limits, list_tries

    with Store.open(lab.home) as store:
        tries = list_tries(store.connection, run["run_id"])
        (found,) = list_limits(store.connection, run_id=run["run_id"])
        assert len(list_limits(store.connection)) == 2 and list_limits(store.connection, ["none"]) == []
    assert [row["batch_size"] for row in tries][:2] == [4, 8]
    assert len(tries) == run["metrics"]["tries"]
    for row in tries:
        assert row["fits"] == (row["batch_size"] <= limit) == (row["peak_bytes"] <= row["usable_bytes"])
    assert (found["max_batch_size"], found["model"], found["mode"]) == (limit, "resnet18", run["params"]["mode"])
    events = lab.json("show", run["run_id"])["events"]
    assert sum("fits: peak" in event["text"] for event in events) == sum(row["fits"] for row in tries)


def test_a_revnet_is_trained_plainly() -> None:
    """As predicted for plain training; reversible training would need far less."""
    predicted = in_child(predict_memory, "revnet_3", 4, "plain", 32).peak_bytes
    found = peak_bytes(4, model="revnet_3", mode="training", image_size=32, optimizer="sgd_momentum")
    assert found == pytest.approx(predicted, rel=0.1)


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One sweep: a budget that 16 images fill, one that none fits, one that no machine has; with and without margin."""
    lab, budget = Lab.at(tmp_path_factory.mktemp("bounded")), peak_bytes(16)
    file = lab.sweep_file(
        experiment="max_batch", order="as_listed", grid={"budget_bytes": [budget, 1000, 2**50], "margin": [0.0, 0.02]},
        fixed={**{k: v for k, v in FIXED.items() if k != "budget_bytes"}, "start": 2, "cap": 8})
    assert lab.json("sweep", file, "--wait")["runs"] == {"ok": 2, "oom": 2, "failed": 2}
    return lab.home.root


@pytest.fixture
def bounded_runs(lab: Lab, bounded: Path) -> list[dict[str, Any]]:
    shutil.copytree(bounded, lab.home.root)
    runs: list[dict[str, Any]] = lab.json("runs")["runs"]
    return runs


def test_margin_cap_and_nothing_fits(bounded_runs: list[dict[str, Any]]) -> None:
    cap, margin, nothing, _, wrong, _ = bounded_runs
    assert cap["metrics"]["max_batch_size"] == 8 and cap["metrics"]["lower_bound_only"] == 1
    assert 1 <= margin["metrics"]["max_batch_size"] < 8
    assert margin["metrics"]["peak_memory_bytes"] <= 0.98 * margin["params"]["budget_bytes"]
    assert nothing["status"] == "oom" and nothing["metrics"]["max_batch_size"] == 0
    assert "not even a batch of 1 fits" in nothing["reason"]
    assert wrong["status"] == "failed" and "this machine allows" in wrong["reason"]


def test_the_page_of_a_run_shows_its_tries(bounded_runs: list[dict[str, Any]]) -> None:
    from drawn_page import draw

    page = draw("pages/Runs.py", run=bounded_runs[0]["run_id"])
    assert any("The largest batch that fits is at least 8" in text.value for text in page.markdown)
    tries, results = page.dataframe[0].value, page.dataframe[1].value
    assert list(tries["Batch size"]) == [2, 4, 8] and list(tries["Outcome"]) == ["fits"] * 3
    assert list(results["Published"]) == ["2048"]


def test_a_crash_that_is_not_memory_is_a_failure(lab: Lab) -> None:
    """Batch norm cannot train on one image whose last map is one pixel: an error, not a limit."""
    file = sweep_of(lab, **{**FIXED, "image_size": 32, "mode": "training", "start": 1})
    lab.json("sweep", file, "--wait", expect=1)
    (run,) = lab.json("runs")["runs"]
    assert run["status"] == "failed" and "max_batch_size" not in run["metrics"]
    assert "batch size 1: ValueError: Expected more than 1 value per channel" in run["reason"]


def test_wrong_input_is_one_sentence(lab: Lab) -> None:
    answer = lab.json("sweep", sweep_of(lab, start=64, cap=32), expect=2)
    assert "start=64: must not be above cap=32" in answer["error"]
