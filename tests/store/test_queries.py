"""One function per question: the shapes that scripts rely on, on an empty store, one run, failures, a thousand runs."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from driven_lab import Lab

from engine.home import Home
from store.database import Store
from store.queries import find_run_ids, list_problems, list_runs, list_sweeps, show_run
from tests.store.journal_builder import PHASES, Script

RUN = {"run_id", "sweep_id", "experiment", "cell_key", "repeat", "attempt", "status", "reason", "started_at",
       "ended_at", "wall_s", "environment_id", "noisy", "noise_reason", "params", "effective", "metrics", "phases"}
PHASE = {"clock", "count", "median_s", "total_s", "first_s", "steady_median_s"}
SWEEP = {"sweep_id", "name", "experiment", "source", "status", "reason", "created_at", "ended_at", "sessions",
         "planned_runs", "runs"}
DETAILS = {"source", "stages", "units", "telemetry", "attempts", "files", "events", "environment"}


def store_of(*scripts: Script) -> Store:
    home = Home(scripts[0].folder.path.parent.parent)
    for script in scripts:
        script.write()
    return Store.in_memory(home, [script.sweep_id for script in scripts])


def check_shapes(store: Store) -> None:
    for sweep in list_sweeps(store.connection):
        assert sweep.keys() == SWEEP
        assert all(count > 0 for count in sweep["runs"].values())
    for run in list_runs(store.connection):
        assert run.keys() == RUN
        assert isinstance(run["started_at"], datetime)
        assert run["started_at"].tzinfo is None
        assert all(row.keys() == PHASE for row in run["phases"].values())


def test_an_empty_store(home: Home) -> None:
    with Store.open(home) as store:
        assert list_sweeps(store.connection) == []
        assert list_runs(store.connection) == []
        assert list_runs(store.connection, "no-such-sweep") == []
        assert find_run_ids(store.connection, "2026") == []
        assert find_run_ids(store.connection, "") == []
        assert list_problems(store.connection) == []


def test_one_run(home: Home) -> None:
    script = Script(home).begin(name="just one", planned_runs=1)
    run_id = script.run(7, repeat=2, batches=5, workers=1, effective={"workers": 0})
    with store_of(script.end()) as store:
        check_shapes(store)
        assert [(s["name"], s["status"], s["runs"], s["sessions"]) for s in list_sweeps(store.connection)] == [
            ("just one", "finished", {"ok": 1}, 1)]
        run, = list_runs(store.connection, script.sweep_id)
        assert (run["run_id"], run["repeat"], run["attempt"], run["status"]) == (run_id, 2, 1, "ok")
        assert run["params"] == {"seed": 7, "batch_size": 8, "workers": 1}
        assert run["effective"] == {"threads": 2, "workers": 0}
        assert list(run["phases"]) == list(PHASES), "in the order they are entered"
        assert {row["count"] for row in run["phases"].values()} == {5}
        assert run["metrics"]["items"] == 40
        shown = show_run(store.connection, run_id)
        assert shown.keys() == RUN | DETAILS
        assert {name: shown[name] for name in RUN} == run
        assert [stage["stage"] for stage in shown["stages"]] == ["start_process", "prepare_data", "measure", "finish"]
        assert [row["metric"] for row in shown["telemetry"]] == ["others_cpu_cores", "resident_bytes"]
        assert shown["telemetry"][0].keys() == {"device", "metric", "count", "mean", "median", "minimum", "maximum"}
        assert shown["attempts"][0].keys() == {"attempt", "status", "reason", "started_at", "wall_s"}
        assert shown["files"] == [{"path": f"runs/{run_id}/trace.json", "title": "trace", "size_bytes": 1234}]
        assert shown["environment"]["libraries"] == {"torch": "2.15.0"}


def test_failed_runs_only(home: Home) -> None:
    script = Script(home).begin(planned_runs=6)
    endings = [("failed", "RuntimeError: no"), ("oom", "MemoryError"), ("killed", "killed from outside"),
               ("timeout", "no sign of life for 300 s"), ("cancelled", "cancelled while it ran")]
    for cell, (status, reason) in enumerate(endings):
        script.run(cell, status=status, reason=reason, batches=cell)
    with store_of(script.end("cancelled", "cancelled on request")) as store:
        check_shapes(store)
        sweep, = list_sweeps(store.connection)
        assert (sweep["status"], sweep["reason"]) == ("cancelled", "cancelled on request")
        assert sweep["runs"] == {status: 1 for status, _ in endings} | {"missing": 1}
        runs = list_runs(store.connection)
        assert [(run["status"], run["reason"]) for run in runs] == endings
        # What was measured before the end is there; what was not is absent, not zero.
        assert [run["phases"].get("inference", {}).get("count") for run in runs] == [None, 1, 2, 3, 4]
        assert not any("end_to_end_s" in run["metrics"] or "unaccounted_s" in run["metrics"] for run in runs)
        for run in runs:
            assert show_run(store.connection, run["run_id"])["files"] == []


def test_a_run_that_is_still_running(home: Home) -> None:
    script = Script(home).begin(planned_runs=3)
    run_id = script.run(0, status=None)
    with store_of(script) as store:
        check_shapes(store)
        assert list_sweeps(store.connection)[0]["runs"] == {"running": 1, "missing": 2}
        run = show_run(store.connection, run_id)
        assert (run["status"], run["ended_at"], run["wall_s"], run["noisy"]) == ("running", None, None, None)


def test_a_thousand_runs_in_the_order_they_were_measured(home: Home) -> None:
    first, second = Script(home).begin(planned_runs=900), Script(home, "20260301-100000-bbbb", starts_at=9000)
    for cell in reversed(range(900)):
        first.skip(cell)
    second.begin(planned_runs=100, name="newer")
    for cell in range(100):
        second.run(cell, batches=2, flushes=1, samples=0)
    with store_of(first.end(), second.end()) as store:
        check_shapes(store)
        assert [sweep["sweep_id"] for sweep in list_sweeps(store.connection)] == [second.sweep_id, first.sweep_id]
        runs = list_runs(store.connection)
        assert len(runs) == 1000
        assert [run["params"]["seed"] for run in runs] == [*reversed(range(900)), *range(100)]
        only = list_runs(store.connection, second.sweep_id)
        assert only == runs[900:]
        assert {len(run["phases"]) for run in only} == {3}
        assert len(find_run_ids(store.connection, second.sweep_id)) == 100
        assert find_run_ids(store.connection, second.run_id(5)[:-2]) == [second.run_id(5)]


def test_a_run_is_found_by_the_beginning_of_its_id(home: Home) -> None:
    script = Script(home).begin(planned_runs=12)
    for repeat in range(12):
        script.skip(0, repeat=repeat)
    with store_of(script.end()) as store:
        find = store.connection
        assert find_run_ids(find, script.run_id(0, 1)) == [script.run_id(0, 1)], "not also -10 and -11"
        assert len(find_run_ids(find, script.run_id(0, 1)[:-1])) == 12
        assert find_run_ids(find, script.run_id(0, 11)) == [script.run_id(0, 11)]
        for odd in ("%", "_", "*", "' OR 1=1 --", "\x00", "x" * 10_000):
            assert find_run_ids(find, odd) == []


@pytest.mark.parametrize(("planned", "expected"), [(2, {"ok": 2}), (5, {"ok": 2, "missing": 3}), (1, {"ok": 2})])
def test_missing_runs_are_counted_and_never_negative(home: Home, planned: int, expected: dict[str, int]) -> None:
    """A sweep may have more runs than its last plan, when an experiment's defaults changed between two sessions."""
    script = Script(home).begin(planned_runs=planned)
    script.run(0, batches=1, flushes=1)
    script.run(1, batches=1, flushes=1)
    with store_of(script.end()) as store:
        assert list_sweeps(store.connection)[0]["runs"] == expected


