"""The journal: append-only JSON lines, the raw evidence of a sweep or run. Record types, writer, strict reader.

Lines are written in blocks; each block ends with a `check` line that carries the CRC-32 of the block's bytes. A block
without its check line at the end of a file is a torn tail (the writer died) and is left alone; anything else that does
not fit is damage, reported with the file and the byte.
"""

from __future__ import annotations

import gzip
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.signals import uninterrupted

FLUSH_EVERY_S = 0.5


class Line(msgspec.Struct, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One record. `at` is UTC in ISO form; every `..._s` is in seconds."""


class Session(Line, tag="session"):
    """A sweep process began (launch, resume or extend), with the sweep as it is now asked for."""

    sweep_id: str
    session: int
    action: str
    at: str
    pid: int
    process_started_s: float
    spec: dict[str, Any]
    planned_runs: int
    source: str = "measured"


class Turn(Line, tag="turn"):
    """The sweep got its turn in the machine's queue."""

    sweep_id: str
    at: str


class SessionEnd(Line, tag="session_end"):
    sweep_id: str
    at: str
    status: str
    reason: str = ""


class EnvironmentSeen(Line, tag="environment"):
    environment_id: str
    facts: dict[str, Any]


class Event(Line, tag="event"):
    """Something worth telling a person: a telemetry device lost, data being prepared."""

    at: str
    text: str
    sweep_id: str = ""
    run_id: str = ""


class RunStart(Line, tag="run_start"):
    run_id: str
    sweep_id: str
    attempt: int
    experiment: str
    cell_key: str
    repeat: int
    environment_id: str
    at: str
    asked: dict[str, Any]


class RunProcess(Line, tag="run_process"):
    """Which operating-system process measures the run; its group is ended with it."""

    run_id: str
    pid: int
    process_started_s: float


class RunEnd(Line, tag="run_end"):
    run_id: str
    at: str
    status: str
    reason: str = ""
    wall_s: float | None = None


class Stage(Line, tag="stage"):
    run_id: str
    stage: str
    start_s: float
    seconds: float


class Effective(Line, tag="effective"):
    """Values that took effect, where a person asked for something else or left it open."""

    run_id: str
    values: dict[str, Any]


class PhaseColumn(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One phase over the batches of a `Batches` line; null where a batch did not have it."""

    phase: str
    clock: str
    start_s: list[float | None]
    seconds: list[float | None]


class Batches(Line, tag="batches"):
    """Consecutive batches, by column: one line per flush keeps the measured loop and the ingest cheap."""

    run_id: str
    first_batch: int
    items: list[int]
    start_s: list[float]
    seconds: list[float]
    phases: list[PhaseColumn]


class Samples(Line, tag="samples"):
    """Telemetry at one moment: (device, metric, value) readings."""

    run_id: str
    time_s: float
    readings: list[tuple[str, str, float]]


class Metric(Line, tag="metric"):
    """A scalar result. A value that is not finite is written as text: JSON has no word for it."""

    run_id: str
    name: str
    value: float | str
    unit: str = ""


class File(Line, tag="file"):
    """A file a run leaves behind, by its path inside the sweep's folder."""

    run_id: str
    path: str
    title: str
    size_bytes: int


class Annotation(Line, tag="annotation"):
    """What a person did to a sweep or run. `field` is tag, untag or note."""

    target: str
    field: str
    value: str
    at: str


class BoardAct(Line, tag="board"):
    """What a person did to a board. `number` orders the acts of one moment; `figure` is what a frozen item shows."""

    board_id: str
    act: str
    at: str
    number: int = 0
    item_id: str = ""
    value: dict[str, Any] = {}
    figure: dict[str, Any] | None = None


class Check(Line, tag="check"):
    crc: int


Record = (
    Session | Turn | SessionEnd | EnvironmentSeen | Event | RunStart | RunProcess | RunEnd | Stage | Effective
    | Batches | Samples | Metric | File | Annotation | BoardAct | Check
)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_CHECK_PREFIX = b'{"kind":"check"'
UNPACK_BYTES = 4096
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)


class JournalDamage(Exception):
    """A journal that cannot be read past a byte."""

    def __init__(self, path: Path, byte: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {byte}: {reason}")
        self.path, self.byte, self.reason = path, byte, reason


class JournalWriter:
    """Appends records to a new file. Nothing is on its way to disk until a flush; `close` also syncs."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _packed(path).exists():
            raise FileExistsError(f"{_packed(path)} is this journal, ended and compressed")
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._buffer: list[bytes] = []
        self._flushed_at = time.perf_counter()

    def write(self, record: Line) -> None:
        try:
            line = _encoder.encode(record)
        except UnicodeEncodeError:
            # File names and messages can hold half characters that UTF-8 has no bytes for.
            line = _encoder.encode(_whole_characters(msgspec.to_builtins(record)))
        self._buffer.append(line)

    def flush_due(self, now: float) -> bool:
        return now - self._flushed_at >= FLUSH_EVERY_S

    def flush(self) -> None:
        """Write what is buffered as one block; whatever interrupts, a record is written once."""
        self._flushed_at = time.perf_counter()
        if self._buffer:
            with uninterrupted():
                self._write_block()

    def _write_block(self) -> None:
        block = _close_block(self._buffer)
        # Asked of the file: a process of the same run may have written to it since, in turns.
        end = os.lseek(self._file, 0, os.SEEK_END)
        try:
            rest = memoryview(block)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            # A full disk may have taken half a block: cut it off, so that a later flush does not tear the middle.
            os.ftruncate(self._file, end)
            raise
        self._buffer.clear()

    def sync(self) -> None:
        """Flush, and wait until the disk has it: at the end of a run."""
        self.flush()
        os.fsync(self._file)

    def close(self) -> None:
        if self._file < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._file)
            self._file = -1


def encode_block(records: Iterable[Line]) -> bytes:
    """A journal of one block, for a place where no file is."""
    return _close_block([_encoder.encode(record) for record in records])


def _close_block(lines: list[bytes]) -> bytes:
    content = b"\n".join(lines) + b"\n"
    return content + _encoder.encode(Check(zlib.crc32(content))) + b"\n"


class Block(NamedTuple):
    """Records that were verified together, and the byte after them."""

    records: list[Any]
    end: int


def read_blocks(path: Path, start: int = 0, skipped: list[JournalDamage] | None = None) -> Iterator[Block]:
    """Verified blocks from a byte on; ends quietly at a torn tail.

    Strict: damage raises. With a list for `skipped`, a damaged block is noted there and the next whole one follows:
    blocks do not depend on each other.
    """
    data, broken = _content(path, start)
    block_start = line_start = 0
    while (newline := data.find(b"\n", line_start)) >= 0:
        if data.startswith(_CHECK_PREFIX, line_start):
            try:
                yield Block(_verify(path, data, block_start, line_start, newline, start), start + newline + 1)
            except JournalDamage as damage:
                if skipped is None:
                    raise
                skipped.append(damage)
            block_start = newline + 1
        line_start = newline + 1
    if broken:
        cut_off = JournalDamage(_packed(path), start + block_start, broken)
        if skipped is None:
            raise cut_off
        skipped.append(cut_off)


def _verify(path: Path, data: bytes, block_start: int, line_start: int, newline: int, start: int) -> list[Any]:
    """The records of one block, if its check line agrees with its bytes."""
    lines = data[block_start:line_start]
    try:
        check = _decoder.decode(data[line_start:newline])
    except UNREADABLE as error:
        raise JournalDamage(path, start + line_start, str(error)) from None
    if zlib.crc32(lines) != check.crc:
        raise _locate_damage(path, lines, start + block_start)
    try:
        return _decoder.decode_lines(lines)
    except UNREADABLE:
        raise _locate_damage(path, lines, start + block_start) from None


def read_records(path: Path) -> list[Any]:
    return [record for block in read_blocks(path) for record in block.records]


def journal_bytes(path: Path, start: int = 0) -> bytes:
    """The uncompressed content from a byte on, whether or not the journal has been compressed since."""
    return _content(path, start)[0]


def journal_size(path: Path) -> int | None:
    """Uncompressed bytes; None when they cannot be known."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        data, broken = _content(path, 0)
        return None if broken else len(data)


def _content(path: Path, start: int) -> tuple[bytes, str]:
    """Bytes, and what is wrong with a compressed file: what comes before its damage can still be read."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(), ""
    except FileNotFoundError:
        packed = _packed(path).read_bytes()
    unpacker = zlib.decompressobj(wbits=31)  # with a gzip header
    data = bytearray()
    try:
        for at in range(0, len(packed), UNPACK_BYTES):
            data += unpacker.decompress(packed[at : at + UNPACK_BYTES])
    except zlib.error as error:
        return bytes(data[start:]), f"cannot be unpacked further ({error})"
    return bytes(data[start:]), "" if unpacker.eof else "is cut off"


def compress_journal(path: Path) -> None:
    """Replace a finished journal by its compressed form. Safe to repeat, and to be killed in."""
    part = path.with_name(path.name + ".gz.part")
    with path.open("rb") as source, part.open("wb") as target:
        with gzip.GzipFile(filename="", fileobj=target, mode="wb", compresslevel=6, mtime=0) as packed:
            shutil.copyfileobj(source, packed, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    part.replace(_packed(path))
    path.unlink()


def list_journals(folder: Path, prefix: str = "") -> list[Path]:
    """Journals of a folder by their plain names, compressed or not, in order."""
    if not folder.is_dir():
        return []
    names = {entry.name.removesuffix(".gz") for entry in os.scandir(folder) if entry.name.startswith(prefix)}
    return [folder / name for name in sorted(names) if name.endswith(".jsonl")]


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole_characters(name): _whole_characters(inner) for name, inner in value.items()}
    return [_whole_characters(inner) for inner in value] if isinstance(value, list | tuple) else value


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")


def _locate_damage(path: Path, lines: bytes, offset: int) -> JournalDamage:
    """The first line of a bad block that cannot be decoded, else the block itself."""
    at = 0
    for line in lines.splitlines(keepends=True):
        try:
            _decoder.decode(line)
        except UNREADABLE as error:
            return JournalDamage(path, offset + at, str(error))
        at += len(line)
    return JournalDamage(path, offset, f"the {len(lines)} bytes from here do not match their checksum")
