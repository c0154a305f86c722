"""The tables of the Batch & workers page: regret beside the published figures, what limits cells, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.grid_view import GridView
from analysis.grids import Pair
from analysis.limits import find_limit, next_step
from ui.batch_workers_page import CARD_PX, choose_model, draw_beside
from ui.figure import draw_figure, draw_rows_button
from ui.grid_charts import heat_frame, heat_map
from ui.grid_findings import about_heat, about_objectives
from ui.units import TOO_FAR, USELESS

PUBLISHED = {"jpeg": "imagenette", "tensor_files": "preprocessed_ssd"}
"""Which of seed 004's two data settings a format is compared with; it had no memory-mapped one."""
PUBLISHED_EXPERIMENT = "inference"
PUBLISHED_NOTE = "Seed 004's figures are means over its twelve models on an RTX A5000; they are not runs of this lab."
ROW_PX, MOST_PX = 35, 460


def draw_regret(views: Sequence[GridView], published: pd.DataFrame, top: int) -> None:
    def draw(view: GridView, name: str) -> None:
        st.markdown(about_objectives(view))
        frame = regret_frame(view, published, top)
        st.dataframe(frame, hide_index=True, height=min(ROW_PX * (len(frame) + 1) + 3, MOST_PX),
                     column_config=_regret_columns(top, view.per_item),
                     alt=f"Regret of every pair under three objectives, {name}")
        draw_rows_button(frame, f"regret_{name}", PUBLISHED_NOTE if "published_regret" in frame else
                         "Seed 004 published nothing that these runs could stand beside.")

    draw_beside(views, draw, wide=True)


def regret_frame(view: GridView, published: pd.DataFrame, top: int) -> pd.DataFrame:
    """Own figures with those that seed 004 published for the same pair; shares in per cent."""
    data = PUBLISHED.get(view.grid.format) if view.grid.experiment == PUBLISHED_EXPERIMENT else None
    theirs = {Pair(row.batch_size, row.workers): row for row in published.itertuples() if row.data == data}
    against = {other.pair: other for other in view.recommendation.others} if view.recommendation else {}
    rows = []
    for row in view.ranked:
        other, seed = against.get(row.pair), theirs.get(row.pair)
        rows.append({
            "batch_size": row.pair.batch_size, "workers": row.pair.workers, "mean_regret": _percent(row.mean_regret),
            "worst_regret": _percent(row.worst_regret), "total_s": row.total_s, "top_n": row.top_n,
            "against_best": _against(row.eligible, other), "published_regret": _percent(seed and seed.mean_regret),
            "published_top3": seed.top3_count if seed else None,
            "missing": ", ".join(row.missing_models)})
    frame = pd.DataFrame(rows)
    needless = [] if data else ["published_regret", "published_top3"]
    return frame.drop(columns=needless if (frame["missing"] != "").any() else [*needless, "missing"])


def _against(eligible: bool, other: Any) -> str:
    if other is None:
        return "best" if eligible else "not for all models"
    ratio = other.ratio
    if ratio.low is None:
        return f"{ratio.value:.3f} x, {other.words}"
    between = TOO_FAR if ratio.high > ratio.low * USELESS else f"{ratio.low:.3f} to {ratio.high:.3f}"
    return f"{ratio.value:.3f} x ({between}), {other.words}"


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def _regret_columns(top: int, per_item: bool) -> dict[str, Any]:
    number = st.column_config.NumberColumn
    return {"batch_size": number("Batch size", width="small"), "workers": number("Workers", width="small"),
            "mean_regret": number("Mean regret (%)", format="%.2f"),
            "worst_regret": number("Worst regret (%)", format="%.2f", help="Of the model that suffers most"),
            "total_s": number("Total (s per image)" if per_item else "Total (s)", format="%.4g",
                              help="Summed over models"),
            "top_n": number(f"Top {top}", help=f"Models for which it is among the {top} fastest; ties all count"),
            "against_best": st.column_config.TextColumn(
                "Time against the best", width="large", help="Ratio of geometric means over runs, with its interval; "
                "regret is of medians over runs, so that with few or scattered runs the two can differ"),
            "published_regret": number("Seed 004: regret (%)", format="%.2f"),
            "published_top3": number("Seed 004: top 3"),
            "missing": st.column_config.TextColumn("No time for", width="medium")}


