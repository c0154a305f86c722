"""The file that a bundle is: a zip archive with a manifest of all its files and a seal over every byte.

The seal, a SHA-256 in the archive's comment, is checked before anything is unpacked: a zip has bytes that no reader
looks at, and a changed one shall not go unnoticed. The manifest then says what the archive must hold, no more and no
less.
"""

from __future__ import annotations

import hashlib
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from engine.params import InputError

FORMAT, VERSION = "phaselab bundle", 1
MANIFEST = "manifest.json"
SEAL = b"phaselab bundle sha256 "
DIGEST_LENGTH = 64
MOST_FILES = 200_000
MOST_UNPACKED_BYTES = 16 * 2**30
"""For the command line; a browser's import is given less."""
MOST_FILE_BYTES = 2**30
MOST_MANIFEST_BYTES = 64 * 2**20
MOST_PATH_BYTES = 1000
CHUNK_BYTES = 2**20
AGAIN = "export it again and take the whole file"
BROKEN = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
          OverflowError)
"""What zipfile raises over archives that it cannot read."""


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What is in a bundle. `runs` counts by status."""

    format: str
    version: int
    sweep_id: str
    name: str
    experiment: str
    status: str
    runs: dict[str, int]
    files: list[Entry] = []

    @property
    def number_of_runs(self) -> int:
        """Those that are there; `missing` ones were never started."""
        return sum(count for status, count in self.runs.items() if status != "missing")


class _Version(msgspec.Struct):
    format: str
    version: int


def is_bundle(file: Path) -> bool:
    """Whether a file is meant as a bundle, by its beginning or its end: a damaged one is told to be one, too."""
    with file.open("rb") as opened:
        head = opened.read(2)
        opened.seek(max(opened.seek(0, 2) - len(SEAL) - DIGEST_LENGTH, 0))
        return head == b"PK" or opened.read(len(SEAL)) == SEAL


def write_bundle(file: BinaryIO, manifest: Manifest, contents: Iterable[tuple[str, Callable[[], bytes]]]) -> Manifest:
    """The same content gives the same bytes: nothing in here says when it was made."""
    manifest = msgspec.structs.replace(manifest, files=[])
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, read in contents:
            content = read()
            manifest.files.append(Entry(path, len(content), hashlib.sha256(content).hexdigest()))
            archive.writestr(_info(path), content)
        archive.writestr(_info(MANIFEST), msgspec.json.format(msgspec.json.encode(manifest), indent=1))
        archive.comment = SEAL + b"0" * DIGEST_LENGTH
    seal(file)
    return manifest


def seal(file: BinaryIO) -> None:
    """Write the digest of all bytes before it into the place that the comment keeps for it."""
    end = file.seek(0, 2) - DIGEST_LENGTH
    digest = _digest(file, end)
    file.seek(end)
    file.write(digest)


def _info(path: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path)  # dated 1980, when zip begins to count
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def _digest(file: BinaryIO, end: int) -> bytes:
    found = hashlib.sha256()
    file.seek(0)
    while end > 0:
        chunk = file.read(min(CHUNK_BYTES, end))
        if not chunk:
            break
        found.update(chunk)
        end -= len(chunk)
    return found.hexdigest().encode()


class Bundle:
    """A bundle whose seal and manifest hold; its files are checked as they are unpacked."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest, source: str) -> None:
        self._archive, self.manifest, self._source = archive, manifest, source

    def unpack(self, entry: Entry, target: Path) -> None:
        """Bounded by what the manifest says, whatever the archive would unpack to."""
        target.parent.mkdir(parents=True, exist_ok=True)
        digest, left = hashlib.sha256(), entry.size_bytes
        with self._archive.open(entry.path) as packed, target.open("xb") as file:
            while chunk := packed.read(CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                file.write(chunk)
        if left or digest.hexdigest() != entry.sha256:
            raise InputError(f"{self._source}: {entry.path} does not match its checksum; {AGAIN}")


@contextmanager
def open_bundle(file: BinaryIO, source: str, most_unpacked_bytes: int = MOST_UNPACKED_BYTES) -> Iterator[Bundle]:
    """`source` is the file's name, for sentences. What is wrong with the archive is one, also while unpacking."""
    check_seal(file, source)
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = _read_manifest(archive, source)
            _check_entries(archive.infolist(), manifest, source, most_unpacked_bytes)
            yield Bundle(archive, manifest, source)
    except BROKEN as error:
        raise InputError(f"{source}: is not a whole archive ({error}); {AGAIN}") from None


def check_seal(file: BinaryIO, source: str) -> None:
    size = file.seek(0, 2)
    length = len(SEAL) + DIGEST_LENGTH
    file.seek(max(size - length, 0))
    comment = file.read(length)
    if len(comment) < length or not comment.startswith(SEAL):
        raise InputError(f"{source}: is cut short or no bundle of this lab; {AGAIN}")
    if _digest(file, size - DIGEST_LENGTH) != comment[len(SEAL):]:
        raise InputError(f"{source}: was damaged or changed on its way (its seal is broken); {AGAIN}")


def _read_manifest(archive: zipfile.ZipFile, source: str) -> Manifest:
    for info in archive.infolist():
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"{source}: {info.filename[:80]!r} is packed in a way that bundles are not; {AGAIN}")
    found = [info for info in archive.infolist() if info.filename == MANIFEST]
    if len(found) != 1 or found[0].file_size > MOST_MANIFEST_BYTES:
        raise InputError(f"{source}: has no {MANIFEST} that says what it holds; {AGAIN}")
    with archive.open(found[0]) as file:
        content = file.read(MOST_MANIFEST_BYTES)
    try:
        told = msgspec.json.decode(content, type=_Version)
        if told.format != FORMAT:
            raise InputError(f"{source}: is {told.format[:40]!r}, not a {FORMAT}; {AGAIN}")
        if told.version != VERSION:
            raise InputError(f"{source}: is a bundle of version {told.version}, this lab knows {VERSION}; update the "
                             "lab that is older")
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: its {MANIFEST} cannot be read ({error}); {AGAIN}") from None


