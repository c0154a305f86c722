"""Opening the store. One process holds it at a time; everyone else is told who, or reads the journals instead."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from engine.files import try_lock
from engine.home import Home
from store.ingest import Report, ingest
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
        self._ingesting = threading.Lock()

    @classmethod
    def open(cls, home: Home, threads: int | None = None) -> Store:
        """The store on disk, for this process alone. Raises StoreHeld when another process has it."""
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
            return cls._open_locked(home, lock, {"threads": threads} if threads else {})
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def _open_locked(cls, home: Home, lock: int, config: dict[str, Any]) -> Store:
        connection = None
        try:
            connection = duckdb.connect(str(home.store), config=config)
            migrate(connection)
            return cls(home, connection, lock)
        except NewerStore as newer:
            assert connection
            connection.close()
            raise StoreUnusable(f"the store {home.store} {newer}; update this project, or set PHASELAB_HOME to "
                                "another folder") from None
        except duckdb.Error as error:
            if connection:
                connection.close()
            if not os.access(home.store, os.W_OK) or shutil.disk_usage(home.root).free < SPACE_NEEDED_BYTES:
                raise StoreUnusable(f"the store {home.store} cannot be opened ({_first_line(error)}); "
                                    "make it writable and make room on the disk") from None
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
        store.ingest(sweep_ids)
        return store

    def ingest(self, sweep_ids: Iterable[str] | None = None) -> Report:
        with self._ingesting:
            return ingest(self.connection, self.home, sweep_ids)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self.connection.cursor()

    def close(self) -> None:
        self.connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def set_aside(home: Home) -> Path:
    """Move the database and its log out of the way, under a name that says when."""
    aside = home.store.with_name(f"{home.store.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
    home.store.rename(aside)
    log = home.store.with_name(home.store.name + ".wal")
    if log.exists():
        log.rename(aside.with_name(aside.name + ".wal"))
    return aside


def delete_store(home: Home) -> None:
    """For a rebuild: the journals are the evidence, the database is only made of them."""
    for path in (home.store, home.store.with_name(home.store.name + ".wal")):
        path.unlink(missing_ok=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _holder_pid(holder: Path) -> int | None:
    try:
        return int(json.loads(holder.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None
