"""Two whole sweeps: their cells matched by parameters, one ratio per pair, and one over all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from analysis.comparison import Estimate, Ratio, compare_over_models
from analysis.side_by_side import Figure, Group, compare_values


class Matched(NamedTuple):
    """A cell of the one sweep beside the same cell of the other."""

    values: dict[str, Any]
    """The parameters that set it apart among the matched cells."""
    group: Group
    base: Group
    base_value: Estimate | None
    figure: Figure


class SweepRatio(NamedTuple):
    pairs: list[Matched]
    aside: list[str]
    """What differs between the sweeps as wholes: left aside when cells are matched."""
    only: list[dict[str, Any]]
    """Cells that the baseline does not have."""
    only_base: list[dict[str, Any]]
    overall: Ratio | None
    """The geometric mean over the pairs that have a ratio: those with an interval, if there are any."""
    single: int
    """Pairs with a ratio that are not in it."""
    experiments: tuple[str, str] | None = None
    """Of the sweep and of the baseline, where they share none: then no cell is matched."""


def match_sweeps(groups: Sequence[Group], base: Sequence[Group], metric: str, unit: str | None) -> SweepRatio:
    """Cells of different experiments are never matched: settings of the same name ask for other work."""
    mine_ask, theirs_ask = ({group.first.experiment for group in sweep} for sweep in (groups, base))
    if mine_ask and theirs_ask and not mine_ask & theirs_ask:
        return SweepRatio([], [], [], [], None, 0, (", ".join(sorted(mine_ask)), ", ".join(sorted(theirs_ask))))
    aside = _set_apart(groups, base)
    mine, theirs = _by_settings(groups, aside), _by_settings(base, aside)
    varying = _varying([*groups, *base], aside)
    pairs: list[Matched] = []
    for key, group in mine.items():
        if other := theirs.get(key):
            figure = compare_values(metric, unit, len(pairs), group.values(metric), other.values(metric))
            alone = compare_values(metric, unit, len(pairs), other.values(metric), None)
            pairs.append(Matched(_told(group, varying), group, other, alone.value, figure))
    rated = [pair for pair in pairs if pair.figure.ratio]
    sure = [pair for pair in rated if pair.figure.ratio and pair.figure.ratio.low is not None]
    counted = sure or rated
    overall = compare_over_models([pair.group.values(metric) for pair in counted],
                                  [pair.base.values(metric) for pair in counted]) if counted else None
    if overall and not sure:
        overall = overall._replace(low=None, high=None)
    return SweepRatio(pairs, aside, [_told(group, varying) for key, group in mine.items() if key not in theirs],
                      [_told(group, varying) for key, group in theirs.items() if key not in mine], overall,
                      len(rated) - len(counted))


def _set_apart(groups: Sequence[Group], base: Sequence[Group]) -> list[str]:
    """Parameters that have one value in each sweep, and not the same."""
    names = dict.fromkeys(name for group in (*groups, *base) for name in group.first.asked)
    found = []
    for name in names:
        mine, theirs = ({_text(group.first.asked.get(name)) for group in sweep} for sweep in (groups, base))
        if len(mine) == len(theirs) == 1 and mine != theirs:
            found.append(name)
    return found


def _by_settings(groups: Sequence[Group], aside: Sequence[str]) -> dict[str, Group]:
    """Of a cell that was measured in two environments the later one counts."""
    found: dict[str, Group] = {}
    for group in groups:
        key = _text([group.first.experiment,
                     {name: value for name, value in group.first.asked.items() if name not in aside}])
        if key not in found or _last_moment(found[key]) < _last_moment(group):
            found[key] = group
    return found


def _last_moment(group: Group) -> datetime:
    return max((run.started_at for run in group.runs if run.started_at), default=datetime.min)


def _varying(groups: Sequence[Group], aside: Sequence[str]) -> list[str]:
    names = dict.fromkeys(name for group in groups for name in group.first.asked)
    return [name for name in names if name not in aside
            and len({_text(group.first.asked.get(name)) for group in groups}) > 1]


def _told(group: Group, names: Sequence[str]) -> dict[str, Any]:
    return {name: group.first.asked.get(name) for name in names}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
