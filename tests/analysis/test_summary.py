"""A run reduced to what is shown: the steady state, the first batch, medians, and time that no phase accounts for."""

from __future__ import annotations

import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.summary import (
    BatchTimes,
    Loader,
    PhaseTimes,
    Readings,
    RunSummary,
    Window,
    steady_batches,
    summarise_run,
)

SECONDS = st.floats(0, 1e4, allow_subnormal=False)


def metrics_of(summary: RunSummary) -> dict[str, float]:
    return {metric.name: metric.value for metric in summary.metrics}


def even_batches(count: int, seconds: float = 1.0, items: int = 4) -> BatchTimes:
    return BatchTimes([items] * count, [index * seconds for index in range(count)], [seconds] * count)


def phase(*seconds: float, start_s: float = 0.0, first: int = 0) -> PhaseTimes:
    return PhaseTimes("host", list(range(first, first + len(seconds))), [start_s] * len(seconds), list(seconds))


def summarise(batches: BatchTimes, phases: dict[str, PhaseTimes], workers: int | None = 0,
              window_s: float | None = None) -> RunSummary:
    return summarise_run(batches, phases, {}, Loader(workers), Window(window_s), None)


# -- the steady state --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batches", "workers", "prefetch", "expected"), [
    (0, 0, None, None), (1, 0, None, None), (2, 0, None, range(1, 2)), (2, None, None, range(1, 2)),
    (3, 1, 2, None), (4, 1, 2, range(1, 2)), (12, 4, 2, None), (13, 4, 2, range(4, 5)), (13, 4, None, range(4, 5)),
    (3, 64, 2, None), (100, 8, 2, range(8, 84)), (100, 8, 4, range(8, 68))])
def test_the_steady_state_lies_between_start_up_and_the_idle_loader(
        batches: int, workers: int | None, prefetch: int | None, expected: range | None) -> None:
    """Not in it: one batch per worker at the start, and at the end as many as the workers keep ready."""
    assert steady_batches(batches, Loader(workers, prefetch)) == expected


def test_a_stopped_clock_does_not_slow_the_steady_state() -> None:
    """Batches of one second, with a pause of 100 s before the fourth: validation after an epoch."""
    starts = [0.0, 1.0, 2.0, 103.0, 104.0]
    metrics = metrics_of(summarise(BatchTimes([4] * 5, starts, [1.0] * 5), {}))
    assert (metrics["steady_batches"], metrics["steady_batch_s"], metrics["steady_items_per_s"]) == (4, 1.0, 4.0)


def test_a_run_that_is_too_short_has_no_steady_numbers() -> None:
    summary = summarise(even_batches(4), {"load_data": phase(1, 2, 3, 4)}, workers=4, window_s=4.0)
    assert not any(name.startswith("steady") for name in metrics_of(summary))
    assert summary.phases[0].steady_median_s is None
    assert summary.phases[0].median_s == 2.5


def test_the_steady_state_leaves_out_the_start_and_the_end() -> None:
    """One worker that keeps two batches ready: 10 s of start-up, then 1 s each, and the last two need no waiting."""
    seconds = [10, 1, 1, 1, 0.25, 0.25]
    batches = BatchTimes([4] * 6, [0, 10, 11, 12, 13, 13.25], seconds)
    summary = summarise(batches, {"load_data": PhaseTimes(
        "host", list(range(6)), batches.start_s, [9, 0.5, 0.75, 0.5, 0, 0])}, workers=1, window_s=13.5)
    metrics = metrics_of(summary)
    assert (metrics["steady_batches"], metrics["steady_batch_s"], metrics["steady_items_per_s"]) == (3, 1.0, 4.0)
    row, = summary.phases
    assert (row.median_s, row.steady_median_s, row.first_s, row.total_s, row.number) == (0.5, 0.5, 9, 10.75, 6)


