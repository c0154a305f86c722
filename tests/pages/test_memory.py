"""The Memory page on real tiny sweeps: what it says equals the raw rows, worked out again here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
from drawn_page import assert_replayed, draw, no_exception
from driven_lab import Lab
from streamlit.testing.v1 import AppTest

from analysis.memory_limits import CURVE_SIZES, largest_batch
from begin import open_keeper
from engine.people import annotate
from engine.predictions import keep, key_of, read_kept
from engine.queue import editing, enqueue
from engine.settings import Precision
from predicting import ask_for
from tests.store.journal_builder import Script
from ui.memory_limits_view import GPUS_GIB, KEPT_FREE_GIB, PRECISIONS
from ui.units import seconds, size

PAGE = "pages/Memory.py"
TINY = {"batch_size": 2, "image_size": 32, "batches": 2, "threads": 1}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RevNets of two depths and an adjusted ResNet, each plainly and with less memory."""
    lab = Lab.at(tmp_path_factory.mktemp("memory"))
    for name, models, methods in (("revnets", ["revnet_3", "revnet_9"], ["plain", "reversible"]),
                                  ("resnets", ["adjusted_resnet18"], ["plain", "checkpoint"])):
        answer = lab.json("sweep", lab.sweep_file(experiment="memory", name=name, repeats=1, fixed=TINY,
                                                  grid={"model": models, "method": methods}), "--wait")
        assert set(answer["runs"]) == {"ok"}, answer
    return lab.home.root


@pytest.fixture
def filled(lab: Lab, measured: Path) -> Lab:
    shutil.copytree(measured, lab.home.root)
    return lab


def rows(lab: Lab) -> dict[tuple[str, str], dict[str, Any]]:
    return {(run["params"]["model"], run["params"]["method"]): run for run in lab.json("runs")["runs"]}


def sweep_id(lab: Lab, name: str) -> str:
    return next(str(sweep["sweep_id"]) for sweep in lab.json("sweeps")["sweeps"] if sweep["name"] == name)


def text(page: AppTest) -> str:
    return " ".join(part.value for part in page.markdown).replace("\\", "").replace("**", "")


@pytest.mark.parametrize("view", ["Over a step", "Depth"])
def test_a_board_shows_what_the_page_shows(filled: Lab, view: str) -> None:
    assert_replayed("Memory", sweeps=f"{sweep_id(filled, 'revnets')},{sweep_id(filled, 'resnets')}", view=view)


def test_what_the_runs_show_is_said_first(filled: Lab) -> None:
    found = {key: run["metrics"] for key, run in rows(filled).items()}
    said = text(draw(PAGE, sweeps=f"{sweep_id(filled, 'revnets')},{sweep_id(filled, 'resnets')}"))
    saved = {key: metrics["saved_activations_bytes"] for key, metrics in found.items()}
    flat = [saved[f"revnet_{n}", "reversible"] for n in (3, 9)]
    assert max(flat) / min(flat) - 1 < 0.05
    grown = saved["revnet_9", "plain"] / saved["revnet_3", "plain"]
    assert grown > 2
    assert f"stay within {max(flat) / min(flat) - 1:.1%} from revnet_3 to revnet_9" in said
    assert f"the plain network's grow {grown:.1f}-fold" in said
    for model, method in (("revnet_9", "reversible"), ("adjusted_resnet18", "checkpoint")):
        ratio = found[model, method]["peak_memory_bytes"] / found[model, "plain"]["peak_memory_bytes"]
        assert f"{method.capitalize()} lowers the peak of {model} to {ratio:.2f} times plain's" in said
        time = found[model, method]["end_to_end_s"] / found[model, "plain"]["end_to_end_s"]
        assert f"took {time:.2f} times its time (one run each, so no interval)" in said


