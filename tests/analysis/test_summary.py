"""A run reduced to what is shown: the steady state, the first batch, medians, and time that no phase accounts for."""

from __future__ import annotations

import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.summary import BatchTimes, PhaseTimes, RunSummary, first_steady_batch, summarise_run

SECONDS = st.floats(0, 1e4, allow_subnormal=False)


def metrics_of(summary: RunSummary) -> dict[str, float]:
    return {metric.name: metric.value for metric in summary.metrics}


def even_batches(count: int, seconds: float = 1.0, items: int = 4) -> BatchTimes:
    return BatchTimes([items] * count, [index * seconds for index in range(count)], [seconds] * count)


def phase(*seconds: float, start_s: float = 0.0, first: int = 0) -> PhaseTimes:
    return PhaseTimes("host", list(range(first, first + len(seconds))), [start_s] * len(seconds), list(seconds))


# -- the steady state --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batches", "workers", "expected"), [
    (0, 0, None), (1, 0, None), (2, 0, 1), (2, None, 1), (1, 1, None), (2, 1, 1), (4, 4, None), (5, 4, 4),
    (3, 64, None), (100, 8, 8)])
def test_the_steady_state_begins_after_one_batch_per_worker(
        batches: int, workers: int | None, expected: int | None) -> None:
    assert first_steady_batch(batches, workers) == expected


@given(st.integers(0, 200), st.one_of(st.none(), st.integers(0, 200)))
def test_too_short_is_exactly_not_more_batches_than_workers(batches: int, workers: int | None) -> None:
    start = first_steady_batch(batches, workers)
    assert (start is None) == (batches <= max(workers or 0, 1))
    assert start is None or 1 <= start < batches


def test_a_run_that_is_too_short_has_no_steady_numbers() -> None:
    summary = summarise_run(even_batches(4), {"load_data": phase(1, 2, 3, 4)}, {}, 4, 4.0, None)
    assert not any(name.startswith("steady") for name in metrics_of(summary))
    assert summary.phases[0].steady_median_s is None
    assert summary.phases[0].median_s == 2.5


def test_the_steady_state_leaves_out_the_start() -> None:
    """Two workers: the first two batches carry their start-up, 10 s each, the rest takes 1 s."""
    batches = BatchTimes([4] * 6, [0, 10, 20, 21, 22, 23], [10, 10, 1, 1, 1, 1])
    summary = summarise_run(batches, {"load_data": phase(9, 9, 0.5, 0.5, 0.25, 0.5)}, {}, 2, 24.0, None)
    assert metrics_of(summary) | {"steady_batches": 4, "steady_batch_s": 1.0, "steady_items_per_s": 4.0} == \
        metrics_of(summary)
    row, = summary.phases
    assert (row.median_s, row.steady_median_s, row.first_s, row.total_s, row.number) == (0.5, 0.5, 9, 19.75, 6)


def test_throughput_is_of_the_window_and_not_of_a_median_batch() -> None:
    """With waits that come in groups a median batch would be four times too fast."""
    batches = BatchTimes([8] * 9, [0.0] * 9, [5.0, 0.1, 0.1, 0.1, 0.7, 0.1, 0.1, 0.1, 0.7])
    assert metrics_of(summarise_run(batches, {}, {}, 1, None, None))["steady_items_per_s"] == pytest.approx(64 / 2.0)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-6, 1e3)), min_size=1, max_size=50),
       st.integers(0, 60))
def test_steady_throughput_lies_between_the_slowest_and_the_fastest_batch(
        drawn: list[tuple[int, float]], workers: int) -> None:
    items, seconds = [count for count, _ in drawn], [took for _, took in drawn]
    metrics = metrics_of(summarise_run(BatchTimes(items, [0.0] * len(items), seconds), {}, {}, workers, None, None))
    start = max(workers, 1)
    assert ("steady_items_per_s" in metrics) == (len(drawn) > start)
    if len(drawn) > start:
        speeds = [count / took for count, took in drawn[start:]]
        assert min(speeds) * (1 - 1e-9) <= metrics["steady_items_per_s"] <= max(speeds) * (1 + 1e-9)
        assert metrics["steady_batches"] == len(drawn) - start
        assert metrics["steady_batch_s"] * metrics["steady_batches"] == pytest.approx(sum(seconds[start:]))


# -- the first batch ---------------------------------------------------------------------------------------------------


def test_the_first_batch_is_counted_from_the_windows_start_until_it_is_delivered() -> None:
    batches = BatchTimes([4, 4], [10.0, 13.0], [3.0, 1.0])
    loading = PhaseTimes("host", [0, 1], [10.25, 13.0], [2.5, 0.5])
    assert metrics_of(summarise_run(batches, {"load_data": loading}, {}, 1, 4.0, None))["first_batch_s"] == 2.75


