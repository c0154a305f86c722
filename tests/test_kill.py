"""kill -9 of the sweep process, of a run and of a loader worker, while real images are being measured."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from driven_lab import Lab

from engine.home import SweepFolder
from engine.journal import Batches, list_journals, read_records
from engine.sweep_state import RunState, read_process, read_state
from store.database import Store

BATCHES = 60
CELLS = 3


@pytest.fixture
def sweep(lab: Lab, images: Path) -> SweepFolder:
    """A sweep of three runs with two loader workers each, caught while its first run is in the measured loop."""
    file = lab.sweep_file(experiment="inference", order="as_listed", grid={"seed": [1, 2, 3]}, fixed={
        "model": "resnet18", "image_size": 64, "batch_size": 8, "batches": BATCHES, "workers": 2, "threads": 1})
    folder = lab.home.sweep(lab.json("sweep", file)["sweep_id"])
    wait_for(lambda: measured_batches(folder) > 3)
    return folder


def wait_for(true: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "did not come about"
        time.sleep(0.05)


def measured_batches(folder: SweepFolder) -> int:
    """Batches that are flushed to the journals, of all runs."""
    records = [record for journal in list_journals(folder.runs) for record in read_records(journal)]
    return sum(len(record.items) for record in records if isinstance(record, Batches))


def running(folder: SweepFolder) -> RunState:
    return next(run for run in read_state(folder).runs.values() if run.status == "running")


def tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    return not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def check_store(lab: Lab, folder: SweepFolder, attempts: list[int]) -> None:
    """Each cell once, every batch and phase once, and the attempts that were needed."""
    runs = lab.json("runs", "--sweep", folder.sweep_id)["runs"]
    assert [run["status"] for run in runs] == ["ok"] * CELLS
    assert len({run["cell_key"] for run in runs}) == CELLS
    assert sorted(run["attempt"] for run in runs) == attempts
    with Store.open(lab.home) as store:
        rows = Counter(store.connection.execute("SELECT run_id, batch, phase FROM phases").fetchall())
    assert set(rows.values()) == {1}
    assert len(rows) == CELLS * BATCHES * 3


def test_kill_of_the_sweep_process(lab: Lab, sweep: SweepFolder) -> None:
    processes = tree(read_process(sweep)["pid"])
    assert len(processes) >= 5, "sweep, resource tracker, forkserver, run and its workers"
    flushed = measured_batches(sweep)
    processes[0].kill()
    wait_for(lambda: gone(processes))

    listed = lab.json("sweeps")["sweeps"][0]
    assert listed["status"] == "interrupted"
    assert listed["runs"] == {"killed": 1, "missing": 2}
    killed = lab.json("runs")["runs"][0]
    assert killed["reason"] == "the sweep process ended during this run"
    assert killed["phases"]["inference"]["count"] >= flushed

    assert lab.json("resume", sweep.sweep_id, "--wait")["runs"] == {"ok": CELLS}
    check_store(lab, sweep, [1, 1, 2])


def test_kill_of_one_run(lab: Lab, sweep: SweepFolder) -> None:
    run = running(sweep)
    assert run.pid
    processes = tree(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    wait_for(lambda: gone(processes))
    wait_for(lambda: not read_state(sweep).open)
    states = Counter(run.status for run in read_state(sweep).runs.values())
    assert states == {"killed": 1, "ok": 2}
    assert "killed from outside" in read_state(sweep).runs[run.run_id].reason
    assert lab.json("resume", sweep.sweep_id, "--wait")["runs"] == {"ok": CELLS}
    check_store(lab, sweep, [1, 1, 2])


def test_kill_of_a_loader_worker(lab: Lab, sweep: SweepFolder) -> None:
    run = running(sweep)
    assert run.pid
    processes = tree(run.pid)
    worker = next(p for p in processes if p.pid != run.pid)
    worker.kill()
    wait_for(lambda: gone(processes))
    wait_for(lambda: not read_state(sweep).open)
    state = read_state(sweep).runs[run.run_id]
    assert (state.status, "loader worker" in state.reason) == ("killed", True)
    assert lab.json("resume", sweep.sweep_id, "--wait")["runs"] == {"ok": CELLS}
    check_store(lab, sweep, [1, 1, 2])


def test_cancel_keeps_what_was_measured(lab: Lab, sweep: SweepFolder) -> None:
    run = running(sweep)
    assert run.pid
    processes = tree(read_process(sweep)["pid"])
    outcome = lab.json("cancel", sweep.sweep_id)
    assert outcome["status"] == "cancelled"
    assert outcome["runs"] == {"cancelled": 1, "missing": 2}
    wait_for(lambda: gone(processes))
    cancelled = lab.json("runs")["runs"][0]
    assert (cancelled["status"], cancelled["reason"]) == ("cancelled", "cancelled while it ran")
    assert cancelled["phases"]["inference"]["count"] > 3
    code, _, err = lab.call("cancel", sweep.sweep_id)
    assert (code, "is not running" in err) == (2, True)
