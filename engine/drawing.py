"""The generated images: what is drawn for each index. A change here needs a new GENERATED_FOLDER in engine/data.py."""

from __future__ import annotations

import io
import math
from typing import Any

from PIL import Image

# What makes a class of the generated set: five directions of stripes, each coarse or fine. Phase, contrast, brightness,
# colours, shading and grain are drawn per image, so no pixel, no mean and no colour tells the class; a filter does.
STRIPE_DEGREES = (0, 36, 72, 108, 144)
STRIPE_CYCLES = {"coarse": 3.0, "fine": 7.0}  # per shorter side
GENERATED_CLASSES = [f"stripes_{degrees:03d}_{scale}" for scale in STRIPE_CYCLES for degrees in STRIPE_DEGREES]


def draw_image(index: int) -> bytes:
    """The JPEG file of image `index`: a function of the index alone, so a set can grow and its prefix stays."""
    import numpy as np

    # RandomState's stream is frozen by numpy's policy; the newer Generator's may change between versions.
    rng = np.random.RandomState((2023, index))
    width, height = (int(side) for side in rng.randint(320, 501, 2))
    # Drawn at half size and enlarged: four times less to compute, and the grain becomes as soft as a photograph's.
    half_width, half_height = (width + 1) // 2, (height + 1) // 2
    label = index % len(GENERATED_CLASSES)
    angle = math.radians(STRIPE_DEGREES[label % len(STRIPE_DEGREES)] + rng.uniform(-7, 7))
    cycles = list(STRIPE_CYCLES.values())[label // len(STRIPE_DEGREES)] * rng.uniform(0.9, 1.1)
    frequency = 2 * math.pi * cycles / min(half_width, half_height)
    across = np.arange(half_width, dtype=np.float32) * np.float32(frequency * math.cos(angle))
    down = np.arange(half_height, dtype=np.float32) * np.float32(frequency * math.sin(angle))
    luma = np.sin(across[None, :] + (down + np.float32(rng.uniform(0, 2 * math.pi)))[:, None])
    luma *= np.float32(rng.uniform(20, 50))
    luma += np.float32(rng.uniform(90, 165))

    def enlarge(small: np.ndarray[Any, Any], size: tuple[int, int]) -> Image.Image:
        return Image.fromarray(small.astype(np.uint8)).resize(size, Image.Resampling.BILINEAR)

    shading = enlarge(rng.randint(0, 256, (5, 5)), (half_width, half_height))
    luma += np.float32(0.3) * (np.asarray(shading, dtype=np.float32) - np.float32(127.5))
    # The grain sets the size of the file, and with it the time to decode: 24 to 61 kB.
    grain = np.frombuffer(rng.bytes(half_width * half_height), np.uint8).reshape(half_height, half_width)
    luma += (grain - np.float32(127.5)) * np.float32(24 / 127.5)
    colours = [rng.randint(80, 176) + rng.randint(-40, 41, (5, 5)) for _ in ("Cb", "Cr")]
    planes = [enlarge(plane, (width, height)) for plane in (np.clip(luma, 0, 255), *colours)]
    stream = io.BytesIO()
    Image.merge("YCbCr", planes).save(stream, "JPEG", quality=87)
    return stream.getvalue()
