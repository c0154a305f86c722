"""From journals into the store, exactly once: rows and the offsets they were read up to share a transaction.

A pass reads what is new in the journals of some sweeps. A run's own journal is read only after the sweep's journal has
announced that attempt, and the sweep's journal is read first: so a run is complete when its end is applied.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from engine.home import Home, SweepFolder
from engine.journal import (
    Annotation,
    BoardAct,
    EnvironmentSeen,
    JournalDamage,
    RunEnd,
    RunStart,
    Session,
    SessionEnd,
    Turn,
    journal_size,
    list_journals,
    read_blocks,
)
from store.rows import OF_A_RUN, Rows, add_run_record
from store.schema import roll_back
from store.summaries import summarise_runs

ROWS_PER_TRANSACTION = 500_000


class Report(NamedTuple):
    """What a pass did: rows put into the measurement tables, what could not be read, whether anything was new."""

    rows: int
    problems: list[str]
    news: bool


class Known(NamedTuple):
    bytes: int
    complete: bool
    problem: str | None


@dataclass
class Pass:
    """Everything one transaction will write."""

    rows: Rows = field(default_factory=Rows)
    of_runs: dict[str, Rows] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    started_again: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    sweeps: dict[str, dict[str, Any]] = field(default_factory=dict)
    journals: dict[str, tuple[int, bool, int | None, str | None]] = field(default_factory=dict)
    replaced_journals: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def run_rows(self, run_id: str) -> Rows:
        return self.of_runs.setdefault(run_id, Rows())

    @property
    def size(self) -> int:
        return sum(rows.count("phases") + rows.count("samples") for rows in self.of_runs.values())


def ingest(connection: duckdb.DuckDBPyConnection, home: Home, sweep_ids: Iterable[str] | None = None) -> Report:
    """Read what is new: of these sweeps, or of all of them and of what people did."""
    with _collector_resting():
        return _ingest(connection, home, sweep_ids)


@contextmanager
def _collector_resting() -> Iterator[None]:
    """A pass makes records and lists by the hundred thousand and no cycles: looking for some costs up to a quarter."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _ingest(connection: duckdb.DuckDBPyConnection, home: Home, sweep_ids: Iterable[str] | None) -> Report:
    folders = None if sweep_ids is None else [f"sweeps/{sweep_id}/" for sweep_id in dict.fromkeys(sweep_ids)]
    if folders == []:
        return Report(0, [], False)
    known = _known(connection, folders)
    total, problems, news = 0, [], False
    current = Pass()
    for sweep_id in home.sweep_ids() if folders is None else [folder.split("/")[1] for folder in folders]:
        _read_sweep(connection, home, home.sweep(sweep_id), known, current)
        if current.size >= ROWS_PER_TRANSACTION:
            total += _write(connection, current, known)
            problems += current.problems
            news = True
            current = Pass()
    if folders is None:
        _read_people(home, known, current)
    total += _write(connection, current, known)
    return Report(total, problems + current.problems, news or bool(current.journals))


# -- reading -----------------------------------------------------------------------------------------------------------


def _known(connection: duckdb.DuckDBPyConnection, folders: list[str] | None) -> dict[str, Known]:
    """How far the journals have been read: all of them, or those in some folders."""
    where = "" if folders is None else "WHERE list_bool_or(list_transform($folders, lambda f: starts_with(journal, f)))"
    return {journal: Known(*columns) for journal, *columns in connection.execute(
        f"SELECT journal, bytes, complete, problem FROM journals {where}",
        {"folders": folders} if folders is not None else None).fetchall()}


def _read_sweep(connection: duckdb.DuckDBPyConnection, home: Home, folder: SweepFolder, known: dict[str, Known],
                into: Pass) -> None:
    sessions = [path for path in list_journals(folder.path, "session-") if not _is_complete(home, path, known)]
    if not sessions:
        return
    # Attempts that earlier passes left open, then what the sweep's journal says now, then the runs' own journals.
    open_attempts = dict(connection.execute(
        "SELECT run_id, attempt FROM runs WHERE sweep_id = ? AND status = 'running'", [folder.sweep_id]).fetchall())
    into.attempts |= open_attempts
    touched = set(open_attempts)
    last = sessions[-1]
    for path in sessions:
        records = _read_new(home, path, known, into)
        for record in records:
            touched |= _apply(connection, record, into, home, folder)
        ended = path != last or any(isinstance(record, SessionEnd) for record in records)
        _mark_complete(home, path, into, ended)
    for run_id in sorted(touched):
        path = folder.run_journal(run_id, into.attempts[run_id])
        for record in _read_new(home, path, known, into):
            add_run_record(into.run_rows(run_id), record, into.attempts[run_id])
        _mark_complete(home, path, into, run_id in into.ended)


