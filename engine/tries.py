"""One try in a process of its own: what it does to memory ends with it, and however it ends the run goes on.

The child is forked from the run's process, which has torch loaded and has computed nothing; it stays in the run's
process group and ends with it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any, Literal, NamedTuple

from engine.machine import oom_kill_count
from engine.run import classify

LOOK_EVERY_S = 0.25


class Tried(NamedTuple):
    """How a try ended. `answer` is what its work returned; None unless it was done."""

    outcome: Literal["done", "oom", "failed"]
    reason: str
    answer: Any
    seconds: float


def try_alone(work: Callable[[], Any], limit_s: float, alive: Callable[[], None]) -> Tried:
    """Call `work` in a child and wait for it. Only an out-of-memory error is `oom`; a crash, a signal, an exit or
    silence beyond the limit is `failed`. `alive` is called while it runs: its own limit ends a try that hangs."""
    started = perf_counter()
    kills_before = oom_kill_count()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(work, ours, theirs))
    said: tuple[str, str, Any] | None = None
    hung = False
    try:
        child.start()
        theirs.close()
        while not hung:
            if ours.poll(LOOK_EVERY_S):
                said = _receive(ours)
                break
            alive()
            hung = perf_counter() - started > limit_s
        if not hung:
            child.join(10)  # it has spoken, or its end of the pipe is gone: nothing is left to do but to end
    finally:
        if child.is_alive():
            child.kill()
        if child.pid is not None:
            child.join()
        ours.close()
    seconds = perf_counter() - started
    if hung:
        return Tried("failed", f"hung: not done after {limit_s:g} s", None, seconds)
    if said is None:
        return Tried(*_judge(child.exitcode, kills_before), None, seconds)
    status, reason, answer = said
    return Tried("done" if status == "done" else "oom" if status == "oom" else "failed", reason, answer, seconds)


def _receive(ours: Connection) -> tuple[str, str, Any] | None:
    try:
        said: tuple[str, str, Any] = ours.recv()
    except EOFError:
        return None
    return said


def _judge(exit_code: int | None, kills_before: int | None) -> tuple[Literal["oom", "failed"], str]:
    """A child that said nothing. The kernel's kill is out of memory only where the kernel counted one."""
    kills = oom_kill_count()
    if exit_code == -signal.SIGKILL and None not in (kills, kills_before) and kills > kills_before:  # type: ignore[operator]
        return "oom", "killed by the kernel for memory"
    if exit_code is not None and exit_code < 0:
        return "failed", f"crashed with {signal.Signals(-exit_code).name}"
    return "failed", f"ended with exit status {exit_code}, without a result"


def _in_child(work: Callable[[], Any], ours: Connection, theirs: Connection) -> None:
    ours.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the run's handler raises an exception that is the run's own
    threading.Thread(target=_end_with_run, args=(theirs,), daemon=True).start()
    try:
        said: tuple[str, str, Any] = ("done", "", work())
    except Exception as error:
        traceback.print_exc()
        said = (*classify(error), None)
    sys.stdout.flush()
    sys.stderr.flush()
    theirs.send(said)


def _end_with_run(theirs: Connection) -> None:
    """The run says nothing: this read returns only when its process is gone or has what it wanted."""
    try:
        theirs.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
