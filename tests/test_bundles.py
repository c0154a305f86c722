"""Bundles: exported here, the same rows in another lab; what is not whole is refused whole, with the reason."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import bundle_file
from engine.bundle_file import MANIFEST, seal
from engine.bundles import export_bundle, import_bundle
from engine.environment import environment_id_of
from engine.home import Home
from engine.journal import EnvironmentSeen, encode_block, journal_bytes
from engine.launch import resume
from engine.params import InputError
from engine.people import annotate, delete
from engine.queue import read_queue
from store.database import Store, try_reading
from tests.store.journal_builder import FACTS, Script, fresh, rows_of


def write_sweep(home: Home, **spec: Any) -> Script:
    """Repeats, a failure, a run measured twice, a killed writer: what real journals hold."""
    script = Script(home).begin(planned_runs=4, environment_id=environment_id_of(FACTS), name="pooled", tags=["a"],
                                notes="as launched", **spec)
    script.run(0, events=["seen"])
    script.run(1, status="failed", reason="no such thing")
    script.die(script.run(2, status=None))
    script.begin(planned_runs=4, action="resume", environment_id=environment_id_of(FACTS), name="pooled", tags=["a"],
                 notes="as launched", **spec)
    script.run(2)
    script.skip(3)
    return script.end(compress=True).write()


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("origin") / "lab")
    script = write_sweep(home)
    run_id = script.run_id(0)
    script.folder.run_log(run_id, 1).write_text("said something\n")
    kept = script.folder.runs / f"{run_id}.files" / "deep" / "ranking é.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    annotate(home, [script.sweep_id], "tag", "pool")
    annotate(home, [run_id], "note", "the one to look at")
    annotate(home, [script.run_id(1)], "delete")
    return home


@pytest.fixture(scope="module")
def packed(origin: Home) -> bytes:
    return pack(origin)


def pack(home: Home, sweep_id: str = "20260301-090000-aaaa") -> bytes:
    file = io.BytesIO()
    export_bundle(home, home.sweep(sweep_id), file)
    return file.getvalue()


def bring(home: Home, content: bytes, **more: Any) -> Any:
    return import_bundle(home, io.BytesIO(content), "file.bundle", try_reading, **more)


def rows(home: Home) -> dict[str, list[str]]:
    with Store.open(home) as store:
        store.ingest()
        return rows_of(store.connection)


def without_bookkeeping(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Which files people's doings came in is this lab's own business."""
    return found | {"journals": [row for row in found["journals"] if "'people/" not in row]}


def refused(home: Home, content: bytes, **more: Any) -> str:
    """The sentence; and nothing has been left behind."""
    before = sorted(home.root.rglob("*"))
    with pytest.raises(InputError) as problem:
        bring(home, content, **more)
    assert sorted(home.root.rglob("*")) == before
    assert "\n" not in str(problem.value) and str(problem.value).startswith("file.bundle: ")
    return str(problem.value)


