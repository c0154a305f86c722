"""The largest batch that fits: each try of a run, and results beside what was published. Drawn from rows."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from store.published import STUDIES
from ui.colours import NEUTRAL, STATUSES
from ui.figure import draw_figure
from ui.units import seconds, size

Rows = list[dict[str, Any]]
PUBLISHED_MODE = "inference"
OUTCOMES = {"fits": STATUSES["ok"], "too large": STATUSES["oom"], "failed": STATUSES["failed"]}


def draw_max_batch(limits: Rows, published: dict[str, dict[str, Any]], tries: Rows | None = None) -> None:
    """`limits` as store.max_batch.list_limits gives them; with the tries of one run they are drawn above."""
    if tries:
        _draw_tries(limits, tries)
    if not limits:
        if not tries:
            st.info("No size was tried.")
        return
    st.dataframe(pd.DataFrame([limit_row(limit, published) for limit in limits]), hide_index=True, height="content",
                 alt="Largest batches, with published ones beside")
    known = [found for limit in limits if (found := _published_for(limit, published))]
    if known:
        study = known[0]["study"]
        st.caption(f"Published: {study} on {STUDIES[study].machine}; another machine and another limit, not like for "
                   "like. That script only doubled, from 32 on: the true limit may be higher.")


def limit_row(limit: dict[str, Any], published: dict[str, dict[str, Any]]) -> dict[str, Any]:
    known = _published_for(limit, published)
    return {"Model": limit["model"], "Run": limit["mode"], "Image size": f"{limit['image_size']} px",
            "Device": limit["device"], "Budget": size(limit["budget_bytes"]), "Largest batch": limit_text(limit),
            "Peak": size(limit["peak_bytes"]), "Tries": f"{limit['tries']:.0f}",
            "Noisy": "noisy" if limit["noisy"] else "",
            "Published": (f"{known['max_batch_size']:.0f}" + (" or more" if known["caveat"] else "")) if known else "–"}


def _published_for(limit: dict[str, Any], published: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """What was published is about inference: beside training it would only mislead."""
    return published.get(limit["model"]) if limit["mode"] == PUBLISHED_MODE else None


def limit_text(limit: dict[str, Any]) -> str:
    """`254`, `at least 4096`, or `256 to 259` when the search stopped at a step."""
    largest, too_large = limit["max_batch_size"], limit["too_large_batch_size"]
    if limit["lower_bound_only"]:
        return f"at least {largest:.0f}"
    if too_large is not None and largest and too_large - largest > 1:
        return f"{largest:.0f} to {too_large - 1:.0f}"
    return f"{largest:.0f}" if largest else "none fits"


def about_tries(limits: Rows, tries: Rows) -> str:
    """What the tries of one run show, in one sentence."""
    count = f"{len(tries)} {'try' if len(tries) == 1 else 'tries'}"
    if not limits:
        last = tries[-1]
        state = "failed" if last["fits"] is None else "fits" if last["fits"] else "does not fit"
        return f"No answer: {count}, and the last one, {last['batch_size']:.0f} images, {state}."
    found = limits[0]
    too_large = next((row for row in tries if row["batch_size"] == found["too_large_batch_size"]), None)
    if not found["max_batch_size"]:
        return f"**Not even {found['too_large_batch_size']:.0f} image fits**: {count}."
    sentence = f"**The largest batch that fits is {limit_text(found)}**: {count}"
    if too_large is not None:
        # Both round to the same number when they are close: the difference says it.
        needs = "were refused memory" if too_large["peak_bytes"] is None else (
            f"need {size(too_large['peak_bytes'] - too_large['usable_bytes'])} more than the "
            f"{size(too_large['usable_bytes'])} there are")
        sentence += f"; {too_large['batch_size']:.0f} images {needs}"
    return sentence + "."


def tries_frame(tries: Rows) -> pd.DataFrame:
    return pd.DataFrame([
        {"Try": row["number"], "Batch size": int(row["batch_size"]),
         "Outcome": "failed" if row["fits"] is None else "fits" if row["fits"] else "too large",
         "Peak": size(row["peak_bytes"]), "Usable": size(row["usable_bytes"]), "Took": seconds(row["seconds"]),
         "peak_bytes": row["peak_bytes"], "usable_bytes": row["usable_bytes"], "seconds": row["seconds"]}
        for row in tries])


def tries_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Sizes in the order they were tried; doubling is a straight climb on the logarithmic axis."""
    order = alt.X("Try:O", title="Try", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    height = alt.Y("Batch size:Q", title="Batch size (images)",
                   scale=alt.Scale(type="log", base=2, nice=False, padding=14))
    shown = [name for name in OUTCOMES if name in set(frame["Outcome"])]
    colour = alt.Color("Outcome:N", title=None, legend=alt.Legend(orient="top"),
                       scale=alt.Scale(domain=shown, range=[OUTCOMES[name] for name in shown]))
    shape = alt.Shape("Outcome:N", title=None, scale=alt.Scale(domain=shown, range=["circle", "cross", "triangle"]))
    path = alt.Chart(frame).mark_line(color=NEUTRAL, strokeWidth=1, strokeDash=[3, 3]).encode(x=order, y=height)
    points = alt.Chart(frame).mark_point(size=110, filled=True, opacity=1).encode(
        x=order, y=height, color=colour, shape=shape,
        tooltip=["Try", "Batch size", "Outcome", "Peak", "Usable", "Took"])
    return alt.layer(path, points).properties(height=260)


def _draw_tries(limits: Rows, tries: Rows) -> None:
    frame = tries_frame(tries)
    draw_figure(about_tries(limits, tries), tries_chart(frame), frame.drop(columns=["Peak", "Usable", "Took"]),
                "max_batch_tries", "Each size was tried in a process of its own, in this order.")
    st.dataframe(frame.drop(columns=["peak_bytes", "usable_bytes", "seconds"]), hide_index=True, height="content",
                 alt="Every size tried, with its outcome")
