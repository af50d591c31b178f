"""Accesses to the same bytes that nothing orders: races, use after free, and what would order them.

Two accesses to overlapping bytes, at least one a write, of which neither is over before the other starts,
are a hazard, whatever the stamps say (`docs/causes.md`, "Hazards"). RAW: the later one in host order may
read too early; WAR: it may overwrite too early; WAW: the two may write in either order; use after free: the
bytes are freed before or while they are accessed. Each pair is reported once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.calls import class_of
from overlane.analysis.keys import Bytes, Codes, Ids, known, words
from overlane.analysis.order import Order
from overlane.analysis.ordering.actions import SYNC_EVENT, SYNC_SCOPE, SYNC_STREAM
from overlane.analysis.ordering.conflicts import FREE, READ
from overlane.analysis.ordering.fixes import Fixes, roots
from overlane.analysis.ordering.touched import Conflicts, Touched
from overlane.trace import Trace

__all__ = ["HAZARD_KINDS", "Hazard", "Hazards", "hazards"]

HAZARD_KINDS = ("RAW", "WAR", "WAW", "use_after_free")
"""Kinds of hazards; a kind's place is its code."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_RAW, _WAR, _WAW, _FREE = range(4)
_MOST_ROWS = 10_000
"""Hazards that are listed; what is left out is counted."""
_ACCESSES, _ALLOCATIONS = "accesses", "allocations"


@dataclass(frozen=True)
class Hazard:
    """One pair of unordered accesses, the first in host order first.

    Attributes:
        kind: A word of `HAZARD_KINDS`.
        certainty: `proven` or `possible`.
        first_op_id: Operation, None for the host and for a free.
        second_op_id: Operation, None for the host and for a free.
        first_table: `accesses`, or `allocations` for a free.
        first_row: Row there.
        second_table: As the first.
        second_row: Row there.
        address: First byte that both touch.
        bytes: Bytes that both touch, from the first to the last.
        implied_by: Place of the hazard whose fix also orders this pair, None when it needs its own.
        missing_from: Operation that would have to be over, None where it is not one.
        missing_to: Operation before which that would have to be so, None where it is not one.
        fix: What to do, in words.
    """

    kind: str
    certainty: str
    first_op_id: int | None
    second_op_id: int | None
    first_table: str
    first_row: int
    second_table: str
    second_row: int
    address: int
    bytes: int
    implied_by: int | None
    missing_from: int | None
    missing_to: int | None
    fix: str


@dataclass(frozen=True)
class Hazards:
    """The hazards of a trace; equal lengths, those that need their own fix first, then in host order.

    Attributes:
        kind: uint8, place in `HAZARD_KINDS`.
        is_proven: bool.
        first_op: int32, -1 for the host and for frees.
        second_op: int32.
        first_is_free: bool: the first is a row of `allocations`, not of `accesses`.
        second_is_free: bool.
        first_row: int64, row there.
        second_row: int64.
        address: int64, first byte that both touch.
        bytes: int64.
        implied_by: int32, place of the hazard whose fix also orders this pair, -1 for none.
        fixes: What to do about each, in words.
        left_out_count: Conflicts of bytes that are not listed, since there are more than are of use.
        unchecked_count: Accesses that could not be checked, since they name neither an operation nor a
            thread.
    """

    kind: Bytes
    is_proven: Flags
    first_op: Codes
    second_op: Codes
    first_is_free: Flags
    second_is_free: Flags
    first_row: Ids
    second_row: Ids
    address: Ids
    bytes: Ids
    implied_by: Codes
    fixes: tuple[str, ...]
    left_out_count: int
    unchecked_count: int

    def __len__(self) -> int:
        return len(self.kind)

    def row(self, place: int) -> Hazard:
        """Return one hazard as words and plain numbers."""

        def op(value: np.int32) -> int | None:
            return int(value) if value >= 0 else None

        other = int(self.implied_by[place])
        return Hazard(
            kind=HAZARD_KINDS[self.kind[place]],
            certainty="proven" if self.is_proven[place] else "possible",
            first_op_id=op(self.first_op[place]),
            second_op_id=op(self.second_op[place]),
            first_table=_ALLOCATIONS if self.first_is_free[place] else _ACCESSES,
            first_row=int(self.first_row[place]),
            second_table=_ALLOCATIONS if self.second_is_free[place] else _ACCESSES,
            second_row=int(self.second_row[place]),
            address=int(self.address[place]),
            bytes=int(self.bytes[place]),
            implied_by=None if other < 0 else other,
            missing_from=op(self.first_op[place if other < 0 else other]),
            missing_to=op(self.second_op[place if other < 0 else other]),
            fix=self.fixes[place],
        )

    def to_json(self) -> list[dict[str, Any]]:
        """Return the documented keys of the report's section `hazards`."""
        keys = ("kind", "certainty", "first_op_id", "second_op_id", "address", "bytes", "fix")
        return [{key: getattr(self.row(place), key) for key in keys} for place in range(len(self))]


