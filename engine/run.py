"""The run process: one fresh process, one run of one experiment, ended together with the sweep that asked for it."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, sleep
from types import FrameType
from typing import Any, NamedTuple

from engine import registry
from engine.journal import JournalWriter
from engine.recorder import Recorder, Skip

TELL_EVERY_S = 0.5


@dataclass(frozen=True)
class RunOrder:
    """What a run process is told. `requested_at` is the sweep's perf_counter: one monotonic clock per machine."""

    run_id: str
    experiment: str
    params: dict[str, Any]
    journal: Path
    log: Path
    cache: Path
    requested_at: float


class Sign(NamedTuple):
    """Run to sweep: still alive, now in this stage (empty: the same one)."""

    stage: str


class Outcome(NamedTuple):
    """Run to sweep: how it ended, and since when it has only been cleaning up."""

    status: str
    reason: str
    finish_from: float


class Cancelled(BaseException):
    """The sweep asked this run to stop. Not an Exception: an experiment must not swallow it."""


def run_process(order: RunOrder, link: Connection) -> None:
    """Entry point in the fresh process."""
    own_group(link)
    signal.signal(signal.SIGTERM, raise_cancelled)
    log_to(order.log)
    journal = JournalWriter(order.journal)
    recorder = Recorder(order.run_id, journal, order.requested_at, Teller(link), order.journal.parent, order.cache)
    try:
        outcome = _measure_safely(order, recorder)
        journal.close()
    except OSError as error:
        outcome = Outcome("failed", f"the journal could not be written: {error}", perf_counter())
    sys.stdout.flush()
    sys.stderr.flush()
    link.send(outcome)


def own_group(link: Connection) -> None:
    """A process group of its own, so that loader workers end with it; and an end to all of it with the sweep's."""
    os.setsid()
    threading.Thread(target=_end_with_sweep, args=(link,), daemon=True).start()


def _measure_safely(order: RunOrder, recorder: Recorder) -> Outcome:
    """torch raises from a SIGCHLD handler when a loader worker dies: at any moment, also while another error is being
    handled. The handler is taken away as soon as there is an outcome, and what it raised before that is one."""
    try:
        outcome = _measure(order, recorder)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    except Exception as error:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        outcome = Outcome(*classify(error), perf_counter())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it has ended: too late to cancel, and the journal is to be closed
    return outcome


def _measure(order: RunOrder, recorder: Recorder) -> Outcome:
    try:
        experiment = registry.find(order.experiment)
        params = experiment.Params.model_validate(order.params)
        experiment.run(params, recorder)
    except Cancelled:
        return Outcome("cancelled", "cancelled while it ran", perf_counter())
    except Skip as reason:
        return Outcome("skipped", str(reason), perf_counter())
    except Exception as error:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        traceback.print_exc()
        return Outcome(*classify(error), perf_counter())
    return Outcome("ok", "", recorder.last_stage_end)


_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|\w+_ALLOC_FAILED|OutOfMemory", re.IGNORECASE)
_WORKER_KILLED = re.compile(
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (is killed by signal: Killed|exited unexpectedly)")


def classify(error: Exception) -> tuple[str, str]:
    """Status and reason of a run that raised. Out of memory has many faces; only those are `oom`."""
    text = _one_line(error)
    if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError):
        return "oom", text
    if isinstance(error, OSError) and (error.errno == errno.ENOMEM or f"[Errno {errno.ENOMEM}]" in text):
        return "oom", text
    if isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)):
        return "oom", text
    if isinstance(error, RuntimeError) and (found := _WORKER_KILLED.search(str(error))):
        return "killed", f"a loader worker was killed: {found.group(0)}"
    if isinstance(error, ConnectionError | EOFError) and (worker := _killed_child()):
        return "killed", f"a loader worker was killed: process {worker} ({text})"
    return "failed", text


def _one_line(error: Exception) -> str:
    """Type and first line. torch raises a worker's error anew as its whole traceback: there the line behind that."""
    lines = str(error).strip().splitlines() or ["no message"]
    if lines[0].startswith("Caught ") and "DataLoader worker" in lines[0]:
        inside = max((at for at, line in enumerate(lines) if line.startswith("  ")), default=len(lines) - 2)
        return f"{lines[min(inside + 1, len(lines) - 1)]} (in a loader worker)"
    return f"{type(error).__name__}: {lines[0]}"


def _killed_child() -> int | None:
    """A child that was killed and that nobody has collected yet. A loader sees its pipe close a moment before."""
    until = perf_counter() + 0.5
    while perf_counter() < until:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if found and found.si_code == os.CLD_KILLED and found.si_status == signal.SIGKILL:
            return int(found.si_pid)
        sleep(0.01)
    return None


class Teller:
    """Signs of life to the sweep, at most two a second, so that telling costs nothing."""

    def __init__(self, link: Connection) -> None:
        self._link, self._told_at = link, 0.0

    def __call__(self, stage: str) -> None:
        now = perf_counter()
        if stage or now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            self._link.send(Sign(stage))


def _end_with_sweep(link: Connection) -> None:
    """The sweep sends nothing: this read returns only when its process is gone, and then the whole group goes."""
    try:
        link.recv_bytes()
    except (EOFError, OSError):
        os.killpg(os.getpgrp(), signal.SIGKILL)


def raise_cancelled(signum: int, frame: FrameType | None) -> None:
    raise Cancelled


def log_to(path: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
