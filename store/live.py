"""What goes on now: open sweeps, and one sweep as the Live page shows it."""

from __future__ import annotations

import json
from typing import NamedTuple

import duckdb

from analysis.cells import CellTimes
from store.browse import run_samples, sweep_cells
from store.queries import Answer, ask


class LiveView(NamedTuple):
    """A sweep at one moment. `run` is the one being measured, with its latest batches and all its readings so far."""

    sweep: Answer
    run: Answer | None
    batches: list[Answer]
    samples: list[Answer]
    cells: list[CellTimes]


def live_view(connection: duckdb.DuckDBPyConnection, sweep_id: str, metrics: list[str]) -> LiveView | None:
    sweep = sweep_progress(connection, sweep_id)
    if sweep is None:
        return None
    run = running_run(connection, sweep_id)
    if run:
        # What the sweep sets, in its order, the varied ones first; the experiment's other defaults are not news.
        spec = json.loads(sweep["spec"] or "{}")
        run["asked"] = {name: run["asked"][name] for name in [*spec.get("grid", {}), *spec.get("fixed", {})]
                        if name in run["asked"]}
    return LiveView(sweep, run, last_batches(connection, run["run_id"]) if run else [],
                    run_samples(connection, run["run_id"], metrics) if run else [], sweep_cells(connection, sweep_id))


def open_sweeps(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Sweeps that run or wait, oldest first, with how far they are."""
    return ask(connection, """
        SELECT s.sweep_id, coalesce(nullif(s.name, ''), s.sweep_id) AS name, s.experiment, s.status, s.planned_runs,
               (SELECT count(*) FROM runs r WHERE r.sweep_id = s.sweep_id AND r.status <> 'running') AS done
        FROM sweeps s WHERE s.status IN ('running', 'queued') ORDER BY s.created_at, s.sweep_id""")


def last_batches(connection: duckdb.DuckDBPyConnection, run_id: str, count: int = 40) -> list[Answer]:
    """Phases of the newest batches of one run, in order."""
    return ask(connection, """
        SELECT batch, phase, seconds FROM phases
        WHERE run_id = $run_id AND batch > (SELECT max(batch) FROM phases WHERE run_id = $run_id) - $count
        ORDER BY batch, start_s""", {"run_id": run_id, "count": count})


def running_run(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> Answer | None:
    """The run that is being measured now, with what was asked of it."""
    found = ask(connection, """
        SELECT run_id, cell_key, repeat, attempt, started_at FROM runs WHERE sweep_id = $sweep_id AND status = 'running'
        ORDER BY started_at DESC LIMIT 1""", {"sweep_id": sweep_id})
    if not found:
        return None
    found[0]["asked"] = {name: json.loads(asked) for name, asked in connection.execute(
        "SELECT name, asked FROM parameters WHERE run_id = ? AND asked IS NOT NULL ORDER BY rowid",
        [found[0]["run_id"]]).fetchall()}
    return found[0]


def sweep_progress(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> Answer | None:
    """How a sweep stands: counts by status, wall times of what is done, the last thing it said."""
    found = ask(connection, """
        SELECT sweep_id, name, experiment, status, reason, created_at, ended_at, planned_runs, spec FROM sweeps
        WHERE sweep_id = $sweep_id""", {"sweep_id": sweep_id})
    if not found:
        return None
    sweep = found[0]
    sweep["counts"] = dict(connection.execute(
        "SELECT status, count(*) FROM runs WHERE sweep_id = ? GROUP BY status ORDER BY status", [sweep_id]).fetchall())
    sweep["wall_s"] = [row[0] for row in connection.execute(
        "SELECT wall_s FROM runs WHERE sweep_id = ? AND wall_s IS NOT NULL ORDER BY started_at", [sweep_id]).fetchall()]
    said = connection.execute("""SELECT text FROM events WHERE sweep_id = ?
                                 ORDER BY happened_at DESC, rowid DESC LIMIT 1""", [sweep_id]).fetchone()
    sweep["said"] = said[0] if said else ""
    sweep["endings"] = ask(connection, """
        SELECT status, reason, count(*) AS runs, min(run_id) AS run_id FROM runs
        WHERE sweep_id = $sweep_id AND status NOT IN ('ok', 'running') GROUP BY ALL ORDER BY runs DESC LIMIT 20""",
        {"sweep_id": sweep_id})
    return sweep
