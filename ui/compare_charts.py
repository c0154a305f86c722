"""Charts of Compare: ratios to the baseline, phases with intervals, telemetry overlaid, one cell over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import altair as alt
import pandas as pd

from analysis.cells import UNACCOUNTED
from analysis.comparison import estimate
from analysis.over_time import Era
from analysis.side_by_side import Figure, Group, all_have_items, phase_names, phase_values
from ui.charts import phase_colour, placed, ticks_over_bars, whiskers_over_bars
from ui.colours import NEUTRAL, SERIES
from ui.compare_findings import tell_changes
from ui.compare_names import Name
from ui.picking import RUN_IDS, join_ids

VERDICTS = {"faster": "#009e73", "slower": "#d55e00", "higher": "#0f8fc9", "lower": "#8c6bb1",
            "no difference shown": NEUTRAL, "too few runs to tell": "#e69f00", "baseline": NEUTRAL}
DASHES = [[1, 0], [6, 3]]
LABELS = alt.Axis(labelLimit=230, titleAngle=0, titleAlign="right", titleAnchor="end", titleX=-6, titleY=-8)
MARGIN = 0.02
"""Of the whole time, before the first run and after the last."""
FAR = 8
"""Ratios and intervals further from 1 than this are drawn on a logarithmic axis."""
UNITS = {"s": ("s", 1.0), "bytes": ("GiB", 2.0**-30)}


def ratio_frame(figures: Sequence[Figure], names: Sequence[Name], groups: Sequence[Group]) -> pd.DataFrame:
    """One row per group with a ratio; the baseline is the line at 1."""
    return pd.DataFrame([
        {"item": names[figure.group].full, "ratio": figure.ratio.value, "low": figure.ratio.low,
         "high": figure.ratio.high, "verdict": figure.words, "value": figure.value.value if figure.value else None,
         "runs": len(groups[figure.group].runs), "noisy_runs": groups[figure.group].noisy_runs,
         RUN_IDS: join_ids(run.run_id for run in groups[figure.group].runs)}
        for figure in figures if figure.ratio],
        columns=["item", "ratio", "low", "high", "verdict", "value", "runs", "noisy_runs", RUN_IDS])


def ratio_dots(frame: pd.DataFrame, title: str, names: str = "") -> alt.LayerChart:
    """Ratios with their intervals in the order of the rows; the dashed line at 1 is the baseline. `names` are those of
    the values that the labels hold."""
    base = alt.Chart(frame).encode(y=alt.Y("item:N", title=names or None, sort=list(frame["item"]), axis=LABELS))
    ends = frame[["ratio", "low", "high"]]
    far = ends.max(axis=None) > FAR or ends.min(axis=None) < 1 / FAR
    scale = alt.Scale(type="log", nice=False, padding=12) if far else alt.Scale(zero=False, padding=12)
    verdicts = [verdict for verdict in VERDICTS if verdict in set(frame["verdict"])]
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(
        x=alt.X("ratio:Q", title=title, scale=scale, axis=alt.Axis(format="~g", labelOverlap=True, tickCount=8)),
        color=alt.Color("verdict:N", title=None, legend=alt.Legend(orient="top", columns=1),
                        scale=alt.Scale(domain=verdicts, range=[VERDICTS[verdict] for verdict in verdicts])),
        tooltip=[alt.Tooltip("item:N", title="Item"), alt.Tooltip("ratio:Q", title="Times the baseline", format=".3f"),
                 alt.Tooltip("low:Q", title="Interval from", format=".3f"),
                 alt.Tooltip("high:Q", title="Interval to", format=".3f"), alt.Tooltip("verdict:N", title="Verdict"),
                 alt.Tooltip("runs:Q", title="Runs"), alt.Tooltip("noisy_runs:Q", title="Noisy runs")])
    whiskers = base.mark_rule(strokeWidth=2, color=NEUTRAL).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
    one = alt.Chart(alt.Data(values=[{"one": 1}])).mark_rule(strokeDash=[4, 4], color=NEUTRAL).encode(
        x=alt.X("one:Q", scale=scale))
    return alt.layer(one, whiskers, dots, data=frame).properties(height=alt.Step(30))


def phase_frame(groups: Sequence[Group], names: Sequence[Name]) -> pd.DataFrame:
    """Milliseconds per item, or per run where the items are not known. Means of phases add up to the mean of the whole;
    they are scaled so that they add up to its geometric mean, which has the interval. The whole stands in every row."""
    per_item = all_have_items(groups)
    rows = []
    for group, name in zip(groups, names, strict=True):
        if not any(run.phases_s for run in group.runs):
            continue
        whole = [run.metrics["end_to_end_s"] / ((run.items or 1.0) if per_item else 1.0) for run in group.runs
                 if run.metrics.get("end_to_end_s", 0.0) > 0]
        told = estimate(whole) if whole else None
        scale = told.value / (sum(whole) / len(whole)) if told else 1.0
        for phase in (*phase_names([group]), UNACCOUNTED):
            found = phase_values(group, phase, per_item)
            if not found or not sum(found):
                continue
            spread = estimate(found) if min(found) > 0 else None
            rows.append({"item": name.full, "phase": phase, "milliseconds": sum(found) / len(found) * 1000 * scale,
                         "phase_low": _ms(spread.low if spread else None),
                         "phase_high": _ms(spread.high if spread else None),
                         "whole": _ms(told.value if told else None), "low": _ms(told.low if told else None),
                         "high": _ms(told.high if told else None), "runs": len(found),
                         RUN_IDS: join_ids(run.run_id for run in group.runs)})
    return placed(pd.DataFrame(rows, columns=["item", "phase", "milliseconds", "phase_low", "phase_high", "whole",
                                              "low", "high", "runs", RUN_IDS]))


def phase_bars(frame: pd.DataFrame, per_item: bool) -> alt.LayerChart:
    """Stacked phases; the tick is the whole, its whisker the 95 % interval over runs."""
    order = list(dict.fromkeys(frame["item"]))
    # An interval of two runs can be wider than all bars: the axis is made for the bars, and the whisker is cut there.
    most = max(frame.groupby("item")["milliseconds"].sum().max(), frame["whole"].max()) * 1.35
    base = alt.Chart(frame).encode(y=alt.Y("item:N", title=None, sort=order, axis=LABELS))
    scale = alt.Scale(domain=[0, most], nice=False)
    bars = base.mark_bar(clip=True).encode(
        x=alt.X("milliseconds:Q", stack="zero", scale=scale,
                title=f"Time per {'item' if per_item else 'run'} (ms)"),
        color=phase_colour(frame), order=alt.Order("place:Q"),
        tooltip=[alt.Tooltip("item:N", title="Item"), alt.Tooltip("phase:N", title="Phase"),
                 alt.Tooltip("milliseconds:Q", title="Mean (ms)", format=",.3~f"),
                 alt.Tooltip("phase_low:Q", title="Interval from (ms)", format=",.3~f"),
                 alt.Tooltip("phase_high:Q", title="Interval to (ms)", format=",.3~f"),
                 alt.Tooltip("whole:Q", title="End to end (ms)", format=",.3~f"), alt.Tooltip("runs:Q", title="Runs")])
    wholes = frame.drop_duplicates("item").assign(high=lambda rows: rows["high"].clip(upper=most))
    ends = alt.Chart(wholes).encode(y=alt.Y("item:N", sort=order))
    whiskers = whiskers_over_bars(ends, x=alt.X("low:Q", scale=scale), x2="high:Q")
    ticks = ticks_over_bars(ends, 16, x=alt.X("whole:Q", scale=scale))
    return alt.layer(bars, *ticks, *whiskers).properties(height=alt.Step(30))


def overlay_frame(rows: Sequence[Mapping[str, Any]], names: Mapping[str, Name], scale: float) -> pd.DataFrame:
    """Rows: run_id, time_s, value. `names` by run id."""
    return pd.DataFrame([{"time_s": row["time_s"], "value": row["value"] * scale, "letter": names[row["run_id"]].letter,
                          "item": names[row["run_id"]].full, "run_id": row["run_id"]} for row in rows],
                        columns=["time_s", "value", "letter", "item", "run_id"])


def overlay_lines(frame: pd.DataFrame, title: str) -> alt.Chart:
    """One line per group on one time axis; beyond eight a dashed one, so that colours stay apart."""
    items = sorted(set(frame["letter"]))
    colours = alt.Scale(domain=items, range=[SERIES[place % len(SERIES)] for place in range(len(items))])
    dashes = alt.Scale(domain=items, range=[DASHES[place // len(SERIES) % 2] for place in range(len(items))])
    legend = alt.Legend(orient="top", columns=12, symbolStrokeWidth=3)
    return alt.Chart(frame).mark_line(strokeWidth=2).encode(
        x=alt.X("time_s:Q", title="Seconds since the run was asked for", scale=alt.Scale(zero=True)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True)),
        color=alt.Color("letter:N", title=None, scale=colours, legend=legend),
        strokeDash=alt.StrokeDash("letter:N", title=None, scale=dashes, legend=legend),
        tooltip=[alt.Tooltip("item:N", title="Item"), alt.Tooltip("time_s:Q", title="Time (s)", format=".2f"),
                 alt.Tooltip("value:Q", title=title, format=",.3~f")]).properties(
        height=330, title=alt.TitleParams(title, fontSize=13, anchor="start"))


def era_frame(eras: Sequence[Era], factor: float) -> pd.DataFrame:
    """One row per run, with the era it belongs to."""
    rows, place = [], 0
    for number, era in enumerate(eras):
        for run, value in zip(era.runs, era.values, strict=True):
            place += 1
            rows.append({"measured": run.started_at, "place": place, "value": value * factor,
                         "era": "before any change" if number == 0 else f"after change {number}",
                         "machine": "noisy" if run.noisy else "quiet", "sweep": run.sweep, RUN_IDS: run.run_id})
    return pd.DataFrame(rows, columns=["measured", "place", "value", "era", "machine", "sweep", RUN_IDS])


def era_bands(eras: Sequence[Era], factor: float) -> pd.DataFrame:
    """One row per era: from where to where, its mean with interval, and the moment and text of its change. When the
    environment changed between two runs is not known: the line stands midway."""
    rows, place = [], 0
    whole = eras[-1].ends - eras[0].begins
    edges = [eras[0].begins - whole * MARGIN,
             *(before.ends + (after.begins - before.ends) / 2 for before, after in pairwise(eras)),
             eras[-1].ends + whole * MARGIN]
    for number, era in enumerate(eras):
        value = era.figure.value
        first, place = place + 1, place + len(era.runs)
        rows.append({"change": str(number) if number else "", "what": tell_changes(era, 6), "begins": edges[number],
                     "ends": edges[number + 1], "first": first - 0.4, "last": place + 0.4, "before": first - 0.5,
                     "mean": value.value * factor if value else None,
                     "low": value.low * factor if value and value.low is not None else None,
                     "high": value.high * factor if value and value.high is not None else None,
                     "verdict": era.figure.words or "baseline"})
    return pd.DataFrame(rows)


def era_chart(frame: pd.DataFrame, bands: pd.DataFrame, title: str, even: bool) -> alt.LayerChart:
    """Runs as dots, each era's mean with its interval, and a numbered line where the environment changed. `even` sets
    runs one after the other: weeks between two changes would press an afternoon's runs into one point."""
    kind = "Q" if even else "T"
    at, starts, stops, line = ("place", "first", "last", "before") if even else ("measured", "begins", "ends", "begins")
    axis = alt.X(f"{at}:{kind}", title="Runs, one after the other" if even else "Measured (UTC)",
                 scale=alt.Scale(domain=[0.4, len(frame) + 0.6], nice=False) if even else alt.Undefined,
                 axis=alt.Axis(values=list(range(1, len(frame) + 1, max(len(frame) // 12, 1)))) if even else
                 alt.Axis(labelOverlap=True, tickCount=8))
    spread = [value for name in ("low", "high") for value in bands[name].dropna()]
    least, most = frame["value"].min(), frame["value"].max()
    reach = (most - least) or most * 0.1
    domain = [max(min([least, *spread]), least - reach), min(max([most, *spread]), most + reach)]
    vertical = alt.Scale(domain=domain, zero=False, nice=True)
    changed = bands[bands["change"] != ""]
    area = alt.Chart(bands).mark_rect(opacity=0.18, color=SERIES[0], clip=True).encode(
        x=alt.X(f"{starts}:{kind}"), x2=f"{stops}:{kind}", y=alt.Y("low:Q", scale=vertical), y2="high:Q")
    means = alt.Chart(bands).mark_rule(color=SERIES[0], strokeWidth=3).encode(
        x=alt.X(f"{starts}:{kind}"), x2=f"{stops}:{kind}", y=alt.Y("mean:Q", scale=vertical))
    rules = alt.Chart(changed).mark_rule(color=NEUTRAL, strokeDash=[5, 4], strokeWidth=2).encode(
        x=alt.X(f"{line}:{kind}"), tooltip=[alt.Tooltip("change:N", title="Change"),
                                            alt.Tooltip("what:N", title="What"),
                                            alt.Tooltip("verdict:N", title="Then")])
    numbers = alt.Chart(changed).mark_text(fontSize=14, fontWeight="bold", color=NEUTRAL, dx=4, dy=-2, align="left",
                                           baseline="top").encode(
        x=alt.X(f"{line}:{kind}"), y=alt.value(0), text="change:N")
    machines = [state for state in ("quiet", "noisy") if state in set(frame["machine"])]
    dots = alt.Chart(frame).mark_point(filled=True, size=70, opacity=1).encode(
        x=axis, y=alt.Y("value:Q", title=title, scale=vertical),
        color=alt.Color("machine:N", title=None, legend=alt.Legend(orient="top") if "noisy" in machines else None,
                        scale=alt.Scale(domain=machines, range=[{"quiet": SERIES[0], "noisy": SERIES[1]}[state]
                                                                for state in machines])),
        tooltip=[alt.Tooltip("measured:T", title="Measured", format="%Y-%m-%d %H:%M"),
                 alt.Tooltip("value:Q", title=title, format=",.4~g"), alt.Tooltip("era:N", title="Era"),
                 alt.Tooltip("sweep:N", title="Sweep"), alt.Tooltip("machine:N", title="Machine was")])
    return alt.layer(area, means, rules, numbers, dots).properties(height=320)


def _ms(value: float | None) -> float | None:
    return None if value is None else value * 1000
