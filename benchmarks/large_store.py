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
from benchmarks.large_store_rows import OF_ALL, OF_CHOSEN
from engine.home import Home
from engine.spec import make_cells, make_spec
from store.database import Store
from store.summaries import summarise_runs

FIRST_DAY = datetime(2026, 1, 1, 9, 0)
LARGEST_SHARE = 40
"""One sweep, the newest that has ended, holds a fortieth of all runs."""
RUNS_AT_ONCE = 2_000
"""The rows of measurements arrive run after run, as the ingest writes them: DuckDB skips blocks by their smallest and
largest run_id, and a store filled in another order would be slower to ask than a real one."""
GRIDS: list[dict[str, list[Any]]] = [
    {"batch_size": [8, 32], "workers": [0, 1, 2]},
    {"model": ["resnet18", "resnet50", "mobilenet_v2"], "batch_size": [16, 64]},
    {"threads": [1, 2, 4], "workers": [0, 2, 4]},
    {"image_size": [64, 128, 224], "precision": ["fp32", "bf16"]},
    {"channels_last": [False, True], "compile": [False, True], "batch_size": [32, 128]},
    {"seed": [0, 1, 2, 3]},
]
LARGEST_GRID: dict[str, list[Any]] = {"model": ["resnet18", "resnet50", "vit_b_16", "eff_net_v2_s"],
                                      "batch_size": [1, 8, 32, 64, 128, 256], "workers": [0, 1, 2, 4, 8]}
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
        ("aaaaaaaaaaaa", "AMD EPYC", 2, [], "laptop"), ("bbbbbbbbbbbb", "AMD EPYC 7742", 16, [GPU], "server"),
        ("cccccccccccc", "Intel(R) Xeon(R) Gold 6230", 8, [], "cluster"))}


def build_large_store(home: Home, sweeps: int = 1_000, runs: int = 20_000, phase_rows: int = 5_000_000) -> None:
    """Fill a new store. The same sizes make the same rows."""
    assert sweeps >= 3 and runs >= 4 * sweeps, "too few runs for every sweep to have some"
    assert not home.store.exists(), f"{home.store} is there already"
    # Of a thousand runs 910 have all their batches and 60 have half of them: see PLANNED_RUNS in large_store_rows.py.
    batches = max(8, round(phase_rows / 3 / (runs * 0.94)))
    plan, cells, params = plan_sweeps(sweeps, runs, batches)
    with Store.open(home) as store:
        connection = store.connection
        for name, frame in (("plan", plan), ("cells", cells), ("params", params)):
            connection.register("arriving", frame)
            connection.execute(f"CREATE TEMP TABLE planned_{name} AS FROM arriving")
            connection.unregister("arriving")
        connection.executemany("INSERT INTO environments VALUES (?, ?)", list(ENVIRONMENTS.items()))
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


def plan_sweeps(sweeps: int, runs: int, batches: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Sweeps with their number of runs; the cells of each kind of grid; and every parameter of each cell."""
    largest = max(runs // LARGEST_SHARE, 4)
    grids = [*GRIDS, LARGEST_GRID]
    cells, params, specs = [], [], []
    for kind, grid in enumerate(grids):
        spec = make_spec({"experiment": "inference", "grid": grid, "repeats": 3,
                          "fixed": {"batches": batches} | ({} if "image_size" in grid else {"image_size": 64})})
        specs.append(spec.model_dump(mode="json"))
        made = make_cells(spec)
        for place, cell in enumerate(made):
            asked = cell.params.model_dump(mode="json")
            cells.append((kind, place, len(made), cell.key, asked["model"], asked["batch_size"], asked["workers"]))
            effective = {"threads": asked["threads"] or 2, "device": "cpu", "batches": batches,
                         "images": batches * asked["batch_size"], "workers": asked["workers"], "prefetch_factor": 2,
                         "pin_memory": False, "timing": "host", "loader_context": "fork"}
            for order, name in enumerate({**asked, **effective}):
                params.append((kind, place, order, name, json.dumps(asked[name]) if name in asked else None,
                               json.dumps(effective[name]) if name in effective else None))
    each, more = divmod(runs - largest, sweeps - 1)
    rows, first = [], 0
    for number in range(sweeps):
        last, big = number == sweeps - 1, number == sweeps - 2
        kind = len(GRIDS) if big else number % len(GRIDS)
        count = largest if big else each + (number < more)
        created = FIRST_DAY + timedelta(hours=6 * number)
        name = NAMES[number % len(NAMES)].format(number=number)[:200]
        status = "running" if last else STATUSES[number % len(STATUSES)]
        planned = count + 5 if last else count
        spec = {**specs[kind], "name": name, "order_seed": number + 1}
        rows.append((number, f"{created:%Y%m%d-%H%M%S}-{number:04x}", name, status, SWEEP_REASONS.get(status), created,
                     kind, first, count, planned, batches, list(ENVIRONMENTS)[(number // 7) % 3] if not last
                     else "bbbbbbbbbbbb", json.dumps(spec)))
        first += count
    return (pd.DataFrame(rows, columns=["sweep", "sweep_id", "name", "status", "reason", "created_at", "kind", "first",
                                        "runs", "planned", "batches", "environment_id", "spec"]),
            pd.DataFrame(cells, columns=["kind", "place", "places", "cell_key", "model", "batch_size", "workers"]),
            pd.DataFrame(params, columns=["kind", "place", "position", "name", "asked", "effective"]))


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/large_store.py FOLDER")
    home = Home(Path(sys.argv[1]).absolute())
    started = perf_counter()
    build_large_store(home)
    print(f"made in {perf_counter() - started:.0f} s; look at it with PHASELAB_HOME={home.root} python lab.py app")


if __name__ == "__main__":
    main()
