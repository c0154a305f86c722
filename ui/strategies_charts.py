"""Charts of search strategies: time by group, speed-up with intervals, the tree of shared parts, scaling. Frames in the
units that are drawn; the sentences of ui/strategies_findings.py are from the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.strategies import ORDER, StrategyTimes
from ui.charts import PHASE_ORDER, whiskers_over_bars
from ui.colours import NEUTRAL, SERIES, phase_scale
from ui.picking import RUN_IDS, join_ids

TITLES = {"exhaustive": "exhaustive", "halving": "halving", "shared_prefix": "shared prefix",
          "shared_prefix_halving": "shared prefix + halving"}
COLOURS = {"exhaustive": SERIES[6], "halving": SERIES[1], "shared_prefix": SERIES[0],
           "shared_prefix_halving": SERIES[2]}
STORES = {"top_layers": "top layers differ", "quarter": "a quarter differs", "half": "half differs"}
GROUPS = {"load_state": "wait for weights", "data_to_device": "items to device", "inference": "inference",
          "score": "score", "plan": "plan", "unaccounted": "unaccounted"}
"""Phases of a search in the words of the page."""


def store_title(name: str) -> str:
    return STORES.get(name, name)


def group_frame(cells: Sequence[StrategyTimes]) -> pd.DataFrame:
    """One row per strategy and group; seconds are means over runs."""
    rows = [{"Strategy": TITLES.get(cell.strategy, cell.strategy), "Group": GROUPS.get(phase, phase), "phase": phase,
             "Seconds": seconds, "Whole (s)": sum(cell.phases_s.values()), "Runs": cell.runs,
             RUN_IDS: join_ids(cell.run_ids),
             "place": PHASE_ORDER.index(phase) if phase in PHASE_ORDER else len(PHASE_ORDER)}
            for cell in cells for phase, seconds in cell.phases_s.items()]
    return pd.DataFrame(rows)


def group_bars(frame: pd.DataFrame) -> alt.Chart:
    present = list(dict.fromkeys(frame.sort_values("place")["phase"]))
    colours = phase_scale(present)[1]
    names = [GROUPS.get(phase, phase) for phase in present]
    return alt.Chart(frame).mark_bar().encode(
        y=alt.Y("Strategy:N", title=None, sort=[TITLES[name] for name in ORDER], axis=alt.Axis(labelLimit=220)),
        x=alt.X("sum(Seconds):Q", title="Time of a search (s)"),
        color=alt.Color("Group:N", scale=alt.Scale(domain=names, range=colours), title=None,
                        legend=alt.Legend(orient="top", columns=3)),
        order=alt.Order("place:Q"), detail=f"{RUN_IDS}:N",
        tooltip=["Strategy:N", "Group:N", alt.Tooltip("Seconds:Q", title="This group (s)", format=",.3~f"),
                 alt.Tooltip("Whole (s):Q", format=",.3~f"), "Runs:Q"]).properties(height=alt.Step(34))


def faster_frame(cells: Sequence[StrategyTimes]) -> pd.DataFrame:
    """One row per store and strategy that has exhaustive to be compared with."""
    return pd.DataFrame([
        {"Store": store_title(cell.snapshots), "Strategy": TITLES.get(cell.strategy, cell.strategy),
         "Times faster": cell.faster.value, "Low": cell.faster.low, "High": cell.faster.high,
         "Times less work": cell.less_work, "Runs": cell.faster.runs_b, "Exhaustive runs": cell.faster.runs_a,
         "Noisy runs": cell.noisy_runs, "Shown": cell.faster.verdict, RUN_IDS: join_ids(cell.run_ids)}
        for cell in cells if cell.faster])


def faster_dots(frame: pd.DataFrame) -> alt.LayerChart:
    """A dot with its 95 % interval, and a tick at what the saved work alone would give; one row per store and
    strategy."""
    frame = frame.assign(Row=frame["Store"] + " · " + frame["Strategy"])
    colour = alt.Color("Strategy:N", title=None, legend=None,
                       scale=alt.Scale(domain=list(TITLES.values()), range=[COLOURS[name] for name in TITLES]))
    base = alt.Chart(frame).encode(y=alt.Y("Row:N", title=None, sort=list(frame["Row"]),
                                           axis=alt.Axis(labelLimit=300)))
    tips = ["Store:N", "Strategy:N", alt.Tooltip("Times faster:Q", format=".2f"), alt.Tooltip("Low:Q", format=".2f"),
            alt.Tooltip("High:Q", format=".2f"), alt.Tooltip("Times less work:Q", format=".2f"), "Runs:Q",
            "Noisy runs:Q", "Shown:N"]
    scale = alt.Scale(zero=True)
    bars = base.mark_bar(height=12).encode(x=alt.X("Times faster:Q", title="Times faster than exhaustive", scale=scale),
                                           color=colour, tooltip=tips)
    whiskers = whiskers_over_bars(base.transform_filter("isValid(datum.Low)"), x="Low:Q", x2="High:Q", tooltip=tips)
    ticks = base.mark_tick(color=NEUTRAL, thickness=2, size=20).encode(x="Times less work:Q", tooltip=tips)
    return alt.layer(bars, *whiskers, ticks).properties(height=alt.Step(26))


def tree_frame(parts: Sequence[dict[str, Any]], ranking: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Parts as rectangles: blocks from left to right, one row per model in the order of the plan; a part that several
    models share is as tall as all of them."""
    rows: dict[int, list[int]] = {}
    models: list[str] = []
    for number, part in enumerate(parts):
        for name in part["ends"]:
            at: int | None = number
            while at is not None:
                rows.setdefault(at, []).append(len(models))
                at = parts[at]["before"]
            models.append(name)
    ranks = {ranked["model"]: place for place, ranked in enumerate(ranking, 1)}
    return pd.DataFrame([
        {"First block": part["first"], "Last block": part["last"], "left": part["first"] - 1, "Models": part["models"],
         "top": min(rows[number]), "bottom": max(rows[number]) + 1,
         "Ends": ", ".join(f"{name} (rank {ranks[name]})" if name in ranks else name for name in part["ends"]),
         "best": any(ranks.get(name) == 1 for name in part["ends"])}
        for number, part in enumerate(parts) if number in rows])