def test_two_steps_are_compared_at_their_peaks(filled: Lab) -> None:
    page = draw(PAGE, sweeps=sweep_id(filled, "revnets"), cell="revnet_3.plain.1", **{"with": "revnet_3.reversible.1"})
    found = rows(filled)
    plain, reversible = found["revnet_3", "plain"], found["revnet_3", "reversible"]
    peaks = {run["run_id"]: open_keeper().store.cursor().execute(
        """SELECT max(held) FROM (SELECT sum(value) AS held FROM samples
           WHERE run_id = ? AND device = 'memory' GROUP BY time_s)""", [run["run_id"]]).fetchall()[0][0]
        for run in (plain, reversible)}
    said = text(page)
    for run in (plain, reversible):
        assert f"peak at {size(peaks[run['run_id']])}" in said
    change = peaks[plain["run_id"]] - peaks[reversible["run_id"]]
    assert change > 0 and f"revnet_3, reversible holds {size(change)} less than revnet_3, plain" in said
    table = page.dataframe[0].value.set_index("At the peak")
    for name in ("activations", "temporaries", "gradients"):
        assert table.loc[name, "revnet_3, plain"] == size(plain["metrics"][f"peak_{name}_bytes"])
        assert table.loc[name, "revnet_3, reversible"] == size(reversible["metrics"][f"peak_{name}_bytes"])


def test_a_link_keeps_its_cell_when_more_cells_come(filled: Lab) -> None:
    sweeps, shown = [sweep_id(filled, "revnets"), sweep_id(filled, "resnets")], f"Run {_run_of(filled, 'revnet_9')}."
    for chosen in (sweeps[:1], sweeps):
        page = draw(PAGE, sweeps=",".join(chosen), cell="revnet_9.plain.1")
        assert shown in [caption.value.replace("\\", "") for caption in page.caption]


def _run_of(lab: Lab, model: str) -> str:
    return str(rows(lab)[model, "plain"]["run_id"])


def test_a_link_keeps_its_setting_when_more_settings_come(lab: Lab) -> None:
    """Settings come in the order of measuring: another sweep's may come first."""
    for sweep, starts_at, batch_sizes in (("20260301-090000-bbbb", 1000.0, (2, 4)),
                                          ("20260301-090000-aaaa", 0.0, (8,))):
        script = Script(lab.home, sweep, "memory", starts_at).begin(planned_runs=len(batch_sizes))
        for cell, batch_size in enumerate(batch_sizes):
            script.run(cell, asked={"model": "resnet18", "method": "plain", "batch_size": batch_size},
                       metrics={"peak_memory_bytes": 1000.0 * batch_size})
        script.end().write()
    box = draw(PAGE, sweeps="20260301-090000-bbbb").selectbox(key="choose_setting").select("batch_size=4")
    setting = no_exception(box.run()).selectbox(key="choose_setting").value
    page = draw(PAGE, sweeps="20260301-090000-aaaa,20260301-090000-bbbb", setting=setting, view="Memory against time")
    assert page.dataframe[0].value["Batch size"][0] == "4"


def test_depth_has_the_published_table_beside(filled: Lab) -> None:
    page = draw(PAGE, sweeps=f"{sweep_id(filled, 'revnets')},{sweep_id(filled, 'resnets')}", view="Depth")
    table = page.dataframe[0].value.set_index("Model")
    found = rows(filled)
    assert list(table["Published peak"])[:3] == ["743.0 MiB", "1.1 GiB", "3.4 GiB"]
    for subject, key in (("RevNet 3-3-3", ("revnet_3", "reversible")), ("RevNet 9-9-9", ("revnet_9", "reversible")),
                         ("Adjusted ResNet18", ("adjusted_resnet18", "plain"))):
        metrics = found[key]["metrics"]
        assert table.loc[subject, "Own peak"] == size(metrics["peak_memory_bytes"])
        assert table.loc[subject, "Own time per batch"] == seconds(metrics["end_to_end_s"] / metrics["batches"])
        assert table.loc[subject, "Own parameters"] == table.loc[subject, "Published parameters"]
    assert table.loc["RevNet 18-18-18", "Own peak"] == "–"
    assert "batches of 2 at 32 px on cpu, in fp32 with sgd_momentum: other work" in text(page)


def test_the_front_holds_what_nothing_beats(filled: Lab) -> None:
    found = {method: rows(filled)["revnet_9", method]["metrics"] for method in ("plain", "reversible")}
    said = text(draw(PAGE, sweeps=sweep_id(filled, "revnets"), view="Memory against time", model="revnet_9"))
    front = said.partition("On the front of revnet_9: ")[2].partition("Off it")[0]
    assert "reversible (" in front, "nothing needs less memory"
    assert ("plain (" in front) == (found["plain"]["end_to_end_s"] < found["reversible"]["end_to_end_s"])


