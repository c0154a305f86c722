"""What a run and its machine are doing, sampled from outside the run: the sweep process calls `sample()` 5-10 times a
second. Processes are read from /proc directly, because the run's tree must be found without scanning the machine.
"""

import os
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psutil

from engine.machine import memory_available_bytes, memory_levels
from engine.nvml import GpuDevice, Gpus
from engine.reading import Reading

__all__ = ["Reading", "Telemetry"]

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# The kernel lists a task's children only when it was built to (CONFIG_PROC_CHILDREN), and disk reads likewise.
CHILDREN_ARE_LISTED = os.path.exists("/proc/thread-self/children")
READS_ARE_COUNTED = os.path.exists("/proc/self/io")
# Processor time comes in ticks of 10 ms: a rate over one or two of them would be rounding error.
SHORTEST_INTERVAL_S = 0.03
# Where children are not listed psutil must look at every process of the machine: not more often than this.
SCAN_INTERVAL_S = 1.0

_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


class _Process(NamedTuple):
    """One process of the run's tree at one sample."""

    parent: int
    started_ticks: int  # since boot; with the process id it names a process for good
    own_ticks: int
    reaped_ticks: int  # of children that ended and were waited for, theirs included
    read_bytes: int  # from storage; the kernel adds those of reaped children
    resident_bytes: int
    alive: bool  # False for a zombie: it keeps its times until its parent asks, but no memory


class _Moment(NamedTuple):
    monotonic_s: float
    boot_ticks: int
    tree: dict[int, _Process]
    machine_busy_s: float
    machine_total_s: float
    machine_steal_s: float | None


