"""The search for the largest size that fits finds any limit, within the tries it is allowed."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from engine.limit_search import find_limit, tries_allowed

sizes = st.integers(1, 70_000)


@given(limit=st.integers(0, 70_000), start=sizes, more=st.integers(0, 70_000))
@example(limit=0, start=1, more=0)
@example(limit=3, start=3, more=0)
@example(limit=65536, start=1, more=65535)
def test_any_limit_is_found_exactly(limit: int, start: int, more: int) -> None:
    cap = start + more
    tried: list[int] = []
    found = find_limit(lambda size: tried.append(size) or size <= limit, start, cap)  # type: ignore[func-returns-value]
    assert found.largest == min(limit, cap)
    assert found.too_large == (None if limit >= cap else limit + 1)
    assert found.tries == len(tried) == len(set(tried)) <= tries_allowed(found.largest, start)
    assert max(tried) <= cap and min(tried) >= 1 and tried[0] == start


@given(limit=sizes, start=sizes, step=st.integers(1, 100))
def test_a_step_is_kept_and_saves_tries(limit: int, start: int, step: int) -> None:
    exact = find_limit(lambda size: size <= limit, start, 200_000)
    found = find_limit(lambda size: size <= limit, start, 200_000, step)
    assert found.too_large is not None
    assert found.largest <= limit < found.too_large <= found.largest + step
    assert found.largest > 0 and found.tries <= exact.tries


def test_the_tries_are_twice_the_logarithm() -> None:
    """A limit of 1000 from 1: up to 1024 in 11 tries, back in 9."""
    assert find_limit(lambda size: size <= 1000, 1, 65536).tries == 20 == tries_allowed(1000, 1)
