"""Runs side by side: repeats of a cell become one group, and every figure of a group is set against a baseline's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any, Literal, NamedTuple

from analysis.cells import UNACCOUNTED
from analysis.comparison import Estimate, Ratio, compare, estimate, smallest_shift

MOST_GROUPS = 12
PER_ITEM = "time_per_item_s"
"""End to end over items: what runs of different length are compared by."""
COMPUTED = ("load_state_computed_s", "priced_inference_s")
"""Seconds that follow from the settings and from prices: nothing was timed, and equal ones are equal."""
NO_SPEED = ("unaccounted_s", "overlapped_s", *COMPUTED)
"""Times that are a remainder or computed: less of them is not faster. Nor is an earlier moment (`*_at_s`)."""
FIRST = (PER_ITEM, "end_to_end_s", "steady_items_per_s", "items_per_s", "first_batch_s", "steady_batch_s")
"""Metrics that are told before all others."""
Words = Literal["faster", "slower", "higher", "lower", "no difference shown", "too few runs to tell", "no ratio",
                "not measured"]


class ComparedRun(NamedTuple):
    run_id: str
    sweep_id: str
    sweep: str
    experiment: str
    cell_key: str
    repeat: int
    status: str
    reason: str
    started_at: datetime | None
    environment_id: str
    imported: bool
    noisy: bool | None
    asked: Mapping[str, Any]
    effective: Mapping[str, Any]
    metrics: Mapping[str, float]
    phases_s: Mapping[str, float]
    """Total of each phase."""

    @property
    def cell(self) -> str:
        """The cell of its sweep: the run's id without the repeat."""
        return self.run_id.rsplit("-", 1)[0]

    @property
    def settings(self) -> dict[str, Any]:
        """What took effect, and what was asked where the run does not say."""
        return {**self.asked, **{name: value for name, value in self.effective.items() if value is not None}}

    @property
    def items(self) -> float | None:
        return self.metrics.get("items") or None


