"""A sweep as a bundle that another lab imports: its journals, what it was asked for, where it was measured, logs
and files of its runs, and what people noted on it.

An import changes nothing in them: the sweep keeps its id and its journals every byte, so that two labs that pool their
machines hold the same rows, and a second import finds the sweep there already. Nothing is left of one that is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from engine.bundle_checks import belongs, check_sweep, is_journal, is_of, list_all_journals
from engine.bundle_file import FORMAT, MOST_UNPACKED_BYTES, VERSION, Manifest, open_bundle, write_bundle
from engine.disk_use import measure_use
from engine.files import try_lock
from engine.home import Home, SweepFolder
from engine.journal import (
    Annotation,
    EnvironmentSeen,
    JournalDamage,
    Session,
    compress_journal,
    encode_block,
    journal_bytes,
    list_journals,
    read_blocks,
    read_records,
)
from engine.params import InputError
from engine.people import annotate
from engine.registry import find
from engine.sweep_state import process_alive, read_state

SPECIFICATION, ENVIRONMENTS, PEOPLE = "specification.json", "environments.json", "people.jsonl"
SWEEP_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
BROWSER_UNPACKED_BYTES, BROWSER_PACKED_BYTES = 512 * 2**20, 128 * 2**20
Prove = Callable[[Home, str], str]
"""Reads a sweep into a store that is thrown away; returns what stood in the way. The store's, given by the caller."""


class Imported(NamedTuple):
    sweep_id: str
    name: str
    runs: int
    machines: list[str]
    new: bool
    """False when the lab had this sweep already: then nothing was changed."""

    @property
    def sentence(self) -> str:
        if not self.new:
            return f"sweep {self.sweep_id} is in this lab already, the same in every byte; nothing was changed"
        return (f"sweep {self.sweep_id}: {self.runs:,} {'run' if self.runs == 1 else 'runs'} imported, measured on "
                f"{', '.join(self.machines) or 'a machine that is not named'}")


# -- out ---------------------------------------------------------------------------------------------------------------


def save_bundle(home: Home, folder: SweepFolder, out: Path) -> Manifest:
    """The file appears whole or not at all."""
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        with part.open("w+b") as file:
            manifest = export_bundle(home, folder, file)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return manifest


def bundle_bytes(home: Home, sweep_id: str) -> bytes:
    """For a browser, which gets it from this process's memory."""
    if refusal := too_large_for_browser(home, sweep_id):
        raise InputError(refusal)
    file = BytesIO()
    export_bundle(home, home.sweep(sweep_id), file)
    return file.getvalue()


def too_large_for_browser(home: Home, sweep_id: str) -> str:
    """Why a browser does not get its bundle, and how to make it; nothing when it does."""
    size_bytes = measure_use(home.sweep(sweep_id).path).size_bytes
    return (f"sweep {sweep_id} has {size_bytes:,} bytes on disk, too many for a browser: `python lab.py export "
            f"{sweep_id} --format bundle --out FILE` makes its bundle") if size_bytes > BROWSER_PACKED_BYTES else ""


def export_bundle(home: Home, folder: SweepFolder, out: BinaryIO) -> Manifest:
    """One that is still being measured is refused: its journals grow."""
    lock = try_lock(folder.lock)
    try:
        state = read_state(folder)
        if lock is None or not is_at_rest(folder) or state.open:
            raise InputError(f"sweep {folder.sweep_id} is still being measured; a bundle is made of one that has "
                             "ended: wait for it or cancel it first")
        people = _annotations(home, folder.sweep_id)
        if is_deleted(people, folder.sweep_id):
            raise InputError(f"sweep {folder.sweep_id} was deleted; restore it on the Runs page first")
        check_sweep(folder, f"sweep {folder.sweep_id}", state.specs[-1]["experiment"] if state.specs else "")
        manifest = Manifest(FORMAT, VERSION, folder.sweep_id, state.specs[-1].get("name", ""),
                            state.specs[-1]["experiment"], state.status, state.counts)
        return write_bundle(out, manifest, _contents(folder, people))
    finally:
        if lock is not None:
            os.close(lock)


