"""The clock, on the host and on a stand-in for CUDA: a device whose timeline the test writes, and which notes every
call. It refuses what CUDA refuses (reading an event not yet reached) and what we promise never to do."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.clock import Clock
from engine.journal import Batches, JournalWriter, Metric, Stage, read_records
from engine.recorder import Recorder

NS = 1e-9


class StandInDevice:
    """One stream. Work is queued at once and done only when the test, or a synchronise, lets the device go on."""

    def __init__(self, clock_starts_ms: float = 0.0) -> None:
        self.queued_ms = self.reached_ms = clock_starts_ms
        self.calls: list[str] = []
        self.events: list[StandInEvent] = []
        self.broken = False
        self.current = 0
        """Which of several GPUs is the process's current one: events without a stream go there."""
        self.recorded_on: set[int] = set()

    def work(self, milliseconds: float) -> None:
        """What an experiment's kernels do: they are queued and take device time, no host time."""
        self.queued_ms += milliseconds
        self.calls.append("work")

    def catch_up(self, milliseconds: float | None = None) -> None:
        self.reached_ms = self.queued_ms if milliseconds is None else min(self.queued_ms,
                                                                          self.reached_ms + milliseconds)

    def event(self) -> StandInEvent:
        self.events.append(StandInEvent(self))
        return self.events[-1]

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        if self.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        self.catch_up()


class StandInEvent:
    def __init__(self, device: StandInDevice) -> None:
        self.device = device
        self.at_ms: float | None = None
        self.unread = False

    def record(self, stream: int | None = None) -> None:
        assert not self.unread, "an event was recorded again before it was read: its first time is lost"
        self.device.calls.append("record")
        self.device.recorded_on.add(self.device.current if stream is None else stream)
        self.at_ms, self.unread = self.device.queued_ms, True

    def query(self) -> bool:
        self.device.calls.append("query")
        if self.device.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return self.at_ms is not None and self.at_ms <= self.device.reached_ms

    def elapsed_time(self, end_event: Any) -> float:
        self.device.calls.append("elapsed_time")
        for event in (self, end_event):
            if event.at_ms is None or event.at_ms > self.device.reached_ms:
                raise RuntimeError("Both events must be completed before calculating elapsed time.")
            event.unread = False
        return float(end_event.at_ms - self.at_ms)


class Bench:
    """A clock whose deliveries are kept. `due` is whether each batch is a moment to flush."""

    def __init__(self, device: StandInDevice | None = None, isolated: bool = False, due: bool = True) -> None:
        self.device, self.due = device, due
        self.delivered: list[Batches] = []
        self.origin = perf_counter()
        self.clock = Clock("r", self.origin, device, isolated, self.deliver, lambda now: self.due)

    def deliver(self, batches: Batches) -> None:
        if self.device:
            self.device.calls.append("deliver")
        self.delivered.append(batches)

    def column(self, phase: str, what: str = "seconds") -> list[float | None]:
        """One phase over all batches delivered so far."""
        values: list[float | None] = []
        for batches in self.delivered:
            found = [column for column in batches.phases if column.phase == phase]
            assert len(found) <= 1
            values += getattr(found[0], what) if found else [None] * len(batches.items)
        return values

    def series(self, what: str) -> list[Any]:
        return [value for batches in self.delivered for value in getattr(batches, what)]

    def clocks(self) -> dict[str, str]:
        return {column.phase: column.clock for batches in self.delivered for column in batches.phases}


# -- the host ----------------------------------------------------------------------------------------------------------


def test_phases_on_a_cpu_are_host_time() -> None:
    bench = Bench()
    bench.clock.start()
    for _ in range(3):
        with bench.clock.phase("load_data"):
            pass
        with bench.clock.phase("inference", on_device=True):
            pass
        bench.clock.end_batch(4)
    window_s = bench.clock.stop()
    assert bench.clocks() == {"load_data": "host", "inference": "host"}
    assert bench.series("items") == [4, 4, 4]
    assert (bench.clock.batches, bench.clock.items) == (3, 12)
    for batch in range(3):
        start, end = bench.series("start_s")[batch], bench.series("start_s")[batch] + bench.series("seconds")[batch]
        load, infer = bench.column("load_data", "start_s")[batch], bench.column("inference", "start_s")[batch]
        assert start - NS <= load <= infer <= end
        assert bench.column("load_data")[batch] >= 0
        assert bench.column("load_data")[batch] + bench.column("inference")[batch] <= end - start + 4 * NS
    assert sum(bench.series("seconds")) <= window_s + 4 * NS


