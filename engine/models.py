"""The models: vision models, RevNets and what they are compared with, two text models. Names, sizes, construction.

Importable without torch; `python -m engine.models` prints the description for processes that must not load it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Literal

from engine.revnets import ADJUSTED, build_adjusted_resnet, build_revnet
from engine.text import TEXT_MODELS, build_text_model

if TYPE_CHECKING:
    import torch

Weights = Literal["random", "pretrained"]
PRETRAINED_CLASSES = 1000
# Every model here has weights of this name, made at 224 px or usable there. DEFAULT would change under our feet.
PRETRAINED_NAME = "IMAGENET1K_V1"
# The classes of the repeating blocks, by name: importing them would load torch.
BLOCK_TYPES = {"BasicBlock", "Bottleneck", "InvertedResidual", "FusedMBConv", "MBConv", "EncoderBlock", "BertLayer",
               "RobertaLayer", "RevUnit"}


class ModelError(ValueError):
    """One sentence for the user: what was asked, why it cannot be, and the next move."""


@dataclass(frozen=True)
class ModelEntry:
    """A model by its name in this lab. An image size is a multiple of `size_multiple`, from `smallest_size` on."""

    name: str
    kind: str
    torchvision_name: str
    size_multiple: int
    smallest_size: int
    summary: str
    classes: int = PRETRAINED_CLASSES
    """How many it is built with when nobody says; pretrained weights are for 1000 only."""
    pretrained: bool = True
    norm_stride: int | None = None
    """Image pixels per pixel of the last map that batch norm sees, along a side; None without batch norm."""


def _convolutional(name: str, torchvision_name: str, summary: str) -> ModelEntry:
    # Any size runs, even 1 px, but five halvings leave nothing to look at below 32. At exactly 32 the last map is
    # 1 x 1 and batch norm cannot train on a batch of one image (33 px can).
    return ModelEntry(name, "vision", torchvision_name, 1, 32, summary, norm_stride=32)


def _transformer(name: str, patch_size: int, summary: str) -> ModelEntry:
    return ModelEntry(name, "vision", name, patch_size, patch_size, summary)


def _small(name: str, norm_stride: int, summary: str) -> ModelEntry:
    # Two or three halvings only; RevNets and the networks seed 003 compares them with have 100 classes.
    return ModelEntry(name, "vision", "", 1, 8, summary, classes=100, pretrained=False, norm_stride=norm_stride)


def _text(name: str, summary: str) -> ModelEntry:
    return ModelEntry(name, "text", "", 1, 1, summary, pretrained=False)


MODELS: dict[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        _convolutional("resnet18", "resnet18", "residual network, 8 basic blocks"),
        _convolutional("resnet34", "resnet34", "residual network, 16 basic blocks"),
        _convolutional("resnet50", "resnet50", "residual network, 16 bottleneck blocks"),
        _convolutional("resnet101", "resnet101", "residual network, 33 bottleneck blocks"),
        _convolutional("resnet152", "resnet152", "residual network, 50 bottleneck blocks"),
        _convolutional("mobilenet_v2", "mobilenet_v2", "small network of 17 inverted residual blocks"),
        _convolutional("eff_net_v2_s", "efficientnet_v2_s", "EfficientNetV2 small, 40 (fused) MBConv blocks"),
        _convolutional("eff_net_v2_l", "efficientnet_v2_l", "EfficientNetV2 large, 79 (fused) MBConv blocks"),
        _transformer("vit_b_16", 16, "vision transformer, base, 16 px patches, 12 encoder layers"),
        _transformer("vit_l_16", 16, "vision transformer, large, 16 px patches, 24 encoder layers"),
        _transformer("vit_b_32", 32, "vision transformer, base, 32 px patches, 12 encoder layers"),
        _transformer("vit_l_32", 32, "vision transformer, large, 32 px patches, 24 encoder layers"),
        *(_small(f"revnet_{units}", 4, f"reversible network, 3 stages of {units} units") for units in (3, 5, 9, 18)),
        _small("adjusted_resnet18", 8, "narrow residual network without pooling in its stem, 8 basic blocks"),
        _small("adjusted_resnet34", 8, "narrow residual network without pooling in its stem, 16 basic blocks"),
        _small("adjusted_resnet50", 8, "narrow residual network without pooling in its stem, 16 bottleneck blocks"),
        _text("bert", "BERT base, 12 layers, from its configuration"),
        _text("roberta", "RoBERTa base, 12 layers, from its configuration"),
    )
}


def is_text(model: str) -> bool:
    return model in TEXT_MODELS


def text_problem(model: str) -> str | None:
    """Why a model cannot be run on images, in one sentence without the name; None when it can."""
    if model not in TEXT_MODELS:
        return None
    vision = [entry.name for entry in MODELS.values() if entry.kind != "text"]
    return f"reads text, not images; choose one of {', '.join(vision)}."


def image_size_problem(model: str, image_size: int, weights: str) -> str | None:
    """Why this model cannot take this image size, in one sentence; None when it can."""
    entry = MODELS.get(model)
    if entry is None:
        return f"model={model!r}: not known; must be one of {', '.join(MODELS)}."
    if problem := text_problem(model):
        return f"model={model!r}: {problem}"
    if image_size < entry.smallest_size:
        return f"image_size={image_size}: {model} needs at least {entry.smallest_size}."
    if image_size % entry.size_multiple:
        below = image_size - image_size % entry.size_multiple
        return (
            f"image_size={image_size}: {model} cuts images into patches of {entry.size_multiple} px and needs a "
            f"multiple of that, such as {below} or {below + entry.size_multiple}."
        )
    if weights == "pretrained" and not entry.pretrained:
        return f"weights='pretrained': there are none for {model}; choose random weights."
    if weights == "pretrained" and entry.size_multiple > 1 and image_size != 224:
        return (
            f"image_size={image_size}: {model} with pretrained weights takes 224 only, its positions were learnt "
            f"there; choose 224 or random weights."
        )
    return None


def build_model(
    name: str, image_size: int, weights: Weights, classes: int | None = None, weights_cache: Path | None = None
) -> torch.nn.Module:
    """The model in training mode on the current device. Random weights follow torch's current seed; pretrained ones
    are downloaded once into `weights_cache` (None: torch's own cache folder), the last layer is new when `classes`
    is not 1000. `classes` None: as many as the model is known for. A text model has no image size and no pretrained
    weights here."""
    from torchvision import models

    problem = None if name in TEXT_MODELS else image_size_problem(name, image_size, weights)
    if name in TEXT_MODELS and weights == "pretrained":
        problem = f"weights='pretrained': {name} is built from its configuration only; choose random weights."
    if weights not in ("random", "pretrained"):
        problem = f"weights={weights!r}: must be 'random' or 'pretrained'."
    if classes is None:
        classes = MODELS[name].classes if name in MODELS else PRETRAINED_CLASSES
    if classes < 1:
        problem = f"classes={classes}: must be at least 1."
    if problem is not None:
        raise ModelError(problem)
    if name in TEXT_MODELS:
        return build_text_model(name, classes)
    if name in ADJUSTED:
        return build_adjusted_resnet(name, classes)
    if name.startswith("revnet_"):
        return build_revnet(int(name.removeprefix("revnet_")), classes)
    entry = MODELS[name]
    # Only the transformers are built for one size.
    size: dict[str, Any] = {"image_size": image_size} if entry.size_multiple > 1 else {}
    built_classes = classes if weights == "random" else PRETRAINED_CLASSES
    model: torch.nn.Module = models.get_model(entry.torchvision_name, weights=None, num_classes=built_classes, **size)
    if weights == "random":
        return model
    load_pretrained(model, name, weights_cache)
    if classes != built_classes:
        _replace_head(model, classes)
    return model


def fetch_weights(name: str, weights_cache: Path | None = None) -> None:
    """Download a model's pretrained weights, if they are not there: before the runs, not inside one."""
    _pretrained_state(MODELS[name], weights_cache)


def load_pretrained(model: torch.nn.Module, name: str, weights_cache: Path | None = None) -> None:
    """Put the pretrained weights into a model of 1000 classes."""
    model.load_state_dict(_pretrained_state(MODELS[name], weights_cache))


def _pretrained_state(entry: ModelEntry, weights_cache: Path | None) -> dict[str, Any]:
    from torchvision import models

    source = models.get_model_weights(entry.torchvision_name)[PRETRAINED_NAME]
    try:
        # torch announces a download on stdout, which belongs to the one JSON document of a command.
        with contextlib.redirect_stdout(sys.stderr):
            state: dict[str, Any] = source.get_state_dict(
                model_dir=None if weights_cache is None else str(weights_cache),
                progress=False,
                check_hash=True,
                weights_only=True,  # a downloaded file never runs code
            )
    # The last three are torch's words for a damaged file.
    except (OSError, HTTPException, RuntimeError, EOFError, UnpicklingError) as error:
        # torch explains a damaged file over many lines: the first one says it.
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"weights='pretrained': the weights of {entry.name} could not be had from {source.url} ({problem}); "
            f"check the network and {weights_cache or 'the cache folder of torch'}, or choose random weights."
        ) from error
    return state


