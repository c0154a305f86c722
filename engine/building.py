"""Building preprocessed sets from any image set: once, with progress, by one process at a time, whole or not at all.

The manifest is written last and names the records; those that it does not name are removed by the next builder. Records
that are replaced stay where they are until then, so that a run which reads them is not disturbed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from engine.data import GENERATED, DataError, ImageItems, check_data, prepare_data, shown
from engine.decoding import choose_decoder
from engine.fetching import record_file, stored_files
from engine.file_cache import read_ahead
from engine.files import try_lock, write_atomically
from engine.formats import MANIFEST, Build, Format, Manifest, Source, find_build, list_source, open_items, require_room
from engine.machine import cpu_allowance

if TYPE_CHECKING:
    import torch

BATCH_ITEMS = 16
POOL_FROM_ITEMS = 128  # below this, starting workers costs more than it saves
LOOK_EVERY_S = 0.2

Progress = Callable[[int, int], None]


def prepare_items(name: str, format: Format, image_size: int, items: int, cache: Path, progress: Progress) -> None:
    """Make sure that the items are there in this format, and read them once: the first run is like the others."""
    if format == "jpeg":
        prepare_data(name, items, cache, progress)
    else:
        _build_items(name, format, image_size, items, cache, progress)
    read_ahead(stored_files(open_items(name, format, cache, image_size, items)), progress)


def _build_items(name: str, format: Format, image_size: int, items: int, cache: Path, progress: Progress) -> None:
    """Built, completed or built anew, once, by one process."""
    name = check_data(name, cache)
    build = find_build(name, format, image_size, cache)
    with _writing(build), _alone(build.folder, lambda: progress(0, items)):
        manifest = build.read_manifest()
        kept = len(manifest.labels) if manifest else 0
        damaged = build.damaged(manifest) if manifest else []
        if name == GENERATED and (kept < items or damaged):
            prepare_data(name, max(items, kept), cache, progress)
        source = list_source(name, cache, max(items, kept))
        # An array that was cut short is replaced and not mended: a run may still read it.
        mended = build.format == "tensor_files" or not damaged
        if manifest and mended and kept <= len(source.files) and source.digest(kept) == manifest.digest:
            total = max(kept, min(items, len(source.files)))
            todo = [*damaged, *range(kept, total)]
        else:
            manifest, total = None, min(items, len(source.files))
            todo = list(range(total))
        if not todo:
            progress(total, total)
            return
        require_room(build, len(todo))
        data = build.folder / (manifest.data if manifest else f"data-{secrets.token_hex(4)}")
        _tidy(build.folder, keep=build.read_manifest(), also=data.name)
        digest = source.digest(total)  # of before: what changes while it is read is noticed later
        _write_records(build, data, source, todo, total, progress)
        # What was written reaches the disk before it is declared whole, and does not disturb the first runs.
        os.sync()
        content = Manifest(name, format, image_size, data.name, digest, source.labels[:total], source.classes)
        write_atomically(build.folder / MANIFEST, msgspec.json.encode(content))
        _tidy(build.folder, keep=content)


def _write_records(build: Build, data: Path, source: Source, todo: Sequence[int], total: int,
                   progress: Progress) -> None:
    done = total - len(todo)
    progress(done, total)
    with contextlib.ExitStack() as stack:
        if build.format == "memmap":
            stream = stack.enter_context(open(data, "r+b" if data.exists() else "w+b"))
            # A killed builder may have left more than its manifest says.
            stream.seek(stream.truncate(todo[0] * build.record_bytes))
        for indices, pixels in _decoded(source, build.image_size, todo):
            if build.format == "memmap":
                stream.write(pixels.numpy().data)
            else:
                for index, one in zip(indices, pixels, strict=True):
                    file = record_file(data, index)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(one.numpy().data)
            done += len(indices)
            progress(done, total)


def _decoded(source: Source, image_size: int, todo: Sequence[int]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
    """The transformed images in order, decoded by as many workers as there are cores."""
    from torch.utils.data import DataLoader, Subset

    items = ImageItems(source.files, source.labels, source.classes, *choose_decoder("pil", image_size))
    workers = min(max(1, int(cpu_allowance().cores)), 32) if len(todo) >= POOL_FROM_ITEMS else 0
    loader = DataLoader(Subset(cast(Any, items), list(todo)), batch_size=BATCH_ITEMS, num_workers=workers,
                        multiprocessing_context="fork" if workers else None)
    try:
        for number, (pixels, _labels) in enumerate(loader):
            yield todo[number * BATCH_ITEMS : (number + 1) * BATCH_ITEMS], pixels.contiguous()
    except RuntimeError as error:
        raise DataError(f"data={shown(source.name)}: a process that decodes images was ended from outside, perhaps "
                        f"for memory ({str(error).partition(chr(10))[0]}); run again.") from error


@contextlib.contextmanager
def _alone(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """One builder at a time; the kernel releases the lock of a killed one."""
    folder.mkdir(parents=True, exist_ok=True)
    while (lock := try_lock(folder / ".lock")) is None:
        waiting()
        time.sleep(LOOK_EVERY_S)
    try:
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def _writing(build: Build) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"format={build.format}: cannot write {str(error.filename or build.folder)!r} "
                        f"({error.strerror}); free some space or set PHASELAB_HOME to a folder that can be "
                        f"written.") from error


def _tidy(folder: Path, keep: Manifest | None, also: str = "") -> None:
    """Remove records that no manifest names: what a killed builder left, or what was replaced."""
    for path in [*folder.glob("data-*"), *folder.glob(f"{MANIFEST}.*.part")]:
        if path.name not in (also, keep.data if keep else ""):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
