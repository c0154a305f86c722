"""A run reduced to what pages and tables show: phases, steady state, and the time no phase accounts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.noise import judge_noise

DEFAULT_PREFETCH = 2
"""Batches each worker keeps ready where the run does not say: torch's own default."""

GAP_S = 1e-6
"""Times are kept to the nanosecond: what is closer than this is rounding."""


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


class Loader(NamedTuple):
    """What decides where the steady state begins and ends; None where the experiment has no such parameter."""

    workers: int | None
    prefetch_factor: int | None = None
    epoch_batches: int | None = None
    """Batches of one pass over the data, where a run makes several."""


class Window(NamedTuple):
    """The measured window: where the stage lies in the run's time, and its end-to-end time. None: never got there."""

    end_to_end_s: float | None
    start_s: float | None = None
    stage_s: float | None = None


class Readings(NamedTuple):
    time_s: Sequence[float]
    value: Sequence[float]


class BatchTimes(NamedTuple):
    """The batches of a run, in order."""

    items: Sequence[int]
    start_s: Sequence[float]
    seconds: Sequence[float]
    number: Sequence[int] | None = None
    """Their own numbers; None means 0, 1, 2 and so on."""

    @property
    def complete(self) -> bool:
        """Whether none is missing: a damaged journal can have lost some."""
        return self.number is None or list(self.number) == list(range(len(self.seconds)))


def summarise_run(batches: BatchTimes, phases: Mapping[str, PhaseTimes], samples: Mapping[tuple[str, str], Readings],
                  loader: Loader, window: Window, cores_allowed: float | None,
                  gpu_before: Mapping[str, float] | None = None) -> RunSummary:
    """Everything that is kept about an ended run."""
    steady = steady_batches(len(batches.seconds), loader) if batches.complete else None
    phase_rows = [_summarise_phase(name, times, steady) for name, times in phases.items()]
    sample_rows = [
        SampleSummary(device, metric, len(values), float(np.mean(values)), float(np.median(values)),
                      float(np.min(values)), float(np.max(values)))
        for (device, metric), (_, values) in samples.items()
    ]
    inside = {key: mean for key, readings in samples.items() if (mean := _mean_inside(readings, window)) is not None}
    noisy, reason = judge_noise(inside, cores_allowed, gpu_before)
    return RunSummary(phase_rows, sample_rows, _derive(batches, phases, steady, window), noisy, reason)


def steady_batches(batches: int, loader: Loader) -> range | None:
    """The batches of the steady state, or None when the run is too short to have one.

    With w workers the first w batches come from w workers at once and carry their start-up, and the last ones, as many
    as are kept ready, are served by a loader that has nothing left to load. Without workers only batch 0 is special.
    Of several passes over the data the first one counts: each begins with a start-up of its own.
    """
    batches = min(batches, loader.epoch_batches or batches)
    workers = loader.workers or 0
    first, end = max(workers, 1), batches - workers * (loader.prefetch_factor or DEFAULT_PREFETCH)
    return range(first, end) if end > first else None


def _mean_inside(readings: Readings, window: Window) -> float | None:
    """Over the measured window; over the whole run when it never got there."""
    times, values = np.asarray(readings.time_s, float), np.asarray(readings.value, float)
    if window.start_s is not None and window.stage_s is not None:
        chosen = values[(times >= window.start_s) & (times <= window.start_s + window.stage_s)]
        # A window shorter than the time between two readings has none of its own.
        values = chosen if len(chosen) else values
    return float(np.mean(values)) if len(values) else None


def _summarise_phase(name: str, times: PhaseTimes, steady: range | None) -> PhaseSummary:
    seconds, batch = np.asarray(times.seconds, float), np.asarray(times.batch)
    chosen = seconds[(batch >= steady.start) & (batch < steady.stop)] if steady else seconds[:0]
    first = seconds[batch == 0]
    return PhaseSummary(name, times.clock, len(seconds), float(np.median(seconds)), float(seconds.sum()),
                        float(first[0]) if len(first) else None, float(np.median(chosen)) if len(chosen) else None)


def _derive(batches: BatchTimes, phases: Mapping[str, PhaseTimes], steady: range | None,
            window: Window) -> list[DerivedMetric]:
    derived = []
    if len(batches.items):
        derived.append(DerivedMetric("items", float(np.sum(batches.items)), "items"))
    loading = phases.get("load_data")
    if loading and len(loading.batch) and loading.batch[0] == 0:
        delivered_s = loading.start_s[0] + loading.seconds[0]
        derived.append(DerivedMetric("first_batch_s", delivered_s - batches.start_s[0], "s"))
    if steady:
        # Throughput of a stretch, not a median of batches: with w workers the waits come in groups of w.
        ends = _finished_at(batches, phases)
        span_s = float(ends[steady.stop - 1] - ends[steady.start - 1]) - _paused_s(batches, ends, steady)
        derived.append(DerivedMetric("steady_batches", len(steady), "batches"))
        if span_s > 0:
            items = int(np.sum(batches.items[steady.start : steady.stop]))
            derived.append(DerivedMetric("steady_items_per_s", items / span_s, "items/s"))
            derived.append(DerivedMetric("steady_batch_s", span_s / len(steady), "s"))
    if window.end_to_end_s is not None and phases:
        left_s = window.end_to_end_s - float(sum(np.sum(times.seconds) for times in phases.values()))
        # A net difference: phases on a device overlap the host's, and then their sum exceeds the window.
        derived.append(DerivedMetric("unaccounted_s", max(left_s, 0.0), "s"))
        derived.append(DerivedMetric("overlapped_s", max(-left_s, 0.0), "s"))
    return derived


def _paused_s(batches: BatchTimes, ends: np.ndarray[Any, Any], steady: range) -> float:
    """Batches follow each other without gaps, except where a run stopped its clock between two of them."""
    gaps = np.asarray(batches.start_s, float)[steady.start : steady.stop] - ends[steady.start - 1 : steady.stop - 1]
    return float(np.sum(gaps[gaps > GAP_S]))


def _finished_at(batches: BatchTimes, phases: Mapping[str, PhaseTimes]) -> np.ndarray[Any, Any]:
    """When each batch was really done: the host's end, or later on a device that works behind it."""
    ends: np.ndarray[Any, Any] = np.add(np.asarray(batches.start_s, float), np.asarray(batches.seconds, float))
    for times in phases.values():
        np.maximum.at(ends, np.asarray(times.batch, int), np.asarray(times.start_s, float) + np.asarray(times.seconds))
    return ends