def test_throughput_is_of_the_stretch_and_not_of_a_median_batch() -> None:
    """With waits that come in groups a median batch would be four times too fast."""
    seconds = [5.0, 0.1, 0.1, 0.1, 0.7, 0.1, 0.1, 0.1, 0.7]
    batches = BatchTimes([8] * 9, [sum(seconds[:index]) for index in range(9)], seconds)
    assert metrics_of(summarise(batches, {}))["steady_items_per_s"] == pytest.approx(64 / 2.0)


def test_a_device_that_works_behind_the_host_is_not_taken_for_fast() -> None:
    """The host hands out 20 batches in 20 ms; the device takes 50 ms for each of them."""
    batches = BatchTimes([32] * 20, [index * 0.001 for index in range(20)], [0.001] * 20)
    device = PhaseTimes("device", list(range(20)), [index * 0.05 for index in range(20)], [0.05] * 20)
    metrics = metrics_of(summarise(batches, {"inference": device}, window_s=1.0))
    assert metrics["steady_items_per_s"] == pytest.approx(32 / 0.05)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-3, 1e3)), min_size=1, max_size=50),
       st.integers(0, 20))
def test_steady_throughput_lies_between_the_slowest_and_the_fastest_batch(
        drawn: list[tuple[int, float]], workers: int) -> None:
    items, seconds = [count for count, _ in drawn], [took for _, took in drawn]
    starts = [math.fsum(seconds[:index]) for index in range(len(seconds))]
    metrics = metrics_of(summarise(BatchTimes(items, starts, seconds), {}, workers=workers))
    steady = steady_batches(len(drawn), Loader(workers))
    assert ("steady_items_per_s" in metrics) == (steady is not None)
    if steady:
        speeds = [drawn[index][0] / drawn[index][1] for index in steady]
        assert min(speeds) * (1 - 1e-6) <= metrics["steady_items_per_s"] <= max(speeds) * (1 + 1e-6)
        assert metrics["steady_batches"] == len(steady)


# -- the first batch ---------------------------------------------------------------------------------------------------


def test_the_first_batch_is_counted_from_the_windows_start_until_it_is_delivered() -> None:
    batches = BatchTimes([4, 4], [10.0, 13.0], [3.0, 1.0])
    loading = PhaseTimes("host", [0, 1], [10.25, 13.0], [2.5, 0.5])
    assert metrics_of(summarise(batches, {"load_data": loading}, 1, 4.0))["first_batch_s"] == 2.75


@pytest.mark.parametrize("phases", [{}, {"inference": phase(1, 1)}, {"load_data": phase(1, first=1)},
                                    {"load_data": phase()}])
def test_without_the_first_load_there_is_no_first_batch(phases: dict[str, PhaseTimes]) -> None:
    phases = {name: times for name, times in phases.items() if times.seconds}
    assert "first_batch_s" not in metrics_of(summarise(even_batches(2), phases, 0, 2.0))


def test_a_phase_that_batch_0_did_not_have_has_no_first_time() -> None:
    summary = summarise(even_batches(3), {"score": phase(0.5, 0.25, first=1)}, 0, 3.0)
    assert summary.phases[0].first_s is None
    assert summary.phases[0].steady_median_s == 0.375


# -- time that no phase accounts for -----------------------------------------------------------------------------------


PHASES = st.dictionaries(st.sampled_from(["load_data", "data_to_device", "inference", "backward"]),
                         st.lists(SECONDS, min_size=1, max_size=20).map(lambda seconds: phase(*seconds)), min_size=1)


@given(PHASES, SECONDS)
def test_phases_and_unaccounted_less_overlapped_are_the_window(phases: dict[str, PhaseTimes], window_s: float) -> None:
    metrics = metrics_of(summarise(even_batches(20), phases, 0, window_s))
    unaccounted, overlapped = metrics["unaccounted_s"], metrics["overlapped_s"]
    assert unaccounted >= 0
    assert overlapped >= 0
    assert min(unaccounted, overlapped) == 0
    total = sum(sum(times.seconds) for times in phases.values())
    assert total + unaccounted - overlapped == pytest.approx(window_s, rel=1e-9, abs=1e-6)


