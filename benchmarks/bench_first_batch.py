"""First batch with two loader workers in a run under the forkserver, against the same in a plain script."""

from __future__ import annotations

import random
import subprocess
import sys

from comparison import EXPERIMENTS, estimate, not_above, print_report, progress, ratio, spread
from lone_runs import LoneRuns, lone_runs

ROUNDS = 20
INHERIT_EVERY = 2
"""Rounds in which the loader is also left without a context: for the record, and slow."""


def in_plain_script(runs: LoneRuns) -> float:
    answer = subprocess.run([sys.executable, str(EXPERIMENTS / "first_batch.py"), str(runs.cache)], check=True,
                            stdout=subprocess.PIPE)
    return float(answer.stdout)


def in_run(runs: LoneRuns, inherit: bool = False) -> float:
    return runs.measure("first_batch", inherit=inherit)["first_batch_s"]


def main() -> None:
    plain: list[float] = []
    forked: list[float] = []
    inherited, beside_inherited = [], []
    sides = [(in_plain_script, plain), (in_run, forked)]
    draw = random.Random(0)
    with lone_runs() as runs:
        in_run(runs)  # makes the images and starts the forkserver
        in_plain_script(runs)
        for number in range(ROUNDS):
            progress(f"round {number + 1} of {ROUNDS}")
            for measure, seconds in draw.sample(sides, len(sides)):
                seconds.append(measure(runs))
            if number % INHERIT_EVERY == 0:
                inherited.append(in_run(runs, inherit=True))
                beside_inherited.append(forked[-1])
    longer = ratio(forked, plain)
    print_report(
        "first_batch", "Seconds from iter() to the first batch: 2 workers, batch 32, 64-px generated images.",
        {"run_under_forkserver_s": estimate(forked), "run_rounds_s": spread(forked),
         "plain_script_s": estimate(plain), "plain_rounds_s": spread(plain), "run_to_plain_script": longer,
         "without_fork_context_s": estimate(inherited),
         "without_fork_context_to_run": ratio(inherited, beside_inherited)},
        [not_above("first batch in a run to a plain script's, not shown to be above", 1, longer)])


if __name__ == "__main__":
    main()
