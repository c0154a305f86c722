"""One figure as every page shows it: its sentence, the chart, what to know about it, and ways to take it along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import streamlit as st

from ui.downloads import on_demand
from ui.moving import Moving, show
from ui.picking import HINT, can_pick, draw_chart, draw_picked
from ui.specs import make_spec

FORMULA = tuple("=+-@\t\r")
"""How a text begins that a spreadsheet would take for a formula."""
INCOMPLETE = "incomplete"
"""Where the session keeps what the page that is shown leaves out; begin() empties it."""
END_OF_CARE = "\n\n"
"""In a note, between what nobody may miss and the rest."""


class Figure(NamedTuple):
    """What draw_figure was given. The chart is made into JSON only when somebody asks for it."""

    name: str
    sentence: str
    chart: alt.TopLevelMixin | Moving | None
    """None for a table."""
    given_rows: pd.DataFrame | None
    note: str
    measured: bool = True
    """Whether its numbers come from runs of this lab; predictions and published figures do not, whatever the link
    names."""

    @property
    def rows(self) -> pd.DataFrame:
        if self.given_rows is not None:
            return self.given_rows
        assert isinstance(self.chart, Moving), "only a moving chart carries its rows itself"
        return self.chart.frame()

    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite JSON with its rows; nothing for a table."""
        if self.chart is None:
            return {}
        return self.chart.whole_spec() if isinstance(self.chart, Moving) else make_spec(self.chart)


@dataclass
class Collector:
    """Takes the figures of a page instead of a browser; the page ends with the wanted one. Tables are taken only with
    the whole page."""

    wanted: str = ""
    figures: list[Figure] = field(default_factory=list)
    trouble: str = ""
    """Why the page would show something else than was asked for."""

    def take(self, figure: Figure) -> None:
        self.figures.append(figure)
        if self.wanted == figure.name:
            st.stop()


_collector: ContextVar[Collector | None] = ContextVar("collector", default=None)


@contextmanager
def collect(collector: Collector) -> Iterator[None]:
    token = _collector.set(collector)
    try:
        yield
    finally:
        _collector.reset(token)


def say_replaced(why: str, instead: str) -> None:
    """What the link names is not here. A page says so and shows something else; a board shows nothing else."""
    if (collector := _collector.get()) is not None:
        collector.trouble = why
        st.stop()
    st.warning(f"{why} {instead}")


def say_incomplete(what: str, show: Callable[[str], Any] = st.warning) -> None:
    """The page shows less than the link names: said here, and beside every figure that is taken from it."""
    st.session_state.setdefault(INCOMPLETE, []).append(what)
    show(what)


def draw_figure(sentence: str, chart: alt.TopLevelMixin | Moving, rows: pd.DataFrame | None, name: str, note: str = "",
                about: str = "", care: str = "", to_know: str = "", measured: bool = True) -> None:
    """`name` is the key of the chart and the name of its file; `rows` is what is drawn, with units in the headings, and
    None for a moving chart, which has them itself. `about` tells a screen reader what a moving chart is. `care` is
    what the page says above and nobody may miss: it goes before the note wherever the figure is taken, and is never
    cut. `to_know` is what the page says above, too, but can be missed: it goes behind the note."""
    care = " ".join([*st.session_state.get(INCOMPLETE, []), *([care] if care else [])])
    along = f"{note} {to_know}".strip()
    figure = Figure(name, sentence, chart, rows, f"{care}{END_OF_CARE}{along}" if care else along, measured)
    if (collector := _collector.get()) is not None:
        collector.take(figure)
        return
    if sentence:
        st.markdown(sentence)
    if isinstance(chart, Moving):
        picked, pickable = show(chart, f"chart_{name}", about), chart.pickable
    else:
        picked, pickable = draw_chart(chart, rows, f"chart_{name}"), can_pick(rows)
    draw_picked(picked)
    draw_rows_button(rows, name, f"{note} {HINT}".strip() if pickable else note, figure)


def draw_rows_button(rows: pd.DataFrame | None, name: str, note: str = "", figure: Figure | None = None) -> None:
    if (collector := _collector.get()) is not None:
        if rows is not None and not collector.wanted:
            title = name.replace("_", " ")
            collector.take(Figure(name, f"{title[:1].upper()}{title[1:]}", None, rows, note))
        return
    if note:
        st.caption(note)
    with st.container(horizontal=True, vertical_alignment="center"):
        if rows is not None:
            file = f"{name}.csv"
            st.download_button("CSV", on_demand(lambda: as_csv(rows), file, "text/csv"), file, "text/csv",
                               icon=":material/download:", on_click="ignore", type="tertiary", key=f"rows_{name}",
                               help="The numbers behind the chart")
        if figure:
            st.button("More", icon=":material/more_horiz:", type="tertiary", key=f"take_{name}", on_click=take,
                      args=(figure,), help="Add it to a board; PNG, SVG, CSV, Parquet; this page as HTML")


def take(figure: Figure) -> None:
    """Asks for the dialog of this figure. The page opens it when it begins, also where the figure is in a part that is
    drawn again every second and would close it."""
    st.session_state["taking"] = figure
    st.rerun()


def as_csv(rows: pd.DataFrame) -> str:
    """Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    return str(rows.map(_harmless).rename(columns=_harmless).to_csv(index=False))


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
