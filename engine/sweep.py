"""The sweep process: waits for its turn, then measures the runs of one sweep one after another, and keeps its journal.

Started detached by engine.launch; it outlives the browser and the command that started it. It samples telemetry while
a run is measured, so that the measured process does not have to.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import psutil

from engine import queue, registry
from engine.environment import fingerprint
from engine.executor import Executor, LocalExecutor, RunHandle
from engine.files import try_lock, write_json
from engine.home import PROJECT, Home, SweepFolder
from engine.interrupted import close_interrupted
from engine.journal import (
    EnvironmentSeen,
    Event,
    JournalWriter,
    Line,
    RunEnd,
    RunStart,
    Session,
    SessionEnd,
    Turn,
    compress_journal,
    list_journals,
)
from engine.moment import utc_now
from engine.nvml import Gpus
from engine.params import Params
from engine.preparation import answer_torch_facts, prepare_in_process
from engine.run import RunOrder
from engine.spec import PlannedRun, SweepSpec
from engine.sweep_state import RETRIED, UNFINISHED, SweepState, plan_all, read_state, run_id_of
from engine.telemetry import Telemetry
from engine.watch import SAMPLE_EVERY_S, Watch

LOCK_LIMIT_S = 5.0


class Ended(Exception):
    """The sweep ends before its plan does."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass
class SweepProcess:
    home: Home
    folder: SweepFolder
    session: int
    journal: JournalWriter
    state: SweepState
    spec: SweepSpec
    plan: list[PlannedRun]
    retry_failed: bool
    machine_lock: queue.MachineLock = field(default_factory=queue.MachineLock)
    cancelled: bool = False
    environment_id: str = ""
    problems_told: int = 0
    last_run_ended_at: float = 0.0
    open_run: str = ""
    """The run whose start is journaled and whose end is not."""
    oom_batch: dict[str, int] = field(default_factory=dict)
    """Line of cells (all parameters but the batch size) -> smallest batch size that was out of memory."""

    @property
    def sweep_id(self) -> str:
        return self.folder.sweep_id

    def write(self, record: Line) -> None:
        self.journal.write(record)
        self.journal.flush()

    def tell(self, text: str, run_id: str = "") -> None:
        self.write(Event(utc_now(), text, self.sweep_id, run_id))

    # -- the life of the sweep ---------------------------------------------------------------------------------------

    def measure_all(self) -> None:
        self.wait_for_turn()
        self.write(Turn(self.sweep_id, utc_now()))
        # CUDA numbers devices as NVML does only when it orders them by bus; set before torch is loaded anywhere.
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        self.executor: Executor = LocalExecutor()
        self.gpus = Gpus.open()
        self.telemetry = Telemetry(self.gpus)
        self.see_environment()
        todo = [run for run in self.plan if self.is_due(run)]
        self.remember_oom()
        self.prepare(todo)
        for planned in todo:
            self.wait_while_paused()
            self.measure(planned)

    def is_due(self, planned: PlannedRun) -> bool:
        run = self.state.runs.get(run_id_of(self.sweep_id, planned.cell, planned.repeat))
        if run is None or run.status in UNFINISHED:
            return True
        return self.retry_failed and run.status in RETRIED

    def wait_for_turn(self) -> None:
        looked_at = 0.0
        while True:
            self.stop_if_cancelled()
            if perf_counter() - looked_at > 2:
                # A sweep ahead of this one may have died without leaving the line, or the line was lost.
                close_interrupted(self.home, besides=self.sweep_id)
                queue.enqueue(self.home, self.sweep_id)
                looked_at = perf_counter()
            if queue.is_next(queue.read_queue(self.home), self.sweep_id) and self.machine_lock.try_to_take():
                with queue.editing(self.home) as line:
                    if queue.is_next(line, self.sweep_id) and (entry := line.find(self.sweep_id)):
                        entry.state = "measuring"
                        return
                self.machine_lock.release()
            sleep(SAMPLE_EVERY_S)

    def wait_while_paused(self) -> None:
        self.stop_if_cancelled()
        if not queue.is_paused(queue.read_queue(self.home), self.sweep_id):
            return
        self.tell("paused")
        with queue.editing(self.home) as line:
            if entry := line.find(self.sweep_id):
                entry.state = "waiting"
        self.machine_lock.release()
        self.wait_for_turn()
        self.tell("continued")

    def stop_if_cancelled(self) -> None:
        if self.cancelled:
            raise Ended("cancelled", "cancelled on request")

    def see_environment(self) -> None:
        facts: dict[str, Any] = {}
        for answer in self.converse(self.executor.ask(answer_torch_facts), "loading torch"):
            facts = answer
        if not facts:
            raise Ended("failed", "torch could not be loaded; see the sweep's log")
        self.cuda_available = bool(facts["cuda_available"])
        environment = fingerprint(facts, self.gpus, PROJECT)
        self.environment_id = environment.environment_id
        self.write(EnvironmentSeen(environment.environment_id, environment.facts))
        if self.gpus.problem:
            self.tell(f"no GPU telemetry: {self.gpus.problem}")

    def prepare(self, todo: list[PlannedRun]) -> None:
        """What the runs need on disk, made once and before any of them, so that no run pays for it."""
        experiment = registry.find(self.spec.experiment)
        if not experiment.prepare or not todo:
            return
        cells = {run.cell.key: run.cell.params.model_dump(mode="json") for run in todo}
        told_at = 0.0
        asked = self.executor.ask(prepare_in_process, self.spec.experiment, list(cells.values()), self.home.cache)
        for answer in self.converse(asked, "preparing data"):
            if isinstance(answer, str):
                raise Ended("failed", f"preparing data: {answer}")
            done, total = answer
            if perf_counter() - told_at > 0.5 or done == total:
                self.tell(f"preparing data: {done} of {total}")
                told_at = perf_counter()

    def converse(self, asked: RunHandle, what: str) -> Iterator[Any]:
        """Answers of a process that helps the sweep, until it ends."""
        try:
            while asked.exit_code is None:
                yield from asked.wait(SAMPLE_EVERY_S)
                self.stop_if_cancelled()
            yield from asked.wait(0)
            if asked.exit_code:
                raise Ended("failed", f"{what}: the process ended with {asked.exit_code}; see the sweep's log")
        finally:
            asked.end_group()

    # -- one run -----------------------------------------------------------------------------------------------------

    def measure(self, planned: PlannedRun) -> None:
        run_id = run_id_of(self.sweep_id, planned.cell, planned.repeat)
        attempt = self.folder.next_attempt(run_id)
        params = planned.cell.params
        asked = params.model_dump(mode="json")
        self.write(RunStart(run_id, self.sweep_id, attempt, self.spec.experiment, planned.cell.key, planned.repeat,
                            self.environment_id, utc_now(), asked))
        self.open_run = run_id
        if reason := self.reason_to_skip(params, asked):
            self.write(RunEnd(run_id, utc_now(), "skipped", reason))
            self.open_run = ""
            return
        order = RunOrder(run_id, self.spec.experiment, asked, self.folder.run_journal(run_id, attempt),
                         self.folder.run_log(run_id, attempt), self.home.cache, perf_counter())
        status = Watch(self, order, self.gpu_indices(params)).until_it_ends()
        self.open_run = ""
        if status == "oom":
            self.note_oom(asked)
        if status == "cancelled":
            self.stop_if_cancelled()  # also when it was the last run: the sweep did not finish

    def reason_to_skip(self, params: Params, asked: dict[str, Any]) -> str | None:
        line, batch_size = line_of_cells(asked)
        if batch_size is not None and batch_size > self.oom_batch.get(line, batch_size):
            return f"batch size {self.oom_batch[line]} of this line was out of memory"
        experiment = registry.find(self.spec.experiment)
        return experiment.cannot_run(params, self.gpus) if experiment.cannot_run else None

    def note_oom(self, asked: dict[str, Any]) -> None:
        line, batch_size = line_of_cells(asked)
        if batch_size is not None:
            self.oom_batch[line] = min(batch_size, self.oom_batch.get(line, batch_size))

    def remember_oom(self) -> None:
        """Lines that ran out of memory in an earlier session; none when those are to be tried again."""
        for run in self.state.runs.values():
            if run.status == "oom" and not self.retry_failed:
                self.note_oom(run.asked)

    def gpu_indices(self, params: Params) -> list[int]:
        """NVML's numbers of the GPUs this run uses."""
        device = getattr(params, "device", "cpu")
        if device == "cpu" or not self.cuda_available:
            return []
        number = int(device.partition(":")[2] or 0)
        visible = self.gpus.visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
        return [visible[number].index] if number < len(visible) else []


