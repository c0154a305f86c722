"""What this machine can measure, and what is missing: facts for a person or a script."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from engine.data import DataError, check_data
from engine.home import Home
from engine.machine import cpu_allowance, cpu_model, memory_limit_bytes
from engine.nvml import Gpus
from engine.registry import Broken, load_all

LIBRARIES = ("torch", "torchvision", "duckdb", "streamlit", "altair", "nvidia-ml-py", "pydantic", "psutil", "msgspec")
GPU_METRICS = ("gpu_memory_used_bytes", "gpu_utilization", "power_watts", "temperature_celsius", "sm_clock_hz")
LITTLE_SPACE_BYTES = 5 * 2**30


def examine(home: Home) -> dict[str, Any]:
    """Facts first; `missing` holds one sentence per thing that limits what can be measured here."""
    gpus = Gpus.open()
    allowance = cpu_allowance()
    experiments = load_all()
    existing = next(folder for folder in (home.root, *home.root.parents) if folder.is_dir())
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "cpu": cpu_model(),
        "cores_allowed": allowance.cores,
        "memory_limit_bytes": memory_limit_bytes(),
        "gpus": [device.name for device in gpus.devices],
        "driver": gpus.driver_version,
        "cuda_driver": gpus.cuda_driver_version,
        "home": str(home.root),
        "free_disk_bytes": shutil.disk_usage(existing).free,
        "experiments": [name for name, entry in experiments.items() if not isinstance(entry, Broken)],
        "data_sets": ["generated", *(["imagenette"] if _has_imagenette(home) else [])],
    }
    missing = [f"library {name}; install it with `make run`"
               for name, found in report["libraries"].items() if not found]
    if not gpus.devices:
        missing.append(f"GPU measurements ({gpus.problem or 'no device was found'}); CPU runs work")
    if not _has_imagenette(home):
        missing.append("imagenette; download it with `python lab.py fetch imagenette`")
    missing += [f"experiment {name} is broken: {entry.error}" for name, entry in experiments.items()
                if isinstance(entry, Broken)]
    if not os.access(existing, os.W_OK):
        missing.append(f"the right to write in {existing}; change it or set PHASELAB_HOME")
    if report["free_disk_bytes"] < LITTLE_SPACE_BYTES:
        missing.append("disk space: less than 5 GiB are free")
    report["missing"] = missing
    gpus.close()
    return report


def examine_gpus() -> tuple[list[dict[str, Any]], list[str]]:
    """Each GPU with what NVML tells about it now, None for what it does not; and what went wrong, in sentences."""
    gpus = Gpus.open()
    found = []
    for device in gpus.devices:
        told: dict[str, Any] = dict.fromkeys(GPU_METRICS)
        told |= {reading.metric: reading.value for reading in gpus.read(device)}
        found.append({"index": device.index, "name": device.name, "memory_total_bytes": device.memory_total_bytes,
                      "pci_bus_id": device.pci_bus_id, **told})
    problems = list(gpus.problems)
    gpus.close()
    return found, problems


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _has_imagenette(home: Home) -> bool:
    try:
        check_data("imagenette", home.cache)
    except DataError:
        return False
    return True
