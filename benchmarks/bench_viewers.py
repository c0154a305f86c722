"""Does watching slow the run? A cell that leaves one core free, as most runs on a GPU do, and one that keeps every core
busy, the worst there is; each with 0, 1 and 5 viewers of its Live page.

The real app serves, the real sweep process measures, on a lab of their own. A viewer (live_viewers.py) asks for what a
browser asks for, but draws nothing: people's browsers are on other machines, and the server's work is what a run
shares its cores with. Two arms of each block have no viewers: their ratio is the noise floor.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from math import sqrt
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil
from comparison import PROJECT, Estimate, estimate, print_report, progress, ratio, spread

from engine.home import Home
from engine.launch import launch, wait_until_ended
from engine.machine import cpu_allowance
from engine.spec import make_spec
from store.database import Store
from store.queries import list_runs, show_run

BLOCKS = 8
ARMS = {"none": 0, "none_again": 0, "one": 1, "five": 5}
WINDOW_S = 8.0
"""People stay longer than that: what a page costs when they come must not be most of what is measured."""
FEWEST_BATCHES = 10
"""Far fewer have no steady state: the worker runs dry two batches before the end."""
LOOK_EVERY_S = 0.25
LIMIT = 1.02
CELL = {"model": "resnet18", "batch_size": 8, "image_size": 64, "warm_up_batches": 5}
CELLS = {
    "one core left free": CELL | {"threads": max(int(cpu_allowance().cores) - 1, 1), "workers": 0},
    # One torch thread per core and a loader worker: whatever the server takes, the run loses.
    "every core busy": CELL | {"workers": 1},
}


class Processor(NamedTuple):
    """Processor seconds of a process at some moments (seconds since 1970)."""

    moments: list[float]
    seconds: list[float]

    def share(self, start: float, end: float) -> float:
        """Seconds per second between the readings nearest to a window's ends."""
        first, last = (min(range(len(self.moments)), key=lambda i, at=at: abs(self.moments[i] - at))  # type: ignore[misc]
                       for at in (start, end))
        return (self.seconds[last] - self.seconds[first]) / (self.moments[last] - self.moments[first])


class Measured(NamedTuple):
    batch_s: float
    others_cores: float
    """What other processes took, the server and the viewers among them."""
    app_share: float
    viewers_share: float
    reruns_per_s: float
    """Of each viewer."""
    answer_s: list[float]
    received_bytes: int


