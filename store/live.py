"""What goes on now: open sweeps, and one sweep as the Live page shows it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from store.browse import run_samples
from store.queries import KEPT, Answer, ask

ENDINGS_SHOWN = 20
NOT_DONE = ("running", "killed", "cancelled")
"""Runs that have not come to an end of their own: resume measures them again."""
READINGS_SHOWN = 200
"""Of each reading of the running run: more than that is thinned evenly."""


class LiveView(NamedTuple):
    """A sweep at one moment. `run` is the one being measured, with its latest batches and its readings so far."""

    sweep: Answer
    run: Answer | None
    batches: list[Answer]
    samples: list[Answer]


def live_view(connection: duckdb.DuckDBPyConnection, sweep_id: str, metrics: Sequence[str]) -> LiveView | None:
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
                    run_samples(connection, run["run_id"], metrics, READINGS_SHOWN) if run else [])


def open_sweeps(connection: duckdb.DuckDBPyConnection) -> list[Answer]:
    """Sweeps that run or wait, oldest first, with how far they are."""
    found = ask(connection, """
        SELECT sweep_id, coalesce(nullif(name, ''), sweep_id) AS name, experiment, status, planned_runs FROM sweeps
        WHERE status IN ('running', 'queued') ORDER BY created_at, sweep_id""")
    done = dict(connection.execute("""
        SELECT sweep_id, count(*) FROM runs WHERE list_contains(?, sweep_id) AND NOT list_contains(?, status)
        GROUP BY sweep_id""",
        [[sweep["sweep_id"] for sweep in found], list(NOT_DONE)]).fetchall()) if found else {}
    return [{**sweep, "done": done.get(sweep["sweep_id"], 0)} for sweep in found]


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
    runs = connection.execute(f"""SELECT run_id, status, reason, wall_s FROM runs WHERE sweep_id = ? AND {KEPT}
                                  ORDER BY started_at""", [sweep_id]).fetchall()
    sweep["counts"] = dict(sorted(Counter(status for _, status, _, _ in runs).items()))
    sweep["deleted"] = connection.execute("""SELECT count(*) FROM runs WHERE sweep_id = ?
        AND run_id IN (SELECT target FROM deleted)""", [sweep_id]).fetchall()[0][0]
    sweep["wall_s"] = [wall_s for _, _, _, wall_s in runs if wall_s is not None]
    endings = Counter((status, reason) for _, status, reason, _ in runs if status not in ("ok", "running"))
    sweep["endings"] = [{"status": status, "reason": reason, "runs": count}
                        for (status, reason), count in endings.most_common(ENDINGS_SHOWN)]
    said = connection.execute("""SELECT text FROM events WHERE sweep_id = ?
                                 ORDER BY happened_at DESC, rowid DESC LIMIT 1""", [sweep_id]).fetchone()
    sweep["said"] = said[0] if said else ""
    edits = connection.execute("SELECT count(*) FROM annotations").fetchall()[0][0]
    sweep["ended"] = (*sorted((s, n) for s, n in sweep["counts"].items() if s != "running"), edits)
    """Stays the same until a run ends or a person deletes one: so long its cells are the same."""
    return sweep
