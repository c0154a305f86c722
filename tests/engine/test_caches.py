"""Cleaning the caches on real folders: only what is listed, nothing outside, nothing that a sweep may need."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driven_lab import Lab

from engine import queue
from engine.caches import list_caches, remove_cache
from engine.data import check_data, open_images, prepare_data
from engine.disk_use import Use, measure_store, measure_sweeps, measure_use
from engine.home import PROJECT, Home
from engine.params import InputError


@pytest.fixture
def home(lab: Lab) -> Home:
    """A cache with one of each: sizes that can be told apart."""
    for name, size in (("generated-v1/stripes_000_coarse/000000.jpg", 100), ("generated-v1/.making/x", 1),
                       ("generated-v0/a.jpg", 20), ("imagenette/imagenette2/train/n01/a.jpg", 3000),
                       ("imagenette/imagenette2-160/train/n01/a.jpg", 300), ("imagenette/fetching-abc/part.tgz", 7),
                       ("weights/resnet18.pth", 500), ("something/else.bin", 5)):
        file = lab.home.cache / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    return lab.home


def sizes(home: Home) -> dict[str, int]:
    return {entry.name: entry.size_bytes for entry in list_caches(home)}


def test_everything_is_listed_with_its_size_and_its_price(home: Home) -> None:
    assert sizes(home) == {
        "imagenette/imagenette2": 3000, "weights": 500, "imagenette/imagenette2-160": 300, "generated-v1": 101,
        "generated-v0": 20, "imagenette/fetching-abc": 7, "something": 5}
    entries = {entry.name: entry for entry in list_caches(home)}
    assert "Made again" in entries["generated-v1"].again
    assert entries["imagenette/imagenette2-160"].again.endswith("fetch imagenette --size 160px")
    assert entries["something"].title == "Not known to this version"
    assert [name for name, entry in entries.items() if entry.kept_because] == ["imagenette/fetching-abc"]
    assert sum(sizes(home).values()) == measure_use(home.cache).size_bytes


def test_no_cache_is_an_empty_list(lab: Lab) -> None:
    assert list_caches(lab.home) == []
    with pytest.raises(InputError, match="no such entry"):
        remove_cache(lab.home, "generated-v1")


def test_one_entry_is_removed_and_the_others_stay(home: Home) -> None:
    before = sizes(home)
    assert remove_cache(home, "imagenette/imagenette2") == 3000
    del before["imagenette/imagenette2"]
    assert sizes(home) == before
    with pytest.raises(InputError, match="no such entry"):
        remove_cache(home, "imagenette/imagenette2")


@pytest.mark.parametrize("name", ["..", "../sweeps", "generated-v1/../../sweeps", "/", "", ".", "imagenette",
                                  "imagenette/..", "generated-v1/stripes_000_coarse", "a\0b", "x" * 5000])
def test_only_listed_names_are_removed(home: Home, name: str) -> None:
    before = set(home.root.rglob("*"))
    with pytest.raises(InputError, match="no such entry"):
        remove_cache(home, name)
    assert before <= set(home.root.rglob("*"))


def test_links_lead_nowhere(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "thesis.tex").write_text("years of work")
    (home.cache / "linked").symlink_to(outside)
    (home.cache / "imagenette" / "imagenette2-320").symlink_to(outside)
    (home.cache / "weights" / "inner").symlink_to(outside)
    (home.cache / "weights" / "inner.pth").symlink_to(outside / "thesis.tex")
    assert sizes(home)["linked"] < 1000, "the link itself, not what it leads to"
    for name in ("linked", "imagenette/imagenette2-320"):
        with pytest.raises(InputError, match="outside the cache"):
            remove_cache(home, name)
    remove_cache(home, "weights")
    assert "weights" not in sizes(home)
    assert (outside / "thesis.tex").read_text() == "years of work"


def test_imagenette_as_a_link_is_not_walked_into(home: Home, tmp_path: Path) -> None:
    (home.cache / "imagenette").rename(tmp_path / "shared-imagenette")
    (home.cache / "imagenette").symlink_to(tmp_path / "shared-imagenette")
    assert not [name for name in sizes(home) if name.startswith("imagenette/")]
    with pytest.raises(InputError, match="outside the cache"):
        remove_cache(home, "imagenette")


def test_a_cache_folder_on_another_disk_can_be_cleaned(home: Home, tmp_path: Path) -> None:
    """People link the whole cache folder to where there is space: that is still the lab's own."""
    home.cache.rename(tmp_path / "large-disk")
    home.cache.symlink_to(tmp_path / "large-disk")
    remove_cache(home, "generated-v1")
    assert not (tmp_path / "large-disk" / "generated-v1").exists()


