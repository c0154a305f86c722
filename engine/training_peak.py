"""The peak of training steps as the allocator saw it: the steps are run for real, from building the model on.

To be called in a fresh process: only what is allocated inside is counted.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

from engine.allocator_peak import allocator_peak
from engine.devices import autocast
from engine.memory_methods import Method, apply_method
from engine.models import build_model
from engine.training_step import OptimizerName, make_batch, make_optimizer, train_once

STEPS = 2
"""The optimiser's state exists from the second one on."""


class TrainingPeak(NamedTuple):
    allocated_bytes: int
    reserved_bytes: int | None
    resident_bytes: int
    """What the process grew by in resident memory: torch's own working memory and freed pages are in it."""


def measure_training_peak(model: str, batch_size: int, method: Method, size: int, optimizer: OptimizerName,
                          precision: str, device: str, blocks_per_checkpoint: int = 1) -> TrainingPeak:
    before = _resident_peak_bytes()
    with allocator_peak(device) as peak:
        network = build_model(model, size, "random").to(device).train()
        inputs, labels = make_batch(model, batch_size, size, device)
        used = make_optimizer(optimizer, network)
        trained = apply_method(network, method, blocks_per_checkpoint)
        for _ in range(STEPS):
            train_once(trained, used, inputs, labels, autocast(device, precision))
        resident_bytes = _resident_peak_bytes() - before  # before the profiler makes its tables
    assert peak.allocated_bytes is not None
    return TrainingPeak(peak.allocated_bytes, peak.reserved_bytes, resident_bytes)


def _resident_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
