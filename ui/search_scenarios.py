"""Model search, end to end: from how many models on does searching take longer than training? Assumptions are open."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
import streamlit as st

from analysis.scenarios import (
    MOST_MODELS,
    STUDY,
    STUDY_MODELS,
    Basis,
    Scenario,
    break_even,
    compare_with_shift,
    extrapolate,
    model_counts,
    search_share,
)
from analysis.search import SCORE_NAMES, Published, SpeedUp
from ui.colours import NEUTRAL, SERIES
from ui.figure import draw_figure
from ui.frame import safe
from ui.links import choose, choose_number
from ui.search_speedup import label
from ui.sliders import choose_amount
from ui.units import number, seconds

OWN = "Own"
EXTRACTION = "extraction"
NOTE = ("Searching grows with the number of models, training does not. The extrapolation is linear in images and "
        "epochs, for scores too. The start of process, data and model, once each, is left out.")


def draw_scenarios(pairs: Sequence[SpeedUp], published: Sequence[Published]) -> None:
    st.markdown("S1 is one training; S2 is five sets of hyper-parameters, some given up early; the study's 4 s per "
                "model are extraction without a score. Change what you do not believe: everything is in the link.")
    exact = bool(st.toggle("Exact numbers", key="exact", bind="query-params", help="Boxes instead of sliders"))
    found, care = _ask_study(*STUDY, exact), ""
    if offered := bases(pairs, published):
        own, care = _ask_own(offered, exact)
        found.append(own)
    models = round(choose_amount("Models in the store", 1, MOST_MODELS, STUDY_MODELS, "models", exact,
                                 help="Current model stores hold more than 50,000."))
    rows = share_frame(found)
    draw_figure(about_break_even(found, models), share_lines(rows, found, models), rows, "end_to_end_share", NOTE,
                care=care, measured=bool(pairs))
    st.markdown(time_table(found, models))
    with st.expander("The study's comparison with SHiFT, step by step", key="shift", on_change="rerun"):
        st.markdown(shift_table())
        st.caption("SHiFT: Renggli et al., PVLDB 16(2), 2022. Two slips of the study are corrected: a list of 101 "
                   "figures divided by 100 (17.63; the mean is 17.46), and 65 h written for 56 h.")


def bases(pairs: Sequence[SpeedUp], published: Sequence[Published]) -> dict[str, tuple[str, Basis]]:
    """What an extrapolation can start from: own pairs first, then the published ones, by an id for the link."""
    own = {pair.pair_id: (f"measured: {label(pair)}", Basis(
        pair.finetune.value, pair.extract.value, pair.items, pair.epochs, pair.scores_s, pair.first_batch_s))
        for pair in pairs}
    theirs = {f"{pair.model}-{pair.train + pair.val}": (
        f"published: {pair.model}, {pair.train + pair.val:,} images",
        Basis(pair.finetune_s, pair.extract_s, pair.train + pair.val, 10)) for pair in published}
    return {**own, **theirs}


def _ask_study(s1: Scenario, s2: Scenario, exact: bool) -> list[Scenario]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        search_s = choose_number("Search per model (s)", 0.001, 1e6, s1.search_s, "search_s", format="%g")
        return [Scenario(given.name,
                         choose_number(f"{given.name}: one training (s)", 0.001, 1e8, given.run_s,
                                       f"{given.name.lower()}_run_s", format="%g"),
                         choose_amount(f"{given.name}: trainings", 0.1, 1e4, given.runs, f"{given.name.lower()}_runs",
                                       exact), search_s) for given in (s1, s2)]


def _ask_own(offered: dict[str, tuple[str, Basis]], exact: bool) -> tuple[Scenario, str]:
    """With what to know of its basis."""
    score = ""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = choose("Own scenario, starting from", list(offered), "basis", lambda key: offered[key][0])
        basis = offered[chosen or next(iter(offered))][1]
        if basis.scores_s:
            way = choose("Searching is", [*basis.scores_s, EXTRACTION], "search", lambda name: (
                f"extraction and score ({SCORE_NAMES[name]})" if name in SCORE_NAMES else name))
            score = way if way and way != EXTRACTION else ""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        items = choose_amount("Images", 1, 1e9, basis.items, "images", exact)
        epochs = choose_amount("Epochs", 1, 1e5, basis.epochs, "epochs", exact)
        runs = choose_amount("Trainings", 0.1, 1e4, 1.0, "own_runs", exact)
    said = about_basis(basis, score)
    st.caption(said)
    return extrapolate(basis, OWN, round(items), round(epochs), runs, score), said


def about_basis(basis: Basis, score: str) -> str:
    """What is in the time of a search, and what of it does not grow as the extrapolation does."""
    said = [f"Based on {basis.items:,} images: extraction {seconds(basis.extract_s)}"
            + (f", {SCORE_NAMES[score]} {seconds(basis.scores_s[score])}." if score else ", without a score.")]
    if not basis.scores_s:
        said.append("A search is extraction and a score; this pair has extraction alone.")
    if score == "knn":
        said.append("Nearest neighbours grow with the square of the images, so more images take longer than shown.")
    if basis.first_batch_s is not None:
        said.append("Both times hold the start of the loader's workers (of the extraction "
                    f"{seconds(basis.first_batch_s)} until the first batch), which is scaled like the rest although it "
                    "does not grow: start from a measurement with more images to make it small.")
    return " ".join(said)


def share_frame(scenarios: Sequence[Scenario]) -> pd.DataFrame:
    return pd.DataFrame([{"scenario": s.name, "models": count, "search_share": search_share(s, count),
                          "search_s": count * s.search_s, "training_s": s.training_s,
                          "break_even": count == break_even(s)}
                         for s in scenarios for count in model_counts(s)])


def share_lines(rows: pd.DataFrame, scenarios: Sequence[Scenario], models: int) -> alt.LayerChart:
    names = [s.name for s in scenarios]
    colour = alt.Color("scenario:N", title="Scenario", sort=names, legend=alt.Legend(orient="top"),
                       scale=alt.Scale(domain=names, range=SERIES[: len(names)]))
    x = alt.X("models:Q", title="Models searched (logarithmic)",
              scale=alt.Scale(type="log", domain=[1, MOST_MODELS]), axis=alt.Axis(format="~s", labelOverlap=True))
    y = alt.Y("search_share:Q", title="Searching, share of the end-to-end time",
              axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    lines = alt.Chart(rows).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour, tooltip=[
        alt.Tooltip("scenario:N", title="Scenario"), alt.Tooltip("models:Q", title="Models", format=","),
        alt.Tooltip("search_share:Q", title="Searching", format=".1%"),
        alt.Tooltip("search_s:Q", title="Searching (s)", format=",.4~g"),
        alt.Tooltip("training_s:Q", title="Training (s)", format=",.4~g")])
    even = alt.Chart(pd.DataFrame([{"share": 0.5}])).mark_rule(color=NEUTRAL, strokeDash=[4, 4]).encode(y="share:Q")
    chosen = alt.Chart(pd.DataFrame([{"models": models}])).mark_rule(color=NEUTRAL).encode(x="models:Q")
    points = alt.Chart(rows[rows["break_even"]])
    marks = points.mark_point(size=90, filled=True).encode(x=x, y=y, color=colour)
    # The own one below: scenarios that are close to each other would write over each other.
    labels = [alt.Chart(rows[rows["break_even"] & (rows["scenario"] == name)]).mark_text(
        align="left" if name == OWN else "right", dx=10 if name == OWN else -9, dy=14 if name == OWN else -11,
        fontSize=13, fontWeight="bold").encode(x=x, y=y, color=colour, text=alt.Text("models:Q", format=","))
        for name in names]
    return alt.layer(even, chosen, lines, marks, *labels).properties(height=420)


def about_break_even(scenarios: Sequence[Scenario], models: int) -> str:
    each = ", ".join(f"**{break_even(s):,}** in {s.name}" for s in scenarios)
    shares = [search_share(s, models) for s in scenarios]
    least, most = f"{min(shares):.2%}", f"{max(shares):.2%}"
    spread = least if least == most else f"{least} to {most}"
    return (f"With more models than this, searching takes longer than training: {each}. With {models:,} models "
            f"searching is {spread} of the end-to-end time.")


def time_table(scenarios: Sequence[Scenario], models: int) -> str:
    lines = ["| Scenario | Training | Search per model | Break-even | " + f"Search of {models:,} models | Share |",
             "| :-- | --: | --: | --: | --: | --: |"]
    lines += [f"| {safe(s.name)} | {seconds(s.training_s)} | {seconds(s.search_s)} | {break_even(s):,} models | "
              f"{seconds(models * s.search_s)} | {search_share(s, models):.2%} |" for s in scenarios]
    return "\n".join(lines)


def shift_table() -> str:
    lines = ["| Step | How | Result | The study has | Differs because |", "| :-- | :-- | --: | :-- | :-- |"]
    for step in compare_with_shift():
        high = f" to {_figure(step.high)}" if step.high is not None else ""
        lines.append(f"| {step.what} | {step.how} | {_figure(step.low)}{high} {step.unit} | {step.study} | "
                     f"{step.differs} |")
    return "\n".join(lines)


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 50 else number(round(value, 1))
