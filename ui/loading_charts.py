"""Charts of the Data loading page: variants against their baseline, latency, and the waits of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.comparison import Ratio
from analysis.loading import LoadingRun, Payoff, Variant, latency_of, threads_of
from ui.colours import NEUTRAL, SERIES
from ui.picking import RUN_IDS, join_ids

Label = Callable[[Mapping[str, Any]], str]
"""A cell by what sets it apart."""
ONLY = "the only cell"
RATIO = ["ratio", "low", "high", "verdict"]
VERDICTS = {"higher": "#009e73", "lower": "#d55e00", "no difference shown": NEUTRAL, "too few runs to tell": "#e69f00"}
FAR = 8
"""Ratios further from 1 than this are drawn on a logarithmic axis."""
SPIKE, BETWEEN = "#d55e00", "#0f8fc9"
HEIGHT = 320


def variant_frame(variants: Iterable[Variant], label: Label) -> pd.DataFrame:
    """One row per variant with a ratio. The baseline has none: it is the line at 1."""
    return pd.DataFrame([
        {"variant": label(one.params), **_ratio_columns(one.ratio), "items_per_s": one.rate.value, "runs": one.runs,
         "noisy_runs": one.noisy_runs, RUN_IDS: join_ids(one.run_ids)} for one in variants if one.ratio],
        columns=["variant", *RATIO, "items_per_s", "runs", "noisy_runs", RUN_IDS])


def payoff_frame(payoffs: Iterable[Payoff], label: Label) -> pd.DataFrame:
    """Concurrent against serial fetch, one row per line of cells, latency and number of threads."""
    return pd.DataFrame([
        {"variant": f"{label(one.others)}, {one.threads} threads".removeprefix(f"{ONLY}, "),
         "latency_ms": one.latency_s * 1000, "threads": one.threads, **_ratio_columns(one.ratio),
         RUN_IDS: join_ids(one.run_ids)} for one in payoffs],
        columns=["variant", "latency_ms", "threads", *RATIO, RUN_IDS])


def _ratio_columns(ratio: Ratio) -> dict[str, Any]:
    return {"ratio": ratio.value, "low": ratio.low, "high": ratio.high, "verdict": ratio.verdict}


def ratio_dots(frame: pd.DataFrame, title: str) -> alt.LayerChart:
    """Ratios with their intervals, the largest on top; the dashed line at 1 is what they are compared with."""
    base = alt.Chart(frame).encode(y=alt.Y("variant:N", title=None, axis=alt.Axis(labelLimit=260),
                                           sort=alt.EncodingSortField("ratio", op="max", order="descending")))
    far = frame["ratio"].max() > FAR or frame["ratio"].min() < 1 / FAR
    most = 1.05 * float(frame[["ratio", "high"]].max().max())
    scale = alt.Scale(type="log", padding=12) if far else alt.Scale(domain=[0, max(1.05, most)], nice=False)
    verdicts = [verdict for verdict in VERDICTS if verdict in set(frame["verdict"])]
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("ratio:Q", title=title, scale=scale, axis=alt.Axis(format="~g", labelOverlap=True, tickCount=8)),
        color=alt.Color("verdict:N", title=None, legend=alt.Legend(orient="top", columns=2),
                        scale=alt.Scale(domain=verdicts, range=[VERDICTS[verdict] for verdict in verdicts])),
        tooltip=[alt.Tooltip("variant:N", title="Cell"), alt.Tooltip("ratio:Q", title="Ratio", format=".3f"),
                 alt.Tooltip("low:Q", title="Interval from", format=".3f"),
                 alt.Tooltip("high:Q", title="Interval to", format=".3f"), alt.Tooltip("verdict:N", title="It is"),
                 *([alt.Tooltip("items_per_s:Q", title="Items per second", format=",.4~g"),
                    alt.Tooltip("runs:Q", title="Runs"), alt.Tooltip("noisy_runs:Q", title="Noisy runs")]
                   if "runs" in frame else [])])
    whiskers = base.mark_rule(strokeWidth=2, color=NEUTRAL).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 4], color=NEUTRAL).encode(
        x=alt.X("one:Q", scale=scale))
    return alt.layer(one, whiskers, dots, data=frame).properties(height=alt.Step(26))


def latency_frame(variants: Iterable[Variant]) -> pd.DataFrame:
    rows = [{"latency_ms": latency_of(one.params) * 1000, "threads": threads_of(one.params),
             "items_per_s": one.rate.value, "low": one.rate.low, "high": one.rate.high, "runs": one.runs,
             RUN_IDS: join_ids(one.run_ids)} for one in variants]
    frame = pd.DataFrame(rows, columns=["latency_ms", "threads", "items_per_s", "low", "high", "runs", RUN_IDS])
    return frame.sort_values(["threads", "latency_ms"], ignore_index=True)


def latency_lines(frame: pd.DataFrame) -> alt.LayerChart:
    """Items per second against the injected latency, one line per number of threads."""
    base = alt.Chart(frame).encode(
        x=alt.X("latency_ms:Q", title="Storage latency per item (ms)", scale=alt.Scale(type="symlog", constant=1),
                axis=alt.Axis(values=sorted(set(frame["latency_ms"])), format="~g", labelOverlap=True)),
        color=alt.Color("threads:O", title="Threads that fetch", scale=alt.Scale(range=SERIES),
                        legend=alt.Legend(orient="top")))
    lines = base.mark_line(point=alt.OverlayMarkDef(size=60), strokeWidth=2).encode(
        y=alt.Y("items_per_s:Q", title="Items per second", scale=alt.Scale(zero=True)),
        tooltip=[alt.Tooltip("latency_ms:Q", title="Latency (ms)"), alt.Tooltip("threads:O", title="Threads"),
                 alt.Tooltip("items_per_s:Q", title="Items per second", format=",.4~g"),
                 alt.Tooltip("low:Q", title="Interval from", format=",.4~g"),
                 alt.Tooltip("high:Q", title="Interval to", format=",.4~g"), alt.Tooltip("runs:Q", title="Runs")])
    whiskers = base.mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    return alt.layer(whiskers, lines, data=frame).properties(height=HEIGHT)


def wait_frame(run: LoadingRun) -> pd.DataFrame:
    """The waits of the first epoch; with w workers every w-th batch begins a new turn."""
    turn = max(run.workers, 1)
    return pd.DataFrame({"batch": range(len(run.waits_s)), "wait_ms": [seconds * 1000 for seconds in run.waits_s],
                         "place": [_place(batch, turn) for batch in range(len(run.waits_s))]})


def _place(batch: int, turn: int) -> str:
    if batch == 0:
        return "first batch"
    return "begins a turn" if turn > 1 and batch % turn == 0 else "in between" if turn > 1 else "later batch"


def wait_strip(frame: pd.DataFrame, workers: int) -> alt.Chart:
    """One bar per batch. A loader that is too slow shows a spike at every turn of its workers."""
    places: Sequence[str] = ["first batch", "begins a turn", "in between", "later batch"]
    return alt.Chart(frame).mark_bar().encode(
        x=alt.X("batch:O", title="Batch", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("wait_ms:Q", title="Wait (ms)", scale=alt.Scale(zero=True)),
        color=alt.Color("place:N", title=None, scale=alt.Scale(domain=places, range=[NEUTRAL, SPIKE, BETWEEN, BETWEEN]),
                        legend=alt.Legend(orient="top", values=["first batch", "begins a turn", "in between"]
                                          if workers > 1 else ["first batch", "later batch"])),
        tooltip=[alt.Tooltip("batch:O", title="Batch"), alt.Tooltip("wait_ms:Q", title="Wait (ms)", format=",.3~f"),
                 alt.Tooltip("place:N", title="Place")]).properties(height=260)
