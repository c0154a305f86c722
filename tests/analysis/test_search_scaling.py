"""The work of a search that is never planned is the work that the planner would have found."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.search_scaling import SHARES, Store, _count, can_halve, count_work, halving_rounds, items_to_halve
from engine.params import InputError
from engine.search_plan import lower_bound, plan_rounds
from engine.search_tree import Snapshot
from engine.synthetic_snapshots import DISTRIBUTIONS, draw_descent, names_of


@given(models=st.integers(1, 400), seed=st.integers(0, 9), share=st.floats(0.05, 1))
def test_prefixes_of_survivors_are_counted_as_a_tree_would(models: int, seed: int, share: float) -> None:
    descent = draw_descent("quarter", models, 12, seed)
    names = names_of(descent, 12)
    survivors = random.Random(seed).sample(range(models), max(1, round(models * share)))
    expected = lower_bound([Snapshot(str(number), names[number]) for number in survivors], 1)
    parents = [0, *(step.parent for step in descent)]
    shares = [0, *(12 - step.new_blocks for step in descent)]
    assert _count(parents, shares, survivors, 12) == expected


@given(models=st.integers(1, 5000), items=st.integers(50_000, 10**6))
def test_rounds_are_the_planners(models: int, items: int) -> None:
    assert halving_rounds(models, items) == [tuple(r) for r in plan_rounds(models, items, "halving")]


def test_the_bounds_of_35_models() -> None:
    """24, 17 and 12 times less work than exhaustive for the three distributions, 7.6 times for halving alone."""
    whole = count_work("exhaustive", Store(50, 0.1, 0.05), 35, 1024, 256)
    assert whole == (35 * 50 * 1024, 35 * 50 * 4, 35 * 50, 35, 35 * 1024)
    for mean, deviation, times in ((0.1, 0.05, 24), (0.25, 0.125, 17), (0.5, 0.125, 12)):
        both = count_work("shared_prefix_halving", Store(50, mean, deviation), 35, 1024, 256)
        assert whole.block_items / both.block_items == pytest.approx(times, rel=0.12)
    halving = count_work("halving", Store(50, 0.1, 0.05), 35, 1024, 256)
    assert whole.block_items / halving.block_items == pytest.approx(7.62, abs=0.01)


def test_shares_and_limits_are_the_engines() -> None:
    assert {name: tuple(shares) for name, shares in DISTRIBUTIONS.items()} == SHARES
    for models in (2, 35, 1000, 50_000):
        enough = items_to_halve(models)
        assert plan_rounds(models, enough, "halving")
        assert can_halve(models, enough)
        assert not can_halve(models, enough - 1)
        with pytest.raises(InputError):
            plan_rounds(models, enough - 1, "halving")


def test_loads_grow_with_chunks_only_where_prefixes_are_shared() -> None:
    store = Store(50, 0.1, 0.05)
    assert count_work("exhaustive", store, 10, 1000, 100).loads == 500
    one = count_work("shared_prefix", store, 10, 1000, 1000)
    assert count_work("shared_prefix", store, 10, 1000, 100).loads == 10 * one.loads
    assert one.block_items == 1000 * one.loads
