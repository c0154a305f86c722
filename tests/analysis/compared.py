"""Compared runs made up for tests: what a test does not care about has a plain value."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from analysis.side_by_side import ComparedRun, Group, group_runs

BEGINNING = datetime(2026, 3, 1, 9, 0)


def run(cell: int = 0, repeat: int = 1, sweep: str = "s1", seconds: float = 1.0, **more: Any) -> ComparedRun:
    """`more` replaces fields; `batch_size` and the like are what was asked; `minutes` after the beginning."""
    asked = {"batch_size": 8 * (cell + 1), "workers": 1} | more.pop("asked", {})
    minutes = more.pop("minutes", repeat)
    known: dict[str, Any] = {
        "run_id": f"{sweep}-{cell:010x}-{repeat}", "sweep_id": sweep, "sweep": f"sweep {sweep}",
        "experiment": "inference", "cell_key": f"{cell:016x}", "repeat": repeat, "status": "ok", "reason": "",
        "started_at": BEGINNING + timedelta(minutes=minutes), "environment_id": "env", "imported": False,
        "noisy": False, "asked": asked, "effective": {}, "phases_s": {"load_data": seconds / 4},
        "metrics": {"end_to_end_s": seconds, "items": 100.0}}
    return ComparedRun(**(known | more))


def group(*seconds: float, **more: Any) -> Group:
    (found,) = group_runs(run(repeat=repeat, seconds=value, **more) for repeat, value in enumerate(seconds, 1))
    return found
