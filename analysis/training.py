"""Ways of training side by side: time per image against plain training, estimated against actual epochs, efficiency of
several devices, loss curves. Everything is per cell over its runs, and only like is compared with like.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, takewhile
from statistics import fmean
from typing import Any, NamedTuple

from analysis.comparison import Estimate, Ratio, compare, estimate

BASELINE = "baseline"
OWN_CHOICES = ("method", "devices", "batch_size", "checkpoint_parallel", "seed", "profile")
"""What a method may choose for itself: two cells that differ in anything else are not compared."""
ALIKE = 1e-3
"""Losses closer than this share of them agree: what is left is rounding, summed in another order."""
SMOOTHED = 20
"""Over this part of a curve its losses are averaged."""
NOT_FOR_EFFICIENCY = ("devices", "seed", "profile")


class TrainingRun(NamedTuple):
    """One ok run of the experiment `training`. Batches and images are those of all devices together."""

    run_id: str
    cell: str
    environment_id: str
    params: Mapping[str, Any]
    devices: int
    device_batch_size: int
    global_batch_size: int
    train_images: int
    batch_s: float
    """Median over the batches."""
    actual_epoch_s: float
    noisy: bool | None
    batch_norms: int | None = None
    """Layers with statistics of the batch; None where the run did not say."""
    start_up_s: float | None = None
    """From asking for the run until the clock starts: process, data, model, warm-up."""
    validation_s: float | None = None

    @property
    def group(self) -> str:
        """Runs that are repeats of each other: a cell measured in two environments is two of them."""
        return f"{self.cell}~{self.environment_id}"

    @property
    def model(self) -> str:
        return str(self.params.get("model"))

    @property
    def method(self) -> str:
        return str(self.params.get("method", BASELINE))

    @property
    def image_s(self) -> float:
        """Over the whole epoch, the workers' start-up included."""
        return self.actual_epoch_s / self.train_images

    @property
    def estimated_epoch_s(self) -> float:
        """As seed 002 estimated it: images / batch x seconds per batch."""
        return self.train_images / self.global_batch_size * self.batch_s

    @property
    def device_images_per_s(self) -> float:
        """Of one device, from the median batch: the loader's start, which weighs more in an epoch of fewer batches, is
        not in it."""
        return self.global_batch_size / self.batch_s / self.devices


class TrainedCell(NamedTuple):
    """A cell over its runs in one environment. `against` is the time per image over plain training's; None
    where there is none alike."""

    first: TrainingRun
    batch_s: Estimate
    image_s: Estimate
    estimated_epoch_s: Estimate
    actual_epoch_s: Estimate
    actual_to_estimated: float
    against: Ratio | None
    why_not: str
    """Why it is not compared with plain training; empty where it is, or where it is plain training itself."""
    efficiency: Ratio | None
    """Images per second, from median batches, over those of as many times one device; None with one device or without
    such a cell."""
    runs: int
    noisy_runs: int
    run_ids: tuple[str, ...] = ()
    plain_batch_size: int | None = None
    """Per device, of the plain training in `against`, where it is another than the cell's own."""
    start_up_s: Estimate | None = None
    validation_s: Estimate | None = None


class Published(NamedTuple):
    """A row that seed 002 published, in the same words. What it did not publish is None."""

    method: str
    devices: int
    device_batch_size: int
    global_batch_size: int
    batch_s: float | None
    estimated_epoch_s: float | None
    actual_epoch_s: float
    images: int
    caveat: str

    @property
    def image_s(self) -> float:
        return self.actual_epoch_s / self.images


class Curve(NamedTuple):
    """The loss of every batch of one run, by the images seen until then."""

    run_id: str
    group: str
    images: Sequence[int]
    losses: Sequence[float]


class Likeness(NamedTuple):
    """How far apart the curves of two groups are that saw the same batches: the largest relative difference, infinite
    where only one of them has a finite loss."""

    one: str
    other: str
    difference: float
    own_statistics: bool = False
    """The batches were split over other numbers of devices, and the model has batch norm: each device has statistics
    of its own share, so that the curves need not agree."""
    alike_images: int = 0
    """Images until the first batch whose losses do not agree."""


def compare_methods(runs: Iterable[TrainingRun]) -> list[TrainedCell]:
    """Cells in the order of their first run, each by itself in every environment."""
    cells: dict[str, list[TrainingRun]] = {}
    for run in runs:
        cells.setdefault(run.group, []).append(run)
    return [_summarise(members, list(cells.values())) for members in cells.values()]


