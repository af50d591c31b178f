"""Synchronizations that wait for more than anything recorded needs: an event would do in their place.

`docs/causes.md` ("Over-strong synchronizations") defines them. The program is taken without what its strong
synchronizations tell (`overlane.analysis.ordering.needs`): what is unordered then and was ordered before
rests on the wait by which a thread first knew of it. Each of them has to tell what others need of it that
way, and what the host may need of the memory that it can reach; where one event tells all of that and the
synchronization waits for more, it is over-strong. All that are found can be replaced together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.keys import Bytes, Codes, Ids, words
from overlane.analysis.order import Order
from overlane.analysis.ordering.strong import NOT_STRONG, REASONS, STRONG_KINDS, Strong, mark, reasons
from overlane.analysis.ordering.told import Told
from overlane.analysis.ordering.touched import Touched
from overlane.analysis.redundant_waits import RedundantWaits
from overlane.trace import Trace

__all__ = ["OverStrong", "OverStrongs", "over_strong"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_SYNCS = PROOF_TABLES.index("syncs")
_MOST_ROWS = 10_000
"""Synchronizations that are listed; what is left out is counted."""


@dataclass(frozen=True)
class OverStrong:
    """One synchronization that waits for more than is needed.

    Attributes:
        sync_id: Its row of `syncs`.
        kind: A word of `STRONG_KINDS`.
        certainty: `certain`, or `likely` where nothing recorded needs it, an order or an access was inferred,
            several threads put work into streams, or no row tells what memory an operation touched.
        op_id: Operation whose event would do, None where nothing recorded needs the wait.
        more_count: Operations that it waits for beyond that event.
        more_op_id: The one of them that ended last.
        more_streams: Numbers of their streams.
        sooner_ns: How much sooner the call would have returned, at most.
    """

    sync_id: int
    kind: str
    certainty: str
    op_id: int | None
    more_count: int
    more_op_id: int
    more_streams: tuple[int, ...]
    sooner_ns: int


@dataclass(frozen=True)
class OverStrongs:
    """The over-strong synchronizations of a trace, those first that cost most; equal lengths.

    Attributes:
        sync: int64, row of `syncs` of each.
        kind: uint8, place in `STRONG_KINDS`.
        is_certain: bool.
        op: int32, operation whose event would do, -1 where nothing recorded needs the wait.
        more_count: int64, operations that it waits for beyond that event.
        more_op: int32, the one of them that ended last.
        more_stream: int32, numbers of their streams, synchronization by synchronization.
        more_begins: int64, shape (n + 1,), where those of each begin.
        sooner_ns: int64, how much sooner the call would have returned, at most.
        reason: uint8, shape (syncs,): place in `REASONS` of each strong synchronization, 255 for other rows.
        left_out_count: Over-strong synchronizations that are not listed.
    """

    sync: Ids
    kind: Bytes
    is_certain: Flags
    op: Codes
    more_count: Ids
    more_op: Codes
    more_stream: Codes
    more_begins: Ids
    sooner_ns: Ids
    reason: Bytes
    left_out_count: int

    def __len__(self) -> int:
        return len(self.sync)

    def row(self, place: int) -> OverStrong:
        """Return one as words and plain numbers."""
        op = int(self.op[place])
        streams = self.more_stream[self.more_begins[place] : self.more_begins[place + 1]]
        return OverStrong(
            int(self.sync[place]),
            STRONG_KINDS[self.kind[place]],
            "certain" if self.is_certain[place] else "likely",
            None if op < 0 else op,
            int(self.more_count[place]),
            int(self.more_op[place]),
            tuple(streams.tolist()),
            int(self.sooner_ns[place]),
        )

    @property
    def checked_count(self) -> int:
        """How many synchronizations could be checked."""
        return int(np.count_nonzero(self.reason == 0))

    def unchecked(self) -> dict[str, int]:
        """Return how many synchronizations could not be checked, by reason."""
        counts = np.bincount(self.reason[self.reason != NOT_STRONG], minlength=len(REASONS))
        return {name: int(n) for name, n in zip(REASONS, counts, strict=True) if n and name != "checked"}


def over_strong(trace: Trace, deps: Dependencies, order: Order, redundant: RedundantWaits) -> OverStrongs:
    """Find the synchronizations of a stream, context or device in whose place an event would do.

    Args:
        trace: Any trace; without `accesses` none can be checked.
        deps: Its dependencies.
        order: Its happens-before relation.
        redundant: Its redundant waits; synchronizations among them are taken to be gone.

    Example:
        >>> import overlane
        >>> from overlane.analysis.study import Study
        >>> study = Study(overlane.open_trace("run.overlane"))  # doctest: +SKIP
        >>> study.over_strong.row(0).op_id  # doctest: +SKIP
    """
    reason = reasons(trace)
    if not (reason == 0).any():
        return _nothing(reason)
    strong = Strong(trace, deps, order, redundant, reason)
    touched = Touched(trace, order)
    if not len(strong.place):
        return _nothing(reason)
    told = Told(trace, deps, order, strong, touched)
    if touched.unchecked_count or touched.unplaced_count:
        mark(reason, slice(None), "not_placed")
    mark(reason, strong.row[told.is_kept], "other_threads")
    beyond = _Beyond(deps, strong, told, reason)
    return _listed(trace, deps, strong, told, beyond, reason)


def _nothing(reason: Bytes) -> OverStrongs:
    none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return OverStrongs(
        none, few.astype(np.uint8), none > 0, few, none, few, few, np.zeros(1, np.int64), none, reason, 0
    )


class _Beyond:
    """What synchronizations waited for beyond the event that would do, stream by stream, the last end last.

    What an open hazard touches is not judged: its synchronization loses its place here, and is marked.

    Attributes:
        number: int64: which of the strong synchronizations each row belongs to.
        stream: int64: the stream.
        count: int64: operations.
        unknown: int64: of these, operations of which no row tells what kind of memory they touch.
        last_op: int32: the last of them.
        end_ns: int64: its end.
    """

    def __init__(self, deps: Dependencies, strong: Strong, told: Told, reason: Bytes) -> None:
        begins, items = told.begins, told.items
        is_op = told.op_of_item[items] >= 0
        rows = np.flatnonzero((told.stream < len(begins) - 1) & (told.known > told.covered))
        rows = rows[told.event[told.number[rows]] > -2]
        low = begins[told.stream[rows]] + told.covered[rows]
        high = begins[told.stream[rows]] + told.known[rows]
        count, unknown, opened = (
            _within(which, low, high) for which in (is_op, told.is_unknown, told.is_open)
        )
        mark(reason, strong.row[told.number[rows[opened > 0]]], "open_hazard")
        fits = np.flatnonzero((count > 0) & (reason[strong.row[told.number[rows]]] == 0))
        last = np.maximum.accumulate(np.where(is_op, np.arange(len(items)), 0))[high[fits] - 1]
        last_op = told.op_of_item[items[last]]
        end = deps.issue.end_ns[last_op]
        number = told.number[rows[fits]]
        turn = np.lexsort((end, number))
        self.number, self.stream = number[turn], told.stream[rows[fits[turn]]]
        self.count, self.unknown = count[fits[turn]], unknown[fits[turn]]
        self.last_op, self.end_ns = last_op[turn], end[turn]


def _within(which: Flags, low: Ids, high: Ids) -> Ids:
    """Count what is set in each of some ranges."""
    before = np.append(0, np.cumsum(which)).astype(np.int64)
    return np.asarray(before[high] - before[low], np.int64)


def _listed(  # noqa: PLR0917 - the parts of one result
    trace: Trace, deps: Dependencies, strong: Strong, told: Told, beyond: _Beyond, reason: Bytes
) -> OverStrongs:
    """Return those that waited for more than is needed, the costliest first."""
    which, starts, sizes = np.unique(beyond.number, return_index=True, return_counts=True)
    if not len(which):
        return _nothing(reason)
    event, row = told.event[which], strong.row[which]
    op = np.where(event >= 0, told.op_of_item[np.maximum(event, 0)], -1)
    latest = starts + sizes - 1
    sooner = _sooner(trace, deps, row, op, beyond.end_ns[latest])
    is_known = np.add.reduceat(beyond.unknown, starts) == 0
    rank = np.lexsort((which, -sooner))[:_MOST_ROWS]
    members = np.concatenate([np.arange(starts[k], starts[k] + sizes[k]) for k in rank.tolist()])
    codes, names = words(trace.table("syncs")["sync_kind"])
    kinds = np.array([STRONG_KINDS.index(n) if n in STRONG_KINDS else 0 for n in names], np.uint8)
    return OverStrongs(
        sync=row[rank], kind=kinds[codes[row[rank]]],
        is_certain=((op >= 0) & is_known)[rank] & (not told.is_guess),
        op=op[rank].astype(np.int32), more_count=np.add.reduceat(beyond.count, starts)[rank],
        more_op=beyond.last_op[latest[rank]], more_stream=beyond.stream[members].astype(np.int32),
        more_begins=np.append(0, np.cumsum(sizes[rank])), sooner_ns=sooner[rank], reason=reason,
        left_out_count=len(which) - len(rank),
    )  # fmt: skip


def _sooner(trace: Trace, deps: Dependencies, row: Ids, op: Ids, more_end: Ids) -> Ids:
    """Return for how long each held its thread after the end of what is needed, because of what is not."""
    waits, count = deps.host_waits, len(trace.table("syncs"))
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    of_row = waits.table == _SYNCS
    start[waits.row[of_row]], end[waits.row[of_row]] = waits.start_ns[of_row], waits.end_ns[of_row]
    ready = np.where(op >= 0, deps.issue.end_ns[np.maximum(op, 0)], start[row])
    held = np.minimum(end[row], more_end) - np.maximum(start[row], ready)
    return np.asarray(np.maximum(held, 0), np.int64)
