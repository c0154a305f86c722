"""One run opened: what was asked, how it ended, where its time went, on what machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st
import yaml

from engine.home import SweepFolder
from store.browse import run_batches, run_samples
from store.queries import show_run
from ui.charts import batch_bars, stage_bar, telemetry_lines
from ui.colours import ICONS
from ui.frame import safe
from ui.units import amount, metric_amount, seconds

if TYPE_CHECKING:
    import duckdb

BATCHES_SHOWN = 120
CURVES = {"run_cpu_cores": ("CPU of the run (cores)", 1.0), "others_cpu_cores": ("CPU of others (cores)", 1.0),
          "resident_bytes": ("Resident memory (GiB)", 2.0**-30),
          "disk_read_bytes_per_s": ("Disk reads (MiB/s)", 2.0**-20),
          "gpu_utilization": ("GPU busy (% of time)", 100.0), "gpu_memory_used_bytes": ("GPU memory (GiB)", 2.0**-30),
          "power_watts": ("GPU power (W)", 1.0)}


def draw_run(connection: duckdb.DuckDBPyConnection, run_id: str, folder: SweepFolder) -> None:
    run = show_run(connection, run_id)
    st.subheader(f"{ICONS.get(run['status'], '')} {run_id}")
    st.markdown(f"**{run['status']}**" + (f": {safe(run['reason'])}" if run["reason"] else "")
                + f" · {run['experiment']}, repeat {run['repeat']}, attempt {run['attempt']}"
                + f" · took {seconds(run['wall_s'])} · started {run['started_at']:%Y-%m-%d %H:%M:%S} UTC")
    if run["noisy"]:
        st.warning(f"Noisy: {safe(run['noise_reason'])}. Measure it again before you rely on it.")
    _draw_metrics(run)
    times, parameters, telemetry, machine, log = st.tabs(["Phases", "Parameters", "Telemetry", "Machine", "Log"])
    with times:
        _draw_times(connection, run)
    with parameters:
        _draw_parameters(run)
    with telemetry:
        _draw_telemetry(connection, run)
    with machine:
        st.json(run["environment"] or {}, expanded=1)
    with log:
        file = folder.run_log(run_id, run["attempt"])
        text = file.read_text(errors="replace")[-20_000:] if file.exists() else ""
        st.code(text or "The run wrote nothing.", language=None, height=420)


def _draw_metrics(run: dict[str, Any]) -> None:
    shown = [("end_to_end_s", "End to end"), ("first_batch_s", "First batch"), ("steady_items_per_s", "Steady state"),
             ("unaccounted_s", "In no phase"), ("overlapped_s", "Overlapped")]
    with st.container(horizontal=True):
        for name, title in shown:
            if name in run["metrics"]:
                st.metric(title, amount(run["metrics"][name], run["units"].get(name)), border=True)
        if run["status"] == "ok" and "steady_items_per_s" not in run["metrics"]:
            st.metric("Steady state", "too short", border=True)


def _draw_times(connection: duckdb.DuckDBPyConnection, run: dict[str, Any]) -> None:
    if run["stages"]:
        st.caption("The run's life, from request to end")
        st.altair_chart(stage_bar(run["stages"]), width="stretch")
    total = max((phase["count"] for phase in run["phases"].values()), default=0)
    if not total:
        st.info("No batch was measured.")
        return
    first = 0
    if total > BATCHES_SHOWN:
        first = st.slider("Batches from", 0, total - BATCHES_SHOWN, 0, step=BATCHES_SHOWN // 4)
    st.altair_chart(batch_bars(run_batches(connection, run["run_id"], first, BATCHES_SHOWN)), width="stretch")
    table = pd.DataFrame([{"Phase": name, "Clock": row["clock"], "Batches": row["count"],
                           "Median": seconds(row["median_s"]), "Steady median": seconds(row["steady_median_s"]),
                           "First": seconds(row["first_s"]),
                           "Total": seconds(row["total_s"])} for name, row in run["phases"].items()])
    st.dataframe(table, hide_index=True, alt="Phases of this run")


def _draw_parameters(run: dict[str, Any]) -> None:
    names = [*run["params"], *(name for name in run["effective"] if name not in run["params"])]
    table = pd.DataFrame([{"Parameter": name, "Asked": _text(run["params"].get(name)),
                           "In effect": _text(run["effective"].get(name)) if name in run["effective"] else "as asked"}
                          for name in names])
    st.dataframe(table, hide_index=True, height="content", alt="Parameters asked and in effect")
    given = {name: value for name, value in run["params"].items() if value is not None}
    st.caption("This run as YAML: save it, or paste it on the Launch page.")
    st.code(yaml.safe_dump({"experiment": run["experiment"], "grid": {name: [value] for name, value in given.items()}},
                           sort_keys=False, allow_unicode=True), language="yaml")


def _draw_telemetry(connection: duckdb.DuckDBPyConnection, run: dict[str, Any]) -> None:
    samples = run_samples(connection, run["run_id"], list(CURVES))
    if not samples:
        st.info("This run has no telemetry: it was over before the first reading, or was imported.")
        return
    st.caption("Shaded: warm-up and the measured window.")
    columns = st.columns(2)
    drawn = 0
    for metric, (title, scale) in CURVES.items():
        rows = [row for row in samples if row["metric"] == metric]
        if len(rows) > 1:
            with columns[drawn % 2]:
                st.altair_chart(telemetry_lines(rows, title, scale, run["stages"]), width="stretch")
            drawn += 1
    table = pd.DataFrame([{"Device": row["device"], "Reading": row["metric"],
                           "Mean": metric_amount(row["metric"], row["mean"]),
                           "Lowest": metric_amount(row["metric"], row["minimum"]),
                           "Highest": metric_amount(row["metric"], row["maximum"]), "Samples": row["count"]}
                          for row in run["telemetry"]])
    st.dataframe(table, hide_index=True, height="content", alt="Telemetry of this run, reduced")


def _text(value: Any) -> str:
    return "–" if value is None else str(value)
