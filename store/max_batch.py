"""Questions about the largest batch: every try of a run, results of runs, and what was published."""

from __future__ import annotations

from typing import Any

import duckdb

from store.queries import KEPT, Answer, ask


def list_tries(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Answer]:
    """Sizes in the order they were tried. `fits` is NULL for the try that failed, a peak for one refused memory."""
    return ask(connection, """
        SELECT row_number() OVER (ORDER BY time_s) AS number, max(value) FILTER (metric = 'batch_size') AS batch_size,
               max(value) FILTER (metric = 'fits') > 0 AS fits, max(value) FILTER (metric = 'peak_bytes') AS peak_bytes,
               max(value) FILTER (metric = 'usable_bytes') AS usable_bytes,
               max(value) FILTER (metric = 'seconds') AS seconds
        FROM samples WHERE run_id = $run_id AND device = 'try' GROUP BY time_s ORDER BY time_s""", {"run_id": run_id})


def list_limits(connection: duckdb.DuckDBPyConnection, sweep_ids: list[str] | None = None,
                run_id: str | None = None) -> list[Answer]:
    """The largest batch of each run that has one: of some sweeps, of one run, or of all."""
    where, values = KEPT, dict[str, Any]()
    if run_id is not None:
        where, values = "run_id = $run_id", {"run_id": run_id}
    elif sweep_ids is not None:
        where, values = f"{KEPT} AND list_contains($sweep_ids, sweep_id)", {"sweep_ids": sweep_ids}
    return ask(connection, f"""
        WITH chosen AS (SELECT run_id, sweep_id, status, coalesce(noisy, false) AS noisy FROM runs
                        WHERE experiment = 'max_batch' AND {where}),
        found AS (SELECT run_id, max(value) FILTER (name = 'max_batch_size') AS max_batch_size,
                         max(value) FILTER (name = 'too_large_batch_size') AS too_large_batch_size,
                         max(value) FILTER (name = 'lower_bound_only') > 0 AS lower_bound_only,
                         max(value) FILTER (name = 'tries') AS tries,
                         max(value) FILTER (name = 'peak_memory_bytes') AS peak_bytes
                  FROM metrics WHERE run_id IN (SELECT run_id FROM chosen) GROUP BY run_id),
        asked AS (SELECT run_id, max(value) FILTER (name = 'model') AS model, max(value) FILTER (name = 'mode') AS mode,
                         max(value) FILTER (name = 'device') AS device,
                         max(value) FILTER (name = 'image_size')::INTEGER AS image_size,
                         max(value) FILTER (name = 'budget_bytes')::BIGINT AS budget_bytes
                  FROM (SELECT run_id, name, coalesce(effective, asked)->>'$' AS value FROM parameters
                        WHERE run_id IN (SELECT run_id FROM chosen)) GROUP BY run_id)
        SELECT * FROM chosen JOIN found USING (run_id) JOIN asked USING (run_id)
        WHERE max_batch_size IS NOT NULL ORDER BY model, mode, budget_bytes, run_id""", values)


def published_limits(connection: duckdb.DuckDBPyConnection) -> dict[str, Answer]:
    """Published largest batches by model, with their caveat."""
    rows = ask(connection, """
        SELECT params->>'model' AS model, study, value AS max_batch_size, coalesce(caveat, '') AS caveat
        FROM published WHERE metric = 'max_batch_size' ORDER BY model""")
    return {row["model"]: row for row in rows}
