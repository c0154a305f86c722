"""SQL: ask the store anything; read only, in a process of its own, with limits."""

import streamlit as st

from begin import begin
from store.browse import sweeps_frame
from store.keeper import Keeper
from store.schema import list_columns
from store.sql_console import LIMIT_S, ROWS_SHOWN, Answer, Console
from ui.frame import empty_state
from ui.sql_page import draw_console

lab = begin("SQL")


@st.cache_resource(show_spinner=False)
def open_console(_keeper: Keeper) -> Console:
    """One for all visitors."""
    return Console(_keeper)


def ask(sql: str) -> Answer:
    if lab.viewer and lab.keeper.measuring:
        return Answer("A run is being measured, and viewers change nothing, not even its noise; ask when it has ended.")
    return open_console(lab.keeper).ask(sql)


st.markdown(f"Read-only queries over a copy of the store: at most {LIMIT_S:g} seconds and {ROWS_SHOWN:,} rows, no "
            "files, no network. The query is in the link, and opening the link runs it.")
if lab.keeper.measuring and not lab.viewer:
    st.caption(":material/warning: A run is being measured: a query keeps a core busy and may mark the run as noisy.")
if not lab.keeper.once("any sweep", lambda: sweeps_frame(lab.ask, 1).shape[0]):
    empty_state("Nothing has been measured yet. The published figures of the earlier studies can be asked for.",
                "Launch a sweep", "pages/Launch.py")
draw_console(ask, lab.keeper.once("columns", lambda: list_columns(lab.ask), version=1))