def is_at_rest(folder: SweepFolder) -> bool:
    """Quick enough for a page: nobody measures it, and its journals are there."""
    return not process_alive(folder) and bool(list_journals(folder.path, "session-"))


def _contents(folder: SweepFolder, people: list[Annotation]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    yield SPECIFICATION, lambda: _told(folder)[0]
    yield ENVIRONMENTS, lambda: _told(folder)[1]
    if people:
        yield PEOPLE, lambda: encode_block(people)
    for path in list_all_journals(folder):
        yield path.relative_to(folder.path).as_posix(), partial(journal_bytes, path)
    for path in sorted(folder.runs.rglob("*")) if folder.runs.is_dir() else []:
        name = path.relative_to(folder.path).as_posix()
        if path.is_symlink() or not path.is_file() or not belongs(name, folder.sweep_id) or is_journal(name):
            continue
        yield name, path.read_bytes


def _told(folder: SweepFolder) -> tuple[bytes, bytes]:
    """What the journals say was asked for and where it was measured, for people who open the archive."""
    asked: list[dict[str, Any]] = []
    environments: dict[str, Any] = {}
    for path in list_journals(folder.path, "session-"):
        for record in read_records(path):
            if isinstance(record, Session) and record.spec not in asked:
                asked.append(record.spec)
            elif isinstance(record, EnvironmentSeen):
                environments.setdefault(record.environment_id, record.facts)
    return (json.dumps(asked, indent=1, sort_keys=True).encode(),
            json.dumps(environments, indent=1, sort_keys=True).encode())


def _annotations(home: Home, sweep_id: str) -> list[Annotation]:
    """What people did to this sweep and its runs."""
    found = []
    for path in list_journals(home.people):
        for block in read_blocks(path, skipped=[]):
            found += [record for record in block.records if isinstance(record, Annotation)
                      and (record.target == sweep_id or record.target.startswith(sweep_id + "-"))]
    return sorted(found, key=lambda record: record.at)


def is_deleted(people: list[Annotation], sweep_id: str) -> bool:
    said = [record.field for record in people if record.target == sweep_id and record.field in ("delete", "restore")]
    return bool(said) and said[-1] == "delete"


# -- in ----------------------------------------------------------------------------------------------------------------


def import_bundle(home: Home, file: BinaryIO, source: str, prove: Prove,
                  most_unpacked_bytes: int = MOST_UNPACKED_BYTES) -> Imported:
    """The sweep's folder appears whole or not at all; `source` is the file's name, for sentences."""
    with open_bundle(file, source, most_unpacked_bytes) as bundle:
        manifest = bundle.manifest
        if not SWEEP_ID.fullmatch(manifest.sweep_id):
            raise InputError(f"{source}: {manifest.sweep_id[:80]!r} is no sweep's id; export it again")
        try:
            find(manifest.experiment)
        except InputError as unknown:
            raise InputError(f"{source}: {unknown}") from None
        for entry in manifest.files:
            if entry.path not in (SPECIFICATION, ENVIRONMENTS, PEOPLE) \
                    and not belongs(entry.path, manifest.sweep_id):
                raise InputError(f"{source}: {entry.path[:80]} does not belong to a sweep; export it again")
        folder = home.sweep(manifest.sweep_id)
        if folder.path.is_dir():
            return _compare(home, folder, manifest, source)
        making = Home(home.root / f"import-{manifest.sweep_id}-{secrets.token_hex(2)}.part")
        try:
            made = making.sweep(manifest.sweep_id)
            for entry in manifest.files:
                bundle.unpack(entry, (making.people if entry.path == PEOPLE else made.path) / entry.path)
            machines = _check_unpacked(making, made, source, manifest)
            if problem := prove(making, manifest.sweep_id):
                raise InputError(f"{source}: cannot be read into a store ({problem}); nothing was imported")
            for path in list_all_journals(made):
                compress_journal(path)
            for name in (SPECIFICATION, ENVIRONMENTS):
                (made.path / name).unlink()
            made.bundle.write_bytes(msgspec.json.encode(manifest))
            _move_in(home, making, folder)
        finally:
            shutil.rmtree(making.root, ignore_errors=True)
    return Imported(manifest.sweep_id, manifest.name, manifest.number_of_runs, machines, True)


def _move_in(home: Home, making: Home, folder: SweepFolder) -> None:
    """What people noted comes first: whoever finds the sweep finds that, too. What is known here is not said twice, and
    no file of an earlier import is written over: the store has read it to its end and would not look again."""
    known = _annotations(home, folder.sweep_id)
    home.sweeps.mkdir(parents=True, exist_ok=True)
    noted_there = _annotations(making, folder.sweep_id)
    if new := [record for record in noted_there if record not in known]:
        home.people.mkdir(exist_ok=True)
        (noted := making.people / PEOPLE).write_bytes(content := encode_block(new))
        noted.replace(home.people / f"bundle-{folder.sweep_id}-{hashlib.sha256(content).hexdigest()[:16]}.jsonl")
    making.sweep(folder.sweep_id).path.rename(folder.path)
    # Deleted and erased in this lab once; who imports it wants it back, its runs as the bundle has them.
    here, there = _last_said(known), _last_said(noted_there)
    back = {target: there.get(target, "restore") for target, said in here.items() if said == "erase"}
    if is_deleted(known, folder.sweep_id):
        back[folder.sweep_id] = "restore"
    for field in ("restore", "delete"):
        if targets := [target for target, said in back.items() if said == field]:
            annotate(home, targets, field)


def _last_said(people: list[Annotation]) -> dict[str, str]:
    return {record.target: record.field for record in people if record.field in ("delete", "restore", "erase")}


def _compare(home: Home, folder: SweepFolder, manifest: Manifest, source: str) -> Imported:
    """The lab has a sweep with this id: the same one, or the import is refused."""
    ours = {path.relative_to(folder.path).as_posix(): hashlib.sha256(journal_bytes(path)).hexdigest()
            for path in list_all_journals(folder)}
    theirs = {entry.path: entry.sha256 for entry in manifest.files if is_journal(entry.path)}
    if ours != theirs:
        raise InputError(f"{source}: this lab has a sweep {folder.sweep_id} with other content (measured further, or "
                         "another one); delete and erase that one first if the bundle's shall take its place")
    if is_deleted(_annotations(home, folder.sweep_id), folder.sweep_id):
        raise InputError(f"{source}: sweep {folder.sweep_id} is in this lab and deleted; restore it on the Runs page")
    environments = json.loads(_told(folder)[1])
    return Imported(folder.sweep_id, manifest.name, manifest.number_of_runs, _machines(environments), False)


def _check_unpacked(making: Home, made: SweepFolder, source: str, manifest: Manifest) -> list[str]:
    """The journals say what the bundle says of them. Returns the names of the machines."""
    check_sweep(made, source, manifest.experiment)
    state = read_state(made)
    told = tuple(path.read_bytes() if (path := made.path / name).exists() else b""
                 for name in (SPECIFICATION, ENVIRONMENTS))
    claims = (state.status, state.counts, state.specs[-1].get("name", ""))
    if told != _told(made) or claims != (manifest.status, manifest.runs, manifest.name):
        raise InputError(f"{source}: its manifest, specification or environment is not what its journals say; export "
                         "it again")
    try:
        noted = read_records(making.people / PEOPLE) if (making.people / PEOPLE).exists() else []
    except JournalDamage as damage:
        raise InputError(f"{source}: {PEOPLE} is damaged at byte {damage.byte:,}; export it again") from None
    if not all(isinstance(record, Annotation) and is_of(record.target, manifest.sweep_id) for record in noted):
        raise InputError(f"{source}: {PEOPLE} speaks of another sweep; export it again")
    return _machines(json.loads(told[1]))


def _machines(environments: dict[str, Any]) -> list[str]:
    return sorted({str(facts.get("hostname") or "unknown") for facts in environments.values()})
