"""Removing the journals of what was deleted: the second half of a delete, and the only one without an undo."""

from __future__ import annotations

import os
import secrets
import shutil

from engine import queue
from engine.files import try_lock
from engine.home import Home
from engine.params import InputError
from engine.people import annotate


def erase(home: Home, targets: list[str]) -> None:
    """Erase sweeps and runs. A sweep that is open is refused, before anything
    is touched. Folders leave under another name first, so that a half-removed one is never taken for a sweep."""
    sweeps = {target for target in targets if home.sweep(target).path.is_dir()}
    runs = {target: sweep_id for target in targets if target not in sweeps
            and home.sweep(sweep_id := target.rsplit("-", 2)[0]).path.is_dir()}
    touched = sorted(sweeps | {sweep_id for sweep_id in runs.values() if sweep_id not in sweeps})
    line = queue.read_queue(home)
    if waiting := [sweep_id for sweep_id in touched if line.find(sweep_id)]:
        raise InputError(f"sweep {waiting[0]} is being measured or waits for its turn; cancel it first, then erase")
    locks = []
    try:
        for sweep_id in touched:
            lock = try_lock(home.sweep(sweep_id).lock)
            if lock is None:
                raise InputError(f"sweep {sweep_id} is being measured; cancel it first, then erase")
            locks.append(lock)
        for run_id, sweep_id in runs.items():
            for path in home.sweep(sweep_id).runs.glob(f"{run_id}.*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for sweep_id in sweeps:
            aside = home.root / "erased" / f"{sweep_id}-{secrets.token_hex(2)}"
            aside.parent.mkdir(exist_ok=True)
            home.sweep(sweep_id).path.rename(aside)
        if sweeps:
            shutil.rmtree(home.root / "erased")
        # Last: until it is said, whoever was interrupted can erase again.
        annotate(home, targets, "erase")
    finally:
        for lock in locks:
            os.close(lock)
