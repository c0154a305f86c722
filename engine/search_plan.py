"""The plan of a search: what runs on which items in which order, what that costs, and whether it fits. No torch.

Snapshots and a budget in, a plan out. The executor reads the plan and nothing else, so the work and the memory that
are predicted here are the ones that come about.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from engine.params import InputError
from engine.search_steps import Kind, Pass, Step, lone_steps, peak_of, repeating_steps, shared_steps, spell_out
from engine.search_tree import ITEMS, BlockCost, Column, PrefixTree, Snapshot, grow_tree, walk_depth_first

Strategy = Literal["exhaustive", "halving", "shared_prefix", "shared_prefix_halving"]
STRATEGIES: tuple[Strategy, ...] = ("exhaustive", "halving", "shared_prefix", "shared_prefix_halving")
HELD_OUT_EVERY = 5
"""One item in so many is held out for the score: a round needs at least that many."""
SCORE_EVERY = 16
"""Models that are scored at once. Larger groups score faster, smaller ones lose less when a search is killed."""


class Round(NamedTuple):
    """So many models are left and see the items up to `until`; they have seen those before `since` already."""

    models: int
    since: int
    until: int


def plan_rounds(models: int, items: int, strategy: Strategy) -> list[Round]:
    """Halving: ceil(log2 n) rounds, the data doubles up to all items, the better half stays. Else one round."""
    if not strategy.endswith("halving") or models == 1:
        rounds = [Round(models, 0, items)]
    else:
        number = math.ceil(math.log2(models))
        until = [-(-items // 2 ** (number - 1 - index)) for index in range(number)]
        left = [-(-models // 2**index) for index in range(number)]
        rounds = [Round(*part) for part in zip(left, [0, *until], until, strict=False)]
    if rounds[0].until < HELD_OUT_EVERY:
        raise InputError(f"items={items}: the first of {len(rounds)} rounds would have {rounds[0].until}; the score "
                         f"needs {HELD_OUT_EVERY}, so ask for at least "
                         f"{(HELD_OUT_EVERY - 1) * 2 ** (len(rounds) - 1) + 1} items or fewer models")
    return rounds


def better_half(scores: Mapping[str, float]) -> list[str]:
    """The names that stay, best first; equal scores stay in the order of their names."""
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    return ranked[: -(-len(ranked) // 2)]


@dataclass(frozen=True)
class Plan:
    """One round's work, to be executed pass by pass."""

    tree: PrefixTree
    passes: list[Pass]
    chunk_items: int
    """The most items that are under way at once."""
    peak_bytes: int
    """Of activations: items, results that are kept, and what the block at work needs."""
    kept_bytes: int
    """Of that, at its own highest, what is kept for later children."""

    @property
    def block_items(self) -> int:
        """Pairs of a block and an item that run, repetitions included."""
        return sum(p.item_count(Kind.RUN) for p in self.passes) + self.repeated_block_items

    @property
    def repeated_block_items(self) -> int:
        return sum(p.item_count(Kind.RERUN) for p in self.passes)

    @property
    def loads(self) -> int:
        return sum(p.count(Kind.LOAD) for p in self.passes)

    def hungriest_pass(self) -> Pass:
        """The one with the highest peak. Of several each is a model by itself, which keeps nothing: its peak is what
        its hungriest block needs."""
        needs = _bare_needs(self.tree) * self.chunk_items + self.tree.per_node("fixed_bytes")
        return max(self.passes, key=lambda p: int(needs[p.steps.at[p.steps.kind == Kind.RUN]].max()))

    def load_order(self) -> Iterator[int]:
        """The blocks in the order in which they will be asked for: what to fetch ahead."""
        for pass_ in self.passes:
            for number in range(len(pass_.chunks)):
                yield from (at for kind, at, _ in pass_.in_chunk(number) if kind == Kind.LOAD)

    def steps(self) -> Iterator[Step]:
        """Every step, spelled out."""
        for pass_ in self.passes:
            yield from spell_out(pass_, self.tree)


def plan_round(snapshots: Sequence[Snapshot], items: range, strategy: Strategy, costs: Mapping[str, BlockCost],
               item_bytes: int, budget_bytes: int, batch_items: int, score_every: int | None = SCORE_EVERY) -> Plan:
    """Chunks as large as the budget and `batch_items` allow. `score_every` None: all models of the round at once."""
    tree = grow_tree(snapshots, costs, item_bytes)
    at_once = score_every or len(snapshots)
    if not strategy.startswith("shared"):
        bare = _bare_peak(tree)
        chunk = _chunk(tree, bare, budget_bytes, batch_items)
        assert chunk, "a block at work is the least any order needs, and was asked for first"
        chunks = _cut(items, chunk)
        longest = max(map(len, chunks))
        return Plan(tree, [Pass(lone_steps(tree, model), chunks) for model in range(len(snapshots))], longest,
                    bare * longest + _fixed(tree), 0)
    walk = walk_depth_first(tree)
    chunk = _chunk(tree, walk.peak_bytes, budget_bytes, batch_items)
    if chunk:
        steps = shared_steps(tree, walk.nodes, at_once)
    else:
        # Not one item fits with what has to be kept: nothing is kept, and the repetitions are steps with a price.
        chunk = _chunk(tree, _bare_peak(tree), budget_bytes, batch_items)
        steps = repeating_steps(tree, walk.nodes, at_once)
    peak, chunks = peak_of(steps, tree), _cut(items, chunk)
    longest = max(map(len, chunks))
    return Plan(tree, [Pass(steps, chunks)], longest, peak.live_bytes * longest + _fixed(tree),
                peak.kept_bytes * longest)


