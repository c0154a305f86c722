"""Strategies side by side: ratios over runs, phases that add up, resumed runs left out."""

from __future__ import annotations

import pytest

from analysis.search_prices import find_prices, measured_work
from analysis.search_scaling import Store, Work, count_work
from analysis.strategies import SearchRun, compare_strategies, find_winners


def run(strategy: str, seconds: float, snapshots: str = "half", work: float = 100.0, noisy: bool = False,
        resumed: bool = False) -> SearchRun:
    return SearchRun(snapshots, "same", strategy, seconds, {"inference": seconds * 0.8, "score": seconds * 0.1}, work,
                     10.0, 35, 1024, noisy=noisy, resumed=resumed)


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


def test_the_work_of_a_cell_is_that_of_all_its_runs() -> None:
    """Runs with other seeds draw other stores: their work and its bound are means over the same runs, and memory is
    the highest. A resumed run counts for neither."""
    first, second = (
        run("shared_prefix", 2.0, work=work)._replace(bound_block_items=work - 10, activation_peak_bytes=peak,
                                                      predicted_peak_bytes=peak + 1, kept_peak_bytes=peak / 2)
        for work, peak in ((100.0, 8.0), (200.0, 6.0)))
    left_out = run("shared_prefix", 1.0, work=1.0, resumed=True)._replace(bound_block_items=1.0, kept_peak_bytes=99.0)
    (cell,) = compare_strategies([first, second, left_out])
    assert (cell.block_items, cell.bound_block_items) == (150, 140)
    assert (cell.activation_peak_bytes, cell.predicted_peak_bytes, cell.kept_peak_bytes) == (8, 9, 4)
    (unknown,) = compare_strategies([first, second._replace(bound_block_items=None)])
    assert unknown.bound_block_items is None, "the mean of some runs is not that of the cell"


def test_phases_that_overlap_are_told_and_not_priced_twice() -> None:
    overlapping = run("exhaustive", 2.0)._replace(phases_s={"inference": 2.0, "load_state": 0.5}, block_item_s=0.01,
                                                  block_call_s=0.0)
    (cell,) = compare_strategies([overlapping, overlapping])
    assert cell.overlap_s == pytest.approx(0.5) and "unaccounted" not in cell.phases_s
    work = measured_work(cell, 256)
    assert find_prices({"exhaustive": cell}, 256)["exhaustive"].price(work) == pytest.approx(2.0)
    assert compare_strategies([run("exhaustive", 10.0)])[0].overlap_s == 0


def test_prices_reproduce_the_times_they_came_from() -> None:
    """All strategies with known costs: 2 ms a head and 1 us an item of it, 3 us a block and item, 100 us a call. What
    shared ones did is of a store that no formula knows, and chunks were smaller than was asked for."""
    works = {"exhaustive": Work(10 * 8 * 1000, 10 * 8 * 10, 10 * 8, 10, 10_000),
             "halving": Work(8 * 3625, 8 * (10 * 2 + 5 * 2 + 3 * 3 + 2 * 5), 8 * 20, 20, 6_000),
             "shared_prefix": Work(31_000, 310, 310, 10, 10_000),
             "shared_prefix_halving": Work(9_000, 90, 90, 20, 6_000)}
    runs = []
    for name, work in works.items():
        phases = {"inference": 1.25 * (3e-6 * work.block_items + 1e-4 * work.calls), "load_state": 5e-5 * work.loads,
                  "score": 2e-3 * work.scores + 1e-6 * work.scored_items}
        runs.append(SearchRun("half", "same", name, sum(phases.values()), phases, work.block_items, work.loads, 10,
                              1000, 3e-6, 1e-4, chunk_items=100))
    cells = {cell.strategy: cell for cell in compare_strategies(runs)}
    assert {name: measured_work(cell, 256) for name, cell in cells.items()} == works
    prices = find_prices(cells, 256)
    for name, work in works.items():
        assert prices[name].price(work) == pytest.approx(cells[name].seconds.value)
        assert prices[name].measured_over_priced == pytest.approx(1.25)
        assert prices[name].head_s == pytest.approx(2e-3)
        assert prices[name].head_item_s == pytest.approx(1e-6)


@pytest.mark.parametrize("strategy", ["exhaustive", "halving"])
def test_work_that_was_measured_is_counted_as_work_that_is_not(strategy: str) -> None:
    """Where no prefix is shared the store does not matter: both ways of counting give the same."""
    counted = count_work(strategy, Store(8, 0.5, 0.1), 35, 1024, 256)
    (cell,) = compare_strategies([SearchRun("half", "same", strategy, 1.0, {}, counted.block_items, counted.loads, 35,
                                            1024)])
    assert measured_work(cell, 256) == counted


def test_the_winner_of_each_strategy_has_its_rank_under_exhaustive() -> None:
    rankings = {"exhaustive": {"a": 0.9, "b": 0.9, "c": 0.5, "d": 0.1}, "halving": {"c": 0.8, "a": 0.2},
                "shared_prefix": {"b": 0.9}, "other": {}}
    assert find_winners(rankings) == {"exhaustive": ("a", 1), "halving": ("c", 3), "shared_prefix": ("b", 1)}
    assert find_winners({"halving": {"c": 0.8}}) == {"halving": ("c", None)}


def test_the_price_of_a_cell_is_that_of_all_its_runs() -> None:
    runs = [run("halving", 2.0)._replace(priced_s=price) for price in (1.0, 3.0)]
    assert compare_strategies(runs)[0].priced_s == 2.0
    assert compare_strategies([*runs, run("halving", 2.0)])[0].priced_s is None


def test_a_strategy_without_block_costs_has_no_price() -> None:
    (cell,) = compare_strategies([run("halving", 3.0)])
    assert find_prices({"halving": cell}, 256) == {}
