"""Giving way to what is measured: the server's low priority, and the one thread that starts processes without it."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HAND = ThreadPoolExecutor(1, thread_name_prefix="hand")
STEP_BACK = 19
AUTOGROUP = Path("/proc/self/autogroup")
SESSION_STEPS_BACK = 5
"""With 10, viewers were not served at all while a run kept both cores busy; with 5 they get nearly every update."""


_session_is_ours = False


def step_back() -> None:
    """For a server: from now on this thread and every thread it starts give way to what is measured, but the hand."""
    global _session_is_ours
    _session_is_ours = True
    HAND.submit(int).result()  # its thread is made now, with the priority that this process was started with
    if sys.platform == "linux":  # where priority belongs to a thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), STEP_BACK)


def yield_session(measuring: bool) -> None:
    """Linux shares processors between sessions first, and by priority only inside one: while something is measured, the
    server's whole session gives way. Sweeps have sessions of their own. A kernel that does not share so has no such
    file, or refuses; then the threads' priority has to do."""
    if _session_is_ours:
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(SESSION_STEPS_BACK if measuring else 0))