@pytest.mark.parametrize("mode", ["cpu", "overlapped", "isolated"])
def test_batches_tile_the_window_without_gaps(mode: str) -> None:
    """Whatever an experiment does between phases belongs to a batch: no time is lost between two of them."""
    device = None if mode == "cpu" else StandInDevice()
    bench = Bench(device, mode == "isolated")
    before = perf_counter() - bench.origin
    bench.clock.start()
    opened = perf_counter() - bench.origin
    for number in range(20):
        with bench.clock.phase("inference", on_device=True):
            pass
        sum(range(1000))  # outside of any phase
        bench.clock.end_batch(number)
    seconds = bench.clock.stop()
    starts, lengths = bench.series("start_s"), bench.series("seconds")
    assert before <= starts[0] <= opened + NS
    for start, length, following in zip(starts, lengths, starts[1:], strict=False):
        assert start + length == pytest.approx(following, abs=3 * NS)
    assert sum(lengths) <= seconds + 40 * NS


def test_phase_entered_twice_in_a_batch_is_one_row_with_the_sum() -> None:
    device = StandInDevice()
    bench = Bench(device)
    bench.clock.start()
    for first, second in [(3.0, 5.0), (1.0, 0.5)]:
        with bench.clock.phase("forward", on_device=True):
            device.work(first)
        with bench.clock.phase("backward", on_device=True):
            device.work(100.0)
        with bench.clock.phase("forward", on_device=True):
            device.work(second)
        bench.clock.end_batch(1)
    bench.clock.stop()
    assert bench.column("forward") == [0.008, 0.0015]
    starts, between = bench.column("forward", "start_s"), bench.column("backward", "start_s")
    assert between[0] - starts[0] == pytest.approx(0.003, abs=3 * NS), "it starts where it was entered first"
    assert starts[1] - starts[0] == pytest.approx(0.108, abs=3 * NS)


def test_phase_missing_in_some_batches_is_null_there() -> None:
    bench = Bench(due=False)
    bench.clock.start()
    for number in range(4):
        if number % 2:
            with bench.clock.phase("score"):
                pass
        bench.clock.end_batch(1)
    bench.clock.stop()
    assert [value is None for value in bench.column("score")] == [True, False, True, False]
    assert [value is None for value in bench.column("score", "start_s")] == [True, False, True, False]


def test_work_after_the_last_batch_is_no_batch() -> None:
    bench = Bench()
    bench.clock.start()
    bench.clock.end_batch(1)
    with bench.clock.phase("load_data"):
        pass  # the loader says that there is nothing more
    bench.clock.stop()
    assert bench.series("items") == [1]
    assert bench.clocks() == {}


def test_window_without_batches_delivers_nothing() -> None:
    bench = Bench(StandInDevice())
    bench.clock.start()
    assert bench.clock.stop() >= 0
    assert bench.delivered == []


# -- CUDA, overlapped --------------------------------------------------------------------------------------------------


def run_batches(bench: Bench, device: StandInDevice, batches: int, milliseconds: float = 7.0) -> None:
    for _ in range(batches):
        with bench.clock.phase("load_data"):
            pass
        with bench.clock.phase("data_to_device", on_device=True):
            device.work(2.0)
        with bench.clock.phase("inference", on_device=True):
            device.work(milliseconds)
        bench.clock.end_batch(8)


