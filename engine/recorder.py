"""What an experiment writes its measurements to: stages, the clock, metrics, what took effect, files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from engine.clock import Clock
from engine.devices import clock_device
from engine.journal import Batches, Effective, Event, File, JournalWriter, Metric, Samples, Stage
from engine.moment import utc_now

STAGES = ("start_process", "prepare_data", "init_model", "load_state", "model_to_device", "warm_up", "measure",
          "measure_memory", "score", "validate", "profile", "finish")


class Skip(Exception):
    """Raised by an experiment that cannot run on this machine; its text is the reason."""


class Recorder:
    """One run's measurements. All times are relative to `origin`, the moment the run was asked for."""

    def __init__(self, run_id: str, journal: JournalWriter, origin: float, tell: Callable[[str], None],
                 folder: Path, cache: Path) -> None:
        self.run_id, self.origin, self.folder, self.cache = run_id, origin, folder, cache
        self._journal, self._tell = journal, tell
        self.last_stage_end = origin
        self._started = False
        self._measured_from = origin

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A part of the run's life, measured once. A stage that fails is not written: it has no length."""
        assert name in STAGES, f"{name} is not a stage; stages are {', '.join(STAGES)}"
        self._tell(name)
        start = self._begin_stage()
        yield
        self.stage_ended(name, start, perf_counter())

    def _begin_stage(self) -> float:
        """Now. Everything before the first stage, settings and the choice of a device included, is the start."""
        now = perf_counter()
        if not self._started:
            self._started = True
            self.stage_ended("start_process", self.origin, now)
            now = perf_counter()
        return now

    def stage_ended(self, name: str, start: float, end: float) -> None:
        self.last_stage_end = end
        self._journal.write(Stage(self.run_id, name, round(start - self.origin, 9), round(end - start, 9)))
        self._journal.flush()

    @contextmanager
    def measure(self, device: str = "cpu", isolated: bool = False) -> Iterator[Clock]:
        """The stage `measure`: gives the clock, and ends with the metrics that only the whole window has."""
        clock = Clock(self.run_id, self.origin, clock_device(device), isolated, self._deliver, self._journal.flush_due)
        self._tell("measure")
        self._measured_from = self._begin_stage()
        try:
            clock.start()
            yield clock
            end_to_end_s = clock.stop()
        except BaseException:
            # What was measured before a failure is kept; the window itself has no end-to-end time then.
            clock.flush_after_failure()
            raise
        self.stage_ended("measure", self._measured_from, perf_counter())
        self.metric("end_to_end_s", end_to_end_s, "s")
        self.metric("batches", clock.batches, "batches")
        self.metric("items", clock.items, "items")

    @contextmanager
    def aside(self, name: str, clock: Clock) -> Iterator[None]:
        """A stage between batches of the measured window, and no part of it: validation after an epoch, the next
        model. The clock stands still; `measure` ends before it and goes on after it as another piece."""
        self.stage_ended("measure", self._measured_from, clock.pause())
        with self.stage(name):
            yield
        self._tell("measure")
        self._measured_from = clock.go_on()

    def metric(self, name: str, value: float, unit: str = "") -> None:
        """One scalar result; seconds, bytes, items and per-second values carry their unit."""
        number = float(value)  # also what numpy and torch call a number
        self._journal.write(Metric(self.run_id, name, number if math.isfinite(number) else str(number), unit))

    def sample(self, device: str, at: float | None = None, **readings: float) -> None:
        """Readings of one moment (`at` on perf_counter's clock; now if not given), as telemetry keeps them: for results
        that come one after the other, where a metric has room for one. What is not finite (the loss of a training that
        ran away) is left out: a journal holds numbers, and a gap in a curve says it too."""
        time_s = (perf_counter() if at is None else at) - self.origin
        if finite := [(device, name, float(value)) for name, value in readings.items() if math.isfinite(value)]:
            self._journal.write(Samples(self.run_id, round(time_s, 9), finite))

    def event(self, text: str) -> None:
        """Something worth telling a person about this run."""
        self._journal.write(Event(utc_now(), text, run_id=self.run_id))
        self._journal.flush()

    def effective(self, **values: Any) -> None:
        """What took effect, where it was left open or may differ from what was asked."""
        self._journal.write(Effective(self.run_id, values))

    def keep_file(self, path: Path, title: str) -> None:
        """A file inside the run's folder that belongs to its results."""
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(f"{path} is not inside the run's folder {self.folder}; write it there")
        self._journal.write(File(self.run_id, os.path.relpath(path, self.folder.parent), title, path.stat().st_size))

    def flush(self) -> None:
        """Everything so far into the journal: before another process of the run writes to it, or goes."""
        self._journal.flush()

    def alive(self) -> None:
        """Long work without batches says so, or the run counts as hung."""
        self._tell("")

    def _deliver(self, batches: Batches) -> None:
        self._journal.write(batches)
        self._journal.flush()
        self._tell("")