class Group(NamedTuple):
    """One cell of one sweep in one environment, over those of its runs that were chosen."""

    token: str
    runs: tuple[ComparedRun, ...]
    """Those that ended ok: figures come from them alone."""
    lost: tuple[ComparedRun, ...]
    """Failed, cancelled, out of memory or still measured."""

    @property
    def first(self) -> ComparedRun:
        return (*self.runs, *self.lost)[0]

    @property
    def noisy_runs(self) -> int:
        return sum(bool(run.noisy) for run in self.runs)

    def values(self, metric: str) -> list[float]:
        return [value for run in self.runs if (value := figure(run, metric)) is not None]

    def middle(self) -> ComparedRun:
        """The run in the middle by its time, to stand for the group where only one can be drawn."""
        known = sorted(self.runs or self.lost, key=lambda run: run.metrics.get("end_to_end_s", 0.0))
        return known[len(known) // 2]


class Figure(NamedTuple):
    """One metric of one group, and how it stands to the baseline's."""

    metric: str
    unit: str | None
    group: int
    """Its place among the groups."""
    value: Estimate | None
    ratio: Ratio | None
    """None for the baseline itself, and where a value of zero or less has no ratio."""
    words: Words | None
    """None for the baseline itself."""
    shift: float | None
    """The smallest ratio that these runs could have shown."""


class Difference(NamedTuple):
    """A parameter or a fact of the environment over the groups, as text."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def group_runs(runs: Iterable[ComparedRun]) -> list[Group]:
    """In the order of their first run. Runs of one cell measured in two environments are two groups."""
    found: dict[tuple[str, str], list[ComparedRun]] = {}
    for run in runs:
        found.setdefault((run.cell, run.environment_id), []).append(run)
    places: dict[str, int] = {}
    for cell, _ in found:
        places[cell] = places.get(cell, 0) + 1
    return [Group(cell if places[cell] == 1 else f"{cell}~{environment or 'unknown'}",
                  tuple(run for run in members if run.status == "ok"),
                  tuple(run for run in members if run.status != "ok"))
            for (cell, environment), members in found.items()]


def figure(run: ComparedRun, metric: str) -> float | None:
    if metric == PER_ITEM:
        whole = run.metrics.get("end_to_end_s")
        return whole / run.items if whole is not None and run.items else None
    return run.metrics.get(metric)


def list_metrics(groups: Sequence[Group]) -> list[str]:
    """Every metric that some run has, the telling ones first. Time per item only where the work differs: elsewhere it
    is the same comparison as end to end."""
    known = dict.fromkeys(name for group in groups for run in group.runs for name in run.metrics)
    if len({run.items for group in groups for run in group.runs}) > 1 and "end_to_end_s" in known:
        known[PER_ITEM] = None
    return [name for name in FIRST if name in known] + sorted(name for name in known if name not in FIRST)


def unit_of(metric: str, units: Mapping[str, str | None]) -> str | None:
    return "s" if metric == PER_ITEM else units.get(metric)


def compare_figures(groups: Sequence[Group], baseline: int, metric: str, unit: str | None) -> list[Figure]:
    """One metric over all groups, in their order."""
    base = groups[baseline].values(metric)
    return [compare_values(metric, unit, place, group.values(metric), None if place == baseline else base)
            for place, group in enumerate(groups)]


def compare_values(metric: str, unit: str | None, place: int, values: Sequence[float],
                   base: Sequence[float] | None) -> Figure:
    """`base` is None for the baseline itself."""
    if not values:
        return Figure(metric, unit, place, None, None, None if base is None else "not measured", None)
    value = estimate(values) if min(values) > 0 else Estimate(fmean(values), None, None, len(values))
    rounded = is_timed(metric, unit) and len(set(values)) == 1
    if rounded:
        value = value._replace(low=None, high=None)
    if base is None:
        return Figure(metric, unit, place, value, None, None, None)
    if not base:
        return Figure(metric, unit, place, value, None, "not measured", None)
    if min(values) <= 0 or min(base) <= 0:
        return Figure(metric, unit, place, value, None, "no ratio", None)
    ratio, shift = compare(values, base), smallest_shift(values, base)
    if rounded and len(set(base)) == 1:
        ratio, shift = ratio._replace(low=None, high=None), None
    return Figure(metric, unit, place, value, ratio, say_verdict(ratio, metric, unit), shift)


def is_timed(metric: str, unit: str | None) -> bool:
    """Whether a clock is behind it. Two runs never take the same time: equal figures were rounded, and their spread of
    zero is not known rather than none. Equal bytes are equal."""
    return metric not in COMPUTED and (unit == "s" or metric.endswith("_s") or (unit or "").endswith("/s"))


def say_verdict(ratio: Ratio, metric: str, unit: str | None) -> Words:
    """Faster and slower for times and rates; any other metric is higher or lower, and what is better is not said."""
    verdict = ratio.verdict
    if verdict not in ("higher", "lower"):
        return verdict
    if metric.endswith("_per_s") or (unit or "").endswith("/s"):
        return "faster" if verdict == "higher" else "slower"
    if (unit == "s" or metric.endswith("_s")) and metric not in NO_SPEED \
            and not metric.endswith("_at_s"):
        return "slower" if verdict == "higher" else "faster"
    return verdict


def phase_names(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(name for group in groups for run in group.runs for name in run.phases_s))


def phase_values(group: Group, phase: str, per_item: bool) -> list[float]:
    """Seconds of a phase in each run; a run that never entered it spent none there. `unaccounted` is the window
    without its phases."""
    found = []
    for run in group.runs:
        if not run.phases_s or (per_item and not run.items):
            continue
        if phase == UNACCOUNTED:
            seconds = run.metrics.get("end_to_end_s", 0.0) - sum(run.phases_s.values())
        else:
            seconds = run.phases_s.get(phase, 0.0)
        found.append(max(seconds, 0.0) / ((run.items or 1.0) if per_item else 1.0))
    return found


def all_have_items(groups: Sequence[Group]) -> bool:
    """Whether phases can be told per item: else they are told per run."""
    return all(run.items for group in groups for run in group.runs)


def parameter_rows(groups: Sequence[Group]) -> list[Difference]:
    """What took effect, asked values where a run does not say; several within a group are told with a slash."""
    names = dict.fromkeys(name for group in groups for name in group.first.settings)
    return [Difference(name, tuple(_several(run.settings.get(name) for run in (*group.runs, *group.lost))
                                   for group in groups)) for name in names]


def environment_rows(groups: Sequence[Group], facts: Mapping[str, Mapping[str, Any]]) -> list[Difference]:
    flat = {identity: flatten_facts(found) for identity, found in facts.items()}
    names = dict.fromkeys(name for group in groups for name in flat.get(group.first.environment_id, {}))
    return [Difference(name, tuple(flat.get(group.first.environment_id, {}).get(name, "–") for group in groups))
            for name in names]


def flatten_facts(facts: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """`libraries: {torch: 2.15}` as `libraries torch`; lists as one text."""
    found: dict[str, str] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found |= flatten_facts(value, f"{before}{name} ")
        elif isinstance(value, list):
            found[before + name] = ", ".join(_entry(entry) for entry in value) or "none"
        else:
            found[before + name] = "–" if value is None else str(value)
    return found


def _entry(entry: Any) -> str:
    return str(entry.get("name") or entry) if isinstance(entry, Mapping) else str(entry)


def _several(values: Iterable[Any]) -> str:
    return " / ".join(dict.fromkeys("–" if value is None else str(value) for value in values))
