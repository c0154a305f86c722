"""The largest batch whose predicted peak fits: the peak is close to a straight line in the batch size, so that the next
size to ask about is guessed from the last two."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

CURVE_SIZES = (2, 8, 64, 256, 512)
"""From two on: with small images batch norm has one value per channel of a single item and cannot train on it."""
MOST = 65_536
GUESSES = 8
"""After so many, halving: a line that bends would make guessing slow."""


class FittingBatch(NamedTuple):
    """`largest` is 0 when not even the smallest size asked about fits; `too_large` is None when the largest size there
    is fits."""

    largest: int
    peak_bytes: float | None
    too_large: int | None


def largest_batch(peak_at: Callable[[int], float], limit_bytes: float) -> FittingBatch:
    """Exact: the answer fits and one item more does not, both by prediction."""
    low, low_peak = CURVE_SIZES[0], peak_at(CURVE_SIZES[0])
    if low_peak > limit_bytes:
        return FittingBatch(0, None, low)
    high: int | None = None
    other, other_peak = CURVE_SIZES[1], peak_at(CURVE_SIZES[1])
    if other_peak <= limit_bytes:
        low, low_peak, other, other_peak = other, other_peak, low, low_peak
    else:
        high = other
    guesses = 0
    while low < MOST and (high is None or high - low > 1):
        slope = (other_peak - low_peak) / (other - low)
        guess = low + int((limit_bytes - low_peak) / slope) if slope > 0 else 2 * low
        if guesses >= GUESSES:
            guess = 2 * low if high is None else (low + high) // 2
        size = min(max(guess, low + 1), MOST if high is None else high - 1)
        peak = peak_at(size)
        if peak <= limit_bytes:
            low, low_peak, other, other_peak = size, peak, low, low_peak
        else:
            high, other, other_peak = size, size, peak
        guesses += 1
    return FittingBatch(low, low_peak, high)
