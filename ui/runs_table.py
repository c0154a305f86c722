"""The table of runs: filters that live in the link, and a row opened by a click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import streamlit as st

from store.browse import filter_choices

if TYPE_CHECKING:
    import duckdb

STATUSES = ["ok", "running", "failed", "oom", "timeout", "killed", "cancelled", "skipped"]


class Filters(NamedTuple):
    """In the order that store.browse.runs_frame takes them."""

    experiment: str | None
    statuses: list[str]
    sweep_id: str | None
    text: str
    tag: str | None
    archived: bool


def draw_filters(connection: duckdb.DuckDBPyConnection) -> Filters:
    choices = filter_choices(connection)
    columns = st.columns([2, 2, 2, 2, 1])
    with columns[0]:
        text = st.text_input("Search", key="q", bind="query-params", max_chars=200,
                             placeholder="name, id, parameter value, reason")
    with columns[1]:
        # Not bound to the link: Streamlit would put the label there, and not the id.
        asked = st.query_params.get("sweep")
        st.session_state["sweep"] = asked if asked in choices["sweeps"] else None
        sweep_id = st.selectbox("Sweep", list(choices["sweeps"]), index=None, key="sweep", on_change=_keep_in_link,
                                format_func=lambda value: choices["sweeps"].get(value, value), placeholder="all sweeps")
    with columns[2]:
        statuses = st.multiselect("Status", STATUSES, key="status", bind="query-params", placeholder="any")
    with columns[3]:
        tag = st.selectbox("Tag", choices["tags"], index=None, key="tag", bind="query-params", placeholder="any")
    with columns[4]:
        archived = st.toggle("Archived too", key="archived", bind="query-params")
    return Filters(None, statuses, sweep_id, text or "", tag, archived)


def _keep_in_link() -> None:
    if sweep_id := st.session_state["sweep"]:
        st.query_params["sweep"] = sweep_id
    else:
        st.query_params.pop("sweep", None)


def draw_table(frame: pd.DataFrame) -> str | None:
    """Returns the id of the run that was clicked."""
    frame = frame.copy()
    for column in ("end_to_end_s", "first_batch_s"):
        frame[column] = frame[column] * 1000
    frame["noisy"] = frame["noisy"].map({True: "noisy", False: ""}).fillna("")
    st.caption(f"{len(frame):,} runs. Click the box at the left of a row to open it.")
    config: dict[str, Any] = {
        "run_id": st.column_config.TextColumn("Run", width="small"),
        "status": st.column_config.TextColumn("Status", width="small"),
        "noisy": st.column_config.TextColumn("Quiet?", width="small", help="noisy: other work disturbed this run"),
        "end_to_end_s": st.column_config.NumberColumn("End to end (ms)", format="%.1f"),
        "first_batch_s": st.column_config.NumberColumn("First batch (ms)", format="%.1f"),
        "items_per_s": st.column_config.NumberColumn("Items/s, steady", format="%.1f",
                                                     help="Empty where the run was too short to have a steady state"),
        "repeat": st.column_config.NumberColumn("Repeat", width="small"),
        "started_at": st.column_config.DatetimeColumn("Started (UTC)", format="YYYY-MM-DD HH:mm:ss"),
        "reason": st.column_config.TextColumn("Reason", width="medium"),
        "sweep": st.column_config.TextColumn("Sweep"), "experiment": st.column_config.TextColumn("Experiment"),
        "sweep_id": None,
    }
    event = st.dataframe(frame, column_config=config, hide_index=True, on_select="rerun", selection_mode="single-row",
                         key="runs_table", height=620, alt="Runs with outcome, parameters and main numbers")
    rows = event.selection.rows
    return str(frame.iloc[rows[0]]["run_id"]) if rows else None
