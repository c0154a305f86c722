"""Files that several processes share: locks that the kernel releases with their holder, and whole replacements."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def try_lock(path: Path) -> int | None:
    """An exclusive lock as an open file, or None when another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        file = os.open(path, os.O_RDONLY)  # another user's lock file can be locked without being written
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for an exclusive lock: for edits that take milliseconds."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def write_atomically(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)


def write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1).encode())
