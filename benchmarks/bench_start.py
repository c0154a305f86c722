"""Start of a run from the warm forkserver, against a fresh interpreter that imports torch."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from time import perf_counter

from comparison import at_least, estimate, print_report, progress, ratio, spread
from lone_runs import lone_runs

ROUNDS = 12
STARTS_PER_ROUND = 5


def import_torch() -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", "import torch, torchvision"], check=True)
    return perf_counter() - started


def main() -> None:
    fresh, warm, entered = [], [], []
    import_torch()  # fills the file cache, so that neither side reads the disk
    with lone_runs() as runs:
        cold = runs.measure("enter")
        for number in range(ROUNDS):
            progress(f"round {number + 1} of {ROUNDS}")
            started = [runs.measure("enter") for _ in range(STARTS_PER_ROUND)]
            warm.append(median(run["start_process"] for run in started))
            entered.append(median(run["entered_s"] for run in started))
            fresh.append(import_torch())
    faster = ratio(fresh, warm)
    print_report(
        "start", "Seconds from the request of a run until its experiment is entered, against importing torch anew.",
        {"warm_start_s": estimate(warm), "warm_start_s_rounds": spread(warm), "until_run_entered_s": estimate(entered),
         "cold_first_start_s": cold["start_process"], "fresh_import_s": estimate(fresh),
         "fresh_import_s_rounds": spread(fresh), "starts_per_round": STARTS_PER_ROUND, "times_faster": faster},
        [at_least("times faster than a fresh import of torch, once warm", 30, faster)])


if __name__ == "__main__":
    main()
