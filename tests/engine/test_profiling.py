"""Every experiment can be profiled: batches of their own after the measured ones, and files that open."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measured_run import MeasuredRun
from torch.autograd import DeviceType
from torch.autograd.profiler_util import FunctionEventAvg

from engine.journal import File
from engine.profiling import list_operators
from engine.registry import FOLDER, Experiment, load_all
from ui.operators_view import about_operators, read_operators

IMAGES: dict[str, Any] = {"image_size": 32, "workers": 0}
TINY: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "inference": ({**IMAGES, "batch_size": 4, "batches": 4}, {"batches": 4, "items": 16}),
    "training": ({**IMAGES, "batch_size": 4, "train_images": 16, "val_images": 4}, {"batches": 4, "items": 16}),
    "finetune": ({**IMAGES, "image_size": 64, "batch_size": 4, "train_images": 16, "val_images": 4, "epochs": 1},
                 {"batches": 4, "items": 16}),
    "extract": ({**IMAGES, "batch_size": 4, "train_images": 20, "val_images": 20}, {"batches": 10, "items": 40}),
    "bottleneck": ({**IMAGES, "batch_size": 4, "items": 20}, {"batches": 5, "items": 20}),
    "loading": ({"image_size": 32, "workers": 1, "batch_size": 4, "batches": 5, "latency_s": 0.001},
                {"batches": 5, "items": 20}),
    "memory": ({"model": "revnet_3", "method": "reversible", "batch_size": 2, "image_size": 32, "batches": 2},
               {"batches": 2, "items": 4}),
    "max_batch": ({"image_size": 32, "start": 2, "cap": 2, "mode": "training"}, {"max_batch_size": 2, "tries": 1}),
    "search": ({"models": 4, "blocks": 6, "channels": 4, "items": 20}, {"items": 20}),
}
"""Settings of each experiment, and what its metrics count with or without a profile."""


def profile(name: str, folder: Path, cache: Path, **more: Any) -> tuple[MeasuredRun, list[File]]:
    experiment = load_all([FOLDER])[name]
    assert isinstance(experiment, Experiment)
    params = experiment.Params(**TINY[name][0], **more, threads=1, profile=True)
    if experiment.prepare:
        experiment.prepare([params], cache, lambda done, total: None)
    measured = MeasuredRun(folder, cache)
    experiment.run(params, measured.recorder)
    return measured, measured.records(File)


@pytest.mark.parametrize("name", sorted(load_all([FOLDER])))
def test_the_profiled_batches_are_apart_and_their_files_open(name: str, tmp_path: Path, image_cache: Path) -> None:
    measured, files = profile(name, tmp_path, image_cache)
    stages, found = measured.stages(), measured.metrics()
    assert stages[-1] == "profile" and stages.count("profile") == 1
    assert {metric: found[metric] for metric in TINY[name][1]} == TINY[name][1]
    trace, packed, table = [tmp_path / file.path for file in files if file.title.startswith("Profile: ")]
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    steps = [event for event in events if event.get("name") == "step" and event.get("cat") == "user_annotation"]
    assert len(steps) == (1 if name == "search" else 3)
    with zipfile.ZipFile(packed) as archive:
        (inside,) = archive.namelist()
        assert inside.endswith(".pt.trace.json.gz") and archive.read(inside) == trace.read_bytes()
    operators = {row["name"] for row in read_operators(table) or []}
    assert operators & ({"aten::stack"} if name == "loading" else {"aten::mkldnn_convolution", "aten::conv2d"})
    assert not operators & {"load_data", "step"} and not any(row.startswith("Optimizer.") for row in operators)
    assert read_operators(trace) is None and read_operators(table.with_name("none")) is None
    if name in ("training", "finetune", "memory", "max_batch"):
        assert [row for row in operators if "Backward" in row]


def test_kernels_are_not_counted_beside_the_operators_that_launched_them() -> None:
    """As torch lists a GPU's profile: operators with the time of their kernels, the kernels, and named stretches."""
    def row(name: str, device: DeviceType, host_us: int, device_us: int, named: bool = False) -> FunctionEventAvg:
        found = FunctionEventAvg()
        found.key, found.count, found.device_type, found.is_user_annotation = name, 1, device, named
        found.self_cpu_time_total = found.cpu_time_total = host_us
        found.self_device_time_total = device_us
        return found

    rows = [row("step", DeviceType.CPU, 900, 0, named=True), row("step", DeviceType.CUDA, 0, 700, named=True),
            row("aten::mm", DeviceType.CPU, 5, 300), row("sgemm", DeviceType.CUDA, 0, 300),
            row("aten::add", DeviceType.CPU, 5, 100), row("elementwise", DeviceType.CUDA, 0, 100)]
    found = list_operators(SimpleNamespace(key_averages=lambda: rows))
    assert [row["name"] for row in found] == ["aten::mm", "aten::add"]
    assert "75%" in about_operators(found)


def test_a_part_of_a_model_is_profiled_on_its_activations(tmp_path: Path, image_cache: Path) -> None:
    _, files = profile("bottleneck", tmp_path, image_cache, part="last_1_block")
    whole = {row["name"]: row["calls"] for row in read_operators(tmp_path / files[-1].path) or []}
    assert 0 < whole["aten::mkldnn_convolution"] <= 9


def test_a_large_search_is_profiled_in_part() -> None:
    from engine.search import first_runs
    from engine.search_steps import Kind

    steps = [(Kind.TAKE, -1, -1), *((Kind.RUN, node, node - 1) for node in range(5)), (Kind.RELEASE, -1, -1)]
    assert list(first_runs(steps, 2)) == [*steps[:3], *((Kind.RELEASE, node, -1) for node in (0, 1, -1))]
    assert list(first_runs(iter(steps), 9))[:7] == steps
