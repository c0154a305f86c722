"""Predicted peaks for processes that must not load torch: one short-lived helper process answers many questions, and
each answer is kept in the lab's folder, so that it is asked for once.

Predicting keeps a core busy. So it is refused while anything is measured, and a sweep that starts meanwhile waits: the
helper holds the machine's lock."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine import queue
from engine.files import locked, write_atomically
from engine.home import PROJECT, Home, whole_paths
from engine.params import InputError

ANSWER_LIMIT_S = 120.0
"""RevNet-18 takes a few seconds on a quiet machine; longer than this, something hangs."""
MOST_KEPT = 5_000
Asked = dict[str, Any]


def kept_at(home: Home) -> Path:
    return home.root / "predictions.json"


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "none"


def key_of(asked: Asked) -> str:
    return json.dumps(asked, sort_keys=True)


def read_kept(home: Home) -> dict[str, int]:
    """Peaks in bytes by key. Another torch may need other memory: its answers, like a damaged file, count as none."""
    try:
        content = json.loads(kept_at(home).read_bytes())
        answers = content["peak_bytes"] if content["torch"] == _torch_version() else {}
        return {str(key): int(peak) for key, peak in answers.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def keep(home: Home, key: str, peak_bytes: int) -> None:
    home.root.mkdir(parents=True, exist_ok=True)
    with locked(home.root / "predictions.lock"):
        kept = read_kept(home)
        kept[key] = peak_bytes
        newest = dict(list(kept.items())[-MOST_KEPT:])
        write_atomically(kept_at(home), json.dumps({"torch": _torch_version(), "peak_bytes": newest}).encode())


MACHINE_BUSY = ("this machine is being measured now, by another lab, or someone else is predicting; try again when "
                "that has ended")


class Predictor:
    """A helper process that has torch loaded, from the first question that is not answered yet until the end."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._kept = read_kept(home)
        self._process: subprocess.Popen[str] | None = None

    def peak_bytes(self, asked: Asked) -> int:
        key = key_of(asked)
        if key not in self._kept:
            answer = self._ask(asked)
            if "error" in answer:
                raise InputError(f"this cannot be predicted: {answer['error']}")
            self._kept[key] = int(answer["peak_bytes"])
            keep(self._home, key, self._kept[key])
        return self._kept[key]

    def _ask(self, asked: Asked) -> dict[str, Any]:
        refuse_while_measuring(self._home)  # also between two questions: a sweep may have come into line
        process = self._process = self._process or self._start()
        assert process.stdin and process.stdout
        too_long = threading.Timer(ANSWER_LIMIT_S, process.kill)
        too_long.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(asked) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        finally:
            too_long.cancel()
        if not line:
            raise InputError(f"the prediction ended without an answer (its process ended with {process.wait()}): this "
                             "machine may be too busy or short of memory; try again")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, **whole_paths(), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-m", "engine.predictions"], cwd=PROJECT, env=environment, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()


@contextlib.contextmanager
def open_predictor(home: Home) -> Iterator[Predictor]:
    predictor = Predictor(home)
    try:
        yield predictor
    finally:
        # Also when the page that asked has gone meanwhile.
        predictor.close()


def refuse_while_measuring(home: Home) -> None:
    measuring = [entry.sweep_id for entry in queue.read_queue(home).entries if entry.state == "measuring"]
    if measuring:
        raise InputError(f"sweep {measuring[0]} is being measured now and predicting would disturb it; wait until it "
                         "has ended, or pause it")


# -- the helper's own process ------------------------------------------------------------------------------------------


def main() -> None:
    """A question per line in, an answer per line out, until the input ends."""
    lock = queue.MachineLock()
    if not lock.try_to_take():
        for _ in sys.stdin:
            print(json.dumps({"error": MACHINE_BUSY}), flush=True)
        return
    from engine.predict_memory import predict_memory

    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"peak_bytes": predict_memory(**json.loads(line)).peak_bytes}
        except Exception as error:  # whatever a model does on fake tensors: it is told, and the next one is tried
            answer = {"error": f"{type(error).__name__}: {error}" if not isinstance(error, InputError) else str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
