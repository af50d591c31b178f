"""Times by pairs of CUDA events around each operation of a workload: needs cuda-python only.

Such an interval is a bracket. It begins when the event ahead of the operation completes and ends with the
event behind it, so waiting for SMs or a copy engine is inside, and so is the events' own time. The header
says how long an empty bracket takes, how fine the steps are, and how well the host's clock is known against
the device's.

Records are made at the end, in CUPTI's layout, so that everything behind the backend is the same.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from overlane_collect._cuda import DriverError, Gpu
from overlane_collect._cupti import needed_calls
from overlane_collect.activities import pack_records
from overlane_collect.backends.base import Options, Sink
from overlane_collect.backends.event_log import Call, CallLog, Operation, Places, described
from overlane_collect.errors import CollectError
from overlane_collect.machine import machine_facts

__all__ = ["CudaEventsBackend"]

_TIMING = 0
_NON_BLOCKING = 1
_CLOCK_TRIES = 16
_EMPTY_BRACKETS = 64
_READY_EVENTS = 64
_NOT_CAPTURING = 0


class _Base(NamedTuple):
    """A moment known on both clocks.

    Attributes:
        event: Event that completed at it.
        at_ns: Host's clock.
        error_ns: How far off that may be.
    """

    event: Any
    at_ns: int
    error_ns: int


class _Bracket(NamedTuple):
    """Events around one operation."""

    operation: Operation
    base: _Base
    begin: Any
    end: Any


class CudaEventsBackend:
    """Brackets the operations of one workload; told of them as the observer of its `Gpu`."""

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._gpu: Gpu | None = None
        self._places = Places()
        self._calls = CallLog()
        self._bases: dict[int, _Base] = {}
        self._context = 0
        self._spare: dict[int, list[Any]] = {}
        self._open: tuple[Operation, Any] | None = None
        self._number: int | None = None
        self._brackets: list[_Bracket] = []
        self._own = False  # while this backend makes driver calls itself

    def start(self, sink: Sink, options: Options) -> None:
        """Begin to record; brackets begin with `attach`."""
        del options
        self._sink = sink

    def attach(self, gpu: Gpu) -> None:
        """Bracket the operations of a device from now on."""
        self.entered(gpu)

    def entered(self, gpu: Gpu) -> None:
        """Find a moment that is known on both clocks, for the events of this context."""
        gpu.observer = self
        self._gpu = gpu
        context = int(gpu.context)
        self._context = context
        if context not in self._bases:
            self._places.context(self._device(), context, parent=None, sm_count=self._sm_count())
            self._spare[context] = [self._call("cuEventCreate", _TIMING) for _ in range(_READY_EVENTS)]
            self._bases[context] = self._synchronized_moment()

    def now(self) -> int:
        """Return the host's clock, in ns."""
        return time.monotonic_ns()

    timestamp = now

    def before(self, name: str, arguments: Sequence[Any], what: str) -> None:
        """Record the event ahead of an operation; nothing while its stream is captured into a graph."""
        assert self._gpu is not None  # noqa: S101 - observed only once attached
        operation = described(self._gpu, name, arguments, what)
        if operation is None or self._captured(operation.stream):
            return
        event = self._event()
        self._call("cuEventRecord", event, operation.stream)
        self._open = (operation, event)

    def called(self, name: str, arguments: Sequence[Any], given: Any, began_ns: int, result: int) -> None:
        """Keep a call of the workload, and learn of streams and contexts that it made."""
        if self._own:
            return
        ended = self.now()
        if result == 0:
            self._learn(name, arguments, given)
        if needed_calls([name]):
            stream = self._calls.stream_of(name, arguments)
            captured = stream is not None and self._captured(stream)
            call = Call(name, arguments, began_ns, ended, result, self._context, self._number, captured)
            self._calls.add(call)

    def after(self) -> None:
        """Record the event behind the operation."""
        if self._open is None:
            return
        (operation, begin), self._open = self._open, None
        end = self._event()
        self._call("cuEventRecord", end, operation.stream)
        operation = operation._replace(correlation=self._calls.last, context=self._context)
        self._brackets.append(_Bracket(operation, self._bases[self._context], begin, end))

    def push_external(self, number: int) -> None:
        """Mark what is started from now on with a number."""
        self._number = number

    def pop_external(self) -> None:
        """End the mark."""
        self._number = None

    def context_id(self, context: int) -> int:
        """Return the records' number of a context."""
        return self._places.context_id(context)

    def stream_id(self, context: int, stream: int) -> int:
        """Return the records' number of a stream of a context."""
        del context
        return self._places.stream_id(stream)

    def flush(self) -> None:
        """Do nothing: the times of events are asked for at the end, where it holds nothing up."""

    def pause(self) -> None:
        """Refuse: a workload is bracketed whole.

        Raises:
            CollectError: Always.
        """
        raise CollectError("the backend cuda_events records whole workloads only; use cupti")

    resume = pause

    def watch_profiler_calls(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Refuse, see `pause`."""
        del begin, end
        self.pause()

    def watch_ranges(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Refuse, see `pause`."""
        del name, begin, end
        self.pause()

    def stop(self, *, calibrate: bool = False) -> None:
        """Ask for the times of all events, and give the sink the records."""
        del calibrate
        assert self._sink is not None  # noqa: S101 - the recorder stops only what it started
        self._sink.fact(
            "cupti",
            version=0,
            kinds=[],
            left_out=[],
            refused={},
            calls={"runtime": {}, "driver": self._calls.names},
        )
        if self._gpu is not None:
            try:
                self._give(self._sink)
            except DriverError as error:  # after a fault no event can be asked for its time
                self._sink.fact("unreadable", reason=str(error), bytes=0)
        self._sink.fact("machine", **machine_facts())
        self._sink.fact("cost", buffers=0, records=0, processing_ns=0, unreadable_bytes=0, dropped=0)

    def _give(self, sink: Sink) -> None:
        assert self._gpu is not None  # noqa: S101 - the caller checks
        steps, empty = self._resolution()
        after = self._synchronized_moment()
        base = self._bases[self._context]
        drift = abs(after.at_ns - base.at_ns - self._elapsed_ns(base.event, after.event))
        sink.fact(
            "brackets",
            resolution_ns=steps,
            empty_ns=empty,
            clock_error_ns=max(base.error_ns, after.error_ns, drift),
            operations=len(self._brackets),
        )
        rows = self._places.rows(sink.strings)
        for operation, base, begin, end in self._brackets:
            start = base.at_ns + self._elapsed_ns(base.event, begin)
            stop = max(base.at_ns + self._elapsed_ns(base.event, end), start)
            kind, row = self._places.operation_row(operation, sink.strings)
            rows.setdefault(kind, []).append({**row, "start": start, "end": stop})
        for kind, more in self._calls.rows(self._places).items():
            rows.setdefault(kind, []).extend(more)
        for kind, found in rows.items():
            sink.records(kind, pack_records(kind, found))
        sink.fact("per_thread_stream", context_id=1, stream_id=self._places.per_thread_id)

    def _resolution(self) -> tuple[int, int]:
        """Return the smallest step between times, and how long an empty bracket takes, in ns."""
        stream = self._call("cuStreamCreate", _NON_BLOCKING)
        times = []
        for _ in range(_EMPTY_BRACKETS):
            begin, end = self._event(), self._event()
            self._call("cuEventRecord", begin, stream)
            self._call("cuEventRecord", end, stream)
            self._call("cuStreamSynchronize", stream)
            times.append(self._elapsed_ns(begin, end))
        self._call("cuStreamDestroy", stream)
        distinct = sorted(set(times))
        steps = [b - a for a, b in itertools.pairwise(distinct)]
        return (min(steps) if steps else 0), int(statistics.median(times))

    def _synchronized_moment(self) -> _Base:
        """Return the best of some tries: an idle stream completes an event between two looks at the clock."""
        stream = self._call("cuStreamCreate", _NON_BLOCKING)
        best: _Base | None = None
        for _ in range(_CLOCK_TRIES):
            event = self._call("cuEventCreate", _TIMING)
            began = self.now()
            self._call("cuEventRecord", event, stream)
            self._call("cuEventSynchronize", event)
            ended = self.now()
            error = (ended - began + 1) // 2
            if best is None or error < best.error_ns:
                best = _Base(event, (began + ended) // 2, error)
        self._call("cuStreamDestroy", stream)
        assert best is not None  # noqa: S101 - at least one try
        return best

    def _elapsed_ns(self, begin: Any, end: Any) -> int:
        return round(float(self._call("cuEventElapsedTime", begin, end)) * 1e6)

    def _event(self) -> Any:
        spare = self._spare[self._context]
        return spare.pop() if spare else self._call("cuEventCreate", _TIMING)

    def _captured(self, stream: int) -> bool:
        return int(self._call("cuStreamIsCapturing", stream)) != _NOT_CAPTURING

    def _learn(self, name: str, arguments: Sequence[Any], given: Any) -> None:
        """Note streams and green contexts as they are made."""
        if name == "cuStreamCreateWithPriority":
            flags, priority = arguments
            self._places.stream(int(given), self._context, blocking=not flags, priority=priority)
        elif name == "cuGreenCtxStreamCreate":
            partition, _, priority = arguments
            context = int(self._call("cuCtxFromGreenCtx", partition))
            self._places.stream(int(given), context, blocking=False, priority=priority)
        elif name == "cuGreenCtxCreate":
            context = int(self._call("cuCtxFromGreenCtx", given))
            assert self._gpu is not None  # noqa: S101 - observed only once attached
            kind = self._gpu.driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
            count = int(self._call("cuGreenCtxGetDevResource", given, kind).sm.smCount)
            self._places.context(self._device(), context, parent=self._context, sm_count=count)

    def _device(self) -> int:
        """Return the ordinal of the current device, whose facts are noted."""
        assert self._gpu is not None  # noqa: S101 - observed only once attached
        gpu, device = self._gpu, int(self._gpu.device)
        if not self._places.has_device(device):
            self._own = True
            try:
                name = self._call("cuDeviceGetName", 100, gpu.device)
                self._places.device(
                    device,
                    (name if isinstance(name, str) else bytes(name).split(b"\0")[0].decode()),
                    int(self._call("cuDeviceTotalMem", gpu.device)),
                    {n: gpu.attribute(a) for n, a in Places.ATTRIBUTES.items()},
                )
            finally:
                self._own = False
        return device

    def _sm_count(self) -> int:
        return self._places.sm_count(self._device())

    def _call(self, name: str, *arguments: Any) -> Any:
        """Make a driver call of our own, which is not part of the workload."""
        assert self._gpu is not None  # noqa: S101 - attached before any call
        before, self._own = self._own, True
        try:
            return self._gpu.call(name, *arguments, what="cuda_events")
        finally:
            self._own = before
