"""How quiet a machine is, from the times that the same piece of work took again and again, and what that means for
telling two cells apart. Everything is relative to the median piece: a faster machine is not a quieter one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Literal, NamedTuple

from analysis.noise import judge_noise

Verdict = Literal["quiet", "usable with repeats", "noisy"]
QUIET_SPREAD = 0.01
"""Up to this spread of blocks three repeats can show a difference of about 3 %."""
NOISY_SPREAD = 0.05
"""Above this spread not even ten repeats can show a difference of 6 %."""
BLOCKS = 10
"""Each part of a check is cut into so many blocks of equally many pieces: a block stands for a short run."""
SHORT_BLOCKS = 50
SLOW_PIECE = 1.5
"""A piece that took this many times the median was interrupted."""
SLOW_NOISE = 2.0
"""Blocks that spread so many times as much as independent pieces would make them: the noise is slower than a piece."""

SHOWN_DIFFERENCE = {3: 3.07, 5: 2.02, 10: 1.32}
"""Repeats per cell -> the difference between two cells, in standard deviations of a run, that a two-sided t test at 5 %
finds in 80 of 100 tries (noncentral t with 2n-2 degrees of freedom)."""


class Part(NamedTuple):
    """One part of a check: the same piece of work on one or several processes at once, each with its times in order."""

    name: str
    tracks: Sequence[Sequence[float]]


class Spread(NamedTuple):
    """How much one part varied. All but `median_s` and `pieces` are shares of the median piece."""

    name: str
    processes: int
    pieces: int
    median_s: float
    low: float  # the 5th percentile below the median
    high: float  # the 95th percentile above the median
    quartiles: float  # between the 25th and the 75th percentile
    worst: float  # how many times the median the slowest piece took
    drift: float  # the last third's median against the first third's
    slow_pieces: int
    longest_slow_s: float  # the longest stretch of slow pieces in a row
    lost_share: float  # of the time, spent beyond the median in slow pieces
    piece_spread: float  # standard deviation of single pieces
    short_spread: float  # of means over a fiftieth of the part
    block_spread: float  # of means over a tenth of the part, the slowest process of each block
    block_s: float  # how long a block is
    slow_noise: bool  # the noise does not average out within a block


class Quietness(NamedTuple):
    verdict: Verdict
    reasons: list[str]
    """What made it not quiet; empty for a quiet machine."""
    block_spread: float
    shown: dict[int, float]
    """Repeats -> the smallest difference between two cells that they could show, as a share."""
    meaning: str
    parts: list[Spread]
    slowdown: float | None
    """How many times as long a piece took when all cores worked as when one did."""


def assess(parts: Sequence[Part], others_cpu_cores: float | None = None, steal_share: float | None = None,
           cores: float | None = None, gpu_busy: dict[str, float] | None = None) -> Quietness:
    """The verdict is that of the worst sign: the spread of blocks, and the limits by which runs are marked noisy."""
    spreads = [measure_spread(part) for part in parts]
    worst = max(spreads, key=lambda spread: spread.block_spread)
    verdict: Verdict = "quiet"
    reasons = []
    if worst.block_spread > QUIET_SPREAD:
        verdict = "noisy" if worst.block_spread > NOISY_SPREAD else "usable with repeats"
        limit = NOISY_SPREAD if verdict == "noisy" else QUIET_SPREAD
        reasons.append(f"the same work varied by {percent(worst.block_spread)} from block to block, {worst.name} "
                       f"(limit {percent(limit)})")
    means = {("cpu", name): value for name, value in (("others_cpu_cores", others_cpu_cores),
                                                      ("steal_share", steal_share)) if value is not None}
    marked, why = judge_noise(means, cores)
    if marked:
        verdict = "noisy"
        reasons.append(f"a run measured now would be marked noisy: {why}")
    for gpu, share in (gpu_busy or {}).items():
        marked, why = judge_noise({}, cores, {gpu: share})
        if marked:
            verdict = "noisy"
            reasons.append(why.replace("before the run began", "though nothing of the lab used it"))
    shown = {repeats: factor * worst.block_spread for repeats, factor in SHOWN_DIFFERENCE.items()}
    slowdown = spreads[-1].median_s / spreads[0].median_s if len(spreads) > 1 else None
    return Quietness(verdict, reasons, worst.block_spread, shown,
                     _meaning(verdict, worst.block_spread, shown), spreads, slowdown)


def measure_spread(part: Part) -> Spread:
    pieces = sorted(seconds for track in part.tracks for seconds in track)
    assert part.tracks and all(len(track) >= BLOCKS for track in part.tracks), "a track has at least ten pieces"
    assert pieces[0] > 0 and math.isfinite(pieces[-1]), "a piece takes some time"
    middle = median(pieces)
    slow_s = [seconds for seconds in pieces if seconds > SLOW_PIECE * middle]
    piece_spread = stdev(pieces) / middle
    block_spread, length = _block_spread(part.tracks, BLOCKS, middle)
    thirds = [(track[: len(track) // 3], track[-(len(track) // 3):]) for track in part.tracks]
    return Spread(
        part.name, len(part.tracks), len(pieces), middle,
        low=1 - quantile(pieces, 0.05) / middle, high=quantile(pieces, 0.95) / middle - 1,
        quartiles=(quantile(pieces, 0.75) - quantile(pieces, 0.25)) / middle, worst=pieces[-1] / middle,
        drift=fmean(median(last) / median(first) for first, last in thirds) - 1,
        slow_pieces=len(slow_s), longest_slow_s=max(_longest_slow(track, middle) for track in part.tracks),
        lost_share=sum(seconds - middle for seconds in slow_s) / sum(pieces),
        piece_spread=piece_spread, short_spread=_block_spread(part.tracks, SHORT_BLOCKS, middle)[0],
        block_spread=block_spread, block_s=length * middle,
        # The slowest of several processes is not a mean of independent pieces: only the comparison of one tells.
        slow_noise=block_spread > QUIET_SPREAD and _correlated(part.tracks, middle))


def percent(share: float) -> str:
    """Two digits that matter, and no false zero."""
    value = abs(share) * 100
    if value == 0:
        return "0 %"
    return "less than 0.01 %" if value < 0.01 else f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"


def quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest values, as numpy does it."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def block_means(track: Sequence[float], blocks: int) -> list[float]:
    """Means over consecutive pieces, equally many in each: like a run, a block is a fixed amount of work."""
    length = max(1, len(track) // blocks)
    return [fmean(track[at : at + length]) for at in range(0, len(track) - length + 1, length)]


def _block_spread(tracks: Sequence[Sequence[float]], blocks: int, middle: float) -> tuple[float, int]:
    """Spread of blocks, and pieces per block. Work that is spread over cores is as slow as its slowest one."""
    shortest = min(len(track) for track in tracks)
    length = max(1, shortest // blocks)
    by_track = [block_means(track, blocks) for track in tracks]
    slowest = [max(values) for values in zip(*by_track, strict=False)]
    # A common value taken off first: equal times have no spread, not one of rounding.
    return stdev(value / middle - slowest[0] / middle for value in slowest), length


def _correlated(tracks: Sequence[Sequence[float]], middle: float) -> bool:
    def noise(track: Sequence[float]) -> float:
        spread, length = _block_spread([track], BLOCKS, middle)
        single = stdev(track) / middle
        return spread * math.sqrt(length) / single if single > 0 else 0.0

    return median(noise(track) for track in tracks) > SLOW_NOISE


def _longest_slow(track: Sequence[float], middle: float) -> float:
    longest = current = 0.0
    for seconds in track:
        current = current + seconds if seconds > SLOW_PIECE * middle else 0.0
        longest = max(longest, current)
    return longest


def _meaning(verdict: Verdict, spread: float, shown: dict[int, float]) -> str:
    three, ten = percent(shown[3]), percent(shown[10])
    if verdict == "quiet":
        return f"Three repeats per cell can show a difference of {three}, if runs vary as little as these blocks did."
    if verdict == "noisy" and spread > NOISY_SPREAD:
        return (f"Even ten repeats per cell could not show less than {ten}, if runs vary as these blocks did: find out "
                "what else is running before measuring.")
    if verdict == "noisy":
        return (f"These blocks varied little (ten repeats could show {ten}), but whatever else is busy here would "
                "share the machine with every run: find out what it is before measuring.")
    return (f"Three repeats per cell can show a difference of {three}, ten one of {ten}, if runs vary as these "
            "blocks did: plan more repeats for smaller differences.")
