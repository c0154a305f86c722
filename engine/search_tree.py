"""What snapshots share: the tree of their prefixes, the memory each part of it needs, and the order to walk it.

A node is a distinct prefix: the block that ends it and the node before it. Everything is kept by column, one entry per
node, so that a store of 50,000 snapshots is planned in seconds. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

ITEMS = -1
"""In the place of a node: the items themselves, which the first blocks read."""
UNKNOWN = 0xFFFFFFFF
Column = np.ndarray[Any, np.dtype[Any]]


class BlockCost(NamedTuple):
    """One block: what its output takes and what it needs besides while it runs, per item; and what it takes in time."""

    out_bytes: int
    work_bytes: int = 0
    fixed_bytes: int = 0
    """While it runs, however few items there are."""
    item_s: float = 0.0
    call_s: float = 0.0
    load_s: float = 0.0
    weight_bytes: int = 0


class Snapshot(NamedTuple):
    """A model as the planner sees it: a name and the hashes of its blocks."""

    name: str
    blocks: Sequence[str]


@dataclass(frozen=True)
class PrefixTree:
    """The distinct prefixes of some snapshots. A node's number is larger than its parent's."""

    names: list[str]
    """Of the snapshots; their places are what steps call a model."""
    blocks: list[str]
    """Distinct block hashes; `block` points here."""
    costs: list[BlockCost]
    """Distinct ones; `cost_of` points here, once per block."""
    cost_of: Column
    item_bytes: int
    parent: Column
    block: Column
    depth: Column
    ends: Column
    """The node that each snapshot ends with."""

    def __len__(self) -> int:
        return len(self.parent)

    def per_node(self, field: str) -> Column:
        """A column of block costs, spread over the nodes."""
        spread: Column = self.per_block(field)[self.block]
        return spread

    def per_block(self, field: str) -> Column:
        spread: Column = np.array([getattr(cost, field) for cost in self.costs])[self.cost_of]
        return spread

    def path(self, node: int) -> list[int]:
        """The nodes from the items to this one."""
        found = []
        while node != ITEMS:
            found.append(node)
            node = int(self.parent[node])
        return found[::-1]


def grow_tree(snapshots: Iterable[Snapshot], costs: Mapping[str, BlockCost], item_bytes: int) -> PrefixTree:
    """Read the snapshots one by one: memory grows with the distinct prefixes, not with models x blocks."""
    numbers: dict[str, int] = {}
    children: dict[int, int] = {}
    parent: list[int] = []
    block: list[int] = []
    depth: list[int] = []
    names: list[str] = []
    ends: list[int] = []
    for name, hashes in snapshots:
        assert hashes, f"{name} has no blocks"
        at, known = ITEMS, 0
        for text in hashes:
            # Parent and block in one number: half the memory of a pair.
            found = children.get((at + 1) << 32 | numbers.get(text, UNKNOWN))
            if found is None:
                break
            at = found
            known += 1
        if known < len(hashes):
            # The first block that is new here makes everything behind it new.
            new = [numbers.setdefault(text, len(numbers)) for text in hashes[known:]]
            first = len(parent)
            parents = [at, *range(first, first + len(new) - 1)]
            children.update(zip([(up + 1) << 32 | number for up, number in zip(parents, new, strict=True)],
                                range(first, first + len(new)), strict=True))
            parent.extend(parents)
            block.extend(new)
            depth.extend(range(known + 1, len(hashes) + 1))
            at = len(parent) - 1
        names.append(name)
        ends.append(at)
    # Thousands of blocks have the same cost: they are told apart by identity, which is quick.
    distinct: dict[int, int] = {}
    listed = [costs[text] for text in numbers]
    cost_of = np.array([distinct.setdefault(id(cost), len(distinct)) for cost in listed], np.int32)
    shown = np.unique(cost_of, return_index=True)[1]
    return PrefixTree(names, list(numbers), [listed[index] for index in shown.tolist()], cost_of, item_bytes,
                      np.array(parent, np.int32), np.array(block, np.int32), np.array(depth, np.int32),
                      np.array(ends, np.int32))


class Walk(NamedTuple):
    """An order in which every node runs once, parents first; and the bytes per item that are live at its peak."""

    nodes: Column
    peak_bytes: int


def walk_depth_first(tree: PrefixTree) -> Walk:
    """Depth first, the child that needs most last: then its parent need not be kept beside it."""
    out, work = tree.per_node("out_bytes").astype(np.int64), tree.per_node("work_bytes").astype(np.int64)
    need = out.copy()
    size = np.ones(len(tree), np.int64)
    before = np.zeros(len(tree), np.int64)  # nodes of elder siblings, which run first
    levels = [np.flatnonzero(tree.depth == depth) for depth in range(1, int(tree.depth.max()) + 1)]
    peak = tree.item_bytes
    for level in reversed(levels):
        parents = tree.parent[level]
        held = np.where(parents == ITEMS, tree.item_bytes, out[parents])
        order = np.lexsort((level, need[level], parents))  # by parent, the neediest last
        level, parents, held = level[order], parents[order], held[order]
        last = np.append(parents[1:] != parents[:-1], True)
        during = held + out[level] + work[level]
        while_below = need[level] + np.where(last, 0, held)
        wants = np.maximum(during, while_below)
        first = np.append(True, last[:-1])
        started = np.cumsum(size[level]) - size[level]
        before[level] = started - np.repeat(started[first], np.diff(np.append(np.flatnonzero(first), len(level))))
        if parents[0] == ITEMS:
            peak = max(peak, int(wants.max()))
        else:
            np.maximum.at(need, parents, wants)
            np.add.at(size, parents, size[level])
    place = np.zeros(len(tree), np.int64)
    for level in levels:
        parents = tree.parent[level]
        place[level] = before[level] + np.where(parents == ITEMS, 0, place[parents] + 1)
    nodes = np.empty(len(tree), np.int32)
    nodes[place] = np.arange(len(tree), dtype=np.int32)
    return Walk(nodes, peak)


def walk_as_listed(tree: PrefixTree) -> Walk:
    """Model by model as they are listed: what a cache without a plan does. Nodes are numbered in that order."""
    nodes = np.arange(len(tree), dtype=np.int32)
    out, work = tree.per_node("out_bytes").astype(np.int64), tree.per_node("work_bytes").astype(np.int64)
    last = last_uses(tree, nodes)
    leaving = np.zeros(len(tree) + 1, np.int64)
    np.add.at(leaving, last[:-1], out)
    leaving[last[-1]] += tree.item_bytes
    live = tree.item_bytes + np.cumsum(out) - np.append(0, np.cumsum(leaving[: len(tree)])[:-1])
    return Walk(nodes, int((live + work).max()))


def last_uses(tree: PrefixTree, nodes: Column) -> Column:
    """The place in a walk after which each node's activation is not needed; the last entry is that of the items."""
    place = np.empty(len(tree), np.int64)
    place[nodes] = np.arange(len(tree))
    last = np.append(place, 0)
    np.maximum.at(last, tree.parent, place)  # ITEMS is -1: the last entry
    return last
