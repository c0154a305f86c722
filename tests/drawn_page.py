"""Pages drawn by Streamlit's AppTest in this process, on the lab that the environment names."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from engine.home import PROJECT
from ui.frame import PAGES
from ui.replay import Replayed, replay

# Every AppTest reads the metadata of all installed packages anew, which takes as long as drawing a page.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)


def draw(page: str, project: Path = PROJECT, **query: str) -> AppTest:
    """A page as its first visitor gets it; an exception on it fails the test."""
    test = AppTest.from_file(str(project / "app.py"), default_timeout=120)
    for name, value in query.items():
        test.query_params[name] = value
    if page != "app.py":
        test.switch_page(page)
    return no_exception(test.run())


def no_exception(page: AppTest) -> AppTest:
    assert not page.exception, [error.message for error in page.exception]
    return page


def assert_replayed(title: str, **query: str) -> Replayed:
    """What boards and exports show of a page is what the page itself draws: the same charts of the same rows."""
    page = draw(next(page.file for page in PAGES if page.title == title), **query)
    replayed = replay(title, query)
    assert not replayed.trouble
    drawn = [part.proto for part in page.get("vega_lite_chart")]
    assert drawn, "no chart"
    said = [part.value for part in page.markdown]
    for chart, figure in zip(drawn, (figure for figure in replayed.figures if figure.chart is not None), strict=True):
        spec = figure.spec()
        assert shape_of(json.loads(chart.spec)) == shape_of(spec), figure.name
        sent = [pa.ipc.open_stream(table.data.data).read_all().to_pandas() for table in chart.datasets]
        assert sorted(map(rows_of, sent)) == sorted(rows_of(pd.DataFrame(rows)) for rows in spec["datasets"].values())
        assert not figure.sentence or figure.sentence in said
    return replayed


def shape_of(spec: Any) -> Any:
    """A specification without its rows, what Streamlit adds to it, and what lets marks be clicked."""
    if isinstance(spec, dict):
        return {name: shape_of(part) for name, part in spec.items() if name not in (
            "data", "datasets", "config", "autosize", "padding", "$schema", "usermeta", "width", "params")
            and not (name == "opacity" and isinstance(part, dict) and "condition" in part)
            and not (name == "name" and str(part).startswith("view_"))}
    if isinstance(spec, list):
        return [shape_of(part) for part in spec]
    return spec if spec is not None else " "  # Streamlit's word for an axis or legend without a title


def rows_of(frame: pd.DataFrame) -> str:
    return str(frame.to_json(orient="records", double_precision=10, date_format="iso"))
