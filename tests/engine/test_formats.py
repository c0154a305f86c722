"""Preprocessed sets as a user meets them: equal to the images they are built from, built once, and never half there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from engine.building import prepare_items
from engine.caches import list_caches, remove_cache
from engine.data import DataError, make_loader, prepare_data
from engine.fetching import FetchedItems
from engine.formats import PREPROCESSED, Format, check_room, open_items
from engine.home import PROJECT, Home
from engine.params import InputError
from engine.settings import check_all_jpeg

BUILT: list[Format] = ["tensor_files", "memmap"]
BUILD = """
import sys
from pathlib import Path
from engine.building import prepare_items
tell = lambda done, total: print(done, flush=True)
prepare_items("generated", sys.argv[1], 32, int(sys.argv[2]), Path(sys.argv[3]), tell)
"""


def no_progress(done: int, total: int) -> None:
    pass


def build(cache: Path, format: Format, items: int, name: str = "generated") -> None:
    prepare_items(name, format, 32, items, cache, no_progress)


def read_all(cache: Path, format: Format, items: int, name: str = "generated") -> tuple[torch.Tensor, list[int]]:
    opened = open_items(name, format, cache, 32, items)
    found = [opened[index] for index in range(len(opened))]
    return torch.stack([pixels for pixels, _ in found]), [label for _, label in found]


def records(cache: Path) -> list[Path]:
    """The data that is there, used or not."""
    return sorted((cache / PREPROCESSED).glob("*/data-*"))


def assert_one_sentence(error: DataError, *words: str) -> None:
    assert "\n" not in str(error) and str(error).endswith(".")
    for word in words:
        assert word in str(error)


@pytest.fixture
def cache(tmp_path: Path, image_cache: Path) -> Path:
    """The session's generated images, and nothing built from them."""
    prepare_data("generated", 200, image_cache, no_progress)
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "generated-v1").symlink_to(image_cache / "generated-v1")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of three images each, JPEG and PNG."""
    for number in range(6):
        file = tmp_path / "set" / ("cats", "dogs")[number % 2] / f"{number}.{'png' if number == 5 else 'jpg'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (48, 40), (40 * number, 30, 90)).save(file)
    return tmp_path / "set"


@pytest.mark.parametrize("format", BUILT)
def test_the_same_tensors_in_every_format(format: Format, cache: Path, folder: Path) -> None:
    for name, items in (("generated", 20), (str(folder), 6)):
        build(cache, format, items, name)
        pixels, labels = read_all(cache, format, items, name)
        expected, expected_labels = read_all(cache, "jpeg", items, name)
        torch.testing.assert_close(pixels, expected)
        assert labels == expected_labels


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("threads", [0, 1, 4])
@pytest.mark.parametrize("format", ["jpeg", *BUILT])
def test_loaders_deliver_the_same_batches_however_they_fetch(format: Format, threads: int, workers: int,
                                                             cache: Path) -> None:
    build(cache, format, 20)
    items: Any = open_items("generated", format, cache, 32, 20)
    if threads:
        items = FetchedItems(items, threads, 0.001)
    expected, expected_labels = read_all(cache, "jpeg", 20)
    batches = list(make_loader(items, 6, workers))
    assert len(batches) == 3
    torch.testing.assert_close(torch.cat([pixels for pixels, _ in batches]), expected[:18])
    assert torch.cat([labels for _, labels in batches]).tolist() == expected_labels[:18]


def test_a_mapped_batch_in_any_order(cache: Path) -> None:
    build(cache, "memmap", 20)
    items: Any = open_items("generated", "memmap", cache, 32, 20)
    expected, expected_labels = read_all(cache, "jpeg", 20)
    chosen = [7, 3, 3, 19]
    pixels, labels = items.__getitems__(chosen)
    torch.testing.assert_close(pixels, expected[chosen])
    assert labels.tolist() == [expected_labels[index] for index in chosen]
    pixels.zero_()
    torch.testing.assert_close(items[7][0], expected[7])  # a batch is a copy: the array stays as it is


def test_torchvisions_decoder_gives_nearly_the_same(cache: Path) -> None:
    """Both shrink with antialiasing, one in whole numbers and one in floats: a few of 255 steps apart."""
    plain = open_items("generated", "jpeg", cache, 64, 10)
    other = open_items("generated", "jpeg", cache, 64, 10, "torchvision")
    for index in range(10):
        difference = (plain[index][0] - other[index][0]).abs() * 0.229 * 255
        assert difference.mean() < 2 and plain[index][1] == other[index][1]


def test_decode_jpeg_on_something_else_is_one_sentence(cache: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"decoder=torchvision: reads JPEG files only and .*5\.png is none; use decod"):
        check_all_jpeg(str(folder), cache)
    (folder / "dogs" / "5.png").rename(folder / "dogs" / "5.jpg")
    check_all_jpeg(str(folder), cache)
    items = open_items(str(folder), "jpeg", cache, 32, 6, "torchvision")
    with pytest.raises(DataError) as caught:
        items[5]
    assert_one_sentence(caught.value, "5.jpg", "JPEG only", "decoder=pil")
    (folder / "cats" / "0.jpg").write_bytes((folder / "cats" / "0.jpg").read_bytes()[:300])
    with pytest.raises(DataError) as caught:
        items[0]
    assert_one_sentence(caught.value, "0.jpg", "cannot be read")


@pytest.mark.parametrize("format", BUILT)
def test_it_is_built_once_with_progress_and_grows(format: Format, cache: Path) -> None:
    told: list[tuple[int, int]] = []
    prepare_items("generated", format, 32, 40, cache, lambda done, total: told.append((done, total)))
    assert told[-1] == (40, 40) and len(told) > 3
    (data,) = records(cache)
    written = {file: file.stat().st_mtime_ns for file in [data, *data.rglob("*.f32")] if file.is_file()}
    build(cache, format, 40)
    build(cache, format, 10)
    assert {file: file.stat().st_mtime_ns for file in written} == written
    told.clear()
    prepare_items("generated", format, 32, 140, cache, lambda done, total: told.append((done, total)))
    assert told[-1] == (140, 140) and records(cache) == [data]
    torch.testing.assert_close(read_all(cache, format, 140)[0], read_all(cache, "jpeg", 140)[0])


def cut_short(data: Path) -> None:
    file = data if data.is_file() else next(data.rglob("0000003.f32"))
    os.truncate(file, file.stat().st_size - 1)


def lose_manifest(data: Path) -> None:
    (data.parent / "manifest.json").unlink()


def spoil_manifest(data: Path) -> None:
    (data.parent / "manifest.json").write_text('{"data": "../../../etc"}')


@pytest.mark.parametrize("harm", [cut_short, lose_manifest, spoil_manifest])
@pytest.mark.parametrize("format", BUILT)
def test_what_is_not_whole_is_refused_and_built_again(format: Format, harm: Any, cache: Path) -> None:
    build(cache, format, 20)
    harm(records(cache)[0])
    with pytest.raises(DataError) as caught:
        open_items("generated", format, cache, 32, 20)
    assert_one_sentence(caught.value, f"format={format}", "launch or resume the sweep")
    build(cache, format, 20)
    torch.testing.assert_close(read_all(cache, format, 20)[0], read_all(cache, "jpeg", 20)[0])
    assert len(records(cache)) == 1


@pytest.mark.parametrize("format", BUILT)
def test_a_record_that_is_cut_while_a_run_reads_is_one_sentence(format: Format, cache: Path) -> None:
    build(cache, format, 20)
    items = open_items("generated", format, cache, 32, 20)
    cut_short(records(cache)[0])
    with pytest.raises(DataError) as caught:
        items[3]
    assert_one_sentence(caught.value, "run again")


@pytest.mark.parametrize("format", BUILT)
def test_a_changed_source_is_noticed(format: Format, cache: Path, folder: Path) -> None:
    build(cache, format, 10, str(folder))
    assert len(open_items(str(folder), format, cache, 32, 10)) == 6
    Image.new("RGB", (48, 40), (255, 255, 255)).save(folder / "cats" / "2.jpg")
    with pytest.raises(DataError) as caught:
        open_items(str(folder), format, cache, 32, 6)
    assert_one_sentence(caught.value, "have changed", str(folder))
    build(cache, format, 6, str(folder))
    torch.testing.assert_close(read_all(cache, format, 6, str(folder))[0], read_all(cache, "jpeg", 6, str(folder))[0])
    (folder / "cats" / "0.jpg").unlink()
    build(cache, format, 6, str(folder))
    assert len(open_items(str(folder), format, cache, 32, 6)) == 5
    assert len(records(cache)) == 1


def test_a_reader_keeps_what_it_reads_while_it_is_replaced(cache: Path, folder: Path) -> None:
    build(cache, "memmap", 6, str(folder))
    items: Any = open_items(str(folder), "memmap", cache, 32, 6)
    before, _ = items.__getitems__([0, 1])
    Image.new("RGB", (48, 40), (255, 255, 255)).save(folder / "cats" / "0.jpg")
    build(cache, "memmap", 6, str(folder))
    torch.testing.assert_close(items.__getitems__([0, 1])[0], before)


def start_build(format: Format, items: int, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", BUILD, format, str(items), str(cache)], cwd=PROJECT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("format", BUILT)
def test_a_killed_builder_leaves_nothing_that_is_taken_for_whole(format: Format, cache: Path) -> None:
    process = start_build(format, 200, cache)
    assert process.stdout is not None
    # Before the first record come the lines of the images themselves; records make a file or folder.
    while not records(cache) and process.poll() is None:
        process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(DataError, match="has not been built"):
        open_items("generated", format, cache, 32, 20)
    build(cache, format, 30)
    torch.testing.assert_close(read_all(cache, format, 30)[0], read_all(cache, "jpeg", 30)[0])
    assert len(records(cache)) == 1, "what the killed one left is removed"


@pytest.mark.parametrize("format", BUILT)
def test_two_builders_at_once_do_no_harm(format: Format, cache: Path) -> None:
    rivals = [start_build(format, items, cache) for items in (150, 160)]
    for rival in rivals:
        _, errors = rival.communicate()
        assert rival.returncode == 0, errors
    torch.testing.assert_close(read_all(cache, format, 160)[0], read_all(cache, "jpeg", 160)[0])
    assert len(records(cache)) == 1


def test_a_disk_without_room_is_one_sentence(cache: Path, folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        check_room("generated", "memmap", 2048, 10**9, cache)
    assert_one_sentence(caught.value, "format=memmap", "50,331,648,000,000,000 bytes", "PHASELAB_HOME")
    check_room(str(folder), "memmap", 2048, 10**9, cache)  # there are six images in it, whatever was asked
    code = """
