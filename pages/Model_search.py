"""Model search: against fine-tuning, where it spends its time, and search strategies against each other."""

import streamlit as st

from analysis.bottlenecks import bars
from analysis.search import agreements, parted_by_environment, speed_ups, unmatched
from begin import begin
from engine.registry import default_values
from store.search import published_pairs, search_runs, search_sweeps
from ui.frame import empty_state
from ui.links import choose_many
from ui.search_agreement import draw_agreement, too_few_models
from ui.search_bottlenecks import draw_bottlenecks
from ui.search_scenarios import draw_scenarios
from ui.search_speedup import draw_speed_up, why_no_pair
from ui.strategies_view import draw_strategies

lab = begin("Model search")
EXPERIMENTS = ("finetune", "extract", "bottleneck")
published = lab.keeper.once("published pairs", lambda: published_pairs(lab.ask))
asked = tuple(str(st.query_params.get("sweeps", ""))[:2000].split(","))
sweeps = lab.keeper.once(("search sweeps", asked), lambda: search_sweeps(lab.ask, EXPERIMENTS, asked))


def invite(sentence: str, preset: str, button: str) -> None:
    empty_state(sentence, button, "pages/Launch.py", query={"preset": preset})


def invite_pair(sentence: str = "") -> None:
    invite(sentence or why_no_pair(parted_by_environment(runs)), "search-finetune-small",
           "Launch the small fine-tuning, about two minutes")
    invite("The other side of the pair, with the same settings:", "search-extract-small",
           "Launch the small extraction, about a minute")


def speed_up() -> None:
    if not pairs:
        invite_pair()
    draw_speed_up(pairs, published, unmatched(runs))


def bottlenecks() -> None:
    found = bars(runs)
    if found:
        draw_bottlenecks(found)
    else:
        invite("No run of the chosen sweeps tells where a search spends its time.", "search-bottleneck-small",
               "Launch the small search, about two minutes")


def agreement() -> None:
    found = agreements(runs)
    if found:
        draw_agreement(found)
        if too_few_models(found):
            invite_pair("An agreement needs five models that were fine-tuned and extracted with the same settings: add "
                        "models to these sweeps, or launch the small pair, which has five.")
    else:
        invite_pair()


VIEWS = ("Speed-up", "End to end", "Bottlenecks", "Agreement", "Strategies")
view = st.segmented_control("View", VIEWS, default="Speed-up", key="view", bind="query-params", required=True,
                            label_visibility="collapsed")
if view == "Strategies":
    # Sweeps of its own: a strategy is searched with, not fine-tuned.
    draw_strategies(lab.ask, lab.home, lab.keeper.once, default_values("search"))
    st.stop()
names = {row["sweep_id"]: f"{row['name']} · {row['experiment']} · {row['created_at']:%Y-%m-%d %H:%M}" for row in sweeps}
# The newest of each question; of the bottlenecks the newest of each name, for whole, partial and joint models.
newest = {(row["experiment"], row["name"] if row["experiment"] == "bottleneck" else ""): row["sweep_id"]
          for row in reversed(sweeps[:20]) if row["ok"]}
chosen = choose_many("Sweeps", list(names), "sweeps", lambda sweep_id: names[sweep_id], list(newest.values())) \
    if names else []
runs = lab.keeper.once(("search runs", *chosen), lambda: search_runs(lab.ask, chosen))
pairs = lab.keeper.once(("speed ups", *chosen), lambda: speed_ups(runs))
views = {"Speed-up": speed_up, "End to end": lambda: draw_scenarios(pairs, published), "Bottlenecks": bottlenecks,
         "Agreement": agreement}
views[view or "Speed-up"]()
