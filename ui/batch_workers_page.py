"""The parts of the Batch & workers page: recommendation, families of bars, heat maps, regret, first batch, limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import streamlit as st

from analysis.grid_report import PLACE, grid_setting, warn_of_unfinished, warn_of_work
from analysis.grid_view import GridView, cell_times, first_batches
from analysis.grids import Grid, Pair, Plan, group_id, varying_settings
from ui.figure import draw_figure, say_incomplete
from ui.frame import safe
from ui.grid_charts import (
    Along,
    bar_frame,
    first_frame,
    first_lines,
    grouped_bars,
    heat_frame,
    heat_map,
    phase_bars,
    phase_frame,
    time_scale,
)
from ui.grid_findings import (
    about_family,
    about_first,
    about_heat,
    about_level,
    about_limits,
    about_recommendation,
)
from ui.links import choose
from ui.picking import RUN_IDS, join_ids
from ui.units import number

ALL = "all models"
INTERVAL_NOTE = ("Bars: median over runs. Whiskers: 95 % interval over runs (t on logarithms); none where a cell has "
                 "one run, cut off where they leave the chart.")
Draw = Callable[[GridView, str], None]
CARD_PX = 400
"""A chart that stands beside another needs as much."""


class Family(NamedTuple):
    """One of seed 004's three kinds of plots: what is fixed, what varies along the axis, what the colours are."""

    fixed: str
    along: Along
    series: str


FAMILIES = {"Fixed batch size, workers vary": Family("batch_size", "workers", "model"),
            "Fixed workers, batch size varies": Family("workers", "batch_size", "model"),
            "One model, both vary": Family("model", "workers", "batch_size")}


def say_unfinished(plans: Sequence[Plan]) -> None:
    for plan in plans:
        sentence = warn_of_unfinished(plan)
        say_incomplete(safe(sentence[0].upper() + sentence[1:] + "."), st.info)


def choose_group(groups: Sequence[Sequence[Grid]], sweeps: Mapping[str, str]) -> Sequence[Grid]:
    """Which grids to show when the sweeps hold several that must not be pooled. `sweeps` are names by id."""
    if len(groups) == 1:
        return groups[0]
    firsts = [group[0] for group in groups]
    names = [name for name in varying_settings(firsts) if name != "format"]
    by_id = {group_id(group[0]): group for group in groups}
    labels = {name: _label(group[0], grid_setting(group[0], firsts, names), sweeps) for name, group in by_id.items()}
    chosen = choose("Grid", list(labels), "grid", lambda name: labels[name])
    apart = ", ".join("where they were measured" if name == PLACE else safe(name.replace("_", " "))
                      for name in grid_setting(firsts[0], firsts, names))
    st.caption(f"These sweeps hold {len(groups)} grids that differ in {apart}. Their runs are not pooled: choose one.")
    return by_id[chosen] if chosen else groups[0]


def _label(grid: Grid, setting: dict[str, Any], sweeps: Mapping[str, str]) -> str:
    imported = grid.imported_sweep
    shown = {name: str(value)[:12] if name == PLACE else value for name, value in setting.items()
             if name != PLACE or not imported}
    words = [f"{name} {value}" for name, value in shown.items()]
    if imported and PLACE in setting:
        # Two imports can have the same name: the end of the id tells them apart.
        words.append(f"imported as {sweeps.get(imported, imported)} ({imported[-4:]})")
    return ", ".join(words) or "the only one"


def title_of(view: GridView) -> str:
    return view.grid.format + (", imported" if view.grid.imported_sweep else "")


def draw_recommendations(views: Sequence[GridView]) -> None:
    cards = st.grid(len(views), min_column_width=CARD_PX, border=True)
    for view in views:
        with cards.cell(), st.container(key=f"recommended_{view.grid.format}"):
            st.markdown(f"##### {safe(title_of(view))}")
            st.markdown(about_recommendation(view))
            if sentence := about_limits(view):
                st.markdown(sentence)
            noisy = view.grid.count(noisy_only=True)
            words = [f"{view.grid.count()} runs" + (f", {noisy} of them noisy" if noisy else "")]
            if view.per_item and (unknown := view.grid.count_without_items()):
                words.append(f"{unknown} of them not in the time per image: their number of items is unknown")
            if lost := view.grid.count_lost():
                words.append(f"{lost} more without a time: failed, out of memory, unfinished or not begun")
            if gaps := len(view.missing):
                words.append(f"{gaps} missing {'cell' if gaps == 1 else 'cells'}, see the tab Missing")
            if view.grid.imported_sweep:
                words.append("imported: measured elsewhere")
            st.caption(" · ".join(words))
            for sentence in warn_of_work(view.grid, view.per_item):
                st.warning(safe(sentence[0].upper() + sentence[1:] + "."))
    if sentence := next((text for view in views if (text := about_level(view))), ""):
        st.caption(sentence)


def draw_beside(views: Sequence[GridView], draw: Draw, wide: bool = False) -> None:
    """The same figure of each format, side by side; wide ones, and all of them in a narrow window, below each other."""
    places = st.grid(1 if wide else len(views), min_column_width=CARD_PX, gap="medium")
    for view in views:
        with places.cell():
            if len(views) > 1:
                st.markdown(f"##### {safe(title_of(view))}")
            draw(view, view.grid.format)


