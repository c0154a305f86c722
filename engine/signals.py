"""Work that a signal handler must not interrupt half-way. Handlers here raise: a cancel, a dead loader worker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

RAISING = {signal.SIGTERM, signal.SIGCHLD}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that would raise wait until the block has ended; one that came just before raises on entry."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, RAISING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
