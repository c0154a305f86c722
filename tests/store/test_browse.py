"""What the pages ask of the store about finished cells."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.home import Home
from engine.importing import import_content
from store.browse import PAST_RUNS_OF_A_CELL, past_runs, sweep_cells
from store.database import Store
from tests.store.journal_builder import Script


def test_imported_phases_are_those_of_the_file(home: Home) -> None:
    text = ("batch_size,end_to_end_s,items,load_data_s,inference_s\n"
            "8,10,100,6,3\n8,12,100,8,3\n16,10,100,,\n")
    sweep_id = import_content(home, text.encode(), "times.csv", "inference", "known")[0]
    with Store.open(home) as store:
        store.ingest()
        cells = {cell.cell: cell.phases_s for cell in sweep_cells(store.connection, sweep_id)}
    assert cells == {"batch_size=8": pytest.approx({"load_data": 0.07, "inference": 0.03, "unaccounted": 0.01}),
                     "batch_size=16": pytest.approx({"unaccounted": 0.1})}


def test_own_phases_are_those_that_were_measured(home: Home) -> None:
    script = Script(home).begin()
    script.run(phases=["load_data", "inference"], metrics={"score_s": 5.0})
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        (cell,) = sweep_cells(store.connection, script.sweep_id)
    assert set(cell.phases_s) == {"load_data", "inference", "unaccounted"}


def test_a_cell_that_was_measured_long_ago_is_still_known(home: Home) -> None:
    script = Script(home).begin()
    old, often = (script.run(cell) for cell in (1, 2))
    script.end().write()
    with Store.open(home) as store:
        store.ingest()
        store.connection.execute("""
            INSERT INTO runs BY NAME SELECT runs.* REPLACE (run_id || '-' || n AS run_id, n AS wall_s,
                started_at + to_minutes(n) AS started_at) FROM runs, range(1, 3001) AS later(n) WHERE run_id = ?""",
            [often])
        store.connection.execute("""
            INSERT INTO parameters BY NAME SELECT parameters.* REPLACE (run_id || '-' || n AS run_id)
            FROM parameters, range(1, 3001) AS later(n) WHERE run_id = ?""", [often])
        past = past_runs(store.connection, "inference", lambda facts: facts["hostname"] == "bench")
        none = past_runs(store.connection, "inference", lambda facts: False)
    keys = {run_id: f"{cell:016x}" for run_id, cell in ((old, 1), (often, 2))}
    assert Counter(run.cell_key for run in past) == {keys[old]: 1, keys[often]: PAST_RUNS_OF_A_CELL}
    assert min(run.wall_s for run in past if run.cell_key == keys[often]) == 3001 - PAST_RUNS_OF_A_CELL  # the newest
    assert '"batch_size": 8' in past[0].work
    assert not none
