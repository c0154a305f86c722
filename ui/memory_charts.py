"""Charts of the Memory page: one step by category, figures against depth, memory against time, predicted peaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.comparison import Estimate
from analysis.memory import CATEGORIES, MemoryCell, family_of
from ui.colours import MEMORY, METHODS, NEUTRAL, SERIES
from ui.picking import RUN_IDS, join_ids

MIB = 2**20
GIB = 2**30
HEIGHT = 300


def category_title(name: str) -> str:
    return {"optimizer_state": "optimiser state"}.get(name, name)


def cell_label(cell: MemoryCell, with_model: bool = True) -> str:
    """`resnet18, checkpoint every 2 blocks`."""
    label = method_label(cell.method, cell.blocks)
    return f"{cell.model}, {label}" if with_model else label


def method_label(method: str, blocks: int) -> str:
    return method + (f" every {blocks} blocks" if blocks > 1 else "")


def step_frame(moments: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per moment and category. The pass that watches is slow, so that its own seconds mean nothing: the axis
    is the share of the operators seen."""
    last = max(len(moments) - 1, 1)
    return pd.DataFrame([
        {"progress_percent": 100 * number / last, "category": category_title(name), "order": order,
         "held_mib": moment["held"].get(f"{name}_bytes", 0.0) / MIB}
        for number, moment in enumerate(moments) for order, name in enumerate(CATEGORIES)],
        columns=["progress_percent", "category", "order", "held_mib"])


def peak_moment(moments: Sequence[Mapping[str, Any]]) -> int:
    return max(range(len(moments)), key=lambda number: sum(moments[number]["held"].values()))


def step_area(frame: pd.DataFrame, peak_percent: float, peak_mib: float, highest_mib: float) -> alt.LayerChart:
    """A stack by category, the peak marked by a rule and its size."""
    names = [category_title(name) for name in CATEGORIES]
    areas = alt.Chart(frame).mark_area(interpolate="step-after", opacity=0.9).encode(
        x=alt.X("progress_percent:Q", title="Progress through the step (%)", scale=alt.Scale(domain=[0, 100])),
        y=alt.Y("held_mib:Q", title="Held (MiB)", stack="zero", scale=alt.Scale(domain=[0, highest_mib * 1.12])),
        color=alt.Color("category:N", title=None, sort=names,
                        scale=alt.Scale(domain=names, range=[MEMORY[name] for name in CATEGORIES]),
                        legend=alt.Legend(orient="top", columns=3)),
        order=alt.Order("order:Q"),
        tooltip=[alt.Tooltip("category:N", title="Category"),
                 alt.Tooltip("progress_percent:Q", title="Progress (%)", format=".0f"),
                 alt.Tooltip("held_mib:Q", title="Held (MiB)", format=",.1f")])
    mark = pd.DataFrame([{"at": peak_percent, "peak_mib": peak_mib, "text": f"peak {peak_mib:,.1f} MiB"}])
    rule = alt.Chart(mark).mark_rule(strokeDash=[4, 3], color=NEUTRAL, strokeWidth=1.5).encode(x="at:Q")
    side: Any = "right" if peak_percent > 50 else "left"
    text = alt.Chart(mark).mark_text(align=side, dx=-6 if side == "right" else 6, dy=-8, fontWeight="bold",
                                     color=NEUTRAL).encode(x="at:Q", y="peak_mib:Q", text="text:N")
    return alt.layer(areas, rule, text).properties(height=HEIGHT)


def depth_frame(cells: Iterable[MemoryCell]) -> pd.DataFrame:
    """One row per network whose depth is known."""
    def three(value: Estimate | None, scale: float, name: str) -> dict[str, float | None]:
        low, high = (value.low, value.high) if value else (None, None)
        return {name: value.value / scale if value else None, f"{name}_low": low / scale if low is not None else None,
                f"{name}_high": high / scale if high is not None else None}

    return pd.DataFrame([
        {"series": f"{family_of(cell.model)}, {cell_label(cell, with_model=False)}", "model": cell.model,
         "layers": cell.layers, **three(cell.peak, MIB, "peak_mib"), **three(cell.batch, 1, "batch_s"),
         "saved_mib": cell.saved_bytes / MIB if cell.saved_bytes is not None else None,
         "runs": len(cell.runs), "noisy_runs": cell.noisy_runs, RUN_IDS: _ids(cell)}
        for cell in cells if family_of(cell.model)])


