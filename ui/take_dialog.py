"""What can be done with a figure of a page: onto a board, or away as a file."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from store.boards import Board
from ui.downloads import on_demand
from ui.exhibits import Exhibit
from ui.figure import Figure, as_csv
from ui.frame import safe
from ui.pictures import as_png, as_svg

NEW = "a new board"
Make = Callable[[Exhibit, pd.DataFrame], str | bytes]
"""Of a figure and its rows as they were drawn."""


class Actions(NamedTuple):
    add: Callable[[str | None, str, str], Any]
    """To the board with this id, or to a new one with this name; with this note. Tells whether it was done."""
    exhibit: Callable[[], Exhibit]
    """The figure as it was drawn. Called when a file is asked for, not before: its chart becomes JSON with its rows."""
    page_as_html: Callable[[], str]
    """Runs the page again."""


@st.dialog("Take this chart along")
def draw_taking(figure: Figure, page: str, boards: list[Board], viewer: bool, actions: Actions) -> None:
    names = {board.board_id: board.name for board in boards}
    board_id = st.selectbox("Add it to", [*names, NEW], key="take_board", disabled=viewer,
                            format_func=lambda choice: names.get(choice, NEW))
    new = board_id not in names
    title = st.text_input("Name of the new board", key="take_name", disabled=viewer, max_chars=120) if new else ""
    note = st.text_area("Note", key="take_note", disabled=viewer, max_chars=20_000, height=80,
                        placeholder="What to say about it; may stay empty")
    if st.button("Add to the board", type="primary", icon=":material/dashboard_customize:", key="take_add",
                 disabled=viewer) and actions.add(None if new else board_id, title, note):
        st.rerun()  # closes the dialog
    st.caption("A board keeps what is chosen on this page, not the picture: it shows new results as they come.")
    st.markdown("**As a file**")
    with st.container(horizontal=True):
        for label, make, kind in FILES:
            file = f"{figure.name}.{label.lower()}"
            st.download_button(label, on_demand(partial(_make_file, make, actions, figure), file, kind), file, kind,
                               on_click="ignore", icon=":material/download:", key=f"take_{label}")
        file = f"{page}.html"
        st.download_button(f"All of {safe(page)} as HTML", on_demand(actions.page_as_html, file, "text/html"), file,
                           "text/html", on_click="ignore", icon=":material/download:", key="take_html",
                           help="One file with every chart and table of this page, all its views included, and where "
                                "they come from; it needs no network")


def _make_file(make: Make, actions: Actions, figure: Figure) -> str | bytes:
    return make(actions.exhibit(), figure.rows)


def _png(exhibit: Exhibit, rows: pd.DataFrame) -> bytes:
    return as_png(exhibit.spec)


def _svg(exhibit: Exhibit, rows: pd.DataFrame) -> str:
    return as_svg(exhibit.spec)


def _csv(exhibit: Exhibit, rows: pd.DataFrame) -> str:
    return as_csv(exhibit.frame())


def _parquet(exhibit: Exhibit, rows: pd.DataFrame) -> bytes:
    """Moments stay moments: an exhibit has them as text."""
    frame, sink = exhibit.frame(), io.BytesIO()
    for name in rows.columns:
        if pd.api.types.is_datetime64_any_dtype(rows[name]):
            frame[name] = rows[name].array
    frame.to_parquet(sink, index=False)
    return sink.getvalue()


FILES: list[tuple[str, Make, str]] = [
    ("PNG", _png, "image/png"), ("SVG", _svg, "image/svg+xml"), ("CSV", _csv, "text/csv"),
    ("Parquet", _parquet, "application/vnd.apache.parquet")]
