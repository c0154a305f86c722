"""Keeps the store up to date while the app is open: one thread reads journals, pages only query."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import duckdb

from store.database import Store, is_trouble
from store.ingest import ingest, ingest_people
from store.published import load_published

LOOK_EVERY_S = 0.5
ANSWERS_KEPT = 100
T = TypeVar("T")


class Activity(NamedTuple):
    """What goes on in the lab, asked of the engine's queue by whoever starts the keeper."""

    sweep_ids: list[str]
    """Sweeps in line or being measured: their journals grow."""
    measuring: bool


@dataclass
class Kept:
    """An answer for all visitors, and the state of the store that it was true of."""

    value: Any = None
    version: Hashable = None
    asking: threading.Lock = field(default_factory=threading.Lock)


class Keeper:
    """Reads new journal blocks twice a second. A page never waits for it, and a failed pass is tried again."""

    def __init__(self, store: Store, look: Callable[[], Activity]) -> None:
        self.store, self._look = store, look
        self.problems: list[str] = []
        """Journals that could not be read whole."""
        self.trouble = ""
        """Why the last pass failed; nothing when it did not."""
        self.passes = 0
        self.changes = 0
        """Grows when a pass brought something new: what was asked since is still true while it stays the same."""
        self._cursor = store.cursor()
        self._passing = threading.Lock()
        self._asking, self._answers = threading.Lock(), dict[Hashable, Kept]()
        self._followed: set[str] = set()
        self._measuring: bool | None = None
        self._stop, self._wake, self._ready = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """The published figures are there at once; the first pass, over all sweeps, takes as long as it takes."""
        load_published(self._cursor)
        self._thread.start()

    def rest(self) -> Keeper:
        """For a command, which brought the store up to date itself: no thread, and answers that stay."""
        load_published(self._cursor)
        self._ready.set()
        return self

    def wait_until_ready(self, seconds: float) -> bool:
        """Whether the first pass, over all journals there are, is done within so many seconds."""
        return self._ready.wait(seconds)

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(10)

    def catch_up(self, seconds: float = 5.0) -> None:
        """Until a pass has begun and ended after now: what was written before is then in the store."""
        target, until = self.passes + 2, time.monotonic() + seconds
        while self.passes < target and time.monotonic() < until and self._thread.is_alive():
            self._wake.set()
            time.sleep(0.01)

    def once(self, key: Hashable, make: Callable[[], T], version: Hashable = None) -> T:
        """What `make` answers, asked once however many visitors want it: until the store changes, or until `version`
        does where one is given."""
        version = self.changes if version is None else version
        with self._asking:
            if len(self._answers) >= ANSWERS_KEPT:
                self._answers.clear()
            answer = self._answers.setdefault(key, Kept())
        with answer.asking:  # others wait for this answer only
            if answer.version != version:
                answer.value, answer.version = make(), version
            return cast(T, answer.value)

    def forget(self) -> None:
        """Every kept answer is asked for anew."""
        with self._asking:
            self._answers.clear()

    def exclusively(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Something that writes to the store, between two passes."""
        with self._passing:
            try:
                return work(self._cursor)
            finally:
                self.changes += 1

    def between_passes(self, work: Callable[[], T]) -> T:
        """Something that needs the store's file at rest: nobody writes to it meanwhile."""
        with self._passing:
            return work()

    @property
    def measuring(self) -> bool:
        return bool(self._measuring)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                activity = self._look()
                self._spare_the_run(activity.measuring)
                # A sweep that has left the line since the last pass wrote its end after that pass.
                with self._passing:
                    self._pass_over(sorted(self._followed | set(activity.sweep_ids)) if self._ready.is_set() else None)
                self._followed, self.trouble = set(activity.sweep_ids), ""
                self._ready.set()
            except Exception as error:
                # Whatever it was (a full disk, say), the rows are not lost: the next pass reads the same blocks.
                if self.trouble == "":
                    traceback.print_exc()
                self.trouble = f"reading journals: {self.store.unusable(error) if is_trouble(error) else error}"
            self.passes += 1
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()

    def _pass_over(self, sweep_ids: list[str] | None) -> None:
        report = ingest(self._cursor, self.store.home, sweep_ids)
        for problem in report.problems:
            self._note(problem)
        new = report.news
        if sweep_ids is not None:
            new = ingest_people(self._cursor, self.store.home).news or new
        self.changes += new

    def _spare_the_run(self, measuring: bool) -> None:
        """While a run is measured the store gets by with one thread: its queries would be noise in the run."""
        if measuring != self._measuring:
            self._cursor.execute("SET threads = 1" if measuring else "RESET threads")
            self._measuring = measuring

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
