"""The tables, as a list of migrations that is only ever appended to. docs/schema.md is generated from here.

The tables that receive measurements have no indexes, keys or later changes of shape: DuckDB's log replay has had
trouble with those. Uniqueness comes from the ingest, which commits journal offsets together with the rows.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import duckdb

from store.column_notes import column_note

MIGRATIONS = [
    # 1: the first shape
    """
    CREATE TABLE sweeps (
        sweep_id VARCHAR, name VARCHAR, experiment VARCHAR, source VARCHAR, status VARCHAR, reason VARCHAR,
        created_at TIMESTAMP, ended_at TIMESTAMP, sessions INTEGER, planned_runs BIGINT, spec JSON);
    CREATE TABLE runs (
        run_id VARCHAR, sweep_id VARCHAR, experiment VARCHAR, cell_key VARCHAR, repeat INTEGER, attempt INTEGER,
        status VARCHAR, reason VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP, wall_s DOUBLE,
        environment_id VARCHAR, noisy BOOLEAN, noise_reason VARCHAR);
    CREATE TABLE attempts (
        run_id VARCHAR, attempt INTEGER, status VARCHAR, reason VARCHAR, started_at TIMESTAMP, ended_at TIMESTAMP,
        wall_s DOUBLE);
    CREATE TABLE parameters (run_id VARCHAR, name VARCHAR, asked JSON, effective JSON);
    CREATE TABLE stages (run_id VARCHAR, stage VARCHAR, start_s DOUBLE, seconds DOUBLE);
    CREATE TABLE batches (run_id VARCHAR, batch INTEGER, items INTEGER, start_s DOUBLE, seconds DOUBLE);
    CREATE TABLE phases (
        run_id VARCHAR, batch INTEGER, phase VARCHAR, clock VARCHAR, start_s DOUBLE, seconds DOUBLE);
    CREATE TABLE samples (run_id VARCHAR, device VARCHAR, metric VARCHAR, time_s DOUBLE, value DOUBLE);
    CREATE TABLE metrics (run_id VARCHAR, name VARCHAR, value DOUBLE, unit VARCHAR, origin VARCHAR);
    CREATE TABLE phase_summaries (
        run_id VARCHAR, phase VARCHAR, clock VARCHAR, count BIGINT, median_s DOUBLE, total_s DOUBLE, first_s DOUBLE,
        steady_median_s DOUBLE);
    CREATE TABLE sample_summaries (
        run_id VARCHAR, device VARCHAR, metric VARCHAR, count BIGINT, mean DOUBLE, median DOUBLE, minimum DOUBLE,
        maximum DOUBLE);
    CREATE TABLE environments (environment_id VARCHAR, facts JSON);
    CREATE TABLE files (run_id VARCHAR, path VARCHAR, title VARCHAR, size_bytes BIGINT);
    CREATE TABLE events (sweep_id VARCHAR, run_id VARCHAR, happened_at TIMESTAMP, text VARCHAR);
    CREATE TABLE annotations (target VARCHAR, field VARCHAR, value VARCHAR, happened_at TIMESTAMP);
    CREATE VIEW tags AS
        SELECT target, value AS tag FROM annotations WHERE field IN ('tag', 'untag')
        GROUP BY target, value HAVING arg_max(field, (happened_at, rowid)) = 'tag';
    CREATE VIEW notes AS
        SELECT target, arg_max(value, (happened_at, rowid)) AS note, max(happened_at) AS happened_at
        FROM annotations WHERE field = 'note' GROUP BY target;
    CREATE TABLE journals (
        journal VARCHAR, bytes BIGINT, complete BOOLEAN, unread_bytes BIGINT, problem VARCHAR);
    """,
    # 2: figures that earlier studies published
    """
    CREATE TABLE published (
        study VARCHAR, subject VARCHAR, params JSON, metric VARCHAR, value DOUBLE, unit VARCHAR, caveat VARCHAR);
    CREATE TABLE published_regret (
        data VARCHAR, batch_size INTEGER, workers INTEGER, mean_regret DOUBLE, top3_count INTEGER);
    CREATE VIEW archived AS
        SELECT target FROM annotations WHERE field IN ('archive', 'unarchive')
        GROUP BY target HAVING arg_max(field, (happened_at, rowid)) = 'archive';
    CREATE VIEW deleted AS
        SELECT target FROM annotations WHERE field IN ('delete', 'restore')
        GROUP BY target HAVING arg_max(field, (happened_at, rowid)) = 'delete';
    """,
    # 3: boards
    """
    CREATE TABLE board_acts (
        board_id VARCHAR, item_id VARCHAR, act VARCHAR, value JSON, happened_at TIMESTAMP, number INTEGER);
    CREATE TABLE frozen_figures (item_id VARCHAR, happened_at TIMESTAMP, figure JSON);
    """,
]
VERSION = len(MIGRATIONS)
ERASED = """(SELECT target FROM annotations WHERE field IN ('delete', 'restore', 'erase')
             GROUP BY target HAVING arg_max(field, (happened_at, rowid)) = 'erase')"""
"""A sweep that was erased and imported again was restored with that, and may be deleted and erased once more."""

ABOUT = {
    "schema_version": "Which migrations this file has seen.",
    "sweeps": "One row per sweep, as its journals last described it.",
    "runs": "One row per cell and repeat of a sweep: its latest attempt.",
    "attempts": "Every attempt at a run, the superseded ones too; their measurements stay in the journals.",
    "parameters": "What was asked of a run and what took effect (NULL where the run did not say), as JSON values.",
    "stages": "Parts of a run's life, in seconds since it was asked for.",
    "batches": "Steps of the measured loop, as the host saw them. Without gaps, unless the clock was stopped.",
    "phases": "Named parts of each batch; clock is host, device (CUDA events) or isolated (synchronised).",
    "samples": "Telemetry readings, in seconds since the run was asked for.",
    "metrics": "Scalar results. origin is measured (by the run) or derived (from its rows, when it ended).",
    "phase_summaries": "Phases of an ended run; steady_median_s leaves out the first batches, NULL if too short.",
    "sample_summaries": "Telemetry of an ended run, reduced.",
    "environments": "Fingerprints of machine, driver, libraries and commit.",
    "files": "What runs left behind, by path inside the sweep's folder.",
    "events": "Things worth telling a person about a sweep or run.",
    "annotations": "What people did to a sweep or run: tag, untag, note, archive, delete, restore, erase.",
    "tags": "View: tags of sweeps and runs as they are now.",
    "notes": "View: the newest note per sweep or run.",
    "archived": "View: sweeps and runs put away by a person; hidden unless asked for.",
    "deleted": "View: sweeps and runs deleted by a person; their journals stay until the lab is compacted.",
    "published": "Figures of earlier studies, from store/published/; never own measurements.",
    "published_regret": "Published regret and top-3 counts of seed 004: means over models, not runs.",
    "board_acts": "What people did to boards, one row per act; what a board is now follows from all of them.",
    "frozen_figures": "What a frozen item of a board shows: sentence, chart with its rows, where they come from.",
    "journals": "How far each journal has been read, in uncompressed bytes; what could not be read, and why.",
}


class Column(NamedTuple):
    name: str
    kind: str
    note: str


class NewerStore(Exception):
    """The file was written by a later version of the lab."""


def migrate(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring a file to this version, one transaction per step: an interrupted upgrade leaves a whole older file."""
    connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER)")
    version = read_version(connection)
    if version > VERSION:
        raise NewerStore(f"was written by a newer PhaseLab (its schema is {version}, this one knows {VERSION})")
    for number in range(version + 1, VERSION + 1):
        connection.begin()
        try:
            connection.execute(MIGRATIONS[number - 1])
            connection.execute("INSERT INTO schema_version VALUES (?)", [number])
            connection.commit()
        except BaseException:
            roll_back(connection)
            raise


def roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Undo what a transaction began. A commit that failed has undone it already."""
    with contextlib.suppress(duckdb.TransactionException):
        connection.rollback()


def read_version(connection: duckdb.DuckDBPyConnection) -> int:
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
    assert row
    return int(row[0])


def schema_page() -> str:
    """docs/schema.md, from the tables as DuckDB sees them."""
    connection = duckdb.connect(":memory:")
    migrate(connection)
    lines = ["# The store's tables", "", f"Generated from store/schema.py (version {VERSION}); a test keeps it true.",
             "Seconds and bytes throughout; moments are UTC; NULL means unknown.", ""]
    for table, about in ABOUT.items():
        lines += [f"## {table}", "", about, "", "| column | type | meaning |", "| --- | --- | --- |"]
        lines += [f"| {column.name} | {column.kind} | {column.note} |" for column in list_columns(connection)[table]]
        lines.append("")
    return "\n".join(lines)


def list_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Column]]:
    """The columns of every table and view that ABOUT tells of, in its order."""
    found: dict[str, list[Column]] = {table: [] for table in ABOUT}
    for table, name, kind in connection.execute("""
            SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal
            ORDER BY table_name, column_index""").fetchall():
        if table in found:
            found[table].append(Column(name, kind, column_note(table, name)))
    return found


if __name__ == "__main__":
    print(schema_page(), end="")
