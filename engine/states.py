"""States of networks on disk, block by block, so that a part of a network is loaded without the rest of it.

All tensors of a block are kept, buffers that torch leaves out of a state included: blocks are built without values.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.blocks import Block
from engine.params import InputError

if TYPE_CHECKING:
    import torch

FOLDER = "states"


def save_state(blocks: Sequence[Block], file: Path) -> None:
    """Written under another name first: a file that is there is whole."""
    from safetensors.torch import save_file

    tensors = {f"{block.name}:{name}": value.detach().contiguous().clone()
               for block in blocks for name, value in _tensors(block).items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=".making-", suffix=".part", dir=file.parent)
    os.close(handle)
    try:
        save_file(tensors, part)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def load_state(blocks: Sequence[Block], file: Path) -> int:
    """Put the saved values into the blocks, and into these only; returns the bytes that were loaded."""
    import torch
    from safetensors import SafetensorError, safe_open

    loaded = 0
    try:
        with safe_open(file, framework="pt") as saved, torch.no_grad():
            for block in blocks:
                for name, target in _tensors(block).items():
                    target.copy_(saved.get_tensor(f"{block.name}:{name}"))
                    loaded += target.numel() * target.element_size()
    except (OSError, SafetensorError, RuntimeError) as error:
        raise InputError(f"{file}: this state cannot be loaded ({error}); remove the file and resume the sweep, which "
                         "makes it again") from None
    return loaded


def _tensors(block: Block) -> dict[str, torch.Tensor]:
    return {**dict(block.module.named_parameters()), **dict(block.module.named_buffers())}
