"""What is told by names: engines and memories of copies, APIs of calls, kinds of waits and overheads."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from overlane.readers.kineto.keys import Class
from overlane.readers.kineto.rows import Rows
from overlane.readers.kineto.strings import decode_name

__all__ = ["api_of", "engine_of", "memories_of", "of_recording", "sync_kind_of", "words_by_code"]

_COPY = re.compile(r"\b(?:([HDA])to([HDA])|(PtoP)|(Host|Device|Array)To(Host|Device|Array)|(PeerToPeer))\b")
_MEMORIES = re.compile(r"\(([A-Za-z ]+?)(?: -> ([A-Za-z ]+?))?\)\s*$")
_DRIVER = re.compile(r"cu[A-Z]")
_RECORDS = re.compile(r"(?:cuda|cu|hip)EventRecord")
_ENGINES = {"HD": "copy_h2d", "HA": "copy_h2d", "DH": "copy_d2h", "AH": "copy_d2h"}
_SYNC_KINDS = {
    "stream sync": "stream",
    "stream synchronize": "stream",
    "event sync": "event",
    "event synchronize": "event",
    "context sync": "context",
    "context synchronize": "context",
    "device sync": "device",
    "device synchronize": "device",
    "stream wait event": "stream_wait_event",
    "event query": "event_query",
    "stream query": "stream_query",
}
_OF_RECORDING = (
    "buffer request",
    "buffer flush",
    "flush",
    "instrumentation",
    "resource",
    "cupti",
    "activity buffer",
)
_OF_APPLICATION = (
    "command buffer full",
    "lazy",
    "runtime compilation",
    "run-time compilation",
    "runtime triggered",
)


def engine_of(name: str, copy_kind: str = "") -> str | None:
    """Return the engine of a copy by its name (`Memcpy HtoD (...)`) or the kind that its writer gives."""
    found = _COPY.search(name) or _COPY.search(copy_kind)
    if found is None:
        return None
    if found.group(3) or found.group(6):
        return "copy_p2p"
    source = found.group(1) or found.group(4)[0]
    target = found.group(2) or found.group(5)[0]
    if source == target == "H":
        return None  # no engine of the device moves it
    return _ENGINES.get(source + target, "copy_d2d")


def memories_of(name: str) -> tuple[str | None, str | None]:
    """Return the memory kinds that a copy goes from and to, or None and the one that a memset sets."""
    found = _MEMORIES.search(name)
    if found is None:
        return None, None
    words = [None if word is None or word.lower() == "unknown" else word.lower() for word in found.groups()]
    return (words[0], words[1]) if found.group(2) else (None, words[0])


def api_of(name: str, kind: Class) -> str:
    """Return `driver` for CUDA's driver calls, `other` for other accelerators' calls, else `runtime`."""
    if kind == Class.CALL:
        return "other"
    return "driver" if kind == Class.DRIVER or _DRIVER.match(name) else "runtime"


def is_event_record(name: str) -> bool:
    """Tell whether a call records a CUDA event."""
    return _RECORDS.match(name) is not None


def sync_kind_of(text: str) -> str:
    """Return the kind of a synchronization."""
    return _SYNC_KINDS.get(text.strip().lower(), "other")


def of_recording(kind: str) -> bool | None:
    """Tell whether recording caused an overhead; None where its name does not say."""
    text = kind.lower()
    if any(word in text for word in _OF_APPLICATION):
        return False
    if any(word in text for word in _OF_RECORDING):
        return True
    return None


def words_by_code(rows: Rows, codes: np.ndarray[Any, Any]) -> list[str | None]:
    """Return the names of the given ids in a list over all ids, None elsewhere."""
    words: list[str | None] = [None] * len(rows.strings)
    used = rows.used_codes(codes)
    for code, raw in zip(used.tolist(), rows.strings.contents(used), strict=True):
        words[code] = decode_name(raw)
    return words
