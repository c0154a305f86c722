"""Where everything the lab writes lives: one folder, `lab_data/` beside app.py, or PHASELAB_HOME."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Home:
    """The folder of one lab and the names inside it."""

    root: Path

    @property
    def sweeps(self) -> Path:
        return self.root / "sweeps"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def noise_check(self) -> Path:
        """The last one; another takes its place."""
        return self.root / "noise-check.json"

    @property
    def store(self) -> Path:
        return self.root / "phaselab.duckdb"

    @property
    def people(self) -> Path:
        """Journals of what people did (tags, notes): one file per writing process."""
        return self.root / "people"

    @property
    def queue(self) -> Path:
        return self.root / "queue.json"

    def sweep(self, sweep_id: str) -> SweepFolder:
        return SweepFolder(self.sweeps / sweep_id)

    def sweep_ids(self) -> list[str]:
        """Every sweep this lab has a folder for, oldest first (ids begin with their date)."""
        return sorted(entry.name for entry in os.scandir(self.sweeps) if entry.is_dir()) if self.sweeps.is_dir() else []


@dataclass(frozen=True)
class SweepFolder:
    """The folder of one sweep: session journals, run journals and logs."""

    path: Path

    @property
    def sweep_id(self) -> str:
        return self.path.name

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def lock(self) -> Path:
        return self.path / "sweep.lock"

    @property
    def process(self) -> Path:
        """Who measures this sweep: process id and start time."""
        return self.path / "process.json"

    @property
    def log(self) -> Path:
        return self.path / "sweep.log"

    @property
    def bundle(self) -> Path:
        """There for a sweep that came in a bundle: its manifest."""
        return self.path / "bundle.json"

    def request(self, session: int) -> Path:
        return self.path / f"request-{session:04d}.json"

    def session_journal(self, session: int) -> Path:
        return self.path / f"session-{session:04d}.jsonl"

    def next_attempt(self, run_id: str) -> int:
        """One more than any attempt that left a journal or a log, whether or not the sweep's journal tells of it."""
        made = [int(path.name[len(run_id) + 1 :].partition(".")[0]) for path in self.runs.glob(f"{run_id}.*.*")]
        return max(made, default=0) + 1

    def run_journal(self, run_id: str, attempt: int) -> Path:
        return self.runs / f"{run_id}.{attempt}.jsonl"

    def run_log(self, run_id: str, attempt: int) -> Path:
        return self.runs / f"{run_id}.{attempt}.log"


def whole_paths() -> dict[str, str]:
    """The variables that name paths, with whole ones: for a process that works in another folder."""
    found = {"PHASELAB_HOME": str(lab_home().root)}
    for name in ("PHASELAB_EXPERIMENTS", "PHASELAB_MACHINE_LOCK"):
        if path := os.environ.get(name):
            found[name] = os.path.abspath(path)
    if folders := os.environ.get("PHASELAB_DATA"):
        found["PHASELAB_DATA"] = os.pathsep.join(os.path.abspath(part) for part in folders.split(os.pathsep) if part)
    return found


def lab_home() -> Home:
    return Home(Path(os.environ.get("PHASELAB_HOME") or PROJECT / "lab_data").expanduser().absolute())
