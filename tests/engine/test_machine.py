"""Limits as the kernel shows them: fake file systems for cgroup v1, v2 and both, and this machine's real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.machine import (
    cpu_allowance,
    cpu_model,
    memory_available_bytes,
    memory_levels,
    memory_limit_bytes,
    oom_kill_count,
)

PROJECT = Path(__file__).parents[2]
GIB = 2**30
V1_UNLIMITED = "9223372036854771712\n"
V2_MOUNT = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNTS = (
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory"
)


class Machine:
    """A file system with four allowed cores and 16 GiB, to which a test adds its cgroups."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/self/status", "Name:\tpython\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n")
        self.write("proc/meminfo", f"MemTotal:  {16 * GIB // 1024} kB\nMemAvailable:  {10 * GIB // 1024} kB\n")
        self.write("proc/vmstat", "pgfault 9\noom_kill 7\n")

    def write(self, path: str, text: str | int) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n" if isinstance(text, int) else text)

    def place(self, own: str, mounts: str) -> None:
        self.write("proc/self/cgroup", own + "\n")
        self.write("proc/self/mountinfo", f"24 1 8:1 / / rw - ext4 /dev/sda1 rw\n{mounts}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_v2_limits_are_found(machine: Machine) -> None:
    machine.place("0::/lab", V2_MOUNT)
    machine.write("sys/fs/cgroup/lab/cpu.max", "150000 100000\n")
    machine.write("sys/fs/cgroup/lab/memory.max", 2 * GIB)
    assert cpu_allowance(machine.root) == (1.5, 4, 1.5)
    assert memory_limit_bytes(machine.root) == 2 * GIB


def test_v2_a_tighter_parent_wins(machine: Machine) -> None:
    machine.place("0::/pod/lab/run", V2_MOUNT)
    machine.write("sys/fs/cgroup/pod/lab/run/cpu.max", "max 100000\n")
    machine.write("sys/fs/cgroup/pod/lab/run/memory.max", 3 * GIB)
    machine.write("sys/fs/cgroup/pod/lab/cpu.max", "300000 100000\n")
    machine.write("sys/fs/cgroup/pod/cpu.max", "25000 50000\n")
    machine.write("sys/fs/cgroup/pod/memory.max", 1 * GIB)
    assert cpu_allowance(machine.root) == (0.5, 4, 0.5)
    assert memory_limit_bytes(machine.root) == 1 * GIB


def test_v2_max_means_no_limit(machine: Machine) -> None:
    machine.place("0::/lab", V2_MOUNT)
    machine.write("sys/fs/cgroup/lab/cpu.max", "max 100000\n")
    machine.write("sys/fs/cgroup/lab/memory.max", "max\n")
    assert cpu_allowance(machine.root) == (4.0, 4, None)
    assert memory_limit_bytes(machine.root) == 16 * GIB


def test_v1_limits_are_found_also_in_controllers_mounted_together(machine: Machine) -> None:
    machine.place("5:cpu,cpuacct:/lab\n4:memory:/pod/lab", V1_MOUNTS)
    machine.write("sys/fs/cgroup/cpu,cpuacct/lab/cpu.cfs_quota_us", 250000)
    machine.write("sys/fs/cgroup/cpu,cpuacct/lab/cpu.cfs_period_us", 100000)
    machine.write("sys/fs/cgroup/memory/pod/lab/memory.limit_in_bytes", V1_UNLIMITED)
    machine.write("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", 4 * GIB)
    assert cpu_allowance(machine.root) == (2.5, 4, 2.5)
    assert memory_limit_bytes(machine.root) == 4 * GIB


def test_v1_minus_one_and_the_huge_number_mean_no_limit(machine: Machine) -> None:
    machine.place("5:cpu,cpuacct:/\n4:memory:/", V1_MOUNTS)
    machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", -1)
    machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100000)
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED)
    assert cpu_allowance(machine.root) == (4.0, 4, None)
    assert memory_limit_bytes(machine.root) == 16 * GIB


def test_v1_tells_of_a_parent_the_container_cannot_see(machine: Machine) -> None:
    machine.place("4:memory:/", V1_MOUNTS)
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED)
    machine.write("sys/fs/cgroup/memory/memory.stat", f"cache 5\nhierarchical_memory_limit {3 * GIB}\n")
    assert memory_limit_bytes(machine.root) == 3 * GIB


def test_hybrid_reads_each_controller_where_it_lives(machine: Machine) -> None:
    unified = "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
    memory_only = V1_MOUNTS.splitlines()[1]
    machine.place("4:memory:/old\n1:name=systemd:/x\n0::/new", f"{memory_only}\n{unified}")
    machine.write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", 5 * GIB)
    machine.write("sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    machine.write("sys/fs/cgroup/unified/new/cpu.max", "100000 100000\n")
    assert cpu_allowance(machine.root).cores == 1.0
    assert memory_limit_bytes(machine.root) == 5 * GIB
    assert oom_kill_count(machine.root) == 2


def test_a_container_that_sees_the_hosts_path_finds_itself_at_the_mount_point(machine: Machine) -> None:
    mount = "32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
    machine.place("4:memory:/docker/abc/inner", mount)
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 6 * GIB)
    machine.write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", 7 * GIB)
    assert memory_limit_bytes(machine.root) == 6 * GIB


