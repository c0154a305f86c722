"""How much the same piece of work varies on this machine now: a fixed small load for some seconds, in a process of its
own, first on one core and then on all that are allowed. The result is kept in the lab's folder."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, sleep
from typing import Annotated, Any, NamedTuple

import msgspec
import psutil

from engine import queue
from engine.files import write_atomically
from engine.home import PROJECT, Home, whole_paths
from engine.machine import cpu_allowance
from engine.moment import utc_now
from engine.nvml import Gpus
from engine.params import InputError
from engine.telemetry import Telemetry

CHECK_S = 5.0
LONGEST_S = 60.0
PIECE_S = 0.004
"""About as long as a scheduler's time slice: an interruption is a visible part of a piece, and the clock is not."""
LEAST_PIECES = 20
START_LIMIT_S = 30.0
TELL_EVERY_S = 0.25
REFUSED = 2
BLOCK = bytes(range(256)) * 64  # 16 KiB: fits the first cache, so that memory plays no part

Seconds = Annotated[float, msgspec.Meta(gt=0, lt=1e6)]
Track = Annotated[list[Seconds], msgspec.Meta(min_length=LEAST_PIECES)]


class CheckPart(msgspec.Struct, forbid_unknown_fields=True):
    """The same piece of work, again and again, on one process or on several at once."""

    name: str
    start_s: float  # since the check began
    seconds: Seconds
    tracks: Annotated[list[Track], msgspec.Meta(min_length=1)]  # the times of each process's pieces, in order
    preemptions: int  # how often the kernel took a core away from a process that had work to do


class NoiseCheck(msgspec.Struct, forbid_unknown_fields=True):
    """One check as it was measured. What could not be read is None."""

    checked_at: str
    hostname: str
    seconds: Seconds
    cores_allowed: float
    parts: Annotated[list[CheckPart], msgspec.Meta(min_length=1)]
    others_cpu_cores: float | None
    steal_share: float | None
    frequency_hz: tuple[float, float] | None  # lowest and highest core, just after the load
    gpu_busy: dict[str, float]  # share of time in which some kernel ran, by device
    form: int = 1


def kept_at(home: Home) -> Path:
    return home.noise_check


