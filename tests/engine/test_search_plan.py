"""Plans over random stores and budgets: step lists are valid, prices right, and memory is what they say."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.params import InputError
from engine.search_plan import (
    Plan,
    better_half,
    describe_plan,
    lower_bound,
    plan_round,
    plan_rounds,
    price,
)
from engine.search_steps import Kind, peak_of, shared_steps
from engine.search_tree import ITEMS, BlockCost, Snapshot, grow_tree, walk_as_listed, walk_depth_first
from engine.synthetic_snapshots import draw_descent, names_of

ITEM_BYTES = 7


@st.composite
def stores(draw: st.DrawFn) -> tuple[list[Snapshot], dict[str, BlockCost]]:
    """Snapshots of different lengths that copy each other's beginnings; blocks of different sizes. Some snapshots are
    the same, some are the beginning of another, and a block can come back behind another prefix."""
    made: list[list[str]] = []
    for number in range(draw(st.integers(1, 9))):
        base = draw(st.sampled_from(made)) if made else []
        kept = draw(st.integers(0, len(base)))
        new = [draw(st.sampled_from(["again", f"{number}.{index}"])) for index in range(draw(st.integers(0, 5)))]
        made.append(base[:kept] + new or [f"{number}.only"])
    blocks = sorted({block for model in made for block in model})
    costs = {block: BlockCost(draw(st.integers(1, 50)), draw(st.integers(0, 30)), 0, 1.0, 10.0, 100.0)
             for block in blocks}
    return [Snapshot(f"m{number}", model) for number, model in enumerate(made)], costs


def plan_for(store: tuple[list[Snapshot], dict[str, BlockCost]], items: int, strategy: str, budget: int = 10**9,
             batch: int = 10**6) -> Plan:
    snapshots, costs = store
    return plan_round(snapshots, range(items), strategy, costs, ITEM_BYTES, budget, batch)  # type: ignore[arg-type]


def follow(plan: Plan, costs: dict[str, BlockCost]) -> tuple[int, Counter[tuple[int, int]], dict[str, int]]:
    """Do what the steps say, with sizes for tensors: the peak, how often each node saw each item, the models' ends."""
    live: dict[int, int] = {}
    loaded: set[str] = set()
    seen: Counter[tuple[int, int]] = Counter()
    ends: dict[str, int] = {}
    peak = 0
    scored: list[int] = []
    for step in plan.steps():
        count = len(step.items)
        if step.kind == Kind.TAKE:
            live[ITEMS] = ITEM_BYTES * count
        elif step.kind == Kind.LOAD:
            assert step.block
            loaded.add(step.block)
        elif step.kind == Kind.DROP:
            assert step.block
            loaded.remove(step.block)
        elif step.kind in (Kind.RUN, Kind.RERUN):
            assert step.block in loaded
            assert step.source in live
            assert step.node is not None
            live[step.node] = costs[step.block].out_bytes * count
            peak = max(peak, sum(live.values()) + costs[step.block].work_bytes * count)
            if step.kind == Kind.RUN:
                seen.update((step.node, item) for item in step.items)
        elif step.kind == Kind.RELEASE:
            assert step.node is not None
            del live[step.node]
        elif step.kind == Kind.COLLECT:
            assert step.node in live
            ends[plan.tree.names[step.models[0]]] = step.node
        elif step.kind == Kind.SCORE:
            scored += step.models
    assert live == {}
    assert loaded == set()
    assert sorted(scored) == list(range(len(plan.tree.names)))
    return peak, seen, ends


