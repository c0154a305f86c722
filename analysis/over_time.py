"""One cell over time: stretches of runs in the same environment, what changed between them, and what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from analysis.side_by_side import ComparedRun, Figure, compare_values, figure, flatten_facts

CODE = ("git_commit", "git_dirty")
MACHINE = ("hostname", "cpu_model", "cores_allowed", "gpus")
"""What makes it another machine rather than a changed one."""


class Change(NamedTuple):
    name: str
    before: str
    after: str


class Era(NamedTuple):
    """Runs one after the other with nothing changed between them."""

    runs: tuple[ComparedRun, ...]
    values: tuple[float, ...]
    begins: datetime
    ends: datetime
    changes: tuple[Change, ...]
    """What is other than in the era before."""
    figure: Figure
    """Against the era before; the first one has no ratio."""


def machine_of(run: ComparedRun, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Runs of one machine make a line; another machine's are another line."""
    flat = flatten_facts(facts.get(run.environment_id, {}))
    gpus = "" if flat.get("gpus", "none") == "none" else f", {flat['gpus']}"
    cores = flat.get("cores_allowed", "–").removesuffix(".0")
    return f"{flat.get('hostname', 'unknown')}, {flat.get('cpu_model', '–')}, {cores} cores{gpus}"


def find_eras(runs: Sequence[ComparedRun], facts: Mapping[str, Mapping[str, Any]], metric: str, unit: str | None,
              split_at_code: bool = True) -> list[Era]:
    """`runs` are those of one cell on one machine. Runs without the figure are left out."""
    known = sorted((run for run in runs if run.started_at and figure(run, metric) is not None),
                   key=lambda run: (run.started_at, run.run_id))
    eras: list[Era] = []
    members: list[ComparedRun] = []
    state: dict[str, str] = {}
    changes: tuple[Change, ...] = ()
    for run in known:
        now = _state(run, facts, split_at_code)
        found = tuple(Change(name, state.get(name, "–"), now.get(name, "–"))
                      for name in dict.fromkeys([*state, *now]) if state.get(name, "–") != now.get(name, "–"))
        if members and found:
            eras.append(_era(members, changes, eras, metric, unit))
            members, changes = [], found
        members.append(run)
        state = now
    return [*eras, _era(members, changes, eras, metric, unit)] if members else []


def _era(runs: Sequence[ComparedRun], changes: tuple[Change, ...], before: Sequence[Era], metric: str,
         unit: str | None) -> Era:
    values = tuple(value for run in runs if (value := figure(run, metric)) is not None)
    moments = [run.started_at for run in runs if run.started_at]
    return Era(tuple(runs), values, min(moments), max(moments), changes,
               compare_values(metric, unit, len(before), values, before[-1].values if before else None))


def _state(run: ComparedRun, facts: Mapping[str, Mapping[str, Any]], split_at_code: bool) -> dict[str, str]:
    """Everything that may change under a cell that stays the same: the environment, and what took effect."""
    flat = flatten_facts(facts.get(run.environment_id, {}))
    kept = {name: value for name, value in flat.items()
            if name not in MACHINE and (split_at_code or name not in CODE)}
    return kept | {f"in effect: {name}": str(value) for name, value in run.effective.items()}
