"""The search for the largest size that fits: double until one does not, then halve the gap. Trying is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Limit(NamedTuple):
    """`largest` fits (0: nothing does) and `too_large` does not; None when the cap itself fits."""

    largest: int
    too_large: int | None
    tries: int


def find_limit(fits: Callable[[int], bool], start: int, cap: int, step: int = 1) -> Limit:
    """The gap between the two sizes of the answer is at most `step`; with 1 the limit is exact."""
    assert 1 <= start <= cap and step >= 1, f"start {start}, cap {cap}, step {step}"
    largest, too_large, tries, size = 0, None, 0, start
    while too_large is None and largest < cap:
        tries += 1
        if fits(size):
            largest, size = size, min(2 * size, cap)
        else:
            too_large = size
    while too_large is not None and too_large - largest > (step if largest else 1):
        middle = (largest + too_large) // 2
        tries += 1
        if fits(middle):
            largest = middle
        else:
            too_large = middle
    assert tries <= tries_allowed(largest, start), f"{tries} tries for a limit of {largest} from {start}"
    return Limit(largest, too_large, tries)


def tries_allowed(largest: int, start: int) -> int:
    """Twice the binary logarithm of the size that bounds the search, rounded up."""
    return max(1, 2 * (max(largest + 1, start) - 1).bit_length())
