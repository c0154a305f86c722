"""The frame of every page: title, menu in groups, what a person may do here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from ui.colours import ICONS

FAVICON = Path(__file__).with_name("favicon.png")
MENU_LETTERS = 18
VIEWER = "Viewer mode: look at everything, change nothing."


class Page(NamedTuple):
    file: str
    title: str
    icon: str
    group: str
    answers: Mapping[str, tuple[str, str]] = {}
    """The experiments whose question it answers: what its link calls the sweep then, if it can name one, and the view,
    where that is not the first."""

    def link_to(self, experiment: str, sweep_id: str) -> dict[str, str]:
        """The page with the answer of this sweep."""
        sweep, view = self.answers[experiment]
        return ({sweep: sweep_id} if sweep else {}) | ({"view": view} if view else {})


PAGES = [
    Page("app.py", "Home", ":material/home:", ""),
    Page("pages/Launch.py", "Launch", ":material/rocket_launch:", "Measure"),
    Page("pages/Live.py", "Live", ":material/monitoring:", "Measure"),
    Page("pages/Runs.py", "Runs", ":material/table_rows:", "Results"),
    Page("pages/Compare.py", "Compare", ":material/compare_arrows:", "Results"),
    Page("pages/Boards.py", "Boards", ":material/dashboard:", "Results"),
    Page("pages/Present.py", "Present", ":material/slideshow:", "Results"),
    Page("pages/SQL.py", "SQL", ":material/database:", "Results"),
    Page("pages/Batch_and_workers.py", "Batch & workers", ":material/grid_on:", "Questions",
         {"inference": ("sweeps", "")}),
    Page("pages/Data_loading.py", "Data loading", ":material/conveyor_belt:", "Questions",
         {"loading": ("sweep", "")}),
    Page("pages/Model_search.py", "Model search", ":material/search_insights:", "Questions",
         {"finetune": ("sweeps", ""), "extract": ("sweeps", ""), "bottleneck": ("sweeps", "Bottlenecks"),
          "search": ("searches", "Strategies")}),
    Page("pages/Memory.py", "Memory", ":material/stacked_line_chart:", "Questions",
         {"memory": ("sweeps", ""), "max_batch": ("", "Largest batch")}),
    Page("pages/Training.py", "Training", ":material/model_training:", "Questions",
         {"training": ("sweep", "")}),
    Page("pages/Machine.py", "Machine", ":material/memory:", "Lab"),
]


def draw_frame(title: str, viewer: bool, bare: bool = False) -> None:
    """Call first on every page. A bare one has neither menu nor title."""
    st.set_page_config(page_title=f"{title} · PhaseLab", page_icon=str(FAVICON), layout="wide")
    if bare:
        return
    with st.sidebar:
        st.markdown("### PhaseLab")
        group = ""
        for entry in PAGES:
            if entry.group != group:
                st.caption(entry.group)
                group = entry.group
            st.page_link(entry.file, label=entry.title, icon=entry.icon)
        if viewer:
            st.info(VIEWER, icon=":material/visibility:")
    st.title(title)


def draw_answer_link(experiment: str, sweep_id: str) -> None:
    """The ways from a sweep to the page that answers its question, where there is one, and to Compare."""
    for page in PAGES:
        if experiment in page.answers:
            st.page_link(page.file, label=page.title, icon=page.icon, query_params=page.link_to(experiment, sweep_id))
    draw_compare([sweep_id], "Compare")


def draw_compare(items: Sequence[str], label: str) -> None:
    """The way to Compare with these runs, cells or sweeps."""
    st.page_link("pages/Compare.py", label=label, icon=":material/compare_arrows:",
                 query_params={"items": ",".join(items)})


def shorten(name: str, letters: int) -> str:
    return name if len(name) <= letters else name[:letters - 1] + "…"


def draw_open_sweeps(sweeps: list[dict[str, Any]]) -> None:
    """In the menu: what is measured now, from any page."""
    for sweep in sweeps[:3]:
        name = safe(shorten(sweep["name"], MENU_LETTERS))
        st.page_link("pages/Live.py", icon=ICONS[sweep["status"]], query_params={"sweep": sweep["sweep_id"]},
                     label=f"{sweep['done']} of {sweep['planned_runs'] or '?'} · {name}")
    if len(sweeps) > 3:
        st.caption(f"and {len(sweeps) - 3} more in the queue")


def set_tab_title(text: str) -> None:
    """What the browser's tab says, readable while another tab is open."""
    st.set_page_config(page_title=f"{text[:80]} · PhaseLab")


def empty_state(sentence: str, button: str, target: str, icon: str = ":material/rocket_launch:",
                query: dict[str, str] | None = None) -> None:
    """What a page says when it has nothing to show, and the next step; `query` is the rest of the link."""
    with st.container(border=True):
        st.markdown(sentence)
        st.page_link(target, label=f"**{button}**", icon=icon, query_params=query)


_HARMLESS = str.maketrans({c: "\\" + c for c in "\\`*_{}[]()#+-.!|$:~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def safe(text: object) -> str:
    """Names, notes and errors as plain text: Markdown and HTML in them are shown, not obeyed."""
    return str(text).translate(_HARMLESS)
