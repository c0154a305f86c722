"""Search strategies against each other: 35 snapshots of one 50-block network, three distributions, all in one run."""

from __future__ import annotations

import argparse
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

from comparison import at_least, estimate, print_report, progress, ratio

from engine.clock import Clock
from engine.search import Budget, Found, measure_peak, search
from engine.search_costs import measure_costs
from engine.search_executor import Executor
from engine.search_items import draw_patterns
from engine.search_network import build_modules, synthetic_network
from engine.search_plan import STRATEGIES, Plan, Strategy, plan_round
from engine.search_steps import Pass, peak_of, shared_steps
from engine.search_tree import Snapshot, walk_as_listed
from engine.snapshots import SnapshotStore
from engine.synthetic_snapshots import DISTRIBUTIONS, prepare_synthetic, synthetic_folder

MODELS, BLOCKS, CHANNELS, IMAGE_SIZE, FEATURES, SEED = 35, 50, 32, 8, 64, 0
BUDGET = Budget(2**28, 256)
WANTED = {"top_layers": 12, "quarter": 8, "half": 5}
PUBLISHED = {"top_layers": 10.2, "quarter": 7.1, "half": 4.9}


class Phases:
    """Times phases as a run does, and adds them up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = Clock("", perf_counter(), None, False, self._take, lambda now: False)

    def _take(self, batches: Any) -> None:
        for column in batches.phases:
            spent = sum(value for value in column.seconds if value is not None)
            self.seconds[column.phase] = self.seconds.get(column.phase, 0.0) + spent

    def phase(self, name: str, on_device: bool = False) -> AbstractContextManager[None]:
        return self._clock.phase(name, on_device)

    def end_batch(self, items: int) -> None:
        self._clock.end_batch(items)

    def __enter__(self) -> Phases:
        self._clock.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.whole_s = self._clock.stop()
        self.seconds["unaccounted"] = self.whole_s - sum(self.seconds.values())


class Bench:
    """One synthetic store with everything a search over it needs."""

    def __init__(self, folder: Path, distribution: str, items: int) -> None:
        network = synthetic_network(BLOCKS, CHANNELS, IMAGE_SIZE, FEATURES)
        prepare_synthetic(folder, distribution, MODELS, network, SEED, lambda done, total: None)
        self.store = SnapshotStore(synthetic_folder(folder, distribution, MODELS, network, SEED))
        self.models = self.store.models()
        self.items, self.modules = items, build_modules(self.models, "cpu")
        self.data = draw_patterns(items, IMAGE_SIZE, SEED)
        self.kinds = {block.hash: block.kind for model in self.models for block in model.blocks}
        self.snapshots = [Snapshot(model.name, [block.hash for block in model.blocks]) for model in self.models]
        self.costs = measure_costs(self.store, self.models, self.modules, self.data.pixels, "cpu", lambda: None)

    def executor(self) -> Executor:
        return Executor(self.store, self.modules, self.kinds, *self.data, "ridge", "cpu")

    @property
    def item_bytes(self) -> int:
        return int(self.data.pixels[0].nbytes)

    def go(self, strategy: Strategy) -> tuple[Found, Phases]:
        executor = self.executor()
        with Phases() as phases:
            found = search(self.snapshots, executor, self.costs, self.item_bytes, self.items, strategy, BUDGET, phases)
        assert executor.counts == found.predicted, "the work is the planned one"
        return found, phases

    def peaks(self) -> dict[str, Any]:
        """Depth first against model by model with the same cache rules: kept bytes as planned, all as allocated."""
        depth_first = plan_round(self.snapshots, range(BUDGET.batch_items), "shared_prefix", self.costs,
                                 self.item_bytes, BUDGET.bytes, BUDGET.batch_items)
        tree = depth_first.tree
        steps = shared_steps(tree, walk_as_listed(tree).nodes, 16)
        peak = peak_of(steps, tree)
        listed = Plan(tree, [Pass(steps, [range(BUDGET.batch_items)])], BUDGET.batch_items,
                      peak.live_bytes * BUDGET.batch_items, peak.kept_bytes * BUDGET.batch_items)
        measured = [measure_peak(plan, self.executor(), "cpu") for plan in (depth_first, listed)]
        return {"kept_bytes": depth_first.kept_bytes, "kept_bytes_model_by_model": listed.kept_bytes,
                "kept_share": depth_first.kept_bytes / listed.kept_bytes,
                "predicted_peak_bytes": depth_first.peak_bytes, "allocated_peak_bytes": measured[0],
                "allocated_peak_bytes_model_by_model": measured[1], "budget_bytes": BUDGET.bytes}


def main() -> None:
    import torch

    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--items", type=int, default=1024)
    # One thread computes, so that on a small machine a core is left to read weights ahead.
    options.add_argument("--threads", type=int, default=1)
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    times: dict[str, dict[str, list[float]]] = {d: {s: [] for s in STRATEGIES} for d in DISTRIBUTIONS}
    groups: dict[str, dict[str, list[dict[str, float]]]] = {d: {s: [] for s in STRATEGIES} for d in DISTRIBUTIONS}
    results: dict[str, Any] = {}
    limits = []
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        benches = {name: Bench(Path(folder), name, asked.items) for name in DISTRIBUTIONS}
        found: dict[tuple[str, str], Found] = {}
        for number in range(asked.rounds):
            for distribution, bench in benches.items():
                # Another strategy begins in each round: drift touches all of them alike.
                for strategy in (*STRATEGIES[number % 4 :], *STRATEGIES[: number % 4]):
                    found[distribution, strategy], phases = bench.go(strategy)
                    times[distribution][strategy].append(phases.whole_s)
                    groups[distribution][strategy].append(phases.seconds)
                    progress(f"round {number + 1} of {asked.rounds}: {distribution}, {strategy}: "
                             f"{phases.whole_s:.2f} s")
        for distribution, bench in benches.items():
            whole = asked.items * MODELS * BLOCKS
            one: dict[str, Any] = {}
            for strategy in STRATEGIES:
                done = found[distribution, strategy]
                bound = sum(part.bound_block_items for part in done.rounds)
                if strategy.startswith("shared"):
                    assert done.predicted.block_items == bound, "exactly the lower bound"
                faster = ratio(times[distribution]["exhaustive"], times[distribution][strategy])
                one[strategy] = {
                    "seconds": estimate(times[distribution][strategy]), "times_faster": faster,
                    "block_items": done.predicted.block_items, "lower_bound": bound, "loads": done.predicted.loads,
                    "times_less_work": whole / done.predicted.block_items,
                    "seconds_by_group": {name: fmean(spent.get(name, 0.0) for spent in groups[distribution][strategy])
                                         for name in groups[distribution][strategy][0]}}
                if strategy == "shared_prefix_halving":
                    limits.append(at_least(f"{distribution}: times faster than exhaustive, shared prefix and halving",
                                           WANTED[distribution], faster))
            one["published_times_faster"] = PUBLISHED[distribution]
            one["memory"] = bench.peaks()
            results[distribution] = one
            if distribution != "top_layers":
                share = one["memory"]["kept_share"]
                limits.append({"name": f"{distribution}: kept activations against model by model", "limit": 1 / 3,
                               "value": share, "interval": (share, share), "met": share <= 1 / 3})
    print_report(
        "search", f"{MODELS} snapshots of one network of {BLOCKS} blocks ({CHANNELS} channels, {IMAGE_SIZE} px), "
        f"{asked.items} items, chunks of up to {BUDGET.batch_items}, {asked.threads} threads; interleaved.",
        results, limits)


if __name__ == "__main__":
    main()
