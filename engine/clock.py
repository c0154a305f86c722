"""The instrument: times the batches of a measured loop and their phases, on the host and on CUDA.

Host phases use `perf_counter`. Device phases on CUDA are pairs of events on the stream, read only once the device has
passed them: nothing synchronises per phase in the default mode. The `isolated` mode synchronises around each device
phase instead. On a CPU both are `perf_counter`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from engine.journal import Batches, PhaseColumn
from engine.signals import uninterrupted

HOST, DEVICE, ISOLATED = "host", "device", "isolated"


class DeviceEvent(Protocol):
    """What the clock needs of torch.cuda.Event."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def elapsed_time(self, end_event: Any) -> float: ...


class Device(Protocol):
    """A device with a stream of its own. engine.devices makes the CUDA one."""

    def event(self) -> DeviceEvent: ...
    def synchronize(self) -> None: ...


class Span(NamedTuple):
    """One phase of one batch; an event pair stands for its times until the device has passed it."""

    phase: str
    clock: str
    start_s: float
    seconds: float
    events: tuple[DeviceEvent, DeviceEvent] | None = None


class TimedBatch(NamedTuple):
    items: int
    start_s: float
    seconds: float
    spans: list[Span]


class HostPhase:
    """Times a `with` block by perf_counter. One object per name, used again for every batch."""

    __slots__ = ("clock", "name", "_start")

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock, self.name, self._start = clock, name, 0.0

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end = perf_counter()
        self.clock._spans.append(Span(self.name, HOST, self._start - self.clock.origin, end - self._start))


class EventPhase:
    """Times a `with` block on the device's own stream by a pair of events."""

    __slots__ = ("clock", "name", "_begin", "_start")

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self._begin = self.clock._take_event()
        self._start = perf_counter()
        self._begin.record()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end = self.clock._take_event()
        end.record()
        start_s = self._start - self.clock.origin
        self.clock._spans.append(Span(self.name, DEVICE, start_s, 0.0, (self._begin, end)))


class IsolatedPhase:
    """Times a `with` block with the device idle before and after it."""

    __slots__ = ("clock", "name", "_start")

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock, self.name, self._start = clock, name, 0.0

    def __enter__(self) -> None:
        assert self.clock.device
        self.clock.device.synchronize()
        self._start = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.clock.device
        self.clock.device.synchronize()
        end = perf_counter()
        self.clock._spans.append(Span(self.name, ISOLATED, self._start - self.clock.origin, end - self._start))


