"""What this process may use of the machine: cores and memory after affinity and cgroup limits (v1, v2, hybrid).

Every function takes the root of the file system, so that a test can hand in a tree of its own.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

ROOT = Path("/")


class CpuAllowance(NamedTuple):
    cores: float  # the smaller of the two below
    affinity: int
    quota: float | None  # cores the cgroup may keep busy on average; None when it sets no limit


class MemoryLevel(NamedTuple):
    """A cgroup that limits this process to less than the physical memory."""

    limit_bytes: int
    usage_file: Path
    stat_file: Path


class _Mount(NamedTuple):
    point: Path
    shown: str  # the part of the hierarchy that is visible at the mount point
    version: int
    controllers: frozenset[str]


class _Hierarchy(NamedTuple):
    version: int
    directories: list[Path]  # from the process's own group to the topmost one that is visible
    own_is_visible: bool


def cpu_allowance(root: Path = ROOT) -> CpuAllowance:
    affinity = _affinity(root)
    quotas = [quota for h in _hierarchies(root, "cpu") for d in h.directories if (quota := _quota_cores(d)) is not None]
    quota = min(quotas, default=None)
    return CpuAllowance(float(affinity) if quota is None else min(float(affinity), quota), affinity, quota)


def memory_limit_bytes(root: Path = ROOT) -> int:
    """The smallest of the physical memory and every limit from the process's own cgroup upwards."""
    return min([_physical_bytes(root), *(level.limit_bytes for level in memory_levels(root))])


def memory_levels(root: Path = ROOT) -> list[MemoryLevel]:
    """The cgroups that limit this process. v1 says "no limit" with a number above any physical memory: it drops out."""
    physical = _physical_bytes(root)
    levels = []
    for hierarchy in _hierarchies(root, "memory"):
        limit_name, usage_name = _MEMORY_FILES[hierarchy.version]
        for directory in hierarchy.directories:
            # v1 also tells the limit of parents that a container cannot see; v2 has no such entry.
            stat_file = directory / "memory.stat"
            limits = [_number(_read(directory / limit_name)), _entry(_read(stat_file), "hierarchical_memory_limit")]
            limit = min((limit for limit in limits if limit is not None and limit > 0), default=None)
            if limit is not None and limit < physical:
                levels.append(MemoryLevel(limit, directory / usage_name, stat_file))
    return levels


def memory_available_bytes(levels: list[MemoryLevel], root: Path = ROOT) -> int | None:
    """What can still be allocated without swapping or a kill. Callers that ask often keep `levels` between calls."""
    rooms = [_entry(_read(root / "proc/meminfo"), "MemAvailable:", unit=1024)]
    for level in levels:
        usage = _number(_read(level.usage_file))
        if usage is not None:
            stat = _read(level.stat_file)
            # v1 counts a group's children under total_*, v2 under the plain name. File pages can be dropped, so they
            # count as room, as they do in MemAvailable.
            prefix = "total_" if _entry(stat, "total_inactive_file") is not None else ""
            cached = (_entry(stat, f"{prefix}active_file") or 0) + (_entry(stat, f"{prefix}inactive_file") or 0)
            rooms.append(max(0, level.limit_bytes - usage + cached))
    return min((room for room in rooms if room is not None), default=None)


def oom_kill_count(root: Path = ROOT) -> int | None:
    """Processes of this cgroup that the kernel has killed for memory; of the whole machine where no cgroup tells."""
    for hierarchy in _hierarchies(root, "memory"):
        if hierarchy.version == 2:
            # A v2 group counts its descendants' kills too, so the nearest visible one is good.
            for directory in hierarchy.directories:
                count = _entry(_read(directory / "memory.events"), "oom_kill")
                if count is not None:
                    return count
        elif hierarchy.own_is_visible:
            # A v1 group counts only its own: a parent's number would miss our runs.
            count = _entry(_read(hierarchy.directories[0] / "memory.oom_control"), "oom_kill")
            if count is not None:
                return count
    return _entry(_read(root / "proc/vmstat"), "oom_kill")


