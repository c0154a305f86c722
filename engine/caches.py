"""What the cache folder holds, what it costs to have it again, and removing one entry: never anything outside it.

A removed entry is renamed aside first, so that nobody ever sees half of it; what an interrupted removal left aside is
an entry of its own and can be removed again.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from pathlib import Path
from typing import NamedTuple

from engine import queue
from engine.data import GENERATED_FOLDER, IMAGENETTE, IMAGENETTE_FOLDERS, STALE_SECONDS
from engine.disk_use import measure_use
from engine.formats import PREPROCESSED
from engine.home import Home
from engine.params import InputError, shorten
from engine.sweep_state import process_alive
from engine.synthetic_snapshots import CACHE as SYNTHETIC_SNAPSHOTS

WEIGHTS, STATES = "weights", "states"
ASIDE = ".removing-"
FETCHING = "fetching-"


class CacheEntry(NamedTuple):
    name: str  # its path below the cache folder, and what removal is asked by
    title: str
    size_bytes: int
    files: int
    again: str  # what it takes to have it again
    kept_because: str  # why it cannot be removed here; empty when it can


def list_caches(home: Home) -> list[CacheEntry]:
    """Everything in the cache folder, the largest first."""
    found = []
    for path in _paths(home):
        name = path.relative_to(home.cache).as_posix()
        use = measure_use(path)
        found.append(CacheEntry(name, _title(name), use.size_bytes, use.files, _again(name), _kept_because(path)))
    return sorted(found, key=lambda entry: (-entry.size_bytes, entry.name))


def remove_cache(home: Home, name: str) -> int:
    """Remove one entry; returns the bytes that were freed. Refused while a sweep is there that may need it."""
    # Only names that the listing gives: no path from outside is ever joined to the cache folder.
    path = next((path for path in _paths(home) if path.relative_to(home.cache).as_posix() == name), None)
    if path is None:
        raise InputError(f"cache {shorten(name)}: there is no such entry; reload the page to see what there is")
    if why := _kept_because(path):
        raise InputError(f"cache {name}: {why}")
    # Deleting gigabytes keeps the disk busy: nothing is measured on this machine until it is done.
    lock = queue.MachineLock()
    if not lock.try_to_take():
        raise InputError(f"cache {name}: this machine is being measured now and deleting would disturb it; wait until "
                         "that has ended")
    try:
        aside = path.with_name(f"{ASIDE}{path.name.removeprefix(ASIDE)[:80]}-{secrets.token_hex(4)}")
        with queue.editing(home) as line:  # while this is held no sweep gets in line
            waiting = {entry.sweep_id for entry in line.entries} | _alive(home)
            if waiting:
                raise InputError(f"cache {name}: sweep {min(waiting)} is queued or being measured and may need it; "
                                 "wait until it has ended or cancel it")
            try:
                os.rename(path, aside)
            except FileNotFoundError:
                raise InputError(f"cache {name}: it has been removed already") from None
        freed = measure_use(aside).size_bytes
        # rmtree removes links and does not follow them.
        shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
    except OSError as error:
        raise InputError(f"cache {name}: {error.filename or path} could not be removed ({error.strerror}); what is "
                         "left of it is listed as an interrupted removal") from error
    finally:
        lock.release()
    return freed


def _paths(home: Home) -> list[Path]:
    """Entries of the cache folder; the sizes of Imagenette and each preprocessed set are entries of their own."""
    found = []
    for path in _children(home.cache):
        if path.name in (IMAGENETTE, PREPROCESSED) and path.is_dir() and not path.is_symlink():
            found += _children(path)
        else:
            found.append(path)
    return found


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _kept_because(path: Path) -> str:
    if path.is_symlink():
        return "it is a link to a place outside the cache; remove the link by hand if that is meant"
    if path.name.startswith(FETCHING) and time.time() - path.stat().st_mtime < STALE_SECONDS:
        # The same rule by which the next download tidies up.
        return "a download may be under way; what a broken one left can be removed a day later"
    return ""


def _alive(home: Home) -> set[str]:
    """Sweeps with a living process, also those that are not in line yet."""
    return {sweep_id for sweep_id in home.sweep_ids()
            if home.sweep(sweep_id).process.exists() and process_alive(home.sweep(sweep_id))}


def _title(name: str) -> str:
    last = name.rpartition("/")[2]
    if last.startswith(ASIDE):
        return "Rest of an interrupted removal"
    if last.startswith(FETCHING):
        return "Unfinished download of Imagenette"
    if name == GENERATED_FOLDER:
        return "Generated images"
    if name.startswith(f"{PREPROCESSED}/"):
        return f"Preprocessed images: {last.rpartition('-')[0]}"
    if name.startswith("generated-"):
        return "Generated images of another version"
    if name == SYNTHETIC_SNAPSHOTS:
        return "Synthetic model snapshots"
    if name == WEIGHTS:
        return "Pretrained weights"
    if name == STATES:
        return "States of networks that bottleneck runs load"
    for size, folder in IMAGENETTE_FOLDERS.items():
        if name == f"{IMAGENETTE}/{folder}":
            return f"Imagenette, {'full size' if size == 'full' else size}"
    return "Not known to this version"


def _again(name: str) -> str:
    last = name.rpartition("/")[2]
    if last.startswith((ASIDE, FETCHING)):
        return "Not needed any more"
    if name in (GENERATED_FOLDER, SYNTHETIC_SNAPSHOTS):
        return "Made again when a sweep needs it"
    if name.startswith(f"{PREPROCESSED}/"):
        return "Built again from its images when a sweep needs it"
    if name.startswith("generated-"):
        return "Not used by this version"
    if name == WEIGHTS:
        return "Downloaded again when a sweep asks for pretrained weights"
    if name == STATES:
        return "Made again when a sweep needs it"
    for size, folder in IMAGENETTE_FOLDERS.items():
        if name == f"{IMAGENETTE}/{folder}":
            return f"Must be downloaded again: python lab.py fetch imagenette --size {size}"
    return "Not known: look at it before removing it"
