"""What the Data loading page asks: the sweeps of its experiment, and the runs of one with their waits."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pandas as pd

from analysis.loading import LoadingRun
from store.queries import Answer, ask

EXPERIMENT = "loading"
WAITS_READ = 2_000
"""Batches of a run's first epoch that are read: a pattern shows within far fewer."""


SHOWN = """EXISTS (FROM metrics n WHERE n.run_id = runs.run_id AND n.name = 'items' AND n.value > 0)
    AND EXISTS (FROM metrics n WHERE n.run_id = runs.run_id AND n.name = 'end_to_end_s' AND n.value > 0)"""
"""Which ok runs have a rate."""


def loading_sweeps(connection: duckdb.DuckDBPyConnection, also: str = "", limit: int = 500) -> pd.DataFrame:
    """Sweeps of the experiment that nobody put away, newest first, with their ok runs counted; the one named `also` is
    there even if it is archived."""
    return connection.execute("""
        SELECT s.sweep_id, s.name, s.status, s.created_at, s.spec,
               (SELECT count(*) FROM runs r WHERE r.sweep_id = s.sweep_id AND r.status = 'ok'
                AND r.run_id NOT IN (SELECT target FROM deleted)) AS ok
        FROM sweeps s WHERE s.experiment = $experiment AND s.sweep_id NOT IN (SELECT target FROM deleted)
        AND (s.sweep_id NOT IN (SELECT target FROM archived) OR s.sweep_id = $also)
        ORDER BY s.sweep_id = $also DESC, s.created_at DESC, s.sweep_id DESC LIMIT $limit""",
        {"experiment": EXPERIMENT, "also": also, "limit": limit}).df()


def loading_runs(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[LoadingRun]:
    """The ok runs of a sweep in the order of measuring, each with the waits and pauses of its first epoch."""
    rows = ask(connection, f"""
        WITH members AS (SELECT run_id, cell_key, noisy, started_at, coalesce(environment_id, '') AS environment_id
                         FROM runs WHERE sweep_id = $sweep_id AND status = 'ok' AND {SHOWN}
                         AND run_id NOT IN (SELECT target FROM deleted)),
        asked AS (SELECT run_id, map(list(name ORDER BY rowid) FILTER (asked IS NOT NULL),
                                     list(asked::VARCHAR ORDER BY rowid) FILTER (asked IS NOT NULL)) AS params,
                         max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'batches_per_epoch') AS epoch_batches,
                         max(TRY_CAST(coalesce(effective, asked)->>'$' AS INTEGER)) FILTER (name = 'workers') AS workers
                  FROM parameters WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        numbers AS (SELECT run_id, max(value) FILTER (name = 'items') AS items,
                           max(value) FILTER (name = 'end_to_end_s') AS end_to_end_s,
                           max(value) FILTER (name = 'steady_items_per_s') AS steady_items_per_s,
                           max(value) FILTER (name = 'first_batch_s') AS first_batch_s
                    FROM metrics WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        times AS (SELECT run_id, list(seconds ORDER BY batch) FILTER (phase = 'load_data') AS waits_s,
                         list(seconds ORDER BY batch) FILTER (phase = 'consume') AS pauses_s
                  FROM phases JOIN asked USING (run_id)
                  WHERE phase IN ('load_data', 'consume') AND batch < least(epoch_batches, {WAITS_READ})
                  GROUP BY run_id)
        SELECT m.run_id, m.cell_key, m.noisy, m.environment_id, a.params, a.workers, n.* EXCLUDE (run_id), t.waits_s,
               t.pauses_s
        FROM members m JOIN asked a USING (run_id) JOIN numbers n USING (run_id) LEFT JOIN times t USING (run_id)
        ORDER BY m.started_at, m.run_id""", {"sweep_id": sweep_id})
    return [LoadingRun(row["run_id"], row["cell_key"], _params(row), row["items"], row["end_to_end_s"],
                       row["steady_items_per_s"], row["first_batch_s"], row["workers"] or 0, row["waits_s"] or [],
                       row["pauses_s"] or [], row["noisy"], row["environment_id"]) for row in rows]


def _params(row: Answer) -> dict[str, Any]:
    """As asked; what only took effect is left out."""
    return {name: json.loads(value) for name, value in row["params"].items()}


def count_other_endings(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> dict[str, int]:
    """Runs of a sweep that are not shown, by how they ended: all that are not ok, and ok ones without a rate."""
    return dict(connection.execute(f"""
        SELECT CASE status WHEN 'ok' THEN 'ok without items or an end-to-end time' ELSE status END AS ending, count(*)
        FROM runs WHERE sweep_id = ? AND NOT (status = 'ok' AND {SHOWN})
        AND run_id NOT IN (SELECT target FROM deleted) GROUP BY ending ORDER BY ending""", [sweep_id]).fetchall())


def published_loading(connection: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Seconds of data loading that seed 003 published, by variant."""
    return dict(connection.execute("""
        SELECT subject, value FROM published WHERE study = 'seed 003' AND metric = 'load_data_s'""").fetchall())
