"""The reduced form of ended runs, so that pages do not scan raw rows: rows out, analysis, summaries in."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import duckdb

from analysis.summary import BatchTimes, PhaseTimes, RunSummary, summarise_run
from store.rows import Rows

RUNS_AT_ONCE = 500


def summarise_runs(connection: duckdb.DuckDBPyConnection, run_ids: list[str]) -> None:
    """Replace the summaries of these runs, inside the caller's transaction."""
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        _summarise_some(connection, run_ids[start : start + RUNS_AT_ONCE])


def _summarise_some(connection: duckdb.DuckDBPyConnection, run_ids: list[str]) -> None:
    batches = _grouped(connection, """
        SELECT run_id, list(items ORDER BY batch), list(start_s ORDER BY batch), list(seconds ORDER BY batch)
        FROM batches WHERE run_id IN (SELECT unnest(?)) GROUP BY run_id""", run_ids)
    phases = _grouped(connection, """
        SELECT run_id, phase, any_value(clock), list(batch ORDER BY batch), list(start_s ORDER BY batch),
               list(seconds ORDER BY batch), min(start_s) AS entered
        FROM phases WHERE run_id IN (SELECT unnest(?)) GROUP BY run_id, phase
        ORDER BY run_id, entered, phase""", run_ids)
    samples = _grouped(connection, """
        SELECT run_id, device, metric, list(value ORDER BY time_s)
        FROM samples WHERE run_id IN (SELECT unnest(?)) GROUP BY run_id, device, metric
        ORDER BY run_id, device, metric""", run_ids)
    known = _grouped(connection, """
        SELECT r.run_id, w.workers, m.window_s, (e.facts->>'cores_allowed')::DOUBLE
        FROM runs r
        LEFT JOIN (SELECT run_id, TRY_CAST(coalesce(effective, asked)->>'$' AS INTEGER) AS workers
                   FROM parameters WHERE name = 'workers') w USING (run_id)
        LEFT JOIN (SELECT run_id, value AS window_s FROM metrics WHERE name = 'end_to_end_s') m USING (run_id)
        LEFT JOIN environments e ON e.environment_id = r.environment_id
        WHERE r.run_id IN (SELECT unnest(?))""", run_ids)
    gpu_before = _grouped(connection, """
        SELECT run_id, replace(name, '_utilization_before', ''), value FROM metrics
        WHERE name LIKE 'gpu%\\_utilization\\_before' ESCAPE '\\' AND run_id IN (SELECT unnest(?))""", run_ids)
    rows = Rows()
    for run_id in [run_id for run_id in run_ids if run_id in known]:  # of a damaged journal only the end may be there
        _, items, starts, seconds = batches[run_id][0] if run_id in batches else (run_id, [], [], [])
        _, workers, window_s, cores_allowed = known[run_id][0]
        summary = summarise_run(
            BatchTimes(items, starts, seconds),
            {phase: PhaseTimes(clock, *columns) for _, phase, clock, *columns, _ in phases[run_id]},
            {(device, metric): values for _, device, metric, values in samples[run_id]},
            workers, window_s, cores_allowed, {gpu: share for _, gpu, share in gpu_before[run_id]})
        _add(rows, run_id, summary)
    connection.execute("DELETE FROM phase_summaries WHERE run_id IN (SELECT unnest(?))", [run_ids])
    connection.execute("DELETE FROM sample_summaries WHERE run_id IN (SELECT unnest(?))", [run_ids])
    connection.execute("DELETE FROM metrics WHERE origin = 'derived' AND run_id IN (SELECT unnest(?))", [run_ids])
    for table in ("phase_summaries", "sample_summaries", "metrics"):
        rows.insert(connection, table)
    with rows.as_view(connection, "noise") as view:
        connection.execute(f"""UPDATE runs SET noisy = {view}.noisy, noise_reason = {view}.noise_reason
                               FROM {view} WHERE runs.run_id = {view}.run_id""")


def _add(rows: Rows, run_id: str, summary: RunSummary) -> None:
    for phase in summary.phases:
        rows.add("phase_summaries", run_id, *phase)
    for sample in summary.samples:
        rows.add("sample_summaries", run_id, *sample)
    for metric in summary.metrics:
        rows.add("metrics", run_id, metric.name, metric.value, metric.unit, "derived")
    rows.add("noise", run_id, summary.noisy, summary.noise_reason or None)


def _grouped(connection: duckdb.DuckDBPyConnection, sql: str, run_ids: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in connection.execute(sql, [run_ids]).fetchall():
        found[row[0]].append(row)
    return found
