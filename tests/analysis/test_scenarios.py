"""Break-even, shares and extrapolation: the study's own figures come out, and the two slips of it do not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.scenarios import (
    SHIFT_INFERENCE,
    STUDY,
    Basis,
    Scenario,
    break_even,
    compare_with_shift,
    extrapolate,
    mean_inference,
    model_counts,
    search_share,
)


def test_the_studys_scenarios() -> None:
    assert [(s.name, s.training_s, break_even(s)) for s in STUDY] == [("S1", 91.0, 22), ("S2", 500.0, 125)]


def test_the_mean_of_the_list_is_over_all_its_terms() -> None:
    assert len(SHIFT_INFERENCE) == 101
    assert round(mean_inference(), 2) == 17.46
    assert round(sum(SHIFT_INFERENCE) / 100, 2) == 17.63, "what the study printed"


def test_every_step_of_the_comparison_with_shift() -> None:
    steps = {step.what: step for step in compare_with_shift()}
    assert steps["One model, our data, their epochs"].low == pytest.approx(200)
    data = steps["One model, their data"]
    assert (data.low, data.high) == (pytest.approx(2000), pytest.approx(3000))
    hours = steps["All their models"]
    assert (round(hours.low), round(hours.high or 0), hours.unit) == (56, 83, "h")
    assert "65" in hours.differs
    scaled = steps["Our figure in their setting"]
    assert (round(scaled.low, 1), round(scaled.high or 0, 1)) == (80.8, 121.2)
    longer = steps["They take longer by"]
    assert (round(longer.low, 1), round(longer.high or 0, 1)) == (2.1, 3.7)
    assert all(not re.search(r"\d{5}", step.how) for step in steps.values()), "readable"


SECONDS = st.floats(1e-3, 1e6)


@given(SECONDS, SECONDS, st.floats(0.1, 100))
def test_at_the_break_even_searching_takes_no_longer_and_one_model_later_it_does(run_s: float, search_s: float,
                                                                                runs: float) -> None:
    scenario = Scenario("own", run_s, runs, search_s)
    models = break_even(scenario)
    assert models * search_s <= scenario.training_s * (1 + 1e-9)
    assert (models + 1) * search_s > scenario.training_s * (1 - 1e-9)
    if models:
        assert search_share(scenario, models) <= 0.5 + 1e-9
    assert search_share(scenario, models + 1) >= 0.5 - 1e-9


@given(SECONDS, SECONDS)
def test_counts_reach_from_one_to_the_most_with_the_break_even_among_them(run_s: float, search_s: float) -> None:
    scenario = Scenario("own", run_s, 1, search_s)
    counts = model_counts(scenario)
    assert counts == sorted(set(counts)) and (counts[0], counts[-1]) == (1, 100_000)
    assert break_even(scenario) in counts or not 1 <= break_even(scenario) <= 100_000


def test_extrapolation_is_linear_in_images_and_epochs() -> None:
    measured = Basis(91.0, 3.9, 4000, 10)
    assert extrapolate(measured, "own", 4000, 10, 1) == Scenario("own", 91.0, 1, 3.9)
    grown = extrapolate(measured, "own", 40_000, 20, 2.5)
    assert (grown.run_s, grown.search_s, grown.training_s) == pytest.approx((1820.0, 39.0, 4550.0))


def test_a_search_is_extraction_and_the_chosen_score() -> None:
    measured = Basis(91.0, 3.0, 4000, 10, {"linear": 1.0, "lda": 0.5})
    assert [extrapolate(measured, "own", 8000, 10, 1, score).search_s for score in ("linear", "lda", "")] == [8, 7, 6]
