"""The operators of a profiled run, from the table that the run kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from engine.home import SweepFolder
from ui.figure import draw_rows_button
from ui.frame import safe
from ui.units import seconds

Rows = list[dict[str, Any]]
OPERATORS_FILE = "operators.json"
LARGEST_TABLE_BYTES = 1_000_000


def find_operators(run: dict[str, Any], folder: SweepFolder) -> Rows | None:
    """None for a run that was not profiled, or whose file is gone. Nothing outside the sweep's folder is read."""
    for file in run["files"]:
        path = folder.path / file["path"]
        if path.name == OPERATORS_FILE and path.resolve().is_relative_to(folder.path.resolve()):
            return read_operators(path)
    return None


def read_operators(file: Path) -> Rows | None:
    """The table as engine/profiling.py writes it; None where it is not there or not such a table."""
    try:
        if file.stat().st_size > LARGEST_TABLE_BYTES:
            return None
        rows = json.loads(file.read_text())["operators"]
        return [{"name": str(row["name"]), "calls": int(row["calls"]), "host_s": float(row["host_s"]),
                 "host_total_s": float(row["host_total_s"]), "device_s": float(row["device_s"])} for row in rows]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def about_operators(rows: Rows) -> str:
    on_device = any(row["device_s"] for row in rows)
    name = "device_s" if on_device else "host_s"
    total = sum(row[name] for row in rows)
    if not total:
        return "The profiler saw no operator."
    top = max(rows, key=lambda row: float(row[name]))
    return (f"**{safe(top['name'])}** takes the most time of its own{' on the device' if on_device else ''}: "
            f"{seconds(top[name])} in {top['calls']} calls, {top[name] / total:.0%} of what the operators below take.")


def draw_operators(rows: Rows) -> None:
    st.markdown(about_operators(rows))
    on_device = any(row["device_s"] for row in rows)
    shown = pd.DataFrame([{"Operator": row["name"], "Calls": row["calls"], "Own time": seconds(row["host_s"]),
                           "With what it calls": seconds(row["host_total_s"]),
                           **({"On the device": seconds(row["device_s"])} if on_device else {})} for row in rows])
    st.dataframe(shown, hide_index=True, height="content", alt="Operators by their own time, the longest first")
    draw_rows_button(pd.DataFrame(rows), "operators",
                     "Up to three batches under torch's profiler, apart from the measured ones: the profiler itself "
                     "takes time, so compare shares. The trace is on the Files tab.")
