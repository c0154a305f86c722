"""The steps of a search as data: columns that can be printed, counted, priced and executed. No torch.

A pass is a list of steps that is gone through once per chunk of items. An activation lives from the step that runs its
node to the step that releases it; `keep` marks the ones that wait for a later child.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from engine.search_tree import ITEMS, Column, PrefixTree, last_uses


class Kind(IntEnum):
    TAKE = 8  # the chunk's items, to the device
    LOAD = 0  # a block's weights, from disk
    RUN = 1  # a block on the activation of the node before it
    RERUN = 2  # the same work once more, because the budget had no room to keep its result
    DROP = 3  # weights that this pass needs no more
    KEEP = 4  # this activation waits for another child
    RELEASE = 5  # this activation is needed no more
    COLLECT = 6  # the activation is a model's features: put them aside for scoring
    SCORE = 7  # the models collected since the last score, all at once


class When(IntEnum):
    """In which chunks of a pass a step is done."""

    EVERY = 0
    FIRST = 1
    LAST = 2


TAKE_ITEMS = (Kind.TAKE, When.EVERY, ITEMS, -1)


class Step(NamedTuple):
    """One step on one chunk, spelled out. What does not apply is None."""

    kind: Kind
    items: range
    node: int | None
    source: int | None
    block: str | None
    models: list[int]


class Columns(NamedTuple):
    """Steps by column. `at` is a node, for LOAD and DROP a block; `other` is what RUN reads, and COLLECT's model."""

    kind: Column
    when: Column
    at: Column
    other: Column


@dataclass(frozen=True)
class Pass:
    """Steps, and the chunks of items that they are done on, one after another."""

    steps: Columns
    chunks: list[range]

    def count(self, kind: Kind) -> int:
        """How often a kind of step is done, over all chunks."""
        chosen = self.steps.when[self.steps.kind == kind]
        return int((chosen == When.EVERY).sum()) * len(self.chunks) + int((chosen != When.EVERY).sum())

    def item_count(self, kind: Kind) -> int:
        """How many items a kind of step is done on, over all chunks."""
        return int((self.steps.kind == kind).sum()) * sum(map(len, self.chunks))

    def in_chunk(self, number: int) -> Iterator[tuple[int, int, int]]:
        """(kind, at, other) of the steps that are due in one chunk, as plain numbers; some thousands at a time."""
        first, last = number == 0, number == len(self.chunks) - 1
        for start in range(0, len(self.steps.kind), 8192):
            part = slice(start, start + 8192)
            kind, when, at, other = (column[part] for column in self.steps)
            due = (when == When.EVERY) | ((when == When.FIRST) & first) | ((when == When.LAST) & last)
            yield from zip(kind[due].tolist(), at[due].tolist(), other[due].tolist(), strict=True)


def spell_out(pass_: Pass, tree: PrefixTree) -> Iterator[Step]:
    """Every step of a pass on every chunk."""
    for number, items in enumerate(pass_.chunks):
        waiting: list[int] = []
        for kind, at, other in pass_.in_chunk(number):
            if kind in (Kind.LOAD, Kind.DROP):
                yield Step(Kind(kind), items, None, None, tree.blocks[at], [])
            elif kind in (Kind.RUN, Kind.RERUN):
                yield Step(Kind(kind), items, at, other, tree.blocks[tree.block[at]], [])
            elif kind == Kind.COLLECT:
                waiting.append(other)
                yield Step(Kind.COLLECT, items, at, None, None, [other])
            elif kind == Kind.SCORE:
                yield Step(Kind.SCORE, items, None, None, None, waiting)
                waiting = []
            else:
                yield Step(Kind(kind), items, at, None, None, [])


