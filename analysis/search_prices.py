"""What a search of any size would take, priced with block costs that were measured.

Inference is priced by block costs and set right by what the strategy really took against that price. Scoring is fitted
over all strategies: a part per head and a part per item. Waiting for weights is what each load took.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from scipy.optimize import nnls

from analysis.search_scaling import Work, search_rounds
from analysis.strategies import UNACCOUNTED, StrategyTimes


class Prices(NamedTuple):
    """Of one strategy on one machine."""

    item_s: float
    call_s: float
    measured_over_priced: float
    """How many times what the block costs alone would give the inference took, with the steps between blocks."""
    load_s: float
    head_s: float
    head_item_s: float

    def price(self, work: Work) -> float:
        inference = self.measured_over_priced * (self.item_s * work.block_items + self.call_s * work.calls)
        return (inference + self.load_s * work.loads + self.head_s * work.scores
                + self.head_item_s * work.scored_items)


def measured_work(cell: StrategyTimes, chunk: int) -> Work:
    """What a strategy did when it was measured, as its runs recorded it; `chunk` is for runs that did not tell theirs.
    The work of a store that is made up would be that of other models."""
    rounds = search_rounds(cell.strategy, cell.models, cell.items)
    chunks = [(left, -(-(until - since) // (cell.chunk_items or chunk))) for left, since, until in rounds]
    blocks = cell.block_items / sum(left * (until - since) for left, since, until in rounds)
    # Shared prefixes load a block whenever they run it; a model by itself keeps its blocks over all chunks.
    calls = cell.loads if cell.strategy.startswith("shared") else blocks * sum(left * number for left, number in chunks)
    return Work(cell.block_items, calls, cell.loads, sum(left for left, _, _ in rounds),
                sum(left * until for left, _, until in rounds))


def find_prices(cells: Mapping[str, StrategyTimes], chunk: int) -> dict[str, Prices]:
    """By strategy, from what each did when it was measured. Without block costs there are no prices."""
    works = {name: measured_work(cell, chunk) for name, cell in cells.items()}
    heads = [[works[name].scores, works[name].scored_items] for name in cells]
    spent = [cell.phases_s.get("score", 0.0) for cell in cells.values()]
    head_s, head_item_s = (float(value) for value in nnls(heads, spent)[0]) if heads else (0.0, 0.0)
    item_costs = [cell.block_item_s for cell in cells.values() if cell.block_item_s is not None]
    call_costs = [cell.block_call_s for cell in cells.values() if cell.block_call_s is not None]
    if not item_costs or not call_costs:
        return {}
    # What a block costs does not depend on the strategy that runs it.
    item_s, call_s = median(item_costs), median(call_costs)
    found = {}
    for name, cell in cells.items():
        work = works[name]
        priced = item_s * work.block_items + call_s * work.calls
        if priced <= 0:
            continue
        phases = cell.phases_s
        # What ran at the same time counts once, or the prices would add up to more than was measured.
        taken = sum(phases.get(phase, 0.0)
                    for phase in ("inference", "data_to_device", "plan", UNACCOUNTED)) - cell.overlap_s
        load_s = phases.get("load_state", 0.0) / work.loads if work.loads else 0.0
        found[name] = Prices(item_s, call_s, taken / priced, load_s, head_s, head_item_s)
    return found
