"""One run opened: what was asked, how it ended, where its time went, on what machine."""

from __future__ import annotations

import mimetypes
import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd
import streamlit as st
import yaml

from engine.home import SweepFolder
from store.browse import count_batches, run_batches, run_samples
from store.max_batch import list_limits, list_tries, published_limits
from store.queries import show_run
from ui.charts import (
    READINGS,
    batch_bars,
    batch_frame,
    phase_strip,
    stage_bar,
    telemetry_frame,
    telemetry_lines,
)
from ui.colours import ICONS
from ui.downloads import on_demand
from ui.figure import draw_figure
from ui.findings import about_batches, about_readings, about_stages
from ui.frame import safe
from ui.links import choose_number
from ui.live_page import tail
from ui.max_batch_view import draw_max_batch
from ui.operators_view import draw_operators, find_operators
from ui.results_view import draw_results
from ui.units import amount, metric_amount, seconds, size

if TYPE_CHECKING:
    import duckdb

BATCHES_SHOWN = 120
LOG_SHOWN_BYTES = 20_000
MEMORY = ("resident_bytes", "run_process_resident_bytes", "gpu_memory_used_bytes", "memory_available_bytes")
OWN_SERIES = ("try", "memory", "training")
"""Not telemetry: results of an experiment that come one after the other, drawn by its own view."""
CURVES = tuple(name for name in READINGS if name not in MEMORY)


def draw_run(connection: duckdb.DuckDBPyConnection, run_id: str, folder: SweepFolder, about: dict[str, Any],
             again: dict[str, Any] | None) -> None:
    """`about` holds tags and note, `again` the run as a sweep of one cell."""
    run = show_run(connection, run_id)
    st.subheader(f"{ICONS.get(run['status'], '')} {safe(_title(run, about['sweep']))}")
    st.markdown(f"**{run['status']}**" + (f": {safe(run['reason'])}" if run["reason"] else "")
                + f" · {safe(run['experiment'])}, repeat {run['repeat']}, attempt {run['attempt']}"
                + _when(run) + f" · `{run_id}`")
    if about["tags"] or about["note"]:
        st.markdown(" ".join(f":blue-badge[{safe(tag)}]" for tag in about["tags"]) + "  \n" + safe(about["note"]))
    if run["noisy"]:
        st.warning(f"Noisy: {safe(run['noise_reason'])}. Measure it again before you rely on it.")
    _draw_metrics(run)
    parts: dict[str, Callable[[], None]] = {
        "Phases": lambda: _draw_phases(connection, run), "Results": lambda: draw_results(run["metrics"], run["units"]),
        "Parameters": lambda: _draw_parameters(run, again), "Telemetry": lambda: _draw_telemetry(connection, run),
        "Memory": lambda: _draw_memory(connection, run), "Machine": lambda: _draw_environment(run),
        "Log": lambda: _draw_log(run, folder), "Files": lambda: _draw_files(run, folder)}
    if run["experiment"] == "max_batch":
        parts = {"Tries": lambda: draw_max_batch(list_limits(connection, run_id=run_id), published_limits(connection),
                                                 list_tries(connection, run_id)), **parts}
        del parts["Phases"]  # it has no batches
    if (operators := find_operators(run, folder)) is not None:
        parts["Operators"] = lambda: draw_operators(operators)
    # Only the open tab is drawn: the charts of the others would cost more than the page.
    for tab, draw in zip(st.tabs(list(parts), on_change="rerun", key="tab", bind="query-params"), parts.values(),
                         strict=True):
        if tab.open:
            with tab:
                draw()


def _title(run: dict[str, Any], sweep: dict[str, Any]) -> str:
    """What was run, and in which sweep: the model, then what varies there."""
    told = {name: run["params"][name] for name in ("model", *sweep["varies"]) if run["params"].get(name) is not None}
    words = [str(told.pop("model"))] if "model" in told else []
    words += [f"{name}={value}" for name, value in told.items()]
    return f"{', '.join(words) or run['experiment']} · {sweep['name'] or run['sweep_id']}"