def _apply(connection: duckdb.DuckDBPyConnection, record: Any, into: Pass, home: Home, folder: SweepFolder) -> set[str]:
    """One record of a session journal; returns the runs whose own journals have to be read."""
    match record:
        case Session() | Turn() | SessionEnd():
            _apply_to_sweep(connection, record, into)
        case EnvironmentSeen():
            into.rows.add("environments", record.environment_id, json.dumps(record.facts, sort_keys=True))
        case RunStart():
            into.attempts[record.run_id] = record.attempt
            into.ended.discard(record.run_id)
            if record.attempt > 1:
                _forget_attempt(record, into, home, folder)
            add_run_record(into.run_rows(record.run_id), record, record.attempt)
            return {record.run_id}
        case RunEnd():
            if _knows_attempt(connection, record.run_id, into):
                into.ended.add(record.run_id)
                add_run_record(into.run_rows(record.run_id), record, into.attempts[record.run_id])
                return {record.run_id}
        case _:
            run_id = getattr(record, "run_id", "")
            if not run_id or _knows_attempt(connection, run_id, into):
                add_run_record(into.run_rows(run_id) if run_id else into.rows, record, 0)
    return set()


def _forget_attempt(record: RunStart, into: Pass, home: Home, folder: SweepFolder) -> None:
    """A run is measured again: the earlier attempt keeps its journal and one row in `attempts`, nothing else."""
    earlier = into.of_runs.pop(record.run_id, Rows())
    history = Rows()
    for table in ("attempts", "ends"):
        for name, values in history.columns(table).items():
            values.extend(earlier.columns(table)[name])
    into.rows.extend(history)
    into.started_again[record.run_id] = record.attempt
    for attempt in range(1, record.attempt):
        name = _name(home, folder.run_journal(record.run_id, attempt))
        into.journals.pop(name, None)
        into.replaced_journals.add(name)


def _knows_attempt(connection: duckdb.DuckDBPyConnection, run_id: str, into: Pass) -> bool:
    """Whether the start that this end belongs to was seen, in this pass or before. A damaged journal can hide it."""
    if run_id not in into.attempts:
        found = connection.execute("SELECT attempt FROM runs WHERE run_id = ?", [run_id]).fetchone()
        if not found:
            return False
        into.attempts[run_id] = found[0]
    return True


def _apply_to_sweep(connection: duckdb.DuckDBPyConnection, record: Session | Turn | SessionEnd, into: Pass) -> None:
    sweep = into.sweeps.get(record.sweep_id) or _sweep_row(connection, record.sweep_id)
    match record:
        case Session():
            if sweep["created_at"] is None:
                sweep["created_at"] = record.at
                for tag in record.spec.get("tags", []):
                    into.rows.add("annotations", record.sweep_id, "tag", tag, record.at)
                if record.spec.get("notes"):
                    into.rows.add("annotations", record.sweep_id, "note", record.spec["notes"], record.at)
            sweep |= {"name": record.spec.get("name") or sweep["name"], "experiment": record.spec.get("experiment"),
                      "source": record.source, "status": "queued", "reason": None, "ended_at": None,
                      "sessions": record.session, "planned_runs": record.planned_runs,
                      "spec": json.dumps(record.spec, sort_keys=True)}
        case Turn():
            sweep["status"] = "running"
        case SessionEnd():
            sweep |= {"status": record.status, "reason": record.reason or None, "ended_at": record.at}
    into.sweeps[record.sweep_id] = sweep


def _sweep_row(connection: duckdb.DuckDBPyConnection, sweep_id: str) -> dict[str, Any]:
    cursor = connection.execute("""
        SELECT sweep_id, name, experiment, source, status, reason, created_at::VARCHAR AS created_at,
               ended_at::VARCHAR AS ended_at, sessions, planned_runs, spec
        FROM sweeps WHERE sweep_id = ?""", [sweep_id])
    names = [column[0] for column in cursor.description or []]
    row = cursor.fetchone()
    return dict(zip(names, row, strict=True)) if row else dict.fromkeys(names) | {"sweep_id": sweep_id}


def ingest_people(connection: duckdb.DuckDBPyConnection, home: Home) -> Report:
    """Read what people did since the last time."""
    known = _known(connection, ["people/"])
    current = Pass()
    _read_people(home, known, current)
    return Report(_write(connection, current, known), current.problems, bool(current.journals))


def _read_people(home: Home, known: dict[str, Known], into: Pass) -> None:
    for path in list_journals(home.people):
        if _is_complete(home, path, known):
            continue
        records = _read_new(home, path, known, into)
        for record in records:
            if isinstance(record, Annotation):
                into.rows.add("annotations", record.target, record.field, record.value, record.at)
            elif isinstance(record, BoardAct):
                into.rows.add("board_acts", record.board_id, record.item_id or None, record.act,
                              json.dumps(record.value, sort_keys=True), record.at, record.number)
                if record.figure is not None:
                    into.rows.add("frozen_figures", record.item_id, record.at, json.dumps(record.figure))
        # One file per act, written at once: with a whole block in it, nothing more will come.
        _mark_complete(home, path, into, bool(records))


