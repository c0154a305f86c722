"""Memory: what a training step holds, what needing less costs, depth, predicted and measured, the largest batch."""

import streamlit as st

from analysis.memory import group_cells
from begin import begin
from predicting import predict_batches
from store.max_batch import list_limits, published_limits
from store.memory import (
    memory_runs,
    memory_sweeps,
    other_endings,
    published_peaks,
    published_revnets,
    step_moments,
)
from ui.frame import empty_state
from ui.links import choose_many
from ui.max_batch_view import draw_max_batch
from ui.memory_page import (
    choose_setting,
    draw_depth,
    draw_errors,
    draw_findings,
    draw_published,
    draw_step,
    draw_tradeoff,
)

lab = begin("Memory")
asked = tuple(str(st.query_params.get("sweeps", ""))[:2000].split(","))
sweeps = lab.keeper.once(("memory sweeps", asked), lambda: memory_sweeps(lab.ask, asked))
published = lab.keeper.once("published revnets", lambda: published_revnets(lab.ask))
names = {row["sweep_id"]: f"{row['name'] or row['sweep_id']} · {row['created_at']:%Y-%m-%d %H:%M}" for row in sweeps}
newest = next((row["sweep_id"] for row in sweeps if row["ok"]), next(iter(names), ""))
chosen = choose_many("Sweeps", list(names), "sweeps", lambda sweep_id: names[sweep_id], [newest]) if names else []
runs = lab.keeper.once(("memory runs", *chosen), lambda: memory_runs(lab.ask, chosen))
others = lab.keeper.once(("memory endings", *chosen), lambda: other_endings(lab.ask, chosen))
if others:
    st.caption(f"Not shown here: {', '.join(f'{count} {status}' for status, count in others.items())}. They are on the "
               "Runs page.")
cells = []
if runs:
    setting = choose_setting(runs)
    cells = group_cells(run for run in runs if run.setting == setting)
    draw_findings(cells)


def invite() -> None:
    sentence = ("No training step's memory has been measured yet." if not sweeps else
                "No run of these sweeps has a peak yet: they have not finished, or they failed." if chosen else
                "Choose a sweep, or launch one.")
    empty_state(sentence, "Launch the small RevNets and ResNets: under a minute", "pages/Launch.py",
                query={"preset": "seed-003-memory-small"})
    draw_published([], published)


def moments_of(run_id: str) -> list[dict[str, object]]:
    return lab.keeper.once(("step moments", run_id), lambda: step_moments(lab.ask, run_id))


def draw_largest() -> None:
    st.subheader("Measured")
    limits = lab.keeper.once("batch limits", lambda: list_limits(lab.ask))
    if limits:
        draw_max_batch(limits, lab.keeper.once("published limits", lambda: published_limits(lab.ask)))
    else:
        empty_state("No largest batch has been searched for yet.", "Launch the small search", "pages/Launch.py",
                    query={"preset": "seed-001-max-batch-small"})
    st.subheader("Predicted")
    predict_batches(lab)


def draw_times() -> None:
    draw_tradeoff(cells, lab.keeper.once("published peaks", lambda: published_peaks(lab.ask)))


parts = {"One step": lambda: draw_step(cells, moments_of), "Depth": lambda: draw_depth(cells, published),
         "Memory against time": draw_times, "Predicted and measured": lambda: draw_errors(cells)}
drawn = {**{title: draw if cells else invite for title, draw in parts.items()}, "Largest batch": draw_largest}
# Only the open tab is drawn: the charts of the others would cost more than the page.
for tab, draw in zip(st.tabs(list(drawn), on_change="rerun", key="view", bind="query-params"), drawn.values(),
                     strict=True):
    if tab.open:
        with tab:
            draw()
