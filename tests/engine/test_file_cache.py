"""What the runs of a sweep read is in memory before the first of them, whichever experiment asks."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from engine.experiments import extract, finetune, inference, training
from engine.file_cache import cached_share, read_ahead, set_cache


def no_progress(done: int, total: int) -> None:
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes of six images each, larger than a page of memory."""
    for name in ("cat", "dog", "owl"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for number in range(6):
            Image.effect_noise((160, 160), 90).convert("RGB").save(tmp_path / "set" / name / f"{number}.jpg")
    return tmp_path / "set"


def make_cold(files: list[Path]) -> None:
    for file in files:
        set_cache(file, "cold")
    if any(cached_share(file) == 1 for file in files):
        pytest.skip("this file system keeps its files in memory")


@pytest.mark.parametrize(("experiment", "asked"), [
    (inference, {"images": 12, "batch_size": 4}),
    (inference, {"images": 12, "batch_size": 4, "format": "tensor_files"}),
    (inference, {"images": 12, "batch_size": 4, "format": "memmap"}),
    (training, {"train_images": 12, "batch_size": 4, "val_images": 0}),
    (extract, {"train_images": 9, "val_images": 3}),
    (finetune, {"train_images": 9, "val_images": 3, "layers": "head"}),
], ids=lambda value: value.__name__ if isinstance(value, ModuleType) else value.get("format", "jpeg"))
def test_files_are_read_before_the_first_run(experiment: ModuleType, asked: dict[str, Any], folder: Path,
                                             tmp_path: Path) -> None:
    cells = [experiment.Params(data=str(folder), image_size=64, **asked)]
    cache = tmp_path / "cache"
    experiment.prepare(cells, cache, no_progress)
    built = [*cache.rglob("*.f32"), *(file for file in cache.rglob("data-*") if file.is_file())]
    files = built or [folder / name / f"{number}.jpg" for name in ("cat", "dog", "owl") for number in range(4)]
    make_cold(files)
    experiment.prepare(cells, cache, no_progress)
    assert [file for file in files if cached_share(file) != 1] == []


def test_only_the_classes_that_take_part_are_read(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.rglob("*.jpg"))
    make_cold(files)
    extract.prepare([extract.Params(data=str(folder), image_size=64, classes=2, train_images=9, val_images=3)],
                    tmp_path, no_progress)
    assert {file.parent.name for file in files if cached_share(file) == 1} == {"cat", "dog"}
    assert sum(cached_share(file) == 1 for file in files) == 12


def test_what_does_not_fit_into_memory_is_left_alone(folder: Path) -> None:
    files = sorted(folder.rglob("*.jpg"))
    size = sum(file.stat().st_size for file in files)
    make_cold(files)
    assert not read_ahead(files, no_progress, room_bytes=size - 1) and cached_share(files[0]) != 1
    assert read_ahead(files, no_progress, room_bytes=size) and cached_share(files[0]) == 1
    assert read_ahead([folder / "gone.jpg"], no_progress, room_bytes=size), "who needs the file says that it is gone"
