"""Image sets: checking a name, making the generated images, and loading items as the measured runs see them.

Importable without torch, torchvision and numpy (they are imported where they are used): the app checks input here.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import shutil
import tarfile
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence, Sized
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine.decoding import CannotDecode, Decoder, choose_decoder
from engine.drawing import GENERATED_CLASSES, draw_image
from engine.machine import cpu_allowance

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader, Dataset

GENERATED = "generated"
IMAGENETTE = "imagenette"
ALLOWED_NAMES = f"'{GENERATED}', '{IMAGENETTE}' or the path of a folder that holds one folder per class"
# The folder that torchvision unpacks each size into; when several are there, the first of this order is used.
IMAGENETTE_FOLDERS = {"full": "imagenette2", "320px": "imagenette2-320", "160px": "imagenette2-160"}
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
SPLIT_NAMES = {"train", "val", "valid", "validation", "test"}

GENERATED_FOLDER = "generated-v1"  # a change of what is drawn needs a new number: caches outlive versions
GENERATED_MEAN_BYTES = 39_400  # measured over the first 2,000 images
IMAGES_PER_TASK = 32
POOL_FROM_IMAGES = 300  # below this, starting processes costs more than it saves
STALE_SECONDS = 86_400  # no image and no download takes a day: what is older was left by a killed process


class DataError(ValueError):
    """One sentence for the user: what was asked, why it cannot be, and the next move."""

    def __init__(self, sentence: str) -> None:
        # A loader worker's error is rebuilt by torch from its whole formatted traceback: keep the sentence only.
        super().__init__(sentence.rpartition(f"{__name__}.DataError: ")[2].strip())


def check_data(name: str, home_cache: Path) -> str:
    """The normalised name of an image set that can be used (folders become absolute), or a DataError."""
    asked = name.strip()
    if asked.lower() == GENERATED:
        return GENERATED
    if asked.lower() == IMAGENETTE:
        _class_folders(IMAGENETTE, _imagenette_folder(home_cache))
        return IMAGENETTE
    if asked == "":
        raise DataError(f"data={name!r}: must be {ALLOWED_NAMES}.")
    root = Path(os.path.abspath(os.path.expanduser(asked)))
    _class_folders(asked, root)
    return str(root)


def list_classes(name: str, cache: Path) -> list[str]:
    """The class names of a set, in the order of their labels, without listing its images."""
    name = check_data(name, cache)
    if name == GENERATED:
        return list(GENERATED_CLASSES)
    folders = _class_folders(name, _imagenette_folder(cache) if name == IMAGENETTE else Path(name))
    return [folder.name for folder in folders]


def prepare_data(name: str, items: int, cache: Path, progress: Callable[[int, int], None]) -> None:
    """Make sure that the images are there: draw what is missing of the generated set, count the others."""
    if items < 1:
        raise DataError(f"items={items}: must be at least 1.")
    name = check_data(name, cache)
    if name == GENERATED:
        _prepare_generated(items, cache / GENERATED_FOLDER, progress)
        return
    # A folder with fewer images than asked for is used as it is; what took effect is the length of the opened set.
    total = len(list_images(name, cache, items)[0])
    progress(0, total)
    progress(total, total)


def fetch_imagenette(cache: Path, size: str) -> None:
    """Download Imagenette into the cache, whole or not at all; a size that is already there is left alone."""
    if size not in IMAGENETTE_FOLDERS:
        raise DataError(f"size={size!r}: must be one of {', '.join(IMAGENETTE_FOLDERS)}.")
    home = cache / IMAGENETTE
    target = home / IMAGENETTE_FOLDERS[size]
    if target.is_dir():
        return
    from torchvision.datasets import Imagenette

    try:
        home.mkdir(parents=True, exist_ok=True)
        _remove_stale(home, "fetching-")
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=home) as folder:
            Imagenette(folder, split="train", size=size, download=True)
            os.replace(Path(folder) / target.name, target)
    except (OSError, HTTPException, RuntimeError, tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"imagenette ({size}): the download into {home} failed ({error}); check the network "
                        f"and the free space, then run `python lab.py fetch imagenette` again.") from error


@dataclass(eq=False)
class ImageItems:
    """A map-style set for torch's DataLoader: item i is (normalised float tensor CHW, class index). Holds names only,
    so it can be pickled and forked. No Dataset base class, which would need torch at import time."""

    files: list[str]
    labels: list[int]
    classes: list[str]
    decode: Callable[[str], Any]
    transform: Callable[[Any], torch.Tensor]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        try:
            pixels = self.decode(file)
        except CannotDecode as error:
            raise DataError(f"data: the file {file!r} cannot be read ({error}); "
                            f"replace or remove it and run again.") from error
        return self.transform(pixels), self.labels[index]


def open_images(name: str, cache: Path, image_size: int, limit: int | None, decoder: Decoder = "pil") -> ImageItems:
    """The items of a set in a fixed order, at most `limit` of them, through the evaluation transform."""
    files, labels, classes = list_images(check_data(name, cache), cache, limit)
    return ImageItems(files, labels, classes, *choose_decoder(decoder, image_size))


def make_loader(
    dataset: Sized,
    batch_size: int,
    workers: int,
    *,
    pin_memory: bool = False,
    prefetch_factor: int = 2,
    persistent_workers: bool = False,
    seed: int = 0,
    sampler: Any = None,
    drop_last: bool = True,
    in_worker: Callable[[int], None] | None = None,
) -> DataLoader[Any]:
    """A loader in the order of the set, or in a sampler's; of full batches unless the rest is asked for. `in_worker`
    is called in each worker first. Read what took effect from the loader's own attributes."""
    import torch
    from torch.utils.data import DataLoader

    if drop_last and batch_size > len(dataset):
        raise DataError(f"batch_size={batch_size}: the data has only {len(dataset)} images and only full batches "
                        f"are measured; lower batch_size or give more images.")
    return DataLoader(
        cast("Dataset[Any]", dataset),
        batch_size=batch_size,
        shuffle=False,
        sampler=sampler,
        drop_last=drop_last,
        # A set that reads whole batches has nothing left to collate.
        collate_fn=keep_batch if getattr(dataset, "whole_batches", False) else None,
        num_workers=workers,
        pin_memory=pin_memory,
        # A run is a forkserver's child and would hand `forkserver` on: its loader would start a second server, without
        # torch (first batch seconds late), whose workers outlive the run.
        multiprocessing_context="fork" if workers > 0 else None,
        prefetch_factor=prefetch_factor if workers > 0 else None,
        persistent_workers=persistent_workers and workers > 0,
        worker_init_fn=in_worker,
        generator=torch.Generator().manual_seed(seed),
    )


