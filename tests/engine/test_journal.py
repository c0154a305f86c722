"""The journal keeps what was written, whatever happens to its writer or its bytes: never a wrong record."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import subprocess
import sys
import time
import types
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.home import PROJECT
from engine.journal import (
    Batches,
    Block,
    Check,
    Event,
    JournalDamage,
    JournalWriter,
    Line,
    Metric,
    PhaseColumn,
    Record,
    Samples,
    compress_journal,
    journal_bytes,
    journal_size,
    list_journals,
    read_blocks,
    read_records,
)
from engine.recorder import Recorder

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2), max_leaves=4)


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Any value a field of this type can have, so that record kinds added later are tried as well."""
    plain = {str: st.text(max_size=8), int: st.integers(-(2**63), 2**63 - 1), Any: JSON, type(None): st.none(),
             float: st.floats(allow_nan=False, allow_infinity=False)}
    if annotation in plain:
        return plain[annotation]
    inner = [values_of(part) for part in get_args(annotation)]
    if get_origin(annotation) is list:
        return st.lists(inner[0], max_size=3)
    if get_origin(annotation) is dict:
        return st.dictionaries(inner[0], inner[1], max_size=3)
    if get_origin(annotation) is tuple:
        return st.tuples(*inner)
    if get_origin(annotation) in (types.UnionType, Union):
        return st.one_of(inner)
    return records_of(annotation)


def records_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: values_of(field.type) for field in msgspec.structs.fields(kind)})


RECORDS = st.one_of([records_of(kind) for kind in get_args(Record) if kind is not Check])
BLOCKS = st.lists(st.lists(RECORDS, min_size=1, max_size=3), max_size=4)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New file names without end: Hypothesis calls a test many times."""
    folder = tmp_path_factory.mktemp("journals")
    return (folder / f"{number}.jsonl" for number in itertools.count())


def write(path: Path, blocks: list[list[Any]]) -> bytes:
    writer = JournalWriter(path)
    for records in blocks:
        for record in records:
            writer.write(record)
        writer.flush()
    writer.close()
    return path.read_bytes()


def put(path: Path, data: bytes) -> None:
    """A new file each time: ext4 sends a file that is overwritten to the disk at once, thousands of times."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def ends_of(data: bytes) -> list[int]:
    """The byte after each block, found by hand: after each check line."""
    ends, at = [], 0
    for line in data.splitlines(keepends=True):
        at += len(line)
        if line.startswith(b'{"kind":"check"'):
            ends.append(at)
    return ends


def small_journal(path: Path, text: str = "größe 日本") -> tuple[bytes, list[Block]]:
    data = write(path, [
        [Event("2026-01-01", text, run_id="r")],
        [Metric("r", "end_to_end_s", 1.25, "s"), Samples("r", 0.5, [("cpu", "used", 0.75)])],
        [Batches("r", 0, [2, 2], [0.5, 0.75], [0.25, 0.25], [PhaseColumn("load", "host", [0.5, None], [0.1, None])])],
    ])
    return data, list(read_blocks(path))


# -- writing and reading -----------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(BLOCKS)
def test_what_is_written_is_read(fresh: Iterator[Path], blocks: list[list[Line]]) -> None:
    path = next(fresh)
    data = write(path, blocks)
    assert [block.records for block in read_blocks(path)] == blocks
    assert [block.end for block in read_blocks(path)] == ends_of(data)
    assert read_records(path) == [record for block in blocks for record in block]
    for line in data.splitlines():
        json.loads(line)  # any tool can read it


