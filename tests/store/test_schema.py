"""The tables: documented, free of indexes and keys, and readable in a file of every version there has been."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from engine.home import PROJECT, Home
from store.database import Store
from store.export import export_sweep
from store.ingest import ingest
from store.queries import count_rows, find_run_ids, list_problems, list_runs, list_sweeps, show_run
from store.schema import ABOUT, MIGRATIONS, VERSION, migrate, read_version, schema_page
from tests.store.journal_builder import BEGINNING, Script, annotate

ASSETS = Path(__file__).with_name("assets")
OLD_FILES = sorted(ASSETS.glob("store_v*.duckdb"))
SWEEP = "20260301-090000-aaaa"


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    migrate(connection)
    return connection


def test_the_schema_page_is_the_schema() -> None:
    assert (PROJECT / "docs" / "schema.md").read_text() == schema_page(), "run `make docs`"


def test_every_table_and_view_is_described_and_nothing_else(connection: duckdb.DuckDBPyConnection) -> None:
    tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    assert {row[0] for row in tables + views} == ABOUT.keys()
    assert {name for name, about in ABOUT.items() if about.startswith("View")} == {row[0] for row in views}
    page = schema_page()
    for name, about in ABOUT.items():
        assert f"## {name}\n\n{about}\n\n| column | type |" in page


def test_no_table_has_indexes_keys_or_constraints(connection: duckdb.DuckDBPyConnection) -> None:
    """DuckDB's log replay has had trouble with them; the ingest keeps rows unique instead."""
    assert connection.execute("FROM duckdb_indexes()").fetchall() == []
    assert connection.execute("SELECT table_name, constraint_type FROM duckdb_constraints()").fetchall() == []


def test_migrating_again_changes_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    before = connection.execute("FROM duckdb_columns() ORDER BY ALL").fetchall()
    migrate(connection)
    assert connection.execute("FROM duckdb_columns() ORDER BY ALL").fetchall() == before
    assert connection.execute("SELECT version FROM schema_version ORDER BY 1").fetchall() == [
        (number,) for number in range(1, VERSION + 1)]
    assert read_version(connection) == VERSION == len(MIGRATIONS)


# -- files of every version --------------------------------------------------------------------------------------------


def test_each_version_has_a_file_kept() -> None:
    """After a new migration: `python -m tests.store.test_schema`, once, and never again for that version."""
    assert [path.stem for path in OLD_FILES] == [f"store_v{number}" for number in range(1, VERSION + 1)]


@pytest.mark.parametrize("file", OLD_FILES, ids=[path.stem for path in OLD_FILES])
def test_an_old_file_opens_and_answers_everything(file: Path, home: Home, tmp_path: Path) -> None:
    home.root.mkdir()
    shutil.copy(file, home.store)
    with Store.open(home) as store:
        assert store.notice == ""
        assert read_version(store.connection) == VERSION
        # There are no journals here: what is asked comes from the file.
        assert store.ingest() == (0, [], False)
        sweep, = list_sweeps(store.connection)
        assert (sweep["sweep_id"], sweep["name"], sweep["status"]) == (SWEEP, "an old sweep", "finished")
        assert sweep["runs"] == {"failed": 1, "ok": 2, "skipped": 1}
        assert sweep["created_at"] > BEGINNING.replace(tzinfo=None)
        runs = list_runs(store.connection)
        assert [run["status"] for run in runs] == ["ok", "skipped", "failed", "ok"]
        assert [run["attempt"] for run in runs] == [1, 1, 1, 2]
        assert [len(run["phases"]) for run in runs] == [3, 0, 3, 3]
        assert runs[0]["metrics"]["items"] == 48
        assert runs[0]["phases"]["load_data"]["count"] == 6
        again = find_run_ids(store.connection, runs[3]["run_id"][:-2])
        assert again == [runs[3]["run_id"]]
        run = show_run(store.connection, again[0])
        assert [attempt["status"] for attempt in run["attempts"]] == ["failed", "ok"]
        assert run["params"] == {"seed": 3, "batch_size": 8, "workers": 2}
        assert run["effective"] == {"threads": 2, "workers": 1}
        assert run["environment"]["hostname"] == "bench"
        assert [event["text"] for event in run["events"]] == ["a device was lost"]
        assert [row["metric"] for row in run["telemetry"]] == ["others_cpu_cores", "resident_bytes"]
        assert [(p["unread_bytes"], p["problem"]) for p in list_problems(store.connection)] == [(109, None)]
        assert store.connection.execute("SELECT tag FROM tags").fetchall() == [("kept",)]
        assert store.connection.execute("SELECT note FROM notes").fetchall() == [("a note",)]
        counts = count_rows(store.connection)
        empty = [table for table in counts if not counts[table]]
        assert empty == ["board_acts", "frozen_figures", "published", "published_regret"], "no board, and the app's"
        assert export_sweep(store.connection, SWEEP, "runs", "parquet", tmp_path / "runs.parquet") == 4


def write_old_lab(home: Home) -> None:
    """What is in the kept files."""
    script = Script(home, SWEEP).begin(planned_runs=4, name="an old sweep", tags=["kept"], notes="first")
    script.run(0, batches=6)
    script.skip(1)
    script.run(2, status="failed", reason="RuntimeError: no", batches=3)
    script.run(3, status="failed", reason="once", batches=2, workers=2)
    script.die()
    script.begin(planned_runs=4, action="resume", name="an old sweep")
    script.run(3, workers=2, effective={"workers": 1}, events=["a device was lost"])
    script.end().write()
    annotate(home, "someone", (SWEEP, "note", "a note", 5000), (SWEEP, "tag", "gone", 5000),
             (SWEEP, "untag", "gone", 5001))


if __name__ == "__main__":
    import tempfile

    kept = ASSETS / f"store_v{VERSION}.duckdb"
    assert not kept.exists(), f"{kept} is frozen"
    ASSETS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Home(Path(folder))
        write_old_lab(made)
        # Small blocks keep the file small; nothing else is different in it.
        with duckdb.connect(str(kept), config={"default_block_size": "16384"}) as opened:
            migrate(opened)
            ingest(opened, made)