def keep_batch(batch: Any) -> Any:
    return batch


def _imagenette_folder(cache: Path) -> Path:
    for folder in IMAGENETTE_FOLDERS.values():
        train = cache / IMAGENETTE / folder / "train"
        if train.is_dir():
            return train
    raise DataError(f"data='{IMAGENETTE}': it is not on this machine (looked in {cache / IMAGENETTE}); "
                    f"`python lab.py fetch imagenette` downloads it, '{GENERATED}' needs no download.")


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"data={shown(name)}: {error.filename!r} cannot be read ({error.strerror}); "
                        f"check its permissions.") from error


def shown(name: str) -> str:
    """A set's name as it fits into a sentence."""
    return repr(name if len(name) <= 200 else f"{name[:200]}...")


def _class_folders(name: str, root: Path) -> list[Path]:
    """The class folders of a set, sorted, each with at least one image."""
    # os.path.isdir answers False where Path.is_dir raises: a null character, a name that is too long.
    if not os.path.isdir(root):
        problem = "is a file, not a folder" if os.path.exists(root) else "does not exist"
        raise DataError(f"data={shown(name)}: this {problem}; give {ALLOWED_NAMES}.")
    with _reading(name):
        folders = sorted(Path(entry.path) for entry in os.scandir(root) if entry.is_dir() and entry.name[0] != ".")
        empty = next((folder for folder in folders if next(_walk_images(folder), None) is None), None)
    if not folders:
        raise DataError(f"data={shown(name)}: no class folder in it; put the images into one folder per class.")
    if {"train"} <= {folder.name for folder in folders} <= SPLIT_NAMES:
        raise DataError(f"data={shown(name)}: its folders are splits, not classes; "
                        f"give one of them, as in {str(root / 'train')!r}.")
    if empty is not None:
        raise DataError(f"data={shown(name)}: the class folder {empty.name!r} holds no image "
                        f"({' '.join(IMAGE_SUFFIXES)}); add images to it or remove it.")
    return folders


