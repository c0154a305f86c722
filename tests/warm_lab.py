"""Processes for lab.py that begin with its imports done: a server that has them forks one for every command.

Each is a process of its own, with its own environment, output and exit status, as from a shell. Only the half second
that Python and the imports take is paid once per session instead of several hundred times.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
AT_START = ("LD_", "PYTHON", "GLIBC_", "LANG", "LC_", "TZ")
"""Variables that a process reads when it starts or not at all."""


class WarmLab:
    """Started with the first command. It ends when this process does, because nobody holds its input any more."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._started_with: dict[str, str] = {}
        self._writing = threading.Lock()

    def can_run(self, environment: dict[str, str]) -> bool:
        """Whether it is the same for what is read before the fork, such as the paths of libraries."""
        self._start()
        return _read_at_start(environment) == self._started_with

    def call(self, arguments: tuple[str, ...], environment: dict[str, str], limit_s: float) -> tuple[int, str, str]:
        server = self._start()
        assert server.stdin
        with tempfile.TemporaryDirectory() as folder:
            out, err, status = (Path(folder) / name for name in ("out", "err", "status"))
            with self._writing:
                server.stdin.write(json.dumps({"arguments": arguments, "environment": environment,
                                               "folder": folder}) + "\n")
                server.stdin.flush()
            until = time.monotonic() + limit_s
            while not status.exists():
                assert server.poll() is None, "the server of warm processes ended"
                if time.monotonic() > until:
                    raise subprocess.TimeoutExpired(["lab.py", *arguments], limit_s)
                time.sleep(0.005)
            return int(status.read_text()), out.read_text(), err.read_text()

    def _start(self) -> subprocess.Popen[str]:
        with self._writing:
            if self._server is None:
                self._started_with = _read_at_start(dict(os.environ))
                # One thread: a process with several is forked at its own risk.
                self._server = subprocess.Popen(
                    [sys.executable, __file__], cwd=PROJECT, text=True, stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
            return self._server


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START)}


def serve() -> None:
    """Returns in a process that is to be a command, with everything in place for it; and when there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if command := os.fork():
                _write_status(asked["folder"], os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]))
                os._exit(0)
            _become(asked)
            return
    os._exit(0)


def _write_status(folder: str, code: int) -> None:
    """Whole or not at all: the reader takes what it finds."""
    part = Path(folder) / "part"
    part.write_text(str(code))
    part.rename(Path(folder) / "status")


def _become(asked: dict[str, Any]) -> None:
    for number, name in ((0, os.devnull), (1, f"{asked['folder']}/out"), (2, f"{asked['folder']}/err")):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = os.fdopen(0)  # the old one may have read ahead
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["lab.py", *asked["arguments"]]


if __name__ == "__main__":
    sys.path[0] = str(PROJECT)
    import lab

    serve()
    lab.main()
