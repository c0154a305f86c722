"""Image sets as a user meets them: names, the generated images (kills and rivals included), items and loaders.

Above 400 lines because all of it shares one set of 600 images, made once per session.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.data import DataError, check_data, fetch_imagenette, make_loader, open_images, prepare_data
from engine.drawing import GENERATED_CLASSES, draw_image

PROJECT = Path(__file__).resolve().parents[2]
PREPARE = """
import sys
from pathlib import Path
from engine.data import prepare_data
prepare_data("generated", int(sys.argv[1]), Path(sys.argv[2]), lambda done, total: print(done, flush=True))
"""


def no_progress(done: int, total: int) -> None:
    pass


def start_python(code: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        cwd=PROJECT, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_python(code: str, *arguments: object, **environment: str) -> str:
    process = start_python(code, *arguments, **environment)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out.strip()


def image_bytes(cache: Path, first: int | None = None) -> dict[int, bytes]:
    found = {int(file.stem): file for file in (cache / "generated-v1").glob("*/*.jpg")}
    return {index: file.read_bytes() for index, file in found.items() if first is None or index < first}


def leftovers(cache: Path) -> list[Path]:
    return [file for file in (cache / "generated-v1").rglob("*") if file.is_file() and file.suffix != ".jpg"]


def save_image(file: Path, colour: tuple[int, ...] = (200, 30, 90), mode: str = "RGB") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (48, 40), colour).convert(mode).save(file)
    return file


def assert_one_sentence(error: DataError, *words: str) -> None:
    assert "\n" not in str(error) and str(error).endswith(".")
    for word in words:
        assert word in str(error)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 generated images: enough to be made by several processes."""
    folder = tmp_path_factory.mktemp("cache")
    prepare_data("generated", 600, folder, no_progress)
    return folder


# The generated set


def test_every_process_makes_the_same_image(cache: Path) -> None:
    made = image_bytes(cache)
    assert sorted(made) == list(range(600))
    assert all(made[index] == draw_image(index) for index in range(0, 600, 37))
    assert leftovers(cache) == []


def test_a_set_that_grows_keeps_its_first_images(tmp_path: Path, cache: Path) -> None:
    prepare_data("generated", 12, tmp_path, no_progress)
    first = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.jpg")}
    assert len(first) == 12
    prepare_data("generated", 25, tmp_path, no_progress)
    assert image_bytes(tmp_path) == image_bytes(cache, 25)
    assert {file: file.stat().st_mtime_ns for file in first} == first


@settings(max_examples=15, deadline=None)
@given(index=st.integers(0, 10**7), before=st.integers(0, 10**7))
def test_an_image_depends_on_its_index_alone(index: int, before: int) -> None:
    alone = draw_image(index)
    draw_image(before)
    assert draw_image(index) == alone
    image = Image.open(io.BytesIO(alone))
    assert image.format == "JPEG" and all(320 <= side <= 500 for side in image.size)
    assert 15_000 < len(alone) < 75_000


@pytest.mark.parametrize("items", [5, 64, 310])
def test_progress_goes_from_what_is_there_to_all(items: int, tmp_path: Path) -> None:
    prepare_data("generated", 3, tmp_path, no_progress)
    told: list[tuple[int, int]] = []
    prepare_data("generated", items, tmp_path, lambda done, total: told.append((done, total)))
    assert told[0] == (3, items) and told[-1] == (items, items)
    assert told == sorted(told)


def test_an_empty_file_is_made_again(tmp_path: Path) -> None:
    prepare_data("generated", 4, tmp_path, no_progress)
    made = image_bytes(tmp_path)
    file = next(tmp_path.rglob("000002.jpg"))
    file.write_bytes(b"")
    prepare_data("generated", 4, tmp_path, no_progress)
    assert image_bytes(tmp_path) == made


