"""A lab with the same cells measured again: before and after an upgrade, quick to make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.home import Home
from tests.store.journal_builder import FACTS, Script

OLD, NEW = "20260301-090000-aaaa", "20260301-120000-bbbb"
UPGRADED = {**FACTS, "libraries": {"torch": "2.16.0"}}
SPREAD = (1.0, 1.02, 0.98, 1.01)


def write_cells(home: Home, sweep_id: str, seconds: Sequence[float], repeats: int = 3, starts_at: float = 0.0,
                asked: dict[str, Any] | None = None, **more: Any) -> str:
    """A finished sweep: one cell for each of `seconds`, its runs spread closely around it."""
    status = more.pop("status", "ok")
    asks = {"experiment": more.pop("experiment")} if "experiment" in more else {}
    script = Script(home, sweep_id, starts_at=starts_at, **asks).begin(planned_runs=len(seconds) * repeats, **more)
    for repeat in range(1, repeats + 1):
        for cell, whole in enumerate(seconds):
            took_s = whole * SPREAD[(repeat + cell) % 4]
            script.run(cell, repeat, status=status, reason="" if status == "ok" else "it broke",
                       asked={"seed": 0, "batch_size": 8 * (cell + 1), "workers": 1, **(asked or {})},
                       metrics={"end_to_end_s": took_s, "images_per_s": 32 / took_s})
    return script.end().write().sweep_id


def write_upgrade(home: Home, slower: float = 1.5) -> tuple[str, str]:
    """Two sweeps of the same two cells; between them torch was upgraded, and times went up."""
    before = write_cells(home, OLD, [1.0, 2.0], name="before")
    after = write_cells(home, NEW, [slower, 2 * slower], starts_at=3 * 3600.0, environment_id="env-2", facts=UPGRADED,
                        name="after")
    return before, after