def _walk_images(folder: Path | str, levels: int = 2) -> Iterator[str]:
    """Image files of a class, also some levels down (Tiny ImageNet keeps them in <class>/images). Not at any depth,
    and not through links to folders: a wrong path such as / must get its answer while the user waits."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if levels > 0:
                    yield from _walk_images(entry.path, levels - 1)
            elif entry.name.lower().endswith(IMAGE_SUFFIXES) and entry.is_file():
                yield entry.path


def list_images(name: str, cache: Path, limit: int | None = None) -> tuple[list[str], list[int], list[str]]:
    """Files, labels and class names of a checked name. Any prefix is balanced: classes take turns."""
    if name == GENERATED:
        return _list_generated(cache / GENERATED_FOLDER, limit)
    folders = _class_folders(name, _imagenette_folder(cache) if name == IMAGENETTE else Path(name))
    with _reading(name):
        by_class = [[(file, label) for file in sorted(_walk_images(folder))] for label, folder in enumerate(folders)]
    # In plain sorted order the first hundreds would all be of one class, and an accuracy on them would mean nothing.
    turns = (item for turn in itertools.zip_longest(*by_class) for item in turn if item is not None)
    items = list(itertools.islice(turns, limit))
    return [file for file, _ in items], [label for _, label in items], [folder.name for folder in folders]


def _list_generated(folder: Path, limit: int | None) -> tuple[list[str], list[int], list[str]]:
    made = _made_indices(folder)
    # Only the unbroken prefix counts: another process may be adding images further on.
    count = next(index for index in itertools.count() if index not in made)
    if count == 0 or (limit is not None and count < limit):
        raise DataError(f"data='{GENERATED}': {count} of {'the' if limit is None else limit} images are in {folder}; "
                        f"a run makes the rest in its stage prepare_data.")
    return name_generated(folder, count if limit is None else limit)


def name_generated(folder: Path, count: int) -> tuple[list[str], list[int], list[str]]:
    """The first images of the generated set, whether they are drawn yet or not."""
    labels = [index % len(GENERATED_CLASSES) for index in range(count)]
    return [str(_generated_file(folder, index)) for index in range(count)], labels, list(GENERATED_CLASSES)


def _generated_file(folder: Path, index: int) -> Path:
    return folder / GENERATED_CLASSES[index % len(GENERATED_CLASSES)] / f"{index:06d}.jpg"


def _made_indices(folder: Path) -> set[int]:
    # A power cut can leave a renamed file empty: that one is made again.
    files = (file for file in folder.glob("stripes_*/*.jpg") if file.stem.isdecimal() and file.stat().st_size > 0)
    return {int(file.stem) for file in files}


def _prepare_generated(items: int, folder: Path, progress: Callable[[int, int], None]) -> None:
    """Draw the missing images. Each appears under its name by a rename, complete, so a kill loses at most the images
    under way, and two processes at once only replace a file by the same bytes."""
    with _writing(folder):
        for name in (*GENERATED_CLASSES, ".making"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        _remove_stale(folder / ".making", "")
        made = _made_indices(folder)
        free_bytes = shutil.disk_usage(folder).free
    done = sum(index < items for index in made)
    needed_bytes = (items - done) * GENERATED_MEAN_BYTES
    if needed_bytes > free_bytes:
        raise DataError(f"items={items}: the generated images need about {needed_bytes:,} bytes more and {folder} has "
                        f"{free_bytes:,} free; ask for fewer or set PHASELAB_HOME to a folder on a larger disk.")
    progress(done, items)
    # Closed even when `progress` raises, so that no process is left drawing.
    missing = [index for index in range(items) if index not in made]
    with contextlib.closing(_write_all(folder, missing)) as parts:
        for count in parts:
            done += count
            progress(done, items)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"data='{GENERATED}': cannot write {str(error.filename or folder)!r} ({error.strerror}); "
                        f"free some space or set PHASELAB_HOME to a folder that can be written.") from error


def _write_all(folder: Path, indices: list[int]) -> Generator[int, None, None]:
    """Write the images, in several processes when that pays; gives the size of each finished part."""
    parts = [indices[at : at + IMAGES_PER_TASK] for at in range(0, len(indices), IMAGES_PER_TASK)]
    processes = min(max(1, int(cpu_allowance().cores)), 32)
    if len(indices) < POOL_FROM_IMAGES or processes == 1:
        for part in parts:
            yield _write_images(folder, part)
        return
    # Spawn: the caller has torch loaded and a thread that watches its sweep; a fork would copy their state as it is.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_parent)
    try:
        for future in as_completed([pool.submit(_write_images, folder, part) for part in parts]):
            yield future.result()
    except BrokenProcessPool as error:
        raise DataError(f"data='{GENERATED}': a process that draws images was ended from outside, perhaps for memory; "
                        f"run again: the images made so far are kept.") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A pool's processes wait for work for ever when their parent is killed: end them with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _write_images(folder: Path, indices: Sequence[int]) -> int:
    for index in indices:
        unfinished = folder / ".making" / f"{index}-{os.getpid()}-{os.urandom(4).hex()}"
        with _writing(folder):
            try:
                unfinished.write_bytes(draw_image(index))
                os.replace(unfinished, _generated_file(folder, index))
            finally:
                unfinished.unlink(missing_ok=True)
    return len(indices)


def _remove_stale(folder: Path, prefix: str) -> None:
    """Remove what killed processes left; what is young may belong to a living one."""
    for path in folder.glob(f"{prefix}*"):
        # Another process may finish with it, or remove it, while we look.
        with contextlib.suppress(FileNotFoundError):
            # Wall clock on purpose: it is compared with the file system's.
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                remove = shutil.rmtree if path.is_dir() else os.unlink
                remove(path)
