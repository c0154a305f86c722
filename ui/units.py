"""Numbers with units, for people."""

from __future__ import annotations


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 1e-3:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms" if value < 0.1 else f"{value * 1e3:.0f} ms"
    if value < 120:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def amount(value: float | None, unit: str | None) -> str:
    """A metric in the unit a person reads: seconds and bytes scaled, shares as per cent."""
    if value is None:
        return "–"
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return size(value)
    text = f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4g}"
    return f"{text} {unit}" if unit else text


def size(value: float | None) -> str:
    if value is None:
        return "–"
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
    for ending, unit in (("_cores", "cores"), ("_watts", "W"), ("_celsius", "°C"), ("_hz", "Hz")):
        if metric.endswith(ending):
            return f"{value:.3g} {unit}" if unit != "Hz" else f"{value / 1e6:.0f} MHz"
    return f"{value:.3g}"