def draw_limits(views: Sequence[GridView], waits_of: Callable[[list[str]], dict[str, list[float]]]) -> None:
    model = choose_model(views, with_all=False)
    st.caption("The largest share of the end-to-end time is the limit. Start-up is the wait for the first batch, "
               "loading every later wait. The detector reads the pattern of the waits in the first epoch of the run "
               "with the median time; it knows nothing of shares, so the two need not agree.")
    if any(view.grid.setting.get("epochs", 1) > 1 for view in views):
        st.caption("These runs have several epochs: the first wait of each later one, with the workers' start in it "
                   "unless they persist, counts as loading.")

    def draw(view: GridView, name: str) -> None:
        runs = [run.run_id for pair in view.grid.pairs for run in view.grid.measured(model, pair)]
        waits = waits_of(runs)
        rows: list[dict[str, Any]] = []
        for pair in view.grid.pairs:
            if not (measured := view.grid.measured(model, pair)):
                continue
            limit = find_limit(measured, pair.workers, waits)
            rows.append({"pair": str(pair), "limit": limit.kind, "share": _percent(limit.share),
                         "next": next_step(limit, view.grid, model, pair),
                         "detector": limit.signature.verdict if limit.signature else "no waits are known",
                         "waits": limit.signature.text if limit.signature else "no waits are known",
                         **{kind: _percent(share) for kind, share in limit.shares.items()}})
        if not rows:
            st.info("No cell of this model has a time.")
            return
        frame = pd.DataFrame(rows)
        number = st.column_config.NumberColumn
        st.dataframe(frame, hide_index=True, height=min(ROW_PX * (len(frame) + 1) + 3, MOST_PX), column_config={
            "pair": "Batch/workers", "limit": "Limited by", "share": number("Share (%)", format="%.0f"),
            "next": st.column_config.TextColumn("Next thing to try", width="large"),
            "detector": "Detector's verdict",
            "waits": st.column_config.TextColumn("What the waits show", width="large"),
            **{kind: number(f"{kind.capitalize()} (%)", format="%.0f")
               for kind in ("start-up", "loading", "transfer", "compute", "other work")}},
            alt=f"What limits each cell, {name}")
        draw_rows_button(frame, f"limits_{name}")

    draw_beside(views, draw, wide=True)


def draw_missing(views: Sequence[GridView]) -> None:
    rows = [{"format": view.grid.format, "model": gap.model, "batch_size": gap.pair.batch_size,
             "workers": gap.pair.workers, "reason": gap.reason} for view in views for gap in view.missing]
    if not rows:
        st.success("Every model has a time in every cell.")
        return
    frame = pd.DataFrame(rows)
    st.markdown(f"**{len(rows)} cells have no time.** A pair that is missing for a model is not ranked for all models.")
    st.dataframe(frame, hide_index=True, height=min(ROW_PX * (len(frame) + 1) + 3, MOST_PX), column_config={
        "format": "Format", "model": "Model", "batch_size": "Batch size", "workers": "Workers",
        "reason": st.column_config.TextColumn("Why", width="large")}, alt="Cells without a time, and why")
    draw_rows_button(frame, "missing_cells")


def draw_published(published: pd.DataFrame) -> None:
    """Seed 004's own regrets, as it published them."""
    st.markdown(f"What seed 004 published, to set own results beside. {PUBLISHED_NOTE}")
    st.caption("Regret: how much longer a pair takes than the best pair of the same model; less is better. 128/12 is "
               "batch size 128 with 12 workers. Each map has its own colours.")
    titles = {"imagenette": "JPEG images", "preprocessed_ssd": "Preprocessed, on an SSD"}
    places = st.grid(2, min_column_width=CARD_PX, gap="medium")
    for data in titles:
        rows = published[published["data"] == data]
        values: dict[Pair, float | None] = {Pair(row.batch_size, row.workers): row.mean_regret
                                            for row in rows.itertuples()}
        with places.cell():
            st.markdown(f"##### {titles[data]}")
            if not values:
                continue
            frame = heat_frame(values, sorted(values), 100, lambda value: f"{value:,.{1 if value < 9.95 else 0}f}")
            draw_figure(about_heat(values, False, True), heat_map(frame, "Mean regret (%)", ",.2f"), rows,
                        f"published_{data}", measured=False)