def _replace_head(model: torch.nn.Module, classes: int) -> None:
    """A new last layer for another number of classes."""
    from torch import nn

    _set_head(model, nn.Linear(find_head(model)[1].in_features, classes))


def remove_head(model: torch.nn.Module) -> int:
    """Leave the features: what the last layer would have been given. Returns how many there are per item."""
    from torch import nn

    features = int(find_head(model)[1].in_features)
    _set_head(model, nn.Identity())
    return features


def find_head(model: torch.nn.Module) -> tuple[str, Any]:
    """The path of the last layer, and the layer; in all these models it is the last linear one."""
    from torch import nn

    path = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][-1]
    return path, model.get_submodule(path)


def _set_head(model: torch.nn.Module, head: torch.nn.Module) -> None:
    parent, _, attribute = find_head(model)[0].rpartition(".")
    setattr(model.get_submodule(parent), attribute, head)


def describe_models() -> list[dict[str, Any]]:
    """Every model with its exact number of parameters as published (1000 classes and 224 px for images, text without a
    head) and of repeating blocks."""
    import torch

    described = []
    for entry in MODELS.values():
        with torch.device("meta"):  # shapes without memory
            model: Any = build_model(entry.name, 224, "random")
        if entry.kind == "text":
            model = model.encoder
        described.append(
            {
                "name": entry.name,
                "kind": entry.kind,
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "blocks": sum(type(module).__name__ in BLOCK_TYPES for module in model.modules()),
                "size_multiple": entry.size_multiple,
                "smallest_size": entry.smallest_size,
                "summary": entry.summary,
            }
        )
    return described


if __name__ == "__main__":
    print(json.dumps(describe_models(), indent=1))
