"""Where runs execute. One small interface, so that a cluster can take the place of this machine later."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from typing import Any, Protocol

import psutil

from engine.run import Outcome, RunOrder, Sign, run_process

SAME_START_S = 1.0
"""Start times of one process, read twice, differ by the kernel's clock tick and small corrections of the wall clock."""


class RunHandle(Protocol):
    """A run that was started."""

    pid: int
    process_started_s: float

    def wait(self, timeout_s: float) -> list[Sign | Outcome]:
        """What the run has said since the last call; returns early when it speaks or ends."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs, negative for a signal."""

    def ask_to_stop(self) -> None: ...

    def end_group(self) -> None:
        """End the run and everything it started, at once."""


class Executor(Protocol):
    def start(self, order: RunOrder) -> RunHandle: ...

    def ask(self, function: Callable[..., None], *arguments: Any) -> RunHandle:
        """Call `function(*arguments, link)` in a fresh process; it answers over the link."""


class LocalExecutor:
    """Fresh processes on this machine, forked from a server that has torch loaded and nothing else done."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["engine.preload"])

    def start(self, order: RunOrder) -> LocalRun:
        return self.ask(run_process, order)

    def ask(self, function: Callable[..., None], *arguments: Any) -> LocalRun:
        """Call `function(*arguments, link)` in a fresh process; it answers over the link."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=function, args=(*arguments, theirs), daemon=False)
        process.start()
        theirs.close()
        return LocalRun(process, ours)


class LocalRun:
    def __init__(self, process: ForkServerProcess, link: connection.Connection) -> None:
        assert process.pid
        self.pid = process.pid
        self.process_started_s = _start_time(process.pid)
        self._process, self._link = process, link
        self._link_open = True

    def wait(self, timeout_s: float) -> list[Any]:
        watched: list[Any] = [self._process.sentinel]
        if self._link_open:
            watched.append(self._link)
        connection.wait(watched, timeout_s)
        said = []
        try:
            while self._link_open and self._link.poll():
                said.append(self._link.recv())
        except (EOFError, OSError):
            # Its end of the pipe is gone; the exit code says why.
            self._link_open = False
        return said

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def ask_to_stop(self) -> None:
        if self.exit_code is None:
            self._process.terminate()

    def end_group(self) -> None:
        end_process_group(self.pid, self.process_started_s)
        if self.exit_code is None:
            self._process.kill()
            self._process.join(5)


def end_process_group(pid: int, process_started_s: float) -> bool:
    """Kill what is left of a run's process group, if it is still that run's. Returns whether anything was there.

    The group's number is the run's process id. While a leader of that number lives, its start time must match; when
    the leader is gone, the kernel does not give the number away as long as the group has members.
    """
    if psutil.pid_exists(pid) and abs(_start_time(pid) - process_started_s) >= SAME_START_S:
        return False
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def same_process(pid: int, process_started_s: float) -> bool:
    """Whether this id still belongs to the process that had it then, and it is not a zombie."""
    try:
        process = psutil.Process(pid)
        started_alike = abs(process.create_time() - process_started_s) < SAME_START_S
        return started_alike and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _start_time(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        # It ended before anyone looked; no living process can match this.
        return 0.0
