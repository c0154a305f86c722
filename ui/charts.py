"""Charts from numbers: a frame function turns rows in seconds and bytes into what is drawn, a chart function draws it.

A chart's specification depends on the frame only through its phases and devices, so that ui/moving.py can keep
it while the numbers move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.cells import CellTimes
from ui.colours import INK, NEUTRAL, PHASES, RIM, SERIES, phase_scale
from ui.picking import RUN_IDS, join_ids

PHASE_ORDER = list(PHASES)
READINGS = {
    "run_cpu_cores": ("CPU of the run (cores)", 1.0),
    "others_cpu_cores": ("CPU of other processes (cores)", 1.0),
    "gpu_utilization": ("Time in which some kernel ran (%)", 100.0),
    "power_watts": ("GPU power (W)", 1.0),
    "resident_bytes": ("Resident memory of the run (GiB)", 2.0**-30),
    "run_process_resident_bytes": ("Resident memory of its main process (GiB)", 2.0**-30),
    "gpu_memory_used_bytes": ("GPU memory in use (GiB)", 2.0**-30),
    "memory_available_bytes": ("Memory still available (GiB)", 2.0**-30),
    "disk_read_bytes_per_s": ("Disk reads (MiB/s)", 2.0**-20),
}
"""How telemetry is drawn: a title with its unit, and what turns the stored unit into that one."""
HEIGHT = 260
CELL_COLUMNS = ["cell", "row", "phase", "milliseconds", "whole", "low", "high", "runs", RUN_IDS]
LABELS_PX = 110
"""Room for the labels of charts that share a time axis."""


def cell_frame(cells: Sequence[CellTimes]) -> pd.DataFrame:
    """One row per cell and phase; the whole and its range stand in every row of the cell."""
    return placed(pd.DataFrame([
        {"cell": _short(cell), "row": row, "phase": phase, "milliseconds": seconds * 1000, "whole": cell.item_s * 1000,
         "low": cell.low_s * 1000, "high": cell.high_s * 1000, "runs": cell.runs, RUN_IDS: join_ids(cell.run_ids)}
        for row, cell in enumerate(cells) for phase, seconds in cell.phases_s.items()], columns=CELL_COLUMNS))


def cell_bars(frame: pd.DataFrame, names: str = "") -> alt.LayerChart:
    """Cells as stacked bars of time per item; a tick at the end-to-end mean, whiskers from lowest to highest run.
    `names` are those of the values that the labels hold."""
    heading = alt.Axis(labelLimit=210, titleAngle=0, titleAlign="right", titleAnchor="end", titleX=-6, titleY=-8)
    base = alt.Chart(frame).encode(y=alt.Y("cell:N", title=names or None, axis=heading,
                                           sort=alt.EncodingSortField("row", op="min")))
    bars = base.mark_bar().encode(
        x=alt.X("sum(milliseconds):Q", title="Time per item (ms)"),
        color=phase_colour(frame), order=alt.Order("place:Q"), detail=f"{RUN_IDS}:N",
        tooltip=[alt.Tooltip("cell:N", title="Cell"), alt.Tooltip("phase:N", title="Phase"),
                 alt.Tooltip("milliseconds:Q", title="This phase (ms per item)", format=",.3~f"),
                 alt.Tooltip("whole:Q", title="End to end (ms per item)", format=",.3~f"),
                 alt.Tooltip("low:Q", title="Lowest run (ms per item)", format=",.3~f"),
                 alt.Tooltip("high:Q", title="Highest run (ms per item)", format=",.3~f"),
                 alt.Tooltip("runs:Q", title="Runs")])
    whiskers = whiskers_over_bars(base, x=alt.X("min(low):Q"), x2=alt.X2("max(high):Q"))
    ticks = ticks_over_bars(base, 14, x=alt.X("mean(whole):Q"))
    # A height per bar: the specification stays the same however many cells there are.
    return alt.layer(bars, *ticks, *whiskers, data=frame).properties(height=alt.Step(24))


def whiskers_over_bars(base: alt.Chart, **encoding: Any) -> list[alt.Chart]:
    return [base.mark_rule(color=colour, strokeWidth=width, clip=True).encode(**encoding)
            for colour, width in ((RIM, 3.5), (INK, 1.5))]


def ticks_over_bars(base: alt.Chart, size: int, **encoding: Any) -> list[alt.Chart]:
    return [base.mark_tick(color=colour, thickness=thickness, size=size, clip=True).encode(**encoding)
            for colour, thickness in ((RIM, 3), (INK, 1.2))]


def cell_names(cells: Sequence[CellTimes]) -> str:
    """What the values in the labels of the cells are, said once for all of them."""
    return " · ".join(dict.fromkeys(name for cell in cells for name in cell.values))


def _short(cell: CellTimes) -> str:
    return " · ".join(map(str, cell.values.values())) or cell.cell


def batch_frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Rows: batch, phase, seconds."""
    frame = pd.DataFrame(rows, columns=["batch", "phase", "seconds"])
    frame["milliseconds"] = frame.pop("seconds") * 1000
    return placed(frame)


