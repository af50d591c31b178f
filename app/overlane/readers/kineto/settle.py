"""Decide what each row is: pairs of begin and end, impossible durations, its table, the origin.

Rules for durations: an interval without one, or begun and never ended, had not finished: its end is unknown.
A negative or impossible one (not a number, beyond 18 years) says that something went wrong, not that the
interval went on: the row is kept with no length, so that no sum counts time that nobody measured, and counted
in the integrity check `impossible_durations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from overlane.readers.kineto.compiled import match_pairs
from overlane.readers.kineto.keys import CATEGORIES, Class, Wide
from overlane.readers.kineto.layout import Kind
from overlane.readers.kineto.rows import Rows
from overlane.readers.kineto.text import MAX_SPAN_NS, MISSING

__all__ = ["Settled", "Target", "settle"]

Array = np.ndarray[Any, Any]

_B, _E, _X, _C, _M = (ord(c) for c in "BEXCM")
_INSTANTS = tuple(ord(c) for c in "iIR")


class Target(IntEnum):
    """Where a row goes."""

    NONE = 0
    OPS = 1
    CALLS = 2
    SYNCS = 3
    RECORDS = 4
    RANGES = 5
    INSTANTS = 6
    COUNTERS = 7
    OVERHEADS = 8
    METADATA = 9


_TARGETS = {
    Class.OTHER: Target.RANGES,
    Class.KERNEL: Target.OPS,
    Class.MEMCPY: Target.OPS,
    Class.MEMSET: Target.OPS,
    Class.DEVICE: Target.OPS,
    Class.RUNTIME: Target.CALLS,
    Class.DRIVER: Target.CALLS,
    Class.CALL: Target.CALLS,
    Class.SYNC: Target.SYNCS,
    Class.RECORD: Target.RECORDS,
    Class.OPERATOR: Target.RANGES,
    Class.ANNOTATION: Target.RANGES,
    Class.DEVICE_ANNOTATION: Target.RANGES,
    Class.PYTHON: Target.RANGES,
    Class.PROFILER: Target.RANGES,
    Class.OVERHEAD: Target.OVERHEADS,
    Class.PLAIN: Target.RANGES,
}


@dataclass
class Settled:
    """What was decided.

    Attributes:
        target: uint8 per row, a `Target`.
        origin_ns: Earliest stamp of the rows that are kept, in the file's time.
        dropped: Reason to count of rows that go nowhere.
        impossible: Durations that were negative, or too long from a begin to its end (those that were no
            number or too large are counted by the scanner).
        has_known_category: The file has at least one category of PyTorch's profiler.
        intervals: Number of rows with a duration or a begin.
        taken: Unknown categories that were taken for device work.
    """

    target: Array
    origin_ns: int
    dropped: dict[str, int]
    impossible: int
    has_known_category: bool
    intervals: int
    taken: list[str]


def settle(rows: Rows) -> Settled:
    """Decide on all rows; `rows.dur` and `rows.kind` are changed to what was decided."""
    phase = rows.phase
    dropped = _pair(rows)
    spans = (phase != _C) & (phase != _M) & ~np.isin(phase, _INSTANTS)
    impossible = spans & ((rows.dur < 0) | (rows.dur >= MAX_SPAN_NS)) & (rows.dur != MISSING)
    rows.dur[impossible] = 0
    unknown_phase = spans & (phase != _X) & (phase != _B) & (phase != _E)
    rows.kind[unknown_phase] = Class.OTHER
    taken = _find_devices(rows)
    lookup = np.zeros(256, np.uint8)
    for kind, place in _TARGETS.items():
        lookup[kind] = place
    target = lookup[rows.kind]
    target[np.isin(phase, _INSTANTS)] = Target.INSTANTS
    target[phase == _C] = Target.COUNTERS
    target[phase == _M] = Target.METADATA
    target[phase == _E] = Target.NONE
    kept = rows.ts[(target != Target.NONE) & (target != Target.METADATA)]
    return Settled(
        target=target,
        origin_ns=int(kept.min()) if kept.size else 0,
        dropped=dropped,
        impossible=int(np.count_nonzero(impossible)),
        has_known_category=bool(np.any((rows.category >= 0) & (rows.category < len(CATEGORIES)))),
        intervals=int(np.count_nonzero(spans)),
        taken=taken,
    )


def _pair(rows: Rows) -> dict[str, int]:
    """Give each begin the duration to its end; return the ends by what became of them."""
    chosen = np.flatnonzero((rows.phase == _B) | (rows.phase == _E))
    if not chosen.size:
        return {}
    chosen = chosen[np.argsort(rows.ts[chosen], kind="stable")]
    begins = rows.phase[chosen] == _B
    partner = match_pairs(rows.thread[chosen], len(rows.strings), begins)
    paired = np.flatnonzero(begins & (partner >= 0))
    begin_rows, end_rows = chosen[paired], chosen[partner[paired]]
    rows.dur[chosen] = MISSING
    rows.dur[begin_rows] = rows.ts[end_rows] - rows.ts[begin_rows]
    for begin, end in zip(begin_rows.tolist(), end_rows.tolist(), strict=True):
        if rows.template[end] >= 0:
            _join_members(rows, begin, end)
    lonely = int(np.count_nonzero(~begins)) - paired.size
    return {"end of a range whose begin is kept": int(paired.size), "end without a begin": lonely}


def _join_members(rows: Rows, begin: int, end: int) -> None:
    """Give a begin the further members of its end too."""
    pair = np.array([begin, end])
    values, counts = rows.integers(pair)
    texts = [rows.strings.content(code) for code in rows.template[pair].tolist() if code >= 0]
    joined = b"{" + b",".join(text[1:-1] for text in texts) + b"}"
    code = rows.strings.add(Kind.TEMPLATE, joined)
    rows.strings.info[code, 4] = int(counts.sum())
    rows.template[begin] = code
    rows.offsets[begin] = rows.pool.size
    rows.pool = np.concatenate(
        [rows.pool, np.frombuffer(b"".join(_packed(v) for v in values.tolist()), np.uint8)]
    )


def _packed(value: int) -> bytes:
    rest = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while rest >= 128:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _find_devices(rows: Rows) -> list[str]:
    """Take an unknown category for an accelerator's when one of its events names a device and a stream.

    A device alone is no sign: what the host does for a device names it too.

    Returns:
        The categories that were taken.
    """
    unknown = (rows.kind == Class.OTHER) & ((rows.phase == _X) | (rows.phase == _B)) & (rows.category >= 0)
    chosen = np.flatnonzero(unknown & rows.has_wide)
    if not chosen.size:
        return []
    named = np.ones(chosen.size, bool)
    for column in (Wide.STREAM, Wide.DEVICE):
        values = rows.wide(column, chosen)
        named &= False if values is None else values >= 0
    categories = np.unique(rows.category[chosen[named]])
    rows.kind[unknown & np.isin(rows.category, categories)] = Class.DEVICE
    return [rows.text(code) for code in categories.tolist()]
