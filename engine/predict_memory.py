"""Predicts the memory of a training step without allocating it: the same step on fake tensors, which have shapes only.

`python -m engine.predict_memory` answers one JSON document for processes that must not load torch.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from time import perf_counter
from typing import Any, NamedTuple

from engine.devices import autocast
from engine.memory_methods import Method, apply_method, method_problem
from engine.models import MODELS, image_size_problem
from engine.params import InputError, suggestion
from engine.step_memory import CATEGORIES, watch_memory, watched_step
from engine.text import LONGEST
from engine.training_step import OptimizerName, make_batch, make_optimizer


class Prediction(NamedTuple):
    """`by_category` is what the peak consists of; `seconds` is how long predicting took, torch's import left out."""

    peak_bytes: int
    by_category: dict[str, int]
    seconds: float


def input_problem(model: str, method: Method, size: int) -> str | None:
    """Why this cannot be asked, in one sentence. `size` is the side of an image, or the tokens of a text."""
    if model not in MODELS:
        return f"model={model}: no such model{suggestion(model, list(MODELS))} (there are {', '.join(MODELS)})"
    if problem := method_problem(model, method):
        return problem
    if MODELS[model].kind == "text":
        return None if 1 <= size <= LONGEST else f"tokens={size}: must be 1 to {LONGEST}"
    return image_size_problem(model, size, "random")


def predict_memory(model: str, batch_size: int, method: Method = "plain", size: int = 224,
                   optimizer: OptimizerName = "sgd_momentum", precision: str = "fp32",
                   blocks_per_checkpoint: int = 1) -> Prediction:
    """The peak of a training step on a CPU's allocator. Resident memory hardly grows, whatever the batch size.

    To be called in a process of its own: after a backward pass on fake tensors torch refuses one to forked children.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from engine.models import build_model

    if problem := input_problem(model, method, size):
        raise InputError(problem)
    started = perf_counter()
    with torch.device("meta"):  # some initialisers do not run on fake tensors
        shapes = build_model(model, size, "random")
    with FakeTensorMode(allow_non_fake_inputs=True):
        network: Any = shapes.to_empty(device="cpu").train()
        inputs, labels = make_batch(model, batch_size, size, "cpu")
        used = make_optimizer(optimizer, network)
        trained = apply_method(network, method, blocks_per_checkpoint)
        context = autocast("cpu", precision) if precision != "fp32" else nullcontext()
        _make_state(network, used)
        with watch_memory(network, used, inputs, labels) as memory:
            watched_step(memory, trained, used, inputs, labels, context)
    peak = memory.peak
    return Prediction(peak.total_bytes, dict(zip(CATEGORIES, peak.held_bytes, strict=True)), perf_counter() - started)


def _make_state(network: Any, optimizer: Any) -> None:
    """The state that an optimiser has from its second step on, without the forward and backward pass of a first one."""
    import torch

    for parameter in network.parameters():
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("asked", help="predict_memory's arguments as a JSON object")
    asked = json.loads(parser.parse_args().asked)
    print(json.dumps(predict_memory(**asked)._asdict()))


if __name__ == "__main__":
    main()
