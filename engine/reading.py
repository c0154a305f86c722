"""One telemetry value as it is taken, before the sweep stamps it with a time and journals it."""

from typing import NamedTuple


class Reading(NamedTuple):
    device: str  # "cpu", or "gpu" and the NVML index: "gpu0"
    metric: str  # unit in the name; names ending in _share and gpu_utilization are fractions from 0 to 1
    value: float
