"""What the pages ask: frames for tables, the latest of a running sweep, one run's curves. Limits keep pages quick."""

from __future__ import annotations

import json
import re
from typing import Any

import duckdb
import pandas as pd

from store.queries import Answer, ask

VARYING_SHOWN = 8
SAMPLES_SHOWN = 2_000
"""More telemetry than this is thinned evenly before it is drawn."""


def sweeps_frame(connection: duckdb.DuckDBPyConnection, limit: int = 1_000) -> pd.DataFrame:
    """Sweeps, newest first, with their runs counted by outcome; deleted ones are not there."""
    return connection.execute("""
        SELECT s.sweep_id, s.name, s.experiment, s.status, s.reason, s.created_at, s.ended_at, s.planned_runs,
               coalesce(r.ok, 0) AS ok, coalesce(r.running, 0) AS running, coalesce(r.other, 0) AS other
        FROM sweeps s LEFT JOIN (
            SELECT sweep_id, count(*) FILTER (status = 'ok') AS ok, count(*) FILTER (status = 'running') AS running,
                   count(*) FILTER (status NOT IN ('ok', 'running')) AS other
            FROM runs GROUP BY sweep_id) r USING (sweep_id)
        WHERE s.sweep_id NOT IN (SELECT target FROM deleted)
        ORDER BY s.created_at DESC, s.sweep_id DESC LIMIT ?""", [limit]).df()


def sweep_cells(connection: duckdb.DuckDBPyConnection, sweep_id: str, limit: int = 60) -> list[Answer]:
    """Median phases per cell over its ok runs, with the cell's own parameters. Rows: cell, phase, seconds, runs."""
    names = varying_parameters(connection, "sweep_id = $sweep_id", {"sweep_id": sweep_id})
    rows = ask(connection, """
        WITH cells AS (
            SELECT r.cell_key, min(r.started_at) AS first_at, count(*) AS runs FROM runs r
            WHERE r.sweep_id = $sweep_id AND r.status = 'ok' GROUP BY r.cell_key ORDER BY first_at DESC LIMIT $limit)
        SELECT c.cell_key, c.runs, p.phase, median(p.median_s) AS seconds, c.first_at
        FROM cells c JOIN runs r ON r.cell_key = c.cell_key AND r.sweep_id = $sweep_id AND r.status = 'ok'
        JOIN phase_summaries p ON p.run_id = r.run_id
        GROUP BY ALL ORDER BY c.first_at, c.cell_key""", {"sweep_id": sweep_id, "limit": limit})
    labels = cell_labels(connection, sweep_id, names)
    for row in rows:
        row["cell"] = labels.get(row["cell_key"], row["cell_key"][:8])
    return sorted(rows, key=lambda row: _natural(row["cell"]))


def cell_labels(connection: duckdb.DuckDBPyConnection, sweep_id: str, names: list[str]) -> dict[str, str]:
    """Cells of a sweep by what sets them apart: `batch_size=32, workers=2`."""
    found: dict[str, dict[str, Any]] = {}
    for key, name, asked in connection.execute("""
            SELECT DISTINCT r.cell_key, p.name, p.asked FROM runs r JOIN parameters p USING (run_id)
            WHERE r.sweep_id = ? AND p.name IN (SELECT unnest(?))""", [sweep_id, names]).fetchall():
        found.setdefault(key, {})[name] = json.loads(asked) if asked is not None else None
    return {key: ", ".join(f"{name}={values[name]}" for name in names if name in values) or "the only cell"
            for key, values in found.items()}


def varying_parameters(connection: duckdb.DuckDBPyConnection, where: str, values: dict[str, Any]) -> list[str]:
    """Parameters with more than one value among some runs, in the order of the experiment's own list."""
    return [row[0] for row in connection.execute(f"""
        SELECT name FROM parameters WHERE run_id IN (SELECT run_id FROM runs WHERE {where})
        GROUP BY name HAVING count(DISTINCT asked) > 1 ORDER BY min(rowid) LIMIT {VARYING_SHOWN}""",
        values).fetchall()]


