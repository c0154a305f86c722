"""The parts of the Launch page: the question's card, name and repeats, what the sweep will take."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import streamlit as st
import yaml

from analysis.expectation import Expectation
from engine.registry import Broken, Experiment
from engine.spec import SweepSpec
from ui.forms import Filled
from ui.frame import PAGES, safe
from ui.units import seconds, size

ORDERS = {"random": "random", "as_listed": "as listed"}


class Cost(NamedTuple):
    """What a sweep will take, before it is launched."""

    runs: int
    cells: int
    expected: Expectation
    free_bytes: int
    cannot_run: list[str]
    """One reason per cell that cannot run here."""


def draw_question(experiments: dict[str, Experiment | Broken]) -> Experiment:
    """The questions as cards; the chosen one is in the link."""
    for name, entry in experiments.items():
        if isinstance(entry, Broken):
            st.error(f"Experiment {safe(name)} is broken: {safe(entry.error)}")
    # In the order of the pages that answer them, own ones after that.
    ranked = [name for page in PAGES for name in page.answers if name in experiments]
    working = {name: entry for name in [*ranked, *(name for name in experiments if name not in ranked)]
               if not isinstance(entry := experiments[name], Broken)}
    first = next(iter(working))
    # A form that was filled from elsewhere has set the question already.
    default = None if "experiment" in st.session_state else first
    chosen = st.segmented_control("Question", list(working), default=default, label_visibility="collapsed",
                                  key="experiment", bind="query-params", required=True)
    name = chosen if chosen in working else first
    with st.container(border=True):
        question, _, more = working[name].question.partition("\n")
        st.markdown(f"**{question}**")
        st.markdown(more)
    return working[name]


def draw_about(start: dict[str, Any], version: int) -> dict[str, Any]:
    """Name, repeats, order, notes and tags."""
    places = st.grid(3, min_column_width=220)
    name = places.text_input("Name", value=start.get("name", ""), max_chars=200, key=f"name.{version}",
                             placeholder="what you will look for tomorrow")
    repeats = places.number_input("Repeats (runs per cell)", 1, 1000, start.get("repeats", 3),
                                  key=f"repeats.{version}", help="At least 3 for a claim, 5 for a small one.")
    order = places.selectbox("Order of the runs", list(ORDERS), key=f"order.{version}",
                             format_func=lambda order: ORDERS[order],
                             index=list(ORDERS).index(start.get("order", "random")),
                             help="Random: drift of the machine does not look like an effect.")
    places = st.grid(2, min_column_width=300)
    notes = places.text_area("Notes", value=start.get("notes", ""), max_chars=20_000, height=80,
                             key=f"notes.{version}")
    tags = places.multiselect("Tags", start.get("tags", []), default=start.get("tags", []), max_selections=50,
                              accept_new_options=True, key=f"tags.{version}", placeholder="type a tag, press Enter")
    return {"name": name or "", "repeats": int(repeats or 1), "order": order, "notes": notes or "", "tags": tags}


def as_sweep(experiment: Experiment, filled: Filled, about: dict[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """The form as a sweep: several values make the grid, single ones are fixed; limits of a preset are kept."""
    grid = {name: values for name, values in filled.values.items() if len(values) > 1}
    fixed = {name: values[0] for name, values in filled.values.items() if len(values) == 1}
    if not grid:
        # A sweep has a grid: of one cell, when nothing varies.
        name = next(name for name in ("model", "seed") if name in experiment.Params.model_fields)
        grid = {name: [fixed.pop(name, experiment.Params.model_fields[name].default)]}
    kept = {name: start[name] for name in ("limits", "order_seed") if start.get(name)}
    return {"experiment": experiment.name, **about, "grid": grid, "fixed": fixed, **kept}


def draw_cost(cost: Cost) -> None:
    with st.container(horizontal=True):
        st.metric("Runs", f"{cost.runs:,}", border=True, help="Cells times repeats")
        st.metric("Cells", f"{cost.cells:,}", border=True, help="Combinations of the values given")
        st.metric("Disk space there is", size(cost.free_bytes), border=True)
    known = cost.expected
    if not known.cells_known:
        st.markdown("Expected time: **unknown, first of its kind** on this machine.")
    else:
        st.markdown(say_expected(cost))
    if cost.cannot_run:
        st.warning(f"{len(cost.cannot_run)} of {cost.cells} cells cannot run here and will be skipped:\n"
                   + "\n".join(f"- {count} × {safe(reason)}" for reason, count in
                               Counter(cost.cannot_run).most_common(8)))


def say_expected(cost: Cost) -> str:
    """A range only where earlier runs span one; how few they were is said."""
    known, can_run = cost.expected, cost.cells - len(cost.cannot_run)
    took = (f"**{seconds(known.low_s)} to {seconds(known.high_s)}**" if known.cells_repeated == known.cells_known else
            f"**about {seconds(known.high_s)}**, with no known spread" if known.low_s == known.high_s else
            f"**{seconds(known.low_s)} to {seconds(known.high_s)}**, or more: some cells were measured once only")
    judged, unknown = known.cells_known - known.exact, can_run - known.cells_known
    sentence = (f"Expected time: {took}, plus starting up, from {_count(known.runs_used, 'earlier run')} on this "
                f"machine: {known.exact:,} of {_count(can_run, 'cell')} measured before")
    if judged:
        sentence += f", {judged:,} judged by the same work with other workers or batch sizes"
    if unknown:
        sentence += (f". Not counted, because unknown: {_count(unknown, 'cell')}, the first of "
                     f"{'its' if unknown == 1 else 'their'} kind")
    return sentence + "."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def as_yaml(spec: SweepSpec) -> str:
    """What is not the default, and the repeats in any case: how often is not a thing to guess."""
    content = spec.model_dump(mode="json", exclude_defaults=True) | {"repeats": spec.repeats}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
