"""A pass under torch's profiler, apart from the timed one: a trace to open, and the operators that took the most time.

Everything is a file of the run; ui/operators_view.py shows the table.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from engine.files import write_json

if TYPE_CHECKING:
    from engine.recorder import Recorder

PROFILED_BATCHES = 3
OPERATORS_KEPT = 40
OPERATORS_FILE = "operators.json"
TRACE_TITLE = "Profile: trace; open it at ui.perfetto.dev or in chrome://tracing"
FOLDER_TITLE = ("Profile: TensorBoard folder; unpack it, pip install tensorboard torch-tb-profiler, "
                "tensorboard --logdir FOLDER")
TABLE_TITLE = "Profile: operators by their own time"


def profile_batches(recorder: Recorder, device: str, batches: Iterable[Any], step: Callable[..., None],
                    watched: bool = True) -> None:
    """The stage `profile`, last in a run: a few batches, each given to `step`. A rank that is not `watched` only does
    the work, because the others wait for it."""
    with recorder.stage("profile"):
        if watched:
            keep_profile(recorder, write_profile(recorder, device, batches, step))
        else:
            _go_through(device, batches, step, recorder.alive)


def write_profile(recorder: Recorder, device: str, batches: Iterable[Any], step: Callable[..., None],
                  alive: Callable[[], None] | None = None) -> list[Path]:
    """The same batches under the profiler, and its files. Nothing is written to the journal: a process that the run
    started may do this and hand the files over."""
    # Otherwise the profiler tells the run's log that it found no GPU, as an error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.startswith("cuda") else [])]
    with profile(activities=activities) as profiler:
        _go_through(device, batches, step, alive or recorder.alive)
    home = recorder.folder / f"{recorder.run_id}.profile"
    shutil.rmtree(home, ignore_errors=True)  # an earlier attempt's
    folder = home / "tensorboard"
    folder.mkdir(parents=True)
    # The name is what TensorBoard's plug-in looks for: worker.time.pt.trace.json.
    trace = folder / f"{recorder.run_id}.{time_ns() // 1_000_000}.pt.trace.json.gz"
    profiler.export_chrome_trace(str(trace))
    packed = home / "tensorboard.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.write(trace, f"tensorboard/{trace.name}")
    write_json(home / OPERATORS_FILE, {"operators": list_operators(profiler)})
    return [trace, packed, home / OPERATORS_FILE]


def keep_profile(recorder: Recorder, files: list[Path]) -> None:
    for file, title in zip(files, (TRACE_TITLE, FOLDER_TITLE, TABLE_TITLE), strict=True):
        recorder.keep_file(file, title)


def _go_through(device: str, batches: Iterable[Any], step: Callable[..., None], alive: Callable[[], None]) -> None:
    from torch.profiler import record_function

    from engine.devices import settle

    source = iter(batches)
    for _ in range(PROFILED_BATCHES):
        with record_function("load_data"):
            batch = next(source, None)
        if batch is None:
            break
        with record_function("step"):
            step(*batch)
        alive()
    settle(device)


def list_operators(profiler: Any) -> list[dict[str, Any]]:
    """Those with the most time of their own, on the device where there is one. The profiler counts microseconds.

    Names given to stretches of code (load_data, step, an optimiser's step) are no operators. Kernels are left out:
    their time is that of the operators which launched them, and both together would count it twice.
    """
    from torch.autograd import DeviceType

    rows = [{"name": row.key, "calls": row.count, "host_s": row.self_cpu_time_total / 1e6,
             "host_total_s": row.cpu_time_total / 1e6, "device_s": row.self_device_time_total / 1e6}
            for row in profiler.key_averages() if row.device_type == DeviceType.CPU and not row.is_user_annotation]
    rows.sort(key=lambda row: (row["device_s"], row["host_s"]), reverse=True)
    return rows[:OPERATORS_KEPT]
