"""One figure as every page shows it: the sentence it makes, the chart, what to know about it, and its rows as CSV."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

FORMULA = tuple("=+-@\t\r")
"""How a text begins that a spreadsheet would take for a formula."""


def draw_figure(sentence: str, chart: alt.TopLevelMixin, rows: pd.DataFrame, name: str, note: str = "") -> None:
    """`name` is the key of the chart and the name of its file; `rows` is what is drawn, with units in the headings."""
    if sentence:
        st.markdown(sentence)
    st.altair_chart(chart, width="stretch", key=f"chart_{name}")
    draw_rows_button(rows, name, note)


def draw_rows_button(rows: pd.DataFrame, name: str, note: str = "") -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if note:
            st.caption(note)
        st.download_button("CSV", lambda: as_csv(rows), f"{name}.csv", "text/csv", icon=":material/download:",
                           on_click="ignore", type="tertiary", key=f"rows_{name}", help="The numbers behind the chart")


def as_csv(rows: pd.DataFrame) -> str:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    return str(rows.map(_harmless).rename(columns=_harmless).to_csv(index=False))


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
