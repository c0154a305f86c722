"""Compare, side by side: verdicts, metrics, phases, what differs, telemetry; each drawn from groups of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.side_by_side import (
    FIRST,
    Difference,
    Figure,
    Group,
    all_have_items,
    compare_figures,
    compare_values,
    phase_names,
    phase_values,
    unit_of,
)
from ui.charts import READINGS
from ui.compare_charts import overlay_frame, overlay_lines, phase_bars, phase_frame, ratio_dots, ratio_frame
from ui.compare_findings import (
    about_chance,
    about_figures,
    about_shift,
    tell_interval,
    tell_ratio,
    tell_shift,
    tell_value,
    title_of,
)
from ui.compare_names import Name
from ui.copying import draw_copies
from ui.figure import draw_figure, draw_rows_button
from ui.frame import safe
from ui.links import choose
from ui.units import size

MOST_PX = 620
ROW_PX = 35
Units = Mapping[str, str | None]


def draw_verdict(groups: Sequence[Group], names: Sequence[Name], baseline: int, metric: str, units: Units,
                 care: str, to_know: str) -> None:
    """One metric of all groups against the baseline: the page's answer. `care` is what makes it doubtful."""
    figures = compare_figures(groups, baseline, metric, unit_of(metric, units))
    said = f"{about_figures(figures, names, baseline)}\n\n{about_shift(figures, names)}".strip()
    frame = ratio_frame(figures, names, groups)
    if frame.empty:
        st.markdown(said)
    else:
        title = f"{title_of(metric).capitalize()}, times the baseline {names[baseline].letter}"
        draw_figure(said, ratio_dots(frame, title), frame, "compare_ratios",
                    "Ratio of geometric means over runs, 95 % interval by Welch's t on logarithms.", care=care,
                    to_know=to_know)


def draw_metrics(groups: Sequence[Group], names: Sequence[Name], baseline: int, metrics: Sequence[str],
                 units: Units) -> None:
    st.subheader("Metrics")
    everything = st.toggle("All metrics", key="all_metrics", bind="query-params")
    main = [metric for metric in metrics if metric in FIRST] or list(metrics[:6])
    figures = [figure for metric in (metrics if everything else main)
               for figure in compare_figures(groups, baseline, metric, unit_of(metric, units))]
    _draw_figures(figures, groups, names, title_of, "compare_metrics", "Metric")
    st.caption(about_chance(sum(bool(figure.ratio and figure.ratio.low is not None) for figure in figures)))


def _draw_figures(figures: Sequence[Figure], groups: Sequence[Group], names: Sequence[Name],
                  title: Callable[[str], str], key: str, heading: str) -> None:
    """Figures as a table to read, to copy and to take away in plain numbers."""
    table = pd.DataFrame([{
        heading: title(figure.metric), "Item": names[figure.group].full, "Verdict": figure.words or "baseline",
        "Times baseline": "1" if figure.words is None else tell_ratio(figure.ratio),
        "95 % interval": tell_interval(figure.ratio), "Value [95 % interval]": tell_value(figure.value, figure.unit),
        "Could have shown": tell_shift(figure.shift),
        "Runs": str(figure.value.runs if figure.value else 0)} for figure in figures])
    st.dataframe(table, hide_index=True, height=min(ROW_PX * (len(table) + 1) + 3, MOST_PX),
                 alt=f"{heading} of every item against the baseline's",
                 column_config={"Item": st.column_config.TextColumn(width=220)})
    numbers = pd.DataFrame([{
        heading.lower(): figure.metric, "unit": figure.unit, "item": names[figure.group].full,
        "value": figure.value.value if figure.value else None, "low": figure.value.low if figure.value else None,
        "high": figure.value.high if figure.value else None, "ratio": figure.ratio.value if figure.ratio else None,
        "ratio_low": figure.ratio.low if figure.ratio else None,
        "ratio_high": figure.ratio.high if figure.ratio else None, "verdict": figure.words or "baseline",
        "could_have_shown_ratio": figure.shift,
        "runs": figure.value.runs if figure.value else 0} for figure in figures])
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_copies(table, key)
        draw_rows_button(numbers, key)


def draw_phases(groups: Sequence[Group], names: Sequence[Name], baseline: int) -> None:
    st.subheader("Phases")
    frame = phase_frame(groups, names)
    if frame.empty:
        st.info("None of these runs has phases.")
        return
    per_item = all_have_items(groups)
    draw_figure(about_phases(frame, per_item), phase_bars(frame, per_item), frame.drop(columns="place"),
                "compare_phases", "Tick and whisker: end to end, geometric mean over runs with its 95 % interval. "
                "Phases share it as they share the time of all runs; on a GPU they can overlap, and then exceed the "
                "tick.")
    base = groups[baseline]
    figures = [compare_values(phase, "s", place, phase_values(group, phase, per_item),
                              None if place == baseline else phase_values(base, phase, per_item))
               for phase in phase_names(groups) for place, group in enumerate(groups)]
    with st.expander(f"Every phase with its interval and verdict, per {'item' if per_item else 'run'}"):
        _draw_figures([figure if figure.words not in ("higher", "lower") else figure._replace(
            words="slower" if figure.words == "higher" else "faster") for figure in figures], groups, names, str,
            "compare_phase_verdicts", "Phase")


