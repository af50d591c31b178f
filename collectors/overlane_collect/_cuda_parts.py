"""Memory, streams, events and kernels as workloads name them, and who is told of what is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "BLOCK_WORDS",
    "LEGACY",
    "PER_THREAD",
    "Buffer",
    "Event",
    "Kernel",
    "Log",
    "Observer",
    "Span",
    "Stream",
    "packed",
]

BLOCK_WORDS = 3
"""64-bit words that a stamped kernel logs per block: SM, start and end."""


class Span(NamedTuple):
    """Bytes that an operation reads or writes.

    Attributes:
        address: First byte.
        bytes: Length.
    """

    address: int
    bytes: int


@dataclass(frozen=True)
class Buffer:
    """Memory of the device or the host.

    Attributes:
        address: First byte.
        bytes: Length.
        array: The bytes as the host sees them, shape (bytes,); None for device memory.
        kind: `device`, `pinned` or `pageable`.
    """

    address: int
    bytes: int
    kind: str
    array: npt.NDArray[np.uint8] | None = None

    def span(self, offset: int = 0, length: int | None = None) -> Span:
        """Return a part of it, by default from `offset` to the end."""
        return Span(self.address + offset, self.bytes - offset if length is None else length)

    def view(self, dtype: Any) -> npt.NDArray[Any]:
        """Return the host's memory as an array of a dtype, shape (bytes / item size,)."""
        assert self.array is not None  # noqa: S101 - workloads look at host memory only
        return self.array.view(dtype)


@dataclass(frozen=True)
class Stream:
    """A stream.

    Attributes:
        handle: What the driver calls it.
        name: What the trace calls it.
    """

    handle: int
    name: str


LEGACY = Stream(1, "legacy default")
PER_THREAD = Stream(2, "per-thread default")


@dataclass(frozen=True)
class Event:
    """A CUDA event."""

    handle: Any


@dataclass(frozen=True)
class Kernel:
    """A function of a loaded module."""

    handle: Any
    name: str


def packed(arguments: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return kernel arguments as cuda-python takes them: values, and their ctypes types."""
    return tuple(value for value, _ in arguments), tuple(kind for _, kind in arguments)


class Log(Protocol):
    """Where declared accesses go and how operations are marked."""

    def mark(self, number: int | None) -> None:
        """Mark what this thread starts from now on with a number; None ends the mark."""

    def access(self, number: int, mode: str, span: Span) -> None:
        """Note an access of an operation."""

    def now(self) -> int:
        """Return the recording's clock, in ns."""

    def host_access(self, mode: str, span: Span, *, at_ns: int | None = None) -> None:
        """Note an access of the host, by default now."""

    def blocks(self, number: int, words: npt.NDArray[np.uint64]) -> None:
        """Note what a kernel logged per block: SM, start, end on the GPU's clock; shape (blocks, 3)."""

    def name_stream(self, context: int, handle: int, name: str) -> None:
        """Note the name of a stream."""

    def name_partition(self, context: int, name: str, sm_requested: int) -> None:
        """Note the name and the asked SMs of a green context."""


class Observer(Protocol):
    """Is told of every driver call of a `Gpu`, and may put work of its own around operations."""

    def now(self) -> int:
        """Return the observer's clock, in ns."""

    def entered(self, gpu: Any) -> None:
        """Be told that another device or context is current: a `Gpu`, by its `context`."""

    def before(self, name: str, arguments: Sequence[Any], what: str) -> None:
        """Be told that a call that starts device work comes next."""

    def called(self, name: str, arguments: Sequence[Any], given: Any, began_ns: int, result: int) -> None:
        """Be told of a call that ended just now, with what it gave and its result."""

    def after(self) -> None:
        """Be told that the work of `before` has been started, or that the call failed."""
