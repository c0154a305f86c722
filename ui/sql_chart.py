"""A query's rows as a chart of a person's choosing, with the sentence that it shows."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import streamlit as st

from ui.colours import PHASES, SERIES, STATUSES
from ui.figure import draw_figure
from ui.frame import safe
from ui.links import choose
from ui.units import number

MARKS = {"points": "Points", "line": "Line", "bars": "Bars"}
NOTHING = "(nothing)"
MOST_DRAWN = 5_000
MOST_COLOURS = 20
HEIGHT = 360
UNITS = (("_per_s", "per s"), ("_s", "s"), ("_bytes", "bytes"))


def draw_chart(frame: pd.DataFrame) -> None:
    numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])
               and not pd.api.types.is_bool_dtype(frame[name])]
    if not numbers:
        st.info("No column is a number: a chart needs one to draw.")
        return
    names = [str(name) for name in frame.columns]
    x_first = next((name for name in names if name not in numbers), names[0])
    with st.container(horizontal=True):
        x = _choose("Across", [x_first, *(name for name in names if name != x_first)], "x")
        y = _choose("Up", [*reversed(numbers)], "y")
        colour = _choose("Colour by", [NOTHING, *names], "colour")
        mark = _choose("As", list(MARKS), "mark", MARKS)
    rows, note = pick(frame, x, y, None if colour == NOTHING else colour)
    if rows.empty:
        st.info(f"{safe(y)} is empty in every row.")
        return
    if mark == "bars" and rows.duplicated([name for name in ("x", "colour") if name in rows]).any():
        st.info("Bars need one row for each value across (and colour); several rows share one here. Aggregate them "
                "in the query. Points are drawn instead.")
        mark = "points"
    titled = rows.rename(columns={"x": f"{x} (across)", "y": f"{y} (up)", "colour": f"{colour} (colour)"})
    draw_figure(say(rows, x, y), make_chart(rows, x, y, colour, mark), titled, "query_chart", note)


def _choose(label: str, options: list[str], name: str, titles: dict[str, str] | None = None) -> str:
    """Columns of the last query are not those of this one: what is not offered any more is forgotten."""
    if st.session_state.get(f"choose_{name}", options[0]) not in options:
        del st.session_state[f"choose_{name}"]
    return choose(label, options, name, lambda one: (titles or {}).get(one, one)) or options[0]


def pick(frame: pd.DataFrame, x: str, y: str, colour: str | None) -> tuple[pd.DataFrame, str]:
    """The rows to draw under names of our own (a column may be called anything), and what was left out."""
    columns = {"x": frame[x], "y": frame[y]} | ({"colour": frame[colour].astype(str)} if colour else {})
    rows = pd.DataFrame(columns)
    finite = np.isfinite(rows["y"].astype(float))
    notes = [] if finite.all() else [f"{int((~finite).sum()):,} rows without a finite {safe(y)} are left out."]
    rows = rows[finite]
    if len(rows) > MOST_DRAWN:
        notes.append(f"Drawn: the first {MOST_DRAWN:,} of {len(rows):,} rows.")
    if colour and (many := rows["colour"].nunique()) > MOST_COLOURS:
        notes.append(f"{many:,} values of {safe(colour)} share {len(SERIES)} colours.")
    return rows.head(MOST_DRAWN), " ".join(notes)


def say(rows: pd.DataFrame, x: str, y: str) -> str:
    low, high = rows.loc[rows["y"].idxmin()], rows.loc[rows["y"].idxmax()]
    if low["y"] == high["y"]:
        return f"**{safe(y)} is {number(low['y'])}** in all of {len(rows):,} rows."
    return (f"**{safe(y)} goes from {number(low['y'])}** ({safe(x)} {safe(_short(low['x']))}) **to "
            f"{number(high['y'])}** ({safe(x)} {safe(_short(high['x']))}) over {len(rows):,} rows.")


def _short(value: Any) -> str:
    text = "–" if pd.isna(value) else str(value)
    return text if len(text) <= 40 else "…" + text[-39:]


def make_chart(rows: pd.DataFrame, x: str, y: str, colour: str, mark: str) -> alt.Chart:
    kind = "Q" if pd.api.types.is_numeric_dtype(rows["x"]) else "T" if _is_time(rows["x"]) else "N"
    # A bar stands on its value, and a number of few values reads as names: batch sizes, workers.
    if mark == "bars" and kind == "Q":
        kind = "O"
    chart = alt.Chart(rows)
    drawn = {"points": chart.mark_point(filled=True, size=45, opacity=0.75, color=SERIES[0]),
             "line": chart.mark_line(point=True, color=SERIES[0]), "bars": chart.mark_bar(color=SERIES[0])}[mark]
    whole = {"tickMinStep": 1} if pd.api.types.is_integer_dtype(rows["x"]) and kind == "Q" else {}
    axis = alt.Axis(labelAngle=0, labelOverlap=True, labelLimit=120, **whole)
    encoding: dict[str, Any] = {
        "x": alt.X(f"x:{kind}", title=_title(x), axis=axis, sort=None),
        "y": alt.Y("y:Q", title=_title(y), scale=alt.Scale(zero=mark == "bars")),
        "tooltip": [alt.Tooltip(f"x:{kind}", title=x), alt.Tooltip("y:Q", title=y, format=".6~g")]}
    if colour != NOTHING:
        values = list(dict.fromkeys(rows["colour"]))
        fixed = [PHASES.get(value) or STATUSES.get(value) or SERIES[place % len(SERIES)]
                 for place, value in enumerate(values)]
        encoding["color"] = alt.Color("colour:N", title=colour, sort=None,
                                      scale=alt.Scale(domain=values, range=fixed),
                                      legend=alt.Legend(orient="top", columns=4, symbolLimit=MOST_COLOURS))
        encoding["tooltip"].append(alt.Tooltip("colour:N", title=colour))
        if mark == "bars":
            encoding["xOffset"] = alt.XOffset("colour:N", sort=None)
    return drawn.encode(**encoding).properties(height=HEIGHT)


def _is_time(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(column))


def _title(name: str) -> str:
    return next((f"{name} ({unit})" for ending, unit in UNITS if name.endswith(ending)), name)
