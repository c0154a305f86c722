"""Cells per item: parts add up to the whole, and a comparison claims no more than the runs show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.cells import UNACCOUNTED, RunTimes, compare_ends, time_cells

durations = st.floats(1e-6, 1e3)
runs = st.lists(st.builds(RunTimes, st.sampled_from(["a", "b"]), st.integers(1, 10_000).map(float), durations,
                          st.dictionaries(st.sampled_from(["load_data", "inference"]), durations)), min_size=1)


@given(runs)
def test_phases_and_the_rest_cover_the_whole(given_runs: list[RunTimes]) -> None:
    for cell in time_cells(given_runs):
        assert cell.low_s <= cell.item_s * (1 + 1e-9) and cell.item_s <= cell.high_s * (1 + 1e-9)
        total = sum(cell.phases_s.values())
        # Phases on a device may overlap: then they exceed the whole, and nothing is unaccounted.
        covered = pytest.approx(cell.item_s) if UNACCOUNTED in cell.phases_s else total
        assert total == covered and total >= cell.item_s * (1 - 1e-9)


def test_batch_sizes_are_compared_per_item() -> None:
    cells = time_cells([RunTimes("8", 80.0, 1.6, {"inference": 1.6}), RunTimes("32", 320.0, 3.2, {"inference": 3.2})])
    assert {cell.cell: cell.item_s for cell in cells} == {"8": 0.02, "32": 0.01}


def test_runs_without_items_or_window_are_left_out() -> None:
    assert time_cells([RunTimes("a", None, 1.0, {}), RunTimes("a", 0.0, 1.0, {}), RunTimes("a", 5.0, None, {}),
                       RunTimes("a", -5.0, 1.0, {}), RunTimes("a", 5.0, -1.0, {})]) == []


@pytest.mark.parametrize(("fast", "slow", "apart"), [
    ([1.0, 1.1], [2.0, 2.2], True), ([1.0, 2.1], [2.0, 2.2], False), ([1.0], [2.0], False)])
def test_apart_needs_repeats_that_do_not_overlap(fast: list[float], slow: list[float], apart: bool) -> None:
    ends = compare_ends(time_cells([RunTimes("fast", 1.0, s, {}) for s in fast]
                                   + [RunTimes("slow", 1.0, s, {}) for s in slow]))
    assert ends and ends.fastest.cell == "fast" and ends.apart is apart
    assert ends.ratio == pytest.approx((sum(slow) / len(slow)) / (sum(fast) / len(fast)))


def test_one_cell_has_nothing_to_be_compared_with() -> None:
    assert compare_ends(time_cells([RunTimes("a", 1.0, 1.0, {})])) is None