def test_nothing_synchronises_inside_the_window() -> None:
    device = StandInDevice()
    bench = Bench(device)
    bench.clock.start()
    device.calls.clear()
    for _ in range(5):
        run_batches(bench, device, 3)
        device.catch_up(15)
    assert "synchronize" not in device.calls
    bench.clock.stop()
    assert device.calls.count("synchronize") == 1


def test_window_opens_and_closes_with_an_idle_device() -> None:
    device = StandInDevice()
    device.work(500)  # the warm-up is still on its way
    bench = Bench(device)
    bench.clock.start()
    assert device.calls == ["work", "synchronize", "record", "synchronize"]
    run_batches(bench, device, 2)
    bench.clock.stop()
    assert device.reached_ms == device.queued_ms
    assert bench.column("inference") == [0.007, 0.007]


def test_between_enter_and_exit_of_a_phase_only_events_are_recorded() -> None:
    """Nothing of ours inside a measured phase: no query, no reading, no delivery."""
    device = StandInDevice()
    bench = Bench(device)
    bench.clock.start()
    for _ in range(6):
        device.calls.clear()
        with bench.clock.phase("inference", on_device=True):
            device.work(1.0)
        assert device.calls == ["record", "work", "record"]
        device.calls.clear()
        with bench.clock.phase("load_data"):
            pass
        assert device.calls == []
        bench.clock.end_batch(1)
        device.catch_up()
    bench.clock.stop()


def test_flush_waits_until_it_is_due() -> None:
    device = StandInDevice()
    bench = Bench(device, due=False)
    bench.clock.start()
    device.calls.clear()
    run_batches(bench, device, 5)
    device.catch_up()
    run_batches(bench, device, 1)
    assert not {"query", "elapsed_time", "deliver"} & set(device.calls), "not one look at the device before it is due"
    bench.due = True
    run_batches(bench, device, 1)
    assert bench.series("items") == [8] * 5, "of seven batches the device has passed five"
    bench.clock.stop()
    assert bench.series("items") == [8] * 7


def test_batches_are_delivered_once_the_device_has_passed_them_and_in_order() -> None:
    device = StandInDevice()
    bench = Bench(device)
    bench.clock.start()
    for milliseconds in (10.0, 1.0, 2.0):
        run_batches(bench, device, 1, milliseconds)
    assert bench.delivered == []
    device.catch_up(11.9)  # just before the end of the first batch
    bench.clock.flush()
    assert bench.delivered == []
    device.catch_up(0.1)
    bench.clock.flush()
    assert bench.column("inference") == [0.010]
    device.catch_up(3.0)
    bench.clock.flush()
    assert bench.column("inference") == [0.010, 0.001]
    bench.clock.stop()
    assert bench.column("inference") == [0.010, 0.001, 0.002]
    assert [batches.first_batch for batches in bench.delivered] == [0, 1, 2]


def test_batch_of_host_phases_waits_for_the_batches_before_it() -> None:
    device = StandInDevice()
    bench = Bench(device)
    bench.clock.start()
    run_batches(bench, device, 1)
    with bench.clock.phase("load_data"):
        pass
    bench.clock.end_batch(3)
    assert bench.delivered == []
    device.catch_up()
    bench.clock.flush()
    assert bench.series("items") == [8, 3]


def test_device_times_are_tied_to_the_host_by_the_anchor() -> None:
    """The device's own clock starts anywhere; what is told are seconds since the run's origin."""
    device = StandInDevice(clock_starts_ms=123_456.0)
    device.work(44.0)
    bench = Bench(device)
    before = perf_counter() - bench.origin
    bench.clock.start()
    after = perf_counter() - bench.origin
    device.work(250.0)
    run_batches(bench, device, 2)
    bench.clock.stop()
    copy, infer = bench.column("data_to_device", "start_s"), bench.column("inference", "start_s")
    assert before + 0.25 - NS <= copy[0] <= after + 0.25 + NS
    assert infer[0] - copy[0] == pytest.approx(0.002, abs=3 * NS)
    assert copy[1] - copy[0] == pytest.approx(0.009, abs=3 * NS)
    assert bench.clocks() == {"load_data": "host", "data_to_device": "device", "inference": "device"}


