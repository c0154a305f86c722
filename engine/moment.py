"""Wall-clock moments for people to read. Durations never come from here: they are monotonic."""

from datetime import UTC, datetime


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
