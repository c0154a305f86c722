"""The app as a real process on a lab of its own: started, killed, started again, ended by its id."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from driven_lab import Lab

from engine.home import PROJECT, SweepFolder
from engine.launch import wait_until_ended
from engine.sweep_state import process_alive, read_process

PATIENCE_S = 120.0
"""The machine may be busy with other work: long enough that only a fault takes longer."""
ADDRESS = re.compile(r"PhaseLab is at (http://127\.0\.0\.1:(\d+))\b")


def wait_for(true: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"did not come about: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class App:
    """`lab.py app` on one lab. Restarted, it listens at the same address, so that a link stays a link."""

    def __init__(self, folder: Path, images: Path, **environment: str) -> None:
        self.lab, self.folder = Lab.at(folder), folder
        self.lab.home.root.mkdir(parents=True)
        self.lab.home.cache.symlink_to(images)
        # What the caller's shell has set must not reach the app under test.
        for name in ("PHASELAB_VIEWER", "PORT"):
            self.lab.environment.pop(name, None)
        self.lab.environment.update(environment)
        self.port: int | None = free_port()
        self.url, self.starts = "", 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"app-{self.starts}.log"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the app was not started"
        return self.process.pid

    def start(self) -> App:
        self.starts += 1
        with self.log.open("wb") as log:
            asked = ["--port", str(self.port)] if self.port else []
            self.process = subprocess.Popen([sys.executable, "lab.py", "app", *asked], cwd=PROJECT, stdout=log,
                                            stderr=log, env=self.lab.environment, stdin=subprocess.DEVNULL)
        wait_for(self._answers, f"the app answers; see {self.log}")
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the app ended: {self.log.read_text()}"
        said = ADDRESS.search(self.log.read_text())
        if not said:
            return False
        self.url, self.port = said[1], int(said[2])
        try:
            with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """As the kernel or a careless person does it: no time to say goodbye."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def end(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def close(self) -> None:
        """End the app and whatever it started."""
        self.end()
        for folder in self.sweeps():
            if process_alive(folder):
                os.kill(read_process(folder)["pid"], signal.SIGKILL)
                wait_until_ended(folder, 10)

    def sweeps(self) -> list[SweepFolder]:
        return [self.lab.home.sweep(sweep_id) for sweep_id in self.lab.home.sweep_ids()]
