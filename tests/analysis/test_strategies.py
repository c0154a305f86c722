"""Strategies side by side: ratios over runs, phases that add up, resumed runs left out."""

from __future__ import annotations

import pytest

from analysis.strategies import SearchRun, compare_strategies, rates_of


def run(strategy: str, seconds: float, snapshots: str = "half", work: float = 100.0, noisy: bool = False,
        resumed: bool = False) -> SearchRun:
    return SearchRun(snapshots, "same", strategy, seconds, {"inference": seconds * 0.8, "score": seconds * 0.1}, work,
                     10.0, 35, 1024, noisy, resumed)


def test_strategies_come_in_a_fixed_order_with_their_ratio_to_exhaustive() -> None:
    found = compare_strategies([run("shared_prefix", 2.0, work=20), run("exhaustive", 10.0), run("exhaustive", 10.2),
                                run("shared_prefix", 2.1, work=20), run("halving", 3.0, noisy=True)])
    assert [cell.strategy for cell in found] == ["exhaustive", "halving", "shared_prefix"]
    exhaustive, halving, shared = found
    assert (exhaustive.faster, exhaustive.less_work) == (None, None)
    assert shared.faster
    assert shared.faster.value == pytest.approx(4.93, abs=0.01)
    assert shared.faster.verdict == "higher"
    assert shared.less_work == 5
    assert halving.faster
    assert halving.faster.verdict == "too few runs to tell"
    assert (halving.noisy_runs, shared.noisy_runs) == (1, 0)
    assert sum(shared.phases_s.values()) == pytest.approx(2.05)
    assert shared.phases_s["unaccounted"] == pytest.approx(0.205)


def test_a_resumed_run_is_no_measurement_of_a_search() -> None:
    found = compare_strategies([run("exhaustive", 10.0), run("exhaustive", 1.0, resumed=True)])
    assert [(cell.runs, cell.seconds.value) for cell in found] == [(1, pytest.approx(10.0))]


def test_stores_are_compared_with_themselves_only() -> None:
    found = compare_strategies([run("exhaustive", 10.0, "half"), run("halving", 2.0, "quarter")])
    assert all(cell.faster is None for cell in found)


def test_rates_reproduce_the_time_they_came_from() -> None:
    (cell,) = compare_strategies([run("halving", 3.0)])
    rates = rates_of(cell, 500.0)
    whole = rates.block_item_s * cell.block_items + rates.load_s * cell.loads + rates.score_s * 500
    assert whole == pytest.approx(3.0)