import resource, sys
from pathlib import Path
from engine.building import prepare_items
from engine.data import DataError
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    prepare_items("generated", "memmap", 32, 20, Path(sys.argv[1]), lambda done, total: None)
except DataError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code, str(cache)], cwd=PROJECT, text=True, check=True,
                          stdout=subprocess.PIPE).stdout.strip()
    assert told.startswith("format=memmap: cannot write") and "File too large" in told and "\n" not in told
    with pytest.raises(DataError, match="has not been built"):
        open_items("generated", "memmap", cache, 32, 20)


def test_an_unreadable_image_names_itself(cache: Path, folder: Path) -> None:
    (folder / "cats" / "2.jpg").write_text("no image")
    with pytest.raises(DataError) as caught:
        build(cache, "memmap", 6, str(folder))
    assert_one_sentence(caught.value, "2.jpg", "it is no image")


def test_built_sets_are_listed_and_removed(lab: Any) -> None:
    home: Home = lab.home
    build(home.cache, "memmap", 5)
    build(home.cache, "tensor_files", 5)
    entries = {entry.title: entry for entry in list_caches(home) if entry.name.startswith(PREPROCESSED)}
    assert set(entries) == {"Preprocessed images: generated-v1-32px-memmap",
                            "Preprocessed images: generated-v1-32px-tensor_files"}
    for entry in entries.values():
        assert entry.size_bytes > 5 * 32 * 32 * 3 * 4 and "Built again" in entry.again
        remove_cache(home, entry.name)
        assert not (home.cache / entry.name).exists()
    with pytest.raises(DataError, match="has not been built"):
        open_items("generated", "memmap", home.cache, 32, 5)
    build(home.cache, "memmap", 5)
    assert len(open_items("generated", "memmap", home.cache, 32, 5)) == 5
