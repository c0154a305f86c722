"""Compare: runs, cells or whole sweeps side by side, and one cell over time; verdicts with intervals."""

from typing import Any

import streamlit as st

from analysis.comparability import find_doubts, find_sweep_doubts
from analysis.side_by_side import (
    MOST_GROUPS,
    Group,
    environment_rows,
    group_runs,
    list_metrics,
    parameter_rows,
    unit_of,
)
from analysis.sweep_match import match_sweeps
from begin import begin
from store.browse import filter_choices
from store.compare import (
    MOST_RUNS,
    compared_runs,
    environment_facts,
    list_readings,
    metric_units,
    overlaid_samples,
    resolve_items,
    same_cell_runs,
)
from ui.compare_choice import (
    choose_baseline,
    choose_metric,
    choose_view,
    draw_choice,
    draw_doubts,
    draw_legend,
    draw_nothing,
    name_left_out,
    name_missing,
    read_items,
    tell_care,
    tell_quietly,
)
from ui.compare_names import name_groups, name_items
from ui.compare_page import draw_differences, draw_metrics, draw_phases, draw_telemetry, draw_verdict
from ui.compare_sweeps import choose_base_sweep, draw_sweeps
from ui.compare_time import choose_cell, choose_machine, draw_over_time

BESIDE, WHOLE, TIME = "Side by side", "Whole sweeps", "Over time"

lab = begin("Compare")
items = tuple(read_items())
newest = lab.keeper.once("filters", lambda: filter_choices(lab.ask))["sweeps"]
chosen = lab.keeper.once(("compared items", items), lambda: resolve_items(lab.ask, items))
name_missing(chosen.unknown, chosen.beyond)
if not chosen.cells:
    draw_nothing(chosen, newest)
    st.stop()


def ask_groups(run_ids: tuple[str, ...]) -> tuple[list[Group], dict[str, str | None], dict[str, Any]]:
    """Groups, units of their metrics and facts of their environments."""
    def ask() -> Any:
        runs = compared_runs(lab.ask, run_ids)
        return group_runs(runs), metric_units(lab.ask, run_ids), environment_facts(
            lab.ask, sorted({run.environment_id for run in runs}))
    return lab.keeper.once(("compared runs", run_ids), ask)


cells = list(chosen.cells)
groups, units, facts = ask_groups(tuple(run_id for cell in cells[:MOST_GROUPS] for run_id in chosen.cells[cell]))
left_out = [*(group.token for group in groups[MOST_GROUPS:]), *cells[MOST_GROUPS:]]
groups = groups[:MOST_GROUPS]
names = name_groups(groups)
metrics = list_metrics(groups)
views = [*([WHOLE] if len(chosen.sweeps) > 1 else []), BESIDE, TIME]
view = choose_view(views)
with st.expander(f"What is compared: {len(cells)} {'cell' if len(cells) == 1 else 'cells'}",
                 expanded=len(chosen.items) == 1, icon=":material/checklist:"):
    draw_choice(chosen, newest, name_items(groups, names), "Take away or add")


def draw_beside() -> None:
    name_left_out(left_out, "cells")
    with st.container(horizontal=True):
        baseline = choose_baseline(groups, names)
        metric = choose_metric(metrics) if metrics else ""
    doubts = find_doubts(groups, [name.letter for name in names], baseline, facts)
    draw_doubts(doubts)
    if metric:
        draw_verdict(groups, names, baseline, metric, units, tell_care(doubts), tell_quietly(doubts))
    draw_legend(groups, names, baseline)
    if not metric:
        st.info("None of these runs has figures: they failed, or are still being measured.")
    else:
        draw_metrics(groups, names, baseline, metrics, units)
        draw_phases(groups, names, baseline)
    draw_differences(parameter_rows(groups), environment_rows(groups, facts), names)
    runs = tuple(group.middle().run_id for group in groups)
    readings = lab.keeper.once(("compared readings", runs), lambda: list_readings(lab.ask, runs))
    draw_telemetry(groups, names, readings, lambda *what: lab.keeper.once(
        ("compared samples", runs, *what[1:]), lambda: overlaid_samples(lab.ask, *what)))


def draw_whole() -> None:
    name_left_out(list(chosen.sweeps.values())[MOST_GROUPS:], "sweeps")
    wholes = {}
    all_facts: dict[str, Any] = {}
    for sweep_id in list(chosen.sweeps)[:MOST_GROUPS]:
        resolved = lab.keeper.once(("compared items", (sweep_id,)), lambda own=sweep_id: resolve_items(lab.ask, [own]))
        wholes[sweep_id], known, found = ask_groups(tuple(run for runs in resolved.cells.values() for run in runs))
        units.update(known)
        all_facts |= found
    with st.container(horizontal=True):
        base = choose_base_sweep({sweep_id: chosen.sweeps[sweep_id] for sweep_id in wholes})
        known_metrics = list_metrics([group for groups in wholes.values() for group in groups])
        metric = choose_metric(known_metrics) if known_metrics else "end_to_end_s"
    doubts = find_sweep_doubts(wholes, chosen.sweeps, all_facts)
    draw_doubts(doubts)
    draw_sweeps({sweep_id: match_sweeps(own, wholes[base], metric, unit_of(metric, units))
                 for sweep_id, own in wholes.items() if sweep_id != base}, chosen.sweeps, base, metric,
                tell_care(doubts), tell_quietly(doubts))


def draw_time() -> None:
    with st.container(horizontal=True):
        cell = choose_cell(groups, names)
        metric = choose_metric(metrics) if metrics else "end_to_end_s"
    same = lab.keeper.once(("same cell", cell.token), lambda: tuple(same_cell_runs(lab.ask, cell.first)))
    if len(same) == MOST_RUNS:
        st.caption(f"The newest {MOST_RUNS:,} runs of this cell.")
    found, _, known = ask_groups(same)
    mine = choose_machine([run for group in found for run in group.runs], known, cell.first)
    draw_over_time(mine, known, metric, unit_of(metric, units))


{BESIDE: draw_beside, WHOLE: draw_whole, TIME: draw_time}[view]()
