"""The allocator's peak on a CPU is exact to the byte."""

from __future__ import annotations

import pytest
import torch

from engine.allocator_peak import allocator_peak
from engine.devices import forget_peaks

WEIGHT, BIAS, INPUT, OUTPUT = 100 * 50 * 4, 50 * 4, 8 * 100 * 4, 8 * 50 * 4


def test_a_linear_layer_is_exact_to_the_byte() -> None:
    before = torch.rand(1000)
    with allocator_peak("cpu") as peak, torch.inference_mode():
        layer = torch.nn.Linear(100, 50)
        first = layer(torch.rand(8, 100))
    assert peak.allocated_bytes == WEIGHT + BIAS + INPUT + OUTPUT
    with allocator_peak("cpu") as peak, torch.inference_mode():
        pixels = torch.rand(8, 100)
        del before, first  # allocated earlier: must not make room
        layer(pixels)
        layer(pixels)  # the first result is gone by now
    assert peak.allocated_bytes == INPUT + OUTPUT
    assert peak.reserved_bytes is None


def test_a_training_step_holds_gradients_and_state() -> None:
    """Two steps of SGD with momentum on a sum: after the first one parameters are there three times."""
    with allocator_peak("cpu") as peak:
        layer = torch.nn.Linear(100, 50)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, foreach=False)
        pixels = torch.rand(8, 100)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            layer(pixels).sum().backward()
            optimizer.step()
    held = 3 * (WEIGHT + BIAS) + INPUT
    assert peak.allocated_bytes is not None
    # Beyond that only the output or its gradient and a few scalars.
    assert held <= peak.allocated_bytes <= held + 2 * OUTPUT + 64


def test_a_block_that_fails_still_has_its_peak() -> None:
    with pytest.raises(RuntimeError, match="can't allocate"), allocator_peak("cpu") as peak:
        torch.cat([torch.empty(1000, dtype=torch.uint8), torch.empty(2**62, dtype=torch.uint8)])
    assert peak.allocated_bytes == 1000


def test_on_a_gpu_peaks_begin_when_what_came_before_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's CUDA calls stood in: there is no GPU here."""
    done: list[str] = []
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda *device, name=name: done.append(name))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 7)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: 8)
    forget_peaks("cpu")
    assert done == []
    with allocator_peak("cuda:0") as peak:
        assert done == ["synchronize", "empty_cache", "reset_peak_memory_stats"]
    assert (peak.allocated_bytes, peak.reserved_bytes) == (7, 8)
