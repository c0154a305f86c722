"""A try in a process of its own: only running out of memory is that, everything else is a failure with its message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from engine.home import PROJECT
from engine.tries import try_alone


def refuse_memory() -> None:
    import torch

    torch.empty(2**62, dtype=torch.uint8)


def raise_cuda_error() -> None:
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


def raise_value_error() -> None:
    raise ValueError("Expected more than 1 value\nand more lines")


@pytest.mark.parametrize(("work", "outcome", "reason"), [
    (refuse_memory, "oom", "can't allocate memory"),
    (raise_cuda_error, "oom", "CUDA out of memory"),
    (raise_value_error, "failed", "ValueError: Expected more than 1 value"),
    (lambda: os.kill(os.getpid(), signal.SIGSEGV), "failed", "crashed with SIGSEGV"),
    (lambda: os.kill(os.getpid(), signal.SIGKILL), "failed", "crashed with SIGKILL"),
    (lambda: os._exit(3), "failed", "exit status 3"),
])
def test_how_a_try_ends(work: Callable[[], Any], outcome: str, reason: str) -> None:
    tried = try_alone(work, 100, lambda: None)
    assert (tried.outcome, tried.answer) == (outcome, None)
    assert reason in tried.reason and "\n" not in tried.reason


def test_an_answer_comes_back() -> None:
    tried = try_alone(lambda: {"pid": os.getpid(), "group": os.getpgrp()}, 100, lambda: None)
    assert tried.outcome == "done"
    assert tried.answer["pid"] != os.getpid() and tried.answer["group"] == os.getpgrp()


def test_a_try_that_hangs_is_ended_and_failed() -> None:
    signs: list[float] = []
    others = psutil.Process().children(recursive=True)  # of earlier tests
    tried = try_alone(lambda: time.sleep(1000), 1, lambda: signs.append(1))
    assert tried.outcome == "failed" and "hung: not done after 1 s" in tried.reason
    assert signs and not [child for child in psutil.Process().children(recursive=True) if child not in others]


def test_a_try_ends_with_its_run() -> None:
    code = ("import os, time; from engine.tries import try_alone\n"
            "try_alone(lambda: (print(os.getpid(), flush=True), time.sleep(1000)), 1000, lambda: None)")
    with subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        child = psutil.Process(int(run.stdout.readline()))
        run.kill()
    child.wait(60)
