"""The one thread of the app that starts processes: sweeps must not inherit the low priority that pages have."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

HAND = ThreadPoolExecutor(1, thread_name_prefix="hand")
STEP_BACK = 19


def step_back() -> None:
    """From now on this thread and every thread it starts give way to what is measured. Only the hand does not."""
    HAND.submit(int).result()  # its thread is made now, with the priority that this process was started with
    if sys.platform == "linux":  # where priority belongs to a thread
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), STEP_BACK)
