"""Charts from numbers. Each function takes plain rows in seconds and bytes and returns an Altair chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from ui.colours import PHASES, phase_scale

PHASE_ORDER = list(PHASES)
HEIGHT = 260


def phase_bars(rows: Sequence[dict[str, Any]], label: str, label_title: str) -> alt.Chart:
    """Stacked horizontal bars: one per cell, its phases in seconds. Rows: label, phase, seconds."""
    frame = _in_milliseconds(rows)
    order = list(dict.fromkeys(frame[label]))
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("sum(milliseconds):Q", title="Median time per batch (ms), phases stacked"),
            y=alt.Y(f"{label}:N", title=label_title, sort=order, axis=alt.Axis(labelLimit=320)),
            color=_phase_colour(frame),
            order=alt.Order("place:Q"),
            tooltip=[alt.Tooltip(f"{label}:N", title=label_title), alt.Tooltip("phase:N", title="Phase"),
                     alt.Tooltip("milliseconds:Q", title="Median (ms)", format=",.3~f")],
        )
        # The height includes axis, title and legend.
        .properties(height=min(30 * len(order) + 130, 1200))
    )


def batch_bars(rows: Sequence[dict[str, Any]]) -> alt.Chart:
    """Stacked bars of single batches in order. Rows: batch, phase, seconds."""
    frame = _in_milliseconds(rows)
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("batch:O", title="Batch", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("sum(milliseconds):Q", title="Time (ms)"),
            color=_phase_colour(frame),
            order=alt.Order("place:Q"),
            tooltip=[alt.Tooltip("batch:O", title="Batch"), alt.Tooltip("phase:N", title="Phase"),
                     alt.Tooltip("milliseconds:Q", title="Time (ms)", format=",.3~f")],
        )
        .properties(height=HEIGHT)
    )


def telemetry_lines(rows: Sequence[dict[str, Any]], title: str, scale: float, stages: Sequence[dict[str, Any]] = (),
                    full: float | None = None) -> alt.LayerChart:
    """Readings over the run's own time, one line per device. `scale` turns the stored unit into the title's.

    `full` is the value that means "all of it", drawn as a dashed line. Stages shade the background.
    """
    frame = pd.DataFrame([{"time_s": r["time_s"], "device": r["device"], "value": r["value"] * scale} for r in rows])
    top = max([*frame["value"], full or 0]) * 1.05 or 1
    lines = alt.Chart(frame).mark_line(interpolate="linear", strokeWidth=2).encode(
        x=alt.X("time_s:Q", title="Time since the run was asked for (s)"),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(domain=[0, top])),
        color=alt.Color("device:N", title="Device", scale=alt.Scale(range=["#0f8fc9", "#e69f00", "#009e73", "#d55e00"]),
                        legend=alt.Legend(orient="top") if frame["device"].nunique() > 1 else None),
        tooltip=[alt.Tooltip("time_s:Q", title="Time (s)", format=".2f"),
                 alt.Tooltip("value:Q", title=title, format=",.3~f"), alt.Tooltip("device:N", title="Device")])
    layers: list[alt.Chart] = []
    if stages:
        bands = pd.DataFrame([{"stage": s["stage"], "start": s["start_s"], "end": s["start_s"] + s["seconds"]}
                              for s in stages if s["stage"] in ("warm_up", "measure")])
        if len(bands):
            layers.append(alt.Chart(bands).mark_rect(opacity=0.12, color="#7a869a").encode(
                x="start:Q", x2="end:Q", tooltip=[alt.Tooltip("stage:N", title="Stage")]))
    layers.append(lines)
    if full is not None:
        layers.append(alt.Chart(pd.DataFrame({"full": [full]})).mark_rule(strokeDash=[4, 4], color="#7a869a").encode(
            y="full:Q"))
    return alt.layer(*layers).properties(height=170)


def stage_bar(stages: Sequence[dict[str, Any]]) -> alt.Chart:
    """A run's life from request to end: one bar, stages side by side."""
    frame = pd.DataFrame([{"stage": s["stage"], "start": s["start_s"], "end": s["start_s"] + s["seconds"],
                           "seconds": s["seconds"]} for s in stages])
    order = list(dict.fromkeys(frame["stage"]))
    return (
        alt.Chart(frame)
        .mark_bar(height=26)
        .encode(
            x=alt.X("start:Q", title="Time since the run was asked for (s)"), x2="end:Q",
            color=alt.Color("stage:N", title="Stage", sort=order, scale=alt.Scale(domain=order, scheme="tableau10"),
                            legend=alt.Legend(orient="top", columns=4)),
            tooltip=[alt.Tooltip("stage:N", title="Stage"), alt.Tooltip("seconds:Q", title="Took (s)", format=",.4~f")],
        )
        .properties(height=110)
    )


def _in_milliseconds(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame["milliseconds"] = frame["seconds"] * 1000
    frame["place"] = [PHASE_ORDER.index(p) if p in PHASE_ORDER else len(PHASE_ORDER) for p in frame["phase"]]
    return frame


def _phase_colour(frame: pd.DataFrame) -> alt.Color:
    present = sorted(set(frame["phase"]), key=lambda p: PHASE_ORDER.index(p) if p in PHASE_ORDER else len(PHASE_ORDER))
    domain, colours = phase_scale(present)
    return alt.Color("phase:N", title="Phase", scale=alt.Scale(domain=domain, range=colours),
                     legend=alt.Legend(orient="top"))
