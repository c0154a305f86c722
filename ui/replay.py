"""The figures of a page as a link shows them, without a browser: its script is run once and its figures are collected.

A board keeps a page, a chart's name and the link, never code. Running the page itself shows what the page would show
now, for every chart of every page, with no second way to draw any of them.
"""

from __future__ import annotations

import secrets
import threading
import traceback
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import streamlit as st
from streamlit import runtime
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner_utils.exceptions import RerunException, StopException
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext, add_script_run_ctx
from streamlit.runtime.state import SafeSessionState, SessionState

from engine.home import PROJECT
from ui.figure import Collector, Figure, collect
from ui.frame import PAGES

NOT_THERE = "This chart is not on its page any more: what it showed was deleted, or has no result yet."
VIEWS = ("view", "tab", "compare")
"""What pages call their views in the link."""


class Replayed(NamedTuple):
    figures: list[Figure]
    link: dict[str, str]
    """As the page completed it: the sweeps it chose by itself are named in it."""
    views: dict[str, list[str]]
    """The page's tabs or views that live in the link: the parameter's name and every label."""
    trouble: str
    """Why there is no figure, as a sentence; nothing when there is one."""


def replay(title: str, link: Mapping[str, str], wanted: str = "") -> Replayed:
    """The figures of the page with this title; with `wanted` the page is run no further than to that one."""
    file = next((page.file for page in PAGES if page.title == title), None)
    if file is None:
        return Replayed([], dict(link), {}, "There is no such page in this lab any more.")
    collector, ended = Collector(wanted), dict[str, Any](views={})
    # A thread of its own: Streamlit's context belongs to a thread, and the caller may be in the midst of its own page.
    thread = threading.Thread(target=_run, args=(file, dict(link), collector, ended), name="replay", daemon=True)
    thread.start()
    thread.join()
    trouble = collector.trouble or ended.get("trouble", "")
    figures = [figure for figure in collector.figures if not wanted or figure.name == wanted]
    return Replayed(figures, ended.get("link", dict(link)), ended["views"], "" if figures else trouble or NOT_THERE)


def _run(file: str, link: dict[str, str], collector: Collector, ended: dict[str, Any]) -> None:
    requests, session_id = ScriptRequests(), f"replay {secrets.token_hex(8)}"

    def swallow(message: ForwardMsg) -> None:
        """Nobody looks at what the page writes, but for its views. Here Streamlit lets a script end: see st.stop."""
        if requests.on_scriptrunner_yield() is not None:
            raise StopException
        block, group = message.delta.add_block, message.delta.new_element.button_group
        if block.tab_container.query_param_key in VIEWS:
            ended["views"][block.tab_container.query_param_key] = []
        elif block.HasField("tab") and ended["views"]:
            list(ended["views"].values())[-1].append(block.tab.label)
        elif group.query_param_key in VIEWS:
            ended["views"][group.query_param_key] = [option.content for option in group.options]

    pages = _Pages(str(PROJECT / "app.py"))
    pages.set_current_page_script_hash(file)
    context = ScriptRunContext(
        session_id=session_id, _enqueue=swallow, query_string="", script_requests=requests,
        session_state=SafeSessionState(SessionState(), lambda: None),
        uploaded_file_mgr=MemoryUploadedFileManager("/replay"), main_script_path=str(PROJECT / "app.py"), user_info={},
        fragment_storage=MemoryFragmentStorage(), pages_manager=pages)
    add_script_run_ctx(threading.current_thread(), context)
    context.reset(query_string=urlencode(link), page_script_hash=file)
    context.on_script_start()
    module = types.ModuleType("__main__")
    module.__file__ = str(PROJECT / file)
    try:
        with collect(collector):
            exec(_compiled(PROJECT / file), module.__dict__)
    except (StopException, RerunException):
        pass
    except Exception:
        traceback.print_exc()  # for the server's log; a board shows the sentence
        ended["trouble"] = "The page that draws this chart failed: open it to see why."
    finally:
        ended["link"] = {name: str(st.query_params[name]) for name in st.query_params}
        if runtime.exists():  # what the page offered for download would be kept for a session that nobody has
            runtime.get_instance().media_file_mgr.clear_session_refs(session_id)
            runtime.get_instance().dataframe_source_mgr.clear_session_refs(session_id)


@cache
def _compiled(file: Path) -> types.CodeType:
    return compile(file.read_text(), str(file), "exec")


class _Pages(PagesManager):
    """The pages of the menu, each known by its file."""

    def get_pages(self) -> Any:
        return {page.file: {"page_script_hash": page.file, "page_name": page.title, "url_pathname": "",
                            "script_path": str(PROJECT / page.file)} for page in PAGES}
