"""The command line as people and scripts use it: the whole way from a YAML file to numbers, and wrong input."""

from __future__ import annotations

import csv
import gzip
import os
import time
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from driven_lab import Lab

from engine.home import PROJECT
from store.database import Store

TABLES = ("sweeps", "runs", "attempts", "parameters", "stages", "batches", "phases", "samples", "metrics",
          "phase_summaries", "sample_summaries", "environments", "files", "events", "annotations", "journals")


def all_rows(home_store: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = duckdb.connect(str(home_store))
    rows = {table: connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall() for table in TABLES}
    connection.close()
    return rows


def test_from_yaml_to_numbers(lab: Lab, images: Path) -> None:
    """Launch, read, export, extend, rebuild: every run has all its rows, and its stages add up to its life."""
    file = lab.sweep_file(experiment="inference", name="e2e", tags=["t1"], notes="a note", grid={
        "batch_size": [2, 4], "workers": [0, 2]}, fixed={
        "model": "resnet18", "image_size": 32, "batches": 6, "threads": 1})
    outcome = lab.json("sweep", file, "--wait")
    assert (outcome["status"], outcome["runs"]) == ("finished", {"ok": 4})
    sweep_id = outcome["sweep_id"]

    listed = lab.json("sweeps")["sweeps"]
    assert [(s["sweep_id"], s["name"], s["status"], s["runs"]) for s in listed] == [
        (sweep_id, "e2e", "finished", {"ok": 4})]
    runs = lab.json("runs", "--sweep", sweep_id)["runs"]
    assert len({run["cell_key"] for run in runs}) == 4
    for run in runs:
        check_run(lab, run)

    out = lab.home.root.parent / "runs.csv"
    assert lab.json("export", sweep_id, "--format", "csv", "--out", str(out))["rows"] == 4
    with out.open() as text:
        exported = {row["run_id"]: row for row in csv.DictReader(text)}
    for run in runs:
        assert float(exported[run["run_id"]]["end_to_end_s"]) == run["metrics"]["end_to_end_s"]
        assert int(exported[run["run_id"]]["batch_size"]) == run["params"]["batch_size"]

    out = lab.home.root.parent / "charts.html"
    charts = lab.json("export", sweep_id, "--format", "html", "--out", str(out))["charts"]
    assert charts >= 3 and out.read_text().count('<div class="chart"') == charts
    assert f"e2e ({sweep_id})" in out.read_text()

    before = all_rows(lab.home.store)
    lab.home.store.unlink()
    assert lab.json("rebuild")["problems"] == []
    assert all_rows(lab.home.store) == before

    extension = lab.sweep_file(experiment="inference", name="e2e", grid={
        "batch_size": [2, 8], "workers": [0]}, fixed={
        "model": "resnet18", "image_size": 32, "batches": 6, "threads": 1})
    extended = lab.json("extend", sweep_id, extension, "--wait")
    assert extended["runs"] == {"ok": 5}, "one cell is new, the other was there"
    assert {run["attempt"] for run in lab.json("runs")["runs"]} == {1}


def check_run(lab: Lab, run: dict) -> None:
    whole = lab.json("show", run["run_id"])
    assert {phase: row["count"] for phase, row in run["phases"].items()} == {
        "load_data": 6, "data_to_device": 6, "inference": 6}
    assert whole["telemetry"], "a run has telemetry"
    assert whole["environment"]["cores_allowed"] >= 1
    assert whole["log"] is not None
    assert run["effective"]["device"] == "cpu"
    assert run["params"]["device"] == "auto"
    stages = {stage["stage"]: stage["seconds"] for stage in whole["stages"]}
    assert list(stages) == ["start_process", "prepare_data", "init_model", "model_to_device", "warm_up", "measure",
                            "finish"]
    assert sum(stages.values()) == pytest.approx(run["wall_s"], rel=0.05)
    metrics = run["metrics"]
    phases_s = sum(row["total_s"] for row in run["phases"].values())
    assert phases_s + metrics["unaccounted_s"] - metrics["overlapped_s"] == pytest.approx(metrics["end_to_end_s"])
    assert 0 < metrics["first_batch_s"] <= metrics["end_to_end_s"]
    # Two workers carry start-up into two batches and have two each ready at the end: six batches are too few.
    assert metrics.get("steady_batches") == {0: 5, 2: None}[run["params"]["workers"]]


def test_reading_while_another_process_has_the_store(lab: Lab) -> None:
    file = lab.sweep_file(experiment="misbehave", grid={"batches": [2, 3]})
    lab.json("sweep", file, "--wait")
    expected = lab.json("runs")
    with Store.open(lab.home):
        assert lab.json("runs") == expected
        code, _, err = lab.call("rebuild")
        assert code == 2
        assert f"is open in process {os.getpid()}" in err
        assert err.count("\n") == 1


def test_sweeps_take_turns(lab: Lab) -> None:
    """Two sweeps launched at once queue; paused, cancelled and moved ones do as told."""
    slow = lab.sweep_file(experiment="misbehave", grid={"batch_s": [0.05]}, fixed={"batches": 60})
    quick = lab.sweep_file(experiment="misbehave", grid={"batches": [1]})
    first = lab.json("sweep", slow)["sweep_id"]
    second, third = lab.json("sweep", quick)["sweep_id"], lab.json("sweep", quick)["sweep_id"]
    line = lab.json("queue")["queue"]
    assert [entry["sweep_id"] for entry in line] == [first, second, third]
    lab.json("queue", "pause", second)
    assert lab.json("cancel", third)["status"] == "cancelled"
    fourth = lab.json("sweep", quick, "--wait")
    assert fourth["status"] == "finished"
    status = {sweep["sweep_id"]: sweep["status"] for sweep in lab.json("sweeps")["sweeps"]}
    assert status == {first: "finished", second: "paused", third: "cancelled", fourth["sweep_id"]: "finished"}
    lab.json("queue", "continue", second)
    assert lab.json("resume", second, expect=2)["error"].startswith(f"sweep {second} is still being measured")
    until = time.monotonic() + 120
    while lab.json("queue")["queue"]:
        assert time.monotonic() < until, "the line did not become empty"
        time.sleep(0.2)
    ended = {sweep["sweep_id"]: sweep for sweep in lab.json("sweeps")["sweeps"]}
    assert ended[second]["status"] == "finished"
    # One measured run at a time: the second began after the first had ended.
    assert ended[first]["ended_at"] <= lab.json("runs", "--sweep", second)["runs"][0]["started_at"]


GOOD = {"experiment": "inference", "grid": {"batch_size": [8]}}
BAD_SWEEPS = {
    "unknown experiment": ({**GOOD, "experiment": "inferense"}, "did you mean inference?"),
    "unknown model": ({**GOOD, "fixed": {"model": "resnet19"}}, "model=resnet19: no such model"),
    "text model on images": ({**GOOD, "fixed": {"model": "bert"}}, "model=bert: reads text, not images"),
    "unknown parameter": ({**GOOD, "fixed": {"batchsize": 1}}, "batchsize: inference has no such parameter"),
    "unknown key": ({**GOOD, "repeat": 3}, "repeat: a sweep has no such entry; did you mean repeats?"),
    "out of range": ({**GOOD, "grid": {"batch_size": [8, 0]}}, "batch_size=0: must be 1 to 65536"),
    "empty grid": ({**GOOD, "grid": {}}, "grid: is empty"),
    "no values": ({**GOOD, "grid": {"batch_size": []}}, "grid.batch_size: is empty"),
    "missing folder": ({**GOOD, "fixed": {"data": "/no/such/folder"}}, "/no/such/folder"),
    "no imagenette": ({**GOOD, "fixed": {"data": "imagenette"}}, "lab.py fetch imagenette"),
    "does not fit": ({**GOOD, "fixed": {"model": "vit_b_16", "image_size": 50}}, "image_size=50"),
    "a million cells": ({**GOOD, "grid": {"seed": list(range(1000)), "batch_size": list(range(1, 1001))}},
                        "1,000,000 runs; start it with --yes"),
    "broken experiment": ({**GOOD, "experiment": "broken"}, "experiment broken is broken: SyntaxError"),
}


@pytest.mark.parametrize("name", BAD_SWEEPS)
def test_bad_sweeps_start_nothing(lab: Lab, name: str) -> None:
    content, expected = BAD_SWEEPS[name]
    file = lab.sweep_file(**content)
    code, out, err = lab.call("sweep", file)
    assert code == 2
    assert out == ""
    assert expected in err
    assert err.count("\n") == 1, "one sentence"
    document = lab.json("sweep", file, expect=2)
    assert expected in document["error"]
    assert list(document) == ["error"]
    assert lab.files() == set(), "nothing written"


@pytest.mark.parametrize(("arguments", "expected"), [
    (["sweep", "/no/such.yaml"], "no such file"),
    (["sweep"], "Missing argument"),
    (["resume", "nothing"], "no sweeps yet"),
    (["cancel", "nothing"], "no sweeps yet"),
    (["runs", "--sweep", "nothing"], "no sweeps yet"),
    (["show", "nothing"], "no such run"),
    (["show", ""], "no such run"),
    (["export", "nothing", "--format", "csv", "--out", "x.csv"], "no sweeps yet"),
    (["export", "nothing", "--format", "xls", "--out", "x"], "xls"),
    (["nonsense"], "No such command"),
])
def test_wrong_commands_are_one_sentence(lab: Lab, arguments: list[str], expected: str) -> None:
    code, out, err = lab.call(*arguments)
    assert (code, out) == (2, "")
    assert expected in err
    assert "Traceback" not in err
    assert expected in lab.json(*arguments, expect=2)["error"]
    assert lab.files() == set()


@pytest.mark.parametrize("arguments", [["sweeps"], ["show", "nothing", "--json"], []])
def test_a_shell_gets_the_answers_that_the_tests_get(lab: Lab, arguments: list[str]) -> None:
    """Most commands here are forked from a process that has imported lab.py already: the long way is the same."""
    assert lab.call(*arguments, cold=True) == lab.call(*arguments)


def test_an_empty_lab_answers(lab: Lab) -> None:
    assert lab.json("sweeps") == {"sweeps": []}
    assert lab.json("runs") == {"runs": []}
    assert "no sweeps yet" in lab.call("sweeps")[1]
    assert lab.files() == set()
    report = lab.json("doctor")
    assert {"inference", "loading", "misbehave"} <= set(report["experiments"])
    assert any("broken" in sentence for sentence in report["missing"])
    assert {entry["name"] for entry in lab.json("experiments")["experiments"]} >= {"inference", "loading", "misbehave",
                                                                                   "broken"}


def test_models_lists_them_all(lab: Lab) -> None:
    models = {model["name"]: model for model in lab.json("models")["models"]}
    kinds = Counter(model["kind"] for model in models.values())
    # Twelve of torchvision, four RevNets, three adjusted ResNets; BERT and RoBERTa.
    assert kinds == {"vision": 19, "text": 2}
    assert models["bert"]["parameters"] == 109_482_240
    assert models["resnet18"]["parameters"] == 11_689_512
    assert models["resnet18"]["blocks"] == 8


def test_every_command_is_in_the_readme() -> None:
    from lab import cli

    readme = (PROJECT / "README.md").read_text()
    assert [name for name in cli.commands if f"lab.py {name}" not in readme] == []


def test_precisions_and_layouts_run(lab: Lab, images: Path) -> None:
    file = lab.sweep_file(experiment="inference", grid={"precision": ["fp32", "bf16"], "channels_last": [False, True]},
                          fixed={"image_size": 32, "batch_size": 2, "batches": 2, "workers": 0, "threads": 1})
    assert lab.json("sweep", file, "--wait")["runs"] == {"ok": 4}
    # Two batches and no workers: one of them is steady, and what took effect is told.
    for run in lab.json("runs")["runs"]:
        assert run["metrics"]["steady_batches"] == 1
        assert (run["effective"]["workers"], run["effective"]["timing"], run["effective"]["pin_memory"]) == (
            0, "host", False)


def test_two_resumes_at_once_lose_nothing(lab: Lab) -> None:
    file = lab.sweep_file(experiment="misbehave", grid={"how": ["well", "killed"]})
    sweep_id = lab.json("sweep", file, "--wait")["sweep_id"]
    both = [lab.start("resume", sweep_id, "--wait", "--json") for _ in range(2)]
    codes = [process.wait(120) for process in both]
    for process in both:
        process.communicate()
    assert set(codes) <= {0, 2}
    folder = lab.home.sweep(sweep_id)
    names = sorted(path.name for path in folder.path.glob("session-*"))
    assert len(names) == len({name.removesuffix(".gz") for name in names}), "no journal shadows another"
    assert lab.json("runs", "--sweep", sweep_id)["runs"][0]["status"] in ("ok", "killed")
    assert {run["status"] for run in lab.json("runs")["runs"]} == {"ok", "killed"}


def test_a_sweep_with_a_damaged_journal_can_be_resumed(lab: Lab) -> None:
    file = lab.sweep_file(experiment="misbehave", grid={"seed": [1, 2, 3]})
    sweep_id = lab.json("sweep", file, "--wait")["sweep_id"]
    packed = lab.home.sweep(sweep_id).path / "session-0001.jsonl.gz"
    content = bytearray(gzip.decompress(packed.read_bytes()))
    content[content.index(b'"run_end"') + 2] ^= 1
    packed.write_bytes(gzip.compress(bytes(content)))
    lab.home.store.unlink()
    code, _, err = lab.call("runs")
    assert code == 0
    assert "is damaged at byte" in err
    assert lab.json("resume", sweep_id, "--wait")["runs"] == {"ok": 3}
    assert {run["status"] for run in lab.json("runs")["runs"]} == {"ok"}


@pytest.mark.parametrize("home", ["a file", "/proc/nowhere"])
def test_a_home_that_cannot_be_is_one_sentence(lab: Lab, tmp_path: Path, home: str) -> None:
    if home == "a file":
        (tmp_path / home).write_text("")
        home = str(tmp_path / home)
    lab.environment["PHASELAB_HOME"] = home
    for arguments in (["sweep", lab.sweep_file(experiment="misbehave", grid={"seed": [1]})], ["rebuild"]):
        code, out, err = lab.call(*arguments)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1, err
