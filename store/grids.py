"""The runs of some sweeps as a grid of batch size x workers needs them: one query per table, chosen sweeps only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from analysis.grids import IMPORTED, GridRun, Plan
from store.live import NOT_DONE
from store.queries import GIVEN_PHASES, KEPT, Answer, ask

if TYPE_CHECKING:
    import pandas as pd  # a quarter second of importing, which the command line never needs

MEMBERS = f"SELECT run_id FROM runs WHERE sweep_id IN (SELECT unnest($sweep_ids)) AND {KEPT}"


def grid_sweeps(connection: duckdb.DuckDBPyConnection, experiments: Sequence[str], also: Sequence[str] = (),
                limit: int = 300) -> list[Answer]:
    """Sweeps of these experiments, newest first; `spans` says whether batch size or workers were varied."""
    return ask(connection, """
        SELECT sweep_id, coalesce(nullif(name, ''), sweep_id) AS name, experiment, source, status, created_at,
               greatest(coalesce(json_array_length(spec, '$.grid.batch_size'), 0),
                        coalesce(json_array_length(spec, '$.grid.workers'), 0)) > 1 AS spans
        FROM sweeps WHERE experiment IN (SELECT unnest($experiments))
        AND sweep_id NOT IN (SELECT target FROM deleted)
        AND (sweep_id NOT IN (SELECT target FROM archived) OR sweep_id IN (SELECT unnest($also)))
        ORDER BY sweep_id IN (SELECT unnest($also)) DESC, created_at DESC, sweep_id DESC LIMIT $limit""",
        {"experiments": list(experiments), "also": list(also), "limit": limit})


def grid_runs(connection: duckdb.DuckDBPyConnection, sweep_ids: Sequence[str]) -> list[GridRun]:
    """Every run of these sweeps that nobody deleted, whatever its outcome."""
    values = {"sweep_ids": list(sweep_ids)}
    params: dict[str, dict[str, Any]] = {}
    for run_id, name, asked in connection.execute(
            f"SELECT run_id, name, asked FROM parameters WHERE asked IS NOT NULL AND run_id IN ({MEMBERS})",
            values).fetchall():
        params.setdefault(run_id, {})[name] = json.loads(asked)
    wanted = ["end_to_end_s", "first_batch_s", "items", "batches", *(f"{phase}_s" for phase in GIVEN_PHASES)]
    numbers: dict[str, dict[str, float]] = {}
    for run_id, name, value in connection.execute(
            f"SELECT run_id, name, value FROM metrics WHERE name IN (SELECT unnest($wanted)) AND run_id IN ({MEMBERS})",
            {**values, "wanted": wanted}).fetchall():
        numbers.setdefault(run_id, {})[name] = value
    phases: dict[str, dict[str, float]] = {}
    for run_id, phase, total_s in connection.execute(
            f"SELECT run_id, phase, total_s FROM phase_summaries WHERE run_id IN ({MEMBERS})", values).fetchall():
        phases.setdefault(run_id, {})[phase] = total_s
    found = []
    for run in ask(connection, f"""
            SELECT r.run_id, r.status, coalesce(r.reason, '') AS reason, r.noisy, r.environment_id, s.source,
                   r.sweep_id, r.experiment, (e.facts->>'cores_allowed')::DOUBLE AS cores
            FROM runs r JOIN sweeps s USING (sweep_id) LEFT JOIN environments e USING (environment_id)
            WHERE r.run_id IN ({MEMBERS}) ORDER BY r.started_at, r.run_id""", values):
        run_id = run["run_id"]
        known = numbers.get(run_id, {})
        given = {phase: known[f"{phase}_s"] for phase in GIVEN_PHASES if f"{phase}_s" in known}
        place = IMPORTED + run["sweep_id"] if run["source"] == "imported" else run["environment_id"] or "unknown"
        found.append(GridRun(run_id, run["status"], run["reason"], run["noisy"], place, params.get(run_id, {}),
                             known.get("end_to_end_s"), known.get("first_batch_s"), known.get("items"),
                             phases.get(run_id) or given, run["experiment"], run["sweep_id"],
                             run["cores"], known.get("batches")))
    return found


def unfinished_plans(connection: duckdb.DuckDBPyConnection, sweep_ids: Sequence[str]) -> list[Plan]:
    """What those of the sweeps were to measure that have not finished. Of a sweep that was extended it is the last
    specification; planned and ended runs are of all of them."""
    sweeps = ask(connection, """
        SELECT s.sweep_id, coalesce(nullif(s.name, ''), s.sweep_id) AS name, s.experiment, s.status, s.spec,
               coalesce(s.planned_runs, 0) AS planned_runs,
               (SELECT count(*) FROM runs r WHERE r.sweep_id = s.sweep_id AND NOT list_contains($not_done, r.status))
               AS ended_runs
        FROM sweeps s WHERE s.sweep_id IN (SELECT unnest($sweep_ids)) AND s.status <> 'finished'
        AND s.sweep_id NOT IN (SELECT target FROM deleted) ORDER BY s.created_at, s.sweep_id""",
        {"sweep_ids": list(sweep_ids), "not_done": list(NOT_DONE)})
    begun: dict[str, dict[str, dict[str, Any]]] = {sweep["sweep_id"]: {} for sweep in sweeps}
    for sweep_id, run_id, name, asked in connection.execute("""
            SELECT sweep_id, run_id, name, asked FROM parameters JOIN runs USING (run_id)
            WHERE asked IS NOT NULL AND sweep_id IN (SELECT unnest(?))""", [list(begun)]).fetchall():
        begun[sweep_id].setdefault(run_id, {})[name] = json.loads(asked)
    return [Plan(**{**sweep, "spec": json.loads(sweep["spec"] or "{}")}, begun=list(begun[sweep["sweep_id"]].values()))
            for sweep in sweeps]


def loading_waits(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> dict[str, list[float]]:
    """Seconds of load_data of each batch of the first epoch, in order: every epoch begins with a start of its own.
    Where a run does not say how long its epochs are, they are equal parts of its batches."""
    return dict(connection.execute("""
        WITH epochs AS (
            SELECT run_id, max(TRY_CAST(effective->>'$' AS INTEGER)) FILTER (name = 'batches_per_epoch') AS batches,
                   max(TRY_CAST(coalesce(effective, asked)->>'$' AS INTEGER)) FILTER (name = 'epochs') AS count
            FROM parameters WHERE name IN ('batches_per_epoch', 'epochs') AND run_id IN (SELECT unnest($run_ids))
            GROUP BY run_id),
        waits AS (SELECT run_id, list(seconds ORDER BY batch) AS seconds FROM phases
                  WHERE phase = 'load_data' AND run_id IN (SELECT unnest($run_ids)) GROUP BY run_id)
        SELECT run_id, seconds[:coalesce(batches, ceil(len(seconds) / greatest(count, 1))::INTEGER, len(seconds))]
        FROM waits LEFT JOIN epochs USING (run_id)""", {"run_ids": list(run_ids)}).fetchall())


def published_regret_frame(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """Seed 004's own figures: data is imagenette or preprocessed_ssd."""
    return connection.execute("""
        SELECT data, batch_size, workers, mean_regret, top3_count FROM published_regret
        ORDER BY data, mean_regret""").df()
