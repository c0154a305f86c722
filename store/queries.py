"""One function per question asked of the store. SQL stays here; answers are plain rows."""

from __future__ import annotations

import json
from typing import Any

import duckdb

Answer = dict[str, Any]
KEPT = "run_id NOT IN (SELECT target FROM deleted) AND sweep_id NOT IN (SELECT target FROM deleted)"
"""Runs that nobody deleted, alone or with their sweep."""

GIVEN_PHASES = ("load_data", "data_to_device", "inference", "forward", "backward", "optimizer", "score")
"""Phases that an imported run gives as one figure each: `load_data_s` and so on."""


def list_sweeps(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Every sweep, newest first, with its runs by status."""
    sweeps = ask(connection, """
        SELECT sweep_id, name, experiment, source, status, reason, created_at, ended_at, sessions, planned_runs
        FROM sweeps WHERE sweep_id NOT IN (SELECT target FROM deleted) ORDER BY created_at DESC, sweep_id DESC""")
    counts: dict[str, dict[str, int]] = {}
    for sweep_id, status, count in connection.execute(
            f"SELECT sweep_id, status, count(*) FROM runs WHERE {KEPT} GROUP BY ALL ORDER BY ALL").fetchall():
        counts.setdefault(sweep_id, {})[status] = count
    deleted = dict(connection.execute("""SELECT sweep_id, count(*) FROM runs
        WHERE run_id IN (SELECT target FROM deleted) GROUP BY sweep_id""").fetchall())
    for sweep in sweeps:
        sweep["runs"] = counts.get(sweep["sweep_id"], {})
        known = sum(sweep["runs"].values()) + deleted.get(sweep["sweep_id"], 0)
        if (missing := (sweep["planned_runs"] or 0) - known) > 0:
            sweep["runs"]["missing"] = missing
    return sweeps


def list_runs(connection: duckdb.DuckDBPyConnection, sweep_id: str | None = None,
              run_id: str | None = None) -> list[Answer]:
    """Runs in the order they were measured, with parameters, what took effect, metrics and phases."""
    values = {name: value for name, value in (("sweep_id", sweep_id), ("run_id", run_id)) if value}
    # A run that is named is shown even when it is deleted; lists leave deleted ones out.
    where = "WHERE " + " AND ".join([f"{name} = ${name}" for name in values] + ([] if run_id else [KEPT]))
    runs = ask(connection, f"""
        SELECT run_id, sweep_id, experiment, cell_key, repeat, attempt, status, reason, started_at, ended_at, wall_s,
               environment_id, noisy, noise_reason
        FROM runs {where} ORDER BY started_at, run_id""", values)
    chosen = f"run_id IN (SELECT run_id FROM runs {where})"
    by_run = {run["run_id"]: run for run in runs}
    for run in runs:
        run |= {"params": {}, "effective": {}, "metrics": {}, "phases": {}}
    for run_id, name, asked, effective in connection.execute(
            f"SELECT run_id, name, asked, effective FROM parameters WHERE {chosen}", values).fetchall():
        if asked is not None:
            by_run[run_id]["params"][name] = json.loads(asked)
        if effective is not None:
            by_run[run_id]["effective"][name] = json.loads(effective)
    for run_id, name, value in connection.execute(
            f"SELECT run_id, name, value FROM metrics WHERE {chosen}", values).fetchall():
        by_run[run_id]["metrics"][name] = value
    for row in ask(connection, f"SELECT * FROM phase_summaries WHERE {chosen}", values):
        run_id, phase = row.pop("run_id"), row.pop("phase")
        by_run[run_id]["phases"][phase] = row
    return runs


def find_run_ids(connection: duckdb.DuckDBPyConnection, beginning: str) -> list[str]:
    """Runs whose id begins or ends like this (tables show the end); the exact one alone if it is there."""
    found = [row[0] for row in connection.execute(
        "SELECT run_id FROM runs WHERE starts_with(run_id, $text) OR ends_with(run_id, '-' || $text) ORDER BY run_id",
        {"text": beginning}).fetchall()]
    return [beginning] if beginning in found else found


def show_run(connection: duckdb.DuckDBPyConnection, run_id: str) -> Answer:
    """All that is known about one run, its raw batches left out."""
    (run,) = list_runs(connection, run_id=run_id)
    only = {"run_id": run_id}
    run["stages"] = ask(
        connection, "SELECT stage, start_s, seconds FROM stages WHERE run_id = $run_id ORDER BY start_s", only)
    run["units"] = dict(connection.execute(
        "SELECT name, unit FROM metrics WHERE run_id = $run_id AND unit IS NOT NULL", only).fetchall())
    run["telemetry"] = ask(connection, """
        SELECT device, metric, count, mean, median, minimum, maximum FROM sample_summaries
        WHERE run_id = $run_id ORDER BY device, metric""", only)
    run["attempts"] = ask(connection, """
        SELECT attempt, status, reason, started_at, wall_s FROM attempts WHERE run_id = $run_id ORDER BY attempt""",
        only)
    run["files"] = ask(connection, "SELECT path, title, size_bytes FROM files WHERE run_id = $run_id", only)
    run["events"] = ask(
        connection, "SELECT happened_at, text FROM events WHERE run_id = $run_id ORDER BY happened_at", only)
    facts = connection.execute("SELECT facts FROM environments WHERE environment_id = ?",
                               [run["environment_id"]]).fetchone()
    run["environment"] = json.loads(facts[0]) if facts else None
    source = connection.execute("SELECT source FROM sweeps WHERE sweep_id = ?", [run["sweep_id"]]).fetchone()
    run["source"] = source[0] if source else None
    return run


def list_problems(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Journals that could not be read whole: damage, or a tail torn off when their writer died."""
    return ask(connection, """
        SELECT journal, bytes AS read_bytes, unread_bytes, problem FROM journals
        WHERE problem IS NOT NULL OR unread_bytes > 0 ORDER BY journal""")


def count_rows(connection: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """Rows per table, for telling what a rebuild found."""
    tables = [row[0] for row in connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE table_name <> 'schema_version' ORDER BY table_name").fetchall()]
    return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in tables}


def ask(connection: duckdb.DuckDBPyConnection, sql: str, values: Any = None) -> list[Answer]:
    cursor = connection.execute(sql, values or None)
    names = [column[0] for column in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
