"""Another process with the store open, told what to do line by line; for tests with a real holder and a real kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from engine.home import PROJECT, Home
from store.database import Store


class StoreProcess:
    """Opens the store; each `ingest` is answered when it is committed, unless the process is killed before."""

    def __init__(self, home: Home) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", f"import {__name__} as p; p.obey()", str(home.root)],
                                         cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._answer() == "open"

    @property
    def pid(self) -> int:
        return self._process.pid

    def _answer(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def ask_to_ingest(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("ingest\n")
        self._process.stdin.flush()

    def ingest(self) -> None:
        self.ask_to_ingest()
        assert self._answer() == "done"

    def kill(self) -> None:
        """kill -9: nothing is checkpointed, nothing is closed."""
        if self._process.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.communicate()


def obey() -> None:
    """The life of the other process."""
    store = Store.open(Home(Path(sys.argv[1])))
    print("open", flush=True)
    for _ in sys.stdin:
        # Sweep by sweep, so that there are several transactions to be killed in.
        for sweep_id in store.home.sweep_ids():
            store.ingest([sweep_id])
        store.ingest()
        print("done", flush=True)