def hazards(trace: Trace, order: Order) -> Hazards:
    """Find the hazards of a trace.

    Args:
        trace: Any trace; without `accesses` there are none.
        order: Its happens-before relation.

    Example:
        >>> import overlane
        >>> from overlane.analysis.dependencies import dependencies
        >>> from overlane.analysis.order import happens_before
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> hazards(trace, happens_before(trace, dependencies(trace))).row(0).fix  # doctest: +SKIP
    """
    touched = Touched(trace, order)
    conflicts = touched.conflicts()
    pairs = _pairs(touched, conflicts)
    ends = touched.item[pairs.first].astype(np.int64), touched.item[pairs.second].astype(np.int64)
    implied = roots(order, *ends, (touched.mode[pairs.first] & FREE) != 0)
    # Those that need a fix of their own come first, each part in host order.
    turn = np.lexsort((pairs.first, pairs.second, implied >= 0))
    place_of = np.empty(len(turn), np.int64)
    place_of[turn] = np.arange(len(turn))
    listed = turn[:_MOST_ROWS]
    pairs = pairs.taken(listed)
    implied = np.where(implied[listed] >= 0, place_of[implied[listed]], -1)
    a, b = pairs.first, pairs.second
    fixes = Fixes(trace, order, touched)
    wanted = [int(root) if root >= 0 else place for place, root in enumerate(implied)]
    text = [fixes.of(int(a[place]), int(b[place])) for place in range(int(np.count_nonzero(implied < 0)))]
    return Hazards(
        kind=pairs.kind, is_proven=_proven(trace, order, touched, pairs),
        first_op=touched.op[a], second_op=touched.op[b],
        first_is_free=touched.is_allocation[a], second_is_free=touched.is_allocation[b],
        first_row=touched.row[a], second_row=touched.row[b], address=pairs.address, bytes=pairs.bytes,
        implied_by=implied.astype(np.int32), fixes=tuple(text[place] for place in wanted),
        left_out_count=conflicts.left_out_count + len(turn) - len(listed),
        unchecked_count=touched.unchecked_count,
    )  # fmt: skip


@dataclass(frozen=True)
class _Pairs:
    """Unordered pairs of operations, host accesses or frees, each once, as places in `Touched`."""

    first: Ids
    second: Ids
    kind: Bytes
    address: Ids
    bytes: Ids
    is_declared: Flags

    def taken(self, rows: Ids) -> _Pairs:
        return _Pairs(
            self.first[rows], self.second[rows], self.kind[rows], self.address[rows], self.bytes[rows],
            self.is_declared[rows],
        )  # fmt: skip


def _pairs(touched: Touched, conflicts: Conflicts) -> _Pairs:
    """Bring the conflicts of each pair together, under the kind that says most.

    A pair of operations may read and write the same bytes both. It is RAW where the later one may read what
    the earlier one writes, else WAR, else WAW; what it reads is not the earlier one's where a write between
    the two is over before it.
    """
    a, b = conflicts.first, conflicts.second
    mode_a, mode_b = touched.mode[a], touched.mode[b]
    kind = np.full(len(a), _WAW, np.int64)
    kind[(mode_b & READ) != 0] = _RAW
    kind[(mode_a & READ) != 0] = _WAR
    # A read of what another write put there is at risk, but is not meant to see the earlier write.
    weak = (kind == _RAW) & (conflicts.source > a)
    kind[((mode_a | mode_b) & FREE) != 0] = _FREE
    owner_a, owner_b = _owner(touched, a), _owner(touched, b)
    start = np.maximum(touched.address[a], touched.address[b])
    stop = np.minimum(touched.end[a], touched.end[b])
    weight = np.where(kind == _FREE, -1, np.where(weak, _FREE, kind))
    order = np.lexsort((start, weight, owner_a, owner_b))
    same = (owner_a[order[1:]] == owner_a[order[:-1]]) & (owner_b[order[1:]] == owner_b[order[:-1]])
    firsts = np.concatenate([[0], np.flatnonzero(~same) + 1]) if len(order) else np.zeros(0, np.int64)
    first_rows = order[firsts]
    address = np.minimum.reduceat(start[order], firsts) if len(order) else start
    end = np.maximum.reduceat(stop[order], firsts) if len(order) else stop
    declared = (touched.is_declared[a] & touched.is_declared[b])[order]
    is_declared = np.logical_or.reduceat(declared, firsts) if len(order) else declared
    return _Pairs(
        a[first_rows], b[first_rows], kind[first_rows].astype(np.uint8), address, end - address, is_declared
    )


