"""What the clock costs: on empty phases alone, and in a loop of real work against the same loop without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time
from typing import Any

import torch
from comparison import Estimate, at_most, estimate, print_report, progress, ratio

from engine.journal import JournalWriter
from engine.recorder import Recorder
from engine.run import Sign

PHASES = ("load_data", "data_to_device", "forward", "backward")
BATCH_S = 0.05
FLUSH_EVERY = 10
"""Batches: a run flushes every 0.5 s, which is ten batches of 50 ms. Empty ones would not be due for thousands."""
EMPTY_ROUNDS, EMPTY_BATCHES = 40, 2000
WORK_ROUNDS, WORK_BATCHES = 45, 12


def make_recorder(folder: Path) -> tuple[Recorder, Callable[[], None]]:
    """A recorder as a run has it: a journal on disk and a link to the sweep, which is emptied by the second value."""
    ours, theirs = Pipe()

    def empty_link() -> None:
        while ours.poll():
            ours.recv()

    journal = JournalWriter(folder / "run.jsonl")
    return Recorder("run", journal, perf_counter(), lambda stage: theirs.send(Sign(stage)), folder, folder), empty_link


def measure_empty(recorder: Recorder, empty_link: Callable[[], None]) -> tuple[Estimate, Estimate]:
    """Wall and processor seconds per batch of four empty phases, flushed as often as batches of 50 ms are."""
    wall, processor = [], []
    with recorder.measure() as clock:
        load, copy, forward, backward = (clock.phase(name) for name in PHASES)
        for _ in range(EMPTY_ROUNDS):
            began, began_processor = perf_counter(), thread_time()
            for number in range(EMPTY_BATCHES):
                with load:
                    pass
                with copy:
                    pass
                with forward:
                    pass
                with backward:
                    pass
                clock.end_batch(32)
                if number % FLUSH_EVERY == 0:
                    clock.flush()
            wall.append((perf_counter() - began) / EMPTY_BATCHES)
            processor.append((thread_time() - began_processor) / EMPTY_BATCHES)
            empty_link()
    return estimate(wall), estimate(processor)


def make_work() -> Callable[[], Any]:
    """A quarter of a batch: matrix products on one thread, as many as this machine needs for it."""
    torch.set_num_threads(1)
    matrix = torch.rand(256, 256)

    def multiply(times: int) -> None:
        for _ in range(times):
            torch.mm(matrix, matrix)

    multiply(200)
    started = thread_time()
    multiply(1000)
    times = max(1, round(BATCH_S / len(PHASES) / ((thread_time() - started) / 1000)))
    return lambda: multiply(times)


def measure_work(recorder: Recorder, empty_link: Callable[[], None]) -> dict[str, dict[str, list[float]]]:
    """Wall and processor seconds per batch of each loop, by round. The three take turns batch by batch, in random
    order (a fixed one would let one of them follow the flushes more often). The timed one flushes every third or
    fourth batch of its own: three times as often as in a run."""
    work = make_work()

    def bare() -> None:
        for _ in PHASES:
            work()

    def instrumented() -> None:
        for phase in timed:
            with phase:
                work()
        clock.end_batch(32)

    draw = random.Random(0)
    loops = [("instrumented", instrumented), ("bare", bare), ("bare_again", bare)]
    wall: dict[str, list[float]] = {name: [] for name, _ in loops}
    processor: dict[str, list[float]] = {name: [] for name, _ in loops}
    with recorder.measure() as clock:
        timed = [clock.phase(name) for name in PHASES]
        for number in range(WORK_ROUNDS):
            progress(f"round {number + 1} of {WORK_ROUNDS}")
            for seconds in (*wall.values(), *processor.values()):
                seconds.append(0.0)
            for name, loop in (turn for _ in range(WORK_BATCHES) for turn in draw.sample(loops, len(loops))):
                began, began_processor = perf_counter(), thread_time()
                loop()
                wall[name][-1] += (perf_counter() - began) / WORK_BATCHES
                processor[name][-1] += (thread_time() - began_processor) / WORK_BATCHES
            empty_link()
    return {"wall": wall, "processor": processor}


def compare_work(loops: dict[str, list[float]]) -> dict[str, Estimate]:
    return {"bare_batch_s": estimate(loops["bare"]),
            "instrumented_to_bare": ratio(loops["instrumented"], loops["bare"]),
            "bare_to_bare_noise_floor": ratio(loops["bare_again"], loops["bare"])}


def main() -> None:
    with TemporaryDirectory(prefix="phaselab-bench-") as folder:
        empty, empty_processor = measure_empty(*make_recorder(Path(folder) / "empty"))
        work = measure_work(*make_recorder(Path(folder) / "work"))
    print_report(
        "instrument", "Cost of timing four phases per batch and journaling them, alone and in a loop of real work.",
        {"empty_batch_s": empty, "empty_batch_processor_s": empty_processor, "batches_per_flush": FLUSH_EVERY,
         "share_of_50_ms": empty.value / BATCH_S,
         "real_work": {time: compare_work(loops) for time, loops in work.items()}},
        [at_most("seconds per batch of four empty phases (0.1 % of 50 ms)", 0.001 * BATCH_S, empty)])


if __name__ == "__main__":
    main()