def test_json_of_the_command_line(lab: Lab) -> None:
    script = Script(lab.home).begin(planned_runs=2)
    run_id = script.run(0, metrics={"loss": "nan", "ratio": "inf"})
    script.run(1, status="failed", reason="no")
    script.end().write()
    listed: dict[str, Any] = lab.json("runs", "--sweep", script.sweep_id)
    assert listed.keys() == {"runs"}
    assert [run["run_id"] for run in listed["runs"]] == [run_id, script.run_id(1)]
    assert {"run_id", "sweep_id", "status", "params", "metrics", "phases"} <= listed["runs"][0].keys()
    assert {"median_s", "count"} <= listed["runs"][0]["phases"]["inference"].keys()
    assert (listed["runs"][0]["metrics"]["loss"], listed["runs"][0]["metrics"]["ratio"]) == (None, None)
    sweeps = lab.json("sweeps")
    assert sweeps.keys() == {"sweeps"}
    assert {"sweep_id", "name", "status", "runs"} <= sweeps["sweeps"][0].keys()
    # For people: the same, in words, whatever the numbers are.
    code, out, err = lab.call("show", run_id)
    assert (code, err) == (0, ""), err
    assert {"nan", "inf"} <= set(out.split())


def test_journal_problems_are_told_by_the_doctor(lab: Lab, tmp_path: Path) -> None:
    script = Script(lab.home).begin()
    run_id = script.run(0)
    script.end().write()
    own = script.folder.run_journal(run_id, 1)
    content = bytearray(own.read_bytes())
    content[-200] ^= 1
    own.write_bytes(content)
    problem, = lab.json("doctor")["journal_problems"]
    assert problem["journal"] == f"sweeps/{script.sweep_id}/runs/{own.name}"
    assert "is damaged at byte" in problem["problem"]
    assert problem["read_bytes"] + problem["unread_bytes"] == len(content)
    assert json.dumps(problem)
