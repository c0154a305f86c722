"""Which images train and which validate, and one sentence for every demand that cannot be met."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from driven_lab import Lab
from PIL import Image

from engine.data import prepare_data
from engine.experiments.extract import Params as ExtractParams
from engine.params import InputError
from engine.splits import check_splits, classes_used, open_loader, open_split, prepare_splits, with_augmentation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes of six images each."""
    for name in ("cat", "dog", "owl"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for number in range(6):
            Image.new("RGB", (40, 40), (number * 20, 10, 10)).save(tmp_path / "set" / name / f"{number}.png")
    return tmp_path / "set"


def test_training_and_validation_share_no_image_and_are_balanced(image_cache: Path) -> None:
    prepare_data("generated", 60, image_cache, lambda done, total: None)
    split = open_split("generated", image_cache, 32, 40, 20, None, None)
    assert not set(split.train.files) & set(split.val.files)
    assert [split.train.labels.count(c) for c in range(10)] == [4] * 10
    assert [split.val.labels.count(c) for c in range(10)] == [2] * 10
    assert (split.classes, split.head_classes) == (10, 10)


@pytest.mark.parametrize(("train", "val"), [(80, 20), (800, 200), (3200, 800), (3, 1)])
def test_left_open_a_quarter_as_many_validate(train: int, val: int) -> None:
    assert ExtractParams(train_images=train).held_out == val
    assert ExtractParams(train_images=train, val_images=7).held_out == 7


@pytest.mark.parametrize("items", [(8, 3), (7, 4)])
def test_some_of_the_classes(image_cache: Path, items: tuple[int, int]) -> None:
    cells = [ExtractParams(classes=4, train_images=items[0], val_images=items[1], image_size=32)]
    prepare_splits(cells, image_cache, lambda done, total: None)
    split = open_split("generated", image_cache, 32, *items, 4, None)
    assert (len(split.train), len(split.val)) == items
    assert split.train.labels + split.val.labels == [index % 4 for index in range(sum(items))]
    assert split.classes == split.head_classes == len(split.train.classes) == 4


def test_some_classes_of_a_folder(folder: Path, tmp_path: Path) -> None:
    split = open_split(str(folder), tmp_path, 32, 8, 4, 2, 7)
    assert split.train.classes == ["cat", "dog"] and split.head_classes == 7
    with pytest.raises(InputError, match=r"train_images=9, val_images=4: .* has only 12 images of these 2 classes"):
        open_split(str(folder), tmp_path, 32, 9, 4, 2, None)
    with pytest.raises(InputError, match="has only 18 images; ask for fewer"):
        open_split(str(folder), tmp_path, 32, 18, 1, None, None)
    with pytest.raises(InputError, match="train_images=1: they are all of one class"):
        open_split(str(folder), tmp_path, 32, 1, 4, None, None)


@pytest.mark.parametrize(("classes", "head", "available", "words"), [
    (None, 2, 10, "head_classes=2: the data has 10 classes, more than the head; raise head_classes to 10"),
    (5, 4, 10, "head_classes=4: the data has 5 classes"),
    (11, None, 10, "classes=11: x has only 10"),
    (None, None, 1, "data=x: has one class only"),
])
def test_classes_that_cannot_be(classes: Any, head: Any, available: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        classes_used("x", classes, head, available)


def test_classes_that_can_be() -> None:
    assert classes_used("x", None, None, 10) == classes_used("x", None, 1000, 10) == 10
    assert classes_used("x", 2, 2, 10) == 2


def test_a_set_of_one_class_is_refused_before_anything_runs(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (folder / "cat").rename(alone / "cat")
    with pytest.raises(InputError, match="has one class only"):
        check_splits([ExtractParams(data=str(alone))], tmp_path)


@pytest.mark.parametrize(("content", "words"), [
    ({"experiment": "finetune", "grid": {"head_classes": [2]}}, "head_classes=2: the data has 10 classes, more than"),
    ({"experiment": "extract", "grid": {"train_images": [0]}}, "train_images=0: must be 1 to"),
    ({"experiment": "extract", "grid": {"model": ["roberta"]}}, "model=roberta: reads text, not images"),
    ({"experiment": "bottleneck", "grid": {"items": [0]}}, "items=0: must be 1 to"),
    ({"experiment": "bottleneck", "grid": {"model": ["bert"]}, "fixed": {"data": "{folder}"}},
     "bert reads text, and only generated texts are there"),
    ({"experiment": "bottleneck", "grid": {"model": ["bert"]}, "fixed": {"head_classes": 2}}, "head_classes=2"),
    ({"experiment": "bottleneck", "grid": {"arrangement": ["joint"]}}, "arrangement=joint: models that share nothing"),
    ({"experiment": "bottleneck", "grid": {"items": [9]}}, "items=9: too few"),
    ({"experiment": "finetune", "grid": {"seed": [1]}, "fixed": {"data": "{alone}"}}, "has one class only"),
])
def test_a_sweep_that_cannot_be_starts_nothing(lab: Lab, folder: Path, content: dict[str, Any], words: str) -> None:
    alone = folder.parent / "alone"
    alone.mkdir()
    (folder / "owl").rename(alone / "owl")
    fixed = {name: value.format(folder=folder, alone=alone) if isinstance(value, str) else value
             for name, value in content.get("fixed", {}).items()}
    code, out, err = lab.call("sweep", lab.sweep_file(**{**content, "fixed": fixed}))
    assert (code, out) == (2, "")
    assert words in err and err.count("\n") == 1
    assert lab.files() == set(), "nothing written"


def test_loaders_give_every_image_once_in_another_order_each_epoch(image_cache: Path) -> None:
    prepare_data("generated", 30, image_cache, lambda done, total: None)
    split = open_split("generated", image_cache, 32, 20, 10, None, None)
    labels = [[int(label) for _, batch in loader for label in batch]
              for loader in [open_loader(split.train, 8, 0, shuffle=True, seed=3)] for _ in range(2)]
    assert sorted(labels[0]) == sorted(labels[1]) == sorted(split.train.labels) and labels[0] != labels[1]
    again = [int(label) for _, batch in open_loader(split.train, 8, 0, shuffle=True, seed=3) for label in batch]
    assert again == labels[0]


def test_augmentation_varies_what_evaluation_keeps(image_cache: Path) -> None:
    import torch

    prepare_data("generated", 30, image_cache, lambda done, total: None)
    split = open_split("generated", image_cache, 32, 20, 10, None, None)
    varied = with_augmentation(split.train, 32)
    assert torch.equal(split.train[0][0], split.train[0][0])
    assert varied[0][0].shape == (3, 32, 32) and not torch.equal(varied[0][0], varied[0][0])
