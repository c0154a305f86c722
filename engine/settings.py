"""Settings that several experiments share: what they are called, what they may be, and what a wrong one is told.

Importable without torch. An experiment's Params lists the ones it has; defaults and words stay the same everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator

from engine.data import DataError, check_data, list_images
from engine.decoding import JPEG_SUFFIXES
from engine.formats import Format, check_room
from engine.models import MODELS, text_problem
from engine.params import InputError, setting, suggestion

if TYPE_CHECKING:
    from engine.nvml import Gpus

NAMED_SETS = ("generated", "imagenette")


def _known_model(name: str) -> str:
    if name not in MODELS:
        raise ValueError(f"no such model{suggestion(name, list(MODELS))} (there are {', '.join(MODELS)})")
    return name


def _reads_images(name: str) -> str:
    if problem := text_problem(name):
        raise ValueError(problem)
    return name


def _whole_path(name: str) -> str:
    """A folder is kept by its whole path: the run has another working folder than the person who asked."""
    return name if name in NAMED_SETS else os.path.abspath(os.path.expanduser(name))


def _known_device(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,2})?", name):
        raise ValueError("must be auto, cpu, cuda or cuda:N")
    return name


AnyModelName = Annotated[str, AfterValidator(_known_model)]
ModelName = Annotated[AnyModelName, AfterValidator(_reads_images)]
DataName = Annotated[str, AfterValidator(_whole_path)]
DeviceName = Annotated[str, AfterValidator(_known_device)]
Precision = Literal["fp32", "bf16", "fp16"]


def model_setting(text: bool = False) -> Any:
    """`text`: the experiment also takes the models that read text (its field is an AnyModelName then)."""
    return setting("resnet18", title="Model", help="The network that is run.",
                   options=[name for name, entry in MODELS.items() if text or entry.kind != "text"])


def workers_setting() -> Any:
    return setting(2, title="Loader workers", unit="processes", ge=0, le=512,
                   help="Processes that decode and transform images. 0: the run's own process does it.")


def data_setting() -> Any:
    return setting("generated", title="Images from", max_length=4096, options=list(NAMED_SETS), folder=True,
                   help="generated, imagenette, or the path of a folder that holds one folder per class.")


def format_setting() -> Any:
    return setting("jpeg", title="Stored as",
                   help="jpeg: image files, decoded and transformed by the loader. tensor_files: one file per item, "
                        "a normalised tensor already. memmap: all of them in one memory-mapped array. The last two "
                        "are built before the first run and kept in the cache.")


def prefetch_setting() -> Any:
    return setting(2, title="Prefetch", unit="batches per worker", ge=1, le=64, help="Batches each worker keeps ready.")


def pin_memory_setting() -> Any:
    return setting(False, title="Pinned memory", help="Page-locked batches, for faster copies to a GPU.")


def image_size_setting() -> Any:
    return setting(224, title="Image size", unit="px", ge=1, le=2048,
                   help="Side of the square the model sees, after resize and centre crop.")


def device_setting() -> Any:
    return setting("auto", title="Device", help="auto, cpu, cuda, or one GPU such as cuda:1.")


def precision_setting() -> Any:
    return setting("fp32", title="Precision", help="bf16 and fp16 run the forward pass under autocast.")


def profile_setting() -> Any:
    return setting(False, title="Profile",
                   help="Afterwards, up to three more batches under torch's profiler: a trace and the top operators "
                        "are kept as files of the run. The measured ones are not touched.")


def check_image_sets(names: Iterable[str], cache: Path) -> None:
    """Each set is there and readable, or one sentence about the first that is not."""
    for name in sorted(set(names)):
        try:
            check_data(name, cache)
        except DataError as error:
            raise InputError(str(error)) from None


class StoredItems(NamedTuple):
    """What a cell reads: so many items of a set, in one format and size."""

    data: str
    format: Format
    image_size: int
    items: int


def need_at_most(needs: Iterable[StoredItems]) -> list[StoredItems]:
    """Each set, format and size once, with the largest number of items that any cell reads."""
    most: dict[tuple[str, Format, int], int] = {}
    for need in needs:
        # Image files do not depend on the size the loader cuts out of them.
        key = (need.data, need.format, need.image_size if need.format != "jpeg" else 0)
        most[key] = max(most.get(key, 0), need.items)
    return [StoredItems(*key, items) for key, items in most.items()]


def check_stored_items(needs: Iterable[StoredItems], cache: Path) -> None:
    """Each set is there, and the disk has room for what is to be built of it."""
    chosen = need_at_most(needs)
    check_image_sets((need.data for need in chosen), cache)
    for need in chosen:
        try:
            check_room(need.data, need.format, need.image_size, need.items, cache)
        except DataError as error:
            raise InputError(str(error)) from None


def check_all_jpeg(name: str, cache: Path) -> None:
    """Whether torchvision's decode_jpeg can read every file of a set, as far as their names tell."""
    if name == "generated":
        return
    files, _, _ = list_images(name, cache)
    if other := next((file for file in files if not file.lower().endswith(JPEG_SUFFIXES)), None):
        raise InputError(f"decoder=torchvision: reads JPEG files only and {other} is none; use decoder=pil for these "
                         "images")


def no_such_device(device: str, gpus: Gpus) -> str | None:
    """Why a device cannot be used here, known without torch."""
    if device.startswith("cuda") and not gpus.devices:
        return f"device={device}: no NVIDIA GPU was found on this machine"
    return None
