"""Runs of searches, for the page that compares strategies: one row per ok run, and the file each left."""

from __future__ import annotations

import json
from collections.abc import Sequence

import duckdb

from analysis.strategies import SearchRun
from store.queries import KEPT, Answer, ask

EXPERIMENT = "search"
APART = ("strategy", "snapshots", "seed", "profile")
"""What may differ between runs that are compared; the seed only draws another store of the same kind, and a profile
comes after what is measured."""
METRICS = ("end_to_end_s", "block_items", "bound_block_items", "block_loads", "resumed_models", "activation_peak_bytes",
           "predicted_peak_bytes", "kept_peak_bytes", "block_item_s", "block_call_s", "priced_inference_s",
           "resumed_items")


def strategy_sweeps(connection: duckdb.DuckDBPyConnection, also: Sequence[str] = (), limit: int = 200) -> list[Answer]:
    """Sweeps that measured searches and that nobody put away, newest first, with their ok runs counted; those in `also`
    are there whatever their age."""
    return ask(connection, f"""
        SELECT s.sweep_id, coalesce(nullif(s.name, ''), s.sweep_id) AS name, s.created_at, s.status,
               coalesce(r.ok, 0) AS ok
        FROM sweeps s LEFT JOIN (SELECT sweep_id, count(*) AS ok FROM runs WHERE status = 'ok' AND {KEPT}
                                 AND experiment = '{EXPERIMENT}' GROUP BY sweep_id) r USING (sweep_id)
        WHERE s.sweep_id IN (
            SELECT sweep_id FROM sweeps WHERE experiment = '{EXPERIMENT}'
            AND sweep_id NOT IN (SELECT target FROM deleted)
            AND (sweep_id NOT IN (SELECT target FROM archived) OR sweep_id IN (SELECT unnest($also)))
            ORDER BY sweep_id IN (SELECT unnest($also)) DESC, created_at DESC, sweep_id DESC LIMIT $limit)
        ORDER BY s.created_at DESC, s.sweep_id DESC""", {"also": list(also), "limit": limit})


def strategy_runs(connection: duckdb.DuckDBPyConnection, sweep_ids: Sequence[str]) -> list[Answer]:
    """Ok runs of these sweeps: what was asked, metrics, totals of phases, and the path of the file with the ranking."""
    rows = ask(connection, f"""
        WITH members AS (SELECT run_id, sweep_id, environment_id, noisy, started_at FROM runs
                         WHERE list_contains($sweeps, sweep_id) AND experiment = '{EXPERIMENT}' AND status = 'ok'
                         AND {KEPT})
        SELECT m.*, p.asked, e.effective, n.metrics, h.phases, f.path
        FROM members m
        LEFT JOIN (SELECT run_id, map(list(name), list(asked::VARCHAR)) AS asked FROM parameters
                   WHERE asked IS NOT NULL AND run_id IN (SELECT run_id FROM members) GROUP BY run_id) p USING (run_id)
        LEFT JOIN (SELECT run_id, map(list(name), list(effective::VARCHAR)) AS effective FROM parameters
                   WHERE effective IS NOT NULL AND run_id IN (SELECT run_id FROM members) GROUP BY run_id) e
                  USING (run_id)
        LEFT JOIN (SELECT run_id, map(list(name), list(value)) AS metrics FROM metrics
                   WHERE run_id IN (SELECT run_id FROM members) AND list_contains($metrics, name)
                   GROUP BY run_id) n USING (run_id)
        LEFT JOIN (SELECT run_id, map(list(phase), list(total_s)) AS phases FROM phase_summaries
                   WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id) h USING (run_id)
        LEFT JOIN (SELECT run_id, max(path) AS path FROM files WHERE run_id IN (SELECT run_id FROM members)
                   AND ends_with(path, '/search.json') GROUP BY run_id) f USING (run_id)
        ORDER BY m.started_at, m.run_id""", {"sweeps": list(sweep_ids), "metrics": list(METRICS)})
    for row in rows:
        for name in ("asked", "effective"):
            row[name] = {key: json.loads(value) for key, value in (row[name] or {}).items()}
        row["metrics"], row["phases"] = row["metrics"] or {}, row["phases"] or {}
    return [row for row in rows if row["metrics"].get("end_to_end_s") and row["metrics"].get("block_items") is not None]


def as_search_run(row: Answer, defaults: Answer) -> SearchRun:
    """`defaults` fill in what was not asked: two sweeps that mean the same have the same setting."""
    asked = {**defaults, **row["asked"]}
    metrics, effective = row["metrics"], row["effective"]
    setting = {name: value for name, value in asked.items() if name not in APART}
    setting |= {"threads": effective.get("threads"), "device": effective.get("device"),
                "environment": row["environment_id"]}
    return SearchRun(
        str(asked["snapshots"]), json.dumps(setting, sort_keys=True), str(asked["strategy"]),
        metrics["end_to_end_s"], row["phases"], metrics["block_items"], metrics.get("block_loads") or 0.0,
        int(effective.get("models") or asked["models"]), int(asked["items"]),
        metrics.get("block_item_s"), metrics.get("block_call_s"), metrics.get("bound_block_items"),
        metrics.get("activation_peak_bytes"), metrics.get("predicted_peak_bytes"), metrics.get("kept_peak_bytes"),
        row["noisy"], bool(metrics.get("resumed_models") or metrics.get("resumed_items")), row.get("run_id", ""),
        effective.get("chunk_items"), metrics.get("priced_inference_s"))
