"""Wall-clock moments for people to read. Durations never come from here: they are monotonic."""

from datetime import UTC, datetime


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def utc_now_exact() -> str:
    """To the microsecond: the order of two clicks is kept."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