def _when(run: dict[str, Any]) -> str:
    moment = f"{run['started_at']:%Y-%m-%d %H:%M:%S} UTC" if run["started_at"] else ""
    if run["source"] == "imported":
        return f" · **imported** {moment}: measured elsewhere, nothing is known about that machine"
    machine = (run["environment"] or {}).get("hostname")
    elsewhere = f" · **measured on {safe(machine)}**" if machine and machine != platform.node() else ""
    return f" · took {seconds(run['wall_s'])}" + (f" · started {moment}" if moment else "") + elsewhere


def _draw_environment(run: dict[str, Any]) -> None:
    if run["source"] == "imported":
        st.info("This run was imported: the file says nothing about the machine that measured it.")
        return
    st.caption(f"Environment {run['environment_id'] or 'unknown'}: where it was measured")
    st.json(run["environment"] or {}, expanded=1)


def _draw_log(run: dict[str, Any], folder: SweepFolder) -> None:
    text = tail(folder.run_log(run["run_id"], run["attempt"]), LOG_SHOWN_BYTES)
    st.code(text or "The run wrote nothing.", language=None, height=420)


def _draw_metrics(run: dict[str, Any]) -> None:
    shown = [("end_to_end_s", "End to end", "The whole measured window"),
             ("first_batch_s", "First batch there after", "From the window's start, the loader's included"),
             ("steady_items_per_s", "Steady state", "Items per second without start-up and run-out of the loader"),
             ("unaccounted_s", "In no phase", "End to end minus the phases"),
             ("overlapped_s", "Overlapped", "Phases minus end to end: a device worked while the host went on"),
             ("gradient_error", "Gradient error", "Of the method against plain training, over the norm of the whole "
              "gradient. Both in double precision, whatever the run's precision")]
    with st.container(horizontal=True):
        for name, title, help_text in shown:
            value = run["metrics"].get(name)
            if value is not None and (value or name not in ("overlapped_s", "unaccounted_s")):
                st.metric(title, amount(value, run["units"].get(name)), border=True, help=help_text)
        if run["status"] == "ok" and run["phases"] and "steady_items_per_s" not in run["metrics"]:
            st.metric("Steady state", "too short", border=True,
                      help="Fewer batches than the workers' first and last ones: a rate would be a guess")


def _draw_phases(connection: duckdb.DuckDBPyConnection, run: dict[str, Any]) -> None:
    if run["stages"]:
        draw_figure(about_stages(run["stages"]), stage_bar(run["stages"]), pd.DataFrame(run["stages"]), "stages")
    total = count_batches(connection, run["run_id"])
    if not total:
        st.info("No batch was measured.")
        return
    first = 0
    if total > BATCHES_SHOWN:
        first = int(choose_number("Batches from", 0, total - BATCHES_SHOWN, 0, "from"))
    rows = run_batches(connection, run["run_id"], first, BATCHES_SHOWN)
    if rows:
        draw_figure(about_batches(rows), batch_bars(batch_frame(rows)), pd.DataFrame(rows), "batches")
    if not run["phases"]:
        return  # still being measured: medians and totals come when it has ended
    table = pd.DataFrame([{"Phase": name, "Clock": row["clock"], "Batches": row["count"],
                           "Median": seconds(row["median_s"]), "Median, steady state": seconds(row["steady_median_s"]),
                           "In the first batch": seconds(row["first_s"]),
                           "Total": seconds(row["total_s"])} for name, row in run["phases"].items()])
    st.dataframe(table, hide_index=True, height="content", alt="Phases of this run")


def _draw_parameters(run: dict[str, Any], again: dict[str, Any] | None) -> None:
    names = [*run["params"], *(name for name in run["effective"] if name not in run["params"])]
    rows = []
    for name in names:
        asked, effect = _text(run["params"].get(name)), _text(run["effective"].get(name))
        same = name not in run["effective"] or asked == effect
        rows.append({"Parameter": name, "Asked": asked, "In effect": "as asked" if same else effect})
    different = [row for row in rows if row["In effect"] != "as asked"]
    st.dataframe(pd.DataFrame(different + [row for row in rows if row not in different]), hide_index=True,
                 height="content", alt="Parameters asked and in effect, the differing ones first")
    if again:
        st.caption("This run as YAML: copy it at its right edge; the Launch page and `lab.py sweep` take it.")
        st.code(yaml.safe_dump(again, sort_keys=False, allow_unicode=True), language="yaml")


