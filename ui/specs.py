"""A chart as Vega-Lite JSON with its rows inside: for what is kept, exported or drawn again elsewhere."""

from __future__ import annotations

from typing import Any

import altair as alt
from streamlit.elements import vega_charts


def make_spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Altair's settings belong to the whole process. Streamlit changes them, under its lock, while it draws a chart: in
    that moment a chart would come out without its rows."""
    with (vega_charts._altair_globals_lock, alt.theme.enable("none"),
          alt.data_transformers.enable("default", max_rows=None)):
        spec: dict[str, Any] = chart.to_dict()
    # Labels stand at their ticks, the first and the last, too.
    return {**spec, "config": {**spec.get("config", {}), "axis": {"labelFlush": False}}}
