"""Every way a run can end is a row with its true status and reason, and the sweep goes on."""

from __future__ import annotations

import psutil
from driven_lab import Lab

from store.database import Store
from store.queries import list_runs


def run_all(lab: Lab, **content: object) -> dict[str, dict]:
    outcome = lab.json("sweep", lab.sweep_file(experiment="misbehave", order="as_listed", **content), "--wait",
                       expect=(0, 1))
    runs = lab.json("runs", "--sweep", outcome["sweep_id"])["runs"]
    return {run["params"]["how"]: run for run in runs}


def test_each_ending_has_its_status_and_reason(lab: Lab) -> None:
    expected = {
        "well": ("ok", None),
        "raise": ("failed", "RuntimeError: the experiment raised this"),
        "memory_error": ("oom", "MemoryError: no memory left"),
        "allocator": ("oom", "can't allocate memory"),
        "crash": ("failed", "SIGSEGV"),
        "exit": ("failed", "exit status 3"),
        "killed": ("killed", "killed from outside in stage measure"),
        "worker_killed": ("killed", "loader worker"),
        "skip": ("skipped", "this machine lacks what it needs"),
        "hang": ("timeout", "no sign of life for 4 s"),
        "leave_child": ("ok", None),
        "not_finite": ("ok", None),
        "modules": ("ok", None),
    }
    runs = run_all(lab, grid={"how": list(expected)}, limits={"silence_s": 4.0})
    for how, (status, reason) in expected.items():
        assert runs[how]["status"] == status, (how, runs[how])
        assert reason is None or reason in runs[how]["reason"], (how, runs[how]["reason"])
        # What was measured before the end is there, whatever the end was. SIGKILL loses what was not flushed.
        if how not in ("killed", "crash", "exit"):
            assert runs[how]["phases"]["inference"]["count"] == 3, how
    check_child_is_gone(int(runs["leave_child"]["metrics"]["child_pid"]))
    check_log(lab, runs["well"]["run_id"])
    check_run_process_modules(lab, runs["modules"]["run_id"])
    with Store.open(lab.home) as store:
        values = dict(store.connection.execute(
            "SELECT name, value::VARCHAR FROM metrics WHERE run_id = ? AND name IN ('loss', 'ratio')",
            [runs["not_finite"]["run_id"]]).fetchall())
    assert values == {"loss": "nan", "ratio": "inf"}


def check_child_is_gone(pid: int) -> None:
    """What a run leaves behind is ended with it."""
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def check_log(lab: Lab, run_id: str) -> None:
    log = lab.json("show", run_id)["log"]
    assert "this is standard output" in log
    assert "this is standard error" in log


def check_run_process_modules(lab: Lab, run_id: str) -> None:
    """The process wall: a run process has torch and none of the app's libraries."""
    line = next(line for line in lab.json("show", run_id)["log"].splitlines() if line.startswith("modules:"))
    modules = set(line.removeprefix("modules:").split(","))
    assert "torch" in modules
    assert not modules & {"streamlit", "altair", "duckdb", "store", "ui"}


def test_time_limit_ends_a_run_that_is_still_working(lab: Lab) -> None:
    runs = run_all(lab, grid={"how": ["well"]}, fixed={"batches": 1000, "batch_s": 0.05}, limits={"run_s": 1.5})
    assert runs["well"]["status"] == "timeout"
    assert "time limit of 1.5 s" in runs["well"]["reason"]
    assert runs["well"]["phases"]["inference"]["count"] >= 5


def test_larger_batches_of_a_line_are_skipped_after_oom(lab: Lab) -> None:
    outcome = lab.json("sweep", lab.sweep_file(
        experiment="misbehave", order="as_listed", grid={"seed": [1, 2], "batch_size": [4, 16, 8, 32]},
        fixed={"how": "oom_above_10"}), "--wait")
    with Store.open(lab.home) as store:
        runs = list_runs(store.connection, outcome["sweep_id"])
    by_cell = {(run["params"]["seed"], run["params"]["batch_size"]): run for run in runs}
    for seed in (1, 2):
        assert [by_cell[seed, size]["status"] for size in (4, 8, 16, 32)] == ["ok", "ok", "oom", "skipped"]
        assert by_cell[seed, 32]["reason"] == "batch size 16 of this line was out of memory"
    # Asking again for what failed tries the line anew instead of believing the old outcome.
    again = lab.json("resume", outcome["sweep_id"], "--failed", "--wait")
    assert again["runs"] == {"ok": 4, "oom": 2, "skipped": 2}