def test_another_lab_has_the_same_rows_and_rebuilds_them(origin: Home, packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    done = bring(other, packed)
    assert (done.sweep_id, done.runs, done.machines, done.new) == ("20260301-090000-aaaa", 4, ["bench"], True)
    there = rows(other)
    assert without_bookkeeping(there) == without_bookkeeping(rows(origin))
    assert there["tags"] == ["('20260301-090000-aaaa', 'a')", "('20260301-090000-aaaa', 'pool')"] and there["deleted"]
    with Store.open(other, anew=True) as store:
        store.ingest()
        assert rows_of(store.connection) == there
    for path in origin.sweep(done.sweep_id).runs.rglob("*"):
        twin = other.root / path.relative_to(origin.root)
        assert not path.is_file() or path.read_bytes() == twin.read_bytes(), path


def test_imported_twice_it_changes_nothing(packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    bring(other, packed)
    before = rows(other), sorted(other.root.rglob("*"))
    again = bring(other, packed)
    assert not again.new and "already" in again.sentence
    assert (rows(other), sorted(other.root.rglob("*"))) == before


def test_the_lab_it_came_from_has_it_already(origin: Home, packed: bytes) -> None:
    assert not bring(origin, packed).new


def test_exported_from_the_other_lab_it_is_the_same_file(packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    bring(other, packed)
    assert pack(other) == packed


def test_another_sweep_of_the_same_id_is_refused(packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    Script(other).begin(environment_id=environment_id_of(FACTS)).end().write()
    assert "with other content" in refused(other, packed)


def test_one_that_was_deleted_here_is_named_and_after_erasing_it_comes_back(packed: bytes, tmp_path: Path) -> None:
    from engine.erasing import erase
    from store.compaction import compact

    other = Home(tmp_path / "lab")
    sweep_id = bring(other, packed).sweep_id
    delete(other, [sweep_id])
    assert "restore it" in refused(other, packed)
    with Store.open(other) as store:
        store.ingest()
        assert compact(store.connection, other, erase) > 0
    assert bring(other, packed).new
    assert f"('{sweep_id}',)" not in rows(other)["deleted"]


def test_imported_again_with_newer_notes_it_has_them_and_can_be_erased_again(origin: Home, packed: bytes,
                                                                              tmp_path: Path) -> None:
    from engine.erasing import erase
    from store.browse import annotations_of
    from store.compaction import compact, list_deleted

    first, second = Home(tmp_path / "first"), Home(tmp_path / "second")
    sweep_id = bring(first, packed).sweep_id
    annotate(first, [sweep_id], "note", "written later")
    newer = pack(first)
    bring(second, packed)
    with Store.open(second) as store:
        for again in (newer, newer):
            store.ingest()
            delete(second, [sweep_id])
            store.ingest()
            assert sweep_id in list_deleted(store.connection)
            assert compact(store.connection, second, erase) > 0 and second.sweep_ids() == []
            assert bring(second, again).new
            store.ingest()
            about = annotations_of(store.connection, sweep_id)
            assert about["note"] == "written later" and not about["erased"] and not about["deleted"]
            assert rows_of(store.connection) == fresh(second)
            (run_id,) = list_deleted(store.connection)  # deleted where it came from, and so here
            assert not annotations_of(store.connection, run_id)["erased"]
        notes = store.connection.execute("SELECT value FROM annotations WHERE field = 'note' AND target = ?",
                                         [sweep_id]).fetchall()
        assert notes.count(("written later",)) == 1


def test_runs_of_this_machine_do_not_go_into_it(packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    sweep_id = bring(other, packed).sweep_id
    with pytest.raises(InputError, match="was imported"):
        resume(other, sweep_id, True)
    assert not read_queue(other).entries


def test_an_unfinished_or_deleted_or_damaged_sweep_is_not_exported(tmp_path: Path) -> None:
    home = Home(tmp_path / "lab")
    Script(home).begin(environment_id=environment_id_of(FACTS)).write()
    with pytest.raises(InputError, match="still being measured"):
        pack(home)
    other = Home(tmp_path / "other")
    write_sweep(other)
    annotate(other, ["20260301-090000-aaaa"], "delete")
    with pytest.raises(InputError, match="was deleted"):
        pack(other)
    annotate(other, ["20260301-090000-aaaa"], "restore")
    packed_journal = next(other.sweep("20260301-090000-aaaa").runs.glob("*.gz"))
    packed_journal.write_bytes(packed_journal.read_bytes()[:-9])
    with pytest.raises(InputError, match="is damaged at byte"):
        pack(other)


def test_every_cut_is_refused(packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    other.root.mkdir()
    for end in [*range(0, len(packed), max(len(packed) // 200, 1)), *range(len(packed) - 100, len(packed))]:
        assert "cut short" in refused(other, packed[:end])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused(packed: bytes, tmp_path: Path, place: float, bit: int) -> None:
    other = Home(tmp_path / "lab")
    other.root.mkdir(exist_ok=True)
    at = int(place * len(packed))
    refused(other, packed[:at] + bytes([packed[at] ^ 1 << bit]) + packed[at + 1:])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(min_size=1, max_size=300))
def test_anything_appended_is_refused(packed: bytes, tmp_path: Path, tail: bytes) -> None:
    other = Home(tmp_path / "lab")
    other.root.mkdir(exist_ok=True)
    refused(other, packed + tail)


# -- whole archives that somebody made on purpose ----------------------------------------------------------------------

Change = Callable[[dict[str, Any], dict[str, bytes], dict[str, int]], None]


def forge(packed: bytes, change: Change) -> bytes:
    """The bundle unpacked, changed and sealed again, with sizes and checksums that are right unless `change` lies."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files.pop(MANIFEST))
    modes: dict[str, int] = {}
    change(manifest, files, modes)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, MANIFEST: json.dumps(manifest).encode()}.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (modes.get(name, stat.S_IFREG) | 0o644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        archive.comment = bundle_file.SEAL + b"0" * 64
    seal(out)
    return out.getvalue()


def put(path: str, content: bytes) -> Change:
    """A file of this name, listed rightly."""
    def change(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
        files[path] = content
        manifest["files"] = [entry for entry in manifest["files"] if entry["path"] != path]
        manifest["files"].append({"path": path, "size_bytes": len(content),
                                  "sha256": hashlib.sha256(content).hexdigest()})
    return change


def say(**claims: Any) -> Change:
    return lambda manifest, files, modes: manifest.update(claims)


def lose(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    del files["session-0001.jsonl"]


def add_unlisted(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    files["runs/extra.log"] = b"x"


def wrong_checksum(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    manifest["files"][-1]["sha256"] = "0" * 64


def wrong_size(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    manifest["files"][-1]["size_bytes"] += 1


def twice(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    manifest["files"].append(manifest["files"][0])


def link(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    path = "runs/20260301-090000-aaaa-0000000000-0.files/way"
    put(path, b"/etc/passwd")(manifest, files, modes)
    modes[path] = stat.S_IFLNK


def bomb(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    put("runs/20260301-090000-aaaa-0000000000-0.files/bomb", b"\0" * (64 * 2**20))(manifest, files, modes)


def folder_and_file(manifest: dict[str, Any], files: dict[str, bytes], modes: dict[str, int]) -> None:
    for path in ("a", "a/b"):
        put(f"runs/20260301-090000-aaaa-0000000000-0.files/{path}", b"x")(manifest, files, modes)


@pytest.mark.parametrize(("change", "said"), [
    (folder_and_file, "0000000000-0.files/a is a file and a folder"),
    (put("runs/20260301-090000-aaaa-0000000000-0.files/" + "deep/" * 1000 + "x", b"x"), "more than 1,000 bytes"),
    (say(version=2), "version 2, this lab knows 1"),
    (say(format="something else"), "not a phaselab bundle"),
    (say(experiment="teleport"), "teleport"),
    (say(sweep_id="../../etc"), "no sweep's id"),
    (say(sweep_id="20260301-090000-bbbb"), "does not belong"),
    (say(status="cancelled"), "not what its journals say"),
    (say(runs={"ok": 99}), "not what its journals say"),
    (say(surprise=1), "manifest.json cannot be read"),
    (lose, "session-0001.jsonl is missing"),
    (add_unlisted, "runs/extra.log is not in its list"),
    (wrong_checksum, "does not match its checksum"),
    (wrong_size, "not what its list says"),
    (twice, "twice"),
    (link, "is a link"),
    (bomb, "would unpack to"),
    (put("../outside.log", b"x"), "leads outside"),
    (put("/etc/outside.log", b"x"), "leads outside"),
    (put("runs/../../outside.log", b"x"), "leads outside"),
    (put("runs\\outside.log", b"x"), "leads outside"),
    (put("runs//outside.log", b"x"), "leads outside"),
    (put("sweep.lock", b"x"), "does not belong"),
    (put("process.json", b"{}"), "does not belong"),
    (put("bundle.json", b"{}"), "does not belong"),
    (put("runs/20260301-090000-aaaa-0000000000-0.1.jsonl.gz", b"x"), "does not belong"),
    (put("specification.json", b"[]"), "not what its journals say"),
    (put("environments.json", b"{}"), "not what its journals say"),
    (put("session-0009.jsonl", b'{"kind":"check","crc":1}\n'), "is damaged at byte 0"),
    (put("people.jsonl", b'{"kind":"check","crc":1}\n'), "damaged")])
def test_what_is_wrong_is_one_sentence_and_nothing_stays(packed: bytes, tmp_path: Path, change: Change,
                                                         said: str) -> None:
    other = Home(tmp_path / "lab")
    other.root.mkdir()
    assert said in refused(other, forge(packed, change), most_unpacked_bytes=32 * 2**20)
    assert list(tmp_path.iterdir()) == [other.root]


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("path", [MANIFEST, "session-0001.jsonl"])
def test_only_the_packing_of_bundles_is_unpacked(packed: bytes, tmp_path: Path, method: int, path: str) -> None:
    """Broken data of other packings raises what no reader of zip archives tells of."""
    other = Home(tmp_path / "lab")
    other.root.mkdir()
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive, zipfile.ZipFile(out, "w") as forged:
        for name in archive.namelist():
            forged.writestr(name, archive.read(name), method if name == path else zipfile.ZIP_DEFLATED)
        forged.comment = bundle_file.SEAL + b"0" * 64
    start = out.getvalue().index(path.encode()) + len(path)
    out.seek(start + 12)
    out.write(b"\xff" * 8)
    seal(out)
    assert "packed in a way" in refused(other, out.getvalue())


def test_an_archive_that_is_only_sealed_anew_is_fine(packed: bytes, tmp_path: Path) -> None:
    """What the forger does is not what is refused."""
    assert bring(Home(tmp_path / "lab"), forge(packed, lambda manifest, files, modes: None)).new


def forged_sweep(folder: Path, **spec: Any) -> Home:
    home = Home(folder / "forged")
    write_sweep(home, **spec)
    return home


def test_journals_that_are_whole_and_wrong_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody wrote journals by hand: a moment that is none, another machine's fingerprint, another sweep's run."""
    other = Home(tmp_path / "lab")
    other.root.mkdir()
    monkeypatch.setattr("tests.store.journal_builder.moment", lambda seconds: "yesterday")
    assert "cannot be read into a store" in refused(other, pack(forged_sweep(tmp_path / "a")))
    monkeypatch.undo()

    home = Home(tmp_path / "b")
    script = write_sweep(home)
    whole = pack(home)
    session = journal_bytes(home.sweep(script.sweep_id).session_journal(3))
    false = encode_block([EnvironmentSeen("0123456789ab", FACTS)])
    assert "not the fingerprint" in refused(other, forge(whole, put("session-0003.jsonl", false + session)))
    foreign = Script(Home(tmp_path / "c"), "20260301-090000-bbbb").begin(environment_id=environment_id_of(FACTS)).end()
    foreign.write()
    content = journal_bytes(foreign.folder.session_journal(1))
    assert "speak of another sweep" in refused(other, forge(whole, put("session-0004.jsonl", content)))


def test_a_sweep_is_carried_by_the_command_line(tmp_path: Path) -> None:
    from driven_lab import Lab

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here, there = Lab.at(tmp_path / "a"), Lab.at(tmp_path / "b")
    sweep = here.json("sweep", here.sweep_file(experiment="misbehave", grid={"how": ["well", "raise"]}), "--wait")
    out = tmp_path / "made.zip"
    made = here.json("export", sweep["sweep_id"], "--format", "bundle", "--out", str(out))
    assert (made["runs"], made["status"]) == (2, "finished")
    done = there.json("import", str(out))
    assert done["sweep_id"] == sweep["sweep_id"] and done["runs"] == 2 and done["new"]
    assert done["machines"] == [os.uname().nodename]
    assert there.json("runs") == here.json("runs")
    assert [lab.json("sweeps")["sweeps"][0]["from_bundle"] for lab in (here, there)] == [False, True]
    assert "from a bundle" in there.call("sweeps")[1]
    assert without_bookkeeping(rows(there.home)) == without_bookkeeping(rows(here.home))
    assert "already" in there.call("import", str(out))[1]
    out.write_bytes(out.read_bytes()[:-1])
    assert re.search(r"made\.zip: is cut short", there.json("import", str(out), expect=2)["error"])
    csv = tmp_path / "made.csv"
    csv.write_text("seed\n")
    assert "--experiment" in there.json("import", str(csv), expect=2)["error"]


def test_while_the_app_has_the_store_it_finds_the_sweep(packed: bytes, tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    with Store.open(other) as store:
        bring(other, packed)
        store.ingest()
        assert store.connection.execute("SELECT count(*) FROM runs").fetchone() == (4,)


def test_random_garbage_is_no_bundle(tmp_path: Path) -> None:
    other = Home(tmp_path / "lab")
    other.root.mkdir()
    numbers = random.Random(7)
    for size in (0, 1, 22, 87, 5_000):
        refused(other, b"PK\x03\x04" + numbers.randbytes(size))
