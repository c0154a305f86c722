"""Loader variants reduced by hand: ratios to a baseline, the limit of a cell, where concurrency starts to pay."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.comparison import compare
from analysis.loading import LoadingRun, compare_variants, concurrency_payoffs, judge, pays_from, steady_rate

PERIODIC = [1.0, 0.01, 0.5, 0.01, 0.5, 0.01, 0.5, 0.01]
READY = [1.0, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01]


def run(cell: str, rate: float, waits: list[float] | None = None, pause_s: float = 0.0, workers: int = 2,
        steady: float | None = None, noisy: bool = False, **params: Any) -> LoadingRun:
    waits = PERIODIC if waits is None else waits
    return LoadingRun(f"{cell}-{rate}", cell, {"workers": workers, "latency_s": 0.0, "fetch_threads": 1} | params,
                      100.0, 100.0 / rate, steady, waits[0] if waits else None, workers, waits,
                      [pause_s] * len(waits) if pause_s else [], noisy)


def test_variants_are_compared_with_the_baseline_of_the_same_sweep() -> None:
    runs = [run("a", 100), run("b", 210), run("a", 110, noisy=True), run("b", 190), run("c", 50)]
    base, faster, alone = compare_variants(runs, "a")
    assert base.ratio is None and base.runs == 2 and base.noisy_runs == 1
    assert faster.ratio is not None
    assert faster.ratio[:3] == pytest.approx(compare([210, 190], [100, 110])[:3])
    assert alone.ratio is not None and alone.ratio.verdict == "too few runs to tell"
    assert faster.wait_s == pytest.approx(0.01) and faster.first_batch_s == 1.0


def test_runs_without_a_steady_state_are_left_out_of_its_rates() -> None:
    variants = compare_variants([run("a", 100), run("b", 100, steady=50.0), run("b", 100)], "a", steady_rate)
    assert [(one.cell, one.runs, one.ratio) for one in variants] == [("b", 1, None)]


@pytest.mark.parametrize(("runs", "limit", "why"), [
    ([run("a", 1)] * 3, "loading-bound", "(so in 3 of 3 runs)"),
    ([run("a", 1, PERIODIC, pause_s=0.1)] * 2, "loading-bound", "waiting takes 69% of the time"),
    ([run("a", 1, READY, pause_s=0.1)] * 3, "compute-bound", "waiting takes 9% of the time"),
    ([run("a", 1, READY)] * 3, "loading-bound", "no period, but waiting takes 100% of the time after the first batch"),
    ([run("a", 1, READY, workers=0)], "loading-bound", "there is no consumer"),
    ([run("a", 1, READY, pause_s=0.1, workers=0)], "compute-bound", "take turns"),
    ([run("a", 1, [1.0, 0.5], pause_s=0.9)], "undecided", "too short to tell"),
    ([run("a", 1, [])], "undecided", "0 batches"),
])
def test_the_limit_of_a_cell_with_its_evidence(runs: list[LoadingRun], limit: str, why: str) -> None:
    verdict = judge(runs)
    assert verdict.limit == limit and why in verdict.text


def line(rates: dict[tuple[float, int], list[float]], **others: Any) -> list[LoadingRun]:
    return [run(f"{latency} {threads} {others}", rate, latency_s=latency, fetch_threads=threads, **others)
            for (latency, threads), values in rates.items() for rate in values]


def test_concurrency_is_compared_with_its_twin_at_each_latency() -> None:
    runs = line({(0.0, 1): [100, 104, 98], (0.0, 8): [99, 105, 97], (0.02, 1): [10, 11, 10.5],
                 (0.02, 8): [50, 52, 51], (0.1, 1): [2, 2.1, 2.2], (0.1, 8): [12, 12.5, 13]}, format="jpeg")
    runs += line({(0.0, 1): [500, 510, 505], (0.0, 8): [200, 201, 202]}, format="memmap")
    payoffs = concurrency_payoffs(runs)
    found = {(one.others["format"], one.latency_s): one.ratio for one in payoffs}
    assert found["jpeg", 0.02][:3] == pytest.approx(compare([50, 52, 51], [10, 11, 10.5])[:3])
    assert found["jpeg", 0.0].verdict == "no difference shown" and found["memmap", 0.0].verdict == "lower"
    start = pays_from(one for one in payoffs if one.others["format"] == "jpeg")
    assert start is not None and start.latency_s == 0.02
    assert pays_from(one for one in payoffs if one.others["format"] == "memmap") is None


def test_a_gain_that_is_gone_at_a_higher_latency_does_not_count() -> None:
    runs = line({(0.0, 1): [10, 10.1], (0.0, 8): [50, 50.1], (0.1, 1): [10, 10.1], (0.1, 8): [10.1, 10]})
    assert pays_from(concurrency_payoffs(runs)) is None


def test_without_a_twin_there_is_nothing_to_compare() -> None:
    assert concurrency_payoffs(line({(0.0, 8): [10, 11], (0.02, 1): [5, 6]})) == []
