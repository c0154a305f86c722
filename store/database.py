"""Opening the store. One process holds it at a time; everyone else is told who, or reads the journals instead."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeGuard

import duckdb

from engine.files import try_lock
from engine.home import Home
from store.ingest import Report, ingest, ingest_people
from store.schema import NewerStore, migrate

SPACE_NEEDED_BYTES = 16 * 2**20


class StoreHeld(Exception):
    """Another process has the store open."""

    def __init__(self, path: Path, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"the store {path} is open in {who}; close the app there, or wait until it is done")
        self.pid = pid


class StoreUnusable(Exception):
    """The store cannot be opened for a reason that a person has to remove: rights, space, a newer version."""


class Store:
    """The lab's database. `connection` belongs to the thread that made the store; others take a `cursor`."""

    def __init__(self, home: Home, connection: duckdb.DuckDBPyConnection, lock: int | None) -> None:
        self.home, self.connection, self._lock = home, connection, lock
        self.notice = ""
        """What a person should know about how the store was opened."""
        self._ingesting, self._making_cursors = threading.Lock(), threading.Lock()

    @classmethod
    def open(cls, home: Home, threads: int | None = None, anew: bool = False) -> Store:
        """The store on disk, for this process alone. Raises StoreHeld when another process has it.

        `anew` deletes the database first: the journals are the evidence, it is only made of them.
        """
        holder = home.store.with_suffix(".holder")
        try:
            home.root.mkdir(parents=True, exist_ok=True)
            lock = try_lock(holder)
        except OSError as error:
            raise StoreUnusable(f"the lab's folder {home.root} cannot be written ({error.strerror}); "
                                "make it writable or set PHASELAB_HOME to another folder") from None
        if lock is None:
            raise StoreHeld(home.store, _holder_pid(holder))
        try:
            os.ftruncate(lock, 0)
            os.write(lock, json.dumps({"pid": os.getpid()}).encode())
            if anew:
                delete_store(home)
            return cls._open_locked(home, lock, {"threads": threads} if threads else {})
        except OSError as error:
            os.close(lock)
            raise StoreUnusable(f"the lab's folder {home.root} cannot be written ({error.strerror}); make room on the "
                                "disk or set PHASELAB_HOME to another folder") from None
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def _open_locked(cls, home: Home, lock: int, config: dict[str, Any]) -> Store:
        if not home.store.exists():
            _damage_note(home).unlink(missing_ok=True)  # someone removed the damaged file; the note was about that one
        reason = _damage_noted(home)
        if not reason:
            connection = None
            try:
                connection = duckdb.connect(str(home.store), config=config)
                migrate(connection)
                return cls(home, connection, lock)
            except (duckdb.Error, NewerStore) as error:
                if connection:
                    connection.close()
                if isinstance(error, NewerStore):
                    raise StoreUnusable(f"the store {home.store} {error}; update this project, or set PHASELAB_HOME to "
                                        "another folder") from None
                raise_if_not_damage(home, error)
                reason = _first_line(error)
        # The file or its log is damaged. The journals hold everything: set it aside and build it again.
        aside = set_aside(home)
        connection = duckdb.connect(str(home.store), config=config)
        migrate(connection)
        store = cls(home, connection, lock)
        report = store.ingest()
        store.notice = (f"the store was damaged ({reason}); it is kept as {aside.name} and was built again from the "
                        f"journals: {report.rows} rows" + "".join(f"; {problem}" for problem in report.problems))
        return store

    @classmethod
    def in_memory(cls, home: Home, sweep_ids: Iterable[str]) -> Store:
        """A temporary store of these sweeps from their journals, while another process has the real one."""
        connection = duckdb.connect(":memory:")
        migrate(connection)
        store = cls(home, connection, None)
        problems = store.ingest(sweep_ids).problems + ingest_people(connection, home).problems
        store.notice = "; ".join(problems)
        return store

    def ingest(self, sweep_ids: Iterable[str] | None = None) -> Report:
        """Read what is new in the journals. Raises StoreUnusable when the disk is full or the file is damaged."""
        try:
            with self._ingesting:
                return ingest(self.connection, self.home, sweep_ids)
        except duckdb.Error as error:
            if not is_trouble(error):
                raise
            raise self.unusable(error) from None

    def unusable(self, error: duckdb.Error) -> StoreUnusable:
        """What to tell after such an error. Damage is noted, so that whoever opens the store next builds it again."""
        try:
            raise_if_not_damage(self.home, error)
        except (StoreUnusable, StoreHeld) as reason:
            return StoreUnusable(str(reason))
        if self._lock is not None:
            _damage_note(self.home).write_text(_first_line(error))
        return StoreUnusable(f"the store {self.home.store} is damaged ({_first_line(error)}); ask again, and it is set "
                             "aside and built again from the journals")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """For one thread. DuckDB refuses two calls on one connection at one moment: cursors are made one by one."""
        with self._making_cursors:
            return self.connection.cursor()

    def close(self) -> None:
        try:
            self.connection.close()
        except duckdb.ResourceInUseException:
            pass  # some thread is still asking: the process ends, and whoever opens the file next replays its log
        except duckdb.Error as error:
            raise self.unusable(error) from None
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        unusable = self.unusable(error) if isinstance(error, duckdb.Error) and is_trouble(error) else None
        try:
            self.close()
        except StoreUnusable:
            if error is None:
                raise
        if unusable:
            raise unusable from None



