"""The parts of the Live page: progress, what is measured now, finished cells, endings, the queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from analysis.cells import CellTimes
from store.browse import CELLS_SHOWN, in_natural_order
from store.live import NOT_DONE, LiveView
from ui.charts import (
    READINGS,
    batch_bars,
    batch_frame,
    cell_bars,
    cell_frame,
    cell_names,
    telemetry_frame,
    telemetry_lines,
)
from ui.colours import ICONS
from ui.figure import draw_figure
from ui.findings import about_batches, about_cells, about_readings
from ui.frame import draw_answer_link, safe
from ui.moving import Moving, moving
from ui.units import amount, seconds

CURVES = ("run_cpu_cores", "gpu_utilization", "power_watts", "gpu_memory_used_bytes", "resident_bytes")
OPEN = ("running", "queued")
LOG_TAIL_BYTES = 2_000
PANE_PX = 420
CELL_NOTE = "Means over runs. Whiskers: lowest and highest run. Tick: end to end."
Act = Callable[..., None]


class Curve(NamedTuple):
    metric: str
    title: str
    sentence: str
    chart: Moving


class Pictures(NamedTuple):
    """A moment of a sweep, ready to be drawn for any number of viewers."""

    view: LiveView
    batches: Moving | None
    curves: list[Curve]


class CellPicture(NamedTuple):
    """The finished cells, their sentence beside them: these change only when a run ends."""

    cells: int
    sentence: str
    chart: Moving


def make_result_table(results: list[dict[str, Any]]) -> pd.DataFrame | None:
    """What an experiment without batches measured: a row per run, a column per metric."""
    if not results:
        return None
    return pd.DataFrame([{**{name: str(value) for name, value in result["values"].items()},
                          **{name.replace("_", " "): amount(*metric) for name, metric in result["metrics"].items()}}
                         for result in results])


def make_cell_picture(cells: list[CellTimes], most: int = CELLS_SHOWN) -> CellPicture | None:
    """The sentence is about all cells; of more than can be drawn, the bars are the fastest and the slowest."""
    if not cells:
        return None
    by_time = sorted(cells, key=lambda cell: cell.item_s)
    shown = in_natural_order(cells) if len(cells) <= most else [*by_time[: most // 2], *by_time[-(most // 2):]]
    chart = moving(cell_bars, cell_frame(shown), cell_names(shown))
    return CellPicture(len(cells), about_cells(cells), chart)


def say_drawn(most: int, cells: int) -> str:
    return f"Drawn: the {most // 2} fastest and the {most // 2} slowest of {cells:,} cells."


def make_pictures(view: LiveView | None, cores: float) -> Pictures | None:
    if view is None:
        return None
    curves = []
    for metric in CURVES:
        title, scale = READINGS[metric]
        rows = [row for row in view.samples if row["metric"] == metric]
        if len(rows) > 1:
            full = cores if metric == "run_cpu_cores" else 100.0 if metric == "gpu_utilization" else None
            frame = telemetry_frame(rows, scale)
            curves.append(Curve(metric, title, about_readings(title, list(frame["value"])),
                                moving(telemetry_lines, frame, title, full)))
    return Pictures(view, moving(batch_bars, batch_frame(view.batches)) if view.batches else None, curves)


def count_runs(sweep: dict[str, Any]) -> tuple[int, int]:
    """Runs done and runs planned; those that people deleted are neither."""
    done = sum(count for status, count in sweep["counts"].items() if status not in NOT_DONE)
    return done, max((sweep["planned_runs"] or 0) - sweep["deleted"], done, 1)


def draw_progress(sweep: dict[str, Any], ahead: int, paused: bool) -> None:
    done, planned = count_runs(sweep)
    words = [f"{ICONS.get(sweep['status'], '')} {sweep['status']}", f"{done} of {planned} runs done"]
    if sweep["status"] == "running" and sweep["wall_s"] and done < planned:
        mean = sum(sweep["wall_s"]) / len(sweep["wall_s"])
        words.append(f"about {seconds(mean * (planned - done))} left")
    if sweep["status"] == "queued":
        words.append(f"waits in the queue, {ahead} ahead of it" if ahead else "next in the queue")
    if paused and sweep["status"] in OPEN:
        words.append("paused: no further run starts until it is continued")
    st.progress(done / planned, text=" · ".join(words))


def draw_endings(sweep: dict[str, Any], between_runs: bool) -> None:
    """How many runs ended in which way. Beneath the buttons: lines that come and go must not move those."""
    badges = [f":{_tone(status)}-badge[{ICONS.get(status, '')} {count} {status}]"
              for status, count in sweep["counts"].items()]
    if badges:
        st.markdown(" ".join(badges))
    # What it said last is news while it prepares; during a run the run is.
    said = [sweep["reason"], sweep["said"] if sweep["status"] in OPEN and between_runs else ""]
    if text := " · ".join(safe(part) for part in said if part):
        st.caption(text)


def _tone(status: str) -> str:
    return {"ok": "green", "running": "blue", "skipped": "gray", "cancelled": "gray"}.get(status, "red")


def draw_buttons(sweep: dict[str, Any], waits: bool | None, paused: bool, disabled: bool, act: Act, elsewhere: bool,
                 draw_bundle: Callable[[], None] | None) -> None:
    """`waits` is None for a sweep that is not in the queue, else whether it waits for its turn. To one that came from
    elsewhere no run is added. `draw_bundle` is there for one that can have a bundle."""
    bad = sum(count for status, count in sweep["counts"].items() if status not in ("ok", "running"))
    missing = max((sweep["planned_runs"] or 0) - sum(sweep["counts"].values()) - sweep["deleted"], 0)
    due = missing + sum(sweep["counts"].get(status, 0) for status in NOT_DONE)
    sweep_id, again = sweep["sweep_id"], waits is None and not elsewhere
    with st.container(horizontal=True, vertical_alignment="center"):
        # What is always there comes first: a click on it must not meet its neighbour when a sweep ends.
        st.page_link("pages/Runs.py", label="Its runs", icon=":material/table_rows:", query_params={"sweep": sweep_id})
        draw_answer_link(sweep["experiment"], sweep_id)
        st.page_link("pages/Launch.py", label="Launch it again, changed", icon=":material/edit:",
                     query_params={"from_sweep": sweep_id})
        if waits is not None:
            st.button("Cancel", icon=":material/stop_circle:", on_click=act, args=("cancel", sweep_id),
                      disabled=disabled, help="Ends the sweep now; what it has measured is kept")
            st.button("Continue" if paused else "Pause", icon=":material/pause_circle:", disabled=disabled,
                      on_click=act, args=("continue" if paused else "pause", sweep_id),
                      help="A run that is being measured is finished first")
        if again and due:
            st.button(f"Resume ({due} to measure)", icon=":material/play_arrow:", on_click=act,
                      args=("resume", sweep_id), disabled=disabled, help="What is missing, was killed or cancelled")
        if again and bad:
            st.button(f"Run failed and missing again ({bad + missing})", icon=":material/replay:", on_click=act,
                      args=("retry", sweep_id), disabled=disabled)
        if draw_bundle:
            draw_bundle()


def draw_queue(entries: list[Any], queue_paused: bool, names: dict[str, str], disabled: bool, act: Act) -> None:
    """The line of this machine: who measures, who waits; reorder, pause, cancel."""
    with st.expander(f"Queue: {len(entries)} {'sweep' if len(entries) == 1 else 'sweeps'}"
                     + (", paused" if queue_paused else ""), icon=":material/queue:", key="queue"):
        for place, entry in enumerate(entries):
            with st.container(horizontal=True, vertical_alignment="center", key=f"queue_{entry.sweep_id}"):
                state = "measuring" if entry.state == "measuring" else f"waiting, place {place + 1}"
                st.markdown(f"{safe(names.get(entry.sweep_id, entry.sweep_id))} · {state}"
                            + (" · paused" if entry.paused else ""))
                movable = [to for to in (place - 1, place + 1) if entry.state == "waiting" and 0 <= to < len(entries)
                           and entries[to].state == "waiting"]
                for label, icon, what, to in (
                        ("Earlier", "arrow_upward", "move", place - 1), ("Later", "arrow_downward", "move", place + 1),
                        ("Continue" if entry.paused else "Pause", "play_arrow" if entry.paused else "pause",
                         "continue" if entry.paused else "pause", place), ("Cancel", "stop_circle", "cancel", place)):
                    st.button(label, icon=f":material/{icon}:", key=f"queue_{label}_{entry.sweep_id}", on_click=act,
                              args=(what, entry.sweep_id, to), type="tertiary",
                              disabled=disabled or (what == "move" and to not in movable))
        st.button("Continue the queue" if queue_paused else "Pause the whole queue", on_click=act, disabled=disabled,
                  args=("continue" if queue_paused else "pause", None), icon=":material/pause_circle:")


def draw_now(pictures: Pictures, finished: CellPicture | pd.DataFrame | None, log: Path | None) -> None:
    """The run that is being measured beside its readings and its log, then finished cells and endings."""
    if pictures.view.run:
        panes = st.grid(2, min_column_width=PANE_PX, gap="medium")
        with panes.cell():
            _draw_run(pictures, pictures.view.run)
            _draw_finished(finished)
        with panes.cell():
            _draw_readings(pictures, log)
    else:
        _draw_finished(finished)
    for ending in pictures.view.sweep["endings"]:
        st.warning(f"{ending['runs']} {ending['status']}: {safe(ending['reason'] or 'no reason was given')}",
                   icon=ICONS.get(ending["status"]))


def _draw_finished(finished: CellPicture | pd.DataFrame | None) -> None:
    if isinstance(finished, pd.DataFrame):
        st.subheader("Finished runs")
        st.dataframe(finished, hide_index=True, placeholder="–", alt="Finished runs with their metrics")
    elif finished:
        st.subheader("Finished cells")
        draw_figure(finished.sentence, finished.chart, None, "cells",
                    CELL_NOTE + (" " + say_drawn(CELLS_SHOWN, finished.cells) if finished.cells > CELLS_SHOWN else ""),
                    "Time per item of each finished cell, by phase")


def _draw_run(pictures: Pictures, run: dict[str, Any]) -> None:
    st.subheader("Measured now")
    st.caption(safe(", ".join(f"{name} = {value}" for name, value in run["asked"].items())) or "defaults only")
    if pictures.batches:
        draw_figure(about_batches(pictures.view.batches, "the last"), pictures.batches, None, "batches",
                    about="Phases of the latest batches of the running run")
    else:
        st.info("No batch yet: the run is starting, loading its data or warming up, or it measures no batches.")


def _draw_readings(pictures: Pictures, log: Path | None) -> None:
    st.subheader("Readings")
    if not pictures.curves:
        st.caption("The first readings come within a second.")
    for curve in pictures.curves:
        draw_figure(curve.sentence, curve.chart, None, curve.metric, about=f"{curve.title} over the run's time")
    if log and (text := tail(log, LOG_TAIL_BYTES)):
        st.caption("The end of its log")
        st.code(text, language=None, height=160)


def tail(log: Path, most_bytes: int) -> str:
    """The end of a file that may be large and may go away meanwhile."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - most_bytes, 0))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
