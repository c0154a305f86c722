"""The SQL console as the app sees it: a snapshot of the store, a process per question, answers kept.

The snapshot is a copy of the file, made between two passes of the keeper, when nobody writes. It is made when somebody
asks and the store has changed since the last one; while a run is measured, at most once a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from store.keeper import Keeper

LIMIT_S = 10.0
START_S = 60.0
"""For the process to start, on a machine that is busy; the limit is for the query."""
READY = b"ready\n"
MEMORY_BYTES = 2**30
ROWS_SHOWN = 10_000
MOST_QUERY = 20_000
AT_ONCE = max(1, min(4, len(os.sched_getaffinity(0)) - 1))
"""Questions that are answered at one time: one core is left for the app. Others wait for as long as one may take."""
RENEW_S = 60.0
"""While a run is measured: a copy keeps the disk busy."""
KEPT_BYTES = 64 * 2**20
PROCESS = Path(__file__).with_name("sql_process.py")


class _Gone(Exception):
    """The snapshot could not be opened."""


class Snapshot(NamedTuple):
    path: Path
    changes: int
    taken_at: datetime
    taken: float


class Answer(NamedTuple):
    """Rows, or one sentence why there are none."""

    problem: str
    rows: pa.Table | None = None
    total: int = 0
    counted: bool = True
    """False when counting would have taken too long: there are more than `total` rows."""
    seconds: float = 0.0
    as_of: datetime | None = None
    lasting: bool = False
    """Whether asking again would end the same: rows, or a refusal that depends on the text alone."""


class Console:
    """One for all visitors of an app."""

    def __init__(self, keeper: Keeper, limit_s: float = LIMIT_S, start_s: float = START_S) -> None:
        self._keeper, self._limit_s, self._start_s = keeper, limit_s, start_s
        self._folder = keeper.store.home.root / "console"
        shutil.rmtree(self._folder, ignore_errors=True)  # copies of an app that was killed
        self._snapshot: Snapshot | None = None
        self._copies = 0
        self._copying, self._answering = threading.Lock(), threading.BoundedSemaphore(AT_ONCE)
        self._keeping, self._kept = threading.Lock(), OrderedDict[tuple[str, str], Answer]()

    def ask(self, sql: str) -> Answer:
        """The same question about the same snapshot is answered once; what failed by chance is tried again."""
        if len(sql) > MOST_QUERY:
            return Answer(f"This query has {len(sql):,} characters, more than {MOST_QUERY:,}; shorten it.")
        try:
            snapshot = self.snapshot()
        except OSError as error:
            return Answer(f"The store could not be copied for the console ({error.strerror or error}); see to the "
                          "disk's space and rights.")
        key = (snapshot.path.name, sql.strip())
        with self._keeping:
            if kept := self._kept.get(key):
                self._kept.move_to_end(key)
                return kept
        if not self._answering.acquire(timeout=self._limit_s):
            return Answer("Other queries are running; run it again in a moment.")
        try:
            answer = self._ask(sql, snapshot)
        except _Gone:
            # Renewed for somebody else just now, or not whole: the next question is about a new copy.
            self._snapshot = None
            return Answer("The console's copy of the store was being renewed; run it again.")
        finally:
            self._answering.release()
        if answer.lasting:
            self._keep(key, answer)
        return answer

    def _keep(self, key: tuple[str, str], answer: Answer) -> None:
        with self._keeping:
            self._kept[key] = answer
            while len(self._kept) > 1 and (len(self._kept) > 100 or _size(self._kept) > KEPT_BYTES):
                self._kept.popitem(last=False)

    def _ask(self, sql: str, snapshot: Snapshot) -> Answer:
        asked = {"sql": sql, "store": snapshot.path.name, "rows": ROWS_SHOWN, "limit_s": self._limit_s,
                 "memory_bytes": MEMORY_BYTES, "start_s": max(self._start_s, 1.0)}
        # In the server's session and priority, which give way to what is measured, and with nothing of its environment.
        process = subprocess.Popen([sys.executable, "-I", str(PROCESS)], cwd=snapshot.path.parent, process_group=0,
                                   env={"LANG": "C.UTF-8"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, bufsize=0)  # a buffer would keep what follows a line
        started = False
        too_slow = threading.Timer(self._start_s, process.kill)
        too_slow.start()
        try:
            assert process.stdin and process.stdout
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asked).encode() + b"\n")
                process.stdin.flush()
            out = process.stdout.readline()  # that it is ready, or why it will not begin
            too_slow.cancel()
            started = bool(out)
            if out == READY:
                out, _ = process.communicate(timeout=self._limit_s)
        except subprocess.TimeoutExpired:
            return Answer(f"This ran longer than {self._limit_s:g} seconds and was ended; narrow it with WHERE, or "
                          "aggregate before you join.")
        finally:
            too_slow.cancel()
            process.kill()
            process.communicate()
        line, _, rest = out.partition(b"\n")
        if not started:
            return Answer(f"The query was not begun (its process has {self._start_s:g} seconds for that): the machine "
                          "is busy or short of memory; run it again in a moment.")
        if not line:
            return Answer("The query ended its process without an answer, likely for want of memory; narrow it.")
        header = json.loads(line)
        if "snapshot" in header:
            raise _Gone(header["snapshot"])
        if "error" in header:
            return Answer(header["error"], lasting=header.get("lasting", False))
        try:
            rows = pa.ipc.open_stream(rest).read_all()
        except (pa.ArrowInvalid, OSError):
            return Answer("The answer was cut off, likely for want of memory; narrow the query.")
        return Answer("", rows, header["total"], header["counted"], header["seconds"], snapshot.taken_at,
                      True)

    def snapshot(self) -> Snapshot:
        """The copy there is, or a new one where the store has changed since. Raises OSError when it cannot be made."""
        with self._copying:
            now, old = time.monotonic(), self._snapshot
            if old and old.path.exists() and (old.changes == self._keeper.changes
                                              or (self._keeper.measuring and now - old.taken < RENEW_S)):
                return old
            self._folder.mkdir(parents=True, exist_ok=True)
            self._copies += 1
            path = self._folder / f"store-{self._copies}.duckdb"
            changes = self._keeper.between_passes(lambda: self._copy(path))
            self._snapshot = Snapshot(path, changes, datetime.now(UTC), now)
            if old:
                for stale in (old.path, _log(old.path)):
                    stale.unlink(missing_ok=True)  # a process that has it open keeps it
            return self._snapshot

    def _copy(self, path: Path) -> int:
        """By another process: closing the file in this one would give up DuckDB's lock on it."""
        store = self._keeper.store.home.store
        changes = self._keeper.changes
        for source, target in ((store, path), (_log(store), _log(path))):
            target.unlink(missing_ok=True)
            if not source.exists():
                continue
            done = subprocess.run(["cp", "--reflink=auto", source, target], capture_output=True, text=True)
            if done.returncode:
                with contextlib.suppress(OSError):
                    target.unlink(missing_ok=True)
                raise OSError(0, done.stderr.strip().rpartition(": ")[2] or "cp failed")
            target.chmod(0o400)
        return changes


def _log(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _size(kept: OrderedDict[tuple[str, str], Answer]) -> int:
    return sum(answer.rows.nbytes for answer in kept.values() if answer.rows is not None)
