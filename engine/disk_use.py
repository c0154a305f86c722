"""Sizes on disk of what the lab has written: quick enough for a page, also with tens of thousands of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from engine.home import Home


class Use(NamedTuple):
    size_bytes: int
    files: int


def measure_use(path: Path | str) -> Use:
    """Bytes and number of files of a file or folder. Links are not followed; what vanishes meanwhile is not counted."""
    size_bytes = files = 0
    waiting = [os.fspath(path)]
    if os.path.islink(path) or not os.path.isdir(path):
        try:
            return Use(os.lstat(path).st_size, 1)
        except FileNotFoundError:
            return Use(0, 0)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                        continue
                    try:
                        size_bytes += entry.stat(follow_symlinks=False).st_size
                    except FileNotFoundError:
                        continue
                    files += 1
        except (FileNotFoundError, PermissionError):
            continue  # removed while we looked, or not ours to see
    return Use(size_bytes, files)


_ended: dict[str, tuple[tuple[int, ...], Use]] = {}
"""Sweeps seen at rest: folder -> when it and its runs changed last, and their size. A sweep that has ended never
changes but by compressing or adding files, and that changes the folder."""


def measure_sweeps(home: Home) -> Use:
    """Journals and logs of all sweeps. Those at rest are walked once per process."""
    uses = []
    for sweep_id in home.sweep_ids():
        folder = home.sweep(sweep_id)
        changed = _changed(folder.path, folder.runs)
        known = _ended.get(str(folder.path))
        if known and changed and known[0] == changed:
            uses.append(known[1])
            continue
        at_rest = not folder.process.exists()
        use = measure_use(folder.path)
        if at_rest and changed:
            _ended[str(folder.path)] = (changed, use)
        uses.append(use)
    return _sum(uses)


def _changed(*folders: Path) -> tuple[int, ...] | None:
    try:
        return tuple(os.stat(folder).st_mtime_ns for folder in folders)
    except FileNotFoundError:
        return None


def measure_store(home: Home) -> Use:
    """The database with its write-ahead log."""
    return _sum([measure_use(home.store), measure_use(home.store.with_name(home.store.name + ".wal"))])


def measure_rest(home: Home) -> Use:
    """What is neither sweeps nor store nor cache: notes of people, the queue, damaged stores set aside."""
    known = {home.sweeps, home.cache, home.store, home.store.with_name(home.store.name + ".wal")}
    found = [Path(entry.path) for entry in os.scandir(home.root)] if home.root.is_dir() else []
    return _sum([measure_use(path) for path in found if path not in known])


def _sum(uses: list[Use]) -> Use:
    return Use(sum(use.size_bytes for use in uses), sum(use.files for use in uses))