def batch_bars(frame: pd.DataFrame) -> alt.Chart:
    """Stacked bars of single batches in order."""
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("batch:O", title="Batch", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("sum(milliseconds):Q", title="Time per batch (ms)"),
            color=phase_colour(frame),
            order=alt.Order("place:Q"),
            tooltip=[alt.Tooltip("batch:O", title="Batch"), alt.Tooltip("phase:N", title="Phase"),
                     alt.Tooltip("milliseconds:Q", title="Time (ms)", format=",.3~f")],
        )
        .properties(height=HEIGHT)
    )


def telemetry_frame(rows: Sequence[dict[str, Any]], scale: float) -> pd.DataFrame:
    """Readings: device, time_s, value; `scale` turns the stored unit into the one that is drawn."""
    return pd.DataFrame([{"time_s": r["time_s"], "device": r["device"], "value": r["value"] * scale} for r in rows],
                        columns=["time_s", "device", "value"])


def telemetry_lines(frame: pd.DataFrame, title: str, full: float | None = None,
                    stages: Sequence[dict[str, Any]] = (), end_s: float | None = None) -> alt.LayerChart:
    """Readings over the run's own time, one line per device.

    `full` is the value that means "all of it", drawn as a dashed line. Stages shade the background. With `end_s` the
    time axis lies exactly as that of phase_strip, to be read together.
    """
    lines = alt.Chart(frame).mark_line(interpolate="linear", strokeWidth=2).encode(
        x=_time_axis("time_s:Q", end_s, "; dashed: all there is" if full is not None else ""),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=_left_axis(end_s)),
        color=alt.Color("device:N", title="Device", scale=alt.Scale(range=SERIES),
                        legend=alt.Legend(orient="top") if frame["device"].nunique() > 1 else None),
        tooltip=[alt.Tooltip("time_s:Q", title="Time (s)", format=".2f"),
                 alt.Tooltip("value:Q", title=title, format=",.3~f"), alt.Tooltip("device:N", title="Device")])
    layers: list[alt.Chart] = []
    if bands := [{"stage": s["stage"], "start": s["start_s"], "end": s["start_s"] + s["seconds"]}
                 for s in stages if s["stage"] in ("warm_up", "measure")]:
        layers.append(alt.Chart(alt.Data(values=bands)).mark_rect(opacity=0.12, color=NEUTRAL).encode(
            x=_time_axis("start:Q", end_s), x2="end:Q", tooltip=[alt.Tooltip("stage:N", title="Stage")]))
    layers.append(lines)
    if full is not None:
        layers.append(alt.Chart(alt.Data(values=[{"full": full}])).mark_rule(strokeDash=[4, 4], color=NEUTRAL).encode(
            y="full:Q", tooltip=[alt.Tooltip("full:Q", title="All there is", format=",.3~f")]))
    return alt.layer(*layers, data=frame).properties(height=190)


