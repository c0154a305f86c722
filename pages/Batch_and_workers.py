"""Batch & workers: which batch size and how many workers, for each model and for all of them."""

import streamlit as st

from analysis.grid_view import view_grid
from analysis.grids import beside_each_other, compares_per_item, never_begun, split_grids
from analysis.regret import TOP
from begin import begin
from engine.registry import Broken, default_values, load_all
from store.grids import grid_runs, grid_sweeps, loading_waits, published_regret_frame, unfinished_plans
from ui.batch_workers_page import (
    choose_group,
    draw_bars,
    draw_first,
    draw_heat,
    draw_recommendations,
    say_unfinished,
)
from ui.frame import empty_state
from ui.links import choose_many, choose_number
from ui.regret_tables import draw_limits, draw_missing, draw_published, draw_regret

lab = begin("Batch & workers")
NEEDED = {"batch_size", "workers"}
experiments = [name for name, entry in load_all().items()
               if not isinstance(entry, Broken) and entry.Params.model_fields.keys() >= NEEDED]
published = lab.keeper.once("published regret", lambda: published_regret_frame(lab.ask))
asked = tuple(dict.fromkeys(str(st.query_params.get("sweeps", ""))[:20_000].split(",")))
sweeps = lab.keeper.once(("grid sweeps", asked), lambda: grid_sweeps(lab.ask, experiments, asked))


def invite(sentence: str) -> None:
    empty_state(sentence, "Launch the small grid: two models, about two minutes", "pages/Launch.py",
                query={"preset": "seed-004-small"})
    draw_published(published)
    st.stop()


names = {row["sweep_id"]: f"{row['name']} · {row['created_at']:%Y-%m-%d %H:%M}" for row in sweeps}
if not sweeps:
    invite("No sweep with a batch size and workers has been measured yet.")
# Of the sweeps that vary one of both, those that ask this very question come first.
newest = next((row["sweep_id"] for row in sorted(sweeps, key=lambda row: row["experiment"] != "inference")
               if row["spans"]), sweeps[0]["sweep_id"])
chosen = choose_many("Sweeps", list(names), "sweeps", lambda sweep_id: names[sweep_id], [newest])
runs = lab.keeper.once(("grid runs", *chosen), lambda: grid_runs(lab.ask, chosen))
plans = lab.keeper.once(("unfinished plans", *chosen), lambda: unfinished_plans(lab.ask, chosen))
say_unfinished(plans)
defaults = {name: default_values(name) for name in {run.experiment for run in runs}}
grids = split_grids([*runs, *never_begun(runs, plans, defaults)], defaults)
if not any(grid.count() for grid in grids):
    invite("No run of these sweeps has a time yet: they have not finished, or they failed." if chosen else
           "Choose a sweep, or launch one.")
group = choose_group(beside_each_other(grids), names)
if not any(grid.count() for grid in group):
    invite("No run of this grid has a time: choose another.")
everyone = list(dict.fromkeys(model for grid in group for model in grid.models))
models = choose_many("Models", everyone, "models", str, everyone, follow=True)
with st.container(horizontal=True, vertical_alignment="bottom"):
    top = int(choose_number("Top n", 1, 100, TOP, "top", width=130))
    per_item = any(grid.items() for grid in group) and st.toggle(
        "Time per image", compares_per_item(group), key="per_image", bind="query-params",
        help="For cells that measured unequal numbers of images: end-to-end time divided by images, start-up included")
shown = (*chosen, "models", *models, top, per_item)
found = [lab.keeper.once(("grid view", grid.experiment, grid.place, str(grid.setting), *shown),
                         lambda grid=grid: view_grid(grid, models, top, per_item)) for grid in group]
views = [view for view in found if view.models and view.grid.count()]
if not views:
    st.info("Choose at least one model.")
    st.stop()
draw_recommendations(views)


def waits_of(run_ids: list[str]) -> dict[str, list[float]]:
    return lab.keeper.once(("waits", *run_ids), lambda: loading_waits(lab.ask, run_ids))


parts = {"Bars": lambda: draw_bars(views), "Heat map": lambda: draw_heat(views),
         "Regret and top n": lambda: draw_regret(views, published, top), "First batch": lambda: draw_first(views),
         "What limits it": lambda: draw_limits(views, waits_of),
         "Missing": lambda: draw_missing(found), "Published": lambda: draw_published(published)}
# Only the open tab is drawn: the charts of the others would cost more than the page.
for tab, draw in zip(st.tabs(list(parts), on_change="rerun", key="view", bind="query-params"), parts.values(),
                     strict=True):
    if tab.open:
        with tab:
            draw()
