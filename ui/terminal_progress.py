"""A progress bar for one sweep, from its journal: runs done, time left, what is being measured."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from engine.home import SweepFolder
from engine.sweep_state import SweepState, process_alive, read_state

LOOK_EVERY_S = 0.3
SPEED_PERIOD_S = 7 * 86400.0
"""Runs of all lengths count for the time left; by default only the last 30 s would."""


def follow_sweep(folder: SweepFolder, quiet: bool) -> None:
    """Return when the sweep has ended, or its process is gone."""
    state = read_state(folder)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet,
                  speed_estimate_period=SPEED_PERIOD_S) as progress:
        bar = progress.add_task("queued", total=state.planned_runs or None)
        while state.update().open and process_alive(folder):
            progress.update(bar, completed=state.done, total=state.planned_runs or None, description=_doing(state))
            time.sleep(LOOK_EVERY_S)
        state.update()
        progress.update(bar, completed=state.done, total=state.planned_runs, description=state.status)


def _doing(state: SweepState) -> str:
    """The running cell by what sets it apart, or what the sweep last said."""
    running = next((run for run in state.runs.values() if run.status == "running"), None)
    if running is None:
        return state.last_event if state.status == "running" and state.last_event else state.status
    names = {name for spec in state.specs for name in spec["grid"]}
    return ", ".join(f"{name}={running.asked[name]}" for name in running.asked if name in names)
