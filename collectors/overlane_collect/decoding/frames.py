"""All frames of one journal, gathered by kind of record and by fact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.activities import LAYOUTS, MAX_RECORD_BYTES, Kind, layout_dtype
from overlane_collect.journal import FACT, RECORDS, Frame

__all__ = ["Gathered", "gather"]

Records = npt.NDArray[Any]

_ROW_KINDS = (
    Kind.CONCURRENT_KERNEL,
    Kind.MEMCPY,
    Kind.MEMCPY2,
    Kind.MEMSET,
    Kind.GRAPH_TRACE,
    Kind.RUNTIME,
    Kind.DRIVER,
    Kind.SYNCHRONIZATION,
    Kind.CUDA_EVENT,
    Kind.MEMORY2,
    Kind.OVERHEAD,
)


@dataclass
class Gathered:
    """The contents of a journal.

    Attributes:
        facts: Fact to its objects, in order.
        texts: Texts by number; number 0 is no text.
        chunks: Kind to its chunks of records.
        unknown: Kind without a layout to how many of its bytes were skipped.
    """

    facts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=lambda: [""])
    chunks: dict[int, list[Records]] = field(default_factory=dict)
    unknown: dict[int, int] = field(default_factory=dict)
    _forgotten: dict[int, int] = field(default_factory=dict)

    def fact(self, name: str) -> dict[str, Any]:
        """Return the last fact of a name, or an empty object."""
        found = self.facts.get(name)
        return found[-1] if found else {}

    def records(self, kind: int) -> Records:
        """Return all records of a kind as one structured array; an empty one without any."""
        chunks = self.chunks.get(kind)
        if not chunks:
            return np.zeros(0, layout_dtype(kind, MAX_RECORD_BYTES))
        if len(chunks) > 1:
            self.chunks[kind] = [_joined(chunks)]
        return self.chunks[kind][0]

    def forget(self, kind: int) -> None:
        """Give the memory of a kind's records back; they are none from now on, but still counted."""
        self._forgotten[kind] = self._forgotten.get(kind, 0) + self._count(kind)
        self.chunks.pop(kind, None)

    @property
    def row_records(self) -> int:
        """Number of records of the kinds that give one row each, or are dropped."""
        return sum(self._count(kind) + self._forgotten.get(kind, 0) for kind in _ROW_KINDS)

    def _count(self, kind: int) -> int:
        return sum(len(chunk) for chunk in self.chunks.get(kind, []))


def _joined(chunks: list[Records]) -> Records:
    """Return all chunks as one array; the list is emptied, and each one's memory given back once copied."""
    whole = np.empty(sum(len(chunk) for chunk in chunks), chunks[0].dtype)
    target = whole.view(np.uint8).reshape(len(whole), -1)
    place = 0
    chunks.reverse()
    while chunks:
        chunk = chunks.pop()
        target[place : place + len(chunk)] = chunk.view(np.uint8).reshape(len(chunk), -1)
        place += len(chunk)
    return whole


def gather(frames: Iterable[Frame]) -> Gathered:
    """Read frames into memory.

    Args:
        frames: Frames in the order of the journal; one recording's records of a kind have one length.
    """
    result = Gathered()
    for frame in frames:
        if frame.frame_type == FACT:
            fact = frame.fact()
            if fact["fact"] == "strings":
                result.texts += fact["texts"]
            else:
                result.facts.setdefault(fact["fact"], []).append(fact)
        elif frame.frame_type == RECORDS:
            kind, record_bytes, data = frame.records()
            if kind in LAYOUTS:
                records = np.frombuffer(data, layout_dtype(kind, record_bytes))
                result.chunks.setdefault(kind, []).append(records)
            else:
                result.unknown[kind] = result.unknown.get(kind, 0) + len(data)
    return result