def test_events_are_used_again_only_after_they_were_read() -> None:
    """The stand-in refuses an early second use; and a long run must not make events without end."""
    device = StandInDevice()
    bench = Bench(device)
    bench.clock.start()
    for _ in range(200):
        run_batches(bench, device, 1)
        device.catch_up(9.0)
    bench.clock.stop()
    assert bench.column("inference") == [0.007] * 200
    assert len(device.events) <= 20
    lagging = StandInDevice()
    bench = Bench(lagging)
    bench.clock.start()
    run_batches(bench, lagging, 50)
    assert len(lagging.events) == 1 + 50 * 4, "none was free while the device lagged behind"
    bench.clock.stop()
    assert bench.column("inference") == [0.007] * 50


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from(["load", "copy", "infer"]), st.integers(0, 50)), max_size=4),
        st.integers(0, 120), st.booleans()),
    max_size=12)


@given(STEPS)
def test_whatever_the_device_does_each_batch_is_delivered_once_with_its_times(
        steps: list[tuple[list[tuple[str, int]], int, bool]]) -> None:
    device = StandInDevice(clock_starts_ms=5.0)
    bench = Bench(device)
    bench.clock.start()
    expected: dict[str, list[float | None]] = {"copy": [], "infer": []}
    for number, (phases, reached, due) in enumerate(steps):
        bench.due = due
        for name, milliseconds in phases:
            with bench.clock.phase(name, on_device=name != "load"):
                device.work(milliseconds)
        for name, column in expected.items():
            mine = [milliseconds for phase, milliseconds in phases if phase == name]
            column.append(sum(mine) / 1000 if mine else None)
        bench.clock.end_batch(number)
        device.catch_up(reached)
    bench.clock.stop()
    assert bench.series("items") == list(range(len(steps)))
    assert [batches.first_batch for batches in bench.delivered] == [
        sum(len(earlier.items) for earlier in bench.delivered[:index]) for index in range(len(bench.delivered))]
    for name, column in expected.items():
        assert bench.column(name) == pytest.approx(column, abs=NS)
    for batches in bench.delivered:
        lengths = {len(batches.items), len(batches.start_s), len(batches.seconds)}
        lengths |= {len(values) for column in batches.phases for values in (column.start_s, column.seconds)}
        assert lengths == {len(batches.items)}


# -- CUDA, isolated ----------------------------------------------------------------------------------------------------


def test_isolated_mode_synchronises_around_each_device_phase_and_says_so() -> None:
    device = StandInDevice()
    bench = Bench(device, isolated=True)
    bench.clock.start()
    assert device.calls == ["synchronize"]
    for _ in range(3):
        device.calls.clear()
        with bench.clock.phase("load_data"):
            pass
        assert device.calls == []
        with bench.clock.phase("data_to_device", on_device=True):
            device.work(2.0)
        with bench.clock.phase("inference", on_device=True):
            device.work(7.0)
        assert device.calls == ["synchronize", "work", "synchronize"] * 2
        bench.clock.end_batch(1)
    bench.clock.stop()
    assert bench.clocks() == {"load_data": "host", "data_to_device": "isolated", "inference": "isolated"}
    assert device.events == [], "no event is needed"
    assert len(bench.column("inference")) == 3


def test_isolated_on_a_cpu_is_host_time() -> None:
    bench = Bench(None, isolated=True)
    bench.clock.start()
    with bench.clock.phase("inference", on_device=True):
        pass
    bench.clock.end_batch(1)
    bench.clock.stop()
    assert bench.clocks() == {"inference": "host"}


# -- failures ----------------------------------------------------------------------------------------------------------


def test_phase_that_raises_leaves_the_earlier_batches_whole() -> None:
    device = StandInDevice()
    bench = Bench(device, due=False)
    bench.clock.start()
    run_batches(bench, device, 3)
    with pytest.raises(MemoryError), bench.clock.phase("inference", on_device=True):
        raise MemoryError
    bench.clock.stop()
    assert bench.column("inference") == [0.007] * 3
    assert bench.series("items") == [8] * 3


