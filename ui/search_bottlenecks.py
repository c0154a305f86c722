"""Model search, bottlenecks: where a search spends its time, for whole, partial, joint and separate models."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
import streamlit as st

from analysis.bottlenecks import GROUPS, PARTS, Bar, joint_gains
from analysis.comparison import estimate
from ui.charts import whiskers_over_bars
from ui.colours import phase_scale
from ui.figure import draw_figure
from ui.findings import about_overlap
from ui.frame import safe
from ui.links import choose, choose_many
from ui.picking import RUN_IDS, join_ids
from ui.search_speedup import WIDEST
from ui.units import seconds

CHARTS_SHOWN = 8
NOTE = ("Means over runs, because means of groups add up. Preparing a model is building it, loading its state and "
        "moving it to the device. A part runs on one batch of activations from memory: it has no data to load. "
        "Whiskers: 95 % interval of the whole over runs, by the clock.")


def draw_bottlenecks(found: Sequence[Bar]) -> None:
    chosen = _one_setting(found)
    places = {f"{bar.model}-{bar.items}": f"{bar.model}, {bar.items:,} items" for bar in chosen}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shown = choose_many("Model and items", list(places), "of", lambda key: places[key],
                            list(places)[:CHARTS_SHOWN])
        normalised = st.toggle("Normalised", key="normalised", bind="query-params", help="Shares instead of seconds")
    for key in shown[:CHARTS_SHOWN]:
        bars = [bar for bar in chosen if f"{bar.model}-{bar.items}" == key]
        rows = bar_frame(bars)
        st.subheader(safe(places[key]), divider=False)
        chart = stacked_bars(rows, bool(normalised))
        draw_figure(about_bars(bars), chart if normalised else with_intervals(chart, bars), rows, f"bottleneck_{key}",
                    NOTE)
        st.caption(about_loading(bars))
    if len(shown) > CHARTS_SHOWN:
        st.caption(f"{len(shown) - CHARTS_SHOWN} more are chosen; {CHARTS_SHOWN} are drawn at a time.")


def _one_setting(found: Sequence[Bar]) -> list[Bar]:
    """Bars that may stand side by side; where the sweeps hold several settings, one is chosen."""
    settings = {bar.setting_id: bar.setting for bar in found}
    if len(settings) == 1:
        return list(found)
    chosen = choose("Setting", list(settings), "setting", lambda key: settings[key][:160] or "as the defaults")
    st.caption(f"These sweeps hold {len(settings)} settings whose times cannot be put side by side: choose one.")
    return [bar for bar in found if bar.setting_id == (chosen or next(iter(settings)))]


def bar_frame(bars: Sequence[Bar]) -> pd.DataFrame:
    return pd.DataFrame([{"form": _label(bar), "group": group, "seconds": bar.groups_s[group],
                          "share": bar.share(group), "order": GROUPS.index(group), "runs": bar.runs,
                          "noisy_runs": bar.noisy_runs, "what_runs": bar.what_runs,
                          RUN_IDS: join_ids(bar.run_ids)}
                         for bar in bars for group in GROUPS if bar.groups_s[group] > 0])


def _label(bar: Bar) -> str:
    return bar.label + (" (noisy)" if bar.noisy_runs else "")


def interval_frame(bars: Sequence[Bar]) -> pd.DataFrame:
    """The whole of each bar with its interval over runs, where there are several."""
    whole = {_label(bar): estimate(bar.totals_s) for bar in bars if bar.runs > 1}
    return pd.DataFrame([{"form": form, "low": found.low, "high": found.high} for form, found in whole.items()],
                        columns=["form", "low", "high"])


def with_intervals(chart: alt.Chart, bars: Sequence[Bar]) -> alt.LayerChart:
    end = WIDEST * max(bar.groups_total_s for bar in bars)
    rows = interval_frame(bars)
    rows["high"] = rows["high"].clip(upper=end)
    whiskers = whiskers_over_bars(alt.Chart(rows), x=alt.X("low:Q"), x2="high:Q",
                                  y=alt.Y("form:N", sort=[_label(bar) for bar in bars]))
    return alt.layer(chart, *whiskers)


def stacked_bars(rows: pd.DataFrame, normalised: bool) -> alt.Chart:
    groups = [group for group in GROUPS if group in set(rows["group"])]
    domain, colours = phase_scale(groups)
    value = alt.X("share:Q", title="Share of the time", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])) \
        if normalised else alt.X("seconds:Q", title="Time (s)", scale=alt.Scale(zero=True))
    return alt.Chart(rows).mark_bar().encode(
        x=value,
        y=alt.Y("form:N", title=None, sort=list(dict.fromkeys(rows["form"])), axis=alt.Axis(labelLimit=260)),
        color=alt.Color("group:N", title=None, sort=groups, scale=alt.Scale(domain=domain, range=colours),
                        legend=alt.Legend(orient="top")),
        order=alt.Order("order:Q"),
        tooltip=[alt.Tooltip("form:N", title="Model"), alt.Tooltip("what_runs:N", title="Runs blocks"),
                 alt.Tooltip("group:N", title="Group"), alt.Tooltip("seconds:Q", title="Seconds", format=",.4~g"),
                 alt.Tooltip("share:Q", title="Share", format=".1%"), alt.Tooltip("runs:Q", title="Runs"),
                 alt.Tooltip("noisy_runs:Q", title="of them noisy")]).properties(height=alt.Step(30))


def about_bars(bars: Sequence[Bar]) -> str:
    """What takes most of the whole model's time, of the smallest part's, and what joining gains."""
    said = []
    for bar in _ends(bars):
        group = max(GROUPS, key=lambda group: bar.groups_s[group])
        said.append(f"{safe(bar.label).capitalize()}: **{group}** takes most, {bar.share(group):.0%} of "
                    f"{seconds(bar.groups_total_s)}.")
    said += filter(None, (about_overlap(safe(bar.label).capitalize(), bar.groups_total_s, bar.overlap_s)
                          for bar in bars))
    for gain in joint_gains(bars):
        part = f"{gain.models} models that differ in their {PARTS[gain.part]}"
        low, high = gain.ratio.low, gain.ratio.high
        if low is None or high is None:
            said.append(f"{part}: separately {gain.ratio.value:.2f} times as long as jointly, too few runs to tell.")
        elif gain.ratio.verdict == "no difference shown":
            said.append(f"{part}: no difference shown between jointly and separately ({low:.2f} to {high:.2f} times).")
        else:
            said.append(f"{part}: separately **{gain.ratio.value:.2f} times** as long as jointly ({low:.2f} to "
                        f"{high:.2f}{gain.ratio.caution}).")
    return " ".join(said)


def _ends(bars: Sequence[Bar]) -> list[Bar]:
    single = [bar for bar in bars if bar.arrangement == "one"] or list(bars)
    return [single[0]] if len(single) == 1 else [single[0], single[-1]]


def about_loading(bars: Sequence[Bar]) -> str:
    """Measured and computed load times are two figures: never one in place of the other."""
    bar = bars[0]
    if bar.measured_load_s is None or bar.computed_load_s is None:
        return ""
    cached = "of unknown presence in the file cache" if bar.cached_share is None else \
        f"{bar.cached_share:.0%} of it in the file cache"
    return (f"Loading the state ({safe(bar.label)}): measured {seconds(bar.measured_load_s)}, with {cached} before; "
            f"computed from its size and the assumed bandwidth {seconds(bar.computed_load_s)}. The bars show the "
            "measured one.")