def test_overlap_on_a_device_is_shown_as_such() -> None:
    """The device computes 3 s of a 2 s window: 1 s ran beside the host's phases."""
    metrics = metrics_of(summarise(even_batches(2), {"load_data": phase(0.5, 0.5), "inference": phase(1, 1)},
                                   0, 2.0))
    assert (metrics["unaccounted_s"], metrics["overlapped_s"]) == (0.0, 1.0)


@pytest.mark.parametrize(("phases", "window_s"), [({}, 1.0), ({"inference": phase(1)}, None), ({}, None)])
def test_nothing_is_accounted_without_a_window_or_without_phases(
        phases: dict[str, PhaseTimes], window_s: float | None) -> None:
    metrics = metrics_of(summarise(even_batches(1), phases, 0, window_s))
    assert not {"unaccounted_s", "overlapped_s"} & metrics.keys()


def test_a_window_that_is_not_a_number_gives_no_number() -> None:
    metrics = metrics_of(summarise(even_batches(1), {"inference": phase(1)}, 0, math.nan))
    assert math.isnan(metrics["unaccounted_s"])
    assert math.isnan(metrics["overlapped_s"])


# -- medians and samples -----------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(0, 70))
def test_medians_and_totals_are_those_of_the_values(seconds: list[float], workers: int) -> None:
    row, = summarise(even_batches(len(seconds)), {"inference": phase(*seconds)}, workers).phases
    steady = steady_batches(len(seconds), Loader(workers))
    assert row.median_s == pytest.approx(median(seconds), rel=1e-12, abs=1e-12)
    assert row.total_s == pytest.approx(math.fsum(seconds), rel=1e-9, abs=1e-6)
    assert row.first_s == seconds[0]
    if steady:
        chosen = median(seconds[steady.start : steady.stop])
        assert row.steady_median_s == pytest.approx(chosen, rel=1e-12, abs=1e-12)
    else:
        assert row.steady_median_s is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60))
def test_samples_are_reduced_without_leaving_their_range(values: list[float]) -> None:
    samples = {("gpu0", "power_watts"): Readings(list(range(len(values))), values)}
    row, = summarise_run(even_batches(0), {}, samples, Loader(0), Window(None), None).samples
    assert (row.device, row.metric, row.number) == ("gpu0", "power_watts", len(values))
    assert (row.minimum, row.maximum) == (min(values), max(values))
    assert row.median == pytest.approx(median(values), rel=1e-12, abs=1e-12)
    margin = 1e-6
    assert row.minimum - margin <= row.mean <= row.maximum + margin


def test_an_empty_run_has_an_empty_summary() -> None:
    assert summarise(BatchTimes([], [], []), {}, None) == ([], [], [], None, "")


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_window_without_length_has_no_throughput(seconds: float) -> None:
    metrics = metrics_of(summarise(even_batches(3, seconds), {}))
    assert "steady_items_per_s" not in metrics
    assert metrics["steady_batches"] == 2


def test_noise_is_judged_inside_the_measured_window() -> None:
    """A long quiet set-up must not hide that somebody else had a core while it was measured."""
    times = [index * 1.0 for index in range(60)]
    busy = Readings(times, [0.0] * 50 + [1.0] * 10)
    window = Window(8.0, start_s=50.0, stage_s=9.0)
    summary = summarise_run(even_batches(2), {}, {("cpu", "others_cpu_cores"): busy}, Loader(0), window, 2.0)
    assert summary.noisy is True
    before = summarise_run(even_batches(2), {}, {("cpu", "others_cpu_cores"): busy}, Loader(0),
                           Window(8.0, start_s=10.0, stage_s=9.0), 2.0)
    assert before.noisy is False