@settings(max_examples=40)
@given(BLOCKS, st.data())
def test_reading_on_from_an_offset_gives_exactly_the_rest(
        fresh: Iterator[Path], blocks: list[list[Line]], data: st.DataObject) -> None:
    """As the store does while the run goes on: read what is there, remember the byte, read on later."""
    path = next(fresh)
    writer = JournalWriter(path)
    seen: list[Any] = []
    at = 0
    for records in blocks:
        for record in records:
            writer.write(record)
        if data.draw(st.booleans()):
            writer.flush()
        for block in read_blocks(path, at):
            seen += block.records
            at = block.end
    writer.close()
    for block in read_blocks(path, at):
        seen += block.records
        at = block.end
    assert seen == [record for records in blocks for record in records]
    assert at == journal_size(path)
    assert list(read_blocks(path, at)) == []


@settings(max_examples=40)
@given(BLOCKS, st.data())
def test_compressed_journal_is_the_same_journal(
        fresh: Iterator[Path], blocks: list[list[Line]], data: st.DataObject) -> None:
    path = next(fresh)
    content = write(path, blocks)
    plain = list(read_blocks(path))
    compress_journal(path)
    assert not path.exists()
    assert list(read_blocks(path)) == plain
    assert journal_size(path) == len(content)
    start = data.draw(st.integers(0, len(content)))
    assert journal_bytes(path, start) == content[start:]
    for done, end in enumerate(ends_of(content), start=1):
        assert list(read_blocks(path, end)) == plain[done:], "offsets count uncompressed bytes"
    assert list_journals(path.parent, path.name) == [path]


@settings(max_examples=40)
@given(st.floats())
def test_any_metric_value_survives(fresh: Iterator[Path], value: float) -> None:
    """JSON has no word for nan and infinity: they are kept all the same."""
    path = next(fresh)
    writer = JournalWriter(path)
    Recorder("r", writer, 0.0, lambda stage: None, path.parent, path.parent).metric("loss", value, "s")
    writer.close()
    [metric] = read_records(path)
    kept = float(metric.value)
    assert kept == value or (math.isnan(kept) and math.isnan(value))
    assert (metric.name, metric.unit) == ("loss", "s")


def test_nothing_is_on_its_way_before_a_flush(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "deep" / "er" / "a.jsonl")
    writer.write(Event("now", "hello"))
    assert writer.path.read_bytes() == b""
    writer.flush()
    assert read_records(writer.path) == [Event("now", "hello")]
    writer.flush()
    size = journal_size(writer.path)
    writer.close()
    writer.close()
    assert journal_size(writer.path) == size, "an empty flush writes nothing"


def test_empty_journal_has_no_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, [])
    assert read_records(path) == []
    compress_journal(path)
    assert read_records(path) == []
    assert journal_size(path) == 0


def test_journal_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_records(tmp_path / "a.jsonl")
    assert list_journals(tmp_path / "nowhere") == []


def test_text_that_utf8_cannot_hold_is_kept_as_far_as_it_can(tmp_path: Path) -> None:
    """File names that are not UTF-8 reach error messages as lone surrogates; the run's end must still be written."""
    write(tmp_path / "a.jsonl", [[Event("now", os.fsdecode(b"no such file: caf\xe9.jpg"))], [Event("now", "after")]])
    before, after = read_records(tmp_path / "a.jsonl")
    assert before.text.startswith("no such file: caf")
    assert after.text == "after"


# -- damage ------------------------------------------------------------------------------------------------------------


def test_cut_at_any_byte_leaves_whole_blocks(tmp_path: Path) -> None:
    data, blocks = small_journal(tmp_path / "whole.jsonl")
    path = tmp_path / "cut.jsonl"
    for size in range(len(data) + 1):
        put(path, data[:size])
        whole = sum(block.end <= size for block in blocks)
        assert list(read_blocks(path)) == blocks[:whole], size
        for done in range(whole):
            assert list(read_blocks(path, blocks[done].end)) == blocks[done + 1 : whole], size


