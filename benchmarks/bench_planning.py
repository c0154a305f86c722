"""Planning 50,000 snapshots of 50 blocks: seconds, and memory per distinct block."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from time import perf_counter, process_time

from comparison import PROJECT, print_report, progress

BLOCKS = 50
SIZES = (12_500, 25_000, 50_000)
LIMIT_S = 5.0


def plan_once(distribution: str, models: int) -> None:
    """In a process of its own, whose highest memory is this plan's."""
    import json

    from engine.search_plan import plan_round
    from engine.search_tree import BlockCost, Snapshot
    from engine.synthetic_snapshots import draw_descent, names_of

    snapshots = [Snapshot(f"m{number}", blocks)
                 for number, blocks in enumerate(names_of(draw_descent(distribution, models, BLOCKS, 0), BLOCKS))]
    costs = dict.fromkeys({block for snapshot in snapshots for block in snapshot.blocks}, BlockCost(8192, 16384))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, busy = perf_counter(), process_time()
    plan = plan_round(snapshots, range(1024), "shared_prefix", costs, 768, 2**28, 256)
    seconds, busy_s = perf_counter() - start, process_time() - busy
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(json.dumps({"seconds": seconds, "processor_s": busy_s, "distinct_blocks": len(plan.tree.blocks),
                      "distinct_prefixes": len(plan.tree), "steps": len(plan.passes[0].steps.kind),
                      "memory_bytes": grown, "bytes_per_distinct_block": grown / len(plan.tree.blocks),
                      "block_items": plan.block_items, "kept_activations": plan.kept_bytes // (8192 * 256)}))


def main() -> None:
    import json

    from engine.synthetic_snapshots import DISTRIBUTIONS

    results: dict[str, dict[str, dict[str, float]]] = {}
    limits = []
    for distribution in DISTRIBUTIONS:
        results[distribution] = {}
        for models in SIZES:
            progress(f"{distribution}, {models} snapshots")
            done = subprocess.run([sys.executable, __file__, distribution, str(models)], cwd=PROJECT, check=True,
                                  capture_output=True, text=True)
            results[distribution][str(models)] = json.loads(done.stdout)
        largest = results[distribution][str(SIZES[-1])]
        limits.append({"name": f"{distribution}: seconds to plan {SIZES[-1]:,} snapshots", "limit": LIMIT_S,
                       "value": largest["seconds"], "met": largest["seconds"] <= LIMIT_S})
        growth = largest["bytes_per_distinct_block"] / results[distribution][str(SIZES[0])]["bytes_per_distinct_block"]
        limits.append({"name": f"{distribution}: growth of memory per distinct block over four times the snapshots",
                       "limit": 1.5, "value": growth, "met": growth <= 1.5})
    print_report("planning", f"A plan with shared prefixes for snapshots of {BLOCKS} blocks, each in a fresh process.",
                 results, limits)


if __name__ == "__main__":
    plan_once(sys.argv[1], int(sys.argv[2])) if len(sys.argv) == 3 else main()
