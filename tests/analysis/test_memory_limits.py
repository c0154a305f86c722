"""The largest batch by prediction: exact for any curve that grows, with few questions on a straight one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analysis.memory_limits import MOST, FittingBatch, largest_batch


@given(st.integers(0, 10_000), st.integers(1, 1_000), st.integers(0, 50), st.integers(1, 1_000_000))
def test_the_answer_fits_and_one_more_does_not(fixed: int, per_item: int, steeper: int, limit: int) -> None:
    def peak_at(batch: int) -> int:
        return max(fixed + per_item * batch, (per_item + steeper) * batch)

    fit = largest_batch(peak_at, limit)
    if fit.largest == 0:
        assert fit.too_large == 2 and peak_at(2) > limit
        return
    assert peak_at(fit.largest) == fit.peak_bytes <= limit
    assert (fit.too_large is None and fit.largest == MOST) or (
        fit.too_large == fit.largest + 1 and peak_at(fit.too_large) > limit)


def test_a_straight_line_takes_few_questions() -> None:
    asked = []

    def peak_at(batch: int) -> int:
        asked.append(batch)
        return 1_000 + 37 * batch

    assert largest_batch(peak_at, 100_000) == FittingBatch(2675, 1_000 + 37 * 2675, 2676)
    assert len(asked) <= 5