@pytest.mark.parametrize("phases", [{}, {"inference": phase(1, 1)}, {"load_data": phase(1, first=1)},
                                    {"load_data": phase()}])
def test_without_the_first_load_there_is_no_first_batch(phases: dict[str, PhaseTimes]) -> None:
    phases = {name: times for name, times in phases.items() if times.seconds}
    assert "first_batch_s" not in metrics_of(summarise_run(even_batches(2), phases, {}, 0, 2.0, None))


def test_a_phase_that_batch_0_did_not_have_has_no_first_time() -> None:
    summary = summarise_run(even_batches(3), {"score": phase(0.5, 0.25, first=1)}, {}, 0, 3.0, None)
    assert summary.phases[0].first_s is None
    assert summary.phases[0].steady_median_s == 0.375


# -- time that no phase accounts for -----------------------------------------------------------------------------------


PHASES = st.dictionaries(st.sampled_from(["load_data", "data_to_device", "inference", "backward"]),
                         st.lists(SECONDS, min_size=1, max_size=20).map(lambda seconds: phase(*seconds)), min_size=1)


@given(PHASES, SECONDS)
def test_phases_and_unaccounted_less_overlapped_are_the_window(phases: dict[str, PhaseTimes], window_s: float) -> None:
    metrics = metrics_of(summarise_run(even_batches(20), phases, {}, 0, window_s, None))
    unaccounted, overlapped = metrics["unaccounted_s"], metrics["overlapped_s"]
    assert unaccounted >= 0
    assert overlapped >= 0
    assert min(unaccounted, overlapped) == 0
    total = sum(sum(times.seconds) for times in phases.values())
    assert total + unaccounted - overlapped == pytest.approx(window_s, rel=1e-9, abs=1e-6)


def test_overlap_on_a_device_is_shown_as_such() -> None:
    """The device computes 3 s of a 2 s window: 1 s ran beside the host's phases."""
    metrics = metrics_of(summarise_run(even_batches(2), {"load_data": phase(0.5, 0.5), "inference": phase(1, 1)}, {},
                                       0, 2.0, None))
    assert (metrics["unaccounted_s"], metrics["overlapped_s"]) == (0.0, 1.0)


@pytest.mark.parametrize(("phases", "window_s"), [({}, 1.0), ({"inference": phase(1)}, None), ({}, None)])
def test_nothing_is_accounted_without_a_window_or_without_phases(
        phases: dict[str, PhaseTimes], window_s: float | None) -> None:
    metrics = metrics_of(summarise_run(even_batches(1), phases, {}, 0, window_s, None))
    assert not {"unaccounted_s", "overlapped_s"} & metrics.keys()


def test_a_window_that_is_not_a_number_gives_no_number() -> None:
    metrics = metrics_of(summarise_run(even_batches(1), {"inference": phase(1)}, {}, 0, math.nan, None))
    assert math.isnan(metrics["unaccounted_s"])
    assert math.isnan(metrics["overlapped_s"])


# -- medians and samples -----------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(0, 70))
def test_medians_and_totals_are_those_of_the_values(seconds: list[float], workers: int) -> None:
    row, = summarise_run(even_batches(len(seconds)), {"inference": phase(*seconds)}, {}, workers, None, None).phases
    start = max(workers, 1)
    assert row.median_s == pytest.approx(median(seconds), rel=1e-12, abs=1e-12)
    assert row.total_s == pytest.approx(math.fsum(seconds), rel=1e-9, abs=1e-6)
    assert row.first_s == seconds[0]
    if len(seconds) > start:
        assert row.steady_median_s == pytest.approx(median(seconds[start:]), rel=1e-12, abs=1e-12)
    else:
        assert row.steady_median_s is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_samples_are_reduced_without_leaving_their_range(values: list[float]) -> None:
    row, = summarise_run(even_batches(0), {}, {("gpu0", "power_watts"): values}, 0, None, None).samples
    assert (row.device, row.metric, row.number) == ("gpu0", "power_watts", len(values))
    assert (row.minimum, row.maximum) == (min(values), max(values))
    assert row.median == pytest.approx(median(values), rel=1e-12, abs=1e-12)
    margin = 1e-6
    assert row.minimum - margin <= row.mean <= row.maximum + margin


def test_an_empty_run_has_an_empty_summary() -> None:
    assert summarise_run(BatchTimes([], [], []), {}, {}, None, None, None) == ([], [], [], None, "")


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_window_without_length_has_no_throughput(seconds: float) -> None:
    metrics = metrics_of(summarise_run(even_batches(3, seconds), {}, {}, 0, None, None))
    assert "steady_items_per_s" not in metrics
    assert metrics["steady_batches"] == 2
