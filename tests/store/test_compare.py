"""What Compare asks: items of a link, all about some runs, telemetry thinned, and the same cell wherever it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from engine.home import Home
from store.compare import (
    POINTS,
    compared_runs,
    environment_facts,
    list_readings,
    metric_units,
    overlaid_samples,
    resolve_items,
    same_cell_runs,
)
from store.ingest import ingest, ingest_people
from store.schema import migrate
from tests.store.compared_lab import NEW, OLD, write_cells, write_upgrade
from tests.store.journal_builder import annotate


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "lab")
    write_upgrade(home)
    return home


@pytest.fixture
def ask(home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(":memory:")
    migrate(connection)
    ingest(connection, home)
    yield connection
    connection.close()


def test_items_are_runs_cells_and_sweeps(ask: duckdb.DuckDBPyConnection) -> None:
    cell, other = f"{OLD}-0000000000", f"{NEW}-0000000001"
    chosen = resolve_items(ask, [f"{other}-2", f"{other}-1", cell])
    assert chosen.cells == {other: [f"{other}-2", f"{other}-1"], cell: [f"{cell}-{repeat}" for repeat in (1, 2, 3)]}
    assert chosen.sweeps == {} and chosen.unknown == []
    whole = resolve_items(ask, [OLD, NEW])
    assert list(whole.cells) == [cell, f"{OLD}-0000000001", f"{NEW}-0000000000", other]
    assert whole.sweeps == {OLD: "before", NEW: "after"}


def test_a_cell_of_one_environment(ask: duckdb.DuckDBPyConnection) -> None:
    assert len(resolve_items(ask, [f"{OLD}-0000000000~env-1"]).cells[f"{OLD}-0000000000"]) == 3
    assert resolve_items(ask, [f"{OLD}-0000000000~nowhere"]).unknown == [f"{OLD}-0000000000~nowhere"]


@pytest.mark.parametrize("item", ["nonsense", "9" * 500, "'; DROP TABLE runs; --", "../../etc/passwd", "%", f"{OLD}-",
                                  f"{OLD}-0000000000-99"])
def test_what_is_not_there_is_named(ask: duckdb.DuckDBPyConnection, item: str) -> None:
    chosen = resolve_items(ask, [item, OLD])
    assert chosen.unknown == [item] and chosen.items == [OLD] and len(chosen.cells) == 2


def test_deleted_runs_are_not_there(home: Home, ask: duckdb.DuckDBPyConnection) -> None:
    run_id = f"{OLD}-0000000000-1"
    annotate(home, "me", (run_id, "delete", "", 10_000.0))
    ingest_people(ask, home)
    assert resolve_items(ask, [run_id]).unknown == [run_id]
    assert run_id not in resolve_items(ask, [OLD]).cells[f"{OLD}-0000000000"]


def test_everything_about_the_runs_asked_for_in_their_order(ask: duckdb.DuckDBPyConnection) -> None:
    run_ids = [f"{NEW}-0000000001-2", f"{OLD}-0000000000-1"]
    new, old = compared_runs(ask, run_ids)
    assert [new.run_id, old.run_id] == run_ids
    assert old.metrics["end_to_end_s"] == pytest.approx(1.02) and old.metrics["items"] == 32
    assert old.asked["batch_size"] == 8 and old.effective["threads"] == 2 and old.sweep == "before"
    assert set(old.phases_s) == {"load_data", "data_to_device", "inference"}
    facts = environment_facts(ask, [new.environment_id])
    assert facts["env-2"]["libraries"] == {"torch": "2.16.0"}
    assert metric_units(ask, run_ids)["end_to_end_s"] == "s"


def test_telemetry_is_thinned_in_the_store(ask: duckdb.DuckDBPyConnection) -> None:
    run_id = f"{OLD}-0000000000-1"
    ask.execute("""INSERT INTO samples SELECT ?, 'cpu', 'run_cpu_cores', i / 10.0, i % 2 FROM range(10000) t(i)""",
                [run_id])
    rows = overlaid_samples(ask, [run_id], "cpu", "run_cpu_cores")
    assert len(rows) <= POINTS + 1
    assert rows[0]["time_s"] < 5 and rows[-1]["time_s"] > 990 and rows[7]["value"] == pytest.approx(0.5, abs=0.1)
    assert ("cpu", "others_cpu_cores") in list_readings(ask, [run_id])


def test_the_same_cell_wherever_it_was_measured(home: Home, ask: duckdb.DuckDBPyConnection) -> None:
    (run,) = compared_runs(ask, [f"{OLD}-0000000000-1"])
    found = same_cell_runs(ask, run)
    assert sorted(found) == sorted(f"{sweep}-0000000000-{repeat}" for sweep in (OLD, NEW) for repeat in (1, 2, 3))
    # Asked for otherwise, and yet the same in all that took effect: threads were 2 in the others, too.
    write_cells(home, "20260302-090000-cccc", [9.0, 9.0, 1.0], repeats=1, asked={"batch_size": 8, "threads": 2})
    ingest(ask, home)
    assert "20260302-090000-cccc-0000000002-1" in same_cell_runs(ask, run)
