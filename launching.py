"""Starting sweeps from pages: once per click, whatever the browser does, and straight on to the Live page."""

from __future__ import annotations

import secrets
import threading

import streamlit as st

from begin import open_keeper
from engine.home import PROJECT, Home
from engine.launch import launch
from engine.params import InputError
from engine.spec import SweepSpec, read_spec

PRESETS = PROJECT / "presets"


class Launched:
    """Which tokens have been launched already, for the whole process: a double click has the same token twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sweeps: dict[str, str] = {}

    def once(self, token: str, home: Home, spec: SweepSpec) -> str:
        with self._lock:
            if token not in self._sweeps:
                self._sweeps[token] = launch(home, spec)
            return self._sweeps[token]


@st.cache_resource(show_spinner=False)
def launched() -> Launched:
    return Launched()


def launch_and_watch(home: Home, spec: SweepSpec) -> None:
    """Launch what this page's token stands for and go to Live; a wrong input is shown here instead."""
    token = st.session_state.setdefault("launch_token", secrets.token_hex(8))
    try:
        with st.spinner("Starting the sweep"):
            sweep_id = launched().once(token, home, spec)
            open_keeper().wait_for_pass()  # the Live page reads the store: the sweep must be in it
    except InputError as error:
        st.error(str(error))
        return
    st.switch_page("pages/Live.py", query_params={"sweep": sweep_id})


def new_token() -> None:
    """Called when a page that launches is opened anew: its next click is another launch."""
    st.session_state["launch_token"] = secrets.token_hex(8)


def launch_tour(home: Home) -> None:
    launch_and_watch(home, read_spec(PRESETS / "tour.yaml"))
