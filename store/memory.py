"""What the Memory page asks: sweeps of its experiment, their runs, one step by category, and what was published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb

from analysis.memory import MemoryRun
from store.queries import KEPT, Answer, ask

EXPERIMENT = "memory"
METRICS = ("peak_memory_bytes", "predicted_peak_bytes", "saved_activations_bytes", "parameters", "end_to_end_s",
           "batches", "peak_reserved_bytes", "resident_growth_bytes")


def memory_sweeps(connection: duckdb.DuckDBPyConnection, also: Sequence[str] = (), limit: int = 500) -> list[Answer]:
    """Sweeps of the experiment, newest first, with their ok runs counted; archived ones only if asked for."""
    return ask(connection, f"""
        SELECT s.sweep_id, s.name, s.created_at,
               (SELECT count(*) FROM runs WHERE sweep_id = s.sweep_id AND status = 'ok' AND {KEPT}) AS ok
        FROM sweeps s WHERE s.experiment = $experiment AND s.sweep_id NOT IN (SELECT target FROM deleted)
        AND (s.sweep_id NOT IN (SELECT target FROM archived) OR s.sweep_id IN (SELECT unnest($also)))
        ORDER BY s.created_at DESC, s.sweep_id DESC LIMIT $limit""",
        {"experiment": EXPERIMENT, "also": list(also), "limit": limit})


def memory_runs(connection: duckdb.DuckDBPyConnection, sweep_ids: Sequence[str]) -> list[MemoryRun]:
    """The ok runs that recorded a peak, in the order of measuring."""
    values = {"sweep_ids": list(sweep_ids), "experiment": EXPERIMENT}
    members = f"""SELECT run_id FROM runs WHERE sweep_id IN (SELECT unnest($sweep_ids)) AND status = 'ok'
                  AND experiment = $experiment AND {KEPT}"""
    params: dict[str, dict[str, Any]] = {}
    for run_id, name, value in connection.execute(f"""
            SELECT run_id, name, CASE WHEN name = 'device' THEN coalesce(effective, asked) ELSE asked END
            FROM parameters WHERE asked IS NOT NULL AND run_id IN ({members})""", values).fetchall():
        params.setdefault(run_id, {})[name] = json.loads(value)
    numbers: dict[str, dict[str, float]] = {}
    for run_id, name, value in connection.execute(f"""
            SELECT run_id, name, value FROM metrics
            WHERE name IN (SELECT unnest($wanted)) AND run_id IN ({members})""",
            {**values, "wanted": list(METRICS)}).fetchall():
        numbers.setdefault(run_id, {})[name] = value
    found = []
    for run in ask(connection, f"""
            SELECT r.run_id, r.noisy, r.environment_id, s.source FROM runs r JOIN sweeps s USING (sweep_id)
            WHERE r.run_id IN ({members}) ORDER BY r.started_at, r.run_id""", values):
        known = numbers.get(run["run_id"], {})
        if not known.get("peak_memory_bytes", 0) > 0:
            continue
        whole_s, batches = known.get("end_to_end_s"), known.get("batches")
        found.append(MemoryRun(
            run["run_id"], params.get(run["run_id"], {}),
            "imported" if run["source"] == "imported" else run["environment_id"] or "unknown",
            known["peak_memory_bytes"], known.get("predicted_peak_bytes"), known.get("saved_activations_bytes"),
            known.get("parameters"), whole_s / batches if whole_s and batches else None, run["noisy"],
            known.get("peak_reserved_bytes"), known.get("resident_growth_bytes")))
    return found


def other_endings(connection: duckdb.DuckDBPyConnection, sweep_ids: Sequence[str]) -> dict[str, int]:
    """Runs of these sweeps that are not ok, by how they ended."""
    return dict(connection.execute(f"""
        SELECT status, count(*) FROM runs WHERE sweep_id IN (SELECT unnest($sweep_ids)) AND status <> 'ok' AND {KEPT}
        GROUP BY status ORDER BY status""", {"sweep_ids": list(sweep_ids)}).fetchall())


def step_moments(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[Answer]:
    """One training step of a run, moment by moment: the bytes held by category."""
    return ask(connection, """
        SELECT time_s, map(list(metric ORDER BY metric), list(value ORDER BY metric)) AS held FROM samples
        WHERE run_id = $run_id AND device = 'memory' GROUP BY time_s ORDER BY time_s""", {"run_id": run_id})


def published_peaks(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Seed 002's pairs of allocated and reserved memory, a row per method."""
    return ask(connection, """
        SELECT params->>'model' AS model, params->>'method' AS method, (params->>'batch_size')::INTEGER AS batch_size,
               max(value) FILTER (metric = 'peak_memory_bytes') AS allocated_bytes,
               max(value) FILTER (metric = 'peak_reserved_bytes') AS reserved_bytes, max(caveat) AS caveat
        FROM published WHERE study = 'seed 002' AND metric IN ('peak_memory_bytes', 'peak_reserved_bytes')
        GROUP BY ALL ORDER BY min(rowid)""")


def published_revnets(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Seed 003's table, a row per model."""
    return ask(connection, """
        SELECT subject, max(value) FILTER (metric = 'peak_memory_bytes') AS peak_bytes,
               max(value) FILTER (metric = 'batch_s') AS batch_s,
               max(value) FILTER (metric = 'parameters')::BIGINT AS parameters, max(caveat) AS caveat
        FROM published WHERE study = 'seed 003' AND params->>'model' IS NOT NULL
        GROUP BY subject ORDER BY min(rowid)""")
