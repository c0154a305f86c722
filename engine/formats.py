"""How the items of an image set are stored: JPEG files as they are, one tensor file per item, or one mapped array.

A preprocessed set is raw float32 under the cache, never a pickle, beside a manifest that names its records and tells
when the source has changed. engine/building.py makes it; here it is found, checked and opened.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from engine.data import (
    GENERATED,
    GENERATED_FOLDER,
    DataError,
    check_data,
    list_images,
    name_generated,
    open_images,
    shown,
)
from engine.decoding import Decoder
from engine.fetching import MappedItems, TensorFiles, record_bytes, record_file

if TYPE_CHECKING:
    from engine.data import ImageItems

Format = Literal["jpeg", "tensor_files", "memmap"]
PREPROCESSED = "preprocessed-v1"  # a change of what is stored needs a new number: caches outlive versions
MANIFEST = "manifest.json"


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What a built set holds: the first `len(labels)` items of its source, as they were then."""

    source: str
    format: str
    image_size: int
    data: str
    """The file or folder beside the manifest that holds the records."""
    digest: str
    labels: list[int]
    classes: list[str]


class Source(NamedTuple):
    """The images of a set, in its fixed order."""

    name: str
    files: list[str]
    labels: list[int]
    classes: list[str]

    def digest(self, count: int) -> str:
        """Names the first items: path, size and time of change of each file."""
        whole = hashlib.sha256()
        for file in self.files[:count]:
            # Generated images are a function of their name: their files may come and go.
            stamp = Path(file).name if self.name == GENERATED else f"{file}\0{_stamp(file)}"
            whole.update(f"{stamp}\n".encode(errors="surrogateescape"))
        return whole.hexdigest()


class Build(NamedTuple):
    """Where one source is kept in one format and size."""

    folder: Path
    format: Format
    image_size: int

    @property
    def record_bytes(self) -> int:
        return record_bytes(self.image_size)

    def read_manifest(self) -> Manifest | None:
        """None where there is none that can be used."""
        try:
            manifest = msgspec.json.decode((self.folder / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            return None
        fits = (manifest.format, manifest.image_size) == (self.format, self.image_size)
        return manifest if fits and re.fullmatch(r"data-[0-9a-f]{8}", manifest.data) else None

    def damaged(self, manifest: Manifest) -> list[int]:
        """Items whose record is not there whole; of an array either none or all."""
        count, data = len(manifest.labels), self.folder / manifest.data
        if self.format == "memmap":
            return [] if _size(data) >= count * self.record_bytes else list(range(count))
        return [index for index in range(count) if _size(record_file(data, index)) != self.record_bytes]


def open_items(name: str, format: Format, cache: Path, image_size: int, limit: int,
               decoder: Decoder = "pil") -> ImageItems | TensorFiles | MappedItems:
    """At most `limit` items of a set, in its order. A preprocessed set that is not whole is refused."""
    if format == "jpeg":
        return open_images(name, cache, image_size, limit, decoder)
    name = check_data(name, cache)
    build = find_build(name, format, image_size, cache)
    manifest = build.read_manifest()
    again = "launch or resume the sweep: it is built before the first run"
    if manifest is None:
        raise DataError(f"format={format}: {shown(name)} has not been built at {image_size} px; {again}.")
    source = list_source(name, cache, max(limit, len(manifest.labels)))
    if source.digest(len(manifest.labels)) != manifest.digest:
        raise DataError(f"format={format}: the images of {shown(name)} have changed since they were built; {again}.")
    count = min(limit, len(source.files))
    if count > len(manifest.labels):
        raise DataError(f"format={format}: {len(manifest.labels)} of {count} items of {shown(name)} are built; "
                        f"{again}.")
    if damaged := build.damaged(manifest):
        raise DataError(f"format={format}: {len(damaged)} of {len(manifest.labels)} records in {build.folder} are cut "
                        f"short or missing; {again}.")
    opened = TensorFiles if format == "tensor_files" else MappedItems
    return opened(build.folder / manifest.data, manifest.labels[:count], manifest.classes, image_size)


def check_room(name: str, format: Format, image_size: int, items: int, cache: Path) -> None:
    """Whether the disk has room for what is not built yet, before anything is started."""
    if format == "jpeg":
        return
    build = find_build(check_data(name, cache), format, image_size, cache)
    manifest = build.read_manifest()
    missing = items - (len(manifest.labels) if manifest else 0)
    if missing * build.record_bytes <= _free_bytes(build.folder):
        return
    if name != GENERATED:  # the folder may hold fewer images than were asked for: count them only now
        missing -= items - len(list_source(name, cache, items).files)
    require_room(build, missing)


def find_build(name: str, format: Format, image_size: int, cache: Path) -> Build:
    """A folder for each set, size and format; sets of the same last name are told apart by the whole path."""
    label = GENERATED_FOLDER if name == GENERATED else re.sub(r"[^A-Za-z0-9_.-]", "_", Path(name).name)[:60] or "root"
    told_apart = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    return Build(cache / PREPROCESSED / f"{label}-{image_size}px-{format}-{told_apart}", format, image_size)


def list_source(name: str, cache: Path, limit: int) -> Source:
    if name != GENERATED:
        return Source(name, *list_images(name, cache, limit))
    return Source(name, *name_generated(cache / GENERATED_FOLDER, limit))


def require_room(build: Build, items: int) -> None:
    needed_bytes, free_bytes = items * build.record_bytes, _free_bytes(build.folder)
    if needed_bytes > free_bytes:
        raise DataError(f"format={build.format}: {items} items of {build.image_size} px need {needed_bytes:,} bytes "
                        f"and {build.folder.parent} has {free_bytes:,} free; ask for fewer or smaller images, or set "
                        f"PHASELAB_HOME to a folder on a larger disk.")


def _free_bytes(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1


def _stamp(file: str) -> str:
    try:
        status = os.stat(file)
    except OSError:
        return "gone"
    return f"{status.st_size} {status.st_mtime_ns}"