def _bare_needs(tree: PrefixTree) -> Column:
    """Bytes per item of each node with nothing kept: input, output and workspace of its block."""
    out = tree.per_node("out_bytes").astype(np.int64)
    before = np.where(tree.parent == ITEMS, tree.item_bytes, out[tree.parent])
    needs: Column = before + out + tree.per_node("work_bytes")
    return needs


def _bare_peak(tree: PrefixTree) -> int:
    return int(_bare_needs(tree).max())


def _fixed(tree: PrefixTree) -> int:
    return max(cost.fixed_bytes for cost in tree.costs)


def _chunk(tree: PrefixTree, item_peak: int, budget_bytes: int, batch_items: int) -> int:
    """Items that fit at once; 0 when only an order that keeps less can do it."""
    least = _bare_peak(tree) + _fixed(tree)
    if least > budget_bytes:
        raise InputError(f"budget_bytes={budget_bytes}: one item needs {least} bytes in the hungriest block alone; "
                         f"give at least that")
    return min(batch_items, (budget_bytes - _fixed(tree)) // item_peak)


def _cut(items: range, chunk: int) -> list[range]:
    """Chunks of nearly the same length, none longer than `chunk`."""
    number = -(-len(items) // chunk)
    marks = [items.start + len(items) * index // number for index in range(number + 1)]
    return [range(start, end) for start, end in pairwise(marks)]


class Price(NamedTuple):
    """What a plan will take, from measured block costs. Loading is hidden as far as there is computing to hide it."""

    inference_s: float
    repeated_s: float
    load_s: float
    block_items: int
    loads: int

    @property
    def seconds(self) -> float:
        return self.inference_s + self.repeated_s


def price(plan: Plan) -> Price:
    item_s, call_s, load_s = (plan.tree.per_block(name) for name in ("item_s", "call_s", "load_s"))
    spent = {Kind.RUN: 0.0, Kind.RERUN: 0.0, Kind.LOAD: 0.0}
    for pass_ in plan.passes:
        items, steps = sum(map(len, pass_.chunks)), pass_.steps
        for kind in (Kind.RUN, Kind.RERUN):
            blocks = plan.tree.block[steps.at[steps.kind == kind]]
            spent[kind] += float(item_s[blocks].sum()) * items + float(call_s[blocks].sum()) * len(pass_.chunks)
        loads = steps.kind == Kind.LOAD
        times = np.where(steps.when[loads] == 0, len(pass_.chunks), 1)
        spent[Kind.LOAD] += float((load_s[steps.at[loads]] * times).sum())
    return Price(spent[Kind.RUN], spent[Kind.RERUN], spent[Kind.LOAD], plan.block_items, plan.loads)


def lower_bound(snapshots: Sequence[Snapshot], items: int) -> int:
    """The fewest block-item pairs: each distinct prefix once per item. Counted without a tree, to check the tree."""
    return items * len({tuple(snapshot.blocks[:length]) for snapshot in snapshots
                        for length in range(1, len(snapshot.blocks) + 1)})


def describe_plan(plan: Plan, most: int = 200) -> list[str]:
    """The plan for a person to read: totals, then the first steps, one per line."""
    cost = price(plan)
    lines = [f"{len(plan.tree.names)} models, {len(plan.tree)} distinct prefixes, chunks of up to {plan.chunk_items} "
             f"items; {cost.block_items} block-item pairs ({plan.repeated_block_items} of them repeated), {cost.loads} "
             f"loads; peak {plan.peak_bytes} bytes, kept {plan.kept_bytes} bytes; {cost.seconds:.3f} s of computing"]
    for number, step in enumerate(plan.steps()):
        if number == most:
            lines.append("and so on")
            break
        lines.append(f"items {step.items.start}-{step.items.stop - 1}: {_words(step, plan.tree)}")
    return lines


def _words(step: Step, tree: PrefixTree) -> str:
    block = (step.block or "")[:12]
    match step.kind:
        case Kind.TAKE:
            return "take the items"
        case Kind.LOAD | Kind.DROP:
            return f"{step.kind.name.lower()} {block}"
        case Kind.RUN | Kind.RERUN:
            again = "again " if step.kind == Kind.RERUN else ""
            return f"run {again}{block} on {_node(step.source)}, giving {_node(step.node)}"
        case Kind.COLLECT:
            return f"collect {_node(step.node)} for {tree.names[step.models[0]]}"
        case Kind.SCORE:
            return "score " + ", ".join(tree.names[model] for model in step.models)
    return f"{step.kind.name.lower()} {_node(step.node)}"


def _node(number: int | None) -> str:
    return "the items" if number == ITEMS else f"#{number}"