def tree_rectangles(frame: pd.DataFrame) -> alt.LayerChart:
    models = int(frame["bottom"].max())
    base = alt.Chart(frame).encode(
        x=alt.X("left:Q", title="Block", scale=alt.Scale(domain=[0, int(frame["Last block"].max())], nice=False),
                axis=alt.Axis(tickMinStep=1, grid=False)), x2="Last block:Q",
        y=alt.Y("top:Q", title="Models, in the order of the plan", axis=alt.Axis(labels=False, ticks=False, grid=False),
                scale=alt.Scale(reverse=True, domain=[0, models], nice=False)), y2="bottom:Q",
        tooltip=["First block:Q", "Last block:Q", alt.Tooltip("Models:Q", title="Models that share it"),
                 alt.Tooltip("Ends:N", title="Models that end here")])
    tiles = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color("Models:Q", title="Models that share a part",
                        scale=alt.Scale(type="log", range=["#cfe3f1", "#0b4f79"], domain=[1, max(models, 2)]),
                        legend=alt.Legend(orient="top", format="d", gradientLength=160,
                                          values=sorted({1, 2, 5, 10, 20, models} & set(range(1, models + 1))))))
    best = base.transform_filter("datum.best").mark_rect(filled=False, stroke="#d55e00", strokeWidth=2)
    return alt.layer(tiles, best).properties(height=max(160, min(14 * models, 900)))


def scaling_lines(frame: pd.DataFrame, unit: str) -> alt.LayerChart:
    """Columns: Strategy, Models, `Time (unit)`, Measured."""
    strategies = [title for title in TITLES.values() if title in set(frame["Strategy"])]
    colour = alt.Color("Strategy:N", title=None, legend=alt.Legend(orient="top", columns=2), scale=alt.Scale(
        domain=strategies, range=[COLOURS[name] for name, title in TITLES.items() if title in strategies]))
    base = alt.Chart(frame).encode(
        x=alt.X("Models:Q", title="Models in the store", scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(format=",d", values=sorted(set(frame["Models"])), grid=False)),
        y=alt.Y(f"Time ({unit}):Q", title=f"Time of a search ({unit})", scale=alt.Scale(type="log"),
                axis=alt.Axis(format="~g", values=[10.0**power for power in range(-6, 9)])),
        color=colour, tooltip=["Strategy:N", alt.Tooltip("Models:Q", format=",d"),
                               alt.Tooltip(f"Time ({unit}):Q", format=",.3~g"),
                               alt.Tooltip("Block-item pairs:Q", format=",.3~g")])
    return alt.layer(base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=45)).properties(height=320)