def check_changed_bytes(tmp_path: Path, changes: list[int], text: str) -> None:
    """Each byte of a small journal replaced by each of these: damage is told, or only the last block is missing."""
    data, blocks = small_journal(tmp_path / "whole.jsonl", text)
    path = tmp_path / "changed.jsonl"
    told = 0
    for at, change in itertools.product(range(len(data)), changes):
        if change == data[at]:
            continue
        put(path, data[:at] + bytes([change]) + data[at + 1 :])
        read = []
        try:
            for block in read_blocks(path):
                read.append(block)
        except JournalDamage as damage:
            told += 1
            assert read == blocks[: len(read)], (at, change)
            assert damage.path == path
            assert blocks[len(read) - 1].end * bool(read) <= damage.byte < len(data), (at, change)
            assert str(damage).startswith(f"{path} is damaged at byte {damage.byte}: ")
            assert "\n" not in str(damage)
        else:
            assert at >= blocks[-2].end, f"byte {at} of an earlier block became {change} and nobody noticed"
            assert read == blocks[:-1], (at, change)
    assert told > len(changes) * blocks[-2].end * 0.9


def test_any_byte_changed_to_another_character_is_noticed(tmp_path: Path) -> None:
    check_changed_bytes(tmp_path, [0, *b'\n"0}a'], "plain")


def test_any_byte_changed_to_what_is_not_text_is_noticed(tmp_path: Path) -> None:
    check_changed_bytes(tmp_path, [*b"a", 0x80, 0xFF], "größe 日本")