def _draw_telemetry(connection: duckdb.DuckDBPyConnection, run: dict[str, Any]) -> None:
    lines = _lines(connection, run, CURVES)
    if not lines:
        st.info("This run has no telemetry: it was over before the first reading, or was imported.")
        return
    batches = run_batches(connection, run["run_id"], 0, 400)
    st.caption("Above: which phase when (the first batches). Below: readings on the same time axis. "
               "Shaded: warm-up and the measured window.")
    if batches:
        draw_figure(about_batches(batches, "the first"), phase_strip(batches, _end_s(run)), pd.DataFrame(batches),
                    "phase_strip")
    for line in lines:
        draw_figure(*line)
    _draw_readings_table(run, CURVES)


def _draw_memory(connection: duckdb.DuckDBPyConnection, run: dict[str, Any]) -> None:
    peaks = {name: value for name, value in run["metrics"].items() if run["units"].get(name) == "bytes"}
    with st.container(horizontal=True):
        for name, value in peaks.items():
            st.metric(safe(name.replace("_", " ")), size(value), border=True)
    lines = _lines(connection, run, MEMORY)
    if lines:
        st.caption("Resident memory is what the system gave the processes; an allocator's peak is another number.")
        for line in lines:
            draw_figure(*line)
        _draw_readings_table(run, MEMORY)
    elif not peaks:
        st.info("No reading of memory was taken: the run was over before the first one.")


def _lines(connection: duckdb.DuckDBPyConnection, run: dict[str, Any], metrics: tuple[str, ...],
           ) -> list[tuple[str, alt.LayerChart, pd.DataFrame, str]]:
    """Sentence, chart, rows and name of each metric that was read more than once."""
    samples = run_samples(connection, run["run_id"], list(metrics))
    found = []
    for metric in metrics:
        rows = [row for row in samples if row["metric"] == metric]
        if len(rows) > 1:
            title, scale = READINGS[metric]
            frame = telemetry_frame(rows, scale)
            found.append((about_readings(title, list(frame["value"])),
                          telemetry_lines(frame, title, None, run["stages"], _end_s(run)), frame, metric))
    return found


def _end_s(run: dict[str, Any]) -> float:
    """Until where the run's charts go: its end, or as far as it has come."""
    return float(max([run["wall_s"] or 0.0, *(stage["start_s"] + stage["seconds"] for stage in run["stages"])]) or 1.0)


def _draw_readings_table(run: dict[str, Any], metrics: tuple[str, ...]) -> None:
    rows = [{"Device": row["device"], "Reading": row["metric"], "Mean": metric_amount(row["metric"], row["mean"]),
             "Lowest": metric_amount(row["metric"], row["minimum"]),
             "Highest": metric_amount(row["metric"], row["maximum"]), "Samples": row["count"]}
            for row in run["telemetry"] if row["device"] not in OWN_SERIES
            and (row["metric"] in metrics or row["metric"] not in READINGS)]
    if rows:
        st.dataframe(pd.DataFrame(rows), hide_index=True, height="content", alt="Readings of this run, reduced")


def _draw_files(run: dict[str, Any], folder: SweepFolder) -> None:
    """What the run left behind, its journal and its log among it. Nothing outside the sweep's folder is offered."""
    own = [folder.run_journal(run["run_id"], run["attempt"]), folder.run_log(run["run_id"], run["attempt"])]
    own.insert(1, own[0].with_name(own[0].name + ".gz"))
    paths = [("journal" if ".jsonl" in path.name else "log", path) for path in own if path.exists()]
    paths += [(row["title"] or row["path"], folder.path / row["path"]) for row in run["files"]]
    if not paths:
        st.info("This run left no files.")
    for number, (title, path) in enumerate(paths):
        if not path.resolve().is_relative_to(folder.path.resolve()) or not path.is_file():
            st.markdown(f"{safe(title)}: not there any more")
            continue
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        st.download_button(f"{safe(title)} ({size(path.stat().st_size)})", on_demand(path.read_bytes, path.name, kind),
                           path.name, kind, icon=":material/download:", on_click="ignore", key=f"file_{number}")


def _text(value: Any) -> str:
    return "–" if value is None else str(value)
