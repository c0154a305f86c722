"""Whether a file is in the system's file cache, and bringing it there or out of it: what a load time depends on."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Literal

CacheState = Literal["warm", "cold"]


def set_cache(file: Path, state: CacheState) -> None:
    """Read the file once, or ask the kernel to let go of it. What came of it is what cached_share says."""
    with file.open("rb") as stream:
        if state == "warm":
            while stream.read(1 << 24):
                pass
        else:
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
