"""What forbids or weakens a comparison of groups: other machines, other versions, noise, other settings, few runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from analysis.side_by_side import Difference, Group, environment_rows, parameter_rows

MACHINE = ("hostname", "cpu_model", "cores_affinity", "cores_quota", "cores_allowed", "memory_limit_bytes", "gpus")
ENOUGH_RUNS = 3
WITHIN_A_SWEEP = timedelta(hours=1)
"""Cells of one sweep are measured in turns, but a sweep that was extended or resumed is not shuffled anew."""
POOLED = ("machine", "versions", "code", "noise", "question", "lost", "order")
"""Of the doubts, those that also hold for runs pooled over cells."""
CONSEQUENCES = ("images", "batches", "batches_per_epoch", "prefetch_factor", "epochs", "loader_context")
"""Settings that follow from others as they took effect: they are not a second difference."""


class Doubt(NamedTuple):
    kind: str
    """machine, versions, code, noise, settings, question, runs, lost or order."""
    text: str
    grave: bool
    """Whether the verdict may be about something else than what is compared."""


def find_doubts(groups: Sequence[Group], names: Sequence[str], baseline: int,
                facts: Mapping[str, Mapping[str, Any]]) -> list[Doubt]:
    """`names` are what the groups are called."""
    measured = [place for place, group in enumerate(groups) if group.runs]
    doubts = [*_about_places(groups, names, facts), *_about_noise(groups, names)]
    if len({group.first.experiment for group in groups}) > 1:
        asked = ", ".join(sorted({group.first.experiment for group in groups}))
        doubts.append(Doubt("question", f"They answer different questions ({asked}): metrics of the same name need not "
                            "mean the same.", True))
    else:
        doubts += _about_settings(groups, names, baseline)
    doubts += _about_few([names[place] for place in measured if len(groups[place].runs) < ENOUGH_RUNS])
    if lost := Counter(run.status for group in groups for run in group.lost):
        doubts.append(Doubt("lost", "Left out, because they have no figures: "
                            f"{', '.join(f'{count} {status}' for status, count in lost.items())}.", False))
    return doubts + _about_order(groups)


def find_sweep_doubts(sweeps: Mapping[str, Sequence[Group]], names: Mapping[str, str],
                      facts: Mapping[str, Mapping[str, Any]]) -> list[Doubt]:
    """Of sweeps as wholes, by their ids: their runs pooled by environment."""
    pooled: dict[tuple[str, str], list[Group]] = {}
    for sweep_id, groups in sweeps.items():
        for group in groups:
            pooled.setdefault((sweep_id, group.first.environment_id), []).append(group)
    if not pooled:
        return []
    wholes = [Group(sweep_id, tuple(run for group in groups for run in group.runs),
                    tuple(run for group in groups for run in group.lost)) for (sweep_id, _), groups in pooled.items()]
    told = [names[sweep_id] for sweep_id, _ in pooled]
    few = [names[sweep_id] for sweep_id, groups in sweeps.items()
           if any(0 < len(group.runs) < ENOUGH_RUNS for group in groups)]
    return [*(doubt for doubt in find_doubts(wholes, told, 0, facts) if doubt.kind in POOLED), *_about_few(few)]


def _about_few(few: Sequence[str]) -> list[Doubt]:
    return [Doubt("runs", f"Fewer than {ENOUGH_RUNS} runs of a cell: {_some(few)}. A claim needs {ENOUGH_RUNS}, a "
                  "small difference 5.", False)] if few else []


def _about_places(groups: Sequence[Group], names: Sequence[str], facts: Mapping[str, Mapping[str, Any]]) -> list[Doubt]:
    doubts = []
    if imported := [names[place] for place, group in enumerate(groups) if group.first.imported]:
        doubts.append(Doubt("machine", f"Imported: {_some(imported)}. Nothing is known about their machine and its "
                            "versions.", True))
    known = [group for group in groups if group.first.environment_id in facts]
    differing = [row for row in environment_rows(known, facts) if row.differs]
    if machine := [row for row in differing if row.name in MACHINE]:
        doubts.append(Doubt("machine", f"Measured on different machines: {_tell(machine)}.", True))
    code = [row for row in differing if row.name in ("git_commit", "git_dirty")]
    if versions := [row for row in differing if row not in machine and row not in code]:
        doubts.append(Doubt("versions", f"Versions or settings of the machine differ: {_tell(versions)}.", True))
    if code:
        doubts.append(Doubt("code", f"PhaseLab's own code differs: {_tell(code)}.", False))
    return doubts


def _about_noise(groups: Sequence[Group], names: Sequence[str]) -> list[Doubt]:
    noisy = [f"{names[place]} ({group.noisy_runs} of {len(group.runs)})" for place, group in enumerate(groups)
             if group.noisy_runs]
    return [Doubt("noise", f"Noisy runs, disturbed by other work: {_some(noisy)}. Measure them again before you "
                  "rely on a verdict.", True)] if noisy else []


def _about_settings(groups: Sequence[Group], names: Sequence[str], baseline: int) -> list[Doubt]:
    """A difference can be put down to a setting only where that one alone differs."""
    doubts = []
    rows = [row for row in parameter_rows(groups) if row.name not in CONSEQUENCES]
    many = {place: [row.name for row in rows if row.values[place] != row.values[baseline]]
            for place in range(len(groups)) if place != baseline}
    if mixed := {place: found for place, found in many.items() if len(found) > 1}:
        place, found = next(iter(mixed.items()))
        others = f" ({len(mixed) - 1} more are alike in this)" if len(mixed) > 1 else ""
        doubts.append(Doubt("settings", f"{names[place]} differs from the baseline in {len(found)} settings "
                            f"({_some(found)}){others}: a difference cannot be put down to one of them.", False))
    if inside := [row.name for row in rows if any(" / " in value for value in row.values)]:
        doubts.append(Doubt("settings", f"What took effect differs among the runs of one cell: {_some(inside)}.", True))
    return doubts


def _about_order(groups: Sequence[Group]) -> list[Doubt]:
    """Runs that were not measured in turns: drift of the machine between them looks like a difference."""
    spans = [(min(moments), max(moments)) for group in groups
             if (moments := [run.started_at for run in group.runs if run.started_at])]
    if len(spans) < 2:
        return []
    gap = max(later[0] - earlier[1] for earlier in spans for later in spans)
    if gap <= (WITHIN_A_SWEEP if len({group.first.sweep_id for group in groups}) < 2 else timedelta(0)):
        return []
    # Also of minutes: on this project's own machine equal sweeps, one right after the other, differed by 4 %.
    return [Doubt("order", f"They were measured up to {_told(gap)} apart and not in turns: whatever changed on the "
                  "machine meanwhile counts as a difference, too.", False)]


def _tell(rows: Sequence[Difference], most: int = 4) -> str:
    parts = [f"{row.name.replace('_', ' ')} {', '.join(dict.fromkeys(_short(value) for value in row.values))}"
             for row in rows[:most]]
    return "; ".join(parts) + (f"; and {len(rows) - most} more" if len(rows) > most else "")


def _some(words: Sequence[str], most: int = 4) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _short(value: str, longest: int = 40) -> str:
    if len(value) > 30 and all(letter in "0123456789abcdef" for letter in value):
        return value[:10]  # a commit
    return value if len(value) <= longest else value[: longest - 1] + "…"


def _told(gap: timedelta) -> str:
    hours = gap.total_seconds() / 3600
    if hours < 1 / 30:
        return f"{gap.total_seconds():.0f} seconds"
    if hours < 2:
        return f"{hours * 60:.0f} minutes"
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
