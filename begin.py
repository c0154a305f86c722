"""What every page begins with: the frame, the lab's one store, and the only way in which a page changes anything."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import streamlit as st

from boarding import open_taking
from engine import queue
from engine.home import Home, lab_home
from engine.interrupted import close_interrupted
from engine.params import InputError
from hand import yield_session
from store.database import Store, StoreHeld, StoreUnusable, is_trouble
from store.keeper import Activity, Keeper
from store.live import open_sweeps
from ui.figure import INCOMPLETE
from ui.frame import VIEWER, draw_frame, draw_open_sweeps, safe
from ui.links import turn_page

if TYPE_CHECKING:
    import duckdb

READY_S = 2.0
"""How long a page waits for the first look at all journals; then it shows what there is."""
CLOSE_EVERY = 10
"""Passes between looks for sweeps whose process died: the look goes over every sweep's folder."""


_lent: Keeper | None = None


def lend(keeper: Keeper) -> None:
    """For a command that runs pages without a server: they ask the store that it has open."""
    global _lent
    _lent = keeper


def toast(sentence: str, icon: str = ":material/error:") -> None:
    """Said by the next drawing: a button's work inside a fragment or a dialog cannot draw."""
    st.session_state.setdefault("messages", []).append((sentence, icon))


def show_messages() -> None:
    for sentence, icon in st.session_state.pop("messages", []):
        st.toast(sentence, icon=icon, duration="long")


class Lab(NamedTuple):
    """The lab as a page sees it. `ask` is this page run's own cursor on the one store of the process."""

    home: Home
    keeper: Keeper
    ask: duckdb.DuckDBPyConnection
    viewer: bool
    """Only looking: no launching, no editing. Set for the whole server by PHASELAB_VIEWER."""

    def do(self, act: Callable[..., Any], *arguments: Any, say: Callable[[str], Any] = toast) -> Any:
        """Everything a page changes is changed here: a viewer is refused whatever the browser sent, a wrong input is
        told as a sentence. Returns what the act returned (True for nothing), None if it was refused."""
        if self.viewer:
            say(VIEWER)
            return None
        try:
            done = act(*arguments)
        except (InputError, StoreUnusable) as error:
            say(safe(error))
            return None
        except OSError as error:
            say(safe(f"That could not be written ({error.strerror or error}): see to the disk's space and rights."))
            return None
        self.keeper.catch_up()
        return True if done is None else done


def begin(title: str, bare: bool = False) -> Lab:
    """`bare`: for a room full of people, without menu and title."""
    viewer = os.environ.get("PHASELAB_VIEWER", "").lower() not in ("", "0", "no", "false", "off")
    draw_frame(title, viewer, bare)
    turn_page(title)
    st.session_state.pop(INCOMPLETE, None)
    try:
        keeper = _lent or open_keeper()
    except (StoreHeld, StoreUnusable) as problem:
        _say_and_stop(str(problem))
    if not keeper.wait_until_ready(READY_S):
        st.info("Journals are still being read: some runs may be missing here.", icon=":material/hourglass_top:")
    for sentence in [keeper.store.notice, keeper.trouble, *keeper.problems[-3:]]:
        if sentence:
            st.warning(safe(sentence))
    show_messages()
    lab = Lab(keeper.store.home, keeper, cast("duckdb.DuckDBPyConnection", Asking(keeper.store)), viewer)
    if title != "Live" and not bare:  # Live shows what is measured itself, every second
        # Not by itself every few seconds: a fragment that is drawn while a launch leads to Live can break that page.
        with st.sidebar:
            draw_open_sweeps(notice_ends(lab))
    if taking := st.session_state.pop("taking", None):
        open_taking(lab, title, taking, toast)
    return lab


class Asking:
    """A page's cursor: when the store's file turns out damaged, the page says so in one sentence and ends there."""

    def __init__(self, store: Store) -> None:
        self._store, self._cursor = store, store.cursor()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cursor, name)
        if not callable(found):
            return found

        def guarded(*arguments: Any, **named: Any) -> Any:
            try:
                answer = found(*arguments, **named)
            except Exception as error:
                if is_trouble(error):
                    _say_and_stop(str(self._store.unusable(error)))
                raise
            return self if answer is self._cursor else answer

        return guarded


def notice_ends(lab: Lab) -> list[dict[str, Any]]:
    """The open sweeps; a message says once, on whatever page a visitor is, that one has ended."""
    now = lab.keeper.once("open sweeps", lambda: open_sweeps(lab.ask))
    before = st.session_state.get("open_sweeps", {})
    st.session_state["open_sweeps"] = {sweep["sweep_id"]: sweep["name"] for sweep in now}
    for sweep_id in before.keys() - st.session_state["open_sweeps"].keys():
        st.toast(f"Ended: {safe(before[sweep_id])}", icon=":material/flag:", duration="infinite")
    return now


@st.cache_resource(show_spinner=False)
def open_keeper() -> Keeper:
    """One store and one reading thread per process, whoever comes first."""
    home = lab_home()
    store = Store.open(home)
    try:
        keeper = Keeper(store, Lookout(home))
        keeper.start()
    except BaseException as error:
        store.close()  # or this process would hold it, and tell everyone so, until it ends
        if is_trouble(error):
            raise store.unusable(error) from None
        raise
    atexit.register(_close, keeper)
    return keeper


def _close(keeper: Keeper) -> None:
    """The server ends: the file is left whole, without a log to replay."""
    keeper.stop()
    keeper.store.close()


class Lookout:
    """What goes on in the lab, for the keeper; from time to time it closes sweeps whose process died."""

    def __init__(self, home: Home) -> None:
        self._home, self._looks, self._measuring = home, 0, False
        self._seen: set[str] | None = None

    def __call__(self) -> Activity:
        closed = close_interrupted(self._home) if self._looks % CLOSE_EVERY == 0 else []
        self._looks += 1
        # A sweep that never was in the queue: imported from the command line while the app is open.
        there = set(self._home.sweep_ids())
        new = sorted(there - self._seen) if self._seen is not None else []  # the keeper's first pass is over all
        self._seen = there
        entries = queue.read_queue(self._home).entries
        measuring = any(entry.state == "measuring" for entry in entries)
        if measuring != self._measuring:
            yield_session(measuring)
            self._measuring = measuring
        return Activity([*closed, *new, *(entry.sweep_id for entry in entries)], measuring)


def _say_and_stop(sentence: str) -> NoReturn:
    st.error(sentence[0].upper() + sentence[1:] + ".")
    st.stop()
