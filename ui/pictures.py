"""A chart's specification fitted to where it is shown: on a slide, in a file of its own, as PNG or SVG."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

DARK = {"text": "#e4e9ee", "lines": "#35414d", "background": "#12181f"}
LIGHT = {"text": "#1c2733", "lines": "#d5dce3", "background": "#ffffff"}
FONT = "Source Sans Pro, Noto Sans, DejaVu Sans, sans-serif"
FILE_WIDTH, FILE_SCALE = 860, 2.0
SLIDE_LETTERS, LABEL_LETTERS, LABEL_PX = 20, 18, 440
"""Pixels: the size of letters and of an axis' labels on a slide of 1280 x 720, and the longest label."""
ROWS_WITH_ROOM, MOST_ROWS, SMALLEST_LETTERS = 9, 20, 13
"""Of a chart with a name for each row: so many have room for large letters, so many for the smallest."""


def for_slide(spec: dict[str, Any], height: int, colours: dict[str, str]) -> dict[str, Any]:
    """One size for all that is read, and a height that leaves no need to scroll."""
    spec = copy.deepcopy({name: part for name, part in spec.items() if name not in ("datasets", "width")}) | {
        "datasets": spec.get("datasets", {}), "height": height}
    rows = _count_rows(spec)
    _enlarge(spec, ticks=rows <= ROWS_WITH_ROOM)
    size = LABEL_LETTERS if rows <= ROWS_WITH_ROOM else SMALLEST_LETTERS
    letters = {"labelFontSize": size, "titleFontSize": SLIDE_LETTERS, "labelColor": colours["text"],
               "titleColor": colours["text"], "labelLimit": LABEL_PX}
    config = spec.setdefault("config", {})
    config["axis"] = {**config.get("axis", {}), **letters, "titlePadding": 12, "labelOverlap": "greedy"}
    config["axisQuantitative"] = {"tickCount": 8}
    if rows:  # every bar has its name, as long as letters that can be read find room
        config["axisY"] = {"labelOverlap": False if rows <= MOST_ROWS else "greedy"}
    config["legend"] = {**config.get("legend", {}), **letters, "symbolSize": 260, "orient": "top", "columnPadding": 24}
    config["title"] = {"fontSize": SLIDE_LETTERS, "color": colours["text"]}
    return spec


def theme(colours: dict[str, str]) -> dict[str, Any]:
    """Vega-Lite's config for where Streamlit's theme is not: letters, lines and background."""
    letters = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": colours["text"], "titleColor": colours["text"],
               "labelFont": FONT, "titleFont": FONT}
    lines = {f"{part}Color": colours["lines"] for part in ("grid", "domain", "tick")}
    return {"axis": {**letters, **lines, "titleFontWeight": "normal", "labelLimit": 300},
            "legend": {**letters, "titleFontWeight": "normal", "labelLimit": 400}, "view": {"stroke": None},
            "title": {"color": colours["text"], "font": FONT}, "text": {"font": FONT},
            "background": colours["background"]}


def as_svg(spec: dict[str, Any]) -> str:
    """The converter is loaded, some 30 MB with its JavaScript engine, only when somebody asks for a picture."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_for_file(spec), vl_version=VEGA_LITE, config=theme(LIGHT),
                                          allowed_base_urls=[]))


def as_png(spec: dict[str, Any]) -> bytes:
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_for_file(spec), vl_version=VEGA_LITE, config=theme(LIGHT),
                                            scale=FILE_SCALE, allowed_base_urls=[]))


VEGA_LITE = "6.4"
"""What altair writes (alt.SCHEMA_VERSION) and what the converter draws must be the same; a test compares them."""


@cache
def javascript() -> str:
    """Vega, Vega-Lite and vega-embed as one script that puts `vegaEmbed` on the window. Takes seconds, once."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE))


def _for_file(spec: dict[str, Any]) -> dict[str, Any]:
    return {"width": FILE_WIDTH, **spec, "autosize": {"type": "fit-x", "contains": "padding"}, "padding": 12}


def _count_rows(spec: dict[str, Any]) -> int:
    """How many names stand along the upright axis; none where it is one of numbers."""
    charts = [spec, *spec.get("layer", [])]
    fields = [y["field"] for chart in charts if (y := chart.get("encoding", {}).get("y", {})).get("type") in (
        "nominal", "ordinal") and "field" in y]
    tables = [rows for rows in spec["datasets"].values() if isinstance(rows, list)]
    return max((len({row.get(name) for row in rows}) for name in fields for rows in tables), default=0)


def _enlarge(part: Any, ticks: bool) -> None:
    """What a chart sets itself: letters, the room for labels, the size of points and the width of lines. `ticks`: also
    the length of ticks, which would reach into other rows where there are many."""
    if isinstance(part, list):
        for inner in part:
            _enlarge(inner, ticks)
    if not isinstance(part, dict):
        return
    for name, value in part.items():
        if name in ("labelFontSize", "titleFontSize", "fontSize"):
            part[name] = SLIDE_LETTERS
        elif name in ("labelLimit", "maxExtent"):
            part[name] = LABEL_PX
        elif name == "tickCount":
            part[name] = 8
        elif name == "columns":
            part[name] = 4
        elif name == "mark":
            mark: dict[str, Any] = {"type": value} if isinstance(value, str) else dict(value)
            if mark["type"] == "text":
                mark["fontSize"] = SLIDE_LETTERS
            for size, factor in (("size", 2), ("strokeWidth", 1.6)):
                if isinstance(mark.get(size), int | float) and (ticks or mark["type"] != "tick"):
                    mark[size] *= factor
            part[name] = mark
        elif name not in ("datasets", "data"):
            _enlarge(value, ticks)
