"""Journals as a real sweep writes them, block by block and through the real JournalWriter, without measuring anything.

A Script is the list of blocks of one sweep in the order they reach the disk; a Pen writes any part of it.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from engine.home import Home
from engine.journal import (
    Annotation,
    Batches,
    Effective,
    EnvironmentSeen,
    Event,
    File,
    JournalWriter,
    Line,
    Metric,
    PhaseColumn,
    RunEnd,
    RunProcess,
    RunStart,
    Samples,
    Session,
    SessionEnd,
    Stage,
    Turn,
    compress_journal,
)
from store.database import Store, delete_store
from store.ingest import ingest
from store.schema import migrate

TORN_BYTES = 12
"""How much of its last block a dying writer does not get to disk: part of the check line."""
PHASES = ("load_data", "data_to_device", "inference")
BEGINNING = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
FACTS = {"hostname": "bench", "cores_allowed": 4.0, "libraries": {"torch": "2.15.0"}}


def moment(seconds: float) -> str:
    """So long after the beginning, as journals say it."""
    return (BEGINNING + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


class Step(NamedTuple):
    """One block of one journal; without records the journal is finished and compressed."""

    journal: Path
    records: Sequence[Line]
    torn: bool = False
    """The writer dies in the middle of this block."""


class Script:
    """The blocks of one sweep, in the order a real one writes them."""

    def __init__(self, home: Home, sweep_id: str = "20260301-090000-aaaa", experiment: str = "inference",
                 starts_at: float = 0.0) -> None:
        self.folder, self.sweep_id, self.experiment = home.sweep(sweep_id), sweep_id, experiment
        self.steps: list[Step] = []
        self._clock = itertools.count(1)
        self._starts_at = starts_at
        self._sessions = 0
        self._attempts: dict[str, int] = {}
        self._environment_id = ""

    def now(self) -> str:
        return moment(self._starts_at + next(self._clock))

    @property
    def session_journal(self) -> Path:
        return self.folder.session_journal(self._sessions)

    def say(self, *records: Line) -> None:
        """A block of the sweep's own journal."""
        self.steps.append(Step(self.session_journal, records))

    def begin(self, planned_runs: int = 1, action: str = "launch", environment_id: str = "env-1",
              facts: dict[str, Any] | None = None, **spec: Any) -> Script:
        self._sessions += 1
        spec = {"experiment": self.experiment, "name": "", "grid": {"seed": [0]}, **spec}
        self.say(Session(self.sweep_id, self._sessions, action, self.now(), 4242, 1.5, spec, planned_runs))
        self.say(Turn(self.sweep_id, self.now()))
        self._environment_id = environment_id
        self.say(EnvironmentSeen(environment_id, FACTS if facts is None else facts))
        return self

    def end(self, status: str = "finished", reason: str = "", compress: bool = False) -> Script:
        self.say(SessionEnd(self.sweep_id, self.now(), status, reason))
        if compress:
            self.compress()
        return self

    def compress(self) -> Script:
        """As a sweep does when it has ended: every journal that is still plain."""
        packed = {step.journal for step in self.steps if not step.records}
        names = dict.fromkeys(step.journal for step in self.steps)
        self.steps += [Step(journal, ()) for journal in names if journal not in packed]
        return self

    def die(self, *run_ids: str, torn: bool = True) -> Script:
        """kill -9, in the middle of writing if torn; and what whoever finds the dead sweep writes, in a new journal."""
        if torn:
            self.steps.append(Step(self.session_journal, [Turn(self.sweep_id, self.now())], torn=True))
            for run_id in run_ids:
                self.steps.append(Step(self.folder.run_journal(run_id, self._attempts[run_id]),
                                       [Stage(run_id, "never_seen", 1.0, 1.0)], torn=True))
        self._sessions += 1
        self.say(*(RunEnd(run_id, self.now(), "killed", "the sweep process ended during this run")
                   for run_id in run_ids),
                 SessionEnd(self.sweep_id, self.now(), "interrupted", "the sweep process ended unexpectedly"))
        return self

    def run_id(self, cell: int, repeat: int = 0) -> str:
        return f"{self.sweep_id}-{cell:010x}-{repeat}"

    def run(self, cell: int = 0, repeat: int = 0, status: str | None = "ok", reason: str = "", batches: int = 4,
            flushes: int = 2, workers: int = 0, asked: dict[str, Any] | None = None,
            effective: dict[str, Any] | None = None, metrics: dict[str, float | str] | None = None,
            events: Sequence[str] = (), phases: Sequence[str] = PHASES, samples: int = 2) -> str:
        """One attempt at a run, told by both journals; status None leaves it running. Returns the run's id."""
        run_id = self.run_id(cell, repeat)
        attempt = self._attempts[run_id] = self._attempts.get(run_id, 0) + 1
        own = self.folder.run_journal(run_id, attempt)
        numbers = random.Random(f"{run_id}.{attempt}")
        asked = {"seed": cell, "batch_size": 8, "workers": workers} | (asked or {})
        self.say(RunStart(run_id, self.sweep_id, attempt, self.experiment, f"{cell:016x}", repeat,
                          self._environment_id, self.now(), asked))
        self.say(RunProcess(run_id, 5000 + cell, 2.5))

        def write(*records: Line) -> None:
            self.steps.append(Step(own, records))

        def sample(index: int) -> Line:
            return Samples(run_id, 0.2 * index, [("cpu", "others_cpu_cores", numbers.random() / 5),
                                                 ("cpu", "resident_bytes", float(numbers.randrange(2**30)))])

        write(Stage(run_id, "start_process", 0.0, 0.03))
        self.say(sample(0))
        write(Effective(run_id, {"threads": 2} | (effective or {})), Stage(run_id, "prepare_data", 0.03, 0.5))
        for text in events:
            self.say(sample(1), Event(self.now(), text, self.sweep_id, run_id))
        measured = make_batches(run_id, batches, phases, numbers)
        for index in range(flushes):
            part = cut(measured, batches * index // flushes, batches * (index + 1) // flushes)
            if part.items:
                write(part)
            if samples:
                self.say(*(sample(2 + samples * index + number) for number in range(samples)))
        if status == "ok":
            window_s = sum(measured.seconds)
            write(Stage(run_id, "measure", 0.6, window_s))
            found: dict[str, float | str] = {"end_to_end_s": window_s, "batches": batches, "items": 8 * batches}
            write(*(Metric(run_id, name, value, "s" if name.endswith("_s") else "")
                    for name, value in (found | (metrics or {})).items()),
                  File(run_id, f"runs/{run_id}/trace.json", "trace", 1234))
        if status:
            self.say(Stage(run_id, "finish", 9.0, 0.1), RunEnd(run_id, self.now(), status, reason, 9.1))
        return run_id

    def skip(self, cell: int, reason: str = "no such device", repeat: int = 0) -> str:
        """A run that is not even tried: it has no journal of its own."""
        run_id = self.run_id(cell, repeat)
        attempt = self._attempts[run_id] = self._attempts.get(run_id, 0) + 1
        self.say(RunStart(run_id, self.sweep_id, attempt, self.experiment, f"{cell:016x}", repeat,
                          self._environment_id, self.now(), {"seed": cell}))
        self.say(RunEnd(run_id, self.now(), "skipped", reason))
        return run_id

    def write(self) -> Script:
        """All of it, at once."""
        write_steps(self.steps)
        return self


def make_batches(run_id: str, count: int, phases: Sequence[str], numbers: random.Random) -> Batches:
    """Batches without gaps whose phases fit into them."""
    record = Batches(run_id, 0, [], [], [], [PhaseColumn(name, "host", [], []) for name in phases])
    at_s = 0.6
    for _ in range(count):
        seconds = round(numbers.uniform(0.01, 0.2), 6)
        record.items.append(8)
        record.start_s.append(at_s)
        record.seconds.append(seconds)
        for index, column in enumerate(record.phases):
            column.start_s.append(round(at_s + index * seconds / (len(phases) + 1), 9))
            column.seconds.append(round(seconds / (len(phases) + 1), 9))
        at_s = round(at_s + seconds, 6)
    return record


def cut(record: Batches, first: int, end: int) -> Batches:
    """Some of the batches, as one flush delivers them."""
    return Batches(record.run_id, first, record.items[first:end], record.start_s[first:end], record.seconds[first:end],
                   [PhaseColumn(c.phase, c.clock, c.start_s[first:end], c.seconds[first:end]) for c in record.phases])


class Pen:
    """Writes steps; journals stay open in between, as they do in a sweep."""

    def __init__(self) -> None:
        self._writers: dict[Path, JournalWriter] = {}

    def write(self, steps: Iterable[Step]) -> None:
        for journal, records, torn in steps:
            if not records:
                self._writers.pop(journal).close()
                compress_journal(journal)
                continue
            if journal not in self._writers:
                self._writers[journal] = JournalWriter(journal)
            for record in records:
                self._writers[journal].write(record)
            self._writers[journal].flush()
            if torn:
                self._writers[journal].close()
                os.truncate(journal, journal.stat().st_size - TORN_BYTES)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def write_steps(steps: Iterable[Step]) -> None:
    pen = Pen()
    pen.write(steps)
    pen.close()


def annotate(home: Home, writer: str, *annotations: tuple[str, str, str, float]) -> None:
    """A person's doings (target, field, value, seconds after the beginning) in the journal of one process."""
    write_steps([Step(home.people / f"{writer}.jsonl",
                      [Annotation(target, field, value, moment(at)) for target, field, value, at in annotations])])


def fresh(home: Home) -> dict[str, list[str]]:
    """The rows of one pass over all journals, into a store that has seen nothing."""
    connection = duckdb.connect(":memory:")
    try:
        migrate(connection)
        ingest(connection, home)
        return rows_of(connection)
    finally:
        connection.close()


def rebuilt(home: Home) -> dict[str, list[str]]:
    """The rows after `lab.py rebuild`: a new file from the journals alone."""
    delete_store(home)
    with Store.open(home) as store:
        store.ingest()
        return rows_of(store.connection)


def rows_of(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """Every row of every table and view, in an order of its own and so that NaN equals NaN."""
    tables = [row[0] for row in connection.execute("""
        SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal
        ORDER BY ALL""").fetchall()]
    return {table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}").fetchall())) for table in tables}
