"""A pass under torch's profiler, apart from the timed one: a trace to open, and the operators that took the most time.

Everything is a file of the run; ui/operators_view.py shows the table.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterable
from time import time_ns
from typing import TYPE_CHECKING, Any

from engine.files import write_json
from engine.params import setting

if TYPE_CHECKING:
    from engine.recorder import Recorder

PROFILED_BATCHES = 3
OPERATORS_KEPT = 40
OPERATORS_FILE = "operators.json"
TRACE_TITLE = "Profile: trace; open it at ui.perfetto.dev or in chrome://tracing"
FOLDER_TITLE = ("Profile: TensorBoard folder; unpack it, pip install tensorboard torch-tb-profiler, "
                "tensorboard --logdir FOLDER")
TABLE_TITLE = "Profile: operators by their own time"


def profile_setting() -> Any:
    return setting(False, title="Profile",
                   help="Afterwards, up to three more batches under torch's profiler: a trace and the top operators "
                        "are kept as files of the run. The timed pass is not touched.")


def profile_batches(recorder: Recorder, device: str, batches: Iterable[Any], step: Callable[..., None],
                    watched: bool = True) -> None:
    """The stage `profile`: a few batches from the loader, each given to `step`. A rank that is not `watched` only does
    the work, because the others wait for it."""
    from torch.profiler import ProfilerActivity, profile, record_function

    from engine.devices import settle

    def work() -> None:
        source = iter(batches)
        for _ in range(PROFILED_BATCHES):
            with record_function("load_data"):
                batch = next(source, None)
            if batch is None:
                break
            with record_function("step"):
                step(*batch)
            recorder.alive()
        settle(device)

    with recorder.stage("profile"):
        if not watched:
            work()
            return
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.startswith("cuda") else [])]
        with profile(activities=activities) as profiler:
            work()
        keep_profile(recorder, profiler)


def keep_profile(recorder: Recorder, profiler: Any) -> None:
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
    recorder.keep_file(trace, TRACE_TITLE)
    recorder.keep_file(packed, FOLDER_TITLE)
    recorder.keep_file(home / OPERATORS_FILE, TABLE_TITLE)


def list_operators(profiler: Any) -> list[dict[str, Any]]:
    """Those with the most time of their own, on the device where there is one. The profiler counts microseconds."""
    rows = [{"name": row.key, "calls": row.count, "host_s": row.self_cpu_time_total / 1e6,
             "host_total_s": row.cpu_time_total / 1e6, "device_s": row.self_device_time_total / 1e6}
            for row in profiler.key_averages()]
    rows.sort(key=lambda row: (row["device_s"], row["host_s"]), reverse=True)
    return rows[:OPERATORS_KEPT]
