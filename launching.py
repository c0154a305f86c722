"""Starting sweeps from pages: once per click, whatever the browser does, and straight on to the Live page."""

from __future__ import annotations

import secrets
import threading
import time
from typing import Any, NamedTuple

import streamlit as st
from pydantic import ValidationError

from begin import Lab
from engine.allowed_folders import check_spec_folders
from engine.home import Home
from engine.launch import launch
from engine.params import InputError, explain
from engine.registry import find
from engine.spec import SweepSpec
from hand import HAND

SAME_CLICK_S = 3.0
"""The same sweep asked for again by the same visitor within so many seconds is the same click."""


class LastLaunch(NamedTuple):
    spec: SweepSpec
    token: str
    at_s: float


class Launched:
    """Which tokens have been launched already, for the whole process: a double click has the same token twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sweeps: dict[str, str] = {}

    def once(self, token: str, home: Home, spec: SweepSpec) -> str:
        with self._lock:
            if token not in self._sweeps:
                check_spec_folders(spec, find(spec.experiment), home)
                self._sweeps[token] = launch(home, spec)
            return self._sweeps[token]


@st.cache_resource(show_spinner=False)
def launched() -> Launched:
    return Launched()


def without_defaults(content: dict[str, Any]) -> dict[str, Any]:
    """A sweep that names every parameter of its one cell, with those only that differ from their default."""
    if "grid" in content:
        return content
    experiment = find(content["experiment"])
    try:
        params = experiment.Params.model_validate(content["fixed"])
    except ValidationError as error:
        raise InputError(explain(error, experiment.Params, experiment.name)) from None
    given = params.model_dump(mode="json", exclude_defaults=True) or {"seed": 0}
    first = next(iter(given))
    return {**content, "grid": {first: [given.pop(first)]}, "fixed": given}


def launch_and_watch(lab: Lab, spec: SweepSpec) -> None:
    """Launch what this page's token stands for and go to Live; what is wrong is said here instead."""
    token = st.session_state.setdefault("launch_token", secrets.token_hex(8))
    last: LastLaunch | None = st.session_state.get("last_launch")
    if last and last.spec == spec and time.monotonic() - last.at_s < SAME_CLICK_S:
        token = last.token  # the second half of a double click can reach a page whose token was renewed
    with st.spinner("Starting the sweep"):
        # The hand is asked inside `do`: a viewer is refused before anything is begun.
        sweep_id = lab.do(lambda: HAND.submit(launched().once, token, lab.home, spec).result(), say=st.error)
    if sweep_id:
        st.session_state["last_launch"] = LastLaunch(spec, token, time.monotonic())
        st.session_state["launch_token"] = secrets.token_hex(8)
        st.switch_page("pages/Live.py", query_params={"sweep": sweep_id})
