"""What snapshots share, small enough to draw: runs of blocks without a fork are one part. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.search_tree import ITEMS, BlockCost, Snapshot, grow_tree, walk_depth_first

MOST_PARTS = 2_000
"""More cannot be read on a page: then there is no outline."""


def outline(snapshots: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """Parts in the order in which they run: the part before it, its first and last block (from 1), the models that use
    it and the ones that end with it."""
    tree = grow_tree(snapshots, _Equal(), 1)
    children = np.bincount(tree.parent[tree.parent >= 0], minlength=len(tree))
    ending: dict[int, list[str]] = {}
    for name, node in zip(tree.names, tree.ends.tolist(), strict=True):
        ending.setdefault(node, []).append(name)
    users = np.bincount(tree.ends, minlength=len(tree))
    for node in range(len(tree) - 1, -1, -1):
        if tree.parent[node] != ITEMS:
            users[tree.parent[node]] += users[node]
    part_of: dict[int, int] = {}
    parts: list[dict[str, Any]] = []
    for node in walk_depth_first(tree).nodes.tolist():
        before, depth = int(tree.parent[node]), int(tree.depth[node])
        if before != ITEMS and children[before] == 1 and before not in ending:
            part_of[node] = part_of[before]
            parts[part_of[node]]["last"] = depth
        else:
            part_of[node] = len(parts)
            parts.append({"before": part_of.get(before), "first": depth, "last": depth, "models": int(users[node]),
                          "ends": []})
        parts[part_of[node]]["ends"] = ending.get(node, [])
    return parts if len(parts) <= MOST_PARTS else []


class _Equal(dict[str, BlockCost]):
    """Every block alike: the outline is about what is shared, not about what it costs."""

    def __missing__(self, block: str) -> BlockCost:
        return BlockCost(1)
