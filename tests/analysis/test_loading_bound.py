"""The loading-bound detector on waits as loaders make them: a pool simulated batch by batch, and the edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.loading_bound import detect


def simulate(workers: int, batch_s: float, consume_s: float, batches: int, start_s: float = 0.1,
             prefetch: int = 2) -> list[float]:
    """Waits of a consumer that takes `consume_s` per batch, fed in turns by workers that need `batch_s` each."""
    ready: list[float] = []
    taken: list[float] = []
    now = 0.0
    waits = []
    for batch in range(batches):
        # A worker begins a batch when its last one is done and the batch was handed out: `prefetch` per worker.
        done = ready[batch - workers] if batch >= workers else start_s
        handed = taken[batch - workers * prefetch] if batch >= workers * prefetch else 0.0
        ready.append(max(done, handed) + batch_s)
        waits.append(max(0.0, ready[batch] - now))
        now = max(now, ready[batch])
        taken.append(now)
        now += consume_s
    return waits


@pytest.mark.parametrize("workers", [1, 2, 4, 12])
def test_a_slow_loader_and_a_slow_consumer_are_told_apart(workers: int) -> None:
    slow_loader = detect(simulate(workers, batch_s=1.0, consume_s=0.01, batches=10 * workers), workers)
    assert slow_loader.verdict == "loading-bound" and slow_loader.spike_s and slow_loader.spike_s > 0.5
    slow_consumer = detect(simulate(workers, batch_s=1.0, consume_s=2.0, batches=10 * workers), workers)
    assert slow_consumer.verdict == "not loading-bound"


@pytest.mark.parametrize(("spike", "verdict"), [(0.21, "loading-bound"), (0.19, "not loading-bound")])
def test_spikes_are_more_than_twice_the_waits_between(spike: float, verdict: str) -> None:
    assert detect([1.0, 0.1, spike, 0.1, spike, 0.1], 2).verdict == verdict


@pytest.mark.parametrize(("spike", "verdict"), [(0.11, "loading-bound"), (0.09, "not loading-bound")])
def test_spikes_are_more_than_a_tenth_of_the_first_wait(spike: float, verdict: str) -> None:
    found = detect([1.0, 0.0, 0.0, spike, 0.0, 0.0, spike], 3)
    assert found.verdict == verdict
    assert (found.first_s, found.spike_s, found.between_s) == (1.0, spike, 0.0)
    assert "every 3rd batch" in found.text


@pytest.mark.parametrize(("later", "verdict"), [(0.21, "loading-bound"), (0.19, "not loading-bound")])
def test_one_worker_is_judged_by_its_later_waits(later: float, verdict: str) -> None:
    found = detect([1.0, later, later, later], 1)
    assert found.verdict == verdict
    assert f"{later:.1%} of the first" in found.text


@given(st.lists(st.floats(0, 10), max_size=64), st.integers(1, 64))
def test_as_many_batches_as_workers_or_fewer_are_undecided(waits: list[float], workers: int) -> None:
    found = detect(waits, workers)
    assert (found.verdict == "undecided") == (len(waits) <= workers)


def test_without_workers_the_waits_have_no_pattern() -> None:
    assert detect([1.0, 0.9, 0.9, 0.9], 0).verdict == "undecided"


@given(st.lists(st.floats(1e-3, 10), min_size=9, max_size=40), st.integers(1, 8), st.integers(-8, 8))
def test_another_unit_changes_nothing(waits: list[float], workers: int, power: int) -> None:
    there = detect([wait * 2.0**power for wait in waits], workers)
    assert there.verdict == detect(waits, workers).verdict and there.text == detect(waits, workers).text
