"""Streams by dense numbers: those of the operations first, and those that only records and waits name.

Rows name a stream with more or less of its identity: synchronizations of green contexts name the parent
context, other files leave contexts or devices out. A row is taken to mean a stream where exactly one fits.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from overlane.analysis.keys import Ids, identities, known
from overlane.trace import Trace

__all__ = ["Key", "StreamRow", "Streams", "number_streams"]

_NAMES = ("rank", "device_id", "context_id", "stream_id")
Key: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True)
class StreamRow:
    """One stream.

    Attributes:
        rank: Rank, None when the source names none.
        device_id: Device.
        context_id: Context.
        stream_id: Stream within its context, None for operations whose stream is not known.
        stream_kind: As in table `streams`, None when not recorded.
        priority: Priority of the stream, None when not recorded.
        name: Name given by the program.
        partition_id: Row of `partitions` whose SMs its operations may use, None when not known.
        stream_row: Row of table `streams`, None when there is none.
    """

    rank: int | None
    device_id: int | None
    context_id: int | None
    stream_id: int | None
    stream_kind: str | None
    priority: int | None
    name: str | None
    partition_id: int | None
    stream_row: int | None


@dataclass(frozen=True)
class Streams:
    """The numbers of streams.

    Attributes:
        rows: One entry per number.
        of_op: int64, shape (ops,), number of each operation's stream.
        parents: (rank, device, context) of a green context to its parent's context id.
    """

    rows: tuple[StreamRow, ...]
    of_op: Ids
    parents: dict[Key, int]

    @cached_property
    def _numbers(self) -> dict[Key, int]:
        return {(r.rank, r.device_id, r.context_id, r.stream_id): n for n, r in enumerate(self.rows)}

    @cached_property
    def _looser(self) -> list[dict[Key, set[int]]]:
        looser: list[dict[Key, set[int]]] = [defaultdict(set) for _ in range(4)]
        for number, row in enumerate(self.rows):
            for place, key in enumerate(self._keys(row.rank, row.device_id, row.context_id, row.stream_id)):
                looser[place][key].add(number)
        return looser

    def _keys(
        self, rank: int | None, device: int | None, context: int | None, stream: int | None
    ) -> tuple[Key, ...]:
        """Return weaker identities, the strongest first: by root context, without device, without context."""
        root = self.root_of(rank, device, context)
        return (rank, device, root, stream), (rank, root, stream), (rank, device, stream), (rank, stream)

    def root_of(self, rank: int | None, device: int | None, context: int | None) -> int | None:
        """Return the context that a green context was made from, any other context itself."""
        return self.parents.get((rank, device, context), context)

    def find(self, rank: int | None, device: int | None, context: int | None, stream: int | None) -> int:
        """Return the stream that a row means, -1 where none or several fit."""
        exact = self._numbers.get((rank, device, context, stream))
        if exact is not None:
            return exact
        keys = self._keys(rank, device, context, stream)
        fits = (True, context is not None, context is None, context is None and device is None)
        for place, (key, may) in enumerate(zip(keys, fits, strict=True)):
            found = self._looser[place].get(key)
            if may and found:
                return next(iter(found)) if len(found) == 1 else -1
        return -1

    def of_rows(self, table: pa.Table) -> Ids:
        """Return the stream that each row of a table names, -1 where it names none or several fit."""
        codes, keys = identities(table, _NAMES)
        numbers = [-1 if key[3] is None else self.find(key[0], key[1], key[2], key[3]) for key in keys]
        return np.array(numbers or [-1], np.int64)[codes]


def number_streams(trace: Trace) -> Streams:
    """Number the streams of a trace: those of operations in the order of their identities, then the others.

    Example:
        >>> import overlane
        >>> streams = number_streams(overlane.open_trace("run.overlane"))  # doctest: +SKIP
    """
    parents = _parents(trace)
    ops = trace.table("ops")
    codes, keys = identities(ops, _NAMES)
    first = np.zeros(len(keys), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    partitions = known(ops["partition_id"], null=-1)[first].tolist() if len(keys) else []
    bare = [_row(key, partition) for key, partition in zip(keys, partitions, strict=True)]
    described = trace.table("streams").to_pylist()
    by_ops = Streams(tuple(bare), codes, parents)
    found: dict[int, int] = {}
    extra: list[StreamRow] = []
    for place, entry in enumerate(described):
        number = by_ops.find(*(entry[name] for name in _NAMES))
        exact = number >= 0 and bare[number].context_id == entry["context_id"]
        if number < 0:
            extra.append(_described(_row(tuple(entry[name] for name in _NAMES), -1), entry, place))
        elif exact or number not in found:
            found[number] = place
    rows = [
        _described(row, described[found[number]], found[number]) if number in found else row
        for number, row in enumerate(bare)
    ]
    return _with_named(trace, Streams((*rows, *extra), codes, parents))


def _with_named(trace: Trace, streams: Streams) -> Streams:
    """Add the streams that only synchronizations and event records name."""
    keys: dict[Key, None] = {}
    for name in ("syncs", "event_records"):
        for key in identities(trace.table(name), _NAMES)[1]:
            if key[3] is not None and not _fits_any(streams, key):
                keys[key] = None
    if not keys:
        return streams
    return replace(streams, rows=(*streams.rows, *(_row(key, -1) for key in keys)))


def _fits_any(streams: Streams, key: Key) -> bool:
    return streams.find(key[0], key[1], key[2], key[3]) >= 0


def _row(key: Key, partition: int) -> StreamRow:
    rank, device, context, stream = key
    return StreamRow(
        rank, device, context, stream, None, None, None, None if partition < 0 else partition, None
    )


def _described(row: StreamRow, entry: dict[str, object], place: int) -> StreamRow:
    kind, priority, name = entry["stream_kind"], entry["priority"], entry["name"]
    return StreamRow(
        row.rank,
        row.device_id,
        row.context_id,
        row.stream_id,
        kind if isinstance(kind, str) else None,
        priority if isinstance(priority, int) else None,
        name if isinstance(name, str) else None,
        row.partition_id,
        place,
    )


def _parents(trace: Trace) -> dict[Key, int]:
    return {
        (row["rank"], row["device_id"], row["context_id"]): row["parent_context_id"]
        for row in trace.table("partitions").to_pylist()
        if row["parent_context_id"] is not None
    }
