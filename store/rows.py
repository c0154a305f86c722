"""Journal records as rows: columns are filled record by record and inserted in bulk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

from engine.journal import Batches, Effective, Event, File, Metric, RunEnd, RunStart, Samples, Stage

COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "runs": {"run_id": pa.string(), "sweep_id": pa.string(), "experiment": pa.string(), "cell_key": pa.string(),
             "repeat": pa.int32(), "attempt": pa.int32(), "status": pa.string(), "started_at": pa.string(),
             "environment_id": pa.string()},
    "attempts": {"run_id": pa.string(), "attempt": pa.int32(), "status": pa.string(), "started_at": pa.string()},
    "ends": {"run_id": pa.string(), "attempt": pa.int32(), "status": pa.string(), "reason": pa.string(),
             "ended_at": pa.string(), "wall_s": pa.float64()},
    "parameters": {"run_id": pa.string(), "name": pa.string(), "asked": pa.string(), "effective": pa.string()},
    "effective": {"run_id": pa.string(), "name": pa.string(), "effective": pa.string()},
    "stages": {"run_id": pa.string(), "stage": pa.string(), "start_s": pa.float64(), "seconds": pa.float64()},
    "batches": {"run_id": pa.string(), "batch": pa.int32(), "items": pa.int32(), "start_s": pa.float64(),
                "seconds": pa.float64()},
    "phases": {"run_id": pa.string(), "batch": pa.int32(), "phase": pa.string(), "clock": pa.string(),
               "start_s": pa.float64(), "seconds": pa.float64()},
    "samples": {"run_id": pa.string(), "device": pa.string(), "metric": pa.string(), "time_s": pa.float64(),
                "value": pa.float64()},
    "metrics": {"run_id": pa.string(), "name": pa.string(), "value": pa.float64(), "unit": pa.string(),
                "origin": pa.string()},
    "phase_summaries": {"run_id": pa.string(), "phase": pa.string(), "clock": pa.string(), "count": pa.int64(),
                        "median_s": pa.float64(), "total_s": pa.float64(), "first_s": pa.float64(),
                        "steady_median_s": pa.float64()},
    "sample_summaries": {"run_id": pa.string(), "device": pa.string(), "metric": pa.string(), "count": pa.int64(),
                         "mean": pa.float64(), "median": pa.float64(), "minimum": pa.float64(),
                         "maximum": pa.float64()},
    "noise": {"run_id": pa.string(), "noisy": pa.bool_(), "noise_reason": pa.string()},
    "environments": {"environment_id": pa.string(), "facts": pa.string()},
    "files": {"run_id": pa.string(), "path": pa.string(), "title": pa.string(), "size_bytes": pa.int64()},
    "events": {"sweep_id": pa.string(), "run_id": pa.string(), "happened_at": pa.string(), "text": pa.string()},
    "annotations": {"target": pa.string(), "field": pa.string(), "value": pa.string(), "happened_at": pa.string()},
    "board_acts": {"board_id": pa.string(), "item_id": pa.string(), "act": pa.string(), "value": pa.string(),
                   "happened_at": pa.string(), "number": pa.int32()},
    "frozen_figures": {"item_id": pa.string(), "happened_at": pa.string(), "figure": pa.string()},
    "sweeps": {"sweep_id": pa.string(), "name": pa.string(), "experiment": pa.string(), "source": pa.string(),
               "status": pa.string(), "reason": pa.string(), "created_at": pa.string(), "ended_at": pa.string(),
               "sessions": pa.int32(), "planned_runs": pa.int64(), "spec": pa.string()},
    "journals": {"journal": pa.string(), "bytes": pa.int64(), "complete": pa.bool_(), "unread_bytes": pa.int64(),
                 "problem": pa.string()},
}
OF_A_RUN = ("parameters", "stages", "batches", "phases", "samples", "metrics", "phase_summaries", "sample_summaries",
            "files", "events")
"""Tables whose rows belong to one attempt at a run and go when it is attempted again."""


class Rows:
    """Rows of several tables on their way into the store."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, list[Any]]] = {}

    def columns(self, table: str) -> dict[str, list[Any]]:
        if table not in self._tables:
            self._tables[table] = {name: [] for name in COLUMNS[table]}
        return self._tables[table]

    def add(self, table: str, *values: Any) -> None:
        for column, value in zip(self.columns(table).values(), values, strict=True):
            column.append(value)

    def extend(self, other: Rows) -> None:
        for table, columns in other._tables.items():
            for name, values in self.columns(table).items():
                values.extend(columns[name])

    def count(self, table: str) -> int:
        return len(next(iter(self.columns(table).values())))

    def insert(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """In one statement; the other columns of the table stay NULL."""
        if not self.count(table):
            return
        with self.as_view(connection, table) as view:
            names = ", ".join(COLUMNS[table])
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {view}")

    def as_view(self, connection: duckdb.DuckDBPyConnection, table: str) -> View:
        return View(connection, f"new_{table}", pa.table(self.columns(table), schema=pa.schema(COLUMNS[table].items())))


class View:
    """An Arrow table under a name that SQL can use, for as long as the `with` block."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
        self._connection, self._name, self._table = connection, name, table

    def __enter__(self) -> str:
        self._connection.register(self._name, self._table)
        return self._name

    def __exit__(self, *error: object) -> None:
        self._connection.unregister(self._name)


def add_run_record(rows: Rows, record: Any, attempt: int) -> None:
    """One record about one attempt at a run."""
    match record:
        case Batches():
            _add_batches(rows, record)
        case Samples():
            columns = rows.columns("samples")
            count = len(record.readings)
            columns["run_id"] += [record.run_id] * count
            columns["time_s"] += [record.time_s] * count
            columns["device"] += [reading[0] for reading in record.readings]
            columns["metric"] += [reading[1] for reading in record.readings]
            columns["value"] += [reading[2] for reading in record.readings]
        case Stage():
            rows.add("stages", record.run_id, record.stage, record.start_s, record.seconds)
        case Metric():
            rows.add("metrics", record.run_id, record.name, float(record.value), record.unit or None, "measured")
        case Effective():
            for name, value in record.values.items():
                rows.add("effective", record.run_id, name, json.dumps(value))
        case File():
            rows.add("files", record.run_id, record.path, record.title, record.size_bytes)
        case Event():
            rows.add("events", record.sweep_id or None, record.run_id or None, record.at, record.text)
        case RunStart():
            rows.add("runs", record.run_id, record.sweep_id, record.experiment, record.cell_key, record.repeat,
                     record.attempt, "running", record.at, record.environment_id)
            rows.add("attempts", record.run_id, record.attempt, "running", record.at)
            for name, value in record.asked.items():
                rows.add("parameters", record.run_id, name, json.dumps(value), None)
        case RunEnd():
            rows.add("ends", record.run_id, attempt, record.status, record.reason or None, record.at, record.wall_s)


def _add_batches(rows: Rows, record: Batches) -> None:
    count = len(record.items)
    columns = rows.columns("batches")
    numbers = range(record.first_batch, record.first_batch + count)
    columns["run_id"] += [record.run_id] * count
    columns["batch"] += numbers
    columns["items"] += record.items
    columns["start_s"] += record.start_s
    columns["seconds"] += record.seconds
    run_ids, batches, names, clocks, all_starts, all_seconds = rows.columns("phases").values()
    for phase in record.phases:
        starts, seconds = phase.start_s, phase.seconds
        batch: Sequence[int] = numbers
        if None in seconds:
            kept = [index for index, value in enumerate(seconds) if value is not None]
            starts, seconds = [starts[i] for i in kept], [seconds[i] for i in kept]
            batch = [numbers[i] for i in kept]
        kept_count = len(batch)
        run_ids += [record.run_id] * kept_count
        batches += batch
        names += [phase.phase] * kept_count
        clocks += [phase.clock] * kept_count
        all_starts += starts
        all_seconds += seconds
