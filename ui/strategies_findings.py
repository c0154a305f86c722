"""What the charts of search strategies show, in sentences from the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.strategies import BASELINE, StrategyTimes, Winner
from ui.findings import about_overlap
from ui.frame import safe
from ui.strategies_charts import GROUPS, TITLES, store_title
from ui.units import number, seconds

PUBLISHED = {"top_layers": 10.2, "quarter": 7.1, "half": 4.9}
"""Times faster than exhaustive, of 35 models on 8,000 items: Strassenburg, Glavic, Rabl, SIGMOD 2025, geometric mean
over models, on a GPU."""


def about_faster(cells: Sequence[StrategyTimes]) -> str:
    """One clause per store about its fastest strategy."""
    clauses = []
    for snapshots in dict.fromkeys(cell.snapshots for cell in cells):
        compared = [cell for cell in cells if cell.snapshots == snapshots and cell.faster]
        best = max(compared, key=lambda cell: cell.faster.value if cell.faster else 0.0, default=None)
        if best is None or best.faster is None:
            continue
        found = best.faster
        if found.low is None or found.high is None:
            told = f"{found.value:.1f} times in one run each, too few runs to tell"
        elif found.verdict == "no difference shown":
            told = f"no difference shown ({found.low:.2f} to {found.high:.2f} times)"
        else:
            told = f"{found.value:.1f} times (95 % interval {found.low:.1f} to {found.high:.1f}{found.caution})"
        clauses.append(f"**{safe(store_title(snapshots))}**: {TITLES.get(best.strategy, safe(best.strategy))}, {told}"
                       + (f", with {best.less_work:.1f} times less work" if best.less_work else ""))
    if not clauses:
        return "Exhaustive was not measured with the same setting: there is nothing to compare with."
    return "Fastest against exhaustive. " + "; ".join(clauses) + "." + _about_noise(cells)


def about_groups(cells: Sequence[StrategyTimes]) -> str:
    """Where the fastest one's time goes, and whose groups add up to more than their time."""
    fastest = min(cells, key=lambda cell: cell.seconds.value)
    whole = sum(fastest.phases_s.values())
    group = max(fastest.phases_s, key=lambda name: fastest.phases_s[name])
    sentence = (f"**{TITLES.get(fastest.strategy, safe(fastest.strategy))}** takes {seconds(fastest.seconds.value)}; "
                f"{fastest.phases_s[group] / whole:.0%} of it is {GROUPS.get(group, safe(group))}.")
    overlaps = [about_overlap(TITLES.get(cell.strategy, safe(cell.strategy)), sum(cell.phases_s.values()),
                              cell.overlap_s) for cell in cells]
    return " ".join([sentence, *filter(None, overlaps)]) + _about_noise(cells)


def _about_noise(cells: Sequence[StrategyTimes]) -> str:
    noisy, runs = sum(cell.noisy_runs for cell in cells), sum(cell.runs for cell in cells)
    return f" {noisy} of {runs} runs were noisy: other work disturbed them." if noisy else ""


def about_winners(winners: Mapping[str, Winner], models: int) -> str:
    """Whether each strategy found the model that exhaustive search finds."""
    if BASELINE not in winners:
        told = ", ".join(f"**{safe(winner.model)}** ({_title(name)})" for name, winner in winners.items())
        return (f"Best of {models:,} models: {told}. The same store was not searched exhaustively: whether that finds "
                "the same one is not known.")
    said = [f"Exhaustive search ranks **{safe(winners[BASELINE].model)}** first of {models:,} models."]
    others = {name: winner for name, winner in winners.items() if name != BASELINE}
    if kept := [_title(name) for name, winner in others.items() if winner.exhaustive_rank == 1]:
        said.append(f"Its winner was also found by {', '.join(kept)}.")
    said += [f"Not by {_title(name)}: its best, **{safe(winner.model)}**, "
             + (f"has rank {winner.exhaustive_rank} under exhaustive." if winner.exhaustive_rank else
                "is not in the ranking of exhaustive.")
             for name, winner in others.items() if winner.exhaustive_rank != 1]
    return " ".join(said)


def _title(strategy: str) -> str:
    return TITLES.get(strategy, safe(strategy))


def about_tree(parts: Sequence[dict[str, Any]]) -> str:
    models = sum(len(part["ends"]) for part in parts)
    lengths = {number: part["last"] - part["first"] + 1 for number, part in enumerate(parts)}
    distinct = sum(lengths.values())
    whole = sum(len(part["ends"]) * part["last"] for part in parts)
    shared = max((part for part in parts if part["models"] > 1), default=None,
                 key=lambda part: (part["last"] - part["first"] + 1) * (part["models"] - 1))
    sentence = (f"{models:,} models have {whole:,} blocks, {distinct:,} of them distinct: with shared prefixes an item "
                f"runs {distinct / whole:.0%} of what it does model by model.")
    if shared:
        sentence += (f" The part that saves most is blocks {shared['first']} to {shared['last']}, shared by "
                     f"{shared['models']} models.")
    return sentence


def about_scaling(last: dict[str, float], models: int) -> str:
    """`last`: seconds by strategy at the largest number of models."""
    known = {name: value for name, value in last.items() if value}
    if "exhaustive" not in known or len(known) < 2:
        return "Too few strategies were measured to scale them."
    best = min(known, key=lambda name: known[name])
    return (f"At {models:,} models exhaustive would take {seconds(known['exhaustive'])}, "
            f"**{TITLES.get(best, safe(best))}** {seconds(known[best])}: "
            f"{number(known['exhaustive'] / known[best])} times less.")


def published_note(stores: Sequence[str]) -> str:
    known = [f"{PUBLISHED[name]} ({store_title(name)})" for name in PUBLISHED if name in stores]
    return (f"Published for both together: {', '.join(known)} times; 35 models, 8,000 items, on a GPU "
            "(doi 10.1145/3725264). Another machine and other models: not like for like. ") if known else ""
