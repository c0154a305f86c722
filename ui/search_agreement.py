"""Model search, agreement: do the models that score high also reach a high accuracy when they are fine-tuned?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd
import streamlit as st

from analysis.search import ENOUGH_MODELS, SCORES, Agreement
from ui.colours import NEUTRAL, SERIES
from ui.figure import draw_figure
from ui.links import choose

NOTE = ("One point per model, medians over its runs and seeds, on the same images in the same environment. Spearman's "
        "rank correlation over models. With random weights it ranks architectures, not what they have learnt.")

SEEDS_SHOWN = 10
LAYERS = {"all": "all layers", "head": "the head only"}


def draw_agreement(by_layers: Mapping[str, Sequence[Agreement]]) -> None:
    layers = next(iter(by_layers))
    if len(by_layers) > 1:
        layers = choose("Fine-tuned", list(by_layers), "layers", lambda key: LAYERS[key]) or layers
    found = by_layers[layers]
    settings: dict[str, Agreement] = {}
    for agreement in found:
        settings.setdefault(agreement.setting_id, agreement)
    setting = next(iter(settings))
    if len(settings) > 1:
        setting = choose("Setting", list(settings), "setting", lambda key: (
            f"{settings[key].setting}, {len(settings[key].models)} models")[:160]) or setting
    by_score = {agreement.score: agreement for agreement in found if agreement.setting_id == setting}
    chosen = choose("Score", list(by_score), "score", lambda score: SCORES[score])
    agreement = by_score[chosen or next(iter(by_score))]
    rows = agreement_frame(agreement)
    draw_figure(about_agreement(agreement), scatter(rows, SCORES[agreement.score]), rows.drop(columns="side"),
                "agreement", NOTE)
    others = [about_agreement(other) for score, other in by_score.items() if score != agreement.score]
    st.markdown("\n".join(f"- {sentence}" for sentence in others))


def too_few_models(by_layers: Mapping[str, Sequence[Agreement]]) -> bool:
    """No setting has enough for any score."""
    return all(len(agreement.models) < ENOUGH_MODELS for found in by_layers.values() for agreement in found)


def agreement_frame(agreement: Agreement) -> pd.DataFrame:
    """One row per model; those at the same point share a label, or one would hide the other."""
    rows = pd.DataFrame({"model": agreement.models, "score": agreement.scores, "accuracy": agreement.accuracies})
    rows["label"] = rows.groupby(["score", "accuracy"])["model"].transform(", ".join)
    rows.loc[rows.duplicated(["score", "accuracy"]), "label"] = ""
    width = max(agreement.scores) - min(agreement.scores)
    above: list[tuple[float, float]] = []
    sides = {}
    for index, row in rows.sort_values("accuracy", ascending=False).iterrows():
        near = any(abs(row["score"] - score) <= 0.15 * width and accuracy - row["accuracy"] < 0.12
                   for score, accuracy in above)
        sides[index] = "below" if near else "above"
        above += [] if near else [(row["score"], row["accuracy"])]
    # A label above a point would run into the point or the label of a neighbour above it.
    rows["side"] = pd.Series(sides)
    return rows


def about_agreement(agreement: Agreement) -> str:
    name, count = SCORES[agreement.score], len(agreement.models)
    tuned = "fine-tuned" + (" (head only)" if agreement.layers == "head" else "")
    behind = _about_seeds(agreement) + (f" {agreement.noisy_runs} of the runs were noisy." if agreement.noisy_runs
                                        else "")
    if count < ENOUGH_MODELS:
        return (f"{name}: **too few to tell**, {count} {'model was' if count == 1 else 'models were'} both scored and "
                f"{tuned}; at least {ENOUGH_MODELS} are needed.{behind}")
    if agreement.rho is None or agreement.chance is None:
        return f"{name}: nothing to rank, all {count} models have the same score or the same accuracy.{behind}"
    shown = "agreement is not shown" if agreement.chance > 0.05 else \
        "it ranks them alike" if agreement.rho > 0 else "it ranks them the other way round"
    return (f"{name}: rank correlation **{agreement.rho:.2f}** over {count} models {tuned} on {agreement.train:,} "
            f"images; {shown} (chance alone gives as much in {agreement.chance:.0%} of orders).{behind}")


def _about_seeds(agreement: Agreement) -> str:
    tuned, scored = (", ".join(map(str, seeds[:SEEDS_SHOWN])) + (" and more" if len(seeds) > SEEDS_SHOWN else "")
                     for seeds in (agreement.tuned_seeds, agreement.scored_seeds))
    if agreement.tuned_seeds != agreement.scored_seeds:
        return f" Fine-tuned with seeds {tuned}, scored with seeds {scored}."
    return f" Seeds {tuned} are pooled." if len(agreement.tuned_seeds) > 1 else ""


def scatter(rows: pd.DataFrame, title: str) -> alt.LayerChart:
    base = alt.Chart(rows).encode(
        x=alt.X("score:Q", title=title, scale=alt.Scale(zero=False, padding=40)),
        y=alt.Y("accuracy:Q", title="Fine-tuned validation accuracy", axis=alt.Axis(format=".0%"),
                scale=alt.Scale(domain=[0, 1])),
        tooltip=[alt.Tooltip("model:N", title="Model"), alt.Tooltip("score:Q", title=title, format=".4~g"),
                 alt.Tooltip("accuracy:Q", title="Accuracy", format=".1%")])
    labels = [base.transform_filter(alt.datum.side == side).mark_text(dy=shift, fontSize=12, color=NEUTRAL).encode(
        text="label:N") for side, shift in (("above", -12), ("below", 14))]
    return alt.layer(base.mark_point(size=90, filled=True, color=SERIES[0]), *labels).properties(height=330)
