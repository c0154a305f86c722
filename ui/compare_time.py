"""Compare, over time: one cell wherever it was measured, and what each change of the environment did to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.comparability import Doubt, find_doubts
from analysis.over_time import Era, find_eras, machine_of
from analysis.side_by_side import ComparedRun, Group
from ui.compare_charts import UNITS, era_bands, era_chart, era_frame
from ui.compare_choice import draw_doubts, tell_care, tell_quietly
from ui.compare_findings import about_eras, tell_changes, tell_interval, tell_ratio, tell_shift, tell_value, title_of
from ui.compare_names import Name
from ui.copying import draw_copies
from ui.figure import draw_figure, draw_rows_button
from ui.links import choose

KINDS = ("noise", "order", "runs")
DRIFT = "Drift of the machine between the days of two eras counts as the change, too."


def choose_cell(groups: Sequence[Group], names: Sequence[Name]) -> Group:
    """Of cells that several sweeps have, one entry is enough."""
    first = {group.first.cell_key: place for place, group in reversed(list(enumerate(groups)))}
    tokens = [groups[place].token for place in sorted(first.values())]
    by_token = {group.token: place for place, group in enumerate(groups)}
    chosen = tokens[0]
    if len(tokens) > 1:
        chosen = choose("Cell", tokens, "cell", lambda token: names[by_token[token]].label, quiet=True) or chosen
    return groups[by_token[chosen]]


def choose_machine(runs: Sequence[ComparedRun], facts: Mapping[str, Mapping[str, Any]],
                   own: ComparedRun) -> list[ComparedRun]:
    """Runs of one machine: another machine's are no change of this one. The chosen cell's own comes first."""
    machines: dict[str, list[ComparedRun]] = {machine_of(own, facts): []}
    for run in runs:
        machines.setdefault(machine_of(run, facts), []).append(run)
    machines = {machine: members for machine, members in machines.items() if members}
    if len(machines) < 2:
        return list(runs)
    chosen = choose("Machine", list(machines), "machine", lambda name: f"{name} ({len(machines[name])} runs)",
                    quiet=True)
    st.caption(f"This cell was measured on {len(machines)} machines. Each has a line of its own.")
    return machines[chosen or next(iter(machines))]


def draw_over_time(runs: Sequence[ComparedRun], facts: Mapping[str, Mapping[str, Any]], metric: str,
                   unit: str | None) -> None:
    with st.container(horizontal=True):
        split = st.toggle("A commit is a change", value=True, key="commits", bind="query-params",
                          help="Off: only drivers, libraries and the system count")
        even = st.toggle("Evenly spaced", key="even", bind="query-params",
                         help="Runs one after the other instead of on a calendar")
    eras = find_eras(runs, facts, metric, unit, split)
    if not eras:
        st.info("No ok run of this cell has this metric. Imported runs are left out: when they were measured is not "
                "known.")
        return
    shown, factor = UNITS.get(unit or "", (unit or "", 1.0))
    title = title_of(metric).capitalize() + (f" ({shown})" if shown else "")
    frame = era_frame(eras, factor)
    doubts = era_doubts(eras, facts)
    draw_doubts(doubts)
    draw_figure(about_eras(eras, metric), era_chart(frame, era_bands(eras, factor), title, even), frame, "compare_eras",
                (f"{DRIFT} " if len(eras) > 1 else "") + "Dots: runs. Bars: geometric mean between two changes, "
                "shaded: its 95 % interval over runs. Dashed: the environment changed between the runs on both sides.",
                care=tell_care(doubts), to_know=tell_quietly(doubts))
    if len(eras) == 1:
        return
    table = era_table(eras)
    st.dataframe(table, hide_index=True, height="content", alt="Each change and what it did")
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_copies(table, "eras")
        draw_rows_button(table, "compare_changes")


def era_doubts(eras: Sequence[Era], facts: Mapping[str, Mapping[str, Any]]) -> list[Doubt]:
    """Versions differ between eras by what they are, so that is no doubt here."""
    groups = [Group(str(place), era.runs, ()) for place, era in enumerate(eras)]
    names = ["before any change", *(f"after change {place}" for place in range(1, len(eras)))]
    return [doubt for doubt in find_doubts(groups, names, 0, facts) if doubt.kind in KINDS]


def era_table(eras: Sequence[Era]) -> pd.DataFrame:
    return pd.DataFrame([{
        "Change": str(place) if place else "–", "From (UTC)": f"{era.begins:%Y-%m-%d %H:%M}",
        "What changed": tell_changes(era, 8) if place else "the first runs", "Verdict": era.figure.words or "–",
        "Times before": tell_ratio(era.figure.ratio), "95 % interval": tell_interval(era.figure.ratio),
        "Value [95 % interval]": tell_value(era.figure.value, era.figure.unit),
        "Runs": str(len(era.runs)), "Could have shown": tell_shift(era.figure.shift)}
        for place, era in enumerate(eras)])