def test_any_bit_flipped_is_noticed(tmp_path: Path) -> None:
    data, blocks = small_journal(tmp_path / "whole.jsonl")
    path = tmp_path / "flipped.jsonl"
    for at, bit in itertools.product(range(blocks[-2].end), range(8)):
        put(path, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        with pytest.raises(JournalDamage):
            list(read_blocks(path))


def test_line_missing_from_the_middle_is_noticed(tmp_path: Path) -> None:
    data, _ = small_journal(tmp_path / "whole.jsonl")
    lines = data.splitlines(keepends=True)
    path = tmp_path / "gap.jsonl"
    for missing in range(len(lines) - 1):
        put(path, b"".join(lines[:missing] + lines[missing + 1 :]))
        with pytest.raises(JournalDamage):
            list(read_blocks(path))


@pytest.mark.parametrize(("line", "words"), [
    (b'{"kind":"marvel","at":"now"}', "Invalid value 'marvel'"),
    (b'{"kind":"event","at":"now","text":"x","colour":"red"}', "unknown field `colour`"),
    (b'{"kind":"event","at":"now"}', "missing required field `text`"),
    (b'{"kind":"event","at":5,"text":"x"}', "Expected `str`, got `int`"),
    (b'{"at":"now","text":"x"}', "missing required field `kind`"),
    (b"[]", "Expected `object`, got `array`"),
])
def test_line_that_is_no_record_of_ours_is_refused(tmp_path: Path, line: bytes, words: str) -> None:
    """Even with a correct checksum: a newer version's journal is not half understood."""
    good = msgspec.json.encode(Event("now", "good")) + b"\n"
    lines = good + line + b"\n"
    path = tmp_path / "a.jsonl"
    put(path, lines + msgspec.json.encode(Check(zlib.crc32(lines))) + b"\n")
    with pytest.raises(JournalDamage) as caught:
        read_records(path)
    assert caught.value.byte == len(good)
    assert words in caught.value.reason


def test_packed_journal_with_any_bit_flipped_never_gives_a_wrong_record(tmp_path: Path) -> None:
    _, blocks = small_journal(tmp_path / "a.jsonl")
    compress_journal(tmp_path / "a.jsonl")
    packed = tmp_path / "a.jsonl.gz"
    data = packed.read_bytes()
    harmless = 0
    for at, bit in itertools.product(range(len(data)), (0, 5)):
        put(packed, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
        read = []
        try:
            for block in read_blocks(tmp_path / "a.jsonl"):
                read.append(block)
            assert read == blocks
            harmless += 1  # the time stamp and the like in the header of the packed file
        except JournalDamage as damage:
            assert damage.path in (packed, tmp_path / "a.jsonl")
            assert read == blocks[: len(read)]
    assert harmless < 30


def test_packed_journal_cut_anywhere_is_told(tmp_path: Path) -> None:
    small_journal(tmp_path / "a.jsonl")
    compress_journal(tmp_path / "a.jsonl")
    packed = tmp_path / "a.jsonl.gz"
    data = packed.read_bytes()
    for size in range(1, len(data)):
        put(packed, data[:size])
        with pytest.raises(JournalDamage):
            read_records(tmp_path / "a.jsonl")


def test_packed_journal_that_lost_everything_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b"")
    assert not journal_size(tmp_path / "a.jsonl")
    with pytest.raises(JournalDamage):
        read_records(tmp_path / "a.jsonl")


# -- packing -----------------------------------------------------------------------------------------------------------


def test_packing_interrupted_at_any_point_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    data, blocks = small_journal(path)
    packed, part = tmp_path / "a.jsonl.gz", tmp_path / "a.jsonl.gz.part"
    for left_behind in [{part: b"half"}, {part: gzip.compress(data)}, {packed: gzip.compress(data)}]:
        for file, content in left_behind.items():
            file.write_bytes(content)
        assert list_journals(tmp_path) == [path], "one journal, in whatever form"
        assert list(read_blocks(path)) == blocks
        compress_journal(path)
        assert not part.exists()
        assert list(read_blocks(path)) == blocks
        packed.unlink()
        path.write_bytes(data)


def test_journals_are_listed_in_order_under_their_plain_names(tmp_path: Path) -> None:
    for name in ("session-0002.jsonl", "session-0001.jsonl", "other.jsonl", "session-0003.log"):
        write(tmp_path / name, [])
    compress_journal(tmp_path / "session-0001.jsonl")
    assert [path.name for path in list_journals(tmp_path, "session-")] == ["session-0001.jsonl", "session-0002.jsonl"]
    assert len(list_journals(tmp_path)) == 3


# -- writers that meet trouble (real processes) ------------------------------------------------------------------------


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=PROJECT, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(code: str, *arguments: str) -> str:
    out, err = (process := start(code, *arguments)).communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def test_two_writers_cannot_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    mine = JournalWriter(path)
    mine.write(Event("now", "mine"))
    mine.flush()
    code = ("import sys; from pathlib import Path; from engine.journal import JournalWriter\n"
            "try:\n    JournalWriter(Path(sys.argv[1]))\nexcept FileExistsError:\n    print('refused')\n")
    assert run(code, str(path)) == "refused\n"
    mine.write(Event("now", "still mine"))
    mine.close()
    assert [record.text for record in read_records(path)] == ["mine", "still mine"]


FULL_DISK = """
import resource, sys
from pathlib import Path
from engine.journal import Event, JournalWriter

writer = JournalWriter(Path(sys.argv[1]))
written = refused = 0
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
for number in range(40):
    writer.write(Event(str(number), "x" * 100))
    if number == 30:  # somebody makes room
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        writer.flush()
    except OSError as error:
        refused += 1
        assert Path(sys.argv[1]).stat().st_size <= int(sys.argv[2])
writer.close()
print(refused)
"""


@pytest.mark.parametrize("limit", [0, 1, 700, 1500, 2600])
def test_full_disk_leaves_no_torn_middle(tmp_path: Path, limit: int) -> None:
    """A file-size limit stands in for the disk: the kernel takes part of a block and refuses the rest."""
    path = tmp_path / "a.jsonl"
    assert int(run(FULL_DISK, str(path), str(limit))) > 0
    assert [record.at for record in read_records(path)] == [str(number) for number in range(40)]
    assert ends_of(path.read_bytes())[-1] == path.stat().st_size


def test_disk_that_stays_full_keeps_what_fitted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    code = FULL_DISK.replace("number == 30", "False").replace(
        "writer.close()", "try:\n    writer.close()\nexcept OSError:\n    pass")
    assert int(run(code, str(path), "1000")) > 30
    kept = [record.at for record in read_records(path)]
    assert kept
    assert kept == [str(number) for number in range(len(kept))]
    assert ends_of(path.read_bytes())[-1] == path.stat().st_size, "the torn block was cut off again"


IN_TURNS = """
import os, resource, sys
from pathlib import Path
from engine.journal import Event, JournalWriter

writer = JournalWriter(Path(sys.argv[1]))
writer.write(Event("0", "before"))
writer.flush()
if os.fork() == 0:
    writer.write(Event("1", "x" * 500))
    writer.close()
    os._exit(0)
os.wait()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1]).stat().st_size + 50, hard))
writer.write(Event("2", "x" * 100))
try:
    writer.flush()
    print("it fitted")
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
writer.close()
"""


def test_a_full_disk_takes_nothing_from_a_process_that_wrote_in_turns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert run(IN_TURNS, str(path)) == ""
    assert [record.at for record in read_records(path)] == ["0", "1", "2"]


ENDLESS = """
import itertools, sys
from pathlib import Path
from engine.journal import Event, JournalWriter

writer = JournalWriter(Path(sys.argv[1]))
for number in itertools.count():
    writer.write(Event(str(number), "x" * int(sys.argv[2])))
    writer.flush()
"""


@pytest.mark.parametrize("size", [10, 100_000, 8_000_000])
def test_writer_killed_in_mid_write_leaves_whole_blocks(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    writer = start(ENDLESS, str(path), str(size))
    while not (path.exists() and path.stat().st_size > 3 * size):
        assert writer.poll() is None, writer.communicate()[1]
        time.sleep(0.001)
    writer.kill()
    writer.communicate()
    numbers = [record.at for record in read_records(path)]
    assert len(numbers) >= 1
    assert numbers == [str(number) for number in range(len(numbers))]
    end = [block.end for block in read_blocks(path)][-1]
    assert journal_size(path) - end < size + 200, "at most the block that was being written is missing"


CANCELLED = """
import itertools, os, random, signal, sys, threading, time
from pathlib import Path
from engine.journal import Event, JournalWriter, read_records
from engine.run import Cancelled, raise_cancelled

def write_until_cancelled(path, tell):
    signal.signal(signal.SIGTERM, raise_cancelled)
    threading.Thread(target=os.read, args=(os.pipe()[0], 1), daemon=True).start()
    writer = JournalWriter(path)
    flushed = 0
    try:
        os.write(tell, b"ready")
        for number in itertools.count():
            writer.write(Event(str(number), "x"))
            writer.flush()
            flushed = number + 1
    except Cancelled:
        writer.close()
    os.write(tell, str(flushed).encode())

random.seed(1)
for trial in range(60):
    path = Path(sys.argv[1]) / f"{trial}.jsonl"
    listen, tell = os.pipe()
    writer = os.fork()
    if not writer:
        write_until_cancelled(path, tell)
        os._exit(0)
    os.close(tell)
    assert os.read(listen, 5) == b"ready"
    time.sleep(random.uniform(0.0002, 0.002))
    os.kill(writer, signal.SIGTERM)
    flushed = int(os.read(listen, 20))
    os.close(listen)
    os.waitpid(writer, 0)
    numbers = [int(record.at) for record in read_records(path)]
    assert numbers in (list(range(flushed)), list(range(flushed + 1))), (trial, flushed, numbers[-3:])
"""


def test_cancel_in_mid_flush_neither_doubles_nor_loses_a_record(tmp_path: Path) -> None:
    """The signal that cancels a run raises wherever it arrives, and the last flush comes after it. As in a run process
    there is a second thread, which the kernel may give the signal to."""
    run(CANCELLED, str(tmp_path))