@pytest.mark.parametrize("items", [250, 3000], ids=["one process", "several processes"])
def test_a_killed_preparation_completes_later(items: int, tmp_path: Path, cache: Path) -> None:
    process = start_python(PREPARE, items, tmp_path)
    assert process.stdout is not None
    while int(process.stdout.readline()) == 0:
        pass
    helpers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    _, living = psutil.wait_procs(helpers, timeout=60)
    assert living == []

    left = image_bytes(tmp_path)
    assert 0 < len(left) < items
    assert all(left[index] == draw_image(index) for index in list(left)[::10])
    prepare_data("generated", 320, tmp_path, no_progress)
    assert image_bytes(tmp_path, 320) == image_bytes(cache, 320)


def test_two_preparations_at_once_do_no_harm(tmp_path: Path, cache: Path) -> None:
    rivals = [start_python(PREPARE, items, tmp_path) for items in (320, 340)]
    for rival in rivals:
        _, errors = rival.communicate()
        assert rival.returncode == 0, errors
    assert image_bytes(tmp_path) == image_bytes(cache, 340)
    assert leftovers(tmp_path) == []


def test_what_a_killed_process_left_long_ago_is_removed(tmp_path: Path) -> None:
    prepare_data("generated", 1, tmp_path, no_progress)
    making = tmp_path / "generated-v1" / ".making"
    old, young = making / "old", making / "young"
    for file in (old, young):
        file.write_bytes(b"half an image")
    os.utime(old, (0, 0))
    prepare_data("generated", 2, tmp_path, no_progress)
    assert not old.exists() and young.exists()


def test_a_caller_that_stops_leaves_no_process_behind(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done:
            raise Stop

    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(Stop):
        prepare_data("generated", 2000, tmp_path, stop)
    drawing = [child for child in set(psutil.Process().children(recursive=True)) - before
               if "spawn_main" in " ".join(child.cmdline())]
    assert drawing == []
    assert len(image_bytes(tmp_path)) < 2000


def test_a_disk_without_room_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        prepare_data("generated", 10**13, tmp_path, no_progress)
    assert_one_sentence(caught.value, "items=10000000000000", "PHASELAB_HOME")
    # A limit on the size of files makes writes fail half-way, as a full disk does.
    told = run_python("""
import resource, sys
from pathlib import Path
from engine.data import DataError, prepare_data
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    prepare_data("generated", 3, Path(sys.argv[1]), lambda done, total: None)
except DataError as error:
    print(error)
""", tmp_path)
    assert told.startswith("data='generated': cannot write") and "File too large" in told and "\n" not in told
    assert image_bytes(tmp_path) == {} and leftovers(tmp_path) == []


def test_opening_more_than_was_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        open_images("generated", tmp_path, 64, None)
    assert_one_sentence(caught.value, "generated", "0 of")
    prepare_data("generated", 3, tmp_path, no_progress)
    with pytest.raises(DataError) as caught:
        open_images("generated", tmp_path, 64, 4)
    assert_one_sentence(caught.value, "3 of 4")
    assert len(open_images("generated", tmp_path, 64, None)) == 3


def test_classes_are_learnt_by_a_small_network_and_not_by_mean_colour(cache: Path) -> None:
    import torch
    from torch import nn

    images = open_images("generated", cache, 64, 600)
    pixels, labels = next(iter(make_loader(images, 600, 0)))
    assert torch.bincount(labels).tolist() == [60] * 10
    train, held_out = slice(0, 400), slice(400, 600)

    colours = pixels.mean(dim=(2, 3))
    centres = torch.stack([colours[train][labels[train] == label].mean(0) for label in range(10)])
    by_colour = (torch.cdist(colours[held_out], centres).argmin(1) == labels[held_out]).float().mean().item()

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(8):
        for chosen in torch.randperm(400).split(40):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(pixels[chosen]), labels[chosen]).backward()
            optimizer.step()
    network.eval()
    with torch.no_grad():
        by_network = (network(pixels[held_out]).argmax(1) == labels[held_out]).float().mean().item()
    print(f"{by_network=} {by_colour=}")
    assert by_network > 0.6
    assert by_colour < 0.3


# Names and folders