def test_allocated_and_resident_memory_stand_beside_the_published_pairs(filled: Lab) -> None:
    page = draw(PAGE, sweeps=sweep_id(filled, "revnets"), view="Memory against time")
    (table,) = [part.value.set_index("Cell") for part in page.dataframe if "Reserved" in part.value]
    for (model, method), run in rows(filled).items():
        if model.startswith("revnet"):
            row, metrics = table.loc[f"{model}, {method}"], run["metrics"]
            assert row["Allocated"] == size(metrics["peak_memory_bytes"]) and row["Reserved"] == "–"
            assert row["Resident growth"] == size(metrics["resident_growth_bytes"])
    for method, pair in (("plain", ["11.1 GiB", "14.4 GiB"]), ("checkpoint", ["3.6 GiB", "5.2 GiB"])):
        row = table.loc[f"resnet18, {method} (seed 002, published)"]
        assert [row["Allocated"], row["Reserved"], row["Resident growth"]] == [*pair, "–"]


def test_every_run_has_its_prediction_beside_it(filled: Lab) -> None:
    page = draw(PAGE, sweeps=sweep_id(filled, "revnets"), view="Predicted and measured")
    table = page.dataframe[0].value.set_index("Run")
    runs = [run for (model, _), run in rows(filled).items() if model.startswith("revnet")]
    assert len(table) == len(runs) == 4
    for run in runs:
        metrics = run["metrics"]
        assert table.loc[run["run_id"], "Predicted"] == size(metrics["predicted_peak_bytes"])
        assert table.loc[run["run_id"], "Measured"] == size(metrics["peak_memory_bytes"])
        error = metrics["predicted_peak_bytes"] / metrics["peak_memory_bytes"] - 1
        assert float(table.loc[run["run_id"], "Error"].removesuffix(" %")) == pytest.approx(100 * error, abs=0.006)
    within = sum(abs(run["metrics"]["prediction_error"]) <= 0.1 for run in runs)
    assert f"{within} of 4 predictions are within 10 %" in text(page)


def test_the_largest_batch_is_predicted_once_and_kept(lab: Lab) -> None:
    query = {"view": "Largest batch", "predict": "revnet_3", "methods": "reversible", "pixels": "32", "gpu": "T4"}
    page = draw(PAGE, **query)
    assert "pending" in text(page) and not page.warning
    page = no_exception(page.button(key="predict_batches").click().run(timeout=240))
    kept = {json.loads(key)["batch_size"]: peak for key, peak in read_kept(lab.home).items()}
    usable_gib = 14.6 - 0.5  # a T4 of 16 GB leaves about 14.6 GiB to programs
    fit = largest_batch(lambda batch: kept[batch], usable_gib * 2**30)
    assert f"predicted to fit 14.1 GiB of T4: {fit.largest:,} with reversible" in text(page)
    assert "pending" not in text(draw(PAGE, **query)), "a second look is instant"


def test_precision_and_blocks_are_asked_for(lab: Lab) -> None:
    """From kept answers: those of bf16 and three blocks, not of others."""
    assert get_args(Precision) == PRECISIONS
    def answer(batch: int) -> float:
        peak = batch * 10_000_000
        keep(lab.home, key_of(ask_for("resnet18", batch, "checkpoint", 64, "sgd_momentum", "bf16", 3)), peak)
        return peak

    for batch in CURVE_SIZES:
        answer(batch)
    usable = (GPUS_GIB["T4"] - KEPT_FREE_GIB) * 2**30
    fit = largest_batch(answer, usable)
    query = {"view": "Largest batch", "predict": "resnet18", "methods": "checkpoint", "pixels": "64", "gpu": "T4"}
    page = draw(PAGE, **query, precision="bf16", blocks="3")
    assert (f"resnet18 in bf16 predicted to fit {size(usable)} of T4: {fit.largest:,} with checkpoint every 3 blocks."
            in text(page))
    for other in ({}, {"precision": "bf16"}, {"precision": "fp16", "blocks": "3"}):
        assert "pending" in text(draw(PAGE, **query, **other))