class RunOnStandIn:
    """A run whose experiment measures on `cuda:0`: the real recorder and journal, torch's CUDA calls stood in."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        self.device = StandInDevice()
        self.synchronized: list[object] = []
        monkeypatch.setattr(torch.cuda, "Event", self.event)
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "set_device", lambda index: setattr(self.device, "current", index))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda at=None: self.device.current if at is None else at)
        self.journal = JournalWriter(folder / "run.jsonl")
        self.recorder = Recorder("r", self.journal, perf_counter(), lambda stage: None, folder, folder)

    def event(self, enable_timing: bool = False) -> StandInEvent:
        assert enable_timing, "an event without timing has no time to read"
        return self.device.event()

    def synchronize(self, index: object) -> None:
        self.synchronized.append(index)
        self.device.synchronize()

    def batch(self, clock: Clock) -> None:
        with clock.phase("load_data"):
            pass
        with clock.phase("inference", on_device=True):
            self.device.work(7.0)
        clock.end_batch(8)

    def records(self, kind: type[Any]) -> list[Any]:
        self.journal.close()
        return [record for record in read_records(self.journal.path) if isinstance(record, kind)]

    def inference(self) -> list[float | None]:
        return [value for record in self.records(Batches) for column in record.phases if column.phase == "inference"
                for value in column.seconds]


@pytest.fixture
def on_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunOnStandIn:
    return RunOnStandIn(tmp_path, monkeypatch)


def test_cuda_device_is_measured_through_the_recorder(on_stand_in: RunOnStandIn) -> None:
    with on_stand_in.recorder.measure("cuda:3") as clock:
        for _ in range(4):
            on_stand_in.batch(clock)
    assert set(on_stand_in.synchronized) == {3}
    assert on_stand_in.inference() == [0.007] * 4
    assert {metric.name: metric.value for metric in on_stand_in.records(Metric)}["batches"] == 4


def test_events_are_recorded_on_the_device_that_is_measured(on_stand_in: RunOnStandIn) -> None:
    """torch records an event on the current device's stream unless told otherwise."""
    with on_stand_in.recorder.measure("cuda:3") as clock:
        on_stand_in.batch(clock)
    assert on_stand_in.device.recorded_on == {3}


def test_run_that_fails_keeps_the_batches_its_device_had_passed(on_stand_in: RunOnStandIn) -> None:
    def fail() -> None:
        with on_stand_in.recorder.measure("cuda:0") as clock:
            for _ in range(4):
                on_stand_in.batch(clock)
            on_stand_in.device.catch_up()
            raise MemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match="CUDA out of memory"):
        fail()
    assert on_stand_in.inference() == [0.007] * 4
    assert "end_to_end_s" not in {metric.name for metric in on_stand_in.records(Metric)}
    assert "measure" not in {stage.stage for stage in on_stand_in.records(Stage)}


def test_run_out_of_memory_keeps_the_batches_its_device_still_works_on(on_stand_in: RunOnStandIn) -> None:
    """The host runs ahead of the GPU: an allocation that fails in batch five says nothing against the first four."""
    def fail() -> None:
        with on_stand_in.recorder.measure("cuda:0") as clock:
            for _ in range(4):
                on_stand_in.batch(clock)
            with clock.phase("inference", on_device=True):
                raise MemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match="CUDA out of memory"):
        fail()
    assert on_stand_in.inference() == [0.007] * 4


def test_device_that_broke_does_not_hide_why_the_run_failed(on_stand_in: RunOnStandIn) -> None:
    """After a sticky CUDA error every call raises; the run's reason is what the experiment raised, host times stay."""
    def fail() -> None:
        with on_stand_in.recorder.measure("cuda:0") as clock:
            for _ in range(4):
                on_stand_in.batch(clock)
            on_stand_in.device.broken = True
            raise ValueError("this is what went wrong first")

    with pytest.raises(ValueError, match="this is what went wrong first"):
        fail()
    assert sum(len(record.items) for record in on_stand_in.records(Batches)) == 4