def depth_lines(frame: pd.DataFrame, column: str, title: str) -> alt.LayerChart:
    """A figure against layers, a line per family and method; whiskers are intervals where there are repeats."""
    frame = frame[frame[column].notna()]
    series = sorted(set(frame["series"]))
    base = alt.Chart(frame).encode(
        x=alt.X("layers:Q", title="Layers", scale=alt.Scale(zero=False, nice=False, padding=16),
                axis=alt.Axis(values=sorted(set(frame["layers"])), format="d", labelOverlap="greedy")),
        color=alt.Color("series:N", title=None, scale=alt.Scale(domain=series, range=SERIES[:len(series)]),
                        legend=alt.Legend(orient="top", columns=2, labelLimit=260)))
    lines = base.mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2).encode(
        y=alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=True)),
        tooltip=[alt.Tooltip("model:N", title="Model"), alt.Tooltip("series:N", title="Family and method"),
                 alt.Tooltip("layers:Q", title="Layers"), alt.Tooltip(f"{column}:Q", title=title, format=",.4~g"),
                 alt.Tooltip("runs:Q", title="Runs"), alt.Tooltip("noisy_runs:Q", title="Noisy runs")])
    if f"{column}_low" not in frame:
        return alt.layer(lines).properties(height=HEIGHT)
    whiskers = base.mark_rule(strokeWidth=1.5).encode(y=f"{column}_low:Q", y2=f"{column}_high:Q")
    return alt.layer(whiskers, lines).properties(height=HEIGHT)


LABEL_ROWS = (-9, 15, -22, 28)
NEAR_TIME, NEAR_PEAK = 0.35, 0.15
"""Shares of the axes within which two names would lie on each other."""


def tradeoff_frame(cells: Sequence[MemoryCell], front: Sequence[MemoryCell]) -> pd.DataFrame:
    return pd.DataFrame([
        {"cell": cell_label(cell, with_model=False), "method": cell.method, "batch_s": cell.batch.value,
         "batch_s_low": cell.batch.low, "batch_s_high": cell.batch.high, "peak_mib": cell.peak.value / MIB,
         "on_the_front": cell in front, "runs": len(cell.runs), "noisy_runs": cell.noisy_runs,
         RUN_IDS: _ids(cell)} for cell in cells if cell.batch])


def _ids(cell: MemoryCell) -> str:
    return join_ids(run.run_id for run in cell.runs)


def tradeoff_points(frame: pd.DataFrame) -> alt.LayerChart:
    """Down and to the left is better. The dashed line joins the front. An interval of few runs may be many times as
    long as the times themselves: it then ends at the edge."""
    slowest = float(frame["batch_s"].max())
    longest = float(frame[["batch_s", "batch_s_high"]].astype(float).max(axis=None, skipna=True))
    reach = 1.05 * min(longest, 2 * slowest)
    frame = frame.assign(label_row=_label_rows(frame, reach))
    shown = [method for method in METHODS if method in set(frame["method"])]
    x = alt.X("batch_s:Q", title="Seconds per batch", scale=alt.Scale(domain=[0, reach], nice=False),
              axis=alt.Axis(tickCount=8))
    y = alt.Y("peak_mib:Q", title="Peak (MiB)", scale=alt.Scale(zero=True))
    path = alt.Chart(frame[frame["on_the_front"]]).mark_line(color=NEUTRAL, strokeDash=[4, 4]).encode(
        x=x, y=y, order="batch_s:Q")
    base = alt.Chart(frame).encode(y=y, color=alt.Color(
        "method:N", title=None, scale=alt.Scale(domain=shown, range=[METHODS[name] for name in shown]),
        legend=alt.Legend(orient="top")))
    points = base.mark_point(size=130, strokeWidth=2.5, opacity=1).encode(
        x=x, shape=alt.Shape("on_the_front:N", title=None, legend=None,
                             scale=alt.Scale(domain=[True, False], range=["circle", "cross"])),
        tooltip=[alt.Tooltip("cell:N", title="Method"), alt.Tooltip("batch_s:Q", title="Seconds per batch",
                                                                    format=".4~g"),
                 alt.Tooltip("peak_mib:Q", title="Peak (MiB)", format=",.1f"), alt.Tooltip("runs:Q", title="Runs"),
                 alt.Tooltip("on_the_front:N", title="On the front")])
    # Names stay inside the frame: on the right half they stand to the left of their point.
    names = [base.transform_filter(f"datum.label_row == {row} && datum.batch_s {side} {reach / 2!r}")
             .mark_text(align=align, dx=dx, dy=dy).encode(x=x, text="cell:N")
             for side, align, dx in (("<=", "left", 10), (">", "right", -10))
             for row, dy in enumerate(LABEL_ROWS) if row in set(frame["label_row"])]
    whiskers = base.mark_rule(strokeWidth=1.5, clip=True).encode(x=alt.X("batch_s_low:Q"), x2="batch_s_high:Q")
    return alt.layer(path, whiskers, points, *names).properties(height=360)


