"""engine.nvml over the real pynvml, in a process of its own that loads the stub driver library built here."""

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
GIB = 2**30
LIBRARY = "libnvidia-ml.so.1"
OPEN = "import json; from engine.nvml import Gpus; gpus = Gpus.open()\n"
READ_ONCE = OPEN + "print(json.dumps([[*r] for d in gpus.devices for r in gpus.read(d)] + [gpus.problems]))"
NO_GPUS = OPEN + "print(json.dumps([gpus.devices, gpus.problem, gpus.visible('0')])); gpus.close()"
ALL_METRICS = [
    "gpu_utilization",
    "gpu_memory_used_bytes",
    "power_watts",
    "temperature_celsius",
    "sm_clock_hz",
    "memory_clock_hz",
]

Ask = Callable[..., Any]


def build(folder: Path, *options: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (cc or gcc) to build the stub NVML library with")
    source = Path(__file__).with_name("nvml_stub.c")
    subprocess.run([compiler, "-shared", "-fPIC", *options, "-o", folder / LIBRARY, source], check=True)
    return folder


def run(code: str, library_folder: Path, **settings: str) -> Any:
    environ = {**os.environ, **settings, "LD_LIBRARY_PATH": str(library_folder)}
    command = [sys.executable, "-W", "error", "-c", code]
    answer = subprocess.run(command, check=False, env=environ, cwd=PROJECT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    folder = build(tmp_path)
    return lambda code, **settings: run(code, folder, **settings)


def test_devices_are_described(ask: Ask) -> None:
    code = OPEN + (
        "import dataclasses; print(json.dumps([[dataclasses.asdict(d) for d in gpus.devices],"
        "gpus.problem, gpus.problems, gpus.driver_version, gpus.cuda_driver_version]))"
    )
    devices, problem, problems, driver, cuda = ask(code)
    assert devices[1] == {
        "index": 1,
        "uuid": "GPU-1a3c0000-aaaa-bbbb-cccc-000000000001",
        "name": "Stub GPU B",
        "memory_total_bytes": 24 * GIB,
        "pci_bus_id": "00000000:02:00.0",
    }
    assert [device["index"] for device in devices] == [0, 1]
    assert (problem, problems) == (None, [])
    assert (driver, cuda) == ("570.86.15", "12.8")


def test_readings_are_in_base_units(ask: Ask) -> None:
    *readings, problems = ask(READ_ONCE)
    assert [r for r in readings if r[0] == "gpu1"] == [
        ["gpu1", "gpu_utilization", 0.5],
        ["gpu1", "gpu_memory_used_bytes", 3 * GIB],
        ["gpu1", "power_watts", 123.456],
        ["gpu1", "temperature_celsius", 62],
        ["gpu1", "sm_clock_hz", 1410e6],
        ["gpu1", "memory_clock_hz", 5001e6],
    ]
    assert len(readings) == 12
    assert problems == []


def test_the_doctor_tells_what_a_gpu_tells_and_nothing_else(ask: Ask) -> None:
    code = "import json; from engine.doctor import examine_gpus; print(json.dumps(examine_gpus()))"
    gpus, problems = ask(code, STUB_ABSENT="power,memory_info")
    assert [(gpu["index"], gpu["name"]) for gpu in gpus] == [(0, "Stub GPU A"), (1, "Stub GPU B")]
    for gpu in gpus:
        assert gpu["power_watts"] is gpu["memory_total_bytes"] is None, "unknown is not 0"
        assert gpu["temperature_celsius"] == 62
    assert any("power_watts" in problem for problem in problems)
    gpus, problems = ask(code)
    assert gpus[0]["memory_total_bytes"] == 24 * GIB and problems == []


def test_an_old_driver_gives_the_same_metrics(tmp_path: Path) -> None:
    *readings, problems = run(READ_ONCE, build(tmp_path, "-DOLD_DRIVER"), STUB_GPUS="1")
    assert [metric for _, metric, _ in readings] == ALL_METRICS
    assert problems == []


def test_a_metric_keeps_the_source_it_began_with(ask: Ask) -> None:
    # Version 1 would count 1 GiB more as used: a hiccup of version 2 must leave a gap, not a step.
    code = OPEN + (
        "import os; d = gpus.devices[0]\n"
        "memory = lambda: [r.value for r in gpus.read(d) if r.metric == 'gpu_memory_used_bytes']\n"
        "values = [memory()]\n"
        "os.environ['STUB_BROKEN'] = 'memory_v2'; values.append(memory()); values.append(memory())\n"
        "os.environ['STUB_BROKEN'] = ''; values.append(memory())\n"
        "print(json.dumps([values, gpus.problems]))"
    )
    values, problems = ask(code)
    assert values == [[3 * GIB], [], [], [3 * GIB]]
    assert len(problems) == 1
    assert "gpu_memory_used_bytes" in problems[0]


def test_a_driver_whose_newer_memory_call_fails_from_the_start_uses_the_older(ask: Ask) -> None:
    *readings, problems = ask(READ_ONCE, STUB_BROKEN="memory_v2", STUB_GPUS="1")
    assert ["gpu0", "gpu_memory_used_bytes", 4 * GIB] in readings
    assert problems == []


def test_what_a_device_cannot_tell_is_left_out_and_said_once(ask: Ask) -> None:
    code = OPEN + (
        "metrics = [[r.metric for r in gpus.read(gpus.devices[0])] for _ in range(3)]\n"
        "print(json.dumps([metrics, gpus.problems]))"
    )
    metrics, problems = ask(code, STUB_ABSENT="power,temperature")
    assert metrics == [[m for m in ALL_METRICS if m not in ("power_watts", "temperature_celsius")]] * 3
    assert len(problems) == 2
    assert all("GPU 0 (Stub GPU A" in problem for problem in problems)


def test_memory_that_is_not_told_is_unknown(ask: Ask) -> None:
    code = OPEN + (
        "print(json.dumps([gpus.devices[0].memory_total_bytes, [r.metric for r in gpus.read(gpus.devices[0])]]))"
    )
    total, metrics = ask(code, STUB_ABSENT="memory_info")
    assert total is None
    assert "gpu_memory_used_bytes" not in metrics


@pytest.mark.parametrize("error", ["15", "999"])  # lost, and the unknown error of a driver that gave up
def test_a_gpu_lost_in_mid_run_leaves_the_other(ask: Ask, error: str) -> None:
    code = OPEN + (
        "counts = [[len(gpus.read(d)) for d in gpus.devices] for _ in range(4)]\n"
        "print(json.dumps([counts, gpus.problems, sorted(gpus.lost_indices)]))"
    )
    counts, problems, lost = ask(code, STUB_SICK_GPU="0", STUB_SICK_AFTER="6", STUB_SICK_ERROR=error)
    assert counts == [[6, 6], [0, 6], [0, 6], [0, 6]]
    assert lost == [0]
    assert len(problems) == 1
    assert problems[0].startswith("GPU 0 (Stub GPU A, GPU-1a2b0000-aaaa-bbbb-cccc-000000000000) stopped answering")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"STUB_INIT_ERROR": "18"}, "different versions"),
        ({"STUB_INIT_ERROR": "9"}, "not loaded"),
        ({"STUB_INIT_ERROR": "4"}, "may not"),
        ({"STUB_INIT_ERROR": "999"}, "Unknown Error"),
        ({"STUB_INIT_ERROR": "77"}, "an error of the stub"),
        ({"STUB_GPUS": "0"}, "reports no device"),
    ],
)
def test_without_gpus_one_sentence_says_why(ask: Ask, settings: dict[str, str], words: str) -> None:
    devices, problem, visible = ask(NO_GPUS, **settings)
    assert (devices, visible) == ([], [])
    assert words in problem
    assert problem.startswith("No GPU can be read: ")
    assert problem.endswith(".")


