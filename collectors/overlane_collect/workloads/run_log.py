"""What a workload tells about itself, joined to the recording of it."""

from __future__ import annotations

import threading
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from overlane_collect._cuda import Span
from overlane_collect.recorder import Recorder

__all__ = ["RunLog"]


@runtime_checkable
class Marker(Protocol):
    """A backend that can tell operations, contexts and streams of this process apart by their handles."""

    def push_external(self, number: int) -> None:
        """Mark what this thread starts from now on."""

    def pop_external(self) -> None:
        """End the mark."""

    def context_id(self, context: int) -> int:
        """Return the records' number of a context."""

    def stream_id(self, context: int, stream: int) -> int:
        """Return the records' number of a stream."""


class RunLog:
    """Sends declared accesses, block logs and names to a recorder.

    Args:
        recorder: Started recorder.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        backend: Any = recorder.backend
        self._marker: Marker | None = backend if isinstance(backend, Marker) else None
        self._clock = recorder.backend.timestamp
        self._accesses: dict[str, list[Any]] = {"external_id": [], "address": [], "bytes": [], "mode": []}
        self._host: dict[str, list[Any]] = {"thread_id": [], "at": [], "address": [], "bytes": [], "mode": []}

    def mark(self, number: int | None) -> None:
        """Mark what this thread starts from now on with a number; None ends the mark."""
        if self._marker is None:
            return
        if number is None:
            self._marker.pop_external()
        else:
            self._marker.push_external(number)

    def access(self, number: int, mode: str, span: Span) -> None:
        """Note an access of an operation."""
        row = {"external_id": number, "address": span.address, "bytes": span.bytes, "mode": mode}
        for name, value in row.items():
            self._accesses[name].append(value)

    def now(self) -> int:
        """Return the recording's clock, in ns."""
        return self._clock()

    def host_access(self, mode: str, span: Span, *, at_ns: int | None = None) -> None:
        """Note an access of the host, by default now."""
        row = {
            "thread_id": threading.get_native_id(),
            "at": self._clock() if at_ns is None else at_ns,
            "address": span.address,
            "bytes": span.bytes,
            "mode": mode,
        }
        for name, value in row.items():
            self._host[name].append(value)

    def blocks(self, number: int, words: npt.NDArray[np.uint64]) -> None:
        """Note what a kernel logged per block; shape (blocks, 3): SM, start, end on the GPU's clock."""
        sm, start, end = words.T.tolist()
        self._recorder.fact("blocks", external_id=number, sm=sm, start=start, end=end)

    def name_stream(self, context: int, handle: int, name: str) -> None:
        """Note the name of a stream."""
        if self._marker is not None:
            context_id, stream_id = self._marker.context_id(context), self._marker.stream_id(context, handle)
            self._recorder.fact("stream", context_id=context_id, stream_id=stream_id, name=name)

    def name_partition(self, context: int, name: str, sm_requested: int) -> None:
        """Note the name and the asked SMs of a green context."""
        if self._marker is not None:
            context_id = self._marker.context_id(context)
            self._recorder.fact("partition", context_id=context_id, name=name, sm_requested=sm_requested)

    def finish(self) -> None:
        """Send what was noted."""
        self._recorder.fact("accesses", **self._accesses)
        self._recorder.fact("host_accesses", **self._host)
