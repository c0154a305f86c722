"""What one run reached: its epochs as curves, and every metric of it as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import altair as alt
import pandas as pd
import streamlit as st

from analysis.epochs import ACCURACIES, EPOCH, TIMES, Curve, epoch_curves
from ui.colours import SERIES
from ui.figure import draw_figure, draw_rows_button
from ui.units import amount, seconds

COLOURS = {"training": SERIES[0], "validation": SERIES[1]}
ROWS_SHOWN = 40


def draw_results(metrics: Mapping[str, float | None], units: Mapping[str, str]) -> None:
    if not metrics:
        st.info("This run has no results: it is not over, or it ended before it had any. Its log may tell why.")
        return
    if reached := epoch_curves(metrics, ACCURACIES):
        y = alt.Y("accuracy:Q", title="Accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
        rows = curve_frame(reached, "accuracy")
        draw_figure(about_accuracy(reached), curve_lines(rows, y, ".1%"), rows, "epoch_accuracy",
                    "Training accuracy is of the batches as they were met, while the network changed.")
    if took := epoch_curves(metrics, TIMES):
        y = alt.Y("seconds:Q", title="Time of the epoch (s)", scale=alt.Scale(zero=True))
        rows = curve_frame(took, "seconds")
        draw_figure(about_times(took), curve_lines(rows, y, ",.4~g"), rows, "epoch_seconds",
                    "The start of loader workers is in the first epoch.")
    names = sorted(metrics, key=lambda name: (bool(EPOCH.fullmatch(name)), name))
    st.dataframe(pd.DataFrame([{"Metric": name, "Value": amount(metrics[name], units.get(name))} for name in names]),
                 hide_index=True, height="content" if len(names) <= ROWS_SHOWN else 600, alt="Every metric of this run")
    draw_rows_button(pd.DataFrame([{"metric": name, "value": metrics[name], "unit": units.get(name, "")}
                                   for name in names]), "metrics")


def curve_frame(curves: Sequence[Curve], value: str) -> pd.DataFrame:
    return pd.DataFrame([{"epoch": epoch, "part": curve.part, value: found} for curve in curves
                         for epoch, found in zip(curve.epochs, curve.values, strict=True)])


def curve_lines(rows: pd.DataFrame, y: alt.Y, form: str) -> alt.Chart:
    parts = [part for part in COLOURS if part in set(rows["part"])]
    value = rows.columns[-1]
    return alt.Chart(rows).mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=40)).encode(
        x=alt.X("epoch:Q", title="Epoch", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(zero=False)), y=y,
        color=alt.Color("part:N", title=None, sort=parts, legend=alt.Legend(orient="top"),
                        scale=alt.Scale(domain=parts, range=[COLOURS[part] for part in parts])),
        tooltip=[alt.Tooltip("epoch:Q", title="Epoch"), alt.Tooltip("part:N", title="Part"),
                 alt.Tooltip(f"{value}:Q", title=value.capitalize(), format=form)]).properties(height=340)


def about_accuracy(curves: Sequence[Curve]) -> str:
    said = []
    for part, epochs, values in curves:
        best = max(values)
        said.append(f"{part} accuracy **{values[-1]:.1%}** after epoch {epochs[-1]}"
                    + (f" (best {best:.1%}, after {epochs[values.index(best)]})" if best > values[-1] else ""))
    return "; ".join(said).capitalize() + "."


def about_times(curves: Sequence[Curve]) -> str:
    said = [f"{part} took {seconds(values[0])} in epoch {epochs[0]}"
            + (f", later {seconds(median(values[1:]))} per epoch (median)" if len(values) > 1 else "")
            for part, epochs, values in curves]
    return "; ".join(said).capitalize() + "."
