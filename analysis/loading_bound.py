"""Is a run limited by its loader? Read from how long each batch had to wait.

Workers deliver in turns: while the loader is too slow, w batches arrive together and then everybody waits for the next
w. So with w workers the waits spike at every w-th batch. This says what the waits show; it knows nothing of computing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple

SPIKE_TIMES = 2.0
"""Spikes are more than so many times the waits between them."""
SPIKE_SHARE = 0.1
"""And more than this share of the first wait, or they are too small to matter."""
ONE_WORKER_SHARE = 0.2
"""One worker has no turns: it is too slow when later waits are more than this share of the first."""

Verdict = Literal["loading-bound", "not loading-bound", "undecided"]


class Signature(NamedTuple):
    """What the waits show. Times are None where the verdict did not need them or there were none."""

    verdict: Verdict
    workers: int
    batches: int
    first_s: float | None
    """The wait for batch 0: start-up and a whole batch."""
    spike_s: float | None
    """Median wait at batches w, 2w, 3w and so on; with one worker, at every batch after the first."""
    between_s: float | None
    """Median wait at the batches between them; None with one worker."""
    text: str
    """Why, as a part of a sentence without units: shares and counts only."""


def detect(waits: Sequence[float], workers: int) -> Signature:
    """`waits` are the seconds of load_data of one pass over the data, in order, batch 0 first."""
    assert workers >= 0, "a number of workers"
    count, first = len(waits), waits[0] if waits else None
    if workers == 0:
        # The wait is the work itself and has no period: only its share of the whole time could say something.
        return Signature("undecided", 0, count, first, None, None,
                         "without workers loading and computing take turns, so the waits have no pattern to read")
    if first is None or count <= workers:
        return Signature("undecided", workers, count, first, None, None,
                         f"{count} {_batches(count)} from {workers} {_workers(workers)}: too short to tell, because "
                         "the first ones are made at the same time")
    if workers == 1:
        later = median(waits[1:])
        bound = later > ONE_WORKER_SHARE * first
        return Signature("loading-bound" if bound else "not loading-bound", 1, count, first, later, None,
                         f"with one worker the later waits are {_share(later, first)} of the first "
                         f"(the limit is {ONE_WORKER_SHARE:.0%})")
    spike = median(waits[workers::workers])
    between = median(wait for batch, wait in enumerate(waits) if batch % workers)
    bound = spike > SPIKE_TIMES * between and spike > SPIKE_SHARE * first
    times = f"{spike / between:.1f} times" if between > 0 else "not comparable with"
    return Signature("loading-bound" if bound else "not loading-bound", workers, count, first, spike, between,
                     f"waits at every {_ordinal(workers)} batch are {times} the others (the limit is "
                     f"{SPIKE_TIMES:.0f} times) and {_share(spike, first)} of the first (the limit is "
                     f"{SPIKE_SHARE:.0%})")


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole > 0 else "an unknown share"


def _batches(count: int) -> str:
    return "batch" if count == 1 else "batches"


def _workers(count: int) -> str:
    return "worker" if count == 1 else "workers"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
