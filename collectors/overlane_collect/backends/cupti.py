"""Records of CUPTI's activity interface.

CUPTI fills buffers while the program runs; a full or flushed buffer is only noted by the callback. The
recorder's thread cuts the noted buffers into records, numbers their texts and gives them to the sink, so no
decoding happens on a thread that launches.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from overlane_collect._callbacks import CUDA_INITIALIZED, RESOURCE, Callbacks
from overlane_collect._cupti import Cupti, needed_calls
from overlane_collect.activities import LAYOUTS, Kind, RecordSizeError, split_buffer
from overlane_collect.backends.arguments import ArgumentWatch
from overlane_collect.backends.base import DEFAULT_KINDS, Options, Sink
from overlane_collect.backends.calibration import batches, compared, launcher
from overlane_collect.backends.graphs import GraphWatch
from overlane_collect.backends.kinds import KIND_NUMBERS, OPTIONAL, PLACES
from overlane_collect.backends.triggers import watch_profiler_calls, watch_ranges
from overlane_collect.machine import cuda_is_initialized, finish_device_work, machine_facts
from overlane_collect.strings import number_pointers

__all__ = ["CuptiBackend"]

_COMMAND_BUFFER_FULL = 6 << 16  # CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL: has data of its own
_CALLS = (Kind.RUNTIME, Kind.DRIVER)
_READY_BUFFERS = 4  # a program's threads ask for a few between two flushes
_SPARE_BUFFERS = 8  # more than a program's threads fill at once between two flushes


class CuptiBackend:
    """Records through CUPTI; one per process."""

    def __init__(self) -> None:
        self._loaded: Cupti | None = None
        self._sizes: dict[int, int] = {}
        self._lent: dict[int, Any] = {}
        self._spare: deque[Any] = deque()
        self._full: deque[tuple[int, int]] = deque()
        self._sink: Sink | None = None
        self._callbacks: Callbacks | None = None
        self._watches: list[GraphWatch | ArgumentWatch] = []
        self._options = Options()
        self._skipped: tuple[int, ...] = ()
        self._own: list[tuple[int, int, int]] = []  # calls of ours: begin, end, thread
        self._discarding = False
        self._kinds: list[int] = []
        self._calls: dict[str, dict[int, str]] = {}
        self._buffer_words = 0
        self._registered = False
        self._launch_stamps = False
        self._cost = {"buffers": 0, "records": 0, "processing_ns": 0, "unreadable_bytes": 0, "dropped": 0}

    @property
    def _cupti(self) -> Cupti:
        assert self._loaded is not None  # noqa: S101 - loaded by `start`, which comes first
        return self._loaded

    def start(self, sink: Sink, options: Options) -> None:
        """Begin to record.

        Raises:
            NoGpuError: Another tool uses CUPTI, or this user may not.
        """
        self._sink = sink
        self._options = options
        refused: dict[str, str] = {}
        if not self._registered:
            self._loaded = Cupti(newest=options.thorough)
            self._buffer_words = options.buffer_bytes // 8
            self._callbacks = Callbacks(self._cupti)
            self._launch_stamps = self._cupti.fits_driver or options.thorough
            refused |= self._cupti.configure(launch_stamps=self._launch_stamps)
            self._cupti.register(self._requested, self._completed)
            self._watches.append(GraphWatch(self._cupti, self._callbacks))
            if options.accesses:
                self._watches.append(ArgumentWatch(self._cupti, self._callbacks))
            self._registered = True
        assert self._callbacks is not None  # noqa: S101 - made when registering
        self._fill_spare()
        self._skipped = ()
        self._kinds = self._enable_kinds(options, refused)
        if "counters" in options.kinds:
            if cuda_is_initialized():
                self._enable_managed_memory()
            else:
                self._callbacks.on(RESOURCE, (CUDA_INITIALIZED,), lambda _: self._enable_managed_memory())
        self._calls = {api: self._enable_calls(api, options, refused) for api in ("runtime", "driver")}
        sink.fact(
            "cupti",
            version=self._cupti.version,
            library=str(self._cupti.path),
            package_version=self._cupti.package_version,
            fits_driver=self._cupti.fits_driver,
            launch_stamps=self._launch_stamps,
            kinds=[LAYOUTS[kind].name for kind in self._kinds],
            left_out=sorted(set(DEFAULT_KINDS) - set(options.kinds)),
            accesses=options.accesses,
            graph_edges=True,
            refused=refused,
            calls=self._calls,
        )

    def flush(self) -> None:
        """Give the sink what is complete."""
        self._cupti.flush(force=False)
        self._drain()

    def stop(self, *, calibrate: bool = False) -> None:
        """End the recording and give the sink everything.

        Args:
            calibrate: Measure what a launch costs while recording, once all is recorded.
        """
        assert self._sink is not None  # noqa: S101 - the recorder stops only what it started
        stream = self._cupti.per_thread_stream()
        self._finish_work()
        self._cupti.flush(force=True)
        self._drain()
        if calibrate:
            self._calibrate(self._sink)
        else:
            self._disable()
        self._cupti.flush(force=True)
        self._drain()
        self._discarding = False
        if stream is not None:
            self._sink.fact("per_thread_stream", context_id=stream[0], stream_id=stream[1])
        self._sink.fact("machine", **machine_facts())
        self._sink.fact("cost", **self._cost)
        if self._callbacks is not None and self._callbacks.failures:
            self._sink.fact("callback_failures", sentences=self._callbacks.failures)

    def pause(self) -> None:
        """Record only where work could run from now on, and allocations if accesses are looked up in them.

        Calls stay switched on, since the library does not record them again once they were off; they are left
        out when buffers are cut.
        """
        self._finish_work()
        kept = {*PLACES, Kind.NAME, *((Kind.MEMORY2,) if self._options.accesses else ())}
        for kind in self._kinds:
            if kind not in kept:
                self._cupti.disable(kind)
        self._cupti.flush(force=True)
        self._drain()
        self._skipped = _CALLS

    def resume(self) -> None:
        """Record everything again."""
        self._cupti.flush(force=True)
        self._drain()
        self._skipped = ()
        for kind in self._kinds:
            self._cupti.enable(kind)

    def watch_profiler_calls(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Call `begin` when the program starts the profiler, and `end` before it stops it."""
        assert self._callbacks is not None  # noqa: S101 - made by `start`, which comes first
        watch_profiler_calls(self._callbacks, begin, end)

    def watch_ranges(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Call `begin` and `end` with each NVTX range of a name."""
        assert self._callbacks is not None  # noqa: S101 - made by `start`, which comes first
        watch_ranges(self._callbacks, name, begin, end)

    def _disable(self) -> None:
        """Record nothing any more."""
        for api, names in self._calls.items():
            for number in names:
                self._cupti.enable_call(api, number, enable=False)
        for kind in self._kinds:
            self._cupti.disable(kind)

    def _calibrate(self, sink: Sink) -> None:
        """Launch batches of empty kernels, first as everything is recorded, then as nothing is.

        What is recorded of them is thrown away.
        """
        self._discarding = True
        if not cuda_is_initialized():
            self._disable()
            return
        with launcher() as made:
            recorded = [] if made is None else batches(*made)
            self._disable()
            if made is not None:
                sink.fact("calibration", **compared(recorded, batches(*made)))

    def _without_own(self, records: Any) -> Any:
        """Return the records of calls that the program made itself."""
        for began, ended, thread in self._own:
            mine = (records["start"] >= began) & (records["end"] <= ended) & (records["thread_id"] == thread)
            records = records[~mine]
        return records

    def _finish_work(self) -> None:
        """Wait for what was begun, since its records would have no end; without recording the wait."""
        if Kind.SYNCHRONIZATION in self._kinds:
            self._cupti.disable(Kind.SYNCHRONIZATION)
        began = self.timestamp()
        finish_device_work()
        self._own.append((began, self.timestamp(), threading.get_native_id()))

    def timestamp(self) -> int:
        """Return CUPTI's clock in ns."""
        return self._cupti.timestamp()

    def context_id(self, context: int) -> int:
        """Return the records' number of a context."""
        return self._cupti.context_id(context)

    def stream_id(self, context: int, stream: int) -> int:
        """Return the records' number of a stream of a context."""
        return self._cupti.stream_id(context, stream)

    def push_external(self, number: int) -> None:
        """Mark what this thread starts from now on with a number of our own."""
        self._cupti.push_external(number)

    def pop_external(self) -> None:
        """End the mark that `push_external` set."""
        self._cupti.pop_external()

    def _enable_kinds(self, options: Options, refused: dict[str, str]) -> list[int]:
        """Enable what is asked for, and return what the library agreed to."""
        wanted = list(PLACES)
        for name in options.kinds:
            wanted += KIND_NUMBERS[name]
        for option, kinds in OPTIONAL.items():
            if getattr(options, option):
                wanted += kinds
        if Kind.MANAGED_MEMORY in wanted:
            wanted.remove(Kind.MANAGED_MEMORY)  # only once CUDA is there
        enabled = []
        for kind in wanted:
            reason = self._cupti.enable(kind)
            if reason:
                refused[LAYOUTS[kind].name] = reason
            else:
                enabled.append(kind)
        return enabled

    def _enable_managed_memory(self) -> None:
        if Kind.MANAGED_MEMORY in self._kinds:
            return
        reason = self._cupti.configure_managed_memory() or self._cupti.enable(Kind.MANAGED_MEMORY)
        if not reason:
            self._kinds.append(Kind.MANAGED_MEMORY)
        assert self._sink is not None  # noqa: S101 - called from `start` on
        self._sink.fact("managed_memory", refused=reason)

    def _enable_calls(self, api: str, options: Options, refused: dict[str, str]) -> dict[int, str]:
        names = self._cupti.call_names(api)
        if options.calls == "none":
            return {}
        if options.calls == "needed":
            needed = set(needed_calls(names.values()))
            names = {number: name for number, name in names.items() if name in needed}
        enabled = {}
        for number, name in names.items():
            reason = self._cupti.enable_call(api, number)
            if reason:  # an older driver does not know the newest calls
                refused.setdefault(f"{api} calls", f"{reason}: ")
                refused[f"{api} calls"] += f"{name} "
            else:
                enabled[number] = name
        return enabled

    def _fill_spare(self) -> None:
        """Keep some buffers ready, their pages touched: else a launch pays for the memory's first use."""
        while len(self._spare) < _READY_BUFFERS:
            words = np.zeros(self._buffer_words, np.uint64)
            words.fill(0)
            self._spare.append(words)

    def _requested(self) -> tuple[int, int]:
        """Lend CUPTI a cleared buffer."""
        try:
            words = self._spare.popleft()
        except IndexError:
            words = np.zeros(self._buffer_words, np.uint64)
        address = words.ctypes.data
        self._lent[address] = words
        return address, words.nbytes

    def _completed(self, address: int, valid: int) -> None:
        self._full.append((address, valid))

    def _drain(self) -> None:
        """Give the sink the records of all buffers that CUPTI gave back."""
        while self._full:
            began = time.thread_time_ns()
            address, valid = self._full.popleft()
            words = self._lent.pop(address)
            if valid and not self._discarding:
                self._buffer(words[: valid // 8], address, valid)
                self._cost["buffers"] += 1
            if len(self._spare) < _SPARE_BUFFERS:
                ctypes.memset(address, 0, valid)
                self._spare.append(words)
            self._cost["processing_ns"] += time.thread_time_ns() - began
        assert self._sink is not None  # noqa: S101 - CUPTI has buffers only after `start`
        for watch in self._watches:
            watch.give(self._sink)
        self._fill_spare()
        self._cost["dropped"] += self._cupti.dropped()

    def _buffer(self, words: Any, address: int, valid: int) -> None:
        assert self._sink is not None  # noqa: S101 - CUPTI has buffers only after `start`
        try:
            parts = split_buffer(
                words, self._sizes, lambda offset: self._cupti.record_bytes(address, valid, offset)
            )
        except RecordSizeError as error:
            self._cost["unreadable_bytes"] += valid
            self._sink.fact("unreadable", reason=str(error), bytes=valid)
            return
        for kind, records in parts.items():
            layout = LAYOUTS.get(kind)
            if layout is None or kind in self._skipped:
                continue  # a kind that nobody asked for, or not now
            for field in layout.pointers:
                if field in (records.dtype.names or ()):
                    number_pointers(records, field, self._sink.strings)
            if kind == Kind.OVERHEAD and "channel_id" in (records.dtype.names or ()):
                _take_channels(records)
            kept = self._without_own(records) if kind in _CALLS else records
            if len(kept):
                self._sink.records(kind, kept)
            self._cost["records"] += len(records)


def _take_channels(records: Any) -> None:
    """Replace pointers to the data of full command buffers by channel plus one, and free that data."""
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    pointers = records["channel_id"]
    for row in np.flatnonzero(pointers).tolist():
        pointer = int(pointers[row])
        channel = ctypes.c_uint32.from_address(pointer + 4).value
        libc.free(pointer)  # CUPTI hands this memory over
        pointers[row] = channel + 1 if records["overhead_kind"][row] == _COMMAND_BUFFER_FULL else 0
