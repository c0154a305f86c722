"""Is one configuration faster than another? Ratios and intervals over runs, on the logarithm of each run's figure.

The unit is the run: batches inside one run are not independent. Logarithms, because times vary by shares of themselves
and a ratio is what people ask for. Welch's t, because two cells rarely vary alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import Literal, NamedTuple

from scipy.special import stdtrit

LEVEL = 0.95
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


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """One cell over its runs. Values must be positive: a time of zero or less was not measured."""
    logs = _logs(values)
    centre = fmean(logs)
    if len(logs) < 2:
        return Estimate(math.exp(centre), None, None, len(logs))
    half = _quantile(len(logs) - 1, level) * math.sqrt(variance(logs) / len(logs))
    return Estimate(math.exp(centre), _exp(centre - half), _exp(centre + half), len(logs))


def compare(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Ratio:
    """a / b: Welch's t on the logarithms of the runs."""
    logs_a, logs_b = _logs(a), _logs(b)
    centre = fmean(logs_a) - fmean(logs_b)
    if len(logs_a) < 2 or len(logs_b) < 2:
        return Ratio(math.exp(centre), None, None, len(logs_a), len(logs_b))
    share_a, share_b = variance(logs_a) / len(logs_a), variance(logs_b) / len(logs_b)
    both = share_a + share_b
    if both == 0:
        return Ratio(math.exp(centre), math.exp(centre), math.exp(centre), len(logs_a), len(logs_b))
    freedom = both**2 / (share_a**2 / (len(logs_a) - 1) + share_b**2 / (len(logs_b) - 1))
    half = _quantile(freedom, level) * math.sqrt(both)
    return Ratio(math.exp(centre), _exp(centre - half), _exp(centre + half), len(logs_a), len(logs_b))


def _logs(values: Sequence[float]) -> list[float]:
    assert values and all(0 < value < math.inf for value in values), "runs with a positive, finite figure"
    return [math.log(value) for value in values]


def _quantile(freedom: float, level: float) -> float:
    return float(stdtrit(freedom, 0.5 + level / 2))


def _exp(value: float) -> float:
    """An interval may be wider than a float can say."""
    return math.exp(value) if value < 700 else math.inf
