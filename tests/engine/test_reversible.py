"""Reversible networks: the gradients, statistics and hooks of plain ones, with memory that depth does not raise."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from engine.models import build_model
from engine.revnets import build_revnet


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pair(units: int, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    torch.manual_seed(0)
    trick: Any = build_revnet(units, 10).to(dtype)
    plain = copy.deepcopy(trick)
    trick.reversible = True
    return trick, plain


def gradient(model: Any) -> torch.Tensor:
    return torch.cat([parameter.grad.double().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("units", [3, 5])
@pytest.mark.parametrize(("dtype", "allowed"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_gradients_and_statistics_are_those_of_the_plain_network(units: int, dtype: Any, allowed: float) -> None:
    """In single precision on one input only: an input computed again may fall on the other side of a ReLU."""
    trick, plain = pair(units, dtype)
    pixels = torch.rand(2, 3, 32, 32, dtype=dtype)
    for model in (trick, plain):
        torch.nn.functional.cross_entropy(model(pixels), torch.tensor([1, 2])).backward()
    expected = gradient(plain)
    assert expected.count_nonzero() > 0.9 * len(expected)
    assert (gradient(trick) - expected).norm() < allowed * expected.norm()
    for found, wanted in zip(trick.buffers(), plain.buffers(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("inside", [False, True])
def test_under_autocast_every_parameter_is_trained_alike(inside: bool) -> None:
    """Also when backward is called under autocast, where kept casts of weights would have no gradient."""
    trick, plain = pair(3)
    pixels = torch.rand(2, 3, 32, 32)
    for model in (trick, plain):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(pixels).float().square().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
    expected, found = gradient(plain), gradient(trick)
    assert (found - expected).norm() < 0.1 * expected.norm()  # bfloat16 has three digits
    for parameter in trick.parameters():
        assert parameter.grad.dtype == torch.float32
    for left, right in zip(trick.buffers(), plain.buffers(), strict=True):
        assert torch.allclose(left.double(), right.double(), rtol=1e-2, atol=1e-2)


def test_hooks_of_parameters_see_each_gradient_once() -> None:
    """DDP averages gradients in such hooks."""
    trick, _ = pair(3)
    seen: list[int] = []
    for number, parameter in enumerate(trick.parameters()):
        parameter.register_post_accumulate_grad_hook(lambda _, number=number: seen.append(number))
    trick(torch.rand(2, 3, 32, 32)).sum().backward()
    assert sorted(seen) == list(range(len(list(trick.parameters()))))


def test_each_half_is_computed_once_more() -> None:
    trick, _ = pair(3)
    calls = dict.fromkeys(range(3), 0)

    def count(number: int) -> Any:
        def counted(*_: Any) -> None:
            calls[number] += 1
        return counted

    for number, unit in enumerate(trick.stages[0]):
        unit.f.register_forward_hook(count(number))
    trick(torch.rand(2, 3, 32, 32)).sum().backward()
    assert calls == {0: 2, 1: 2, 2: 2}


def test_frozen_parameters_stay_without_gradient() -> None:
    trick, _ = pair(3)
    for parameter in trick.stages[0][1].f.parameters():
        parameter.requires_grad_(False)
    trick(torch.rand(2, 3, 32, 32)).sum().backward()
    without = [name for name, parameter in trick.named_parameters() if parameter.grad is None]
    assert without and all(name.startswith("stages.0.1.f") for name in without)


def saved_bytes(model: Any) -> int:
    """What autograd keeps for backward, each storage once, weights left out."""
    held: dict[int, tuple[int, Any]] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        held[tensor.untyped_storage().data_ptr()] = (tensor.untyped_storage().nbytes(), tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        scores = model(torch.rand(1, 3, 224, 224))
    assert scores.shape == (1, 100)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    return sum(size for address, (size, _) in held.items() if address not in own)


def test_depth_costs_no_activations() -> None:
    """30.4 MiB an image whatever the depth; the plain network's grow."""
    sizes = {}
    for name in ("revnet_3", "revnet_18"):
        model: Any = build_model(name, 224, "random")
        for reversible in (True, False):
            model.reversible = reversible
            sizes[name, reversible] = saved_bytes(model) / 2**20
    assert sizes["revnet_3", True] == pytest.approx(30.44, abs=0.1)
    assert sizes["revnet_18", True] == pytest.approx(sizes["revnet_3", True], rel=0.05)
    assert sizes["revnet_3", False] == pytest.approx(133, abs=1)
    assert 4.5 < sizes["revnet_18", False] / sizes["revnet_3", False] < 6.5
