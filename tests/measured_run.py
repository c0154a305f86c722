"""A run of an experiment inside this process: real journal, real recorder, and what was written to it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from engine.journal import Batches, Effective, JournalWriter, Metric, Stage, read_records
from engine.recorder import Recorder


class MeasuredRun:
    def __init__(self, folder: Path, cache: Path) -> None:
        self.journal = JournalWriter(folder / "runs" / "r.1.jsonl")
        self.recorder = Recorder("r", self.journal, perf_counter(), lambda stage: None, folder / "runs", cache)

    def records(self, kind: type[Any]) -> list[Any]:
        self.journal.close()
        return [record for record in read_records(self.journal.path) if isinstance(record, kind)]

    def metrics(self) -> dict[str, Any]:
        return {record.name: record.value for record in self.records(Metric)}

    def stages(self) -> list[str]:
        return [record.stage for record in self.records(Stage)]

    def effective(self) -> dict[str, Any]:
        return {name: value for record in self.records(Effective) for name, value in record.values.items()}

    def phase_names(self) -> set[str]:
        return {phase.phase for record in self.records(Batches) for phase in record.phases}

    def items(self) -> list[int]:
        return [items for record in self.records(Batches) for items in record.items]
