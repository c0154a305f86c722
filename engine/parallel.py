"""Ways of training on several devices: a network wrapped by torch's DataParallel, DDP or FSDP.

The CUDA paths (DataParallel, NCCL) are written for real GPUs and have not run on one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

Method = Literal["baseline", "checkpointing", "reversible", "dp", "ddp", "fsdp"]
ONE_DEVICE: tuple[Method, ...] = ("baseline", "checkpointing", "reversible")
IN_RANKS: tuple[Method, ...] = ("ddp", "fsdp")


def rank_device(asked: str, rank: int, ranks: int) -> str:
    """Each rank its own GPU; `auto` is the CPU where there is none; where there are some but too few, a cell is
    skipped before it comes here."""
    import torch

    if asked == "cpu" or (asked == "auto" and torch.cuda.device_count() < ranks):
        return "cpu"
    return f"cuda:{rank}"


def join_ranks(device: str) -> None:
    """Meet the other ranks: NCCL between GPUs, gloo between CPUs. All of them are on this machine."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("nccl", device_id=torch.device(device))
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.distributed.init_process_group("gloo")


def wrap(model: torch.nn.Module, method: Method, device: str, devices: int) -> torch.nn.Module:
    """The model as it trains under a method. An optimiser is made from what is returned: FSDP exchanges parameters."""
    from torch import nn

    wrapped: torch.nn.Module = model
    match method:
        case "dp":
            wrapped = nn.DataParallel(model, device_ids=list(range(devices)))
        case "ddp":
            wrapped = nn.parallel.DistributedDataParallel(
                model, device_ids=[device] if device.startswith("cuda") else None)
        case "fsdp":
            _shard(model, device, devices)
    return wrapped


def _shard(model: Any, device: str, devices: int) -> None:
    """Each part that computes by itself is gathered when it is its turn; the root holds what is left."""
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.partition(":")[0], (devices,))

    def parts(parent: Any) -> list[Any]:
        """Lists are looked into, since they do not compute: checkpointed groups, stages of a RevNet."""
        return [part for child in parent.children()
                for part in (parts(child) if isinstance(child, nn.ModuleList) else [child])]

    for part in parts(model):
        if any(True for _ in part.parameters()):
            fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)
