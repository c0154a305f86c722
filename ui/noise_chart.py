"""The noise check as a picture: every piece of work over the seconds of the check, and the blocks it is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import altair as alt
import pandas as pd

from analysis.quietness import BLOCKS, block_means
from ui.colours import SERIES

POINTS = 4_000
"""More pieces than this are thinned evenly; the slow ones stay."""
TOP = 4.0
"""Pieces slower than this many medians are drawn at the upper edge: one of them would flatten all others."""


class DrawnPart(NamedTuple):
    name: str
    start_s: float  # since the check began
    tracks: Sequence[Sequence[float]]
    median_s: float


def noise_strip(parts: Sequence[DrawnPart]) -> alt.LayerChart:
    """Points are pieces, lines the means of blocks, one per process."""
    points, blocks = pd.DataFrame(_points(parts)), pd.DataFrame(_blocks(parts))
    top = TOP * max(part.median_s for part in parts) * 1000
    low, high = points["milliseconds"].min(), min(points["milliseconds"].max(), top)
    room = max(high - low, 0.01 * high) * 0.06
    # Streamlit's theme colours the axes; the two hues are told apart by colour-blind people and on both backgrounds.
    colour = alt.Color("part:N", title=None, sort=[part.name for part in parts],
                       scale=alt.Scale(domain=[part.name for part in parts], range=SERIES[: len(parts)]),
                       legend=alt.Legend(orient="top", labelLimit=400))
    x = alt.X("time_s:Q", title="Time since the check began (s)", axis=alt.Axis(tickCount=10),
              scale=alt.Scale(zero=True, nice=False))
    y = alt.Y("milliseconds:Q", title="Time of one piece (ms)",
              scale=alt.Scale(domain=[max(0.0, low - room), high + room], clamp=True, nice=False))
    strip = alt.Chart(points).mark_circle(size=14, opacity=0.6).encode(
        x=x, y=y, color=colour,
        tooltip=[alt.Tooltip("part:N", title="Load"), alt.Tooltip("time_s:Q", title="Time (s)", format=".3f"),
                 alt.Tooltip("milliseconds:Q", title="Piece (ms)", format=",.3~f")])
    lines = alt.Chart(blocks).mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        x=x, y=y, color=colour, detail="process:N",
        tooltip=[alt.Tooltip("part:N", title="Load"), alt.Tooltip("process:N", title="Process"),
                 alt.Tooltip("milliseconds:Q", title="Mean of the block (ms)", format=",.3~f")])
    return alt.layer(strip, lines).properties(height=300)


def slower_than_drawn(parts: Sequence[DrawnPart]) -> int:
    """How many pieces are at the upper edge."""
    top = TOP * max(part.median_s for part in parts)
    return sum(seconds > top for part in parts for track in part.tracks for seconds in track)


def _points(parts: Sequence[DrawnPart]) -> list[dict[str, object]]:
    total = sum(len(track) for part in parts for track in part.tracks)
    every = max(1, -(-total // POINTS))
    rows: list[dict[str, object]] = []
    for part in parts:
        for track in part.tracks:
            time_s = part.start_s
            for at, seconds in enumerate(track):
                # Pieces follow each other without a gap, so their sum is the time.
                if at % every == 0 or seconds > 1.5 * part.median_s:
                    rows.append({"part": part.name, "time_s": time_s, "milliseconds": seconds * 1000})
                time_s += seconds
    return rows


def _blocks(parts: Sequence[DrawnPart]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for part in parts:
        for process, track in enumerate(part.tracks, 1):
            length = max(1, len(track) // BLOCKS)
            time_s = part.start_s
            for mean in block_means(track, BLOCKS):
                rows.append({"part": part.name, "process": f"{part.name} {process}", "time_s": time_s,
                             "milliseconds": mean * 1000})
                time_s += mean * length
            rows.append({**rows[-1], "time_s": time_s})  # a step needs the end of its last block
    return rows
