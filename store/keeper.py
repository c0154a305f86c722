"""Keeps the store up to date while the app is open: one thread reads journals, pages only query."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple

from store.database import Store
from store.ingest import ingest, ingest_people
from store.published import load_published

LOOK_EVERY_S = 0.5


class Activity(NamedTuple):
    """What goes on in the lab, asked of the engine's queue by whoever starts the keeper."""

    sweep_ids: list[str]
    """Sweeps in line or being measured: their journals grow."""
    measuring: bool


class Keeper:
    """Reads new journal blocks twice a second. A page never waits for it, and a failed pass is tried again."""

    def __init__(self, store: Store, look: Callable[[], Activity]) -> None:
        self.store, self._look = store, look
        self.problems: list[str] = []
        self.passes = 0
        self._cursor = store.cursor()
        self._followed: set[str] = set()
        self._measuring: bool | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """First the published figures and a whole pass over all sweeps: the first page already shows everything."""
        load_published(self._cursor)
        self._pass_over(None)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def wait_for_pass(self, seconds: float = 5.0) -> None:
        """Until a pass has begun and ended after now: what was written before is then in the store."""
        target, until = self.passes + 2, time.monotonic() + seconds
        while self.passes < target and time.monotonic() < until:
            time.sleep(0.02)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                activity = self._look()
                self._spare_the_run(activity.measuring)
                # A sweep that has left the line since the last pass wrote its end after that pass.
                self._pass_over(sorted(self._followed | set(activity.sweep_ids)))
                self._followed = set(activity.sweep_ids)
            except Exception as error:
                # Whatever it was (a full disk, say), the rows are not lost: the next pass reads the same blocks.
                traceback.print_exc()
                self._note(f"reading journals: {type(error).__name__}: {error}")
            self.passes += 1

    def _pass_over(self, sweep_ids: list[str] | None) -> None:
        for problem in ingest(self._cursor, self.store.home, sweep_ids).problems:
            self._note(problem)
        if sweep_ids is not None:
            ingest_people(self._cursor, self.store.home)

    def _spare_the_run(self, measuring: bool) -> None:
        """While a run is measured the store gets by with one thread: its queries would be noise in the run."""
        if measuring != self._measuring:
            self._cursor.execute("SET threads = 1" if measuring else "RESET threads")
            self._measuring = measuring

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