def _label_rows(frame: pd.DataFrame, reach: float) -> list[int]:
    """Above its point, unless a name nearby is there already: then below, further above and so on."""
    taken: list[tuple[float, float, int]] = []
    for time_s, peak in zip(frame["batch_s"] / reach, frame["peak_mib"] / frame["peak_mib"].max(), strict=True):
        near = {row for x, y, row in taken if abs(x - time_s) < NEAR_TIME and abs(y - peak) < NEAR_PEAK}
        taken.append((time_s, peak, next((row for row in range(len(LABEL_ROWS)) if row not in near), 0)))
    return [row for _, _, row in taken]


def error_frame(cells: Iterable[MemoryCell]) -> pd.DataFrame:
    """One row per run that has a prediction."""
    return pd.DataFrame([
        {"cell": cell_label(cell), "run_id": run.run_id, "predicted_mib": run.predicted_bytes / MIB,
         "measured_mib": run.peak_bytes / MIB, "error_percent": 100 * run.error, "noisy": bool(run.noisy),
         RUN_IDS: run.run_id}
        for cell in cells for run in cell.runs if run.predicted_bytes is not None and run.error is not None],
        columns=["cell", "run_id", "predicted_mib", "measured_mib", "error_percent", "noisy", RUN_IDS])


def error_dots(frame: pd.DataFrame, allowed_percent: float) -> alt.LayerChart:
    reach = max(allowed_percent * 1.3, float(frame["error_percent"].abs().max()) * 1.1)
    x = alt.X("error_percent:Q", title="Error of the prediction (%)", scale=alt.Scale(domain=[-reach, reach]),
              axis=alt.Axis(tickCount=7, format=",.3~r"))
    dots = alt.Chart(frame).mark_point(filled=True, size=90, opacity=0.8, color=SERIES[0]).encode(
        x=x, y=alt.Y("cell:N", title=None, sort=None, axis=alt.Axis(labelLimit=260)),
        tooltip=["cell", "run_id", alt.Tooltip("predicted_mib:Q", title="Predicted (MiB)", format=",.1f"),
                 alt.Tooltip("measured_mib:Q", title="Measured (MiB)", format=",.1f"),
                 alt.Tooltip("error_percent:Q", title="Error (%)", format="+.2f")])
    bounds = pd.DataFrame({"at": [-allowed_percent, 0, allowed_percent], "kind": ["bound", "zero", "bound"]})
    rules = alt.Chart(bounds).mark_rule(color=NEUTRAL).encode(
        x=alt.X("at:Q"), strokeDash=alt.StrokeDash("kind:N", legend=None, scale=alt.Scale(
            domain=["zero", "bound"], range=[[1, 0], [4, 4]])))
    return alt.layer(rules, dots).properties(height=alt.Step(30))


def batch_lines(frame: pd.DataFrame, limit_gib: float) -> alt.LayerChart:
    """Predicted peaks over batch sizes, a line per method; the dashed line is what the device has."""
    shown = [method for method in METHODS if method in set(frame["method"])]
    lines = alt.Chart(frame).mark_line(point=alt.OverlayMarkDef(size=50), strokeWidth=2).encode(
        x=alt.X("batch_size:Q", title="Batch size", scale=alt.Scale(zero=True)),
        y=alt.Y("peak_gib:Q", title="Predicted peak (GiB)", scale=alt.Scale(zero=True)),
        color=alt.Color("method:N", title=None, legend=alt.Legend(orient="top"),
                        scale=alt.Scale(domain=shown, range=[METHODS[name] for name in shown])),
        tooltip=[alt.Tooltip("method:N", title="Method"), alt.Tooltip("batch_size:Q", title="Batch size"),
                 alt.Tooltip("peak_gib:Q", title="Predicted peak (GiB)", format=",.3f")])
    rule = alt.Chart(pd.DataFrame([{"limit": limit_gib, "text": f"{limit_gib:,.1f} GiB usable"}]))
    return alt.layer(lines, rule.mark_rule(strokeDash=[5, 4], color=NEUTRAL, strokeWidth=2).encode(y="limit:Q"),
                     rule.mark_text(align="left", baseline="bottom", dx=4, dy=-3, color=NEUTRAL).encode(
                         x=alt.value(0), y="limit:Q", text="text:N")).properties(height=340)