def _read_new(home: Home, path: Path, known: dict[str, Known], into: Pass) -> list[Any]:
    """Records since the last pass; notes how far it got, and damage if there is any."""
    name = _name(home, path)
    at = known[name].bytes if name in known else 0
    records: list[Any] = []
    damages: list[JournalDamage] = []
    problem = None
    try:
        for block in read_blocks(path, at, skipped=damages):
            records += block.records
            at = block.end
    except FileNotFoundError:
        # A run that was skipped, or killed before it could open its journal, has none.
        return records
    except OSError as error:
        problem = str(error)
    if damages:
        # What follows a damaged block is read all the same; what is lost is said.
        problem = f"{damages[0]}; {len(damages)} block{'s' if len(damages) > 1 else ''} lost"
    if problem:
        into.problems.append(problem)
    earlier = known[name].problem if name in known else None
    into.journals[name] = (at, False, None, earlier or problem)
    return records


def _mark_complete(home: Home, path: Path, into: Pass, complete: bool) -> None:
    """Nothing more will come: the file is not looked at again, and what could not be read of it is stated."""
    name = _name(home, path)
    if complete and name in into.journals:
        at, _, _, problem = into.journals[name]
        size = journal_size(path)
        into.journals[name] = (at, True, None if size is None else size - at, problem)


def _is_complete(home: Home, path: Path, known: dict[str, Known]) -> bool:
    found = known.get(_name(home, path))
    return bool(found and found.complete)


def _name(home: Home, path: Path) -> str:
    return path.relative_to(home.root).as_posix()


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(connection: duckdb.DuckDBPyConnection, done: Pass, known: dict[str, Known]) -> int:
    """One transaction; none at all when no journal has grown or ended since the last pass."""
    for name in [name for name, (size, complete, _, problem) in done.journals.items()
                 if known.get(name) == Known(size, complete, problem)]:
        del done.journals[name]
    if not done.journals:
        return 0
    rows = done.rows
    for of_run in done.of_runs.values():
        rows.extend(of_run)
    for name, (size, complete, unread, problem) in done.journals.items():
        rows.add("journals", name, size, complete, unread, problem)
    for sweep in done.sweeps.values():
        rows.add("sweeps", *sweep.values())
    connection.begin()
    try:
        _delete_superseded(connection, done)
        for table in ("runs", "attempts", "stages", "batches", "phases", "samples", "metrics", "files", "events",
                      "annotations", "parameters", "board_acts", "frozen_figures"):
            rows.insert(connection, table)
        _set_effective(connection, rows)
        _set_ends(connection, rows)
        _add_environments(connection, rows)
        _replace(connection, rows, "sweeps", "sweep_id")
        _replace(connection, rows, "journals", "journal")
        if done.ended:
            summarise_runs(connection, sorted(done.ended))
        connection.commit()
    except BaseException:
        roll_back(connection)
        raise
    return sum(rows.count(table) for table in ("stages", "batches", "phases", "samples", "metrics"))


def _delete_superseded(connection: duckdb.DuckDBPyConnection, done: Pass) -> None:
    if done.started_again:
        for table in ("runs", *OF_A_RUN):
            connection.execute(f"DELETE FROM {table} WHERE run_id IN (SELECT unnest(?))", [list(done.started_again)])
    if done.replaced_journals:
        connection.execute("DELETE FROM journals WHERE journal IN (SELECT unnest(?))", [sorted(done.replaced_journals)])


def _set_effective(connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    """What took effect, beside what was asked; a value nobody asked for gets a row of its own."""
    if not rows.count("effective"):
        return
    last = Rows()
    for row in {row[:2]: row for row in zip(*rows.columns("effective").values(), strict=True)}.values():
        last.add("effective", *row)
    with last.as_view(connection, "effective") as view:
        connection.execute(f"""
            UPDATE parameters SET effective = {view}.effective FROM {view}
            WHERE parameters.run_id = {view}.run_id AND parameters.name = {view}.name""")
        connection.execute(f"""
            INSERT INTO parameters SELECT run_id, name, NULL, effective FROM {view}
            WHERE NOT EXISTS (FROM parameters p WHERE p.run_id = {view}.run_id AND p.name = {view}.name)""")


def _set_ends(connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    if not rows.count("ends"):
        return
    with rows.as_view(connection, "ends") as view:
        for table in ("runs", "attempts"):
            connection.execute(f"""
                UPDATE {table} SET status = {view}.status, reason = {view}.reason,
                    ended_at = {view}.ended_at::TIMESTAMP, wall_s = {view}.wall_s
                FROM {view} WHERE {table}.run_id = {view}.run_id AND {table}.attempt = {view}.attempt""")


def _add_environments(connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
    if not rows.count("environments"):
        return
    with rows.as_view(connection, "environments") as view:
        connection.execute(f"""
            INSERT INTO environments SELECT environment_id, any_value(facts) FROM {view}
            WHERE environment_id NOT IN (SELECT environment_id FROM environments) GROUP BY environment_id""")


def _replace(connection: duckdb.DuckDBPyConnection, rows: Rows, table: str, key: str) -> None:
    if rows.count(table):
        with rows.as_view(connection, table) as view:
            connection.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {view})")
        rows.insert(connection, table)
