"""What every page begins with: the frame, the lab's one store, and whether this visitor may change things."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import streamlit as st

from engine import queue
from engine.home import Home, lab_home
from engine.interrupted import close_interrupted
from store.database import Store, StoreHeld, StoreUnusable
from store.keeper import Activity, Keeper
from ui.frame import draw_frame

if TYPE_CHECKING:
    import duckdb


class Lab(NamedTuple):
    """The lab as a page sees it. `ask` is this page run's own cursor on the one store of the process."""

    home: Home
    keeper: Keeper
    ask: duckdb.DuckDBPyConnection
    viewer: bool
    """Only looking: no launching, no editing. Set for the whole server by PHASELAB_VIEWER."""


def begin(title: str) -> Lab:
    viewer = bool(os.environ.get("PHASELAB_VIEWER"))
    draw_frame(title, viewer)
    try:
        keeper = open_keeper()
    except (StoreHeld, StoreUnusable) as problem:
        _say_and_stop(str(problem))
    if keeper.store.notice:
        st.warning(keeper.store.notice)
    for problem in keeper.problems[-3:]:
        st.warning(problem)
    return Lab(keeper.store.home, keeper, keeper.store.cursor(), viewer)


@st.cache_resource(show_spinner="Opening the lab")
def open_keeper() -> Keeper:
    """One store and one reading thread per process, whoever comes first."""
    home = lab_home()
    store = Store.open(home)
    keeper = Keeper(store, lambda: look(home))
    keeper.start()
    return keeper


def look(home: Home) -> Activity:
    close_interrupted(home)
    entries = queue.read_queue(home).entries
    return Activity([entry.sweep_id for entry in entries], any(entry.state == "measuring" for entry in entries))


def _say_and_stop(sentence: str) -> NoReturn:
    st.error(sentence[0].upper() + sentence[1:] + ".")
    st.stop()