def test_refused_while_a_sweep_is_in_line(home: Home) -> None:
    queue.enqueue(home, "20260101-000000-aaaa")
    queue.pause(home, "20260101-000000-aaaa")
    with pytest.raises(InputError, match="20260101-000000-aaaa is queued or being measured"):
        remove_cache(home, "generated-v1")
    assert sizes(home)["generated-v1"] == 101
    queue.leave(home, "20260101-000000-aaaa")
    assert remove_cache(home, "generated-v1") == 101


def test_refused_while_the_machine_is_measured(home: Home) -> None:
    lock = queue.MachineLock()
    assert lock.try_to_take()
    with pytest.raises(InputError, match="is being measured now"):
        remove_cache(home, "weights")
    assert sizes(home)["weights"] == 500
    lock.release()
    remove_cache(home, "weights")
    assert lock.try_to_take(), "the lock is given back"
    lock.release()


def test_a_half_removed_folder_is_never_taken_for_the_whole(home: Home) -> None:
    """kill -9 in the middle of a removal: the rest is aside, and can be removed."""
    folder = home.cache / "imagenette" / "imagenette2" / "train" / "n01"
    for index in range(20_000):
        (folder / f"{index}.jpg").touch()
    code = ("import sys; from pathlib import Path; from engine.home import Home; "
            "from engine.caches import remove_cache; remove_cache(Home(Path(sys.argv[1])), sys.argv[2])")
    removal = subprocess.Popen([sys.executable, "-c", code, str(home.root), "imagenette/imagenette2"], cwd=PROJECT)
    while folder.exists() and removal.poll() is None:
        time.sleep(0.0005)
    removal.kill()
    assert removal.wait() == -9, "it was killed before it was done"
    assert "imagenette/imagenette2" not in sizes(home)
    (rest,) = [entry for entry in list_caches(home) if entry.title == "Rest of an interrupted removal"]
    remove_cache(home, rest.name)
    assert not [entry for entry in list_caches(home) if entry.title == "Rest of an interrupted removal"]


def test_a_download_under_way_is_left_alone_and_an_old_one_is_not(home: Home) -> None:
    with pytest.raises(InputError, match="may be under way"):
        remove_cache(home, "imagenette/fetching-abc")
    old = time.time() - 90_000
    os.utime(home.cache / "imagenette" / "fetching-abc", (old, old))
    assert remove_cache(home, "imagenette/fetching-abc") == 7


def test_generated_images_are_made_again(lab: Lab) -> None:
    prepare_data("generated", 20, lab.home.cache, lambda done, total: None)
    before = {file.name: file.read_bytes() for file in lab.home.cache.rglob("*.jpg")}
    remove_cache(lab.home, "generated-v1")
    assert check_data("generated", lab.home.cache) == "generated"
    prepare_data("generated", 20, lab.home.cache, lambda done, total: None)
    assert {file.name: file.read_bytes() for file in lab.home.cache.rglob("*.jpg")} == before
    assert len(open_images("generated", lab.home.cache, 32, 20)) == 20


def test_sizes_follow_what_is_written(lab: Lab) -> None:
    assert (measure_sweeps(lab.home), measure_store(lab.home)) == (Use(0, 0), Use(0, 0))
    runs = lab.home.sweep("20260101-000000-aaaa").runs
    runs.mkdir(parents=True)
    (runs / "a.1.jsonl").write_bytes(b"x" * 10)
    assert measure_sweeps(lab.home) == Use(10, 1)
    assert measure_sweeps(lab.home) == Use(10, 1), "known by now"
    (runs / "a.1.log").write_bytes(b"x" * 5)
    assert measure_sweeps(lab.home) == Use(15, 2)
    lab.home.store.write_bytes(b"x" * 7)
    assert measure_store(lab.home) == Use(7, 1)
