"""Work that a signal handler must not interrupt half-way. Handlers in a run process raise: a cancel, a dead worker.

Blocking the signals in this thread would not do: the kernel may hand them to a thread of torch's, and Python runs the
handler in the main thread all the same. So the handlers themselves step aside for a moment.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

RAISING = (signal.SIGTERM, signal.SIGCHLD)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that come while the block runs are handled when it has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before: dict[int, Any] = {}
    try:
        for raising in RAISING:
            handler = signal.getsignal(raising)
            if callable(handler):
                before[raising] = handler
                signal.signal(raising, lambda number, frame: came.append(number))
        yield
    finally:
        _restore(list(before.items()))
    for number in came:
        before[number](number, None)


def _restore(handlers: list[tuple[int, Any]]) -> None:
    """All of them, even if one raises as soon as it is back."""
    if handlers:
        number, handler = handlers[0]
        try:
            signal.signal(number, handler)
        finally:
            _restore(handlers[1:])
