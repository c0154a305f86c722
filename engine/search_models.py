"""The networks of a search: a base, and others that share all of it but their last blocks. States are on disk.

Networks are built without values and filled from their states, so that only the blocks that run take memory and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.blocks import Block, Part, ShareBy, count_compute, cut, first_block
from engine.models import MODELS, build_model, remove_head
from engine.states import FOLDER, save_state
from engine.text import build_text_model

if TYPE_CHECKING:
    import torch

MODEL_SEEDS = 1000
"""Seeds of the other models are this far from each other: a sweep over seeds does not meet them."""


class Network(NamedTuple):
    """What decides the networks of a run: the base, the part of its own that each has, and how many there are."""

    model: str
    image_size: int
    text_layers: int
    text_width: int
    tokens: int
    seed: int
    part: Part
    share_by: ShareBy
    models: int

    @property
    def is_text(self) -> bool:
        return MODELS[self.model].kind == "text"

    @property
    def form(self) -> str:
        size = f"{self.text_layers}x{self.text_width}" if self.is_text else f"{self.image_size}px"
        return f"{self.model}-{size}"

    def state_file(self, cache: Path, number: int, first: int) -> Path:
        """Model 0 is the base and whole; of the others only the blocks of their own are kept."""
        own = f"-from-{first}" if number else ""
        return cache / FOLDER / f"{self.form}-seed-{self.seed + MODEL_SEEDS * number}{own}.safetensors"


def build_blocks(network: Network, empty: bool) -> tuple[list[Block], int]:
    """The network's blocks without its last layer, in evaluation mode, and how many features they give. Empty ones
    have shapes only."""
    import torch

    with torch.device("meta" if empty else "cpu"):
        if network.is_text:
            model = build_text_model(network.model, 2, network.text_layers, network.text_width)
        else:
            model = build_model(network.model, network.image_size, "random")
        features = remove_head(model)
    return cut(model.eval()), features


def example_input(network: Network) -> torch.Tensor:
    """One item of the right shape, without values."""
    import torch

    if network.is_text:
        return torch.zeros(1, network.tokens, dtype=torch.long, device="meta")
    return torch.zeros(1, 3, network.image_size, network.image_size, device="meta")


def part_begins(network: Network, blocks: Sequence[Block]) -> int:
    """The index of the first block of the part. `blocks` are empty ones: compute is counted without computing."""
    sizes: list[Any] = [1] * len(blocks)
    if network.share_by == "parameters":
        sizes = [block.parameters for block in blocks]
    elif network.share_by == "compute":
        sizes = count_compute(blocks, example_input(network))
    return first_block(network.part, sizes)


def prepare_states(networks: Iterable[Network], cache: Path) -> None:
    """Write the states that are missing, each from its own seed."""
    import torch

    for network in networks:
        first = part_begins(network, build_blocks(network, empty=True)[0])
        for number in range(network.models):
            file = network.state_file(cache, number, first)
            if not file.exists():
                torch.manual_seed(network.seed + MODEL_SEEDS * number)
                blocks, _ = build_blocks(network, empty=False)
                save_state(blocks[first:] if number else blocks, file)
