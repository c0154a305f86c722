"""The verdict of a noise check: equal times are quiet, faster machines are not quieter, more spread never is."""

from __future__ import annotations

import random
from statistics import fmean, median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.quietness import (
    NOISY_SPREAD,
    QUIET_SPREAD,
    SHOWN_DIFFERENCE,
    Part,
    assess,
    block_means,
    measure_spread,
    percent,
    quantile,
)

ORDER = ["quiet", "usable with repeats", "noisy"]
pieces = st.lists(st.floats(1e-3, 1e-2), min_size=20, max_size=120)
tracks = st.lists(pieces, min_size=1, max_size=3)


def made(spread: float, seed: int = 1, count: int = 600, slow: bool = False) -> list[float]:
    """Pieces around 4 ms: independent, or with a level that changes ten times."""
    source = random.Random(seed)
    levels = [source.gauss(0, spread) for _ in range(10)]
    return [0.004 * (1 + (levels[at * 10 // count] if slow else source.gauss(0, spread))) for at in range(count)]


@given(st.floats(1e-6, 10), st.integers(20, 400), st.integers(1, 4))
def test_equal_times_are_quiet_and_have_no_spread(seconds: float, count: int, processes: int) -> None:
    found = assess([Part("alone", [[seconds] * count]), Part("together", [[seconds] * count] * processes)])
    assert (found.verdict, found.reasons, found.block_spread) == ("quiet", [], 0)
    for part in found.parts:
        assert (part.low, part.high, part.quartiles, part.worst, part.drift, part.slow_pieces) == (0, 0, 0, 1, 0, 0)
        assert (part.piece_spread, part.short_spread, part.lost_share) == (0, 0, 0)
    assert found.slowdown == 1
    assert set(found.shown.values()) == {0}


@given(tracks, st.integers(-12, 12))
def test_a_faster_machine_is_not_a_quieter_one(times: list[list[float]], power: int) -> None:
    """Powers of two scale without rounding: everything but the seconds stays exactly as it was."""
    scale = 2.0**power
    plain = assess([Part("p", times)])
    scaled = assess([Part("p", [[scale * t for t in track] for track in times])])
    assert scaled._replace(parts=[]) == plain._replace(parts=[])
    assert scaled.parts[0]._replace(median_s=0, block_s=0, longest_slow_s=0) == \
        plain.parts[0]._replace(median_s=0, block_s=0, longest_slow_s=0)
    assert scaled.parts[0].median_s == scale * plain.parts[0].median_s


@given(tracks, st.floats(1, 1.9))
def test_more_spread_never_gets_a_quieter_verdict(times: list[list[float]], stretch: float) -> None:
    middle = median(t for track in times for t in track)
    small = [[middle + (t - middle) / 20 for t in track] for track in times]
    wide = [[middle + (t - middle) * stretch for t in track] for track in small]
    before, after = assess([Part("p", small)]), assess([Part("p", wide)])
    assert after.block_spread >= before.block_spread * (1 - 1e-9)
    assert ORDER.index(after.verdict) >= ORDER.index(before.verdict) or \
        before.block_spread == pytest.approx(after.block_spread, rel=1e-9)


@given(tracks, st.floats(0, 4), st.floats(0, 4), st.floats(0, 0.1), st.floats(0, 0.1))
def test_more_work_of_others_never_gets_a_quieter_verdict(times: list[list[float]], others: float, more: float,
                                                          steal: float, more_steal: float) -> None:
    before = assess([Part("p", times)], others, steal, 4.0)
    after = assess([Part("p", times)], others + more, steal + more_steal, 4.0)
    assert ORDER.index(after.verdict) >= ORDER.index(before.verdict)
    assert bool(after.reasons) is (after.verdict != "quiet")


@pytest.mark.parametrize(("spread", "verdict"), [(0.002, "quiet"), (0.025, "usable with repeats"), (0.2, "noisy")])
def test_the_three_verdicts(spread: float, verdict: str) -> None:
    found = assess([Part("on one core", [made(spread, slow=True)])], 0.0, 0.0, 2.0)
    assert found.verdict == verdict
    assert "repeats" in found.meaning
    assert [f"{limit:.0%}".replace("%", " %") in " ".join(found.reasons) for limit in (QUIET_SPREAD, NOISY_SPREAD)] == [
        verdict == "usable with repeats", verdict == "noisy"]


def test_noise_that_averages_out_within_a_block_is_told_from_noise_that_does_not() -> None:
    fast, slow = measure_spread(Part("f", [made(0.1)])), measure_spread(Part("s", [made(0.1, slow=True)]))
    assert fast.piece_spread == pytest.approx(slow.piece_spread, rel=0.4)
    assert fast.block_spread < slow.block_spread / 3
    assert (fast.slow_noise, slow.slow_noise) == (False, True)


def test_a_burst_is_found_with_its_length() -> None:
    times = [0.004] * 100 + [0.012] * 5 + [0.004] * 100 + [0.02] + [0.004] * 100
    found = measure_spread(Part("p", [times]))
    assert (found.slow_pieces, found.worst) == (6, 5)
    assert found.longest_slow_s == pytest.approx(0.06)
    assert found.lost_share == pytest.approx((5 * 0.008 + 0.016) / sum(times))


def test_a_drift_is_told() -> None:
    assert measure_spread(Part("p", [[0.004 * (1 + at / 3000) for at in range(300)]])).drift == pytest.approx(
        0.0656, abs=0.001)


def test_the_slowest_core_of_each_block_counts() -> None:
    """Two cores that are disturbed in turn: their mean hardly changes, but work spread over both waits for each."""
    one = [0.004 if at // 60 % 2 else 0.005 for at in range(600)]
    steady = [0.004] * 600
    assert assess([Part("p", [steady, steady])]).verdict == "quiet"
    assert assess([Part("p", [one, steady])]).verdict == "noisy"


def test_others_and_gpus_above_the_limits_of_runs_are_noisy() -> None:
    calm = [Part("p", [[0.004] * 100])]
    assert assess(calm, 0.1, 0.0, 2.0).verdict == "quiet"
    busy = assess(calm, 1.0, 0.0, 2.0)
    assert busy.verdict == "noisy" and "1.00 of 2 cores" in busy.reasons[0] and "varied little" in busy.meaning
    assert assess(calm, 0.0, 0.05, 2.0).verdict == "noisy"
    gpu = assess(calm, 0.0, 0.0, 2.0, {"gpu0": 0.5})
    assert gpu.verdict == "noisy" and gpu.reasons == ["gpu0 was 50% busy though nothing of the lab used it (limit 5%)"]


@pytest.mark.parametrize("repeats", SHOWN_DIFFERENCE)
def test_the_difference_that_repeats_can_show(repeats: int) -> None:
    """By simulation: a t test at 5 % finds that difference in 80 of 100 tries (3 standard errors of 4,000 tries)."""
    limit = {3: 2.776, 5: 2.306, 10: 2.101}[repeats]
    source, found, tries = random.Random(repeats), 0, 4_000
    for _ in range(tries):
        one = [source.gauss(0, 1) for _ in range(repeats)]
        two = [source.gauss(SHOWN_DIFFERENCE[repeats], 1) for _ in range(repeats)]
        error = ((stdev(one) ** 2 + stdev(two) ** 2) / repeats) ** 0.5
        found += abs(fmean(two) - fmean(one)) > limit * error
    assert found / tries == pytest.approx(0.8, abs=0.02)


@given(pieces)
def test_quantiles_lie_between_the_ends(times: list[float]) -> None:
    ordered = sorted(times)
    assert quantile(ordered, 0) == ordered[0] and quantile(ordered, 1) == ordered[-1]
    assert ordered[0] <= quantile(ordered, 0.25) <= quantile(ordered, 0.75) <= ordered[-1]
    assert quantile(ordered, 0.5) == pytest.approx(median(ordered))


@given(st.integers(20, 500))
def test_blocks_are_equally_many_pieces(count: int) -> None:
    assert len(block_means([0.004] * count, 10)) >= 10


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (1e-6, "less than 0.01 %"), (0.0003, "0.03 %"),
                                             (0.0123, "1.2 %"), (-0.031, "3.1 %"), (0.0996, "10 %"), (0.366, "37 %")])
def test_shares_in_words(share: float, text: str) -> None:
    assert percent(share) == text
