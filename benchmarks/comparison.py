"""What the benchmarks share: ratios with 95 % intervals over rounds, the stamp of the machine, one JSON document.

Imported first by each script: it makes the project importable, here and in the processes that a script starts.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist, mean, median, stdev
from typing import Any, NamedTuple

PROJECT = Path(__file__).resolve().parent.parent
EXPERIMENTS = PROJECT / "benchmarks" / "experiments"
LIBRARIES = ("torch", "torchvision", "duckdb", "msgspec", "pyarrow", "numpy", "streamlit", "altair")

sys.path.insert(0, str(PROJECT))
# A forkserver finds its preload by this variable, as in a sweep; an import that fails there says nothing.
os.environ["PYTHONPATH"] = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])


class Estimate(NamedTuple):
    """A geometric mean over rounds with its 95 % interval."""

    value: float
    interval: tuple[float, float]
    rounds: int


def estimate(values: Sequence[float]) -> Estimate:
    """Student's t on the logarithms; the round is the unit, what is inside one is not independent."""
    logs = [math.log(value) for value in values]
    margin = t_quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return Estimate(math.exp(mean(logs)), (math.exp(mean(logs) - margin), math.exp(mean(logs) + margin)), len(logs))


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Paired: both were measured in the same round, so that drift of the machine touches them alike."""
    return estimate([one / other for one, other in zip(numerators, denominators, strict=True)])


def t_quantile(freedom: int) -> float:
    """Student's 97.5 % point by the Cornish-Fisher expansion: right to 0.1 % from 6 degrees of freedom on."""
    assert freedom >= 6, "too few rounds for an interval"
    z, v = NormalDist().inv_cdf(0.975), freedom
    return (z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3))


def spread(values: Sequence[float]) -> dict[str, float | int]:
    return {"median": median(values), "minimum": min(values), "maximum": max(values), "count": len(values)}


def at_most(name: str, limit: float, found: Estimate) -> dict[str, Any]:
    """Met only when the whole interval is."""
    return _limit(name, limit, found, found.interval[1] <= limit)


def at_least(name: str, limit: float, found: Estimate) -> dict[str, Any]:
    return _limit(name, limit, found, found.interval[0] >= limit)


def not_above(name: str, limit: float, found: Estimate) -> dict[str, Any]:
    """Met unless it is shown to be above: what "no longer than" can mean within noise."""
    return _limit(name, limit, found, found.interval[0] <= limit)


def _limit(name: str, limit: float, found: Estimate, met: bool) -> dict[str, Any]:
    return {"name": name, "limit": limit, "value": found.value, "interval": found.interval, "met": met}


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def print_report(benchmark: str, what: str, results: dict[str, Any], limits: Iterable[dict[str, Any]]) -> None:
    """The one document on stdout. Estimates are written with the names of their parts."""
    document = {"benchmark": benchmark, "what": what, "machine": describe_machine(), "results": results,
                "limits": list(limits)}
    print(json.dumps(_with_names(document), indent=2, allow_nan=False))


def describe_machine() -> dict[str, Any]:
    from engine.machine import cpu_allowance, cpu_model

    return {"cpu": cpu_model(), "cores": cpu_allowance().cores, "load_1_min": round(os.getloadavg()[0], 2),
            "os": platform.platform(), "python": platform.python_version(),
            "libraries": {name: version(name) for name in LIBRARIES},
            "date": datetime.now(UTC).isoformat(timespec="seconds")}


def _with_names(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value._asdict()
    if isinstance(value, dict):
        return {name: _with_names(part) for name, part in value.items()}
    return value
