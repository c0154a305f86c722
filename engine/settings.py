"""Settings that several experiments share: what they are called, what they may be, and what a wrong one is told.

Importable without torch. An experiment's Params lists the ones it has; defaults and words stay the same everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator

from engine.data import DataError, check_data
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


def image_size_setting() -> Any:
    return setting(224, title="Image size", unit="px", ge=1, le=2048,
                   help="Side of the square the model sees, after resize and centre crop.")


def device_setting() -> Any:
    return setting("auto", title="Device", help="auto, cpu, cuda, or one GPU such as cuda:1.")


def precision_setting() -> Any:
    return setting("fp32", title="Precision", help="bf16 and fp16 run the forward pass under autocast.")


def check_image_sets(names: Iterable[str], cache: Path) -> None:
    """Each set is there and readable, or one sentence about the first that is not."""
    for name in sorted(set(names)):
        try:
            check_data(name, cache)
        except DataError as error:
            raise InputError(str(error)) from None


def no_such_device(device: str, gpus: Gpus) -> str | None:
    """Why a device cannot be used here, known without torch."""
    if device.startswith("cuda") and not gpus.devices:
        return f"device={device}: no NVIDIA GPU was found on this machine"
    return None
