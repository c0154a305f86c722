"""Ratios and intervals: against scipy's own test, and the properties that make a ratio one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.comparison import compare, estimate

runs = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=8)


@given(runs, runs)
def test_the_interval_is_welchs(a: list[float], b: list[float]) -> None:
    ratio = compare(a, b)
    assert ratio.low is not None and ratio.high is not None
    assert ratio.low <= ratio.value * (1 + 1e-9) and ratio.value <= ratio.high * (1 + 1e-9)
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    if max(logs_a) - min(logs_a) < 1e-6 or max(logs_b) - min(logs_b) < 1e-6:
        return  # scipy loses its precision there
    interval = stats.ttest_ind(logs_a, logs_b, equal_var=False).confidence_interval(0.95)
    assert math.log(ratio.low) == pytest.approx(interval.low, rel=1e-6, abs=1e-6)
    if ratio.high < math.inf:
        assert math.log(ratio.high) == pytest.approx(interval.high, rel=1e-6, abs=1e-6)


@given(runs, runs)
def test_turned_round_it_is_the_inverse_with_the_opposite_verdict(a: list[float], b: list[float]) -> None:
    there, back = compare(a, b), compare(b, a)
    assert there.value * back.value == pytest.approx(1)
    assert {there.verdict, back.verdict} in ({"higher", "lower"}, {"no difference shown"})


@given(runs, runs, st.floats(1e-3, 1e3))
def test_another_unit_changes_nothing(a: list[float], b: list[float], scale: float) -> None:
    assert compare([x * scale for x in a], [x * scale for x in b]).value == pytest.approx(compare(a, b).value)


def test_one_run_has_no_interval_and_no_verdict() -> None:
    assert estimate([2.0])[:3] == (pytest.approx(2.0), None, None)
    assert compare([1.0], [2.0, 2.1]).verdict == "too few runs to tell"


def test_a_clear_difference_and_none() -> None:
    assert compare([2.0, 2.02, 1.98], [1.0, 1.01, 0.99]).verdict == "higher"
    assert compare([1.0, 1.01, 0.99], [2.0, 2.02, 1.98]).verdict == "lower"
    assert compare([1.0, 1.2, 0.8], [1.1, 0.9, 1.0]).verdict == "no difference shown"
    assert compare([1.0, 1.0], [1.0, 1.0])[:3] == (1.0, 1.0, 1.0)


def test_a_difference_from_two_runs_is_told_as_such() -> None:
    few, enough = [2.0, 2.001], [2.0, 2.001, 2.002]
    assert compare(few, [1.0, 1.001]).caution == compare(enough, [1.0, 1.001]).caution == ", from two runs only"
    assert compare(enough, [1.0, 1.001, 1.002]).caution == ""
    assert compare([1.0, 1.2], [1.1, 0.9]).caution == compare([1.0], [2.0]).caution == "", "nothing is claimed"


def test_the_estimate_is_the_geometric_mean_with_students_interval() -> None:
    found = estimate([1.0, 2.0, 4.0])
    assert found.value == pytest.approx(2.0)
    half = 4.302652729911275 * math.log(2) / math.sqrt(3)
    assert found.low == pytest.approx(2 * math.exp(-half)) and found.high == pytest.approx(2 * math.exp(half))