def about_phases(frame: pd.DataFrame, per_item: bool) -> str:
    """Which phase differs most between the longest and the shortest. The time is the one end to end: phases can
    overlap, and only where it is not known their sum stands for it."""
    items = frame.groupby("item", sort=False)
    whole = items["whole"].first().astype(float).fillna(items["milliseconds"].sum())
    each = "item" if per_item else "run"
    if len(whole) < 2:
        largest = frame.loc[frame["milliseconds"].idxmax()]
        return f"**{safe(largest['phase'])}** takes {largest['milliseconds'] / whole.iloc[0]:.0%} of the time."
    low, high = str(whole.idxmin()), str(whole.idxmax())
    parts = {item: frame[frame["item"] == item].set_index("phase")["milliseconds"] for item in (low, high)}
    apart = parts[high].sub(parts[low], fill_value=0)
    most = str(apart.abs().idxmax())
    return (f"The longest is **{high[0]}** with {whole[high]:,.3g} ms per {each}, the shortest **{low[0]}** with "
            f"{whole[low]:,.3g} ms; the phase that differs most is **{safe(most)}**, {apart[most]:+,.3g} ms.")


def draw_differences(parameters: Sequence[Difference], environments: Sequence[Difference],
                     names: Sequence[Name]) -> None:
    st.subheader("Parameters and environments")
    only = st.toggle("Only the differences", value=True, key="differences", bind="query-params")
    for title, rows, same in (("Parameter", parameters, "All parameters are the same."),
                              ("Environment", environments, "The environments are the same.")):
        shown = [row for row in rows if row.differs or not only]
        if not shown:
            st.caption(same if rows else f"{title}: nothing is known.")
            continue
        table = pd.DataFrame([{title: row.name.replace("_", " ") if title == "Environment" else row.name,
                               **{name.letter: _told(row.name, value)
                                  for name, value in zip(names, row.values, strict=True)},
                               **({} if only else {"Differs": "differs" if row.differs else ""})} for row in shown])
        st.dataframe(table, hide_index=True, height=min(ROW_PX * (len(table) + 1) + 3, MOST_PX),
                     alt=f"{title} by item")
        with st.container(horizontal=True, vertical_alignment="center"):
            draw_copies(table, f"compare_{title}")
            draw_rows_button(table, f"compare_{title.lower()}s")


def _told(name: str, value: str) -> str:
    """A fact as people read it: sizes in GiB, commits by their beginning."""
    if name.endswith("_bytes") and value.isdigit():
        return size(float(value))
    return value[:12] if name == "git_commit" else value


def draw_telemetry(groups: Sequence[Group], names: Sequence[Name], readings: Sequence[tuple[str, str]],
                   ask: Callable[[list[str], str, str], list[dict[str, Any]]]) -> None:
    """`ask` gives the samples of these runs by device and metric."""
    st.subheader("Telemetry")
    options = {f"{device}:{metric}": (device, metric) for metric in READINGS for device, found in readings
               if found == metric}
    if not options:
        st.info("None of these runs was sampled more than once: they were short, or imported.")
        return
    devices = {device for device, _ in options.values()}
    chosen = choose("Reading", list(options), "reading", quiet=True, show=lambda key: READINGS[options[key][1]][0] + (
        f", {options[key][0]}" if len(devices) > 1 else ""))
    device, metric = options[chosen or next(iter(options))]
    title, scale = READINGS[metric]
    middles = {group.middle().run_id: name for group, name in zip(groups, names, strict=True)}
    frame = overlay_frame(ask(list(middles), device, metric), middles, scale)
    if frame.empty:
        st.info("These runs have no such reading.")
        return
    draw_figure(about_reading(frame, title), overlay_lines(frame, title), frame.drop(columns="letter"),
                "compare_telemetry", "One run stands for each item: the middle one by its time. It describes that "
                "run and compares nothing.")


def about_reading(frame: pd.DataFrame, title: str) -> str:
    """`title` is the reading's name with its unit in brackets."""
    means = frame.groupby("letter", sort=False)["value"].mean()
    name, _, unit = title.removesuffix(")").rpartition(" (")
    if len(means) == 1:
        return f"{name}: **{means.index[0]}** has a mean of {means.iloc[0]:,.3g} {unit}."
    return (f"{name}: **{means.idxmax()}** has the highest mean, {means.max():,.3g} {unit}; **{means.idxmin()}** the "
            f"lowest, {means.min():,.3g} {unit}.")
