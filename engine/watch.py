"""One run, watched from outside: telemetry, signs of life, limits, and the truth about how it ended."""

from __future__ import annotations

import math
import signal
from collections import deque
from dataclasses import replace
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from engine import machine
from engine.journal import Metric, RunEnd, RunProcess, Samples, Stage
from engine.moment import utc_now
from engine.run import Outcome, RunOrder, Sign

if TYPE_CHECKING:
    from engine.sweep import SweepProcess

SAMPLE_EVERY_S = 0.2
GRACE_S = 1.0
"""How long a run may take to stop by itself when it is cancelled."""
MEMORY_SAMPLES = 5
NEARLY_FULL = 0.02
"""A run killed with less than this share of the memory limit free in its last samples was killed for memory."""
NVML_LOOKS_BACK_S = 1.1


class Watch:
    """Starts a run and stays with it until it has ended."""

    def __init__(self, sweep: SweepProcess, order: RunOrder, gpu_indices: list[int]) -> None:
        self.sweep = sweep
        self.oom_kills_before = machine.oom_kill_count()
        self.memory_limit_bytes = machine.memory_limit_bytes()
        self.available_bytes: deque[float] = deque(maxlen=MEMORY_SAMPLES)
        self.outcome: Outcome | None = None
        self.stage = "start_process"
        self.note_busy_gpus(order.run_id, gpu_indices)
        self.order = replace(order, requested_at=perf_counter())  # nothing of ours between this and the start
        self.handle = sweep.executor.start(self.order)
        sweep.telemetry.watch(self.handle.pid, gpu_indices)
        sweep.write(RunProcess(order.run_id, self.handle.pid, self.handle.process_started_s))

    def note_busy_gpus(self, run_id: str, gpu_indices: list[int]) -> None:
        """How busy the run's GPUs are before it begins: work of others that would be taken for its own."""
        if gpu_indices:
            # NVML looks back up to a second: the run before this one must not be taken for somebody else.
            sleep(max(0.0, self.sweep.last_run_ended_at + NVML_LOOKS_BACK_S - perf_counter()))
        for device in self.sweep.gpus.devices:
            if device.index in gpu_indices:
                for reading in self.sweep.gpus.read(device):
                    if reading.metric == "gpu_utilization":
                        self.sweep.journal.write(Metric(run_id, f"{reading.device}_utilization_before", reading.value,
                                                        "share"))

    def until_it_ends(self) -> str:
        """Returns the status. If watching itself fails, the run does not go on unwatched."""
        try:
            return self._watch()
        except BaseException:
            self.handle.end_group()
            raise

    def _watch(self) -> str:
        sweep, limits = self.sweep, self.sweep.spec.limits
        started_at = heard_at = perf_counter()
        given_up: tuple[str, str] | None = None
        next_sample = started_at
        while self.handle.exit_code is None:
            now = perf_counter()
            if now >= next_sample:
                self.sample(now)
                next_sample = max(next_sample + SAMPLE_EVERY_S, now)
            if self.listen(max(0.0, next_sample - perf_counter())):
                heard_at = perf_counter()
            if sweep.journal.flush_due(now):
                sweep.journal.flush()
            if sweep.cancelled:
                given_up = ("cancelled", "cancelled while it ran")
                break
            if now - started_at > limits.run_s:
                given_up = ("timeout", f"over its time limit of {limits.run_s:g} s, in stage {self.stage}")
                break
            if now - heard_at > limits.silence_s:
                given_up = ("timeout", f"no sign of life for {limits.silence_s:g} s, in stage {self.stage}")
                break
        if given_up:
            self.stop_early()
        ended_at = perf_counter()
        self.listen(0)
        exit_code = self.handle.exit_code
        self.handle.end_group()
        status, reason = given_up or self.judge(exit_code)
        self.close(status, reason, ended_at)
        return status

    def listen(self, timeout_s: float) -> bool:
        said = self.handle.wait(timeout_s)
        for message in said:
            if isinstance(message, Outcome):
                self.outcome = message
            elif isinstance(message, Sign) and message.stage:
                self.stage = message.stage
        return bool(said)

    def sample(self, now: float) -> None:
        readings = self.sweep.telemetry.sample()
        self.sweep.journal.write(Samples(self.order.run_id, round(now - self.order.requested_at, 6),
                                         [(r.device, r.metric, r.value) for r in readings if math.isfinite(r.value)]))
        for reading in readings:
            if reading.metric == "memory_available_bytes":
                self.available_bytes.append(reading.value)
        problems = self.sweep.telemetry.problems
        for problem in problems[self.sweep.problems_told :]:
            self.sweep.tell(problem, self.order.run_id)
        self.sweep.problems_told = len(problems)

    def stop_early(self) -> None:
        """Ask first, so that the last batches reach the journal; then end the whole group."""
        self.handle.ask_to_stop()
        until = perf_counter() + GRACE_S
        while self.handle.exit_code is None and perf_counter() < until:
            self.listen(0.05)

    def judge(self, exit_code: int | None) -> tuple[str, str]:
        """Status and reason of a run that ended by itself or was ended from outside."""
        if self.outcome and self.outcome.status == "cancelled":
            # This sweep did not ask for it, or it would not be judged here.
            return "killed", f"ended by SIGTERM from outside in stage {self.stage}"
        if self.outcome and not (self.outcome.status == "killed" and self.memory_ran_out()):
            return self.outcome.status, self.outcome.reason
        if self.memory_ran_out() and (self.outcome or exit_code == -signal.SIGKILL):
            return "oom", f"killed for memory in stage {self.stage} (limit {self.memory_limit_bytes} bytes)"
        if exit_code == -signal.SIGKILL:
            return "killed", f"killed from outside in stage {self.stage}"
        if exit_code is not None and exit_code < 0:
            return "failed", f"crashed with {signal.Signals(-exit_code).name} in stage {self.stage}"
        return "failed", f"ended with exit status {exit_code} in stage {self.stage}, without a result; see its log"

    def memory_ran_out(self) -> bool:
        kills = machine.oom_kill_count()
        if kills is not None and self.oom_kills_before is not None and kills > self.oom_kills_before:
            return True
        return bool(self.available_bytes) and min(self.available_bytes) < NEARLY_FULL * self.memory_limit_bytes

    def close(self, status: str, reason: str, ended_at: float) -> None:
        run_id, requested_at = self.order.run_id, self.order.requested_at
        if self.outcome:
            start_s = self.outcome.finish_from - requested_at
            self.sweep.journal.write(Stage(run_id, "finish", round(start_s, 9),
                                           round(ended_at - self.outcome.finish_from, 9)))
        self.sweep.last_run_ended_at = ended_at
        self.sweep.write(RunEnd(run_id, utc_now(), status, reason, round(ended_at - requested_at, 9)))
        self.sweep.journal.sync()
