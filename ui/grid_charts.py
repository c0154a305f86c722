"""Charts of a grid of batch size x workers: grouped bars with intervals, stacked phases, heat maps, first batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import altair as alt
import pandas as pd

from analysis.comparison import Estimate
from analysis.grid_view import CellTime, GridView, mean_phases
from analysis.grids import Pair
from ui.charts import whiskers_over_bars
from ui.colours import PHASES, SERIES, phase_scale
from ui.picking import RUN_IDS

BAR_PX, THICKEST_PX = 11, 22
Along = Literal["workers", "batch_size"]
BAR_COLUMNS = ["group", "series", "model", "batch_size", "workers", "time", "low", "high", "runs", "noisy_runs"]
PHASE_COLUMNS = ["cell", "row", "phase", "time", "place", "runs"]
WORDS = {"workers": "Workers", "batch_size": "Batch size", "model": "Model"}


class Scale(NamedTuple):
    """What turns seconds into what the axis says, and its title."""

    factor: float
    title: str


def time_scale(per_item: bool) -> Scale:
    return Scale(1000.0, "Time per image, end to end (ms)") if per_item else Scale(1.0, "End-to-end time (s)")


def bar_frame(cells: Sequence[CellTime], along: Along, series: str, scale: Scale) -> pd.DataFrame:
    """One row per bar: its group, its colour, the median and the interval."""
    return pd.DataFrame([{
        "group": getattr(cell.pair, along),
        "series": cell.model if series == "model" else str(getattr(cell.pair, series)),
        "model": cell.model, "batch_size": cell.pair.batch_size, "workers": cell.pair.workers,
        "time": cell.median_s * scale.factor,
        "low": None if cell.interval.low is None else cell.interval.low * scale.factor,
        "high": None if cell.interval.high is None else cell.interval.high * scale.factor,
        "runs": cell.interval.runs, "noisy_runs": cell.noisy_runs} for cell in cells], columns=BAR_COLUMNS)


def grouped_bars(frame: pd.DataFrame, along: Along, series: str, scale: Scale, most: float) -> alt.LayerChart:
    """`most` is where the axis ends, the same for charts that stand side by side."""
    order = list(dict.fromkeys(frame["series"]))
    colours = alt.Scale(domain=order, range=SERIES) if len(order) <= len(SERIES) else \
        alt.Scale(domain=order, scheme="tableau20")
    base = alt.Chart(frame).encode(
        y=alt.Y("group:O", title=WORDS[along], sort="ascending"),
        yOffset=alt.YOffset("series:N", sort=order))
    bars = base.mark_bar().encode(
        x=alt.X("time:Q", title=scale.title, scale=alt.Scale(domain=[0, most]), axis=alt.Axis(tickCount=10)),
        color=alt.Color("series:N", title=WORDS[series], sort=order, scale=colours,
                        legend=alt.Legend(orient="top", columns=3, title=WORDS[series])),
        tooltip=[alt.Tooltip("model:N", title="Model"), alt.Tooltip("batch_size:Q", title="Batch size"),
                 alt.Tooltip("workers:Q", title="Workers"),
                 alt.Tooltip("time:Q", title=f"Median: {scale.title}", format=",.4~f"),
                 alt.Tooltip("low:Q", title="Interval from", format=",.4~f"),
                 alt.Tooltip("high:Q", title="Interval to", format=",.4~f"), alt.Tooltip("runs:Q", title="Runs"),
                 alt.Tooltip("noisy_runs:Q", title="Noisy runs")])
    whiskers = whiskers_over_bars(base, x="low:Q", x2="high:Q")
    return alt.layer(bars, *whiskers).properties(height=_height(frame["group"].nunique(), len(order)))


def _height(groups: int, series: int) -> int:
    """Of the bars, which are thicker where they are few, and of the axis and the legend around them."""
    bar = max(BAR_PX, min(THICKEST_PX, 200 // max(groups * series, 1)))
    return groups * (series * bar + 14) + 130


def phase_frame(view: GridView, cells: Sequence[CellTime], scale: Scale) -> pd.DataFrame:
    """Mean time of each phase, per image where the view is, one bar per cell."""
    rows = []
    for number, cell in enumerate(cells):
        found = mean_phases(view.grid, cell.model, cell.pair, view.per_item)
        for phase, seconds in found.phases_s.items():
            rows.append({"cell": f"{cell.model} {cell.pair}", "row": number, "phase": phase,
                         "time": seconds * scale.factor,
                         "place": list(PHASES).index(phase) if phase in PHASES else len(PHASES), "runs": found.runs})
    return pd.DataFrame(rows, columns=PHASE_COLUMNS)


def phase_bars(frame: pd.DataFrame, scale: Scale, most: float) -> alt.Chart:
    """`most` is where the axis ends, the same for charts that stand side by side."""
    present = [*(p for p in PHASES if p in set(frame["phase"])), *sorted(set(frame["phase"]) - set(PHASES))]
    domain, colours = phase_scale(present)
    title = f"Mean {scale.title[0].lower()}{scale.title[1:]}"
    return alt.Chart(frame).mark_bar().encode(
        y=alt.Y("cell:N", title="Model batch/workers", sort=alt.EncodingSortField("row", op="min"),
                axis=alt.Axis(labelLimit=220, titleAngle=0, titleAlign="left", titleY=-12, titleX=-150)),
        x=alt.X("sum(time):Q", title=title, scale=alt.Scale(domain=[0, most])),
        color=alt.Color("phase:N", title=None, scale=alt.Scale(domain=domain, range=colours),
                        legend=alt.Legend(orient="top", columns=3)),
        order=alt.Order("place:Q"), detail=f"{RUN_IDS}:N" if RUN_IDS in frame else alt.Undefined,
        tooltip=[alt.Tooltip("cell:N", title="Cell"), alt.Tooltip("phase:N", title="Phase"),
                 alt.Tooltip("time:Q", title=title, format=",.4~f"),
                 alt.Tooltip("runs:Q", title="Runs")]).properties(height=alt.Step(20))


def heat_frame(values: Mapping[Pair, float | None], pairs: Sequence[Pair], scale: float,
               show: Callable[[float], str]) -> pd.DataFrame:
    """Every pair of the grid; one without a value is there with a dash."""
    return pd.DataFrame([{"batch_size": pair.batch_size, "workers": pair.workers,
                          "value": None if (value := values.get(pair)) is None else value * scale,
                          "label": "–" if value is None else show(value * scale)} for pair in pairs])


def heat_map(frame: pd.DataFrame, title: str, format: str = ",.3~f") -> alt.LayerChart:
    known = frame["value"].dropna()
    middle = known.min() + 0.72 * (known.max() - known.min()) if len(known) else 0
    base = alt.Chart(frame).encode(
        x=alt.X("workers:O", title="Workers", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("batch_size:O", title="Batch size", sort="ascending"))
    boxes = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color("value:Q", title=title, scale=alt.Scale(scheme="blues"),
                        legend=alt.Legend(orient="top", gradientLength=180, titleLimit=300)),
        tooltip=[alt.Tooltip("batch_size:O", title="Batch size"), alt.Tooltip("workers:O", title="Workers"),
                 alt.Tooltip("value:Q", title=title, format=format)])
    labels = base.mark_text(fontSize=12).encode(
        text="label:N", color=alt.condition(f"datum.value > {middle}", alt.value("white"), alt.value("#1c2733")))
    return alt.layer(boxes, labels).properties(height=36 * frame["batch_size"].nunique() + 190)


def first_frame(found: Mapping[Pair, Estimate]) -> pd.DataFrame:
    return pd.DataFrame([{"batch_size": str(pair.batch_size), "workers": pair.workers, "delay": value.value * 1000,
                          "low": None if value.low is None else value.low * 1000,
                          "high": None if value.high is None else value.high * 1000, "runs": value.runs}
                         for pair, value in sorted(found.items())])


def first_lines(frame: pd.DataFrame) -> alt.LayerChart:
    order = sorted(set(frame["batch_size"]), key=int)
    # An interval of two runs can be a thousand times as wide as what was measured: the axis is for the measured.
    most = max(frame["delay"].max() * 1.5, frame["high"].where(frame["high"] < 3 * frame["delay"]).max())
    base = alt.Chart(frame).encode(
        x=alt.X("workers:O", title="Workers", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("batch_size:N", title="Batch size", sort=order, scale=alt.Scale(domain=order, range=SERIES),
                        legend=alt.Legend(orient="top", columns=3)))
    lines = base.mark_line(point=True, strokeWidth=2).encode(
        y=alt.Y("delay:Q", title="First batch (ms)", scale=alt.Scale(domain=[0, most])),
        tooltip=[alt.Tooltip("batch_size:N", title="Batch size"), alt.Tooltip("workers:O", title="Workers"),
                 alt.Tooltip("delay:Q", title="Median (ms)", format=",.1f"), alt.Tooltip("runs:Q", title="Runs")])
    whiskers = base.mark_rule(strokeWidth=2, opacity=0.5, clip=True).encode(y="low:Q", y2="high:Q")
    return alt.layer(lines, whiskers).properties(height=280)
