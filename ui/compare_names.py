"""What groups of runs are called: a letter for charts and sentences, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_uppercase
from typing import NamedTuple

from analysis.comparability import CONSEQUENCES
from analysis.side_by_side import Group, parameter_rows

MOST_SETTINGS = 5
LONGEST, LONGEST_SWEEP = 56, 36


class Name(NamedTuple):
    letter: str
    label: str

    @property
    def full(self) -> str:
        """For axes and tables; the legend has the whole label."""
        return f"{self.letter} · {shorten(self.label, LONGEST)}"


def shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def name_groups(groups: Sequence[Group]) -> list[Name]:
    rows = [row for row in parameter_rows(groups) if row.differs and row.name not in CONSEQUENCES]
    sweeps = sweep_labels(groups)
    places = len({group.first.environment_id for group in groups}) > 1
    names = []
    for place, group in enumerate(groups):
        words = [f"{row.name}={row.values[place]}" for row in rows[:MOST_SETTINGS]]
        if len(set(sweeps.values())) > 1:
            words.append(sweeps[group.first.sweep_id])
        if places and "~" in group.token:
            words.append(f"environment {group.first.environment_id[:8] or 'unknown'}")
        names.append(Name(ascii_uppercase[place], ", ".join(words) or group.first.sweep))
    return names


def sweep_labels(groups: Sequence[Group]) -> dict[str, str]:
    """Names of sweeps; those that share one get the end of their id."""
    names = {group.first.sweep_id: shorten(group.first.sweep, LONGEST_SWEEP) for group in groups}
    count = Counter(names.values())
    return {sweep_id: name if count[name] == 1 else f"{name} ({sweep_id[-4:]})" for sweep_id, name in names.items()}


def name_items(groups: Sequence[Group], names: Sequence[Name]) -> dict[str, str]:
    """What runs and cells of a link are called where they can be taken away."""
    told = {}
    for group, name in zip(groups, names, strict=True):
        told[group.token] = told[group.first.cell] = name.full
        for run in (*group.runs, *group.lost):
            told[run.run_id] = f"{name.full}, repeat {run.repeat}"
    return told
