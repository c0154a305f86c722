"""The parts of the SQL page: editor and link, examples, history, the schema beside, the rows as table or chart."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import pyarrow.parquet
import streamlit as st

from store.schema import ABOUT, Column
from store.sql_console import Answer
from store.sql_examples import EXAMPLES
from ui.downloads import on_demand
from ui.figure import as_csv
from ui.frame import safe
from ui.links import choose
from ui.sql_chart import draw_chart
from ui.units import seconds

IN_LINK = 4_000
"""Longer queries do not go into the link: servers in between cut such links off."""
HISTORY = 20
PANE_PX = 340
Ask = Callable[[str], Answer]


def draw_console(ask: Ask, columns: Mapping[str, Sequence[Column]]) -> None:
    take_from_link()
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.caption("Examples", width="content")
        for example in EXAMPLES:
            st.button(example.title, key=f"example_{example.title}", on_click=set_query, args=(example.sql,),
                      type="tertiary", help="Put this query into the editor and run it")
    panes = st.grid(2, min_column_width=PANE_PX, gap="medium")
    with panes.cell():
        query = draw_editor()
        history = st.container()
    with panes.cell():
        draw_schema(columns)
    if query:
        answer = answer_once(ask, query)
        if answer.problem:
            st.error(safe(answer.problem), icon=":material/block:")
        else:
            draw_answer(answer)
    with history:
        draw_history()


def take_from_link() -> None:
    """A query that the link brought is put into the editor and run, once."""
    asked = str(st.query_params.get("q", ""))[:IN_LINK]
    if asked and asked != st.session_state.get("sql_in_link"):
        st.session_state["sql_in_link"] = asked
        set_query(asked)
    st.session_state.setdefault("sql_text", EXAMPLES[0].sql)


def draw_editor() -> str:
    """Returns the query to be answered: the one that was run last, here or by opening the link."""
    with st.form("sql", border=False):
        text = st.text_area("Query", key="sql_text", height=280, label_visibility="collapsed",
                            placeholder="One statement that reads")
        submitted = st.form_submit_button("Run", type="primary", icon=":material/play_arrow:",
                                          help="Also with Ctrl+Enter")
    if submitted:
        st.session_state["sql_ran"] = (text or "").strip()
        st.session_state.pop("sql_answer", None)  # asked again: the store may have changed
    query = str(st.session_state.get("sql_ran", ""))
    if len(query) > IN_LINK:
        st.caption(f"This query has more than {IN_LINK:,} characters: the link does not hold it.")
        st.query_params.pop("q", None)
        st.session_state["sql_in_link"] = ""
    elif query and query != st.query_params.get("q"):
        st.session_state["sql_in_link"] = st.query_params["q"] = query
    return query


def set_query(sql: str) -> None:
    """Into the editor, and run: an example, a query of the history, one that a link brought."""
    st.session_state["sql_text"] = st.session_state["sql_ran"] = sql
    st.session_state.pop("sql_answer", None)


def answer_once(ask: Ask, query: str) -> Answer:
    """A page is drawn again at every click: the answer stays until a query is run."""
    kept = st.session_state.get("sql_answer")
    if kept is None or kept[0] != query:
        with st.spinner("The query runs in a process of its own …"):
            kept = (query, ask(query))
        st.session_state["sql_answer"] = kept
        history = [entry for entry in st.session_state.get("sql_history", []) if entry[0] != query]
        st.session_state["sql_history"] = [(query, kept[1].problem, kept[1].total), *history][:HISTORY]
    return kept[1]


def draw_answer(answer: Answer) -> None:
    assert answer.rows is not None and answer.as_of is not None
    frame = answer.rows.to_pandas()
    st.caption(describe(answer))
    if frame.empty:
        st.info("No row fits.")
        return
    shown = st.segmented_control("Shown as", ["Table", "Chart"], default="Table", key="as", bind="query-params",
                                 label_visibility="collapsed")
    if shown == "Chart":
        draw_chart(frame)
    else:
        st.dataframe(frame, hide_index=True, placeholder="–", alt="The rows of the answer")
    with st.container(horizontal=True):
        for label, make, file, kind in (
                ("CSV", lambda: as_csv(frame), "query.csv", "text/csv"),
                ("Parquet", lambda: as_parquet(answer), "query.parquet", "application/vnd.apache.parquet")):
            st.download_button(f"Rows as {label}", on_demand(make, file, kind), file, kind, on_click="ignore",
                               icon=":material/download:", type="tertiary", key=f"sql_{label.lower()}",
                               help="The rows that are shown")


def describe(answer: Answer) -> str:
    """How many rows there are and how many of them are here, how long it took, of which moment the answer is."""
    assert answer.rows is not None
    shown = answer.rows.num_rows
    many = f"{answer.total:,} {'row' if answer.total == 1 else 'rows'}"
    if not answer.counted:
        many = f"more than {many}, the first {shown:,} of them here; counting them all took too long"
    elif shown < answer.total:
        many += f", the first {shown:,} of them here: {answer.total - shown:,} are cut off"
    return f"{many} · {seconds(answer.seconds)} · the store as of {answer.as_of:%H:%M:%S} UTC"


def as_parquet(answer: Answer) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(answer.rows, out)
    return out.getvalue()


def draw_history() -> None:
    history = st.session_state.get("sql_history", [])
    if len(history) < 2:
        return
    with st.expander(f"Queries of this visit ({len(history)})", icon=":material/history:", key="history"):
        for number, (query, problem, total) in enumerate(history):
            line = " ".join(query.split())
            st.button(safe(line if len(line) <= 90 else line[:89] + "…"), key=f"history_{number}", type="tertiary",
                      on_click=set_query, args=(query,), help=safe(problem) if problem else f"{total:,} rows")


def draw_schema(columns: Mapping[str, Sequence[Column]]) -> None:
    tables = [table for table in ABOUT if table != "schema_version"]
    table = choose("Table", ["runs", *(name for name in tables if name != "runs")], "table", str,
                   help="Seconds and bytes throughout, moments are UTC, NULL is unknown. Deleted sweeps and runs are "
                        "in the tables until they are erased; the view deleted names them.") or "runs"
    st.caption(ABOUT[table])
    st.table(pd.DataFrame([(column.name, column.kind, column.note) for column in columns[table]],
                          columns=["Column", "Type", "Meaning"]), border="horizontal", hide_index=True,
             alt=f"Columns of {table}")
