"""What limits a cell: loading, transfer, compute or start-up, with the share of time that says so and what to try next.

Start-up is the wait for the first batch (workers starting, one whole batch made); loading is every later wait. The
largest share is the limit. Phases on a device overlap the host's, so shares need not add up to one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from analysis.comparison import CLAIM_RUNS, compare
from analysis.grids import FORMAT, NOT_BEGUN, Grid, GridRun, Pair
from analysis.loading_bound import Signature, detect

LOADING, TRANSFER = "load_data", "data_to_device"
SWITCHES = {"precision": ("fp32", "another precision"), "channels_last": (False, "channels_last"),
            "compile": (False, "compile")}
"""What can make computing faster: the value that is off, and how to call it."""
Kind = Literal["loading", "transfer", "compute", "start-up", "other work", "unknown"]


class Limit(NamedTuple):
    kind: Kind
    share: float | None
    """Of the end-to-end time, the median over runs; None when the runs have no phases."""
    shares: dict[Kind, float]
    runs: int
    signature: Signature | None
    """What the waits of the run with the median time show; None without waits."""


def find_limit(runs: Sequence[GridRun], workers: int, waits: Mapping[str, Sequence[float]]) -> Limit:
    """Over the runs of one model and pair; `waits` are the seconds of load_data in order, by run."""
    known = [run for run in runs if run.counts and run.phases_s]
    if not known:
        return Limit("unknown", None, {}, 0, None)
    per_run = [_shares(run, workers) for run in known]
    shares = {name: median(found[name] for found in per_run) for name in per_run[0]}
    kind = max(shares, key=lambda name: shares[name])
    middle = sorted(known, key=lambda run: run.end_to_end_s or 0)[(len(known) - 1) // 2]
    seen = waits.get(middle.run_id)
    return Limit(kind, shares[kind], shares, len(known), detect(seen, workers) if seen else None)


def _shares(run: GridRun, workers: int) -> dict[Kind, float]:
    assert run.end_to_end_s
    whole, loading = run.end_to_end_s, run.phases_s.get(LOADING, 0.0)
    # Without workers nothing starts up: the first wait is loading like the others.
    first = min(run.first_batch_s or 0.0, loading) if workers else 0.0
    transfer = run.phases_s.get(TRANSFER, 0.0)
    compute = sum(seconds for phase, seconds in run.phases_s.items() if phase not in (LOADING, TRANSFER))
    rest = max(whole - loading - transfer - compute, 0.0)
    return {"start-up": first / whole, "loading": (loading - first) / whole, "transfer": transfer / whole,
            "compute": compute / whole, "other work": rest / whole}


def next_step(limit: Limit, grid: Grid, model: str, pair: Pair) -> str:
    """What to try, after what this grid already shows about the neighbours. Of what can be switched on only what the
    experiment has and these runs had off."""
    if limit.kind == "loading":
        return _for_loading(grid, model, pair)
    if limit.kind == "transfer":
        if grid.setting.get("pin_memory") is False:
            return "try pin_memory, so that copies overlap with computing"
        return "try smaller images, so that there is less to copy"
    if limit.kind == "start-up":
        return "use fewer workers or a smaller batch, or measure more images: each worker makes one whole batch first"
    if limit.kind == "compute":
        return _for_compute(grid, model, pair)
    if limit.kind == "other work":
        return "look at a run's phases: most of its time lies in none of them"
    return "measure it here: these runs have no phases"


def _for_compute(grid: Grid, model: str, pair: Pair) -> str:
    words = [word for name, (off, word) in SWITCHES.items() if grid.setting.get(name) == off]
    switches = " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
    larger = _next(grid, model, [p for p in grid.pairs if p.workers == pair.workers and p.batch_size > pair.batch_size])
    if larger and (not grid.measured(model, larger) or _gain(grid, model, pair, larger)):
        return f"try batch size {larger.batch_size}" + (f"; then {switches}" if switches else "")
    return f"try {switches}" if switches else "try a faster device or a smaller model: nothing is left to switch on"


def _for_loading(grid: Grid, model: str, pair: Pair) -> str:
    more = _next(grid, model, [p for p in grid.pairs if p.batch_size == pair.batch_size and p.workers > pair.workers])
    cores = grid.cores or math.inf
    instead = "images stored as tensors (format tensor_files or memmap)" if grid.setting.get(FORMAT) == "jpeg" else \
        "a larger prefetch or a faster disk" if "prefetch_factor" in grid.setting else "a faster disk"
    if more is None and pair.workers >= cores:
        return f"{pair.workers} workers already share {cores:g} cores; try {instead}"
    if more is None:
        return f"try more than {pair.workers} workers, or {instead}"
    gain = _gain(grid, model, pair, more)
    if gain is None:
        return f"try {more.workers} workers" + (f", though they share {cores:g} cores" if more.workers > cores else "")
    if gain:
        return f"use {more.workers} workers, which are faster here"
    return f"{more.workers} workers show no gain here; try {instead}"


def _next(grid: Grid, model: str, pairs: list[Pair]) -> Pair | None:
    """The nearest neighbour that has a time or could have one: what ended otherwise is not to be tried again."""
    return min((pair for pair in pairs if grid.measured(model, pair)
                or all(run.status == NOT_BEGUN for run in grid.runs.get((model, pair), []))), default=None)


def _gain(grid: Grid, model: str, pair: Pair, other: Pair) -> bool | None:
    """Whether the neighbour takes less time, per item where items are known; None when these runs cannot tell."""
    runs = [grid.measured(model, p) for p in (pair, other)]
    # Per item only if every run says how many: one figure per item and one per run cannot be compared.
    per_item = all((run.items or 0) > 0 for side in runs for run in side)
    here, there = ([(run.end_to_end_s or 0.0) / ((run.items or 1) if per_item else 1) for run in side] for side in runs)
    if len(here) < CLAIM_RUNS or len(there) < CLAIM_RUNS:
        return None
    return compare(there, here).verdict == "lower"
