"""Numbers with units, for people."""

from __future__ import annotations

import math

USELESS = 100
"""An interval whose end is so many times its beginning says only that there were too few runs."""
TOO_FAR = "too far apart for an interval of use"


def seconds(value: float | None) -> str:
    """A time in the unit that fits: nothing above zero is shown as zero."""
    if value is None or not math.isfinite(value):
        return "–" if value is None else str(value)
    if value < 0:
        return "-" + seconds(-value)
    if value == 0:
        return "0 s"
    if value < 1e-6:
        return f"{_measured(value * 1e9)} ns"
    if value < 1e-3:
        return f"{_measured(value * 1e6)} µs"
    if value < 1:
        return f"{_measured(value * 1e3)} ms"
    if value < 120:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def amount(value: float | None, unit: str | None) -> str:
    """A metric in the unit a person reads: seconds and bytes scaled, others with thousands apart."""
    if value is None:
        return "–"
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return size(value)
    return f"{number(value)} {unit}" if unit else number(value)


def number(value: float) -> str:
    """Four digits that matter, and no powers of ten where people count."""
    if not math.isfinite(value):
        return str(value)
    if 1000 <= abs(value) < 1e15 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def size(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "–" if value is None else str(value)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def metric_amount(metric: str, value: float) -> str:
    """A telemetry reading by the unit in its name."""
    if metric.endswith("_bytes_per_s"):
        return size(value) + "/s"
    if metric.endswith("_bytes"):
        return size(value)
    if metric.endswith("_share") or metric == "gpu_utilization":
        return f"{value:.1%}"
    if metric.endswith("_hz"):
        return f"{value / 1e6:.0f} MHz"
    for ending, unit in (("_cores", "cores"), ("_watts", "W"), ("_celsius", "°C")):
        if metric.endswith(ending):
            return f"{_three(value)} {unit}"
    return _three(value)


def _three(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def _measured(value: float) -> str:
    """Three digits that matter, zeros among them: 4.00 is not 4."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"