@pytest.mark.parametrize("own", ["/docker/abc", "/../../docker/abc", "/lab (deleted)"])
def test_a_path_that_is_not_visible_leaves_what_the_mount_point_says(machine: Machine, own: str) -> None:
    machine.place(f"0::{own}", V2_MOUNT)
    machine.write("sys/fs/cgroup/cpu.max", "200000 100000\n")
    machine.write("sys/fs/cgroup/memory.max", 2 * GIB)
    machine.write("docker/abc/memory.max", 1)  # reached only by following ".." out of the mount
    assert cpu_allowance(machine.root).cores == 2.0
    assert memory_limit_bytes(machine.root) == 2 * GIB


def test_a_mount_of_another_containers_group_is_ignored(machine: Machine) -> None:
    other = "29 24 0:26 /docker/other /mnt/other\\040group rw - cgroup2 cgroup2 rw"
    machine.place("0::/lab", f"{other}\n{V2_MOUNT}")
    machine.write("mnt/other group/memory.max", 1 * GIB)
    machine.write("sys/fs/cgroup/lab/memory.max", 2 * GIB)
    assert memory_limit_bytes(machine.root) == 2 * GIB


def test_without_cgroups_the_machine_is_the_limit(machine: Machine) -> None:
    assert cpu_allowance(machine.root) == (4.0, 4, None)
    assert memory_limit_bytes(machine.root) == 16 * GIB


def test_affinity_counts_when_it_is_smaller_than_the_quota(machine: Machine) -> None:
    machine.place("0::/", V2_MOUNT)
    machine.write("sys/fs/cgroup/cpu.max", "600000 100000\n")
    machine.write("proc/self/status", "Cpus_allowed_list:\t0-1,8\n")
    assert cpu_allowance(machine.root) == (3.0, 3, 6.0)


def test_kills_are_counted_by_the_nearest_v2_group(machine: Machine) -> None:
    machine.place("0::/lab/run", V2_MOUNT)
    machine.write("sys/fs/cgroup/lab/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 9\n")
    assert oom_kill_count(machine.root) == 3


def test_kills_fall_back_to_the_whole_machine(machine: Machine) -> None:
    assert oom_kill_count(machine.root) == 7
    # A v1 parent does not count its children's kills, so it must not answer for a group that is not visible.
    machine.place("4:memory:/docker/abc", V1_MOUNTS)
    machine.write("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 0\n")
    assert oom_kill_count(machine.root) == 7


def test_kills_are_unknown_where_nothing_tells(machine: Machine) -> None:
    (machine.root / "proc/vmstat").unlink()
    assert oom_kill_count(machine.root) is None


@pytest.mark.parametrize(
    ("own", "mounts", "folder", "limit", "usage", "prefix"),
    [
        ("0::/lab", V2_MOUNT, "sys/fs/cgroup/lab", "memory.max", "memory.current", ""),
        (
            "4:memory:/lab",
            V1_MOUNTS,
            "sys/fs/cgroup/memory/lab",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_",
        ),
    ],
)
def test_available_memory_is_the_room_in_the_cgroup_file_cache_included(
    machine: Machine, own: str, mounts: str, folder: str, limit: str, usage: str, prefix: str
) -> None:
    machine.place(own, mounts)
    machine.write(f"{folder}/{limit}", 4 * GIB)
    machine.write(f"{folder}/{usage}", 3 * GIB)
    machine.write(f"{folder}/memory.stat", f"anon 1\n{prefix}inactive_file {GIB}\n{prefix}active_file {GIB // 2}\n")
    assert memory_available_bytes(memory_levels(machine.root), machine.root) == 4 * GIB - 3 * GIB + GIB + GIB // 2
    machine.write(f"{folder}/{limit}", 15 * GIB)  # now the machine has less to give than the cgroup
    assert memory_available_bytes(memory_levels(machine.root), machine.root) == 10 * GIB


def test_cpu_model_is_named_or_unknown(machine: Machine) -> None:
    assert cpu_model(machine.root) is None
    machine.write("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Example CPU 9000\n")
    assert cpu_model(machine.root) == "Example CPU 9000"


def test_this_machine_answers_and_follows_the_affinity() -> None:
    code = (
        "import os, engine.machine as m; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "print(m.cpu_allowance().affinity, m.cpu_allowance().cores <= 1)"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["1", "True"]
    assert 0 < cpu_allowance().cores <= len(os.sched_getaffinity(0))
    assert 0 < memory_limit_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