class Clock:
    """Times the measured window. `origin` is the perf_counter reading that all times are relative to.

    `deliver` takes finished batches as a journal record; it is called between batches only.
    """

    def __init__(self, run_id: str, origin: float, device: Device | None, isolated: bool,
                 deliver: Callable[[Batches], None], due: Callable[[float], bool]) -> None:
        self.run_id, self.origin, self.device, self.isolated = run_id, origin, device, isolated
        self.batches = 0
        self.items = 0
        self._deliver, self._due = deliver, due
        self._phases: dict[tuple[str, bool], HostPhase | EventPhase | IsolatedPhase] = {}
        self._spans: list[Span] = []
        self._pending: deque[TimedBatch] = deque()
        self._delivered = 0
        self._free_events: list[DeviceEvent] = []
        self._anchor: DeviceEvent | None = None
        self._anchor_s = self._window_start = self._batch_start = self._paused_at = 0.0

    def start(self) -> None:
        """Open the window: the device idle, an anchor event that ties its timeline to the host's."""
        if self.device and not self.isolated:
            self._anchor = self.device.event()
            self.device.synchronize()
            self._anchor.record()
            self.device.synchronize()
            self._anchor_s = perf_counter() - self.origin
        elif self.device:
            self.device.synchronize()
        self._window_start = self._batch_start = perf_counter()

    def stop(self) -> float:
        """Close the window and return its seconds: all work on the device is finished."""
        if self.device:
            self.device.synchronize()
        seconds = perf_counter() - self._window_start
        self._spans.clear()
        self.flush(everything=True)
        return seconds

    def pause(self) -> float:
        """Stand still for something that is not measured here; returns the moment. All work on the device is done."""
        if self.device:
            self.device.synchronize()
        self._paused_at = perf_counter()
        return self._paused_at

    def go_on(self) -> float:
        """The window is shorter by the pause, and the next batch begins now."""
        if self.device:
            self.device.synchronize()
        now = perf_counter()
        self._window_start += now - self._paused_at
        self._batch_start = now
        return now

    def phase(self, name: str, on_device: bool = False) -> HostPhase | EventPhase | IsolatedPhase:
        """`with clock.phase("inference", on_device=True): ...`. Phases of one batch follow each other."""
        found = self._phases.get((name, on_device))
        if found is None:
            kind = HostPhase if not (on_device and self.device) else IsolatedPhase if self.isolated else EventPhase
            found = self._phases[name, on_device] = kind(self, name)
        return found

    def end_batch(self, items: int) -> None:
        """Everything since the last end (or the window's start) was one batch of so many items."""
        now = perf_counter()
        self._pending.append(TimedBatch(items, self._batch_start - self.origin, now - self._batch_start, self._spans))
        self._spans = []
        self._batch_start = now
        self.batches += 1
        self.items += items
        if self._due(now):
            self.flush()

    def flush(self, everything: bool = False) -> None:
        """Deliver the batches whose device work is done. Only the end of the window waits for all of it."""
        with uninterrupted():
            ready = []
            while self._pending and (everything or self._passed(self._pending[0])):
                ready.append(self._pending.popleft())
            if ready:
                self._deliver(self._columns(ready))

    def flush_after_failure(self) -> None:
        """Deliver what can still be known; a device that is broken must not hide the error that broke it."""
        try:
            if self.device:
                self.device.synchronize()
            self.flush(everything=True)
        except Exception as error:
            print(f"device times of the last batches are lost: {error}", file=sys.stderr)
            for batch in self._pending:
                batch.spans[:] = [span for span in batch.spans if span.events is None]
            self.flush(everything=True)

    def _passed(self, batch: TimedBatch) -> bool:
        return all(span.events is None or span.events[1].query() for span in batch.spans)

    def _take_event(self) -> DeviceEvent:
        assert self.device
        return self._free_events.pop() if self._free_events else self.device.event()

    def _resolve(self, span: Span) -> Span:
        """Event times are milliseconds between events; the anchor ties them to the run's own time."""
        if span.events is None:
            return span
        begin, end = span.events
        assert self._anchor, "device phases are timed inside the window only"
        start_s = self._anchor_s + self._anchor.elapsed_time(begin) / 1000
        seconds = begin.elapsed_time(end) / 1000
        self._free_events += [begin, end]
        return Span(span.phase, span.clock, start_s, seconds)

    def _columns(self, ready: list[TimedBatch]) -> Batches:
        count = len(ready)
        starts: dict[tuple[str, str], list[float | None]] = {}
        seconds: dict[tuple[str, str], list[float | None]] = {}
        for index, batch in enumerate(ready):
            for span in batch.spans:
                resolved = self._resolve(span)
                column = (resolved.phase, resolved.clock)
                if column not in starts:
                    starts[column], seconds[column] = [None] * count, [None] * count
                earlier = seconds[column][index]
                if earlier is None:
                    starts[column][index] = round(resolved.start_s, 9)
                # A phase entered twice in one batch (gradient accumulation) is one row with the sum.
                seconds[column][index] = round(resolved.seconds + (earlier or 0.0), 9)
        first = self._delivered
        self._delivered += count
        return Batches(
            self.run_id, first, [b.items for b in ready], [round(b.start_s, 9) for b in ready],
            [round(b.seconds, 9) for b in ready],
            [PhaseColumn(name, clock, starts[name, clock], seconds[name, clock]) for name, clock in starts],
        )