def _owner(touched: Touched, access: Ids) -> Ids:
    """Return a number for the operation, the free or the host's access that an access belongs to."""
    op = touched.op[access].astype(np.int64)
    return np.where(op >= 0, op, len(touched.op) + int(touched.op.max(initial=0)) + touched.item[access])


_UNRECORDED = re.compile(r"IpcOpenEventHandle|ExternalSemaphores")
_COUNTED = {"stream_wait": ("stream_wait_event",), "event_sync": ("event",), "stream_sync": ("stream",)}


def _proven(trace: Trace, order: Order, touched: Touched, pairs: _Pairs) -> Flags:
    """Tell which pairs nothing that is not recorded could order.

    What could: the wait of a programmatic launch inside of its kernel, a value wait, a host function or an
    event of another process before the second operation, work of several host threads, orders between which
    are not recorded, and synchronizations that the recording left out.
    """
    a, b = pairs.first, pairs.second
    at = order.program.actions.at_ns[touched.rank[b]] if len(b) else b
    codes, names = words(trace.table("api_calls")["name"])
    start = known(trace.table("api_calls")["start_ns"])
    classes = [class_of(name) for name in names]
    signals = np.array(
        [
            c in {"value_wait", "host_function"} or bool(_UNRECORDED.search(n))
            for c, n in zip(classes, names, strict=True)
        ]
        or [False]
    )
    first_signal = start[signals[codes]].min(initial=np.iinfo(np.int64).max) if len(codes) else -1
    same_thread = (touched.thread[a] == touched.thread[b]) & (touched.thread[a] >= 0)
    alone = ~_others_waited(order, touched, pairs)
    # Of one stream: a programmatic launch, which may wait inside of the kernel.
    alone &= touched.chain[a] != touched.chain[b]
    is_whole = _has_all_waits(trace, codes, classes)
    return np.asarray(pairs.is_declared & same_thread & alone & (at < first_signal) & is_whole, np.bool_)


def _others_waited(order: Order, touched: Touched, pairs: _Pairs) -> Flags:
    """Tell between which pairs a host thread other than theirs waited for the device."""
    actions = order.program.actions
    waits = np.flatnonzero(np.isin(actions.kind, (SYNC_EVENT, SYNC_STREAM, SYNC_SCOPE)))
    low, high = touched.rank[pairs.first], touched.rank[pairs.second]
    every = np.searchsorted(waits, high) - np.searchsorted(waits, low)
    own = np.zeros(len(low), np.int64)
    for thread in np.unique(touched.thread[pairs.first]).tolist():
        mine = waits[actions.thread[waits] == thread]
        rows = touched.thread[pairs.first] == thread
        own[rows] = (np.searchsorted(mine, high) - np.searchsorted(mine, low))[rows]
    return np.asarray(every > own)


def _has_all_waits(trace: Trace, codes: Codes, classes: list[str]) -> bool:
    """Tell whether every wait that the host asked for has its row, and no record was dropped."""
    if any(check.check == "dropped_records" and check.status != "ok" for check in trace.header.integrity):
        return False
    if not len(codes):
        return False
    asked = np.bincount(codes[codes >= 0], minlength=len(classes))
    kinds, known_kinds = words(trace.table("syncs")["sync_kind"])
    for name, rows in _COUNTED.items():
        count = sum(int(n) for n, word in zip(asked, classes, strict=True) if word == name)
        told = sum(int(np.count_nonzero(kinds == known_kinds.index(k))) for k in rows if k in known_kinds)
        if told < count:
            return False
    return True
