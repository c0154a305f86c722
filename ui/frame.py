"""The frame of every page: title, menu in groups, what a person may do here."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st


class Page(NamedTuple):
    file: str
    title: str
    icon: str
    group: str


PAGES = [
    Page("app.py", "Home", ":material/home:", ""),
    Page("pages/Launch.py", "Launch", ":material/rocket_launch:", "Measure"),
    Page("pages/Live.py", "Live", ":material/monitoring:", "Measure"),
    Page("pages/Runs.py", "Runs", ":material/table_rows:", "Results"),
    Page("pages/Machine.py", "Machine", ":material/memory:", "Lab"),
]


def draw_frame(title: str, viewer: bool) -> None:
    """Call first on every page."""
    page = next(page for page in PAGES if page.title == title)
    st.set_page_config(page_title=f"{title} · PhaseLab", page_icon=page.icon, layout="wide")
    with st.sidebar:
        st.markdown("### PhaseLab")
        group = ""
        for entry in PAGES:
            if entry.group != group:
                st.caption(entry.group)
                group = entry.group
            st.page_link(entry.file, label=entry.title, icon=entry.icon)
        if viewer:
            st.info("Viewer mode: look at everything, change nothing.", icon=":material/visibility:")
    st.title(title)


def empty_state(sentence: str, button: str, target: str, icon: str = ":material/rocket_launch:") -> None:
    """What a page says when it has nothing to show, and the next step."""
    with st.container(border=True):
        st.markdown(sentence)
        st.page_link(target, label=f"**{button}**", icon=icon)


_HARMLESS = str.maketrans({c: "\\" + c for c in "\\`*_{}[]()#+-.!|$:~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def safe(text: object) -> str:
    """Names, notes and errors as plain text: Markdown and HTML in them are shown, not obeyed."""
    return str(text).translate(_HARMLESS)
