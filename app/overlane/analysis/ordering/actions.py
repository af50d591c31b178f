"""What the host did, in the order in which it did it: the program that happens-before is told from.

Every row that can order device work becomes an *action*: an operation put into a stream, an event recorded, a
stream told to wait, a synchronization, a stream-ordered allocation or free, an access by the host. Actions
stand in the order of the host's calls. What occupies a place in a stream or thread, so that something can be
before or after it, is an *item*: operations (all nodes of one graph launch are one item), allocations and
frees, accesses by the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.keys import Bytes, Codes, Ids
from overlane.analysis.streams import StreamRow

__all__ = [
    "AFTER",
    "AT",
    "BEFORE",
    "HOST",
    "HOST_WAITS",
    "ITEM",
    "LIKELY",
    "MARK",
    "PROGRAMMATIC",
    "RECORD",
    "SYNC_EVENT",
    "SYNC_SCOPE",
    "SYNC_STREAM",
    "WAIT",
    "ActionParts",
    "Actions",
    "Program",
    "StreamFacts",
]

ITEM, RECORD, WAIT, SYNC_EVENT, SYNC_STREAM, SYNC_SCOPE, HOST = range(7)
"""Kinds of actions. RECORD and WAIT name the record, SYNC_SCOPE the scope, ITEM and HOST the item."""
PROGRAMMATIC, HOST_WAITS, LIKELY, MARK = 1, 2, 4, 8
"""Flags: may start before its predecessor ends; holds the calling thread until it is done; is a guess; takes
no time, so that a programmatic launch looks through it."""
BEFORE, AT, AFTER = 0, 1, 2
"""Where an action stands among those of one call."""


@dataclass(frozen=True)
class StreamFacts:
    """How each stream orders, by its number in `Dependencies.streams`.

    Attributes:
        legacy: int32, shape (streams,): the legacy default stream that this one orders with (itself for that
            one), -1 for none.
        is_guessed: bool: its order is one of starts, or a launch of a graph was put into it by inference.
        is_nameless: bool: operations whose stream is not known, which nothing orders.
    """

    legacy: Codes
    is_guessed: np.ndarray[Any, np.dtype[np.bool_]]
    is_nameless: np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Actions:
    """Actions in host order; equal lengths.

    Attributes:
        at_ns: int64, when the host did it.
        kind: uint8, one of the kinds of this module.
        flags: uint8, a set of the flags of this module.
        stream: int32, -1 for none.
        thread: int32, -1 for unknown.
        ref: int32: item, record or scope; -1 for a wait whose record is unknown.
        row: int32: proof of it, -1 for none.
    """

    at_ns: Ids
    kind: Bytes
    flags: Bytes
    stream: Codes
    thread: Codes
    ref: Codes
    row: Codes


@dataclass(frozen=True)
class Program:
    """The actions of a trace and what they name.

    Attributes:
        streams: How its streams order.
        threads: Rank, process and thread id of each thread number.
        actions: Actions in host order.
        proof_table: int64: code of the table of each proof that an action names.
        proof_row: int64: row there.
        record_count: Number of records; those of `Dependencies.records` come first, with their numbers.
        scope_starts: int32, shape (scopes + 1,): where the streams of each scope begin in `scope_streams`.
        scope_streams: int32.
        item_count: Number of items.
        op_item: int32, shape (ops,): item of each operation.
        staged_item: int32, shape (ops,): item of what the host read for a pageable copy in its call,
            -1 for other operations.
        access_item: int32, shape (accesses,): item of each access by the host, -1 for those by operations.
        allocation_item: int32, shape (allocations,): item of each allocation and free.
        stream_rows: Identity, kind and name of each stream.
    """

    streams: StreamFacts
    threads: list[tuple[int | None, ...]]
    actions: Actions
    proof_table: Ids
    proof_row: Ids
    record_count: int
    scope_starts: Codes
    scope_streams: Codes
    item_count: int
    op_item: Codes
    staged_item: Codes
    access_item: Codes
    allocation_item: Codes
    stream_rows: tuple[StreamRow, ...]


class ActionParts:
    """Collects actions of one sort at a time."""

    def __init__(self) -> None:
        self._columns: list[tuple[Any, ...]] = []

    def add(
        self,
        kind: int,
        at_ns: Ids,
        stream: Any,
        thread: Any,
        ref: Any,
        *,
        flags: Any = 0,
        row: Any = -1,
        place: int = AT,
    ) -> None:
        """Add actions; values that all of them share may be given once.

        Args:
            kind: Kind of all.
            at_ns: int64, shape (n,): when the host did it.
            stream: Stream numbers, as the others of shape (n,) or one value.
            thread: Thread numbers.
            ref: Record, scope or item.
            flags: Sets of flags.
            row: Numbers of proofs.
            place: BEFORE, AT or AFTER the call's own action.
        """
        columns = zip((kind, flags, stream, thread, ref, row), _TYPES, strict=True)
        fill = [np.broadcast_to(np.asarray(value, dtype), at_ns.shape) for value, dtype in columns]
        self._columns.append((at_ns * 4 + place, *fill))

    def sorted(self) -> Actions:
        """Return all in host order; those of one call by their places."""
        if not self._columns:
            self.add(ITEM, np.zeros(0, np.int64), 0, 0, 0)
        columns: list[Any] = [np.concatenate(parts) for parts in zip(*self._columns, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        kind, flags, stream, thread, ref, row = (column[order] for column in columns[1:])
        return Actions(columns[0][order] >> 2, kind, flags, stream, thread, ref, row)


_TYPES = (np.uint8, np.uint8, np.int32, np.int32, np.int32, np.int32)
