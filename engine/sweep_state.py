"""What the journals of a sweep say about it so far: specification, runs and their statuses, how it stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from engine.executor import same_process
from engine.home import SweepFolder
from engine.journal import (
    Event,
    JournalDamage,
    RunEnd,
    RunProcess,
    RunStart,
    Session,
    SessionEnd,
    Turn,
    list_journals,
    read_blocks,
)
from engine.spec import Cell, PlannedRun, SweepSpec, make_cells, plan_runs

IMPORTED = "imported"
"""The source of a sweep that was measured elsewhere and read from a file."""
FINAL = ("ok", "failed", "oom", "killed", "timeout", "cancelled", "skipped")
UNFINISHED = ("running", "killed", "cancelled")
"""Statuses that resume measures again by itself: these runs never had the chance to end."""
RETRIED = ("failed", "timeout", "oom", "skipped")
"""Statuses that are measured again only when asked for."""


@dataclass
class RunState:
    run_id: str
    cell_key: str
    repeat: int
    attempt: int
    asked: dict[str, Any]
    status: str = "running"
    reason: str = ""
    wall_s: float | None = None
    pid: int | None = None
    process_started_s: float = 0.0
    session: int = 0


@dataclass
class SweepState:
    """Follows the journals of one sweep; `update` reads what is new."""

    folder: SweepFolder
    status: str = "queued"
    reason: str = ""
    sessions: int = 0
    specs: list[dict[str, Any]] = field(default_factory=list)
    planned_runs: int = 0
    source: str = "measured"
    runs: dict[str, RunState] = field(default_factory=dict)
    last_event: str = ""
    damages: list[JournalDamage] = field(default_factory=list)
    """What could not be read; runs whose ends were in there count as unfinished."""
    _offsets: dict[str, int] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def update(self) -> SweepState:
        journals = [path for path in list_journals(self.folder.path, "session-") if path.name not in self._ended]
        for journal in journals:
            for block in read_blocks(journal, self._offsets.get(journal.name, 0), skipped=self.damages):
                for record in block.records:
                    self._apply(record)
                self._offsets[journal.name] = block.end
        # An earlier session never grows again; reading it over and over would disturb the run.
        self._ended.update(path.name for path in journals[:-1])
        return self

    def _apply(self, record: Any) -> None:
        match record:
            case Session():
                self.status, self.reason, self.sessions = "queued", "", record.session
                self.planned_runs, self.source = record.planned_runs, record.source
                if record.spec not in self.specs:
                    self.specs.append(record.spec)
            case Turn():
                self.status = "running"
            case SessionEnd():
                self.status, self.reason = record.status, record.reason
            case RunStart():
                self.runs[record.run_id] = RunState(record.run_id, record.cell_key, record.repeat, record.attempt,
                                                    record.asked, session=self.sessions)
            case RunProcess() if run := self.runs.get(record.run_id):
                run.pid, run.process_started_s = record.pid, record.process_started_s
            case RunEnd() if run := self.runs.get(record.run_id):
                run.status, run.reason, run.wall_s = record.status, record.reason, record.wall_s
            case Event():
                self.last_event = record.text

    @property
    def open(self) -> bool:
        """Its last session has not said how it ended."""
        return self.status in ("queued", "running")

    @property
    def done(self) -> int:
        """Runs that need no more work in this session: what an earlier one left unfinished is measured again."""
        return sum(run.status != "running" and (run.session == self.sessions or run.status not in UNFINISHED)
                   for run in self.runs.values())

    @property
    def counts(self) -> dict[str, int]:
        """Runs by status; `missing` are planned and not started."""
        counts: dict[str, int] = {}
        for run in self.runs.values():
            counts[run.status] = counts.get(run.status, 0) + 1
        if self.planned_runs > len(self.runs):
            counts["missing"] = self.planned_runs - len(self.runs)
        return counts


def read_state(folder: SweepFolder) -> SweepState:
    return SweepState(folder).update()


def plan_all(specs: list[dict[str, Any]]) -> list[PlannedRun]:
    """The runs of a sweep over all its specifications (an extension adds one), each cell and repeat once."""
    planned: dict[tuple[str, int], PlannedRun] = {}
    for content in specs:
        spec = SweepSpec.model_validate(content)
        for run in plan_runs(make_cells(spec), spec.repeats, spec.order, spec.order_seed):
            planned.setdefault((run.cell.key, run.repeat), run)
    return list(planned.values())


def run_id_of(sweep_id: str, cell: Cell, repeat: int) -> str:
    return f"{sweep_id}-{cell.key[:10]}-{repeat}"


def process_alive(folder: SweepFolder) -> bool:
    """Whether the process that measures (or waits to measure) this sweep is there, by id and start time."""
    process = read_process(folder)
    return bool(process) and same_process(process["pid"], process["process_started_s"])


def read_process(folder: SweepFolder) -> dict[str, Any]:
    try:
        return dict(json.loads(folder.process.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
