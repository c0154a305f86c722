"""The reduced form of ended runs, so that pages do not scan raw rows: rows out, analysis, summaries in."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from analysis.summary import BatchTimes, Loader, PhaseTimes, Readings, RunSummary, Window, summarise_run
from store.rows import Rows

RUNS_AT_ONCE = 500


def summarise_runs(connection: duckdb.DuckDBPyConnection, run_ids: list[str]) -> None:
    """Replace the summaries of these runs, inside the caller's transaction."""
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        _summarise_some(connection, run_ids[start : start + RUNS_AT_ONCE])


def _summarise_some(connection: duckdb.DuckDBPyConnection, run_ids: list[str]) -> None:
    batches = _grouped(connection, """
        SELECT run_id, list(items ORDER BY batch), list(start_s ORDER BY batch), list(seconds ORDER BY batch),
               list(batch ORDER BY batch)
        FROM batches WHERE run_id IN (SELECT unnest(?)) GROUP BY run_id""", run_ids)
    phases = _grouped(connection, """
        SELECT run_id, phase, any_value(clock), list(batch ORDER BY batch), list(start_s ORDER BY batch),
               list(seconds ORDER BY batch), min(start_s) AS entered
        FROM phases WHERE run_id IN (SELECT unnest(?)) GROUP BY run_id, phase
        ORDER BY run_id, entered, phase""", run_ids)
    samples = _grouped(connection, """
        SELECT run_id, device, metric, list(time_s ORDER BY time_s), list(value ORDER BY time_s)
        FROM samples WHERE run_id IN (SELECT unnest(?)) GROUP BY run_id, device, metric
        ORDER BY run_id, device, metric""", run_ids)
    known = _grouped(connection, """
        SELECT r.run_id, w.workers, w.prefetch, w.epoch_batches, m.window_s, g.start_s, g.seconds,
               (e.facts->>'cores_allowed')::DOUBLE
        FROM runs r
        LEFT JOIN (SELECT run_id, max(number) FILTER (name = 'workers') AS workers,
                          max(number) FILTER (name = 'prefetch_factor') AS prefetch,
                          max(number) FILTER (name = 'batches_per_epoch') AS epoch_batches
                   FROM (SELECT run_id, name, TRY_CAST(coalesce(effective, asked)->>'$' AS INTEGER) AS number
                         FROM parameters WHERE name IN ('workers', 'prefetch_factor', 'batches_per_epoch'))
                   GROUP BY run_id) w USING (run_id)
        LEFT JOIN (SELECT run_id, max(value) AS window_s FROM metrics WHERE name = 'end_to_end_s'
                   GROUP BY run_id) m USING (run_id)
        LEFT JOIN (SELECT run_id, min(start_s) AS start_s, max(start_s + seconds) - min(start_s) AS seconds
                   FROM stages WHERE stage = 'measure' GROUP BY run_id) g USING (run_id)
        LEFT JOIN environments e ON e.environment_id = r.environment_id
        WHERE r.run_id IN (SELECT unnest(?))""", run_ids)
    gpu_before = _grouped(connection, """
        SELECT run_id, replace(name, '_utilization_before', ''), value FROM metrics
        WHERE name LIKE 'gpu%\\_utilization\\_before' ESCAPE '\\' AND run_id IN (SELECT unnest(?))""", run_ids)
    rows = Rows()
    for run_id in [run_id for run_id in run_ids if run_id in known]:  # of a damaged journal only the end may be there
        _, *columns = batches[run_id][0] if run_id in batches else (run_id, [], [], [], [])
        _, workers, prefetch, epoch_batches, window_s, start_s, stage_s, cores_allowed = known[run_id][0]
        summary = summarise_run(
            BatchTimes(*columns),
            {phase: PhaseTimes(clock, *times) for _, phase, clock, *times, _ in phases[run_id]},
            {(device, metric): Readings(times, values) for _, device, metric, times, values in samples[run_id]},
            Loader(workers, prefetch, epoch_batches), Window(window_s, start_s, stage_s), cores_allowed,
            {gpu: share for _, gpu, share in gpu_before[run_id]})
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
    """Rows by run. Lists come as numpy arrays: a Python object per measurement would cost more than the query."""
    table = connection.sql(sql, params=[run_ids]).to_arrow_table()
    columns = [_arrays(column) if pa.types.is_list(column.type) else column.to_pylist() for column in table.columns]
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in zip(*columns, strict=True):
        found[row[0]].append(row)
    return found


def _arrays(column: pa.ChunkedArray) -> list[np.ndarray[Any, Any]]:
    return [part.values.to_numpy(zero_copy_only=False) for part in column]