def try_reading(home: Home, sweep_id: str) -> str:
    """What stands in the way of reading a sweep into a store, tried with one that is thrown away; nothing if all is
    well. Whatever reading raises is such an obstacle: rows that came from outside must not stop every later pass."""
    try:
        with Store.in_memory(home, [sweep_id]) as store:
            return store.notice
    except Exception as error:
        return _first_line(error)


def is_trouble(error: BaseException) -> TypeGuard[duckdb.Error]:
    """An error that a sound file on a sound disk does not give; anything else is a mistake of ours."""
    kinds = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)
    if not isinstance(error, duckdb.Error):
        return False
    return isinstance(error, kinds) or any(words in str(error) for words in ("Corrupt database", "Could not write"))


def check_free(home: Home) -> None:
    """Raises StoreHeld when another process has the store; touches nothing."""
    holder = home.store.with_suffix(".holder")
    if holder.exists():
        lock = try_lock(holder)
        if lock is None:
            raise StoreHeld(home.store, _holder_pid(holder))
        os.close(lock)


def raise_if_not_damage(home: Home, error: duckdb.Error) -> None:
    """Raise what a person can do something about: another program has the file, no right to write, no space."""
    text = str(error)
    if "Could not set lock on file" in text:
        pid = re.search(r"PID (\d+)", text)
        raise StoreHeld(home.store, int(pid.group(1)) if pid else None)
    no_space = shutil.disk_usage(home.root).free < SPACE_NEEDED_BYTES or "No space left" in text
    if no_space or (home.store.exists() and not os.access(home.store, os.W_OK)):
        raise StoreUnusable(f"the store {home.store} cannot be written ({_first_line(error)}); make room on the disk "
                            "or set PHASELAB_HOME to another folder")


def _damage_note(home: Home) -> Path:
    return home.store.with_suffix(".damaged")


def _damage_noted(home: Home) -> str:
    try:
        return _damage_note(home).read_text()
    except FileNotFoundError:
        return ""


def set_aside(home: Home) -> Path:
    """Move the database and its log out of the way, under a name that says when."""
    aside = home.store.with_name(f"{home.store.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    home.store.rename(aside)
    log = home.store.with_name(home.store.name + ".wal")
    if log.exists():
        log.rename(aside.with_name(aside.name + ".wal"))
    _damage_note(home).unlink(missing_ok=True)
    return aside


def delete_store(home: Home) -> None:
    """Only for who holds the store."""
    for path in (home.store, home.store.with_name(home.store.name + ".wal"), _damage_note(home)):
        path.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _holder_pid(holder: Path) -> int | None:
    try:
        return int(json.loads(holder.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None