def draw_bars(views: Sequence[GridView]) -> None:
    kind = st.segmented_control("Family", list(FAMILIES), default=next(iter(FAMILIES)), key="family", required=True,
                                bind="query-params", label_visibility="collapsed") or next(iter(FAMILIES))
    family = FAMILIES[kind]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        options = _options(views, family.fixed)
        best = next((view.recommendation.best.pair for view in views if view.recommendation), None)
        start = str(getattr(best, family.fixed, ""))
        fixed = choose(family.fixed.replace("_", " ").capitalize(), options, f"fixed_{family.fixed}", str, width=220,
                       index=options.index(start) if start in options else 0)
        stacked = st.toggle("Stack the phases", key="stacked", bind="query-params")
    if fixed is None:
        return
    chosen, missing = {}, {}
    for view in views:
        models = [model for model in view.models if family.fixed != "model" or model == fixed]
        pairs = [p for p in view.grid.pairs if family.fixed == "model" or str(getattr(p, family.fixed)) == fixed]
        chosen[view.grid.format] = cell_times(view, models, sorted(pairs))
        missing[view.grid.format] = len(models) * len(pairs) - len(chosen[view.grid.format])
    scale = time_scale(views[0].per_item)
    ends = [max(cell.interval.high or 0.0, cell.median_s) if (cell.interval.high or 0) < 3 * cell.median_s
            else cell.median_s * 1.5 for cells in chosen.values() for cell in cells]
    most = max(ends, default=1.0) * scale.factor * 1.02
    phases = {view.grid.format: phase_frame(view, chosen[view.grid.format], scale) for view in views} \
        if stacked else {}
    longest = max((frame.groupby("cell")["time"].sum().max() for frame in phases.values() if not frame.empty),
                  default=1.0) * 1.02

    def draw(view: GridView, name: str) -> None:
        cells = chosen[name]
        if not cells:
            st.info("No cell here has a time.")
            return
        sentence = about_family(cells, family.along, view.per_item, missing[name])
        if stacked:
            frame = phases[name]
            if frame.empty:
                st.info("These runs have no phases.")
                return
            frame = frame.assign(**{RUN_IDS: [_ids(view, [cells[row].model], cells[row].pair) for row in frame["row"]]})
            draw_figure(sentence, phase_bars(frame, scale, longest), frame, f"phases_{name}",
                        "Mean of each phase over runs, so that the parts add up. Phases on a GPU overlap.")
            return
        frame = bar_frame(cells, family.along, family.series, scale)
        frame[RUN_IDS] = [_ids(view, [cell.model], cell.pair) for cell in cells]
        draw_figure(sentence, grouped_bars(frame, family.along, family.series, scale, most), frame, f"bars_{name}",
                    INTERVAL_NOTE)

    draw_beside(views, draw)


def _ids(view: GridView, models: Sequence[str], pair: Pair) -> str:
    return join_ids(run.run_id for model in models for run in view.grid.measured(model, pair))


def _options(views: Sequence[GridView], fixed: str) -> list[str]:
    if fixed == "model":
        return list(dict.fromkeys(model for view in views for model in view.models))
    return [str(value) for value in sorted({getattr(pair, fixed) for view in views for pair in view.grid.pairs})]


def choose_model(views: Sequence[GridView], with_all: bool) -> str:
    models = _options(views, "model")
    options = [ALL, *models] if with_all and len(models) > 1 else models
    return choose("Model", options, "model_all" if with_all else "model", str, width=260) or options[0]


def draw_heat(views: Sequence[GridView]) -> None:
    model = choose_model(views, with_all=True)

    def draw(view: GridView, name: str) -> None:
        values: dict[Pair, float | None]
        if model == ALL:
            values = {row.pair: row.mean_regret for row in view.ranked}
            frame, title, form = heat_frame(values, view.grid.pairs, 100, "{:,.1f}".format), "Mean regret (%)", ",.2f"
        else:
            values = {pair: view.times.get(model, {}).get(pair) for pair in view.grid.pairs}
            scale = time_scale(view.per_item)
            frame, title, form = heat_frame(values, view.grid.pairs, scale.factor, number), scale.title, ",.4~f"
        frame[RUN_IDS] = [_ids(view, view.models if model == ALL else [model], pair) for pair in view.grid.pairs]
        draw_figure(about_heat(values, view.per_item, model == ALL), heat_map(frame, title, form), frame,
                    f"heat_{name}")

    draw_beside(views, draw)


def draw_first(views: Sequence[GridView]) -> None:
    model = choose_model(views, with_all=False)

    def draw(view: GridView, name: str) -> None:
        found = first_batches(view.grid, model)
        if not found:
            st.info(about_first(found, model))
            return
        frame = first_frame(found)
        frame[RUN_IDS] = [_ids(view, [model], pair) for pair in sorted(found)]
        draw_figure(about_first(found, model), first_lines(frame), frame, f"first_{name}",
                    "Median over runs, whiskers: 95 % interval over runs.")

    draw_beside(views, draw)
