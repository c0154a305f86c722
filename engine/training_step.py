"""One step of training as several experiments take it: forward, loss, backward, optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from engine.params import setting

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


def train_once(model: Any, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor,
               precision: Any) -> None:
    """A whole step. Gradients are dropped before the forward pass, as training loops do."""
    from torch.nn import functional

    optimizer.zero_grad(set_to_none=True)
    with precision:
        loss = functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