class Telemetry:
    """Begin a run with `watch()`. Without a run, `sample()` tells about the machine alone."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._own_problems: list[str] = []
        self._levels = memory_levels()
        self._pid: int | None = None
        self._devices: list[GpuDevice] = []
        self._before: _Moment | None = None
        self._known: dict[int, int] = {}  # process id -> start, of every process seen in the tree and not yet gone
        self._scanned_s: float | None = None
        self._counts_reads = READS_ARE_COUNTED
        if not READS_ARE_COUNTED:
            self._note("This kernel does not count the reads of a process: disk_read_bytes_per_s is left out.")

    @property
    def problems(self) -> list[str]:
        """What could not be read, each said once, for all runs so far."""
        return self._own_problems + self._gpus.problems

    def watch(self, pid: int, gpu_indices: Sequence[int]) -> None:
        self._pid, self._before, self._known, self._scanned_s = pid, None, {}, None
        self._counts_reads = READS_ARE_COUNTED
        self._levels, self._devices = memory_levels(), []
        by_index = {device.index: device for device in self._gpus.devices}
        for index in gpu_indices:
            if index in by_index:
                self._devices.append(by_index[index])
            else:
                self._note(f"GPU {index} was asked for, but NVML does not show it: the run has no readings of it.")

    def sample(self) -> list[Reading]:
        """What holds now, and the rates since the previous sample. The first sample of a run has no rates."""
        now = self._look()
        values = self._amounts(now.tree)
        before = self._before
        if before is None:
            self._before = now
        elif now.monotonic_s - before.monotonic_s >= SHORTEST_INTERVAL_S:
            values |= self._rates(before, now)
            self._before = now
        readings = [Reading("cpu", metric, float(value)) for metric, value in values.items()]
        for device in self._devices:
            readings += self._gpus.read(device)
        return readings

    def _look(self) -> _Moment:
        monotonic_s, boot_ticks = time.monotonic(), int(time.clock_gettime(time.CLOCK_BOOTTIME) * CLOCK_TICKS_PER_S)
        tree = self._tree() if self._pid is not None else {}
        times = psutil.cpu_times()
        busy_s = times.user + times.nice + times.system + times.irq + times.softirq  # user contains guest time
        steal_s = getattr(times, "steal", None)
        return _Moment(
            monotonic_s, boot_ticks, tree, busy_s, busy_s + times.idle + times.iowait + (steal_s or 0), steal_s
        )

    def _amounts(self, tree: dict[int, _Process]) -> dict[str, float]:
        values: dict[str, float] = {}
        alive = {pid: process for pid, process in tree.items() if process.alive}
        if alive:
            values["processes"] = len(alive)
            values["resident_bytes"] = sum(process.resident_bytes for process in alive.values())
        if self._pid in alive:
            values["run_process_resident_bytes"] = alive[self._pid].resident_bytes
        available_bytes = memory_available_bytes(self._levels)
        if available_bytes is not None:
            values["memory_available_bytes"] = available_bytes
        return values

    def _rates(self, before: _Moment, now: _Moment) -> dict[str, float]:
        elapsed_s = now.monotonic_s - before.monotonic_s
        ticks, read_bytes = _spent(before, now)
        run_cores = ticks / CLOCK_TICKS_PER_S / elapsed_s
        # /proc/stat is the host's, also in a container: there these two tell what the whole host does, which is what
        # disturbs a measurement. The sweep and the app count among the others.
        machine_cores = (now.machine_busy_s - before.machine_busy_s) / elapsed_s
        values = {"others_cpu_cores": max(0.0, machine_cores - run_cores)}
        total_s = now.machine_total_s - before.machine_total_s
        if now.machine_steal_s is not None and before.machine_steal_s is not None and total_s > 0:
            values["steal_share"] = min(1.0, max(0.0, now.machine_steal_s - before.machine_steal_s) / total_s)
        if now.tree:
            values["run_cpu_cores"] = run_cores
            if self._counts_reads:
                values["disk_read_bytes_per_s"] = read_bytes / elapsed_s
        return values

    def _tree(self) -> dict[int, _Process]:
        """The run process and its descendants. A process once seen stays until it ends, even when its parent ended
        first: it still uses what the run is charged for. (The kernel may also miss children while it lists them.)
        """
        assert self._pid is not None
        waiting = [self._pid, *self._known, *self._scan()]
        tree: dict[int, _Process] = {}
        while waiting:
            pid = waiting.pop()
            if pid in tree:
                continue
            seen = self._read_process(pid)
            if seen is None:
                continue
            process, threads = seen
            # The same id with another start is another process: ours has ended.
            if self._known.setdefault(pid, process.started_ticks) != process.started_ticks:
                continue
            tree[pid] = process
            if CHILDREN_ARE_LISTED and process.alive:
                waiting += _children(pid, threads)
        # The run's own id is kept for ever, so that whoever gets it next is not taken for the run.
        self._known = {pid: start for pid, start in self._known.items() if pid in tree or pid == self._pid}
        return tree

    def _scan(self) -> Iterable[int]:
        now_s = time.monotonic()
        if CHILDREN_ARE_LISTED or (self._scanned_s is not None and now_s - self._scanned_s < SCAN_INTERVAL_S):
            return []
        self._scanned_s = now_s
        try:
            return [child.pid for child in psutil.Process(self._pid).children(recursive=True)]
        except psutil.Error:
            return []  # the run process has ended

    def _read_process(self, pid: int) -> tuple[_Process, int] | None:
        """The process and its number of threads, or None when it has ended."""
        try:
            # The name, in brackets, may itself contain spaces and brackets; fields are counted from behind it.
            fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            alive = fields[0] not in (b"Z", b"X")
            # Not the resident size in stat, which proc(5) calls inaccurate.
            resident_bytes = int(_read(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES if alive else 0
        except _GONE:
            return None
        user, system, reaped_user, reaped_system = (int(field) for field in fields[11:15])
        process = _Process(
            parent=int(fields[1]),
            started_ticks=int(fields[19]),
            own_ticks=user + system,
            reaped_ticks=reaped_user + reaped_system,
            read_bytes=self._read_bytes(pid, alive),
            resident_bytes=resident_bytes,
            alive=alive,
        )
        return process, int(fields[17])

    def _read_bytes(self, pid: int, alive: bool) -> int:
        last = self._before.tree.get(pid) if self._before is not None else None
        unchanged = last.read_bytes if last is not None else 0
        if not self._counts_reads or not alive:
            return unchanged
        try:
            counters = _read(f"/proc/{pid}/io")
        except PermissionError:
            self._counts_reads = False
            self._note(
                "The reads of the run's processes may not be seen by this user: disk_read_bytes_per_s is left out."
            )
            return unchanged
        except _GONE:
            return unchanged
        return int(counters.partition(b"\nread_bytes: ")[2].partition(b"\n")[0])

    def _note(self, sentence: str) -> None:
        if sentence not in self._own_problems:
            self._own_problems.append(sentence)


def _spent(before: _Moment, now: _Moment) -> tuple[int, int]:
    """Clock ticks and bytes read by the whole tree between two moments.

    A process that ended moves all it ever used into its parent's counters. What it had used up to the last sample was
    counted then, so that much is taken off the nearest ancestor that is still there; the rest is new.
    """
    gone_ticks: dict[int, int] = {}
    gone_bytes: dict[int, int] = {}
    for pid, last in before.tree.items():
        if not _continues(pid, before, now):
            heir = last.parent
            while heir in before.tree and not _continues(heir, before, now):
                heir = before.tree[heir].parent
            gone_ticks[heir] = gone_ticks.get(heir, 0) + last.own_ticks + last.reaped_ticks
            gone_bytes[heir] = gone_bytes.get(heir, 0) + last.read_bytes

    ticks = read_bytes = 0
    for pid, process in now.tree.items():
        if _continues(pid, before, now):
            last = before.tree[pid]
            reaped = process.reaped_ticks - last.reaped_ticks - gone_ticks.get(pid, 0)
            ticks += process.own_ticks - last.own_ticks + max(0, reaped)
            read_bytes += max(0, process.read_bytes - last.read_bytes - gone_bytes.get(pid, 0))
        elif process.started_ticks >= before.boot_ticks:
            # Born since the last sample: all it used is new. An older one that was not seen before has a past that
            # would look like a burst; it counts from now on.
            ticks += process.own_ticks + process.reaped_ticks
            read_bytes += process.read_bytes
    return ticks, read_bytes


def _continues(pid: int, before: _Moment, now: _Moment) -> bool:
    return pid in before.tree and pid in now.tree and before.tree[pid].started_ticks == now.tree[pid].started_ticks


def _children(pid: int, threads: int) -> list[int]:
    found: list[int] = []
    try:
        # Each thread has the children it started itself.
        for task in [str(pid)] if threads == 1 else os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    except _GONE:
        return found  # a thread or the process ended meanwhile; what was found is good
    return found


def _read(path: str) -> bytes:
    # Plain system calls: half the time of open(), and this runs some thirty times per sample.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 65536)
    finally:
        os.close(file)
