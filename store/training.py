"""What the Training page asks: the sweeps of its experiment, the runs of one, their loss curves, what was published."""

from __future__ import annotations

import json

import duckdb
import pandas as pd

from analysis.training import Curve, Published, TrainingRun
from store.queries import ask

EXPERIMENT = "training"
POINTS = 400
"""Points of a loss curve that are read: more could not be told apart."""
SEED_002_IMAGES = 100_000
METHODS = {"baseline": ("baseline", 1), "gradient_checkpointing": ("checkpointing", 1), "data_parallel": ("dp", 2),
           "distributed_data_parallel": ("ddp", 2)}
"""Our name of a published method, and the devices it had."""
SPLIT_BATCH = ("dp",)
"""DataParallel was given the global batch and split it."""


def training_sweeps(connection: duckdb.DuckDBPyConnection, limit: int = 500) -> pd.DataFrame:
    """Sweeps of the experiment, newest first, with their ok runs counted."""
    return connection.execute("""
        SELECT s.sweep_id, s.name, s.created_at,
               (SELECT count(*) FROM runs r WHERE r.sweep_id = s.sweep_id AND r.status = 'ok'
                AND r.run_id NOT IN (SELECT target FROM deleted)) AS ok
        FROM sweeps s WHERE s.experiment = ? AND s.sweep_id NOT IN (SELECT target FROM deleted)
        ORDER BY s.created_at DESC, s.sweep_id DESC LIMIT ?""", [EXPERIMENT, limit]).df()


def training_runs(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[TrainingRun]:
    """The ok runs of a sweep in the order of measuring; one that does not say what it did is left out."""
    rows = ask(connection, """
        WITH members AS (SELECT run_id, cell_key, noisy, started_at FROM runs WHERE sweep_id = $sweep_id
                         AND status = 'ok' AND run_id NOT IN (SELECT target FROM deleted)),
        told AS (SELECT run_id, map(list(name ORDER BY rowid) FILTER (asked IS NOT NULL),
                                    list(asked::VARCHAR ORDER BY rowid) FILTER (asked IS NOT NULL)) AS params,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'devices') AS devices,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'batch_size') AS device_batch_size,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'global_batch_size')
                            AS global_batch_size,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'train_images') AS train_images
                 FROM parameters WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        numbers AS (SELECT run_id, max(value) AS actual_epoch_s FROM metrics WHERE name = 'actual_epoch_s'
                    AND run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        times AS (SELECT run_id, median(seconds) AS batch_s FROM batches
                  WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id)
        SELECT * FROM members JOIN told USING (run_id) JOIN numbers USING (run_id) JOIN times USING (run_id)
        WHERE actual_epoch_s > 0 AND batch_s > 0 AND train_images > 0 AND global_batch_size > 0 AND devices > 0
        AND device_batch_size > 0 ORDER BY started_at, run_id""", {"sweep_id": sweep_id})
    return [TrainingRun(row["run_id"], row["cell_key"],
                        {name: json.loads(value) for name, value in row["params"].items()}, row["devices"],
                        row["device_batch_size"], row["global_batch_size"], row["train_images"], row["batch_s"],
                        row["actual_epoch_s"], row["noisy"]) for row in rows]


def loss_curves(connection: duckdb.DuckDBPyConnection, runs: list[TrainingRun]) -> list[Curve]:
    """Evenly thinned where a run has more batches than a chart has room for; the last batch is always there."""
    rows = ask(connection, f"""
        SELECT run_id, list(number ORDER BY number) AS numbers, list(value ORDER BY number) AS losses
        FROM (SELECT run_id, value, row_number() OVER (PARTITION BY run_id ORDER BY time_s) AS number,
                     count(*) OVER (PARTITION BY run_id) AS total
              FROM samples WHERE device = 'training' AND metric = 'loss' AND list_contains($run_ids, run_id))
        WHERE (total - number) % greatest(1, total // {POINTS}) = 0 GROUP BY run_id""",
               {"run_ids": [run.run_id for run in runs]})
    by_run = {row["run_id"]: row for row in rows}
    return [Curve(run.run_id, run.cell, [number * run.global_batch_size for number in found["numbers"]],
                  found["losses"]) for run in runs if (found := by_run.get(run.run_id))]


def published_training(connection: duckdb.DuckDBPyConnection) -> list[Published]:
    """Seed 002's table in our words."""
    rows = ask(connection, """
        SELECT subject, any_value((params->>'batch_size')::INTEGER) AS batch_size,
               max(value) FILTER (metric = 'batch_s') AS batch_s,
               max(value) FILTER (metric = 'estimated_epoch_s') AS estimated_epoch_s,
               max(value) FILTER (metric = 'actual_epoch_s') AS actual_epoch_s, coalesce(max(caveat), '') AS caveat
        FROM published WHERE study = 'seed 002' GROUP BY subject HAVING actual_epoch_s > 0""")
    found = []
    for row in rows:
        if row["subject"] in METHODS:
            method, devices = METHODS[row["subject"]]
            per_device = row["batch_size"] // devices if method in SPLIT_BATCH else row["batch_size"]
            found.append(Published(method, devices, per_device, per_device * devices, row["batch_s"],
                                   row["estimated_epoch_s"], row["actual_epoch_s"], SEED_002_IMAGES, row["caveat"]))
    order = [method for method, _ in METHODS.values()]
    return sorted(found, key=lambda row: order.index(row.method))


def other_endings(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[tuple[str, str, int]]:
    """Runs of a sweep that are not ok: how they ended, why, and how many."""
    return connection.execute("""
        SELECT status, coalesce(reason, ''), count(*) FROM runs WHERE sweep_id = ? AND status <> 'ok'
        AND run_id NOT IN (SELECT target FROM deleted) GROUP BY ALL ORDER BY ALL""", [sweep_id]).fetchall()