def test_a_library_that_cannot_be_loaded_is_no_library(tmp_path: Path) -> None:
    (tmp_path / LIBRARY).write_text("not a library")
    devices, problem, _ = run(NO_GPUS, tmp_path)
    assert devices == []
    assert "libnvidia-ml.so.1 was not found" in problem


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="needs a machine without NVIDIA's driver")
def test_no_library_at_all(tmp_path: Path) -> None:
    devices, problem, _ = run(NO_GPUS, tmp_path)
    assert devices == []
    assert "libnvidia-ml.so.1 was not found" in problem


def test_visible_devices_are_those_cuda_would_show(ask: Ask) -> None:
    # GPUs 0 and 1 begin with 1a2b and 1a3c, 2 and 3 with 9f00 and 9f01.
    second = "GPU-1a3c0000-aaaa-bbbb-cccc-000000000001"
    expected: list[tuple[str | None, list[int]]] = [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        (" 1 , 3", [1, 3]),
        ("0,-1,1", [0]),
        ("1,9,2", [1]),
        ("3gpu,1", [3, 1]),
        ("1,1", []),
        ("two", []),
        (second, [1]),
        (f"GPU-9f01,{second}", [3, 1]),
        ("GPU-1a2b", [0]),
        ("GPU-1a", []),
        ("GPU-1a2b,GPU-9f,GPU-1a3c", [0]),
        ("GPU-1a2b,GPU-1a2b0000", []),
        ("GPU-1a2b,1", [0]),
        ("0,GPU-1a3c", [0]),
        ("MIG-1a2b", []),
    ]
    code = OPEN + f"print(json.dumps([[d.index for d in gpus.visible(v)] for v in {[v for v, _ in expected]!r}]))"
    answers = ask(code, STUB_GPUS="4")
    assert [(value, found) for (value, _), found in zip(expected, answers, strict=True)] == expected


def test_after_closing_nothing_is_read(ask: Ask) -> None:
    code = OPEN + "gpus.close(); gpus.close(); print(json.dumps([gpus.read(gpus.devices[0]), gpus.problems]))"
    assert ask(code) == [[], []]