def last_batches(connection: duckdb.DuckDBPyConnection, run_id: str, count: int = 40) -> list[Answer]:
    """Phases of the newest batches of one run, in order."""
    return ask(connection, """
        SELECT batch, phase, seconds FROM phases
        WHERE run_id = $run_id AND batch > (SELECT max(batch) FROM phases WHERE run_id = $run_id) - $count
        ORDER BY batch, start_s""", {"run_id": run_id, "count": count})


def run_batches(connection: duckdb.DuckDBPyConnection, run_id: str, first: int, count: int) -> list[Answer]:
    return ask(connection, """
        SELECT batch, phase, seconds FROM phases WHERE run_id = $run_id AND batch >= $first AND batch < $first + $count
        ORDER BY batch, start_s""", {"run_id": run_id, "first": first, "count": count})


def run_samples(connection: duckdb.DuckDBPyConnection, run_id: str, metrics: list[str]) -> list[Answer]:
    """Telemetry of one run, thinned when there is more than a chart can show."""
    return ask(connection, """
        WITH chosen AS (
            SELECT device, metric, time_s, value, row_number() OVER (PARTITION BY device, metric ORDER BY time_s) AS n,
                   count(*) OVER (PARTITION BY device, metric) AS total
            FROM samples WHERE run_id = $run_id AND metric IN (SELECT unnest($metrics)))
        SELECT device, metric, time_s, value FROM chosen
        WHERE n % greatest(1, total // $most) = 0 OR total <= $most ORDER BY device, metric, time_s""",
        {"run_id": run_id, "metrics": metrics, "most": SAMPLES_SHOWN})


def run_stages(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Answer]:
    return ask(connection, "SELECT stage, start_s, seconds FROM stages WHERE run_id = $run_id ORDER BY start_s",
                 {"run_id": run_id})