@contextmanager
def serving(home: Home, wanted_port: int) -> Iterator[tuple[psutil.Process, int]]:
    """The app on a port of 127.0.0.1, as a person starts it."""
    with (home.root / "app.log").open("wb") as log:
        server = subprocess.Popen([sys.executable, "lab.py", "app", "--port", str(wanted_port)], cwd=PROJECT, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        assert server.stdout
        port = int(server.stdout.readline().rsplit(":", 1)[1])
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < until, (home.root / "app.log").read_text()
                time.sleep(0.1)
        yield psutil.Process(server.pid), port
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            progress("the app did not end by SIGTERM within 10 s")
            server.kill()
            server.wait()


class Viewers:
    """The process that holds all viewers."""

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen([sys.executable, str(PROJECT / "benchmarks" / "live_viewers.py"), str(port)],
                                         text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = psutil.Process(self._process.pid)

    def tell(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert not answer.get("problems"), answer
        return answer

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)


def measure_block(home: Home, cell: dict[str, Any], app: psutil.Process, viewers: Viewers,
                  counts: list[int]) -> list[Measured]:
    """One sweep with a run for each count of viewers. They come when a run starts, and are there when it measures."""
    sweep_id = launch(home, make_spec({"experiment": "inference", "name": "watched", "grid": {"seed": [0]},
                                       "fixed": cell, "repeats": len(counts)}))
    folder = home.sweep(sweep_id)
    seen = {process: Processor([], []) for process in (app, viewers.process)}
    watched: list[dict[str, Any]] = []
    started = 0
    while not wait_until_ended(folder, 0):
        for process, into in seen.items():
            times = process.cpu_times()
            into.moments.append(time.time())
            into.seconds.append(times.user + times.system)
        if len(list(folder.runs.glob("*.log"))) > started:
            if started:
                watched.append(viewers.tell(stop=True))
            viewers.tell(watch=counts[started], sweep=sweep_id)
            started += 1
        time.sleep(LOOK_EVERY_S)
    watched.append(viewers.tell(stop=True))
    return [measured(run, seen[app], seen[viewers.process], told["viewers"])
            for run, told in zip(read_runs(home, sweep_id), watched, strict=True)]


def measured(run: dict[str, Any], app: Processor, viewers: Processor, watched: list[dict[str, Any]]) -> Measured:
    stage = next(stage for stage in run["stages"] if stage["stage"] == "measure")
    start = datetime.fromisoformat(f"{run['started_at']}+00:00").timestamp() + stage["start_s"]
    end = start + stage["seconds"]
    inside = [[took for at, took in viewer["reruns"] if start <= at <= end] for viewer in watched]
    return Measured(
        run["metrics"]["steady_batch_s"],
        next(row["mean"] for row in run["telemetry"] if row["metric"] == "others_cpu_cores"),
        app.share(start, end), viewers.share(start, end),
        mean(len(reruns) for reruns in inside) / stage["seconds"] if inside else 0.0,
        [took for reruns in inside for took in reruns],
        sum(viewer["received_bytes"] for viewer in watched))


def read_runs(home: Home, sweep_id: str) -> list[dict[str, Any]]:
    """From the journals, in the order of measuring: the app has the store."""
    store = Store.in_memory(home, [sweep_id])
    runs = [show_run(store.connection, run["run_id"]) for run in list_runs(store.connection)]
    store.close()
    assert all(run["status"] == "ok" for run in runs), [run["reason"] for run in runs]
    return runs


def measure_blocks(home: Home, cell: dict[str, Any], wanted_port: int) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {arm: [] for arm in ARMS}
    draw = random.Random(0)
    with serving(home, wanted_port) as (app, port):
        viewers = Viewers(port)
        # The first run has the page's modules imported; the second tells what fills the window.
        first = measure_block(home, cell | {"batches": FEWEST_BATCHES}, app, viewers, [1, 0])
        unwatched_s = first[1].batch_s
        for number in range(BLOCKS):
            # As many as fill the window now: others may have slowed the first run.
            batches = max(FEWEST_BATCHES, round(WINDOW_S / unwatched_s))
            order = draw.sample(list(ARMS), len(ARMS))
            runs = measure_block(home, cell | {"batches": batches}, app, viewers, [ARMS[arm] for arm in order])
            for arm, run in zip(order, runs, strict=True):
                found[arm].append(run)
                progress(f"block {number + 1} of {BLOCKS}, {arm}: {run.batch_s:.4f} s per batch, app "
                         f"{run.app_share:.3f} s/s, {run.reruns_per_s:.2f} reruns/s, others {run.others_cores:.2f}")
            unwatched_s = min(found[arm][-1].batch_s for arm in ("none", "none_again"))
        viewers.close()
    return found


def tell(runs: list[Measured], viewers: int) -> dict[str, Any]:
    answers = [took for run in runs for took in run.answer_s]
    return {"viewers": viewers, "steady_batch_s": estimate([run.batch_s for run in runs]),
            "app_processor_s_per_s": spread([run.app_share for run in runs]),
            "viewers_processor_s_per_s": spread([run.viewers_share for run in runs]),
            "other_processes_cores": spread([run.others_cores for run in runs])} | ({
                "fragment_reruns_per_s_and_viewer": spread([run.reruns_per_s for run in runs]),
                "fragment_answer_s": spread(answers) if answers else None,
                "received_bytes": spread([run.received_bytes for run in runs])} if viewers else {})


def main() -> None:
    wanted_port = int(sys.argv[1]) if len(sys.argv) > 1 else 8501
    with TemporaryDirectory(prefix="phaselab-bench-") as folder:
        home = Home(Path(folder) / "lab")
        home.root.mkdir()
        os.environ["PHASELAB_HOME"] = str(home.root)
        # Someone else's sweep on this machine would hold up ours; whoever measures here has to see to quiet anyway.
        os.environ["PHASELAB_MACHINE_LOCK"] = str(home.root / "machine.lock")
        found = {name: measure_blocks(home, cell, wanted_port) for name, cell in CELLS.items()}
    results, limits = {}, []
    for name, arms in found.items():
        results[name], of_cell = compare(arms)
        limits += [{**limit, "name": f"{name}: {limit['name']}"} for limit in of_cell]
    print_report(
        "viewers", "Seconds per batch of a run watched by 0, 1 and 5 viewers that do not draw: their browsers are "
                   "taken to be on other machines.", {"cells": CELLS, **results}, limits)


def compare(found: dict[str, list[Measured]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    times = {arm: [run.batch_s for run in runs] for arm, runs in found.items()}
    unwatched = [sqrt(one * other) for one, other in zip(times["none"], times["none_again"], strict=True)]
    ratios = {"none_to_none_noise_floor": ratio(times["none_again"], times["none"]),
              "one_to_none": ratio(times["one"], unwatched), "five_to_none": ratio(times["five"], unwatched)}
    alone = mean(run.app_share for arm in ("none", "none_again") for run in found[arm])
    cost = {arm: (mean(run.app_share for run in found[arm]) - alone) / ARMS[arm] for arm in ("one", "five")}
    return ({"arms": {arm: tell(runs, ARMS[arm]) for arm, runs in found.items()}, **ratios,
             "app_processor_s_per_s_and_viewer": cost},
            [beyond_noise(f"{arm} to none, beyond the noise floor", ratios[f"{arm}_to_none"],
                          ratios["none_to_none_noise_floor"]) for arm in ("one", "five")])


def beyond_noise(name: str, found: Estimate, floor: Estimate) -> dict[str, Any]:
    """Met when the ratio is below the limit once it is widened by what two unwatched arms differ anyway."""
    low, high = floor.interval
    limit = LIMIT * max(high, 1 / low)
    return {"name": name, "limit": limit, "value": found.value, "interval": found.interval,
            "met": found.interval[1] <= limit}


if __name__ == "__main__":
    main()