def _time_axis(field: str, end_s: float | None, besides: str = "") -> alt.X:
    """The run's own time; from 0 to `end_s` where several charts share it."""
    scale = alt.Undefined if end_s is None else alt.Scale(domain=[0, end_s], nice=False)
    return alt.X(field, title=f"Seconds since the run was asked for{besides}", scale=scale, axis=alt.Axis(tickCount=10))


def _left_axis(end_s: float | None) -> alt.Axis:
    """Charts that share a time axis begin at the same place, whatever their labels."""
    return alt.Axis(minExtent=LABELS_PX, maxExtent=LABELS_PX, labelOverlap=False, format=",~f") if end_s is not None \
        else alt.Axis(format=",~f")


def phase_strip(rows: Sequence[dict[str, Any]], end_s: float) -> alt.Chart:
    """Which phase when, on the run's own time: one lane per phase. Rows: batch, phase, start_s, seconds."""
    frame = pd.DataFrame([{"phase": r["phase"], "batch": r["batch"], "start": r["start_s"],
                           "end": r["start_s"] + r["seconds"], "ms": r["seconds"] * 1000} for r in rows],
                         columns=["phase", "batch", "start", "end", "ms"])
    lanes = sorted(set(frame["phase"]), key=lambda p: PHASE_ORDER.index(p) if p in PHASE_ORDER else len(PHASE_ORDER))
    return alt.Chart(frame).mark_bar(height=14).encode(
        x=_time_axis("start:Q", end_s), x2="end:Q", y=alt.Y("phase:N", title=None, sort=lanes, axis=_left_axis(end_s)),
        color=phase_colour(frame, legend=False),
        tooltip=[alt.Tooltip("phase:N", title="Phase"), alt.Tooltip("batch:Q", title="Batch"),
                 alt.Tooltip("start:Q", title="Begins (s)", format=".3f"),
                 alt.Tooltip("ms:Q", title="Takes (ms)", format=",.3~f")]).properties(height=28 * len(lanes) + 40)


def stage_bar(stages: Sequence[dict[str, Any]]) -> alt.Chart:
    """A run's life from request to end: one bar, stages side by side."""
    frame = pd.DataFrame([{"stage": s["stage"], "start": s["start_s"], "end": s["start_s"] + s["seconds"],
                           "seconds": s["seconds"]} for s in stages], columns=["stage", "start", "end", "seconds"])
    order = list(dict.fromkeys(frame["stage"]))
    return (
        alt.Chart(frame)
        .mark_bar(height=26)
        .encode(
            x=alt.X("start:Q", title="Time since the run was asked for (s)", axis=alt.Axis(tickCount=10)), x2="end:Q",
            color=alt.Color("stage:N", title="Stage", sort=order, scale=alt.Scale(domain=order, scheme="tableau10"),
                            legend=alt.Legend(orient="top", title=None, columns=3)),
            tooltip=[alt.Tooltip("stage:N", title="Stage"), alt.Tooltip("seconds:Q", title="Took (s)", format=",.4~f")],
        )
        .properties(height=170)
    )


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """With the place of each phase in the stack."""
    frame["place"] = [PHASE_ORDER.index(p) if p in PHASE_ORDER else len(PHASE_ORDER) for p in frame["phase"]]
    return frame


def phase_colour(frame: pd.DataFrame, legend: bool = True) -> alt.Color:
    present = sorted(set(frame["phase"]), key=lambda p: PHASE_ORDER.index(p) if p in PHASE_ORDER else len(PHASE_ORDER))
    domain, colours = phase_scale(present)
    return alt.Color("phase:N", title="Phase", scale=alt.Scale(domain=domain, range=colours),
                     legend=alt.Legend(orient="top", title=None, columns=2) if legend else None)
