"""A sweep's journals with made-up measurements, in the shape that engine/sweep.py and the recorder write them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from engine.home import SweepFolder
from engine.journal import (
    Batches,
    EnvironmentSeen,
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
)

RUNS, BATCHES = 20, 1000
PHASES = ("load_data", "data_to_device", "forward", "backward")
BATCH_S, FLUSH_S, SAMPLE_S = 0.05, 0.5, 0.2
SAMPLES = round(BATCHES * BATCH_S / SAMPLE_S)
METRICS = ("processes", "resident_bytes", "run_process_resident_bytes", "memory_available_bytes", "others_cpu_cores",
           "steal_share", "run_cpu_cores", "disk_read_bytes_per_s")
ROWS = RUNS * (BATCHES * (1 + len(PHASES)) + SAMPLES * len(METRICS))
"""Phases, batches and samples that must arrive in the store."""
AT = "2026-01-01T00:00:00.000+00:00"
Flushed = list[Line]
"""Records that reach the disk together."""


def run_lines(run_id: str, per_line: int, draw: random.Random) -> Iterator[Flushed]:
    for stage in ("start_process", "prepare_data", "init_model", "model_to_device", "warm_up"):
        yield [Stage(run_id, stage, round(draw.random(), 9), round(draw.random(), 9))]
    for first in range(0, BATCHES, per_line):
        starts = [round(1 + (first + index) * BATCH_S + draw.random() / 1000, 9) for index in range(per_line)]
        phases = [PhaseColumn(phase, "host", [round(start + 0.012 * place, 9) for start in starts],
                              [round(0.012 + draw.random() / 1000, 9) for _ in starts])
                  for place, phase in enumerate(PHASES)]
        yield [Batches(run_id, first, [32] * per_line, starts,
                       [round(BATCH_S + draw.random() / 1000, 9) for _ in starts], phases)]
    yield [Stage(run_id, "measure", 1.0, BATCHES * BATCH_S)]
    yield [Metric(run_id, name, draw.random(), "s") for name in ("end_to_end_s", "batches", "items")]


def session_lines(sweep_id: str, draw: random.Random) -> Iterator[Flushed]:
    """As engine/sweep.py writes them: single records at once, samples when a flush is due."""
    spec = {"experiment": "inference", "name": "benchmark", "grid": {"batch_size": [32]}, "repeats": RUNS}
    yield [Session(sweep_id, 1, "launch", AT, 1, 0.0, spec, RUNS)]
    yield [Turn(sweep_id, AT)]
    yield [EnvironmentSeen("environment", {"cores_allowed": 2.0})]
    asked = {"model": "resnet18", "batch_size": 32, "workers": 2, "batches": BATCHES, "image_size": 64}
    for number in range(RUNS):
        run_id = run_name(sweep_id, number)
        yield [RunStart(run_id, sweep_id, 1, "inference", "cell", number + 1, "environment", AT, asked)]
        yield [RunProcess(run_id, 1000 + number, 0.0)]
        due: Flushed = []
        for sample in range(SAMPLES):
            due.append(Samples(run_id, round(sample * SAMPLE_S + draw.random() / 1000, 6),
                               [("cpu", metric, draw.random() * 4) for metric in METRICS]))
            if len(due) * SAMPLE_S >= FLUSH_S:
                yield due
                due = []
        yield [*due, Stage(run_id, "finish", 51.0, 0.1), RunEnd(run_id, AT, "ok", "", 51.1)]
    yield [SessionEnd(sweep_id, AT, "finished")]


def run_name(sweep_id: str, number: int) -> str:
    return f"{sweep_id}.cell{number:04d}.1"


def make_up_sweep(folder: SweepFolder, per_line: int) -> dict[Path, list[Flushed]]:
    """What each journal of the sweep will hold."""
    draw = random.Random(1)
    journals: dict[Path, list[Flushed]] = {folder.session_journal(1): list(session_lines(folder.sweep_id, draw))}
    for number in range(RUNS):
        run_id = run_name(folder.sweep_id, number)
        journals[folder.run_journal(run_id, 1)] = list(run_lines(run_id, per_line, draw))
    return journals


def write_sweep(journals: dict[Path, list[Flushed]]) -> float:
    """Seconds to write the journals, synced to the disk."""
    started = perf_counter()
    for path, flushes in journals.items():
        journal = JournalWriter(path)
        for records in flushes:
            for record in records:
                journal.write(record)
            journal.flush()
        journal.close()
    return perf_counter() - started
