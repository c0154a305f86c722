"""Numbers for people: the unit is always right, and unknown or not finite is said instead of shown as a number."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ui.units import amount, metric_amount, seconds, size

UNKNOWN = "–"
FACTORS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "bytes": 1.0, "KiB": 2.0**10,
           "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "PiB": 2.0**50}


def read_back(text: str) -> float:
    """The value a person reads from the text, in seconds or bytes."""
    sign = -1 if text.startswith("-") else 1
    parts = re.findall(r"([0-9.,]+(?:e[+-]?\d+)?) ([a-zA-Zµ]+)", text)
    assert parts, text
    return sign * sum(float(number.replace(",", "")) * FACTORS[unit] for number, unit in parts)


@pytest.mark.parametrize(("value", "text"), [
    (None, UNKNOWN), (0, "0 s"), (12e-6, "12.0 µs"), (0.0015, "1.50 ms"), (0.25, "250 ms"), (1, "1.00 s"),
    (9.5, "9.50 s"), (42.25, "42.2 s"), (119, "119.0 s"), (120, "2 min 0 s"), (150, "2 min 30 s"), (3600, "1 h 0 min"),
    (86_400, "24 h 0 min")])
def test_seconds(value: float | None, text: str) -> None:
    assert seconds(value) == text


@given(st.floats(1e-6, 1e9))
def test_seconds_are_never_wrong_by_a_factor(value: float) -> None:
    # The coarsest steps are half a unit of a small number (1.5 µs) and a minute of an hour.
    assert read_back(seconds(value)) == pytest.approx(value, rel=0.34 if value < 10e-6 else 0.06)


@given(st.floats(1e-6, 1e9))
def test_a_negative_time_reads_like_the_positive_one(value: float) -> None:
    assert seconds(-value) in (f"-{seconds(value)}", f"−{seconds(value)}")


def test_a_time_above_zero_is_not_shown_as_zero() -> None:
    assert read_back(seconds(4e-7)) == pytest.approx(4e-7)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("unit", ["s", "bytes", "items/s", "", None])
def test_what_is_not_finite_is_said(value: float, unit: str | None) -> None:
    """A loss can be NaN: the run is shown all the same, and no made-up unit."""
    text = amount(value, unit)
    assert not re.search(r"\d", text)
    assert "TiB" not in text
    assert re.search("nan|not a number" if math.isnan(value) else "inf|∞", text, re.IGNORECASE)


@pytest.mark.parametrize(("value", "text"), [
    (None, UNKNOWN), (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (2**20, "1.0 MiB"),
    (11.1 * 2**30, "11.1 GiB"), (2**40, "1.0 TiB"), (-2048, "-2.0 KiB")])
def test_size(value: float | None, text: str) -> None:
    assert size(value) == text


@given(st.floats(1, 1e18))
def test_sizes_are_never_wrong_by_a_factor(value: float) -> None:
    assert read_back(size(value)) == pytest.approx(value, rel=0.34 if value < 10 else 0.06)
    assert read_back(size(-value)) == -read_back(size(value))


@pytest.mark.parametrize(("value", "unit", "text"), [
    (None, "s", UNKNOWN), (None, None, UNKNOWN), (0.25, "s", "250 ms"), (2**21, "bytes", "2.0 MiB"),
    (12, "batches", "12 batches"), (9216, "items", "9,216 items"), (0.5, None, "0.5"), (0, "", "0"),
    (1234567, "items", "1,234,567 items"), (53.125, "items/s", "53.12 items/s"), (-3, None, "-3")])
def test_amount(value: float | None, unit: str | None, text: str) -> None:
    assert amount(value, unit) == text


@given(st.floats(-1e12, 1e12))
def test_amounts_keep_their_size(value: float) -> None:
    shown = float(amount(value, None).replace(",", ""))
    assert shown == pytest.approx(value, rel=1e-3, abs=1e-300)


def test_thousands_are_not_shown_as_powers_of_ten() -> None:
    assert amount(12345.6, "items/s") == "12,346 items/s"


@pytest.mark.parametrize(("metric", "value", "text"), [
    ("resident_bytes", 3 * 2**30, "3.0 GiB"), ("disk_read_bytes_per_s", 2**20, "1.0 MiB/s"),
    ("steal_share", 0.015, "1.5%"), ("gpu_utilization", 0.97, "97.0%"), ("run_cpu_cores", 1.5, "1.5 cores"),
    ("power_watts", 250.0, "250 W"), ("temperature_celsius", 61.0, "61 °C"), ("sm_clock_hz", 1.41e9, "1410 MHz"),
    ("processes", 3.0, "3")])
def test_telemetry_by_the_unit_in_its_name(metric: str, value: float, text: str) -> None:
    assert metric_amount(metric, value) == text


@pytest.mark.parametrize(("metric", "value", "text"), [
    ("power_watts", 1234.0, "1234 W"), ("processes", 1500.0, "1500")])
def test_telemetry_above_a_thousand(metric: str, value: float, text: str) -> None:
    assert metric_amount(metric, value).replace(",", "") == text
