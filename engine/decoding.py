"""From an image file to the tensor a model sees: two decoders and the evaluation transform that goes with each.

Importable without torch and torchvision.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image, UnidentifiedImageError

if TYPE_CHECKING:
    import torch

Decoder = Literal["pil", "torchvision"]
JPEG_SUFFIXES = (".jpg", ".jpeg")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class CannotDecode(ValueError):
    """Why a file is not the image it should be, as a part of a sentence."""


def decode_with_pil(file: str) -> Image.Image:
    try:
        with open(file, "rb") as stream, Image.open(stream) as image:
            return image.convert("RGB")
    # Pillow's own sentence for a file that is no image repeats the name inside a stream's description.
    except UnidentifiedImageError as error:
        raise CannotDecode("it is no image") from error
    # Pillow's decoders raise all of these on damaged files.
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise CannotDecode(str(error)) from error


def decode_with_torchvision(file: str) -> torch.Tensor:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    try:
        with open(file, "rb") as stream:
            content = bytearray(stream.read())
        if not content.startswith(b"\xff\xd8"):
            raise CannotDecode("decoder=torchvision reads JPEG only and this is none; use decoder=pil")
        pixels: torch.Tensor = decode_jpeg(torch.frombuffer(content, dtype=torch.uint8), ImageReadMode.RGB)
    except (OSError, RuntimeError) as error:
        # torch appends where in its own sources the error was raised.
        raise CannotDecode(str(error).partition("\n")[0]) from error
    return pixels


def choose_decoder(decoder: Decoder, image_size: int) -> tuple[Callable[[str], Any], Callable[[Any], torch.Tensor]]:
    """How a file is decoded and how the result becomes a normalised tensor: resize, centre crop, normalise."""
    import torch
    from torchvision import transforms

    shape = [transforms.Resize(round(image_size * 256 / 224)), transforms.CenterCrop(image_size)]
    normalise = transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)
    if decoder == "pil":
        return decode_with_pil, transforms.Compose([*shape, transforms.ToTensor(), normalise])
    # torchvision 0.29 calls its decoders deprecated at every image. They are what is measured here; threads decode at
    # the same time, so the filter is set once and not around each call.
    warnings.filterwarnings("ignore", "The image decoding and encoding capabilities", DeprecationWarning)
    return decode_with_torchvision, transforms.Compose([*shape, transforms.ConvertImageDtype(torch.float32), normalise])
