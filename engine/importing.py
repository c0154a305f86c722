"""Measurements made elsewhere become a sweep: a journal like any other, so that a rebuild has them again.

Imported runs have no telemetry and no environment of this machine; their sweep's source is `imported`. Nothing is
written before the whole file has been checked, and the sweep's folder appears at once or not at all.
"""

from __future__ import annotations

import os
import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.home import Home, SweepFolder
from engine.journal import JournalWriter, Metric, RunEnd, RunStart, Session, SessionEnd, Turn, compress_journal
from engine.measurement_file import MOST_BYTES, MeasurementFile, read_measurements, unit_of
from engine.moment import utc_now
from engine.params import InputError
from engine.registry import find
from engine.spec import SweepSpec
from engine.sweep_state import IMPORTED, run_id_of

RECORDS_PER_BLOCK = 5_000


def import_file(home: Home, file: Path, experiment: str, name: str = "") -> tuple[str, int]:
    """Returns the sweep's id and its number of runs."""
    find(experiment)
    try:
        if file.is_file() and file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file}: has {file.stat().st_size:,} bytes, more than {MOST_BYTES:,}; cut it into "
                             "several files")
        content = file.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; give the path of a CSV file") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); give the path of a CSV file") from None
    return import_content(home, content, file.name, experiment, name)


def import_content(home: Home, content: bytes, source: str, experiment: str, name: str = "") -> tuple[str, int]:
    """`source` is the file's name, for sentences and for the sweep's own name."""
    if len(name) > 200:
        raise InputError(f"name: {len(name)} characters are more than 200; shorten it")
    found = read_measurements(content, source, find(experiment))
    return write_import(home, found, experiment, name or f"imported: {source}"[:200]), len(found.rows)


def write_import(home: Home, file: MeasurementFile, experiment: str, name: str) -> str:
    sweep_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    home.sweeps.mkdir(parents=True, exist_ok=True)
    making = home.root / f"import-{sweep_id}.part"
    try:
        (making / "runs").mkdir(parents=True)
        _write_journal(SweepFolder(making), sweep_id, file, experiment, name)
        making.rename(home.sweep(sweep_id).path)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    return sweep_id


def _write_journal(folder: SweepFolder, sweep_id: str, file: MeasurementFile, experiment: str, name: str) -> None:
    moment = utc_now()
    journal = JournalWriter(folder.session_journal(1))
    try:
        journal.write(Session(sweep_id, 1, "import", moment, os.getpid(), 0.0, _spec(file, experiment, name),
                              len(file.rows), IMPORTED))
        journal.write(Turn(sweep_id, moment))
        written = 2
        for row in file.rows:
            run_id = run_id_of(sweep_id, row.cell, row.repeat)
            journal.write(RunStart(run_id, sweep_id, 1, experiment, row.cell.key, row.repeat, "", moment,
                                   row.cell.params.model_dump(mode="json")))
            for column, value in row.figures.items():
                journal.write(Metric(run_id, column, value, unit_of(column)))
            journal.write(RunEnd(run_id, moment, "ok"))
            written += 2 + len(row.figures)
            if written >= RECORDS_PER_BLOCK:
                journal.flush()
                written = 0
        journal.write(SessionEnd(sweep_id, moment, "finished"))
    finally:
        journal.close()
    compress_journal(folder.session_journal(1))


def _spec(file: MeasurementFile, experiment: str, name: str) -> dict[str, Any]:
    """The sweep that would measure these cells here: what varies is its grid."""
    values: dict[str, list[Any]] = {column: [] for column in file.parameters or ["seed"]}
    for row in file.rows:
        given = row.cell.params.model_dump(mode="json")
        for column, seen in values.items():
            if given[column] not in seen:
                seen.append(given[column])
    grid = {column: seen for column, seen in values.items() if len(seen) > 1} or dict([next(iter(values.items()))])
    fixed = {column: seen[0] for column, seen in values.items() if column not in grid}
    repeats = min(max(row.repeat for row in file.rows), 1000)
    return SweepSpec.model_validate({"experiment": experiment, "name": name, "grid": grid, "fixed": fixed,
                                     "repeats": repeats, "order": "as_listed"}).model_dump(mode="json")