def _summarise(members: list[TrainingRun], cells: list[list[TrainingRun]]) -> TrainedCell:
    first = members[0]
    plain, why_not = _find_baseline(first, cells)
    single = next((cell for cell in cells if cell[0].devices == 1 and _alike(cell[0], first, NOT_FOR_EFFICIENCY)
                   and cell[0].device_batch_size == first.device_batch_size), None)
    actual = estimate([run.actual_epoch_s for run in members])
    estimated = estimate([run.estimated_epoch_s for run in members])
    return TrainedCell(
        first, estimate([run.batch_s for run in members]), estimate([run.image_s for run in members]), estimated,
        actual, actual.value / estimated.value,
        compare([run.image_s for run in members], [run.image_s for run in plain]) if plain else None, why_not,
        compare([run.device_images_per_s for run in members], [run.device_images_per_s for run in single])
        if single and first.devices > 1 else None,
        len(members), sum(bool(run.noisy) for run in members), tuple(run.run_id for run in members),
        plain[0].device_batch_size if plain and plain[0].device_batch_size != first.device_batch_size else None,
        _estimate_known(run.start_up_s for run in members), _estimate_known(run.validation_s for run in members))


def _estimate_known(times_s: Iterable[float | None]) -> Estimate | None:
    """A time of zero or less was not measured."""
    known = [time_s for time_s in times_s if time_s and time_s > 0]
    return estimate(known) if known else None


def _find_baseline(run: TrainingRun, cells: list[list[TrainingRun]]) -> tuple[list[TrainingRun] | None, str]:
    """Plain training with the same settings, at the same batch per device where there is one; else at another, which
    the ratio then holds too."""
    if run.method == BASELINE:
        return None, ""
    plain = [cell for cell in cells if cell[0].method == BASELINE]
    if not plain:
        return None, "no plain training in this sweep"
    same_settings = [cell for cell in plain if _same_settings(cell[0], run, OWN_CHOICES)]
    if not same_settings:
        return None, "plain training had other settings"
    alike = [cell for cell in same_settings if cell[0].environment_id == run.environment_id]
    if not alike:
        return None, "plain training ran in another environment"
    # The same images were asked for; full batches of each size leave out a last part of them.
    same_work = [cell for cell in alike if abs(cell[0].train_images - run.train_images)
                 < max(cell[0].global_batch_size, run.global_batch_size)]
    if not same_work:
        return None, f"plain training had epochs of {alike[0][0].train_images} images"
    return next((cell for cell in same_work if cell[0].device_batch_size == run.device_batch_size), same_work[0]), ""


def _alike(one: TrainingRun, other: TrainingRun, apart_from: tuple[str, ...]) -> bool:
    return one.environment_id == other.environment_id and _same_settings(one, other, apart_from)


def _same_settings(one: TrainingRun, other: TrainingRun, apart_from: tuple[str, ...]) -> bool:
    names = {*one.params, *other.params} - set(apart_from)
    return all(one.params.get(name) == other.params.get(name) for name in names)


def published_ratio(row: Published, rows: Sequence[Published]) -> float | None:
    """Time per image over the published baseline's, both from actual epochs."""
    plain = next((one for one in rows if one.method == BASELINE), None)
    return row.image_s / plain.image_s if plain and row.method != BASELINE else None


def compare_curves(curves: Iterable[Curve], runs: Mapping[str, TrainingRun]) -> list[Likeness]:
    """Pairs of cells that saw the same global batches in the same order and environment, the first run of each."""
    first: dict[str, Curve] = {}
    for curve in curves:
        first.setdefault(curve.group, curve)
    found = []
    for one, other in combinations(first.values(), 2):
        a, b = runs[one.run_id], runs[other.run_id]
        same = (a.global_batch_size == b.global_batch_size
                and _alike(a, b, ("method", "devices", "batch_size", "checkpoint_parallel", "profile", "threads",
                                  "workers", "train_images", "val_images")) and a.train_images == b.train_images)
        if same:
            gaps = _gaps(one.losses, other.losses)
            agreeing = takewhile(lambda pair: pair[1] <= ALIKE, zip(one.images, gaps, strict=False))
            found.append(Likeness(one.group, other.group, max(gaps, default=0.0),
                                  a.devices != b.devices and bool(a.batch_norms or b.batch_norms),
                                  max((images for images, _ in agreeing), default=0)))
    return found


def _gaps(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """Relative, batch by batch; infinite where only one is finite. The same batches give as many losses: where some are
    missing they were not finite."""
    if len(one) != len(other):
        return [math.inf]
    return [0.0 if not (math.isfinite(x) or math.isfinite(y)) else
            math.inf if not (math.isfinite(x) and math.isfinite(y)) else abs(x - y) / abs(x) if x else 0.0
            for x, y in zip(one, other, strict=True)]


def smooth(losses: Sequence[float]) -> list[float]:
    """The mean of each loss and as many on both sides, over a twentieth of the curve and less at its ends: single
    batches differ by more than a few steps teach."""
    half = len(losses) // SMOOTHED // 2
    reach = [min(half, place, len(losses) - 1 - place) for place in range(len(losses))]
    return [fmean(losses[place - side:place + side + 1]) for place, side in enumerate(reach)]