def test_a_device_of_ones_own_is_in_the_link(lab: Lab) -> None:
    def answer(batch: int) -> float:
        keep(lab.home, key_of(ask_for("resnet18", batch, "plain", 64)), batch * 2**30)
        return batch * 2**30

    for batch in CURVE_SIZES:
        answer(batch)
    fit = largest_batch(answer, 47.5 * 2**30)
    query = {"view": "Largest batch", "predict": "resnet18", "methods": "plain", "pixels": "64"}
    page = draw(PAGE, **query, gpu="my own GPU~48")
    assert page.selectbox(key="choose_gpu").value == "my own GPU~48"
    assert f"fit 47.5 GiB of my own GPU: {fit.largest} with plain" in text(page)
    assert "fit 47.5 GiB of my own GPU" in text(no_exception(page.run())), "it stays"
    (figure,) = assert_replayed("Memory", **query, gpu="my own GPU~48").figures
    assert figure.name == "predicted_batches" and not figure.measured, "no sweep is the source of a prediction"


@pytest.mark.parametrize("gpu", ["my own GPU", "my own GPU~", "~48", "my own GPU~nan", "my own GPU~inf",
                                 "my own GPU~-4", "my own GPU~1e9", f"{'x' * 61}~48"])
def test_a_device_that_cannot_be_is_not_offered(lab: Lab, gpu: str) -> None:
    box = draw(PAGE, view="Largest batch", gpu=gpu).selectbox(key="choose_gpu")
    assert len(box.options) == len(GPUS_GIB) + 1 and box.value == next(iter(GPUS_GIB))


def test_predicting_is_refused_while_a_sweep_is_measured(lab: Lab) -> None:
    page = draw(PAGE, view="Largest batch")
    enqueue(lab.home, "20260101-000000-aaaa")
    with editing(lab.home) as queue:
        queue.entries[0].state = "measuring"
    page = no_exception(page.button(key="predict_batches").click().run())
    assert any("is being measured now and predicting would disturb it" in box.value.replace("\\", "")
               for box in page.warning)


def test_launch_says_what_the_largest_cell_needs(lab: Lab) -> None:
    page = draw("pages/Launch.py", experiment="memory")
    assert page.button(key="predict").label == "Predict its memory"
    keep(lab.home, key_of(ask_for("resnet18", 8, "plain", 224)), 3 * 2**30)
    page = no_exception(page.run())
    (said,) = [box.value for box in (*page.info, *page.warning) if "largest cell" in box.value]
    assert "needs about 3.0 GiB, this machine has " in said and "batches of 8" in said
    assert not [button for button in draw("pages/Launch.py", experiment="loading").button if button.key == "predict"]


def test_an_empty_lab_offers_the_small_preset_and_the_published_table(lab: Lab) -> None:
    page = draw(PAGE)
    assert "No training step's memory has been measured yet" in text(page)
    assert len(page.dataframe[0].value) == 7


def test_an_archived_sweep_is_offered_only_where_the_link_asks_for_it(filled: Lab) -> None:
    archived, other = sweep_id(filled, "revnets"), sweep_id(filled, "resnets")
    annotate(filled.home, [archived], "archive")
    assert draw(PAGE).multiselect(key="choose_sweeps").value == [other]
    page = draw(PAGE, sweeps=archived)
    assert page.multiselect(key="choose_sweeps").value == [archived] and "revnet_9" in text(page)
    page = no_exception(page.multiselect(key="choose_sweeps").select(other).run())
    assert page.multiselect(key="choose_sweeps").value == [archived, other] and "adjusted" in text(page)


def test_failed_runs_are_counted_and_the_next_step_is_named(lab: Lab) -> None:
    answer = lab.json("sweep", lab.sweep_file(experiment="memory", name="failing", repeats=1, grid={"batch_size": [2]},
                                              fixed={"image_size": 32}, limits={"run_s": 0.01}), "--wait",
                      expect=(0, 1))
    assert answer["runs"] == {"timeout": 1}
    page = draw(PAGE)
    assert "No run of these sweeps has a peak yet" in text(page)
    assert any("1 timeout" in caption.value for caption in page.caption)
