"""Compare, whole sweeps: matched cells, one ratio each and one over all; what could not be matched is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.side_by_side import Group
from analysis.sweep_match import SweepRatio
from ui.compare_charts import VERDICTS, ratio_dots
from ui.compare_findings import (
    about_chance,
    about_sweeps,
    tell_interval,
    tell_ratio,
    tell_shift,
    tell_value,
    title_of,
)
from ui.compare_names import shorten
from ui.copying import draw_copies
from ui.figure import draw_figure, draw_rows_button
from ui.frame import safe
from ui.links import choose
from ui.picking import RUN_IDS, join_ids

MOST_DOTS = 40
MOST_PX, ROW_PX = 620, 35


def choose_base_sweep(sweeps: dict[str, str]) -> str:
    return choose("Baseline sweep", list(sweeps), "against", lambda sweep_id: sweeps[sweep_id], quiet=True) \
        or next(iter(sweeps))


def draw_sweeps(found: dict[str, SweepRatio], names: dict[str, str], base: str, metric: str, care: str,
                to_know: str) -> None:
    """`found` by the id of each sweep but the baseline; `care` is what makes the verdicts doubtful."""
    verdicts = 0
    for sweep_id, ratio in found.items():
        said = about_sweeps(ratio, names[sweep_id], names[base], metric)
        frame = pair_frame(ratio)
        verdicts += len(frame)
        aside = about_aside(ratio)
        if aside:
            st.caption(aside)
        if frame.empty:
            st.markdown(said)
        else:
            told = " · ".join(ratio.pairs[0].values)
            frame, note = drawn_pairs(frame)
            draw_figure(said, ratio_dots(frame, f"{title_of(metric).capitalize()}, times the baseline's", told), frame,
                        f"compare_sweep_{sweep_id}", f"{note}Each cell's ratio with its 95 % interval over runs.",
                        care=" ".join(filter(None, (care, aside))), to_know=to_know)
        if ratio.pairs:
            _draw_pairs(ratio, names[sweep_id], names[base], sweep_id)
        for cells, where in ((ratio.only, names[sweep_id]), (ratio.only_base, names[base])):
            if cells:
                some = "; ".join(safe(_cell(values)) for values in cells[:8])
                st.caption(f"Without a partner, only in {safe(where)}: {some}"
                           + (f" and {len(cells) - 8} more." if len(cells) > 8 else "."))
    st.caption(about_chance(verdicts))


def about_aside(ratio: SweepRatio) -> str:
    return "Left aside in matching, because the sweeps differ in it as wholes: " + ", ".join(
        safe(f"{name} ({_one(ratio, name)})") for name in ratio.aside) + "." if ratio.aside else ""


def pair_frame(ratio: SweepRatio) -> pd.DataFrame:
    return pd.DataFrame([
        {"item": " · ".join(map(str, pair.values.values())) or "the only cell", "ratio": pair.figure.ratio.value,
         "low": pair.figure.ratio.low, "high": pair.figure.ratio.high, "verdict": pair.figure.words,
         "runs": len(pair.group.runs), "noisy_runs": pair.group.noisy_runs + pair.base.noisy_runs,
         RUN_IDS: join_ids(run.run_id for run in (*pair.base.runs, *pair.group.runs))}
        for pair in ratio.pairs if pair.figure.ratio and pair.figure.words in VERDICTS],
        columns=["item", "ratio", "low", "high", "verdict", "runs", "noisy_runs", RUN_IDS])


def drawn_pairs(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Of very many the ends, and what to say about that."""
    if len(frame) <= MOST_DOTS:
        return frame, ""
    ends, each = frame.sort_values("ratio", kind="stable"), MOST_DOTS // 2
    return (pd.concat([ends.head(each), ends.tail(each)]),
            f"Drawn are the {each} lowest and the {each} highest of {len(frame):,} ratios; the table has all. ")


def _draw_pairs(ratio: SweepRatio, name: str, base: str, key: str) -> None:
    table = pd.DataFrame([{
        "Cell": _cell(pair.values), "Verdict": pair.figure.words, "Times baseline": tell_ratio(pair.figure.ratio),
        "95 % interval": tell_interval(pair.figure.ratio),
        f"Baseline: {shorten(base, 36)}": tell_value(pair.base_value, pair.figure.unit),
        shorten(name, 36): tell_value(pair.figure.value, pair.figure.unit),
        "Could have shown": tell_shift(pair.figure.shift),
        "Runs": f"{len(pair.base.runs)} and {len(pair.group.runs)}"} for pair in ratio.pairs])
    st.dataframe(table, hide_index=True, height=min(ROW_PX * (len(table) + 1) + 3, MOST_PX),
                 alt="Matched cells with ratio and verdict")
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_copies(table, f"sweep_{key}")
        draw_rows_button(table, f"compare_cells_{key}")


def _one(ratio: SweepRatio, name: str) -> str:
    groups: Sequence[Group] = [ratio.pairs[0].base, ratio.pairs[0].group] if ratio.pairs else []
    return " against ".join(str(group.first.asked.get(name)) for group in groups) or "different"


def _cell(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "the only cell"