def _check_entries(infos: list[zipfile.ZipInfo], manifest: Manifest, source: str, most_unpacked_bytes: int) -> None:
    if len(infos) > MOST_FILES:
        raise InputError(f"{source}: holds {len(infos):,} files, more than {MOST_FILES:,}; export fewer runs")
    listed = {entry.path: entry for entry in manifest.files}
    there = {info.filename: info for info in infos if info.filename != MANIFEST}
    for path in [*there, *listed]:
        if len(path.encode("utf-8", "replace")) > MOST_PATH_BYTES:
            raise InputError(f"{source}: holds a path of more than {MOST_PATH_BYTES:,} bytes ({path[:80]!r}); {AGAIN}")
        if not is_inside(path):
            raise InputError(f"{source}: holds a path that leads outside ({path[:80]!r}); {AGAIN}")
    folders = {path[:place] for path in listed for place, sign in enumerate(path) if sign == "/"}
    if both := sorted(folders & listed.keys()):
        raise InputError(f"{source}: {both[0]} is a file and a folder; {AGAIN}")
    if len(listed) < len(manifest.files) or len(there) < len(infos) - 1:
        raise InputError(f"{source}: names a file twice; {AGAIN}")
    if missing := sorted(listed.keys() - there.keys()):
        raise InputError(f"{source}: {missing[0]} is missing; {AGAIN}")
    if extra := sorted(there.keys() - listed.keys()):
        raise InputError(f"{source}: {extra[0]} is not in its list of files; {AGAIN}")
    for path, info in there.items():
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise InputError(f"{source}: {path} is a link or another thing that is no file; {AGAIN}")
        if info.file_size != listed[path].size_bytes or info.file_size > MOST_FILE_BYTES:
            raise InputError(f"{source}: {path} has {info.file_size:,} bytes, not what its list says or more than "
                             f"{MOST_FILE_BYTES:,}; {AGAIN}")
    if (total := sum(entry.size_bytes for entry in manifest.files)) > most_unpacked_bytes:
        raise InputError(f"{source}: would unpack to {total:,} bytes, more than {most_unpacked_bytes:,}; import it "
                         "with `python lab.py import FILE`, or export fewer runs")


def is_inside(path: str) -> bool:
    """A plain relative path: no way up, no root, no drive, nothing that a file system would read otherwise."""
    parts = path.split("/")
    return all(part and part not in (".", "..") and len(part.encode("utf-8", "replace")) <= 200 for part in parts) \
        and path.isprintable() and not any(sign in path for sign in '\\:*?"<>|')
