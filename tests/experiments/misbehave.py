"""What does the lab make of a run that goes wrong? Only for the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Literal

from engine.params import Params as BaseParams
from engine.params import setting

if TYPE_CHECKING:
    from engine.recorder import Recorder


class Params(BaseParams):
    how: Literal["well", "raise", "memory_error", "allocator", "hang", "crash", "exit", "killed", "leave_child",
                 "skip", "modules", "not_finite", "worker_killed", "oom_above_10"] = setting(
        "well", title="How", help="What goes wrong.")
    batch_size: int = setting(1, title="Batch size", help="Items per batch.", ge=1, le=1000)
    batches: int = setting(3, title="Batches", help="Batches before it goes wrong.", ge=0, le=100_000)
    batch_s: float = setting(0.0, title="Seconds per batch", help="How long each batch takes.", ge=0, le=100, unit="s")


def run(params: Params, recorder: Recorder) -> None:
    print("this is standard output")
    print("this is standard error", file=sys.stderr)
    with recorder.stage("prepare_data"):
        time.sleep(0.01)
    with recorder.measure() as clock:
        for _ in range(params.batches):
            with clock.phase("load_data"):
                pass
            with clock.phase("inference"):
                time.sleep(params.batch_s)
            clock.end_batch(params.batch_size)
        _go_wrong(params, recorder)


def _go_wrong(params: Params, recorder: Recorder) -> None:
    import torch

    from engine.recorder import Skip

    match params.how:
        case "raise":
            raise RuntimeError("the experiment raised this\non two lines")
        case "memory_error":
            raise MemoryError("no memory left")
        case "oom_above_10":
            if params.batch_size > 10:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        case "allocator":
            torch.empty(2**62, dtype=torch.uint8)
        case "hang":
            time.sleep(1000)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave_child":
            child = subprocess.Popen(["sleep", "1000"])
            recorder.metric("child_pid", child.pid)
        case "skip":
            raise Skip("this machine lacks what it needs")
        case "modules":
            print("modules:" + ",".join(sorted({name.partition(".")[0] for name in sys.modules})))
        case "not_finite":
            recorder.metric("loss", float("nan"))
            recorder.metric("ratio", float("inf"))
        case "worker_killed":
            _lose_a_worker(torch)


def _lose_a_worker(torch: object) -> None:
    from torch.utils.data import DataLoader

    class Deadly:
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> int:
            if index == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            return index

    list(DataLoader(Deadly(), batch_size=4, num_workers=2, multiprocessing_context="fork"))  # type: ignore[arg-type]
