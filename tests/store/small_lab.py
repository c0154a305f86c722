"""A lab with a few finished sweeps, and the checks that its store is whole; for the tests of opening it."""

from __future__ import annotations

from pathlib import Path

from engine.home import Home
from store.database import Store
from tests.store.journal_builder import Script, fresh, rows_of


def write_sweep(home: Home, number: int = 0, runs: int = 3, batches: int = 40) -> str:
    script = Script(home, f"20260301-09{number:02d}00-aaaa", starts_at=60 * number).begin(planned_runs=runs)
    for cell in range(runs):
        script.run(cell, batches=batches, flushes=2, events=["seen"])
    return script.end().write().sweep_id


def set_aside_files(home: Home) -> list[str]:
    return sorted(path.name for path in home.root.iterdir() if "damaged" in path.name)


def log_of(home: Home) -> Path:
    return home.store.with_name(home.store.name + ".wal")


def check_whole(home: Home) -> None:
    """The store opens, says nothing, and has what a clean rebuild has."""
    with Store.open(home) as store:
        store.ingest()
        assert store.notice == ""
        assert rows_of(store.connection) == fresh(home)


def everything(home: Home) -> dict[str, list[str]]:
    with Store.open(home) as store:
        store.ingest()
        return rows_of(store.connection)
