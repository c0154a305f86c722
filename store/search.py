"""The runs that the Model search page is about, with everything they measured but their epochs and batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb

from analysis.search import Published, SearchRun
from store.queries import KEPT, Answer, ask

MEMBERS = f"SELECT run_id FROM runs WHERE sweep_id IN (SELECT unnest($sweep_ids)) AND status = 'ok' AND {KEPT}"


def search_sweeps(connection: duckdb.DuckDBPyConnection, experiments: Sequence[str], also: Sequence[str] = (),
                  limit: int = 300) -> list[Answer]:
    """Own sweeps of these experiments that nobody put away, newest first, with how many of their runs are ok; those in
    `also` are there whatever their age. Imported ones are not: of two files nobody knows whether they are of one
    machine, and a ratio of theirs would mean nothing."""
    return ask(connection, f"""
        WITH shown AS (SELECT * FROM sweeps WHERE experiment IN (SELECT unnest($experiments))
                       AND sweep_id NOT IN (SELECT target FROM deleted) AND coalesce(source, '') <> 'imported'
                       AND (sweep_id NOT IN (SELECT target FROM archived) OR sweep_id IN (SELECT unnest($also)))
                       ORDER BY sweep_id IN (SELECT unnest($also)) DESC, created_at DESC, sweep_id DESC LIMIT $limit)
        SELECT s.sweep_id, coalesce(nullif(s.name, ''), s.sweep_id) AS name, s.experiment, s.status, s.created_at,
               coalesce(r.ok, 0) AS ok
        FROM shown s LEFT JOIN (SELECT sweep_id, count(*) AS ok FROM runs WHERE status = 'ok' AND {KEPT}
                                AND sweep_id IN (SELECT sweep_id FROM shown) GROUP BY sweep_id) r USING (sweep_id)
        ORDER BY s.created_at DESC, s.sweep_id DESC""",
        {"experiments": list(experiments), "also": list(also), "limit": limit})


def search_runs(connection: duckdb.DuckDBPyConnection, sweep_ids: Sequence[str]) -> list[SearchRun]:
    """Every ok run of these sweeps, in the order they were measured."""
    values = {"sweep_ids": list(sweep_ids)}
    asked: dict[str, dict[str, Any]] = {}
    effective: dict[str, dict[str, Any]] = {}
    for run_id, name, wanted, took in connection.execute(
            f"SELECT run_id, name, asked, effective FROM parameters WHERE run_id IN ({MEMBERS})", values).fetchall():
        if wanted is not None:
            asked.setdefault(run_id, {})[name] = json.loads(wanted)
        if took is not None:
            effective.setdefault(run_id, {})[name] = json.loads(took)
    metrics: dict[str, dict[str, float]] = {}
    for run_id, name, value in connection.execute(f"""
            SELECT run_id, name, value FROM metrics WHERE NOT starts_with(name, 'epoch_') AND value IS NOT NULL
            AND run_id IN ({MEMBERS})""", values).fetchall():
        metrics.setdefault(run_id, {})[name] = value
    phases: dict[str, dict[str, float]] = {}
    for run_id, phase, total_s in connection.execute(
            f"SELECT run_id, phase, total_s FROM phase_summaries WHERE run_id IN ({MEMBERS})", values).fetchall():
        phases.setdefault(run_id, {})[phase] = total_s
    return [SearchRun(run_id, experiment, cell_key, environment_id or "unknown", noisy, asked.get(run_id, {}),
                      metrics.get(run_id, {}), phases.get(run_id, {}), effective.get(run_id, {}))
            for run_id, experiment, cell_key, environment_id, noisy in connection.execute(f"""
                SELECT run_id, experiment, cell_key, environment_id, noisy FROM runs WHERE run_id IN ({MEMBERS})
                ORDER BY started_at, run_id""", values).fetchall()]


def published_pairs(connection: duckdb.DuckDBPyConnection) -> list[Published]:
    """Seed 000's pairs of fine-tuning (ten epochs) and extraction."""
    found: dict[tuple[str, int, int], dict[str, float]] = {}
    for params, metric, value in connection.execute("""
            SELECT params, metric, value FROM published
            WHERE study = 'seed 000' AND metric IN ('finetune_s', 'extract_s')""").fetchall():
        asked = json.loads(params)
        found.setdefault((asked["model"], asked["train"], asked["val"]), {})[metric] = value
    return [Published(*key, figures["finetune_s"], figures["extract_s"]) for key, figures in sorted(found.items())
            if len(figures) == 2]
