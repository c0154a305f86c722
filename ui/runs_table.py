"""The table of runs: filters that live in the link, rows to select."""

from __future__ import annotations

import platform
from typing import Any

import pandas as pd
import streamlit as st

from store.browse import Filters
from store.published import STUDIES
from ui.links import choose
from ui.units import amount

STATUSES = ["ok", "running", "failed", "oom", "timeout", "killed", "cancelled", "skipped"]
SHOWN = ["current", "archived", "deleted", "published"]
ROWS_SHOWN, MOST_ROWS = 2_000, 50_000
ROW_PX, MOST_PX = 35, 620
LEADING = ("model", "method", "batch_size", "workers")
"""Parameters by which people tell runs apart: they stand before the numbers, others behind them."""


def draw_filters(choices: dict[str, Any]) -> Filters:
    shown = st.segmented_control("Show", SHOWN, default="current", key="shown", bind="query-params", required=True,
                                 label_visibility="collapsed") or "current"
    if shown == "published":
        return Filters(shown=shown)
    places = st.grid(4, min_column_width=190)
    with places.cell():
        text = st.text_input("Search", key="q", bind="query-params", max_chars=200,
                             placeholder="any text",
                             help="In the sweep's name, the run's id, a parameter's value, a reason or a note")
    with places.cell():
        sweeps = choices["sweeps"] | (choices["deleted"] if shown == "deleted" else {})
        sweep_id = choose("Sweep", list(sweeps), "sweep", lambda sweep_id: sweeps[sweep_id], index=None,
                          placeholder="all sweeps")
    with places.cell():
        statuses = st.multiselect("Status", STATUSES, key="status", bind="query-params", placeholder="any")
    with places.cell():
        tag = st.selectbox("Tag", choices["tags"], index=None, key="tag", bind="query-params", placeholder="any")
    return Filters(text or "", sweep_id, statuses, tag, shown)


def draw_table(frame: pd.DataFrame, total: int) -> list[str]:
    """Returns the ids of the selected runs."""
    frame = frame.copy()
    frame[["first_batch_s", "item_s"]] *= 1000
    frame["noisy"] = frame["noisy"].map({True: "noisy", False: "quiet"}).fillna("")
    frame["source"] = frame["source"].where(frame["source"] != platform.node())
    words = f"{total:,} {'run' if total == 1 else 'runs'}"
    if total > len(frame):
        words += f", the newest {len(frame):,} of them below: narrow the filters, or show all"
    st.caption(f"{words}. Tick rows at the left to open, compare, tag or delete them; click a heading to sort.")
    for column in ("tags", "note", "reason", "noisy", "source", "items_per_s", "first_batch_s", "item_s"):
        if not (frame[column].notna() & (frame[column] != "")).any():
            frame = frame.drop(columns=column)
    config: dict[str, Any] = {
        "status": st.column_config.TextColumn("Status", width="small"),
        "sweep": st.column_config.TextColumn("Sweep", width="medium"),
        "noisy": st.column_config.TextColumn("Noise", width="small", help="noisy: other work disturbed this run"),
        "end_to_end_s": st.column_config.NumberColumn("End to end (s)", format="%.3f",
                                                      help="The whole measured window"),
        "item_s": st.column_config.NumberColumn("Per item (ms)", format="%.3f",
                                                help="End to end, divided by the items"),
        "first_batch_s": st.column_config.NumberColumn("First batch (ms)", format="%.1f",
                                                       help="Until the first batch was there"),
        "items_per_s": st.column_config.NumberColumn(
            "Items/s, steady", format="%.1f", help="Without the loader's start and its last batches, so it can be "
            "below the rate of the whole; empty where the run was too short for it"),
        "repeat": st.column_config.NumberColumn("Repeat", width="small"),
        "tags": st.column_config.TextColumn("Tags"), "note": st.column_config.TextColumn("Note"),
        "started_at": st.column_config.DatetimeColumn("Started (UTC)", format="YYYY-MM-DD HH:mm:ss"),
        "reason": st.column_config.TextColumn("Reason", width="medium"),
        "source": st.column_config.TextColumn("Source", width="small",
                                              help="imported from CSV; or the machine that measured it, if another"),
        "experiment": st.column_config.TextColumn("Experiment"),
        "run_id": st.column_config.TextColumn("Run", width="large"), "sweep_id": None,
    }
    leading = [name for name in LEADING if name in frame]
    others = [name for name in frame if name not in config and name not in leading]
    numbers = ["end_to_end_s", "item_s", "first_batch_s", "items_per_s", "noisy"]
    order = ["status", *leading, *numbers, "repeat", "sweep", *others]
    event = st.dataframe(frame, column_order=[*order, *(name for name in frame if name not in order)],
                         column_config=config, hide_index=True, on_select="rerun", selection_mode="multi-row",
                         key=f"runs_table_{st.session_state.get('table_version', 0)}", placeholder="",
                         height=min(ROW_PX * (len(frame) + 1) + 3, MOST_PX),
                         alt="Runs with outcome, parameters and main numbers")
    return [str(frame.iloc[row]["run_id"]) for row in event.selection.rows if row < len(frame)]


def draw_published(frame: pd.DataFrame) -> None:
    """Figures of the earlier studies: never mixed with own runs, always with their source and caveat."""
    st.markdown("What the five earlier studies published, to compare own results with. These are not measurements of "
                "this lab; other machines made them.")
    titles = {f"{study}: {about.title}": study for study, about in STUDIES.items()}
    chosen = st.pills("Study", list(titles), selection_mode="multi", key="study", bind="query-params",
                      label_visibility="collapsed")
    if studies := [titles[title] for title in chosen if title in titles]:
        frame = frame[frame["study"].isin(studies)]
    frame = frame.assign(value=[amount(value, unit) for value, unit in zip(frame["value"], frame["unit"], strict=True)],
                         metric=[metric.removesuffix("_s").removesuffix("_bytes").replace("_", " ")
                                 for metric in frame["metric"]],
                         machine=[STUDIES[study].machine for study in frame["study"]])
    st.caption(f"{len(frame):,} published figures")
    frame = frame[["study", "subject", "metric", "value", "caveat", "machine"]]
    st.dataframe(frame, hide_index=True, height=min(ROW_PX * (len(frame) + 1) + 3, MOST_PX), column_config={
        "study": "Study", "subject": "Of what", "metric": "Figure", "value": "Published value", "caveat": "To know",
        "machine": "Measured on"}, alt="Published figures with their study and caveat")
