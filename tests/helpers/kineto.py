"""Kineto files by hand: events as dictionaries, numbers written as given, odd files with outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Fault", "Raw", "Readable", "Refused", "as_text", "copy", "document", "kernel", "launch"]


@dataclass(frozen=True)
class Readable:
    """The file opens.

    Attributes:
        busy_ns: Busy time by device id.
        ops: Number of device operations.
        dropped: Events that belong in no table.
        also: A further check of the trace.
    """

    busy_ns: dict[int | None, int]
    ops: int
    dropped: int = 0
    also: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class Refused:
    """The file is refused with one sentence that holds one of these words (any, when there are none)."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """One odd file."""

    name: str
    content: bytes
    outcome: Readable | Refused
    suffix: str = ".json"
    clean: str | None = field(default=None, repr=False)
    """Valid JSON that means the same, for the oracle; None when the content itself is, or when nothing is."""


class Raw(str):
    """A number or other value that is written into the file exactly as it stands, quotes and all."""

    __slots__ = ()


def as_text(value: Any) -> str:
    """Return a value as JSON text, raw values as they stand."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(as_text(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def kernel(
    ts: Any, dur: Any, *, device: Any = 0, stream: Any = 7, correlation: Any = 1, **more: Any
) -> dict[str, Any]:
    """Return a kernel event; texts in `ts` and `dur` are written as bare numbers."""
    args = {"device": device, "context": 1, "stream": stream, "correlation": correlation} | more.pop(
        "args", {}
    )
    event = {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": device,
        "tid": stream,
        "ts": _raw(ts),
        "dur": _raw(dur),
    }
    return event | {"args": args} | more


def launch(
    ts: Any, dur: Any, *, correlation: int = 1, name: str = "cudaLaunchKernel", **more: Any
) -> dict[str, Any]:
    """Return a host call."""
    event = {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 50,
        "tid": 50,
        "ts": _raw(ts),
        "dur": _raw(dur),
    }
    return event | {"args": {"cbid": 211, "correlation": correlation}} | more


def _raw(value: Any) -> Any:
    return Raw(value) if type(value) is str else value


def document(*events: Any, before: dict[str, Any] | None = None, after: dict[str, Any] | None = None) -> str:
    """Return a Kineto document with these events."""
    head = (
        {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
        if before is None
        else before
    )
    return as_text(head | {"traceEvents": list(events)} | (after or {}))


def copy(ts: Any, dur: Any, name: str, **more: Any) -> dict[str, Any]:
    """Return a copy between host and device."""
    return kernel(ts, dur, name=name, **more) | {"cat": "gpu_memcpy"}
