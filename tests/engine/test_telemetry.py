"""Telemetry of real processes, and of the stub GPUs in a process of its own.

This machine may be busy: what a process really used comes from the kernel, never from how long something took.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine import telemetry as telemetry_module
from engine.nvml import Gpus
from engine.telemetry import Telemetry

PROJECT = Path(__file__).parents[2]
MIB = 2**20
RATES = {"run_cpu_cores", "others_cpu_cores", "steal_share", "disk_read_bytes_per_s"}
Start = Callable[..., "subprocess.Popen[str]"]

# Told over standard input what to do next, so that no test has to guess how long a step takes.
STEPS = """
import os, subprocess, sys
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python with some code, as the leader of a process group that ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in started:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            assert process.poll() is not None
        process.communicate()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    gpus = Gpus.open()
    yield Telemetry(gpus)
    gpus.close()


def step(process: "subprocess.Popen[str]", code: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(code + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def values(telemetry: Telemetry) -> dict[str, float]:
    readings = telemetry.sample()
    assert len({(r.device, r.metric) for r in readings}) == len(readings)
    return {r.metric: r.value for r in readings if r.device == "cpu"}


class Totals:
    """Adds up what the rates say was used, over all samples taken with it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.cpu_s = self.read_bytes = 0.0
        self.most_cores = 0.0
        self.last_s = self.first_s = time.monotonic()
        values(telemetry)

    def sample(self) -> dict[str, float]:
        now_s = time.monotonic()
        now = values(self.telemetry)
        if "run_cpu_cores" in now:
            assert all(now[rate] >= 0 for rate in RATES & now.keys())
            self.most_cores = max(self.most_cores, now["run_cpu_cores"])
            self.cpu_s += now["run_cpu_cores"] * (now_s - self.last_s)
            self.read_bytes += now.get("disk_read_bytes_per_s", 0.0) * (now_s - self.last_s)
            self.last_s = now_s
        return now


def test_the_first_sample_has_no_rates_and_the_second_has(start: Start, telemetry: Telemetry) -> None:
    telemetry.watch(start(STEPS).pid, [])
    first = values(telemetry)
    assert first.keys() == {"processes", "resident_bytes", "run_process_resident_bytes", "memory_available_bytes"}
    time.sleep(0.1)
    assert values(telemetry).keys() - first.keys() == RATES
    telemetry.watch(start(STEPS).pid, [])
    assert not values(telemetry).keys() & RATES


def test_a_busy_process_shows_the_cores_it_really_had(start: Start, telemetry: Telemetry) -> None:
    run = start("print('ready', flush=True)\nwhile True: pass")
    truth = psutil.Process(run.pid)
    telemetry.watch(run.pid, [])
    # Read before and after each end: on a busy machine this process may wait between two readings.
    earliest_s = sum(truth.cpu_times()[:2])
    totals = Totals(telemetry)
    latest_s = sum(truth.cpu_times()[:2])
    for _ in range(10):
        time.sleep(0.1)
        least_s = sum(truth.cpu_times()[:2]) - latest_s
        totals.sample()
    most_s = sum(truth.cpu_times()[:2]) - earliest_s
    assert least_s - 0.05 <= totals.cpu_s <= most_s + 0.05
    assert totals.most_cores < 1.3  # one thread; a clock tick more or less in 100 ms


def test_an_idle_process_is_idle_and_the_busy_one_is_among_the_others(start: Start, telemetry: Telemetry) -> None:
    busy = psutil.Process(start("print('ready', flush=True)\nwhile True: pass").pid)
    telemetry.watch(start(STEPS).pid, [])
    values(telemetry)
    begin_s, before_s = time.monotonic(), sum(busy.cpu_times()[:2])
    time.sleep(1)
    used_s, elapsed_s = sum(busy.cpu_times()[:2]) - before_s, time.monotonic() - begin_s
    now = values(telemetry)
    assert now["run_cpu_cores"] < 0.1
    assert now["others_cpu_cores"] > used_s / elapsed_s - 0.2
    assert 0 <= now["steal_share"] <= 1


@pytest.mark.parametrize("children_are_listed", [True, False])
def test_children_of_children_are_counted(
    start: Start, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, children_are_listed: bool
) -> None:
    # False is a kernel without /proc/PID/task/TID/children, where psutil must find the tree.
    monkeypatch.setattr(telemetry_module, "CHILDREN_ARE_LISTED", children_are_listed)
    grandchild = "held = b'x' * (50 * 2**20); print('ready', flush=True); import time; time.sleep(600)"
    child = (
        "import subprocess, sys, threading\n"
        "def begin():\n"
        f"    inner = subprocess.Popen([sys.executable, '-c', {grandchild!r}], stdout=subprocess.PIPE)\n"
        "    inner.stdout.readline(); print('ready', flush=True); inner.wait()\n"
        "threading.Thread(target=begin).start()\n"  # a thread's children are listed under the thread
    )
    run = start(
        f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "c.stdout.readline(); print('ready', flush=True); c.wait()"
    )
    telemetry.watch(run.pid, [])
    now = values(telemetry)
    assert now["processes"] == 3
    tree = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
    assert now["resident_bytes"] == pytest.approx(sum(p.memory_info().rss for p in tree), abs=20 * MIB)
    assert now["run_process_resident_bytes"] == pytest.approx(tree[0].memory_info().rss, abs=5 * MIB)


def test_an_orphan_still_belongs_to_its_run(start: Start, telemetry: Telemetry) -> None:
    run = start(STEPS)
    middle = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); input()"
    step(run, f"child = subprocess.Popen([sys.executable, '-c', {middle!r}], stdin=subprocess.PIPE)")
    telemetry.watch(run.pid, [])
    while values(telemetry)["processes"] < 3:
        time.sleep(0.01)
    step(run, "child.kill(); child.communicate()")
    assert values(telemetry)["processes"] == 2


def test_resident_memory_follows_an_allocation(start: Start, telemetry: Telemetry) -> None:
    run = start(STEPS)
    telemetry.watch(run.pid, [])
    before = values(telemetry)
    step(run, "held = b'x' * (100 * 2**20)")
    during = values(telemetry)
    step(run, "del held")
    after = values(telemetry)
    for metric in ("resident_bytes", "run_process_resident_bytes"):
        assert during[metric] - before[metric] == pytest.approx(100 * MIB, rel=0.1)
        assert after[metric] - before[metric] < 10 * MIB


def test_processes_that_come_and_go_are_counted_once(start: Start, telemetry: Telemetry) -> None:
    # Each child burns processor time and is waited for, so that the kernel adds all of it to its parent at once.
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    run = start(
        "import subprocess, sys; print('ready', flush=True)\n"
        f"for _ in range(4): subprocess.run([sys.executable, '-c', {burn!r}], check=True)\n"
        "print('done', flush=True); sys.stdin.read()"
    )
    truth = psutil.Process(run.pid)
    telemetry.watch(run.pid, [])
    totals = Totals(telemetry)
    at_start_s = sum(truth.cpu_times()[:4])
    assert run.stdout is not None
    while not select.select([run.stdout], [], [], 0.05)[0]:  # until it says that all have ended
        totals.sample()
    time.sleep(0.1)
    totals.sample()
    used_s = sum(truth.cpu_times()[:4]) - at_start_s
    assert used_s > 1.0
    assert totals.cpu_s == pytest.approx(used_s, rel=0.1)
    assert totals.most_cores < 2  # never more than one of them was running; ticks at either end


def test_a_run_that_vanished_is_not_an_error(start: Start, telemetry: Telemetry) -> None:
    run = start(STEPS)
    telemetry.watch(run.pid, [])
    values(telemetry)
    run.kill()
    os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)  # it has ended and still is to be waited for
    time.sleep(0.1)
    zombie = values(telemetry)
    run.wait()
    time.sleep(0.1)
    gone = values(telemetry)
    for after in (zombie, gone):
        assert not {"processes", "resident_bytes", "run_process_resident_bytes"} & after.keys()
        assert "others_cpu_cores" in after
    assert "run_cpu_cores" not in gone
    telemetry.watch(run.pid, [])  # a run that ended before it was ever seen
    assert values(telemetry).keys() == {"memory_available_bytes"}


def test_bytes_from_storage_are_counted_once_though_the_reader_ends(
    start: Start, telemetry: Telemetry, tmp_path: Path
) -> None:
    file = tmp_path / "data"
    file.write_bytes(os.urandom(32 * MIB))
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    run = start(STEPS)
    telemetry.watch(run.pid, [])
    totals = Totals(telemetry)
    reader = "import sys; open(sys.argv[1], 'rb').read(); print('read', flush=True); sys.stdin.read()"
    pipes = "stdin=subprocess.PIPE, stdout=subprocess.PIPE"
    command = f"[sys.executable, '-W', 'ignore', '-c', {reader!r}, {str(file)!r}]"
    step(run, f"child = subprocess.Popen({command}, {pipes}); child.stdout.readline()")
    time.sleep(0.1)
    totals.sample()
    step(run, "child.communicate()")
    time.sleep(0.1)
    totals.sample()
    if telemetry.problems:
        pytest.skip(f"disk reads cannot be seen here: {telemetry.problems}")
    fetched = psutil.Process(run.pid).io_counters().read_bytes
    if fetched < 32 * MIB:
        pytest.skip(f"{tmp_path} is not on storage whose reads the kernel counts (a memory file system?)")
    assert 32 * MIB * 0.95 < totals.read_bytes < 32 * MIB * 1.5


def test_without_a_run_the_machine_is_still_read(telemetry: Telemetry) -> None:
    assert values(telemetry).keys() == {"memory_available_bytes"}
    time.sleep(0.1)
    assert {"others_cpu_cores", "steal_share"} <= values(telemetry).keys()


def test_two_samples_at_once_give_no_wild_rate(start: Start, telemetry: Telemetry) -> None:
    telemetry.watch(start("print('ready', flush=True)\nwhile True: pass").pid, [])
    values(telemetry)
    assert not values(telemetry).keys() & RATES


def test_only_the_gpus_of_the_run_are_read(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler (cc or gcc) to build the stub NVML library with")
    source = Path(__file__).with_name("nvml_stub.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", source], check=True)
    code = (
        "import json, os; from engine.nvml import Gpus; from engine.telemetry import Telemetry\n"
        "gpus = Gpus.open(); telemetry = Telemetry(gpus); telemetry.watch(os.getpid(), [1, 3, 7])\n"
        "samples = [[r.device for r in telemetry.sample()] for _ in range(2)]\n"
        "print(json.dumps([samples, telemetry.problems]))"
    )
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "STUB_GPUS": "4", "STUB_SICK_GPU": "3"}
    environ["STUB_SICK_AFTER"] = "6"  # one whole sample
    command = [sys.executable, "-W", "error", "-c", code]
    answer = subprocess.run(command, env=environ, cwd=PROJECT, capture_output=True, text=True, check=True)
    (first, second), problems = json.loads(answer.stdout)
    assert set(first) == {"cpu", "gpu1", "gpu3"}
    assert set(second) == {"cpu", "gpu1"}
    assert len(problems) == 2
    assert problems[0].startswith("GPU 7 was asked for")
    assert problems[1].startswith("GPU 3 (Stub GPU D")