def running_run(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> Answer | None:
    """The run that is being measured now, with what was asked of it."""
    found = ask(connection, """
        SELECT run_id, cell_key, repeat, attempt, started_at FROM runs WHERE sweep_id = $sweep_id AND status = 'running'
        ORDER BY started_at DESC LIMIT 1""", {"sweep_id": sweep_id})
    if not found:
        return None
    found[0]["params"] = {name: json.loads(asked) for name, asked in connection.execute(
        "SELECT name, asked FROM parameters WHERE run_id = ? AND asked IS NOT NULL ORDER BY rowid",
        [found[0]["run_id"]]).fetchall()}
    return found[0]


def sweep_progress(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> Answer | None:
    """How a sweep stands: counts by status, wall times of what is done, the last thing it said."""
    found = ask(connection, """
        SELECT sweep_id, name, experiment, status, reason, created_at, ended_at, planned_runs, spec FROM sweeps
        WHERE sweep_id = $sweep_id""", {"sweep_id": sweep_id})
    if not found:
        return None
    sweep = found[0]
    sweep["counts"] = dict(connection.execute(
        "SELECT status, count(*) FROM runs WHERE sweep_id = ? GROUP BY status ORDER BY status", [sweep_id]).fetchall())
    sweep["wall_s"] = [row[0] for row in connection.execute(
        "SELECT wall_s FROM runs WHERE sweep_id = ? AND wall_s IS NOT NULL ORDER BY started_at", [sweep_id]).fetchall()]
    said = connection.execute("""SELECT text FROM events WHERE sweep_id = ?
                                 ORDER BY happened_at DESC, rowid DESC LIMIT 1""", [sweep_id]).fetchone()
    sweep["said"] = said[0] if said else ""
    sweep["endings"] = ask(connection, """
        SELECT status, reason, count(*) AS runs, min(run_id) AS run_id FROM runs
        WHERE sweep_id = $sweep_id AND status NOT IN ('ok', 'running') GROUP BY ALL ORDER BY runs DESC LIMIT 20""",
        {"sweep_id": sweep_id})
    return sweep


def runs_frame(connection: duckdb.DuckDBPyConnection, experiment: str | None, statuses: list[str], sweep_id: str | None,
               text: str, tag: str | None, archived: bool, limit: int = 20_000) -> pd.DataFrame:
    """Runs that fit the filters, newest first: outcome, the parameters that vary among them, the main numbers."""
    values: dict[str, Any] = {}
    hidden = ["deleted"] if archived else ["deleted", "archived"]
    conditions = [f"{name} NOT IN (SELECT target FROM {view})" for view in hidden for name in ("run_id", "sweep_id")]
    for name, value in (("experiment", experiment), ("sweep_id", sweep_id)):
        if value:
            conditions.append(f"{name} = ${name}")
            values[name] = value
    if statuses:
        conditions.append("list_contains($statuses, status)")
        values["statuses"] = statuses
    if text:
        conditions.append("""(contains(lower(run_id), lower($text))
            OR contains(lower(coalesce(reason, '')), lower($text))
            OR sweep_id IN (SELECT sweep_id FROM sweeps WHERE contains(lower(coalesce(name, '')), lower($text)))
            OR run_id IN (SELECT run_id FROM parameters WHERE contains(lower(asked::VARCHAR), lower($text))))""")
        values["text"] = text
    if tag:
        conditions.append("(run_id IN (SELECT target FROM tags WHERE tag = $tag) "
                          "OR sweep_id IN (SELECT target FROM tags WHERE tag = $tag))")
        values["tag"] = tag
    where = " AND ".join(conditions)
    names = varying_parameters(connection, where, values)
    pivot = "".join(f", max(p.asked->>'$') FILTER (p.name = {_text(name)}) AS {_identifier(name)}" for name in names)
    return connection.execute(f"""
        WITH chosen AS (SELECT * FROM runs WHERE {where} ORDER BY started_at DESC, run_id LIMIT {limit}),
        asked AS (SELECT p.run_id{pivot} FROM parameters p WHERE p.run_id IN (SELECT run_id FROM chosen)
                  GROUP BY p.run_id),
        numbers AS (
            SELECT run_id, max(value) FILTER (name = 'end_to_end_s') AS end_to_end_s,
                   max(value) FILTER (name = 'first_batch_s') AS first_batch_s,
                   max(value) FILTER (name = 'steady_items_per_s') AS items_per_s
            FROM metrics WHERE run_id IN (SELECT run_id FROM chosen) GROUP BY run_id)
        SELECT c.run_id, c.status, c.noisy, a.* EXCLUDE (run_id), n.* EXCLUDE (run_id), c.repeat, c.experiment,
               s.name AS sweep, c.started_at, c.reason, c.sweep_id
        FROM chosen c LEFT JOIN asked a USING (run_id) LEFT JOIN numbers n USING (run_id)
        LEFT JOIN sweeps s ON s.sweep_id = c.sweep_id
        ORDER BY c.started_at DESC, c.run_id""", values).df()


def expected_run_s(connection: duckdb.DuckDBPyConnection, experiment: str, model: str | None,
                   environment_id: str | None) -> list[float]:
    """Wall times of ok runs that share experiment, model and environment: the basis of an honest estimate."""
    return [row[0] for row in connection.execute("""
        SELECT wall_s FROM runs WHERE experiment = $experiment AND status = 'ok' AND wall_s IS NOT NULL
        AND ($environment_id IS NULL OR environment_id = $environment_id)
        AND ($model IS NULL OR run_id IN (SELECT run_id FROM parameters WHERE name = 'model' AND asked->>'$' = $model))
        ORDER BY started_at DESC LIMIT 500""",
        {"experiment": experiment, "model": model, "environment_id": environment_id}).fetchall()]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _natural(text: str) -> list[Any]:
    """Numbers inside a label sort as numbers."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text)]


def filter_choices(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """What the filters of the runs table offer."""
    sweeps = connection.execute("""
        SELECT sweep_id, coalesce(name, sweep_id) || ' · ' || strftime(created_at, '%m-%d %H:%M') FROM sweeps
        WHERE sweep_id NOT IN (SELECT target FROM deleted) ORDER BY created_at DESC LIMIT 2000""").fetchall()
    tags = [row[0] for row in connection.execute("SELECT DISTINCT tag FROM tags ORDER BY tag").fetchall()]
    return {"sweeps": dict(sweeps), "tags": tags}
