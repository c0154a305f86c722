"""The machine's queue: which sweep measures next. Shared by the browser and the command line, one list per lab,
and one lock per machine so that two labs do not measure at the same time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from engine.files import locked, try_lock, write_atomically
from engine.home import Home
from engine.moment import utc_now

State = Literal["waiting", "measuring"]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    sweep_id: str
    state: State = "waiting"
    paused: bool = False


class Queue(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[Entry] = []
    paused: bool = False

    def find(self, sweep_id: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.sweep_id == sweep_id), None)


def read_queue(home: Home) -> Queue:
    """The line as it is. A file that cannot be read counts as empty: every waiting sweep gets in line again itself."""
    try:
        return msgspec.json.decode(home.queue.read_bytes(), type=Queue)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return Queue()


def _set_aside_if_damaged(home: Home) -> None:
    try:
        msgspec.json.decode(home.queue.read_bytes(), type=Queue)
    except FileNotFoundError:
        return
    except (msgspec.MsgspecError, UnicodeDecodeError):
        home.queue.rename(home.queue.with_name(f"{home.queue.name}.damaged-{utc_now()}"))


@contextmanager
def editing(home: Home) -> Iterator[Queue]:
    """The queue, to be changed in place: one editor at a time, replaced atomically."""
    home.root.mkdir(parents=True, exist_ok=True)
    with locked(home.root / "queue.lock"):
        _set_aside_if_damaged(home)
        queue = read_queue(home)
        yield queue
        write_atomically(home.queue, msgspec.json.encode(queue))


def enqueue(home: Home, sweep_id: str) -> None:
    with editing(home) as queue:
        if not queue.find(sweep_id):
            queue.entries.append(Entry(sweep_id))


def leave(home: Home, sweep_id: str) -> None:
    with editing(home) as queue:
        queue.entries = [entry for entry in queue.entries if entry.sweep_id != sweep_id]


def move(home: Home, sweep_id: str, position: int) -> None:
    """Put a sweep at a place in the line, 0 being next."""
    with editing(home) as queue:
        if entry := queue.find(sweep_id):
            queue.entries.remove(entry)
            queue.entries.insert(position, entry)


def pause(home: Home, sweep_id: str | None, paused: bool = True) -> None:
    """Pause or continue one sweep, or the whole queue. A run that is being measured is finished first."""
    with editing(home) as queue:
        if sweep_id is None:
            queue.paused = paused
        elif entry := queue.find(sweep_id):
            entry.paused = paused


def is_paused(queue: Queue, sweep_id: str) -> bool:
    entry = queue.find(sweep_id)
    return queue.paused or bool(entry and entry.paused)


def is_next(queue: Queue, sweep_id: str) -> bool:
    """First in line among those that wait and are not paused, and nobody of this lab is measuring."""
    if queue.paused or any(entry.state == "measuring" for entry in queue.entries if entry.sweep_id != sweep_id):
        return False
    waiting = [entry.sweep_id for entry in queue.entries if not entry.paused]
    return bool(waiting) and waiting[0] == sweep_id


class MachineLock:
    """Held while a sweep measures. A lock file, so that the kernel releases it however its holder ends."""

    def __init__(self, path: Path | None = None) -> None:
        default = Path(tempfile.gettempdir()) / "phaselab-measuring.lock"
        self._path = path or Path(os.environ.get("PHASELAB_MACHINE_LOCK") or default)
        self._file: int | None = None

    def try_to_take(self) -> bool:
        if self._file is None:
            self._file = try_lock(self._path)
        return self._file is not None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
