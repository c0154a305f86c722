"""Where does a model search spend its time: preparing the model, preparing the data, inference, or the score?

One model whole or only its last blocks, or several models that share all but their last blocks: joint (the shared part
runs once per batch) against separate (one model after another). Preparing a model is building it, loading its state
from disk, and moving it to the device. The score is one linear layer trained on the features (SGD 0.1, 100 epochs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from engine.blocks import Part, ShareBy
from engine.file_cache import CacheState
from engine.models import MODELS, image_size_problem
from engine.params import Params as BaseParams
from engine.params import setting
from engine.search_models import Network, prepare_states
from engine.settings import (
    AnyModelName,
    DataName,
    DeviceName,
    Precision,
    data_setting,
    device_setting,
    image_size_setting,
    model_setting,
    no_such_device,
    precision_setting,
    profile_setting,
    workers_setting,
)
from engine.splits import MOST_ITEMS, check_splits, classes_setting, classes_used, head_setting, prepare_splits
from engine.text import BASE_LAYERS, BASE_WIDTH, HEAD_WIDTH, LONGEST, TEXT_CLASSES

if TYPE_CHECKING:
    from engine.nvml import Gpus
    from engine.recorder import Recorder

HELD_OUT = 0.2
"""Of the items: their features test the score and are not learnt from."""


class Params(BaseParams):
    model: AnyModelName = model_setting(text=True)
    arrangement: Literal["one", "joint", "separate"] = setting(
        "one", title="Models", help="one model; or several that share all but their part, as a joint network or "
                                    "separately, one after another.")
    part: Part = setting("full", title="Part", help="What runs of one model, or what each of several models has of its "
                         "own. A part of one model runs on activations of the right shape, made once.")
    share_by: ShareBy = setting("blocks", title="Shares are of", help="What 50 % and 25 % are taken of: the number of "
                                "blocks, their parameters, or their floating-point operations.")
    models: int = setting(4, title="How many models", unit="models", ge=2, le=64,
                          help="Of a joint or separate arrangement.")
    items: int = setting(96, title="Items", unit="items", ge=1, le=MOST_ITEMS,
                         help="Images or texts that go through (96, 1024 and 9216 in seed 001).")
    batch_size: int = setting(32, title="Batch size", unit="items", ge=1, le=65536, help="128 in seed 001.")
    workers: int = workers_setting()
    data: DataName = data_setting()
    classes: int | None = classes_setting()
    head_classes: int | None = head_setting()
    image_size: int = image_size_setting()
    tokens: int = setting(128, title="Text length", unit="tokens", ge=1, le=LONGEST, help="Of a text model's items.")
    text_layers: int = setting(BASE_LAYERS, title="Text layers", unit="layers", ge=1, le=48,
                               help=f"Of a text model; {BASE_LAYERS} is the base size.")
    text_width: int = setting(BASE_WIDTH, title="Text width", ge=HEAD_WIDTH, le=4096, multiple_of=HEAD_WIDTH,
                              help=f"Hidden size, a multiple of {HEAD_WIDTH}; {BASE_WIDTH} is the base size.")
    file_cache: CacheState = setting("warm", title="State's file", help="warm: read once before, so that it is in "
                                     "memory. cold: asked out of the file cache before it is loaded. How much of it "
                                     "was in memory is measured.")
    disk_bytes_per_s: float = setting(1e9, title="Assumed disk", unit="bytes/s", gt=0, le=1e13,
                                      help="For the computed load time, which is kept beside the measured one.")
    device: DeviceName = device_setting()
    precision: Precision = precision_setting()
    profile: bool = profile_setting()

    @model_validator(mode="after")
    def _fits_together(self) -> Params:
        if self.is_text and self.data != "generated":
            raise ValueError(f"data={self.data}: {self.model} reads text, and only generated texts are there; choose "
                             "data=generated")
        if not self.is_text and (problem := image_size_problem(self.model, self.image_size, "random")):
            raise ValueError(problem)
        if self.arrangement != "one" and self.part == "full":
            raise ValueError(f"arrangement={self.arrangement}: models that share nothing are just models; choose a "
                             "part, such as last_50%")
        if self.items < 10:
            raise ValueError(f"items={self.items}: too few to learn a score from and hold some out; ask for 10 or more")
        return self

    @property
    def is_text(self) -> bool:
        return MODELS[self.model].kind == "text"

    @property
    def network(self) -> Network:
        return Network(self.model, self.image_size, self.text_layers, self.text_width, self.tokens, self.seed,
                       self.part, self.share_by, 1 if self.arrangement == "one" else self.models)

    # What engine.splits asks of any experiment on images.
    @property
    def train_images(self) -> int:
        return self.items - self.held_out

    @property
    def held_out(self) -> int:
        return max(round(self.items * HELD_OUT), 1)

    @property
    def weights(self) -> str:
        return "random"


def check(cells: Iterable[Params], cache: Path) -> None:
    cells = list(cells)
    check_splits([cell for cell in cells if not cell.is_text], cache)
    for cell in cells:
        if cell.is_text:
            classes_used("the generated texts", cell.classes, cell.head_classes, TEXT_CLASSES)


def prepare(cells: list[Params], cache: Path, progress: Callable[[int, int], None]) -> None:
    """Images, and the states that the runs load: each network's whole, and the parts of the other models."""
    prepare_splits([cell for cell in cells if not cell.is_text], cache, progress)
    prepare_states([cell.network for cell in cells], cache)


def cannot_run(params: Params, gpus: Gpus) -> str | None:
    return no_such_device(params.device, gpus)


def run(params: Params, recorder: Recorder) -> None:
    from engine.searching import run_search

    run_search(params, recorder)
