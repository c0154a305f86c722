"""What the Training page asks: the sweeps of its experiment, the runs of one, their loss curves, what was published."""

from __future__ import annotations

import json
from typing import Any

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


def training_sweeps(connection: duckdb.DuckDBPyConnection, also: str = "", limit: int = 500) -> pd.DataFrame:
    """Sweeps of the experiment, newest first, with their ok runs counted; an archived one only if it is asked for."""
    return connection.execute("""
        SELECT s.sweep_id, s.name, s.created_at,
               (SELECT count(*) FROM runs r WHERE r.sweep_id = s.sweep_id AND r.status = 'ok'
                AND r.run_id NOT IN (SELECT target FROM deleted)) AS ok
        FROM sweeps s WHERE s.experiment = ? AND s.sweep_id NOT IN (SELECT target FROM deleted)
        AND (s.sweep_id NOT IN (SELECT target FROM archived) OR s.sweep_id = ?)
        ORDER BY s.created_at DESC, s.sweep_id DESC LIMIT ?""", [EXPERIMENT, also, limit]).df()


def training_runs(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> list[TrainingRun]:
    """The ok runs of a sweep in the order of measuring; one that does not say what it did is left out."""
    rows = ask(connection, """
        WITH members AS (SELECT run_id, cell_key, coalesce(environment_id, 'unknown') AS environment_id, noisy,
                                started_at FROM runs WHERE sweep_id = $sweep_id AND status = 'ok'
                         AND run_id NOT IN (SELECT target FROM deleted)),
        told AS (SELECT run_id, map(list(name ORDER BY rowid) FILTER (asked IS NOT NULL),
                                    list(asked::VARCHAR ORDER BY rowid) FILTER (asked IS NOT NULL)) AS params,
                        max(effective->>'$') FILTER (name = 'device') AS device,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'devices') AS devices,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'batch_size') AS device_batch_size,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'global_batch_size')
                            AS global_batch_size,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'train_images') AS train_images,
                        max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'batch_norms') AS batch_norms
                 FROM parameters WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        numbers AS (SELECT run_id, max(value) AS actual_epoch_s FROM metrics WHERE name = 'actual_epoch_s'
                    AND run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        times AS (SELECT run_id, median(seconds) AS batch_s FROM batches
                  WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id),
        beside AS (SELECT run_id, min(start_s) FILTER (stage = 'measure') AS start_up_s,
                          sum(seconds) FILTER (stage = 'validate') AS validation_s FROM stages
                   WHERE run_id IN (SELECT run_id FROM members) GROUP BY run_id)
        SELECT * FROM members JOIN told USING (run_id) JOIN numbers USING (run_id) JOIN times USING (run_id)
        LEFT JOIN beside USING (run_id)
        WHERE actual_epoch_s > 0 AND batch_s > 0 AND train_images > 0 AND global_batch_size > 0 AND devices > 0
        AND device_batch_size > 0 ORDER BY started_at, run_id""", {"sweep_id": sweep_id})
    return [TrainingRun(row["run_id"], row["cell_key"], row["environment_id"],
                        _params(row["params"], row["device"]), row["devices"], row["device_batch_size"],
                        row["global_batch_size"], row["train_images"], row["batch_s"], row["actual_epoch_s"],
                        row["noisy"], row["batch_norms"], row["start_up_s"], row["validation_s"]) for row in rows]


def _params(asked: dict[str, str], device: str | None) -> dict[str, Any]:
    """As asked, but the device is the one that was used: `auto` may be a GPU in one cell and the CPU in another. Ranks
    have a GPU each, so that only its kind tells runs apart."""
    params = {name: json.loads(value) for name, value in asked.items()}
    used = device or params.get("device")
    return {**params, "device": str(used).partition(":")[0]} if used else params


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
    return [Curve(run.run_id, run.group, [number * run.global_batch_size for number in found["numbers"]],
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
