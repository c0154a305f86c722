"""What the pages ask of the store about finished cells."""

from __future__ import annotations

import pytest

from engine.home import Home
from engine.importing import import_content
from store.browse import sweep_cells
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
