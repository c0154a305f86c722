"""A store as it looks after years of use: a thousand sweeps, 20,000 runs, five million phases; made up, but with the
shape of real rows. `python benchmarks/large_store.py FOLDER` makes a lab in FOLDER, for looking at its pages by hand.

The rows have no journals, so `lab.py rebuild` would empty such a store. One sweep is left running: nothing closes it,
because a sweep without a folder is nobody's to close.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.large_store_kinds import KINDS, LARGEST, PHASES, TIMES_AS_LONG, Kind, metrics_of, took_effect
from benchmarks.large_store_rows import OF_ALL, OF_CHOSEN
from engine.environment import fingerprint
from engine.home import PROJECT, Home
from engine.nvml import Gpus
from engine.spec import SweepSpec, make_cells, make_spec
from store.database import Store
from store.summaries import summarise_runs

FIRST_DAY = datetime(2026, 1, 1, 9, 0)
LARGEST_SHARE = 40
"""The newest two sweeps that have ended hold a fortieth of all runs each, and have the same cells."""
RUNS_AT_ONCE = 2_000
"""The rows of measurements arrive run after run, as the ingest writes them: DuckDB skips blocks by their smallest and
largest run_id, and a store filled in another order would be slower to ask than a real one."""
NAMES = ["batch size x workers", "warm cache, {number}. try", "größere Stapel – Prüfung №{number}",
         "<b>bold</b> & <script>alert({number})</script>", "学習率とバッチサイズ {number}", "",
         "night run *{number}* _x_",
         "a name that somebody made as long as the form allows, for the paper: " + "very " * 40]
STATUSES = ["finished"] * 16 + ["cancelled", "failed", "interrupted", "finished"]
SWEEP_REASONS = {"cancelled": "cancelled by a person", "interrupted": "the sweep process ended unexpectedly",
                 "failed": "data could not be prepared: No space left on device"}
GPU = {"name": "NVIDIA A100-SXM4-40GB", "memory_bytes": 42_949_672_960, "power_limit_watts": 400.0}
LIBRARIES = {"torch": "2.15.0", "torchvision": "0.29.2", "numpy": "2.4.6", "pillow": "13.0.0", "transformers": None}
ENVIRONMENTS = {
    identity: json.dumps({"cores_affinity": cores, "cores_allowed": float(cores), "cores_quota": None,
                          "cpu_model": cpu, "driver_version": "570.86.15" if gpus else None, "git_commit": identity * 3,
                          "git_dirty": False, "gpus": gpus, "hostname": host, "kernel": "6.8.0", "libraries": LIBRARIES,
                          "memory_limit_bytes": cores * 2**32, "os": "Debian GNU/Linux 12", "python": "3.11.7"})
    for identity, cpu, cores, gpus, host in (
        ("bbbbbbbbbbbb", "AMD EPYC 7742", 16, [GPU], "server"),
        ("cccccccccccc", "Intel(R) Xeon(R) Gold 6230", 8, [], "cluster"))}
HERE = "aaaaaaaaaaaa"
"""The environment of this machine, so that Launch has something to go by."""
BOARD = "board-of-a-large-lab"
BOARD_CHARTS: list[tuple[str, str, str, str, dict[str, str]]] = [
    ("Live", "cells", "sweep", "inference", {}),
    ("Batch & workers", "bars_jpeg", "sweeps", "inference", {}),
    ("Data loading", "loader_variants", "sweep", "loading", {}),
    ("Data loading", "concurrency", "sweep", "loading", {}),
    ("Data loading", "waits", "sweep", "loading", {}),
    ("Memory", "peak_by_depth", "sweeps", "memory", {"view": "Depth"}),
    ("Memory", "memory_against_time", "sweeps", "memory", {"view": "Memory against time"}),
    ("Training", "training_methods", "sweep", "training", {}),
    ("Training", "training_loss", "sweep", "training", {}),
    ("Model search", "speed_up", "sweeps", "finetune,extract", {}),
    ("Model search", "bottleneck_resnet18-96", "sweeps", "bottleneck", {"view": "Bottlenecks"}),
    ("Model search", "search_speed_up", "searches", "search", {"view": "Strategies"}),
]
"""Page, chart, what its link calls the newest sweep of each of these experiments, and what is chosen besides."""


def build_large_store(home: Home, sweeps: int = 1_000, runs: int = 20_000, phase_rows: int = 5_000_000) -> None:
    """Fill a new store. The same sizes make the same rows."""
    assert sweeps >= 4 and runs >= 4 * sweeps, "too few runs for every sweep to have some"
    assert not home.store.exists(), f"{home.store} is there already"
    # Of a thousand runs 910 have all their batches and 60 have half of them: see PLANNED_RUNS in large_store_rows.py.
    phases = sum(len(PHASES[kind.experiment]) for kind in KINDS) / len(KINDS)
    batches = max(8, round(phase_rows / phases / (runs * 0.94)))
    planned = {"plan": plan_sweeps(sweeps, runs, batches), "phases": plan_phases(), **plan_cells(batches)}
    with Store.open(home) as store:
        connection = store.connection
        for name, frame in planned.items():
            connection.register("arriving", frame)
            connection.execute(f"CREATE TEMP TABLE planned_{name} AS FROM arriving")
            connection.unregister("arriving")
        here = json.dumps(fingerprint({}, Gpus.open(), PROJECT).facts)
        connection.executemany("INSERT INTO environments VALUES (?, ?)", [(HERE, here), *ENVIRONMENTS.items()])
        connection.executemany("INSERT INTO board_acts VALUES (?, ?, ?, ?, ?, ?)", plan_board(planned["plan"]))
        for statement in OF_ALL:
            connection.execute(statement)
        for first in range(0, runs, RUNS_AT_ONCE):
            slice_of = {"first": first, "end": first + RUNS_AT_ONCE}
            connection.begin()
            connection.execute("CREATE OR REPLACE TEMP TABLE chosen AS SELECT * FROM planned_runs "
                               "WHERE number >= $first AND number < $end", slice_of)
            for statement in OF_CHOSEN:
                connection.execute(statement)
            ended = connection.execute("SELECT run_id FROM chosen WHERE outcome <> 'running' ORDER BY number")
            summarise_runs(connection, [row[0] for row in ended.fetchall()])
            connection.commit()
        connection.execute("CHECKPOINT")


def plan_sweeps(sweeps: int, runs: int, batches: int) -> pd.DataFrame:
    """Every sweep with its number of runs."""
    largest = max(runs // LARGEST_SHARE, 4)
    environments = [HERE, *ENVIRONMENTS]
    specs = [asked_for(kind, batches).model_dump(mode="json") for kind in (*KINDS, LARGEST)]
    each, more = divmod(runs - 2 * largest, sweeps - 2)
    rows, first = [], 0
    for number in range(sweeps):
        last, big = number == sweeps - 1, sweeps - 3 <= number < sweeps - 1
        kind = len(KINDS) if big else 0 if last else number % len(KINDS)
        experiment = specs[kind]["experiment"]
        count = largest if big else each + (number < more)
        created = FIRST_DAY + timedelta(hours=6 * number)
        name = NAMES[number % len(NAMES)].format(number=number)[:200]
        status = "running" if last else "finished" if big else STATUSES[number % len(STATUSES)]
        planned = count + 5 if last else count
        spec = {**specs[kind], "name": name, "order_seed": number + 1}
        rows.append((number, f"{created:%Y%m%d-%H%M%S}-{number:04x}", name, experiment, status,
                     SWEEP_REASONS.get(status), created, kind, first, count, planned,
                     batches if PHASES[experiment] else 0,
                     # One after the other the kinds are measured on one machine: only then can they be compared.
                     "bbbbbbbbbbbb" if last else environments[number // len(KINDS) % 3], json.dumps(spec)))
        first += count
    return pd.DataFrame(rows, columns=["sweep", "sweep_id", "name", "experiment", "status", "reason", "created_at",
                                       "kind", "first", "runs", "planned", "batches", "environment_id", "spec"])


def asked_for(kind: Kind, batches: int) -> SweepSpec:
    fixed = {"batches": batches} if kind.experiment in ("inference", "loading", "memory") else {}
    return make_spec({"experiment": kind.experiment, "grid": kind.grid, "repeats": 3, "fixed": {**fixed, **kind.fixed}})


def plan_cells(batches: int) -> dict[str, pd.DataFrame]:
    """The cells of each kind, every parameter of each cell, and what its runs find."""
    cells, params, metrics = [], [], []
    for number, kind in enumerate((*KINDS, LARGEST)):
        made = make_cells(asked_for(kind, batches))
        for place, cell in enumerate(made):
            asked = cell.params.model_dump(mode="json")
            pace = TIMES_AS_LONG.get(kind.experiment, 1.0) * (1 + place * 5 % 7 / 10)
            cells.append((number, place, len(made), cell.key, asked.get("model", "resnet18"),
                          asked.get("batch_size", 32) * asked.get("devices", 1), asked.get("workers", 0), pace))
            effective = took_effect(kind, asked, batches)
            for order, name in enumerate({**asked, **effective}):
                params.append((number, place, order, name, json.dumps(asked[name]) if name in asked else None,
                               json.dumps(effective[name]) if name in effective else None))
            metrics += [(number, place, *found) for found in metrics_of(kind, asked, place)]
    return {"cells": pd.DataFrame(cells, columns=["kind", "place", "places", "cell_key", "model", "batch_size",
                                                  "workers", "times_as_long"]),
            "params": pd.DataFrame(params, columns=["kind", "place", "position", "name", "asked", "effective"]),
            "metrics": pd.DataFrame(metrics, columns=["kind", "place", "name", "value", "unit"])}


def plan_phases() -> pd.DataFrame:
    """The phases of each experiment: which share of what the first one leaves, and how much of that comes before."""
    rows = []
    for experiment, phases in PHASES.items():
        weights = [0.05 if phase == "data_to_device" else 1.0 for phase in phases[1:]]
        shares = [weight / sum(weights) for weight in weights]
        rows += [(experiment, place, phase, *((shares[place - 1], sum(shares[:place - 1])) if place else (0.0, 0.0)))
                 for place, phase in enumerate(phases)]
    return pd.DataFrame(rows, columns=["experiment", "place", "phase", "share", "before"])


def plan_board(plan: pd.DataFrame) -> list[tuple[Any, ...]]:
    """What somebody did to make a board of charts of many pages."""
    newest = plan[plan["status"] != "running"].groupby("experiment")["sweep_id"].max()
    acts: list[tuple[Any, ...]] = [(BOARD, None, "create", {"name": "A large lab"})]
    for number, (page, chart, name, experiments, more) in enumerate(BOARD_CHARTS, 1):
        link = {name: ",".join(newest[experiment] for experiment in experiments.split(",")), **more}
        item = {"page": page, "chart": chart, "link": link, "note": f"Note {number}"}
        acts.append((BOARD, f"item-{number}", "add", item))
    return [(*who, json.dumps(value), FIRST_DAY, number) for number, (*who, value) in enumerate(acts)]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/large_store.py FOLDER")
    home = Home(Path(sys.argv[1]).absolute())
    started = perf_counter()
    build_large_store(home)
    print(f"made in {perf_counter() - started:.0f} s; look at it with PHASELAB_HOME={home.root} python lab.py app")


if __name__ == "__main__":
    main()
