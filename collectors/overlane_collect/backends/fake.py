"""A backend that plays records of its own: for tests without a GPU, and for what a recording looks like.

Its records have CUPTI's own layout, so everything behind the backend runs as it does on a GPU.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from overlane_collect.activities import LAYOUTS, Kind, pack_records
from overlane_collect.backends.base import DEFAULT_KINDS, Options, Sink
from overlane_collect.backends.kinds import KIND_NUMBERS, PLACES

__all__ = ["FakeBackend"]

CALLS = {"runtime": {211: "cudaLaunchKernel_v7000", 131: "cudaStreamSynchronize_v3020"}, "driver": {}}
_VERSION = 130401
_LAUNCHES_PER_FLUSH = 50
_KERNEL_NS = 10_000


class FakeBackend:
    """Plays a script, one step per flush; without a script, kernels on two streams without an end.

    Args:
        script: Steps; each is a list of (kind, rows) as for `pack_records`, with texts in place of pointers.
    """

    def __init__(
        self, script: Iterable[Sequence[tuple[int, Sequence[dict[str, Any]]]]] | None = None
    ) -> None:
        self._script = iter(script) if script is not None else None
        self._sink: Sink | None = None
        self._launched = 0
        self._running = False
        self._paused = False
        self._work: set[int] = set(LAYOUTS)
        self._watching: tuple[Callable[[], None], Callable[[], None]] | None = None

    def start(self, sink: Sink, options: Options) -> None:
        """Begin to play."""
        left_out = set(DEFAULT_KINDS) - set(options.kinds)
        self._work = set(LAYOUTS) - {kind for name in left_out for kind in KIND_NUMBERS[name]}
        self._sink = sink
        self._running = True
        self._paused = False
        sink.fact("fake")
        sink.fact(
            "cupti",
            version=_VERSION,
            kinds=[x.name for x in LAYOUTS.values()],
            left_out=sorted(left_out),
            refused={},
            calls=CALLS,
        )
        if self._script is None:
            self._play(_places())

    def flush(self) -> None:
        """Play the next step."""
        if self._running:
            step = self._launches() if self._script is None else next(self._script, [])
            self._play(step)

    def pause(self) -> None:
        """Play on, but give nothing of it except places."""
        self.flush()
        self._paused = True

    def resume(self) -> None:
        """Give everything again."""
        self.flush()
        self._paused = False

    def watch_profiler_calls(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Be told by `profiler_call` instead of by CUDA."""
        self._watching = (begin, end)

    def watch_ranges(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Leave it to `annotate`, since nothing here hears NVTX."""

    def profiler_call(self, *, start: bool) -> None:
        """Do as if the program had started or stopped the profiler."""
        if self._watching is not None:
            self._watching[0 if start else 1]()

    def stop(self, *, calibrate: bool = False) -> None:
        """Play what is left."""
        del calibrate
        assert self._sink is not None  # noqa: S101 - the recorder stops only what it started
        if self._script is not None:
            for step in self._script:
                self._play(step)
        self._running = False
        self._sink.fact("cost", buffers=0, records=0, processing_ns=0, unreadable_bytes=0, dropped=0)

    def timestamp(self) -> int:
        """Return the wall clock, which the script's own stamps need not follow."""
        return time.time_ns()

    def _play(self, step: Sequence[tuple[int, Sequence[dict[str, Any]]]]) -> None:
        assert self._sink is not None  # noqa: S101 - played only after `start`
        for kind, rows in step:
            if kind not in (PLACES if self._paused else self._work):
                continue
            pointers = LAYOUTS[kind].pointers
            numbered = [
                {n: self._sink.strings.number(v) if n in pointers else v for n, v in row.items()}
                for row in rows
            ]
            self._sink.records(kind, pack_records(kind, numbered))

    def _launches(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Return the next kernels: alternating streams, each starting as the one before ends."""
        calls, kernels = [], []
        for number in range(self._launched, self._launched + _LAUNCHES_PER_FLUSH):
            start = 1_000_000 + number * _KERNEL_NS
            calls.append(
                {
                    "cbid": 211,
                    "start": start - 5_000,
                    "end": start - 3_000,
                    "process_id": os.getpid(),
                    "thread_id": threading.get_native_id(),
                    "correlation_id": number + 1,
                }
            )
            kernels.append(
                {
                    "name": f"fake_kernel_{number % 3}",
                    "start": start,
                    "end": start + _KERNEL_NS,
                    "queued": start - 4_000,
                    "submitted": start - 1_000,
                    "context_id": 1,
                    "stream_id": 7 + number % 2,
                    "correlation_id": number + 1,
                    "grid": (1, 1, 1),
                    "block": (32, 1, 1),
                }
            )
        self._launched += _LAUNCHES_PER_FLUSH
        return [(Kind.RUNTIME, calls), (Kind.CONCURRENT_KERNEL, kernels)]


def _places() -> list[tuple[int, list[dict[str, Any]]]]:
    """Return the device, context and streams that the endless kernels run on."""
    return [
        (Kind.DEVICE, [{"name": "Fake GPU", "sm_count": 4, "memory_bytes": 1 << 30}]),
        (Kind.CONTEXT, [{"context_id": 1, "null_stream_id": 7, "sm_count": 4}]),
        (
            Kind.STREAM,
            [
                {"context_id": 1, "stream_id": 7, "flag": 3},
                {"context_id": 1, "stream_id": 8, "flag": 2},
            ],
        ),
    ]