@settings(deadline=None, max_examples=150)
@given(store=stores(), items=st.integers(1, 12), batch=st.integers(1, 12))
def test_each_distinct_prefix_runs_once_per_item(store: tuple[list[Snapshot], dict[str, BlockCost]], items: int,
                                                 batch: int) -> None:
    plan = plan_for(store, items, "shared_prefix", batch=batch)
    peak, seen, ends = follow(plan, store[1])
    assert set(seen.values()) == {1}
    assert sum(seen.values()) == plan.block_items == lower_bound(store[0], items)
    assert peak == plan.peak_bytes
    for snapshot in store[0]:
        path = plan.tree.path(ends[snapshot.name])
        assert [plan.tree.blocks[plan.tree.block[node]] for node in path] == list(snapshot.blocks)


@settings(deadline=None, max_examples=150)
@given(store=stores(), items=st.integers(1, 12), budget=st.integers(1, 2000),
       strategy=st.sampled_from(["exhaustive", "shared_prefix"]))
def test_a_budget_is_kept_or_refused(store: tuple[list[Snapshot], dict[str, BlockCost]], items: int, budget: int,
                                     strategy: str) -> None:
    """With chunks, with repetitions that are counted as such, or not at all: then one sentence with what it takes."""
    snapshots, costs = store
    least = max(before + costs[block].out_bytes + costs[block].work_bytes for snapshot in snapshots
                for before, block in zip([ITEM_BYTES, *(costs[b].out_bytes for b in snapshot.blocks)], snapshot.blocks,
                                         strict=False))
    if budget < least:
        with pytest.raises(InputError, match=f"^budget_bytes={budget}: one item needs {least} bytes .* at least that$"):
            plan_for(store, items, strategy, budget)
        return
    plan = plan_for(store, items, strategy, budget)
    peak, seen, _ = follow(plan, costs)
    assert peak == plan.peak_bytes <= budget
    whole = items * sum(len(snapshot.blocks) for snapshot in snapshots)
    if strategy == "exhaustive":
        assert plan.block_items == whole
    else:
        assert set(seen.values()) == {1}
        assert plan.block_items - plan.repeated_block_items == lower_bound(snapshots, items)
        assert plan.block_items in (lower_bound(snapshots, items), whole), "all is kept or nothing"


@settings(deadline=None, max_examples=100)
@given(store=stores(), items=st.integers(1, 12), batch=st.integers(1, 12),
       strategy=st.sampled_from(["exhaustive", "shared_prefix"]))
def test_weights_are_asked_for_when_their_block_runs(store: tuple[list[Snapshot], dict[str, BlockCost]], items: int,
                                                     batch: int, strategy: str) -> None:
    """No strategy asks for several blocks at once, which reading ahead could not hide."""
    for step, following in pairwise(plan_for(store, items, strategy, batch=batch).steps()):
        if step.kind == Kind.LOAD:
            assert (following.kind, following.block) == (Kind.RUN, step.block)


@settings(deadline=None, max_examples=100)
@given(store=stores(), items=st.integers(1, 12))
def test_the_hungriest_pass_has_the_plans_peak(store: tuple[list[Snapshot], dict[str, BlockCost]], items: int) -> None:
    plan = plan_for(store, items, "exhaustive")
    assert peak_of(plan.hungriest_pass().steps, plan.tree).live_bytes * plan.chunk_items == plan.peak_bytes


@settings(deadline=None, max_examples=100)
@given(store=stores())
def test_no_order_of_children_needs_less_than_the_neediest_last(
        store: tuple[list[Snapshot], dict[str, BlockCost]]) -> None:
    """Against every choice of the last child, tried out by recursion."""
    tree = grow_tree(store[0], store[1], ITEM_BYTES)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(node)
    out, work = tree.per_node("out_bytes").tolist(), tree.per_node("work_bytes").tolist()

    def best(node: int) -> int:
        held = ITEM_BYTES if node == ITEMS else out[node]
        below = children.get(node, [])
        if not below:
            return int(held)
        starting = max(held + out[child] + work[child] for child in below)
        return int(min(max(starting, best(last), *(held + best(child) for child in below if child != last))
                       for last in below))

    walk = walk_depth_first(tree)
    assert walk.peak_bytes == best(ITEMS) == peak_of(shared_steps(tree, walk.nodes, 4), tree).live_bytes


