"""Which runs are marked noisy: over a stated limit, with the sentence that says by how much; unknown is not quiet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.noise import GPU_BEFORE_LIMIT, OTHERS_SHARE_LIMIT, STEAL_SHARE_LIMIT, judge_noise
from analysis.summary import BatchTimes, Loader, Readings, Window, summarise_run

OTHERS, STEAL = ("cpu", "others_cpu_cores"), ("cpu", "steal_share")


def test_nothing_sampled_is_neither_noisy_nor_quiet() -> None:
    assert judge_noise({}, 4.0) == (None, "")
    assert judge_noise({("gpu0", "power_watts"): 300.0, ("cpu", "resident_bytes"): 1e9}, 4.0) == (None, "")


def test_a_quiet_machine() -> None:
    assert judge_noise({OTHERS: 0.1, STEAL: 0.0}, 4.0) == (False, "")


def test_other_processes_above_the_limit() -> None:
    noisy, reason = judge_noise({OTHERS: 1.234, STEAL: 0.0}, 4.0)
    assert noisy is True
    assert reason == "other processes kept 1.23 of 4 cores busy (limit 0.60)"


def test_stolen_time_above_the_limit() -> None:
    noisy, reason = judge_noise({OTHERS: 0.0, STEAL: 0.031}, 4.0)
    assert noisy is True
    assert reason == "3.1% of CPU time was stolen by other machines (limit 2%)"


@pytest.mark.parametrize("cores", [0.5, 1.0, 2.0, 64.0])
def test_the_limits_themselves_are_still_quiet(cores: float) -> None:
    assert judge_noise({OTHERS: OTHERS_SHARE_LIMIT * cores, STEAL: STEAL_SHARE_LIMIT}, cores) == (False, "")


@given(st.floats(0, 100), st.floats(0, 1), st.floats(0.1, 256))
def test_a_run_is_noisy_exactly_above_a_limit_and_then_says_why(others: float, steal: float, cores: float) -> None:
    noisy, reason = judge_noise({OTHERS: others, STEAL: steal}, cores)
    assert noisy is (others > OTHERS_SHARE_LIMIT * cores or steal > STEAL_SHARE_LIMIT)
    assert bool(reason) is noisy
    assert "\n" not in reason


def test_unknown_cores_leave_the_other_sign() -> None:
    assert judge_noise({OTHERS: 50.0, STEAL: 0.5}, None)[0] is True
    assert judge_noise({OTHERS: 50.0, STEAL: 0.0}, None) == (False, "")


def test_a_reading_that_cannot_be_judged_is_not_called_quiet() -> None:
    """The cores are not known and steal time is not told here: whether 50 busy cores are many cannot be said."""
    assert judge_noise({OTHERS: 50.0}, None) == (None, "")


@pytest.mark.parametrize(("share", "noisy"), [(0.0, False), (GPU_BEFORE_LIMIT, False), (0.25, True)])
def test_a_gpu_that_was_busy_before_the_run(share: float, noisy: bool) -> None:
    expected = "gpu1 was 25% busy before the run began (limit 5%)" if noisy else ""
    assert judge_noise({OTHERS: 0.0, STEAL: 0.0}, 4.0, {"gpu0": 0.0, "gpu1": share}) == (noisy, expected)


def test_the_mean_over_the_run_counts_not_one_peak() -> None:
    def noisy(values: list[float]) -> bool | None:
        samples = {OTHERS: Readings(list(range(len(values))), values)}
        return summarise_run(BatchTimes([], [], []), {}, samples, Loader(0), Window(None), 4.0).noisy

    assert noisy([0.0] * 99 + [4.0]) is False
    assert noisy([1.0] * 100) is True
