"""A run reduced to what pages and tables show: phases, steady state, and the time no phase accounts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from analysis.noise import judge_noise


class PhaseTimes(NamedTuple):
    """One phase of a run over its batches, as parallel columns."""

    clock: str
    batch: Sequence[int]
    start_s: Sequence[float]
    seconds: Sequence[float]


class PhaseSummary(NamedTuple):
    phase: str
    clock: str
    number: int
    median_s: float
    total_s: float
    first_s: float | None
    """In batch 0, where a loader's start-up lies."""
    steady_median_s: float | None


class SampleSummary(NamedTuple):
    device: str
    metric: str
    number: int
    mean: float
    median: float
    minimum: float
    maximum: float


class DerivedMetric(NamedTuple):
    name: str
    value: float
    unit: str


class RunSummary(NamedTuple):
    phases: list[PhaseSummary]
    samples: list[SampleSummary]
    metrics: list[DerivedMetric]
    noisy: bool | None
    """None when nothing was sampled."""
    noise_reason: str


class BatchTimes(NamedTuple):
    """The batches of a run, in order."""

    items: Sequence[int]
    start_s: Sequence[float]
    seconds: Sequence[float]


def summarise_run(batches: BatchTimes, phases: Mapping[str, PhaseTimes],
                  samples: Mapping[tuple[str, str], Sequence[float]], workers: int | None, window_s: float | None,
                  cores_allowed: float | None, gpu_before: Mapping[str, float] | None = None) -> RunSummary:
    """Everything that is kept about an ended run. `window_s` is its end-to-end time, None if it never got there."""
    steady_from = first_steady_batch(len(batches.seconds), workers)
    phase_rows = [_summarise_phase(name, times, steady_from) for name, times in phases.items()]
    sample_rows = [
        SampleSummary(device, metric, len(values), float(np.mean(values)), float(np.median(values)),
                      float(np.min(values)), float(np.max(values)))
        for (device, metric), values in samples.items()
    ]
    noisy, reason = judge_noise({(row.device, row.metric): row.mean for row in sample_rows}, cores_allowed,
                                gpu_before)
    return RunSummary(phase_rows, sample_rows, _derive(batches, phases, steady_from, window_s), noisy, reason)


def first_steady_batch(batches: int, workers: int | None) -> int | None:
    """Where the steady state begins, or None when the run is too short to have one.

    The first w batches come from w workers at once and carry their start-up; without workers only batch 0 is special.
    """
    start = max(workers or 0, 1)
    return start if batches > start else None


def _summarise_phase(name: str, times: PhaseTimes, steady_from: int | None) -> PhaseSummary:
    seconds, batch = np.asarray(times.seconds, float), np.asarray(times.batch)
    steady = seconds[batch >= steady_from] if steady_from is not None else seconds[:0]
    first = seconds[batch == 0]
    return PhaseSummary(name, times.clock, len(seconds), float(np.median(seconds)), float(seconds.sum()),
                        float(first[0]) if len(first) else None, float(np.median(steady)) if len(steady) else None)


def _derive(batches: BatchTimes, phases: Mapping[str, PhaseTimes], steady_from: int | None,
            window_s: float | None) -> list[DerivedMetric]:
    derived = []
    loading = phases.get("load_data")
    if loading and len(loading.batch) and loading.batch[0] == 0:
        delivered_s = loading.start_s[0] + loading.seconds[0]
        derived.append(DerivedMetric("first_batch_s", delivered_s - batches.start_s[0], "s"))
    if steady_from is not None:
        # Throughput of a window, not a median of batches: with w workers the waits come in groups of w.
        span_s = float(np.sum(batches.seconds[steady_from:]))
        items = int(np.sum(batches.items[steady_from:]))
        derived.append(DerivedMetric("steady_batches", len(batches.seconds) - steady_from, "batches"))
        if span_s > 0:
            derived.append(DerivedMetric("steady_items_per_s", items / span_s, "items/s"))
            derived.append(DerivedMetric("steady_batch_s", span_s / (len(batches.seconds) - steady_from), "s"))
    if window_s is not None and phases:
        left_s = window_s - float(sum(np.sum(times.seconds) for times in phases.values()))
        # Phases on a device overlap the host's: then their sum exceeds the window. Neither is hidden.
        derived.append(DerivedMetric("unaccounted_s", max(left_s, 0.0), "s"))
        derived.append(DerivedMetric("overlapped_s", max(-left_s, 0.0), "s"))
    return derived
