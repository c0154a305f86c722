"""The NVIDIA GPUs of this machine through NVML: which there are, which a run sees, and what each reads now.

Nothing here raises for the state of a driver or a device: what is wrong becomes a sentence, and the rest goes on.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import pynvml

from engine.reading import Reading


@dataclass(frozen=True)
class GpuDevice:
    index: int  # NVML's; equal to CUDA's under CUDA_DEVICE_ORDER=PCI_BUS_ID with all devices visible
    uuid: str
    name: str
    memory_total_bytes: int | None  # None where the GPU shares the machine's memory and NVML does not say
    pci_bus_id: str | None


_Reader = Callable[[Any], float]


def _memory_used(handle: Any) -> float:
    # Version 2 leaves out what the driver reserves for itself (hundreds of MB), as nvidia-smi does since driver 510.
    return float(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)


def _memory_used_and_reserved(handle: Any) -> float:
    return float(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


# Several readers for a metric: the first that answers is kept for good, so that a metric never changes its meaning
# between two samples. The later ones are for drivers that lack the first.
_READERS: dict[str, tuple[_Reader, ...]] = {
    # The share of NVML's last sampling period (1/6 s to 1 s) in which some kernel was running, however small.
    "gpu_utilization": (lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,),
    "gpu_memory_used_bytes": (_memory_used, _memory_used_and_reserved),
    # NVML tells milliwatts; from Ampere on averaged over one second.
    "power_watts": (lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,),
    "temperature_celsius": (
        lambda handle: float(pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU)),
        lambda handle: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
    ),
    # NVML tells MHz.
    "sm_clock_hz": (lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6,),
    "memory_clock_hz": (lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM) * 1e6,),
}

_START_PROBLEMS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "the NVIDIA driver's library libnvidia-ml.so.1 was not found",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA library and the loaded driver have different versions; restart the machine to load the new driver"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "this user may not talk to the NVIDIA driver",
}

# Answers that will be the same for ever: the device or its driver does not have the metric.
_ABSENT = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
}


class Gpus:
    """Made by `Gpus.open()`, which always succeeds."""

    def __init__(self) -> None:
        self.devices: list[GpuDevice] = []
        self.problem: str | None = None  # why there are no devices
        self.problems: list[str] = []  # what went wrong later, each said once
        self.lost_indices: set[int] = set()
        self.driver_version: str | None = None
        self.cuda_driver_version: str | None = None
        self._handles: dict[int, Any] = {}
        self._readers: dict[int, dict[str, list[_Reader]]] = {}
        self._started = False

    @classmethod
    def open(cls) -> Self:
        gpus = cls()
        try:
            pynvml.nvmlInit()
            gpus._started = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            reason = _START_PROBLEMS.get(error.value, f'NVML answered "{error}" when it was started')
            gpus.problem = f"No GPU can be read: {reason}."
            gpus.close()
            return gpus
        gpus.driver_version = _or_none(pynvml.nvmlSystemGetDriverVersion)
        cuda_version = _or_none(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        if cuda_version is not None:
            gpus.cuda_driver_version = f"{cuda_version // 1000}.{cuda_version % 1000 // 10}"
        for index in range(count):
            gpus._add(index)
        if not gpus.devices:
            gpus.problem = "No GPU can be read: " + ("none answered." if count else "the driver reports no device.")
        return gpus

    def visible(self, cuda_visible_devices: str | None) -> list[GpuDevice]:
        """The devices CUDA shows for a value of CUDA_VISIBLE_DEVICES, in its order; None means the variable is not set.

        The list ends at the first entry that names no device, and an entry given twice hides everything. Slices of a
        GPU (MIG) are not devices of this list.
        """
        if cuda_visible_devices is None:
            return list(self.devices)
        entries = [entry.strip() for entry in cuda_visible_devices.split(",")]
        # The first entry decides how the others are understood.
        find = self._by_uuid if entries[0].startswith("GPU-") else self._by_number
        chosen: list[GpuDevice] = []
        for entry in entries:
            device = find(entry)
            if device is None:
                break
            if device in chosen:
                return []
            chosen.append(device)
        return chosen

    def read(self, device: GpuDevice) -> list[Reading]:
        """What the device tells now. What it cannot tell is left out; a lost device gives nothing."""
        if not self._started or device.index in self.lost_indices:
            return []
        handle, known = self._handles[device.index], self._readers[device.index]
        readings: list[Reading] = []
        failures: dict[str, pynvml.NVMLError] = {}
        for metric, readers in list(known.items()):
            errors = []
            for reader in readers:
                try:
                    readings.append(Reading(f"gpu{device.index}", metric, reader(handle)))
                except pynvml.NVMLError as error:
                    if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                        self._lose(device, error)
                        return readings
                    errors.append(error)
                else:
                    known[metric] = [reader]
                    break
            else:
                if all(error.value in _ABSENT for error in errors):
                    del known[metric]
                    self._note(f"{_title(device)} does not tell {metric}: this metric is left out.")
                else:
                    failures[metric] = errors[-1]
        if failures and not readings:
            self._lose(device, next(iter(failures.values())))
        else:
            for metric, failure in failures.items():
                self._note(f'{_title(device)} failed to tell {metric} ("{failure}"): samples of it are missing.')
        return readings

    def close(self) -> None:
        if self._started:
            self._started = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError as error:
                self._note(f'NVML could not be shut down ("{error}").')

    def _add(self, index: int) -> None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)
        except pynvml.NVMLError as error:
            self._note(f'GPU {index} did not answer when it was looked up ("{error}"): it is left out.')
            return
        memory = _or_none(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
        pci = _or_none(lambda: pynvml.nvmlDeviceGetPciInfo_v3(handle))
        self.devices.append(GpuDevice(index, uuid, name, memory and int(memory.total), pci and str(pci.busId)))
        self._handles[index] = handle
        self._readers[index] = {metric: list(readers) for metric, readers in _READERS.items()}

    def _by_number(self, entry: str) -> GpuDevice | None:
        # CUDA reads the digits an entry begins with and ignores what follows; "-1" has none and ends the list.
        digits = re.match(r"\+?(\d+)", entry)
        return next((d for d in self.devices if digits and d.index == int(digits[1])), None)

    def _by_uuid(self, entry: str) -> GpuDevice | None:
        matches = [d for d in self.devices if entry.startswith("GPU-") and d.uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None

    def _lose(self, device: GpuDevice, error: pynvml.NVMLError) -> None:
        self.lost_indices.add(device.index)
        self._note(f'{_title(device)} stopped answering ("{error}"): it is not read any more.')

    def _note(self, sentence: str) -> None:
        if sentence not in self.problems:
            self.problems.append(sentence)


def _title(device: GpuDevice) -> str:
    return f"GPU {device.index} ({device.name}, {device.uuid})"


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except pynvml.NVMLError:
        return None  # a fact that the driver does not tell is unknown; the device can be used without it
