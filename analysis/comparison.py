"""Is one configuration faster than another? Ratios and intervals over runs, on the logarithm of each run's figure.

The unit is the run: batches inside one run are not independent. Logarithms, because times vary by shares of themselves
and a ratio is what people ask for. Welch's t, because two cells rarely vary alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import Literal, NamedTuple

from scipy.special import nctdtrinc, stdtrit

LEVEL = 0.95
POWER = 0.8
"""How often a difference has to be shown, for its size to count as one that could have been found."""
CLAIM_RUNS = 3
"""An interval over two runs holds as often as one over more, but it stands on a single difference between runs: a
verdict from fewer than this says so."""
Verdict = Literal["higher", "lower", "no difference shown", "too few runs to tell"]


class Estimate(NamedTuple):
    """The geometric mean over runs. `low` and `high` are None with fewer than two runs: one run has no interval."""

    value: float
    low: float | None
    high: float | None
    runs: int


class Ratio(NamedTuple):
    """How many times `a` is of `b`, with the interval of that ratio."""

    value: float
    low: float | None
    high: float | None
    runs_a: int
    runs_b: int

    @property
    def verdict(self) -> Verdict:
        """Of a against b: they differ only if the interval leaves out 1."""
        if self.low is None or self.high is None:
            return "too few runs to tell"
        return "higher" if self.low > 1 else "lower" if self.high < 1 else "no difference shown"

    @property
    def caution(self) -> str:
        """What a sentence adds that says two sides differ; empty where they do not, or with runs enough."""
        differ = self.verdict in ("higher", "lower")
        return ", from two runs only" if differ and min(self.runs_a, self.runs_b) < CLAIM_RUNS else ""


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """One cell over its runs. Values must be positive: a time of zero or less was not measured."""
    return estimate_over_models([values], level)


def compare(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Ratio:
    """a / b: Welch's t on the logarithms of the runs."""
    return compare_over_models([a], [b], level)


def estimate_over_models(runs: Sequence[Sequence[float]], level: float = LEVEL) -> Estimate:
    """One list of runs per model: the geometric mean over models of their geometric means."""
    logs = [_logs(values) for values in runs]
    centre, half, fewest = fmean(map(fmean, logs)), _half_width(logs, len(logs), level), min(map(len, logs))
    if half is None:
        return Estimate(math.exp(centre), None, None, fewest)
    return Estimate(math.exp(centre), _exp(centre - half), _exp(centre + half), fewest)


def compare_over_models(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], level: float = LEVEL) -> Ratio:
    """a / b, model by model: the ratio of geometric means over models, Welch's t with the runs of every model."""
    assert a and len(a) == len(b), "the same models on both sides"
    logs_a, logs_b = [_logs(values) for values in a], [_logs(values) for values in b]
    centre = fmean(map(fmean, logs_a)) - fmean(map(fmean, logs_b))
    half = _half_width([*logs_a, *logs_b], len(a), level)
    fewest = (min(map(len, logs_a)), min(map(len, logs_b)))
    if half is None:
        return Ratio(math.exp(centre), None, None, *fewest)
    return Ratio(math.exp(centre), _exp(centre - half), _exp(centre + half), *fewest)


def smallest_shift(a: Sequence[float], b: Sequence[float], level: float = LEVEL, power: float = POWER) -> float | None:
    """The smallest ratio above 1 that so many runs, varying as these do, show with this power. None when one side has
    a single run. It is as uncertain as the variation that it is made of, which with three runs is much."""
    error = _error([_logs(a), _logs(b)], 1)
    if error is None:
        return None
    if not error.size:
        return 1.0
    # Each comparison estimates its freedom anew, between that of the smaller side and that of both together. With this
    # one's own, three runs a side would have a power of 70 % instead of 80 %; the middle is right from 3 to 10 runs.
    freedom = (min(len(a), len(b)) - 1 + error.freedom) / 2
    half = float(stdtrit(freedom, 0.5 + level / 2))
    return _exp(float(nctdtrinc(freedom, 1 - power, half)) * error.size)


class _Error(NamedTuple):
    """The standard error of a mean of logarithms, and Welch's degrees of freedom."""

    size: float
    freedom: float


def _half_width(groups: Sequence[Sequence[float]], models: int, level: float) -> float | None:
    """Half the interval of a mean over models of logarithms; None when one group has a single run."""
    error = _error(groups, models)
    if error is None:
        return None
    return float(stdtrit(error.freedom, 0.5 + level / 2)) * error.size if error.size else 0.0


def _error(groups: Sequence[Sequence[float]], models: int) -> _Error | None:
    if any(len(logs) < 2 for logs in groups):
        return None
    shares = [variance(logs) / len(logs) / models**2 for logs in groups]
    whole = sum(shares)
    if whole == 0:
        return _Error(0.0, math.inf)
    freedom = whole**2 / sum(share**2 / (len(logs) - 1) for share, logs in zip(shares, groups, strict=True))
    return _Error(math.sqrt(whole), freedom)


def _logs(values: Sequence[float]) -> list[float]:
    assert values and all(0 < value < math.inf for value in values), "runs with a positive, finite figure"
    return [math.log(value) for value in values]


def _exp(value: float) -> float:
    """An interval may be wider than a float can say."""
    return math.exp(value) if value < 700 else math.inf