def shared_steps(tree: PrefixTree, nodes: Column, score_every: int) -> Columns:
    """Every node once, in the order given; an activation is kept while a child is still to come, and no longer."""
    count = len(nodes)
    place = np.empty(count, np.int64)
    place[nodes] = np.arange(count)
    last = last_uses(tree, nodes)
    parent = tree.parent[nodes]
    ends_here = np.bincount(tree.ends, minlength=count)[nodes]
    leaf = last[nodes] == np.arange(count)
    frees_source = last[parent] == np.arange(count)  # ITEMS is -1: the last entry of `last`
    next_parent = np.append(parent[1:], -2)
    children = np.bincount(tree.parent[tree.parent >= 0], minlength=count)[nodes]
    kept = ~leaf & ~((children == 1) & (next_parent == nodes))
    collected = np.cumsum(ends_here)
    before = collected - ends_here
    scores = (ends_here > 0) & ((collected // score_every > before // score_every) | (collected == len(tree.ends)))

    # Up to eight kinds of step per node, in this order; COLLECT once for each model that ends there.
    counts = np.stack([np.ones(count, np.int64)] * 3 + [frees_source, kept, ends_here, leaf, scores], axis=1)
    kinds = (Kind.LOAD, Kind.RUN, Kind.DROP, Kind.RELEASE, Kind.KEEP, Kind.COLLECT, Kind.RELEASE, Kind.SCORE)
    about = np.stack([tree.block[nodes], nodes, tree.block[nodes], parent, nodes, nodes, nodes,
                      np.zeros(count, np.int64)], axis=1)
    flat = counts.ravel()
    kind = np.repeat(np.tile(np.array(kinds, np.int8), count), flat)
    at = np.repeat(about.ravel(), flat).astype(np.int32)
    other = np.full(len(kind), -1, np.int32)
    other[kind == Kind.RUN] = parent
    other[kind == Kind.COLLECT] = np.argsort(place[tree.ends], kind="stable")
    when = np.where(kind == Kind.SCORE, When.LAST, When.EVERY).astype(np.int8)
    take = _columns([TAKE_ITEMS])
    return Columns(np.append(take.kind, kind), np.append(take.when, when), np.append(take.at, at),
                   np.append(take.other, other))


def lone_steps(tree: PrefixTree, model: int) -> Columns:
    """One model by itself: all chunks go through, then it is scored. Its weights are loaded once, each block's where it
    first runs: asked for all at once, most would be waited for."""
    path = tree.path(int(tree.ends[model]))
    rows: list[tuple[Kind, When, int, int]] = [TAKE_ITEMS]
    blocks: set[int] = set()
    for source, node in zip([ITEMS, *path], path, strict=False):
        block = int(tree.block[node])
        if block not in blocks:
            blocks.add(block)
            rows.append((Kind.LOAD, When.FIRST, block, -1))
        rows += [(Kind.RUN, When.EVERY, node, source), (Kind.RELEASE, When.EVERY, source, -1)]
    rows += [(Kind.COLLECT, When.EVERY, path[-1], model), (Kind.RELEASE, When.EVERY, path[-1], -1)]
    rows += [(Kind.DROP, When.LAST, block, -1) for block in sorted(blocks)]
    return _columns([*rows, (Kind.SCORE, When.LAST, 0, -1)])


def repeating_steps(tree: PrefixTree, nodes: Column, score_every: int) -> Columns:
    """Nothing is kept: every model starts from the items, and what has run before in this pass runs once more."""
    place = np.empty(len(nodes), np.int64)
    place[nodes] = np.arange(len(nodes))
    rows: list[tuple[Kind, When, int, int]] = []
    done: set[int] = set()
    order = np.argsort(place[tree.ends], kind="stable").tolist()
    for number, model in enumerate(order):
        path = tree.path(int(tree.ends[model]))
        rows.append(TAKE_ITEMS)
        for source, node in zip([ITEMS, *path], path, strict=False):
            block = int(tree.block[node])
            rows += [(Kind.LOAD, When.EVERY, block, -1),
                     (Kind.RERUN if node in done else Kind.RUN, When.EVERY, node, source),
                     (Kind.DROP, When.EVERY, block, -1), (Kind.RELEASE, When.EVERY, source, -1)]
            done.add(node)
        rows += [(Kind.COLLECT, When.EVERY, path[-1], model), (Kind.RELEASE, When.EVERY, path[-1], -1)]
        if (number + 1) % score_every == 0 or number == len(order) - 1:
            rows.append((Kind.SCORE, When.LAST, 0, -1))
    return _columns(rows)


def _columns(rows: Sequence[tuple[Kind, When, int, int]]) -> Columns:
    table: np.ndarray[Any, Any] = np.array(rows, np.int64)
    return Columns(table[:, 0].astype(np.int8), table[:, 1].astype(np.int8), table[:, 2].astype(np.int32),
                   table[:, 3].astype(np.int32))


class Peak(NamedTuple):
    """Bytes per item: of all live activations with a block at work, and of those that are kept only."""

    live_bytes: int
    kept_bytes: int


def peak_of(steps: Columns, tree: PrefixTree) -> Peak:
    """The highest point of a chunk, by going through its steps."""
    out = np.append(tree.per_node("out_bytes").astype(np.int64), tree.item_bytes)
    work = np.append(tree.per_node("work_bytes").astype(np.int64), 0)
    kind = steps.kind
    about_node = _of_kinds(Kind.TAKE, Kind.RUN, Kind.RERUN, Kind.RELEASE, Kind.KEEP)[kind]
    size = out[np.where(about_node, steps.at, ITEMS)]
    runs, releases, keeps = _of_kinds(Kind.RUN, Kind.RERUN)[kind], kind == Kind.RELEASE, kind == Kind.KEEP
    sign = np.zeros(len(Kind), np.int64)
    sign[[Kind.TAKE, Kind.RUN, Kind.RERUN]], sign[Kind.RELEASE] = 1, -1
    live = np.cumsum(size * sign[kind])
    kept_nodes = np.zeros(len(out), bool)
    kept_nodes[steps.at[keeps]] = True
    freed = np.zeros(len(kind), bool)
    freed[releases] = kept_nodes[steps.at[releases]]
    kept = np.cumsum(size * (keeps.astype(np.int64) - freed))
    busy = live[runs] + work[steps.at[runs]]
    return Peak(int(busy.max(initial=tree.item_bytes)), int(kept.max(initial=0)))


def _of_kinds(*kinds: Kind) -> Column:
    """A table that says of each kind whether it is one of these."""
    table = np.zeros(len(Kind), bool)
    table[list(kinds)] = True
    return table