def line_of_cells(asked: dict[str, Any]) -> tuple[str, int | None]:
    """What cells that differ only in batch size share, and this one's batch size."""
    rest = {name: value for name, value in asked.items() if name != "batch_size"}
    return json.dumps(rest, sort_keys=True), asked.get("batch_size")


# -- start and end of the process --------------------------------------------------------------------------------------


def main(home_path: str, sweep_id: str, session: int) -> None:
    home = Home(Path(home_path))
    folder = home.sweep(sweep_id)
    lock = try_lock(folder.lock)
    tried_since = perf_counter()
    while lock is None:
        # Someone who looks whether the sweep is dead holds the lock for a moment; a living sweep process for good.
        if perf_counter() - tried_since > LOCK_LIMIT_S:
            sys.exit(f"sweep {sweep_id} is being measured by another process")
        sleep(0.05)
        lock = try_lock(folder.lock)
    try:
        me = psutil.Process()
        write_json(folder.process, {"pid": me.pid, "process_started_s": me.create_time()})
        # In line only now: an entry without a living process would be taken for a dead sweep.
        queue.enqueue(home, sweep_id)
        _run_session(home, folder, session)
        folder.process.unlink(missing_ok=True)
    finally:
        queue.leave(home, sweep_id)
        os.close(lock)


def _run_session(home: Home, folder: SweepFolder, session: int) -> None:
    request = json.loads(folder.request(session).read_text())
    state = read_state(folder)
    specs = [*state.specs, *([request["spec"]] if request["spec"] not in state.specs else [])]
    plan = plan_all(specs)
    me = psutil.Process()
    journal = JournalWriter(folder.session_journal(session))
    process = SweepProcess(home, folder, session, journal, state, SweepSpec.model_validate(request["spec"]), plan,
                           request["retry_failed"])
    signal.signal(signal.SIGTERM, lambda *_: setattr(process, "cancelled", True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the command that watches, not to the sweep
    process.write(Session(folder.sweep_id, session, request["action"], utc_now(), me.pid, me.create_time(),
                          request["spec"], len(plan)))
    status, reason = "finished", ""
    try:
        process.measure_all()
    except Ended as early:
        status, reason = early.status, early.reason
    except Exception as error:
        traceback.print_exc()
        status, reason = "failed", f"the sweep process failed: {type(error).__name__}: {error}"
        if process.open_run:
            process.write(RunEnd(process.open_run, utc_now(), "failed", reason))
    process.write(SessionEnd(folder.sweep_id, utc_now(), status, reason))
    journal.close()
    # Still holding the machine: compressing while the next sweep measures would disturb it.
    for path in [*list_journals(folder.path, "session-"), *list_journals(folder.runs)]:
        if path.exists():
            compress_journal(path)