def cpu_model(root: Path = ROOT) -> str | None:
    # Arm kernels print no "model name"; boards put theirs under "Model" or "Hardware".
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    for key in ("model name", "Model", "Hardware"):
        found = re.search(rf"^{key}\s*:[ \t]*(\S.*)$", cpuinfo, re.MULTILINE)
        if found:
            return found[1].strip()
    return None


_MEMORY_FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}


def _affinity(root: Path) -> int:
    allowed = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)$", _read(root / "proc/self/status") or "", re.MULTILINE)
    if allowed is None:
        return os.cpu_count() or 1
    cores = 0
    for part in allowed[1].split(","):
        first, _, last = part.partition("-")
        cores += int(last or first) - int(first) + 1
    return cores


def _quota_cores(directory: Path) -> float | None:
    fields = (_read(directory / "cpu.max") or "").split()
    if not fields:
        fields = [(_read(directory / f"cpu.cfs_{name}_us") or "").strip() for name in ("quota", "period")]
    quota, period = (_number(fields[0]), _number(fields[1])) if len(fields) == 2 else (None, None)
    # "max" in v2 is no number, and v1 says -1: both mean that there is no quota.
    return quota / period if quota is not None and quota > 0 and period else None


def _physical_bytes(root: Path) -> int:
    total = _entry(_read(root / "proc/meminfo"), "MemTotal:", unit=1024)
    return total if total is not None else int(psutil.virtual_memory().total)


def _hierarchies(root: Path, controller: str) -> Iterator[_Hierarchy]:
    """The hierarchies that may hold the controller: on hybrid machines v1 has some controllers and v2 the others."""
    mounts = _cgroup_mounts(root)
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, own_path = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        if version == 1 and controller not in controllers.split(","):
            continue
        candidates = [m for m in mounts if m.version == version and (version == 2 or controller in m.controllers)]
        placed = [(mount, _below(own_path, mount.shown)) for mount in candidates]
        # The same hierarchy may be mounted more than once; a mount that shows another part of it says nothing of us.
        for mount, below in sorted(placed, key=lambda pair: pair[1] is None)[:1]:
            if below is None:
                yield _Hierarchy(version, [mount.point], own_is_visible=False)
            else:
                own = mount.point / below
                above = [mount.point / parent for parent in below.parents]
                yield _Hierarchy(version, [own, *above], own_is_visible=own.is_dir())


def _below(own_path: str, shown: str) -> PurePosixPath | None:
    """The group's path under the mount point, or None when the mount does not show it."""
    try:
        below = PurePosixPath(own_path).relative_to(shown)
    except ValueError:
        return None
    # A group outside the cgroup namespace is printed with "..": following it would leave the mount.
    return None if ".." in below.parts else below


def _cgroup_mounts(root: Path) -> list[_Mount]:
    mounts = []
    for line in (_read(root / "proc/self/mountinfo") or "").splitlines():
        # "<id> <parent> <device> <shown part> <mount point> <options> <optional>... - <type> <source> <super options>"
        place, _, kind = line.partition(" - ")
        place_fields, kind_fields = place.split(" "), kind.split(" ")
        if len(place_fields) < 6 or kind_fields[0] not in ("cgroup", "cgroup2"):
            continue
        shown, point = (_unescape(field) for field in place_fields[3:5])
        version = 2 if kind_fields[0] == "cgroup2" else 1
        mounts.append(_Mount(root / point.lstrip("/"), shown, version, frozenset(kind_fields[-1].split(","))))
    return mounts


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda escape: chr(int(escape[1], 8)), field)


def _read(path: Path) -> str | None:
    """The file's text, or None: a missing or forbidden file means that this limit is unknown, which is not an error."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\s*-?\d+\s*", text) else None


def _entry(text: str | None, key: str, unit: int = 1) -> int | None:
    """The number after `key` in a file with one name and value per line."""
    found = re.search(rf"^{re.escape(key)}\s+(\d+)", text or "", re.MULTILINE)
    return int(found[1]) * unit if found else None
