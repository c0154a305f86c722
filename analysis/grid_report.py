"""The regrets of some grids as plain values: what `lab.py regret` prints and what scripts rely on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.grids import Grid, Plan, beside_each_other, compares_per_item, group_id, varying_settings
from analysis.recommendation import recommend
from analysis.regret import list_missing, median_times, rank_pairs

NAMED = 4
"""So many pairs are named in a sentence; the rest is counted."""
PLACE = "measured in"
"""How the environment is called among the settings that tell grids apart."""


def report_regret(grids: Sequence[Grid], plans: Sequence[Plan], top: int,
                  asked: bool | None = None) -> dict[str, Any]:
    """Every grid ranked by itself; with several of them each cell says what sets its grid apart. `asked`: per item or
    not; None is what the page begins with, which may differ between grids: then `per_image` of the whole is None."""
    by_group = {group_id(group[0]): compares_per_item(group) if asked is None else asked
                for group in beside_each_other(grids)}
    names = varying_settings(grids)
    cells, missing, warnings = [], [], list(map(warn_of_unfinished, plans))
    for grid in grids:
        per_item = by_group[group_id(grid)]
        apart = {"setting": grid_setting(grid, grids, names), "per_image": per_item} if len(grids) > 1 else {}
        models = grid.models
        ranked = rank_pairs(median_times(grid, models, per_item), grid.pairs, top)
        found = recommend(grid, models, ranked, per_item)
        against = {other.pair: other.words for other in found.others} | {found.best.pair: "best"} if found else {}
        for row in ranked:
            cells.append({"batch_size": row.pair.batch_size, "workers": row.pair.workers,
                          "mean_regret": row.mean_regret, "worst_regret": row.worst_regret, "total_s": row.total_s,
                          "top_n": row.top_n, "against_best": against.get(row.pair), **apart})
        missing += [{"model": gap.model, "batch_size": gap.pair.batch_size, "workers": gap.pair.workers,
                     "reason": gap.reason, **apart} for gap in list_missing(grid, models, per_item)]
        warnings += warn_of_work(grid, per_item)
    if len(grids) > 1:
        warnings.append(f"{len(grids)} grids, each ranked by itself: they differ in "
                        + ", ".join(grid_setting(grids[0], grids, names)))
    kinds = set(by_group.values())
    return {"top": top, "per_image": kinds.pop() if len(kinds) == 1 else None,
            "cells": cells, "missing": missing, "warnings": list(dict.fromkeys(warnings))}


def grid_setting(grid: Grid, grids: Sequence[Grid], names: Sequence[str]) -> dict[str, Any]:
    """What sets a grid apart from the others."""
    place = {PLACE: grid.place} if len({other.place for other in grids}) > 1 else {}
    question = {"experiment": grid.experiment} if len({other.experiment for other in grids}) > 1 else {}
    return {**question, **{name: grid.setting.get(name) for name in names}, **place}


def warn_of_unfinished(plan: Plan) -> str:
    """How far a sweep came that has not finished."""
    far = f"{plan.ended_runs:,} of {plan.planned_runs:,} runs are done"
    if plan.status in ("queued", "running"):
        return f"the sweep {plan.name} is {plan.status}: {far}, and what is missing may still come"
    how = "failed" if plan.status == "failed" else f"was {plan.status}"
    return f"the sweep {plan.name} {how}: {far}; resume it to measure the rest"


def warn_of_work(grid: Grid, per_item: bool) -> list[str]:
    """What the runs of a grid did less of than others, than was asked for, or than a time of theirs needs."""
    found, items, batches = [], grid.items(), grid.epoch_batches()
    if not per_item and grid.unequal_work and items:
        found.append(f"runs measured {items[0]:,.0f} to {items[1]:,.0f} images, so end-to-end times compare unequal "
                     "work; compare the time per image, or give `images` instead of `batches`")
    asked = {pair: grid.setting.get("batches") or (grid.setting.get("images") or 0) // pair.batch_size
             for pair in batches}
    if fewer := [f"{pair} had {count:,.0f} of {asked[pair]:,}" for pair, count in batches.items()
                 if count < asked[pair]]:
        found.append(f"fewer batches were measured than asked for, because the data has no more images: {_list(fewer)}")
    if short := [f"{pair} had {count:,.0f}" for pair, count in batches.items() if count <= pair.workers]:
        found.append("with no more batches than workers a run is little but the start of its workers, and has no "
                     f"steady state: {_list(short)}; measure more images, or read these with care")
    return found


def _list(words: Sequence[str]) -> str:
    return ", ".join(words[:NAMED]) + (f" and {len(words) - NAMED} more" if len(words) > NAMED else "")