def test_known_names_need_no_folder(tmp_path: Path) -> None:
    assert check_data(" Generated ", tmp_path) == "generated"
    with pytest.raises(DataError) as caught:
        check_data("imagenette", tmp_path)
    assert_one_sentence(caught.value, "not on this machine", "`python lab.py fetch imagenette`")


def test_imagenette_is_used_where_torchvision_keeps_it(tmp_path: Path) -> None:
    train = tmp_path / "imagenette" / "imagenette2-320" / "train"
    for name in ("n01440764", "n02102040"):
        save_image(train / name / f"{name}_1.JPEG")
    assert check_data("imagenette", tmp_path) == "imagenette"
    prepare_data("imagenette", 9, tmp_path, no_progress)
    assert open_images("imagenette", tmp_path, 32, None).classes == ["n01440764", "n02102040"]
    fetch_imagenette(tmp_path, "320px")  # already there: no download, or this would fail here
    with pytest.raises(DataError) as caught:
        fetch_imagenette(tmp_path, "huge")
    assert_one_sentence(caught.value, "huge", "320px")


def test_a_download_without_network_is_one_sentence(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    told = run_python("""
import sys
from pathlib import Path
from engine.data import DataError, fetch_imagenette
try:
    fetch_imagenette(Path(sys.argv[1]), "160px")
except DataError as error:
    print(error)
""", tmp_path, http_proxy=nowhere, https_proxy=nowhere, no_proxy="")
    assert "download" in told and "check the network" in told and "\n" not in told
    assert list((tmp_path / "imagenette").iterdir()) == []


def two_classes(root: Path) -> None:
    save_image(root / "cats" / "a.png")
    save_image(root / "dogs" / "b.png")


def with_empty_class(root: Path) -> None:
    two_classes(root)
    (root / "empty one").mkdir()
    (root / "empty one" / "notes.txt").write_text("no image")


def only_images(root: Path) -> None:
    save_image(root / "a.png")


def with_splits(root: Path) -> None:
    two_classes(root / "train")
    two_classes(root / "val")


@pytest.mark.parametrize(("build", "words"), [
    (lambda root: None, ["does not exist"]),
    (lambda root: root.write_text("text"), ["is a file"]),
    (lambda root: root.mkdir(), ["no class folder"]),
    (only_images, ["no class folder"]),
    (with_empty_class, ["'empty one'", "no image"]),
    (with_splits, ["splits", "set/train"]),
])
def test_a_bad_folder_is_one_sentence_that_names_it(
    build: Callable[[Path], object], words: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "set"
    build(root)
    for attempt in (lambda: check_data(str(root), tmp_path), lambda: open_images(str(root), tmp_path, 32, None),
                    lambda: prepare_data(str(root), 5, tmp_path, no_progress)):
        with pytest.raises(DataError) as caught:
            attempt()
        assert_one_sentence(caught.value, repr(str(root)), *words)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.one_of(st.text(), st.sampled_from(["", " ", "\0", "x" * 10_000, "a/" * 3000, "~nobody/x", "\udcff"])))
def test_any_text_is_a_set_or_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        assert check_data(name, tmp_path)
    except DataError as error:
        assert_one_sentence(error, "data=")
        assert len(str(error).encode()) < 3000


def test_a_relative_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_classes(tmp_path / "set")
    monkeypatch.chdir(tmp_path)
    assert check_data("set", tmp_path) == check_data("./set/", tmp_path) == str(tmp_path / "set")


def test_classes_take_turns_and_files_are_sorted(tmp_path: Path) -> None:
    root = tmp_path / "set"
    for name in ("b2.PNG", "b1.png", "b3.png"):
        save_image(root / "bees" / name)
    save_image(root / "ants" / "images" / "a1.jpeg")  # as Tiny ImageNet
    (root / "bees" / ".b0.png").write_bytes(b"hidden")
    images = open_images(str(root), tmp_path, 32, None)
    assert images.classes == ["ants", "bees"]
    assert [Path(file).name for file in images.files] == ["a1.jpeg", "b1.png", "b2.PNG", "b3.png"]
    assert images.labels == [0, 1, 1, 1]
    assert open_images(str(root), tmp_path, 32, 2).labels == [0, 1]
    told: list[tuple[int, int]] = []
    prepare_data(str(root), 3, tmp_path, lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (3, 3)]


# Items and loaders


def test_the_transform_is_torchvisions_own(cache: Path) -> None:
    import torch
    from torchvision.models import ResNet18_Weights
    from torchvision.transforms import functional

    images = open_images("generated", cache, 224, 7)
    preset = ResNet18_Weights.IMAGENET1K_V1.transforms()  # resize 256, crop 224
    for index, file in enumerate(images.files):
        tensor, label = images[index]
        assert torch.equal(tensor, preset(Image.open(file)))
        assert images.classes[label] == GENERATED_CLASSES[int(Path(file).stem) % 10] == Path(file).parent.name
    small, _ = open_images("generated", cache, 64, 1)[0]
    resized = functional.resize(Image.open(images.files[0]), [73])
    tensor = functional.to_tensor(functional.center_crop(resized, [64, 64]))
    assert torch.equal(small, functional.normalize(tensor, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    assert small.shape == (3, 64, 64) and small.dtype == torch.float32


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "1"])
def test_every_kind_of_image_becomes_three_channels(mode: str, tmp_path: Path) -> None:
    save_image(tmp_path / "set" / "all" / "a.png", mode=mode)
    tensor, _ = open_images(str(tmp_path / "set"), tmp_path, 32, None)[0]
    assert tensor.shape == (3, 32, 32)


def no_image(file: Path) -> None:
    file.write_text("not an image")


def cut_short(file: Path) -> None:
    file.write_bytes(draw_image(1)[:5000])


def gone(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize(("spoil", "workers"), [(no_image, 0), (cut_short, 0), (gone, 0), (cut_short, 1)])
def test_an_unreadable_image_is_one_sentence_that_names_it(
    spoil: Callable[[Path], None], workers: int, tmp_path: Path
) -> None:
    save_image(tmp_path / "set" / "cats" / "good.jpg")
    bad = save_image(tmp_path / "set" / "dogs" / "bad.jpg")
    images = open_images(str(tmp_path / "set"), tmp_path, 32, None)
    spoil(bad)
    with pytest.raises(DataError) as caught:
        list(make_loader(images, 2, workers))
    assert_one_sentence(caught.value, str(bad), "replace or remove")


def test_loaders_give_full_batches_in_order(cache: Path) -> None:
    import torch

    images = open_images("generated", cache, 32, 25)
    plain = list(make_loader(images, 8, 0))
    assert [labels.tolist() for _, labels in plain] == [[i % 10 for i in range(at, at + 8)] for at in (0, 8, 16)]
    loader = make_loader(pickle.loads(pickle.dumps(images)), 8, 1, prefetch_factor=3, persistent_workers=True)
    assert loader.multiprocessing_context.get_start_method() == "fork"
    assert loader.prefetch_factor == 3 and loader.persistent_workers
    for (pixels, _), (expected, _) in zip(loader, plain, strict=True):
        assert pixels.shape == (8, 3, 32, 32) and torch.equal(pixels, expected)


def test_a_batch_larger_than_the_data_is_one_sentence(cache: Path) -> None:
    with pytest.raises(DataError) as caught:
        make_loader(open_images("generated", cache, 32, 5), 6, 0)
    assert_one_sentence(caught.value, "batch_size=6", "only 5 images")


def test_torchs_warning_about_too_many_workers_is_not_silenced(cache: Path) -> None:
    with pytest.warns(UserWarning, match="worker"):
        make_loader(open_images("generated", cache, 32, 5), 1, 4096)


def test_the_app_can_import_it_without_torch_and_numpy() -> None:
    loaded = run_python("import sys, engine.building, engine.settings; print(*sys.modules)").split()
    assert {"engine.data", "engine.formats", "engine.fetching"} <= set(loaded)
    assert not {"torch", "torchvision", "numpy"} & set(loaded)
