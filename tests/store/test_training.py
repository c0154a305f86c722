"""What the Training page reads: runs with the device that they used, whatever was asked for."""

from __future__ import annotations

from pathlib import Path

import duckdb

from analysis.training import TrainingRun, compare_methods
from engine.home import Home
from store.ingest import ingest
from store.schema import migrate
from store.training import training_runs
from tests.store.journal_builder import Script


def read(script: Script, home: Home) -> list[TrainingRun]:
    script.end().write()
    connection = duckdb.connect(":memory:")
    try:
        migrate(connection)
        ingest(connection, home)
        return training_runs(connection, script.sweep_id)
    finally:
        connection.close()


def test_a_run_knows_the_environment_of_its_session(tmp_path: Path) -> None:
    """A sweep that was resumed after an upgrade has two."""
    home = Home(tmp_path / "lab")
    script = Script(home, experiment="training")
    for cell, environment_id in enumerate(("before", "after")):
        script.begin(planned_runs=2, environment_id=environment_id)
        script.run(cell, asked={"method": "baseline"}, metrics={"actual_epoch_s": 1.0},
                   effective={"devices": 1, "batch_size": 8, "global_batch_size": 8, "train_images": 32})
    assert [run.environment_id for run in read(script, home)] == ["before", "after"]


def test_runs_under_auto_are_compared_only_where_they_used_the_same_kind_of_device(tmp_path: Path) -> None:
    """One GPU: plain training takes it, two ranks may end on the CPU, and their ratio would be one of machines."""
    home = Home(tmp_path / "lab")
    script = Script(home, experiment="training").begin(planned_runs=3)
    for cell, (method, devices, used) in enumerate((("baseline", 1, "cuda:0"), ("ddp", 2, "cpu"), ("ddp", 1, "cuda:1"),
                                                    ("checkpointing", 1, None))):
        script.run(cell, asked={"seed": 0, "method": method, "devices": devices, "device": "auto"},
                   effective={"devices": devices, "batch_size": 8, "global_batch_size": 8 * devices,
                              "train_images": 32, **({"device": used} if used else {})},
                   metrics={"actual_epoch_s": 1.0 + cell})
    runs = read(script, home)
    assert [run.params["device"] for run in runs] == ["cuda", "cpu", "cuda", "auto"]
    plain, on_cpu, on_gpu, unknown = compare_methods(runs)
    assert plain.first.method == "baseline" and on_gpu.against is not None
    for cell_found in (on_cpu, unknown):
        assert (cell_found.against, cell_found.why_not) == (None, "plain training had other settings")
