"""Whether a file is in the system's file cache, and bringing it there or out of it: what a load time depends on."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from engine.machine import memory_available_bytes, memory_levels

CacheState = Literal["warm", "cold"]
TELL_EVERY = 100
"""Files between two signs of progress."""


def read_ahead(files: Sequence[str | Path], progress: Callable[[int, int], None],
               room_bytes: int | None = None) -> bool:
    """Every file once, before the first run of a sweep: otherwise that run alone would wait for the disk. Left alone
    (False) are files that do not fit into the free memory together: the last would drive out the first, and every run
    reads them from the disk alike."""
    room = memory_available_bytes(memory_levels()) if room_bytes is None else room_bytes
    with contextlib.suppress(OSError):  # what cannot be read is reported by whoever needs it
        if room is None or sum(os.stat(file).st_size for file in files) > room:
            return False
    for number, file in enumerate(files, 1):
        read_once(file)
        if number % TELL_EVERY == 0 or number == len(files) > 1:  # one file has no progress to tell
            progress(number, len(files))
    return True


def read_once(file: str | Path) -> None:
    """Into the file cache, if there is room. What cannot be read is reported by whoever needs it."""
    block = bytearray(1 << 20)
    with contextlib.suppress(OSError), open(file, "rb", buffering=0) as stream:
        while stream.readinto(block):
            pass


def set_cache(file: Path, state: CacheState) -> None:
    """Read the file once, or ask the kernel to let go of it. What came of it is what cached_share says."""
    if state == "warm":
        read_once(file)
        return
    with file.open("rb") as stream:
        os.fsync(stream.fileno())  # pages that are not on disk yet cannot be dropped
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(file: Path) -> float | None:
    """The share of a file's pages that are in memory now; None where the system does not tell."""
    size = file.stat().st_size
    if size == 0:
        return None
    pages = -(-size // mmap.PAGESIZE)
    libc = ctypes.CDLL(None, use_errno=True)
    seen = (ctypes.c_ubyte * pages)()
    # A private writable map, because ctypes gives the address of writable buffers only. Nothing is written.
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        try:
            failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), seen)
        finally:
            del start  # an exported buffer keeps the map from being closed
    return None if failed else sum(page & 1 for page in seen) / pages
