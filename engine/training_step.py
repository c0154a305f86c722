"""One step of training as several experiments take it: forward, loss, backward, optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from engine.models import MODELS
from engine.params import setting
from engine.text import SPECIAL_TOKENS, TEXT_MODELS

if TYPE_CHECKING:
    import torch

OptimizerName = Literal["sgd", "sgd_momentum", "adam", "adamw"]


def optimizer_setting() -> Any:
    return setting("sgd_momentum", title="Optimiser",
                   help="sgd keeps no state, momentum one number per parameter, adam and adamw two.")


def make_optimizer(name: OptimizerName, model: torch.nn.Module) -> torch.optim.Optimizer:
    """With the learning rates of the studies: 0.001, momentum 0.9."""
    from torch import optim

    parameters = list(model.parameters())
    match name:
        case "sgd":
            return optim.SGD(parameters, lr=0.001)
        case "sgd_momentum":
            return optim.SGD(parameters, lr=0.001, momentum=0.9)
        case "adam":
            return optim.Adam(parameters, lr=0.001)
        case "adamw":
            return optim.AdamW(parameters, lr=0.001)


def make_batch(model: str, batch_size: int, size: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Random inputs and labels of the right shape: images of `size` px, or texts of `size` tokens."""
    import torch

    entry = MODELS[model]
    labels = torch.randint(0, entry.classes, (batch_size,), device=device)
    if entry.kind == "text":
        return torch.randint(SPECIAL_TOKENS, TEXT_MODELS[model].vocabulary, (batch_size, size), device=device), labels
    return torch.rand((batch_size, 3, size, size), device=device), labels


def train_once(model: Any, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor,
               precision: Any) -> None:
    """A whole step. Gradients are dropped before the forward pass, as training loops do."""
    from torch.nn import functional

    optimizer.zero_grad(set_to_none=True)
    with precision:
        loss = functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
