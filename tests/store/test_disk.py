"""The store on a bad disk, without the right to write or without room: one sentence, nothing lost, and it goes on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from driven_lab import Lab

from engine.home import Home
from store.database import Store, StoreUnusable
from store.queries import list_runs
from tests.store.journal_builder import fresh, rows_of
from tests.store.small_lab import check_whole, write_sweep


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file is where the folder should be, which stops root too."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnusable, match="make it writable or set PHASELAB_HOME to another folder") as unusable:
        Store.open(Home(tmp_path / "file" / "lab"))
    assert str(tmp_path / "file" / "lab") in str(unusable.value)
    assert "\n" not in str(unusable.value)


def mount(where: Path, *options: str) -> None:
    where.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(where)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, 32 MiB large."""
    if not shutil.which("mount"):
        pytest.skip("needs the command mount")
    disk = tmp_path / "disk"
    mount(disk, "-t", "tmpfs", "-o", "size=32m", "phaselab-test")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path, leave_bytes: int) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        file.truncate(0)
        try:
            file.write(bytes(max(0, shutil.disk_usage(disk).free - leave_bytes)))
        except OSError:
            pass  # as full as it gets
    return ballast


def test_a_read_only_disk(small_disk: Path) -> None:
    home = Home(small_disk / "lab")
    write_sweep(home)
    check_whole(home)
    before = home.store.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreUnusable, match=r"cannot be written .*make it writable"):
        Store.open(home)
    # Reading from the journals needs no right to write.
    with Store.in_memory(home, home.sweep_ids()) as store:
        assert len(list_runs(store.connection)) == 3
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert home.store.read_bytes() == before
    check_whole(home)


@pytest.mark.parametrize("leave_bytes", [0, 256 * 1024])
def test_a_full_disk_is_one_sentence_and_loses_nothing(small_disk: Path, leave_bytes: int) -> None:
    home = Home(small_disk / "lab")
    for number in range(3):
        write_sweep(home, number, runs=6, batches=200)
    journals = {path: path.read_bytes() for path in home.sweeps.rglob("*.jsonl")}
    expected = fresh(home)
    ballast = fill(small_disk, leave_bytes)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match="make room on the disk") as unusable, Store.open(home) as store:
            store.ingest()
        assert "\n" not in str(unusable.value)
    assert {path: path.read_bytes() for path in home.sweeps.rglob("*.jsonl")} == journals
    ballast.unlink()
    with Store.open(home) as store:
        store.ingest()
        assert rows_of(store.connection) == expected


def test_a_disk_that_fills_up_while_the_app_runs(small_disk: Path) -> None:
    """The app keeps its store open: when there is room again the next pass goes on, without a restart."""
    home = Home(small_disk / "lab")
    write_sweep(home)
    with Store.open(home) as store:
        store.ingest()
        for number in range(1, 4):
            write_sweep(home, number, runs=10, batches=200)
        ballast = fill(small_disk, 0)
        for _ in range(2):
            with pytest.raises(StoreUnusable, match="make room on the disk"):
                store.ingest()
        ballast.unlink()
        store.ingest()
        assert rows_of(store.connection) == fresh(home)
    check_whole(home)


def test_a_command_on_a_full_disk(small_disk: Path, lab: Lab) -> None:
    lab.environment["PHASELAB_HOME"] = str(small_disk / "lab")
    write_sweep(Home(small_disk / "lab"))
    fill(small_disk, 0)
    assert "make room" in lab.json("runs", expect=2)["error"]
