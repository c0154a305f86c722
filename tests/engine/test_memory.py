"""The memory experiment: peaks, their prediction, the curve by category, and a gate before anything is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from driven_lab import Lab
from pydantic import ValidationError

from engine.experiments.memory import Params, cannot_run, thin_out
from engine.nvml import Gpus
from engine.registry import find
from engine.spec import make_cells, make_spec
from engine.step_memory import CATEGORIES, Moment
from store.database import Store

FIXED = {"batch_size": 4, "image_size": 48, "batches": 3, "threads": 1}


def by_method(lab: Lab, **grid: list[Any]) -> dict[str, dict[str, Any]]:
    lab.json("sweep", lab.sweep_file(experiment="memory", grid=grid, fixed=FIXED), "--wait", expect=(0, 1))
    return {run["params"]["method"]: run for run in lab.json("runs")["runs"]}


def test_a_revnet_plain_and_reversible(lab: Lab) -> None:
    runs = by_method(lab, model=["revnet_3"], method=["plain", "reversible", "checkpoint"])
    for method, run in runs.items():
        assert run["status"] == "ok", run["reason"]
        found = run["metrics"]
        assert found["parameters"] == 476_020
        assert found["predicted_peak_bytes"] == pytest.approx(found["peak_memory_bytes"], rel=0.1)
        assert found["prediction_error"] == pytest.approx(
            found["predicted_peak_bytes"] / found["peak_memory_bytes"] - 1)
        assert ("gradient_error" in found) == (method != "plain")
        assert found.get("gradient_error", 0) < 1e-12
        assert ("gradient_error_in_precision" in found) == (method != "plain")
        assert method != "reversible" or found["gradient_error_in_precision"] > found["gradient_error"]
        assert run["phases"]["forward"]["count"] == run["phases"]["backward"]["count"] == 3
        check_curve(lab, run)
    assert (runs["reversible"]["metrics"]["peak_memory_bytes"] < runs["checkpoint"]["metrics"]["peak_memory_bytes"]
            < runs["plain"]["metrics"]["peak_memory_bytes"])
    assert (runs["reversible"]["metrics"]["saved_activations_bytes"]
            < runs["checkpoint"]["metrics"]["saved_activations_bytes"]
            < runs["plain"]["metrics"]["saved_activations_bytes"])


def check_curve(lab: Lab, run: dict[str, Any]) -> None:
    """The curve is in the samples, by category, and its highest point is the peak that the metrics name."""
    with Store.open(lab.home) as store:
        rows = store.connection.execute(
            "SELECT time_s, metric, value FROM samples WHERE run_id = ? AND device = 'memory'",
            [run["run_id"]]).fetchall()
    moments: dict[float, dict[str, float]] = {}
    for time_s, metric, value in rows:
        moments.setdefault(time_s, {})[metric] = value
    assert all(set(held) == {f"{name}_bytes" for name in CATEGORIES} for held in moments.values())
    at, highest = max(moments.items(), key=lambda moment: sum(moment[1].values()))
    assert sum(highest.values()) == run["metrics"]["tensor_peak_bytes"]
    assert at == pytest.approx(run["metrics"]["tensor_peak_at_s"], abs=1e-6)
    assert highest["parameters_bytes"] == 4 * 476_020


BROKEN = """
from typing import TYPE_CHECKING
import engine.reversible
from engine.experiments.memory import Params, cannot_run, run as run_memory

def run(params, recorder):
    undo = engine.reversible._undo
    def forgetful(half, *rest):
        before, d_source, of_parameters = undo(half, *rest)
        return before, d_source, [None for _ in of_parameters]
    engine.reversible._undo = forgetful
    run_memory(params, recorder)
"""


def test_a_backward_broken_on_purpose_is_failed_and_not_timed(lab: Lab, tmp_path: Path) -> None:
    """The same experiment in a process whose reversible blocks train no parameter, as seed 003's did."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "forgetful.py").write_text('"""What if the blocks are not trained?"""' + BROKEN)
    lab.environment["PHASELAB_EXPERIMENTS"] = str(tmp_path / "own")
    file = lab.sweep_file(experiment="forgetful", grid={"method": ["reversible"]}, fixed={**FIXED, "model": "revnet_3"})
    lab.json("sweep", file, "--wait", expect=1)
    (run,) = lab.json("runs")["runs"]
    assert run["status"] == "failed" and "got no gradient" in run["reason"] and "it is not timed" in run["reason"]
    assert run["phases"] == {} and run["metrics"]["gradient_error"] in (float("inf"), "inf", None)


def test_a_method_that_a_model_cannot_do_is_one_sentence(lab: Lab) -> None:
    answer = lab.json("sweep", lab.sweep_file(experiment="memory", grid={"method": ["reversible"]}), expect=2)
    assert "resnet18 has no reversible blocks; choose a RevNet" in answer["error"]


def test_one_value_per_channel_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(ValidationError, match="batch_size=1: at 32 px the last batch norm of resnet18 has one value"):
        Params(batch_size=1, image_size=32)
    assert Params(batch_size=1, image_size=33).size == 33 and Params(batch_size=1, model="bert").size == 128


def test_one_sweep_holds_models_that_can_do_a_method_and_models_that_cannot() -> None:
    spec = make_spec({"experiment": "memory", "grid": {"model": ["revnet_3", "adjusted_resnet18"],
                                                       "method": ["reversible", "plain"]}})
    cells = [cell.params for cell in make_cells(spec)]
    find("memory").check(cells, Path())
    reasons = {(cell.model, cell.method): cannot_run(cell, Gpus()) for cell in cells}
    assert "adjusted_resnet18 has no reversible blocks" in str(reasons.pop(("adjusted_resnet18", "reversible")))
    assert set(reasons.values()) == {None}


def test_thinning_keeps_the_peak_and_the_ends() -> None:
    moments = [Moment(float(at), (at * 7919 % 1009, 0, 0, 0, 0, 0)) for at in range(1000)]
    thin = thin_out(moments, 50)
    assert len(thin) <= 52 and thin[0] == moments[0] and thin[-1] == moments[-1]
    assert max(thin, key=lambda moment: moment.total_bytes) == max(moments, key=lambda moment: moment.total_bytes)
    assert [moment.at for moment in thin] == sorted(moment.at for moment in thin)
    assert thin_out(moments[:10], 50) == moments[:10]
