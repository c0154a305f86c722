"""Single runs through the real executor, without a sweep around them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from comparison import EXPERIMENTS

from engine.executor import LocalExecutor
from engine.journal import Metric, Stage, read_records
from engine.run import Outcome, RunOrder


class LoneRuns:
    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self._executor, self._number = LocalExecutor(), 0

    def measure(self, experiment: str, **params: Any) -> dict[str, float]:
        """Stages and metrics of one run that must end well, by name, in seconds."""
        self._number += 1
        journal, log = (self.folder / f"{self._number}.{ending}" for ending in ("jsonl", "log"))
        order = RunOrder(f"run{self._number}", experiment, params, journal, log, self.cache, perf_counter())
        handle = self._executor.start(order)
        said = []
        while handle.exit_code is None:
            said += handle.wait(0.2)
        said += handle.wait(0)
        handle.end_group()
        outcome = next((message for message in said if isinstance(message, Outcome)), None)
        assert outcome and outcome.status == "ok", f"{outcome}\n{log.read_text()}"
        records = read_records(journal)
        return ({record.stage: record.seconds for record in records if isinstance(record, Stage)}
                | {record.name: float(record.value) for record in records if isinstance(record, Metric)})


@contextmanager
def lone_runs() -> Iterator[LoneRuns]:
    os.environ["PHASELAB_EXPERIMENTS"] = str(EXPERIMENTS)
    # A sweep is started by -c, so its runs have no main module to import; a script's runs would import the script.
    sys.modules["__main__"].__file__ = None
    with TemporaryDirectory(prefix="phaselab-bench-") as folder:
        yield LoneRuns(Path(folder))