def read_last(home: Home) -> NoiseCheck | None:
    """The last check of this lab. A file that cannot be read counts as none: the next check replaces it."""
    try:
        return msgspec.json.decode(kept_at(home).read_bytes(), type=NoiseCheck)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def run_check(home: Home, seconds: float = CHECK_S,
              progress: Callable[[float], None] = lambda share: None) -> NoiseCheck:
    """Run the check and keep it; `progress` hears shares from 0 to 1. Refused while anything is measured here."""
    if not 0 < seconds <= LONGEST_S:
        raise InputError(f"seconds={seconds}: must be more than 0 and at most {LONGEST_S:g}")
    refuse_while_measuring(home)
    home.root.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen([sys.executable, "-m", "engine.noise_check", str(home.root), repr(seconds)],
                               cwd=PROJECT, env={**os.environ, **whole_paths()}, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    began = perf_counter()
    try:
        # Few looks: whoever waits here uses the machine that is checked.
        while process.poll() is None:
            if perf_counter() - began > seconds + START_LIMIT_S:
                raise InputError(f"the noise check did not end within {seconds + START_LIMIT_S:g} s: this machine is "
                                 "too busy to be checked; see what else is running")
            progress(min(1.0, (perf_counter() - began) / (seconds + 0.5)))
            sleep(min(TELL_EVERY_S, seconds / 4))
        said, trouble = process.communicate()
    finally:
        # Also when the page that asked has gone meanwhile.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its own group: it has not been waited for, so the number is its
            process.communicate()
    if process.returncode == REFUSED:
        raise InputError(said.strip())
    check = read_last(home) if process.returncode == 0 else None
    if check is None:
        reason = (trouble.strip().splitlines() or [f"its process ended with {process.returncode}"])[-1]
        raise InputError(f"the noise check failed: {reason}")
    progress(1.0)
    return check


def refuse_while_measuring(home: Home) -> None:
    measuring = [entry.sweep_id for entry in queue.read_queue(home).entries if entry.state == "measuring"]
    if measuring:
        raise InputError(f"sweep {measuring[0]} is being measured now and a check would disturb it; wait until it has "
                         "ended or pause it")


# -- the check's own process -------------------------------------------------------------------------------------------


def main(root: str, seconds: str) -> None:
    home = Home(Path(root))
    # Held by the process that makes the load, so that the two end together; a sweep that wants to start waits.
    lock = queue.MachineLock()
    if not lock.try_to_take():
        print("this machine is being measured now, by another lab or by another check; wait until that has ended")
        sys.exit(REFUSED)
    try:
        refuse_while_measuring(home)
    except InputError as error:
        print(error)
        sys.exit(REFUSED)
    check = measure(float(seconds))
    write_atomically(kept_at(home), msgspec.json.encode(check))


def measure(seconds: float) -> NoiseCheck:
    allowance = cpu_allowance()
    processes = max(1, int(allowance.cores))
    gpus = Gpus.open()
    telemetry = Telemetry(gpus)
    telemetry.watch(os.getpid(), [device.index for device in gpus.devices])
    gpu_busy = {r.device: r.value for r in telemetry.sample() if r.metric == "gpu_utilization"}
    rounds = calibrate()
    telemetry.sample()
    began = perf_counter()
    # One core has nothing to compare: it works alone all the time.
    share = seconds / 2 if processes > 1 else seconds
    parts = [work_together("on one core", 1, rounds, share, began)]
    if processes > 1:
        parts.append(work_together(f"on {processes} cores at once", processes, rounds, share, began))
    took = perf_counter() - began
    rates = {reading.metric: reading.value for reading in telemetry.sample() if reading.device == "cpu"}
    gpus.close()
    return NoiseCheck(utc_now(), os.uname().nodename, took, allowance.cores, parts, rates.get("others_cpu_cores"),
                      rates.get("steal_share"), _frequency_hz(), gpu_busy)


def calibrate() -> int:
    """How often the block is hashed in one piece. The quickest of some tries: interruptions only make it slower."""
    rounds = 8
    while True:
        quickest = min(_time_piece(rounds) for _ in range(5))
        if quickest >= PIECE_S / 4:
            return max(1, round(rounds * PIECE_S / quickest))
        rounds *= 2


def work_together(name: str, processes: int, rounds: int, seconds: float, began: float) -> CheckPart:
    """The load on so many fresh processes, all begun at the same moment."""
    # Fork is safe here: this process has one thread and has started nothing.
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes + 1)
    links, workers = [], []
    for _ in range(processes):
        ours, theirs = context.Pipe(duplex=False)
        workers.append(context.Process(target=_work, args=(rounds, seconds, barrier, theirs), daemon=True))
        workers[-1].start()
        theirs.close()
        links.append(ours)
    barrier.wait(START_LIMIT_S)
    answers: list[_Worked] = [link.recv() for link in links]
    for worker in workers:
        worker.join()
    # Their own times, on the clock that all processes share: on a busy machine this process leaves the barrier late.
    start, end = min(answer.start for answer in answers), max(answer.end for answer in answers)
    return CheckPart(name, start - began, end - start, [answer.track for answer in answers],
                     sum(answer.preempted for answer in answers))


class _Worked(NamedTuple):
    start: float
    end: float
    track: list[float]
    preempted: int


def _work(rounds: int, seconds: float, barrier: Any, link: Connection) -> None:
    gc.disable()
    _time_piece(rounds)  # the code and the block are in the caches
    barrier.wait(START_LIMIT_S)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    start = perf_counter()
    track: list[float] = []
    while perf_counter() < start + seconds or len(track) < LEAST_PIECES:
        track.append(_time_piece(rounds))
    end = perf_counter()
    preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before
    link.send(_Worked(start, end, [round(piece, 9) for piece in track], preempted))


def _time_piece(rounds: int) -> float:
    """A pure computation of a fixed size on one thread: no memory to wait for, no file, no lock."""
    begin = perf_counter()
    digest = hashlib.sha256()
    for _ in range(rounds):
        digest.update(BLOCK)
    digest.digest()
    return perf_counter() - begin


def _frequency_hz() -> tuple[float, float] | None:
    """psutil tells MHz, and in some virtual machines nothing, or a constant."""
    try:
        found = [core.current * 1e6 for core in psutil.cpu_freq(percpu=True) if core.current > 0]
    except (OSError, NotImplementedError, AttributeError):
        return None
    return (min(found), max(found)) if found else None


if __name__ == "__main__":
    main(*sys.argv[1:])
