"""Charts whose numbers move every second: drawn once for all viewers.

Building a chart's specification costs some 25 ms, and the browser builds the picture anew when it changes. Here it is
made once per shape (phases, devices), the rows are encoded once per change, and the browser exchanges the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import pyarrow as pa
import streamlit as st

from ui.picking import can_pick, chosen_in, make_pickable
from ui.specs import make_spec

NAME = "rows"
SPECS_KEPT = 200
_specs: dict[Hashable, dict[str, Any]] = {}


class Moving(NamedTuple):
    """A specification and its rows as an Arrow stream."""

    spec: dict[str, Any]
    rows: bytes
    pickable: bool = False

    def frame(self) -> pd.DataFrame:
        with pa.ipc.open_stream(self.rows) as stream:
            frame: pd.DataFrame = stream.read_all().to_pandas()
        return frame

    def whole_spec(self) -> dict[str, Any]:
        """With the rows inside, for what is not drawn by Streamlit."""
        return {**self.spec, "datasets": {NAME: alt.to_values(self.frame())["values"]}}


def moving(draw: Callable[..., alt.Chart | alt.LayerChart], frame: pd.DataFrame, *arguments: Hashable) -> Moving:
    """What `draw(frame, *arguments)` draws, ready to be shown any number of times."""
    pickable = can_pick(frame)
    shape = (draw.__name__, arguments, pickable, *(tuple(dict.fromkeys(frame[name])) for name in ("phase", "device")
                                         if name in frame))
    spec = _specs.get(shape)
    if spec is None:
        if len(_specs) >= SPECS_KEPT:
            _specs.clear()
        chart = draw(frame, *arguments)
        spec = _specs[shape] = _without_rows(make_spec(make_pickable(chart) if pickable else chart))
    return Moving(spec, _encode(frame), pickable)


def show(chart: Moving, key: str, alt: str) -> list[str]:
    """Draws it; returns what is chosen in it, one text of run ids per mark."""
    spec = {**chart.spec, "datasets": {NAME: chart.rows}}
    if not chart.pickable:
        st.vega_lite_chart(spec, width="stretch", key=key, alt=alt)
        return []
    event = st.vega_lite_chart(spec, width="stretch", key=key, alt=alt, on_select="rerun")
    return chosen_in(event, chart.frame())


def _without_rows(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification with a named place for the rows; small tables inside it (rules, bands) stay."""
    own = spec["data"]["name"]
    assert set(spec.pop("datasets")) == {own}, "a moving chart has one table of rows"
    for layer in spec.get("layer", []):
        if layer.get("data") == {"name": own}:
            del layer["data"]  # the layer has it from the whole
    return {**spec, "data": {"name": NAME}}


def _encode(frame: pd.DataFrame) -> bytes:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())