def test_halving_doubles_the_data_and_ends_with_two() -> None:
    rounds = plan_rounds(35, 1024, "shared_prefix_halving")
    assert [(r.models, r.since, r.until) for r in rounds] == [
        (35, 0, 32), (18, 32, 64), (9, 64, 128), (5, 128, 256), (3, 256, 512), (2, 512, 1024)]
    assert 35 * 1024 / sum(r.models * (r.until - r.since) for r in rounds) == pytest.approx(7.62, abs=0.01)
    assert len(plan_rounds(35, 1024, "exhaustive")) == 1
    assert len(plan_rounds(1, 1024, "halving")) == 1


@given(models=st.integers(2, 3000), items=st.integers(5, 10**6))
def test_rounds_are_the_logarithm_of_the_models(models: int, items: int) -> None:
    number = math.ceil(math.log2(models))
    if items <= 4 * 2 ** (number - 1):
        with pytest.raises(InputError, match=f"items={items}: the first of {number} rounds"):
            plan_rounds(models, items, "halving")
        return
    rounds = plan_rounds(models, items, "halving")
    assert len(rounds) == number
    assert rounds[-1].until == items
    assert rounds[-1].models == 2
    for one, two in pairwise(rounds):
        assert one.until == two.since < two.until <= 2 * one.until
        assert two.models == -(-one.models // 2)


def test_equal_scores_stay_in_the_order_of_their_names() -> None:
    assert better_half({"b": 1.0, "a": 1.0, "c": 1.0}) == ["a", "b"]
    assert better_half({"a": 1.0, "b": 2.0}) == ["b"]


def test_a_plan_can_be_read_and_a_repetition_has_its_price() -> None:
    snapshots = [Snapshot("one", ["stem", "left"]), Snapshot("two", ["stem", "right"])]
    costs = dict.fromkeys(("stem", "left", "right"), BlockCost(10, 0, 0, 1.0, 0.5, 0.25))
    kept = plan_round(snapshots, range(4), "shared_prefix", costs, 1, 1000, 100)
    assert [line.partition(": ")[2] for line in describe_plan(kept)[1:]] == [
        "take the items", "load stem", "run stem on the items, giving #0", "drop stem", "release the items", "keep #0",
        "load left", "run left on #0, giving #1", "drop left", "collect #1 for one", "release #1",
        "load right", "run right on #0, giving #2", "drop right", "release #0", "collect #2 for two", "release #2",
        "score one, two"]
    assert price(kept) == (3 * (4 * 1.0 + 0.5), 0.0, 3 * 0.25, 12, 3)
    # 29 bytes: too few to keep the stem's result beside what another block needs, enough for one block at work.
    longer = [Snapshot(name, [*blocks, "top"]) for name, blocks in snapshots]
    tight = plan_round(longer, range(4), "shared_prefix", {**costs, "top": costs["stem"]}, 1, 29, 100)
    assert (tight.block_items, tight.repeated_block_items, tight.chunk_items) == (4 * 6, 4, 1)
    assert price(tight).repeated_s == 4 * (1.0 + 0.5)
    assert any("run again stem" in line for line in describe_plan(tight))


@pytest.mark.parametrize("distribution", ["quarter", "half"])
def test_depth_first_keeps_a_third_of_what_going_model_by_model_keeps(distribution: str) -> None:
    for seed in range(5):
        models = names_of(draw_descent(distribution, 35, 50, seed), 50)
        costs = dict.fromkeys({block for model in models for block in model}, BlockCost(1))
        tree = grow_tree([Snapshot(str(n), model) for n, model in enumerate(models)], costs, 1)
        kept = [peak_of(shared_steps(tree, walk(tree).nodes, 16), tree).kept_bytes
                for walk in (walk_depth_first, walk_as_listed)]
        assert 3 * kept[0] <= kept[1]
