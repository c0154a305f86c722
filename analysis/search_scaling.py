"""How much work a search over many models is, by strategy, without planning it: for stores that grow by copying.

A store grows as in the study: each next model copies a random one and has new blocks at its end. Who survives a round
of halving is assumed to be random.
"""

from __future__ import annotations

import functools
import math
import random
from typing import NamedTuple


class Work(NamedTuple):
    """Over all rounds of a search."""

    block_items: float
    calls: float
    """Blocks run, however many items are in a chunk."""
    loads: float
    scores: float
    """Heads that are fitted."""
    scored_items: float
    """Model-item pairs that they are fitted on."""


class Store(NamedTuple):
    """How the models of a growing store differ: blocks each, and the share of new ones (mean and deviation)."""

    blocks: int
    mean: float
    deviation: float


SHARES = {"top_layers": (0.10, 0.05), "quarter": (0.25, 0.125), "half": (0.50, 0.125)}
"""Share of new blocks in the synthetic stores, mean and deviation."""
FEWEST_ITEMS = 5
"""In the first round of halving: the planner asks for as many."""


def can_halve(models: int, items: int) -> bool:
    """Whether the first round has enough items for a score."""
    return halving_rounds(models, items)[0][2] >= FEWEST_ITEMS


def items_to_halve(models: int) -> int:
    """The fewest items that so many models can be halved on."""
    return ((FEWEST_ITEMS - 1) << max(math.ceil(math.log2(models)) - 1, 0)) + 1


def halving_rounds(models: int, items: int) -> list[tuple[int, int, int]]:
    """Models left, items seen before, items seen after; the rule of the planner."""
    if models == 1:
        return [(1, 0, items)]
    number = math.ceil(math.log2(models))
    until = [-(-items // 2 ** (number - 1 - index)) for index in range(number)]
    return [(-(-models // 2**index), since, end)
            for index, (since, end) in enumerate(zip([0, *until], until, strict=False))]


def search_rounds(strategy: str, models: int, items: int) -> list[tuple[int, int, int]]:
    return halving_rounds(models, items) if strategy.endswith("halving") else [(models, 0, items)]


def count_work(strategy: str, store: Store, models: int, items: int, chunk: int) -> Work:
    """What a strategy does; `chunk` items go through at once."""
    shared, rounds = strategy.startswith("shared"), search_rounds(strategy, models, items)
    prefixes = _prefixes(store, models, tuple(left for left, _, _ in rounds)) if shared else tuple(
        left * store.blocks for left, _, _ in rounds)
    pairs = calls = loads = scores = scored_items = 0.0
    for (left, since, until), distinct in zip(rounds, prefixes, strict=True):
        chunks = -(-(until - since) // chunk)
        pairs += distinct * (until - since)
        calls += distinct * chunks
        # Shared prefixes load a block in every chunk; models by themselves keep theirs until all chunks are through.
        loads += distinct * (chunks if shared else 1)
        scores += left
        scored_items += left * until
    return Work(pairs, calls, loads, scores, scored_items)


@functools.lru_cache(maxsize=256)
def _prefixes(store: Store, models: int, left: tuple[int, ...]) -> tuple[int, ...]:
    """Distinct prefixes of those who are left in each round, in one made-up store with a fixed seed."""
    source = random.Random(models)
    parents, shares = [0], [0]
    for number in range(1, models):
        new = 0
        while not 1 <= new <= store.blocks:
            new = round(source.gauss(store.mean * store.blocks, store.deviation * store.blocks))
        parents.append(source.randrange(number))
        shares.append(store.blocks - new)
    order = list(range(models))
    source.shuffle(order)
    return tuple(_count(parents, shares, order[:count], store.blocks) for count in left)


def _count(parents: list[int], shares: list[int], survivors: list[int], blocks: int) -> int:
    """Go from the youngest to the oldest: a model's own blocks are needed as deep as any relative reaches into it."""
    reach = [0] * len(parents)
    for model in survivors:
        reach[model] = blocks
    total = 0
    for model in range(len(parents) - 1, 0, -1):
        depth = reach[model]
        if depth:
            shared = shares[model]
            if depth > shared:
                total += depth - shared
                depth = shared
            if depth > reach[parents[model]]:
                reach[parents[model]] = depth
    return total + reach[0]
