"""Marks that stand for runs can be clicked: what was chosen in a chart is one more click away from Compare.

A chart takes part when its rows have a column `run_ids`: the ids behind a mark with commas between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from ui.frame import draw_compare

RUN_IDS = "run_ids"
PICKED = "picked"
HINT = "Click a mark to choose it, shift-click for several, to compare their runs."
MOST_RUNS = 100
"""In one link: more would make it longer than browsers and mail programs bear."""


def join_ids(run_ids: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(run_ids))


def draw_chart(chart: alt.TopLevelMixin, rows: pd.DataFrame | None, key: str) -> list[str]:
    """Draws it; returns what is chosen in it, one text of run ids per mark."""
    chart = chart.configure_axis(labelFlush=False)
    if rows is None or not can_pick(rows):
        st.altair_chart(chart, width="stretch", key=key)
        return []
    event: Any = st.altair_chart(make_pickable(chart), width="stretch", key=key, on_select="rerun")
    return chosen_in(event, rows)


def make_pickable(chart: Any) -> Any:
    """The chart with marks that can be chosen: those of the same runs together."""
    picked = alt.selection_point(name=PICKED, fields=[RUN_IDS])
    return _fade_others(chart, picked).add_params(picked)


def chosen_in(event: Any, rows: pd.DataFrame) -> list[str]:
    """What a browser says was chosen, as far as these rows know it."""
    entries = event.selection.get(PICKED, [])
    known = set(rows[RUN_IDS]) if entries else set()
    return [ids for entry in entries if (ids := entry.get(RUN_IDS)) in known and ids]


def can_pick(rows: pd.DataFrame | None) -> bool:
    return rows is not None and RUN_IDS in rows and bool(rows[RUN_IDS].astype(bool).any())


def draw_compare_link(run_ids: Sequence[str], marks: int) -> None:
    """The way to Compare for what was chosen."""
    label = "Compare it" if marks == 1 else f"Compare {marks} chosen"
    if len(run_ids) > MOST_RUNS:
        label += f" (the first {MOST_RUNS} of {len(run_ids)} runs)"
    draw_compare(run_ids[:MOST_RUNS], f"**{label}**")


def draw_picked(picked: Sequence[str]) -> None:
    if picked:
        draw_compare_link(list(dict.fromkeys(",".join(picked).split(","))), len(picked))


def _fade_others(chart: Any, picked: alt.Parameter) -> Any:
    """Marks that are not chosen grow pale once one is. Where opacity already says something it is left alone."""
    if isinstance(chart, alt.LayerChart):
        faded = chart.copy()
        faded.layer = [_fade_others(layer, picked) for layer in chart.layer]
        return faded
    mark = chart.mark if isinstance(chart.mark, str) else getattr(chart.mark, "type", "")
    plain = isinstance(chart.mark, str) or getattr(chart.mark, "opacity", alt.Undefined) in (alt.Undefined, 1)
    if mark not in ("bar", "point", "circle", "rect", "square") or not plain \
            or chart.encoding.opacity is not alt.Undefined:
        return chart
    return chart.encode(opacity=alt.when(picked).then(alt.value(1.0)).otherwise(alt.value(0.35)))
