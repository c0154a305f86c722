"""How often Live is drawn: once a second, and more seldom while a run needs every core and several people watch it.

Drawing for five viewers, once a second each, takes 0.08 cores. A run with a thread on every core waits for all of them
whichever is interrupted, and loses 5 %. One drawing a second, in turn, costs it no more than one viewer does.
"""

from __future__ import annotations

import threading
import time
from typing import Any

EVERY_S = 1.0
SLOWEST_S = 5.0
FREE_CORES = 0.5
READINGS_BACK = 3

_gone_at: dict[str, float] = {}
_filling: set[str] = set()
_counting = threading.Lock()


def count_viewers(visitor: str, every_s: float) -> int:
    """Who has Live drawn, in whatever browser, this one among them. Who misses two drawings is gone."""
    now = time.monotonic()
    with _counting:
        _gone_at[visitor] = now + 2 * every_s + EVERY_S
        for gone in [name for name, at in _gone_at.items() if at < now]:
            del _gone_at[gone]
        return len(_gone_at)


def pace_s(sweep_id: str, viewers: int) -> float:
    """Seconds between two drawings of a sweep that runs."""
    return min(viewers * EVERY_S, SLOWEST_S) if sweep_id in _filling else EVERY_S


def note_cores(sweep_id: str, samples: list[dict[str, Any]], cores: float) -> None:
    """A run that leaves less than half a core to others makes its sweep one to step back for; it stays so between its
    runs, which start with loading, because a page that changes its pace is drawn anew."""
    used = [row["value"] for row in samples if row["metric"] == "run_cpu_cores"][-READINGS_BACK:]
    if used and sum(used) / len(used) > cores - FREE_CORES:
        _filling.add(sweep_id)


def say_pace(every_s: float) -> str:
    return (f"The run keeps every core busy and others watch it, too: drawn every {every_s:.0f} s, so that watching "
            "does not slow it." if every_s > EVERY_S else "")
