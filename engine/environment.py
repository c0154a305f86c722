"""The fingerprint of where a run was measured: hardware, driver, library versions, code. Two runs with the same
environment_id may be compared; nothing that changes while a machine is left alone may be part of it.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

from engine.machine import cpu_allowance, cpu_model, memory_limit_bytes
from engine.nvml import Gpus

LIBRARIES = (
    "torch",
    "torchvision",
    "numpy",
    "pillow",
    "nvidia-ml-py",
    "psutil",
    "pydantic",
    "msgspec",
    "transformers",
)

# Variables that change speed or memory. Whole names only: a pattern such as NCCL_* could let a secret in.
VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "MKL_NUM_THREADS",
    "NCCL_ALGO",
    "NCCL_IB_DISABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_PROTO",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
    "ONEDNN_MAX_CPU_ISA",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)

GIT_TIMEOUT_S = 10


@dataclass(frozen=True)
class Environment:
    environment_id: str
    facts: dict[str, Any]


def fingerprint(torch_facts: dict[str, Any], gpus: Gpus, project: Path) -> Environment:
    """`torch_facts` come from a process that has torch; they are stored as they are, under "torch"."""
    cpu = cpu_allowance()
    facts = {
        "hostname": platform.node(),
        "os": _os_name(),
        "kernel": platform.release(),
        "cpu_model": cpu_model() or platform.machine() or None,
        "cores_affinity": cpu.affinity,
        "cores_quota": cpu.quota,
        "cores_allowed": cpu.cores,
        "memory_limit_bytes": memory_limit_bytes(),
        "gpus": [{"name": d.name, "uuid": d.uuid, "memory_total_bytes": d.memory_total_bytes} for d in gpus.devices],
        "driver_version": gpus.driver_version,
        "cuda_driver_version": gpus.cuda_driver_version,
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "torch": torch_facts,
        "git_commit": _git(project, "rev-parse", "--verify", "HEAD"),
        "git_dirty": _git_dirty(project),
        "variables": _variables(os.environ),
    }
    kept: dict[str, Any] = json.loads(_text(facts))
    return Environment(environment_id_of(kept), kept)


def environment_id_of(facts: dict[str, Any]) -> str:
    """Of the text that a journal keeps, so that facts read back give the same id: a tuple is a list there."""
    return hashlib.sha256(_text(facts).encode()).hexdigest()[:12]


def _text(facts: dict[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)


def same_machine(gpus: Gpus) -> Callable[[Mapping[str, Any]], bool]:
    """Whether facts describe this machine with these libraries, for telling how long something will take.

    Unlike the fingerprint it is known without torch, and a new commit of the project does not matter.
    """
    here = {"hostname": platform.node(), "cpu_model": cpu_model() or platform.machine() or None,
            "cores_allowed": cpu_allowance().cores, "gpus": [device.uuid for device in gpus.devices],
            "libraries": [_version(name) for name in ("torch", "torchvision")]}

    def same(facts: Mapping[str, Any]) -> bool:
        libraries = facts.get("libraries") or {}
        return here == {"hostname": facts.get("hostname"), "cpu_model": facts.get("cpu_model"),
                        "cores_allowed": facts.get("cores_allowed"),
                        "gpus": [device.get("uuid") for device in facts.get("gpus") or []],
                        "libraries": [libraries.get(name) for name in ("torch", "torchvision")]}

    return same


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    chosen = {name: environ[name] for name in VARIABLES if name in environ}
    if "LD_PRELOAD" in chosen:
        # Which allocator it is matters, not in whose home folder it lies.
        chosen["LD_PRELOAD"] = ":".join(
            PurePath(part).name for part in chosen["LD_PRELOAD"].replace(" ", ":").split(":")
        )
    return chosen


def _git_dirty(project: Path) -> bool | None:
    """Whether a tracked file differs from the commit; files git was never told about do not count."""
    changes = _git(project, "status", "--porcelain", "--untracked-files=no")
    return None if changes is None else changes != ""


def _git(project: Path, *arguments: str) -> str | None:
    """What git answers about the project, or None: no git, no repository, no commit yet, or no answer in time."""
    # Inside a git hook GIT_DIR and its kin would point git at another repository than the one asked about.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        # Without optional locks: asking must not disturb a commit that a person makes at the same moment.
        answer = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(project), *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=environ,
            timeout=GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
