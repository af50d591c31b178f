"""What the host did to streams besides issuing operations: records, waits for them, and holds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from overlane.analysis.calls import CALL_CLASSES, Calls
from overlane.analysis.keys import NULL, Ids, Lookup, dense, known, words
from overlane.analysis.streams import Streams
from overlane.trace import Trace

__all__ = ["Holds", "Records", "Waits", "find_holds", "find_records", "find_waits", "unrecorded_sources"]

ALLOCATIONS, EVENT_RECORDS, SYNCS, API_CALLS, RANGES = 7, 4, 3, 2, 6
_EVENT, _ALLOCATION = 2, 6
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Records:
    """Points in streams that others may wait for: event records, and stream-ordered frees.

    Attributes:
        at_ns: int64, when the host made each.
        stream: int64, number of its stream, -1 where not known.
        correlation: int64, id of its call, `NULL` where not recorded.
        table: int64, code of the table that proves it.
        row: int64, row there.
        device_ns: int64, when it completed on the device, `NULL` where not recorded.
    """

    at_ns: Ids
    stream: Ids
    correlation: Ids
    table: Ids
    row: Ids
    device_ns: Ids


@dataclass(frozen=True)
class Waits:
    """Streams that were told to wait for a record.

    Attributes:
        at_ns: int64, when the host said so.
        stream: int64, number of the waiting stream, -1 where not known.
        correlation: int64, id of its call, `NULL` where not recorded.
        record: int64, what it waits for, -1 for nothing that is known.
        is_likely: int64, 1 where the record was found by event id and host order.
        kind: int64, kind of the dependency.
        table: int64, code of the table that proves it.
        row: int64, row there.
    """

    at_ns: Ids
    stream: Ids
    correlation: Ids
    record: Ids
    is_likely: Ids
    kind: Ids
    table: Ids
    row: Ids


@dataclass(frozen=True)
class Holds:
    """Host functions and value waits in streams, and waits for events whose records are missing.

    Attributes:
        at_ns: int64, when the host put each into its stream.
        stream: int64, number of the stream, -1 where not known.
        correlation: int64, id of its call, `NULL` where not recorded.
        kind: int64, kind of the dependency.
        table: int64, code of the table that proves it.
        row: int64, row there.
        end_ns: int64, when it let go, -1 where not known.
    """

    at_ns: Ids
    stream: Ids
    correlation: Ids
    kind: Ids
    table: Ids
    row: Ids
    end_ns: Ids

    def joined(self, other: Holds) -> Holds:
        """Return these and others."""
        return Holds(
            *(
                np.concatenate([getattr(self, field.name), getattr(other, field.name)])
                for field in fields(self)
            )
        )


def find_records(trace: Trace, calls: Calls, streams: Streams) -> Records:
    """Gather the points that waits can name.

    Waits of files without event records (Kineto) name the call that recorded the event and its stream.
    """
    table = trace.table("event_records")
    at = known(table["at_ns"])
    parts = [
        (
            at,
            np.where(at == NULL, -1, streams.of_rows(table)),
            known(table["correlation_id"]),
            EVENT_RECORDS,
            np.arange(table.num_rows),
            known(table["device_ns"]),
        )
    ]
    named = _named_records(trace, calls, streams, known(table["correlation_id"]))
    parts.append((*named, np.full(len(named[0]), NULL)))
    frees = trace.table("allocations")
    rows = np.flatnonzero((known(frees["stream_id"]) != NULL) & _freed(frees)) if frees.num_rows else at[:0]
    parts.append(
        (
            known(frees["at_ns"])[rows],
            streams.of_rows(frees)[rows],
            known(frees["correlation_id"])[rows],
            ALLOCATIONS,
            rows,
            np.full(len(rows), NULL),
        )
    )
    columns = [np.concatenate([part[k] for part in parts]) for k in (0, 1, 2, 4, 5)]
    tables = np.concatenate([np.full(len(part[0]), part[3]) for part in parts])
    return Records(columns[0], columns[1], columns[2], tables, columns[3], columns[4])


def _named_records(
    trace: Trace, calls: Calls, streams: Streams, recorded: Ids
) -> tuple[Ids, Ids, Ids, int, Ids]:
    """Return records known from waits only: at, stream, correlation, table code and row of the call."""
    syncs = trace.table("syncs")
    correlation = known(syncs["waits_on_correlation_id"])
    rows = np.flatnonzero((correlation != NULL) & ~np.isin(correlation, recorded))
    rows = rows[np.unique(correlation[rows], return_index=True)[1]]
    source = pa.table(
        {
            "rank": syncs["rank"],
            "process_id": syncs["process_id"],
            "correlation_id": syncs["waits_on_correlation_id"],
            "device_id": syncs["device_id"],
            "context_id": syncs["context_id"],
            "stream_id": syncs["waits_on_stream_id"],
        }
    )
    call = calls.of_rows(source)[rows]
    rows, call = rows[call >= 0], call[call >= 0]
    return calls.start_ns[call], streams.of_rows(source)[rows], correlation[rows], API_CALLS, call


def find_waits(trace: Trace, calls: Calls, streams: Streams, records: Records) -> Waits:
    """Gather what streams were told to wait for, and find the record that each means."""
    syncs = trace.table("syncs")
    codes, kinds = words(syncs["sync_kind"])
    code = kinds.index("stream_wait_event") if "stream_wait_event" in kinds else -2
    result = known(syncs["result"])
    rows = np.flatnonzero((codes == code) & ((result == NULL) | (result == 0)))
    call = calls.of_rows(syncs)[rows]
    at = known(syncs["start_ns"])[rows]
    if len(calls.start_ns):
        at = np.where(call >= 0, calls.start_ns[np.maximum(call, 0)], at)
    record, is_likely = _records_of(trace, records, rows, at)
    again, freed = _reused(trace)
    places = len(rows) + np.zeros(len(again), np.int64)
    frees = trace.table("allocations")
    lookup = Lookup(np.where(records.table == ALLOCATIONS, records.row, NULL))
    return Waits(
        np.concatenate([at, known(frees["at_ns"])[again]]),
        np.concatenate([streams.of_rows(syncs)[rows], streams.of_rows(frees)[again]]),
        np.concatenate([known(syncs["correlation_id"])[rows], known(frees["correlation_id"])[again]]),
        np.concatenate([record, lookup.rows(freed)]),
        np.concatenate([is_likely, np.zeros(len(again), np.int64)]),
        np.concatenate([np.full(len(rows), _EVENT), np.full(len(places), _ALLOCATION)]),
        np.concatenate([np.full(len(rows), SYNCS), np.full(len(places), ALLOCATIONS)]),
        np.concatenate([rows, again]),
    )


def unrecorded_sources(trace: Trace, records: Records, waits: Waits) -> Holds:
    """Return the waits for events that were recorded, by an id of that record, where the file lacks its row.

    What they hold is held until a moment that is not known. A wait without such an id is one for an event
    that was never recorded, and holds nothing.
    """
    is_event = (waits.table == SYNCS) & (waits.stream >= 0)
    source = (
        records.stream[np.maximum(waits.record, 0)] if len(records.stream) else np.full(len(is_event), -1)
    )
    open_ = np.flatnonzero(is_event & ((waits.record < 0) | (source < 0)))
    syncs = trace.table("syncs")
    row = waits.row[open_]
    names = ("cuda_event_sync_id", "waits_on_correlation_id")
    has_id = np.logical_or.reduce([known(syncs[name])[row] != NULL for name in names])
    open_ = open_[has_id]
    count = len(open_)
    return Holds(
        waits.at_ns[open_],
        waits.stream[open_],
        waits.correlation[open_],
        np.full(count, _EVENT),
        waits.table[open_],
        waits.row[open_],
        np.full(count, -1),
    )


def _records_of(trace: Trace, records: Records, rows: Ids, at: Ids) -> tuple[Ids, Ids]:
    """Return the record of each wait by sync id, else by its call, else by event id and host order."""
    syncs, table = trace.table("syncs"), trace.table("event_records")
    count = table.num_rows
    rank, _ = dense(np.concatenate([known(table["rank"]), known(syncs["rank"])[rows]]))
    ids, span = [], []
    for name in ("cuda_event_sync_id", "cuda_event_id"):
        both = np.concatenate([known(table[name]), known(syncs[name])[rows]])
        keys, found = dense(both)
        ids.append(np.where(both == NULL, NULL, rank * (len(found) + 1) + keys))
        span.append(len(found) + 1)
    record = Lookup(ids[0][:count]).rows(ids[0][count:])
    correlation = known(syncs["waits_on_correlation_id"])[rows]
    by_call = Lookup(np.where(records.table == ALLOCATIONS, NULL, records.correlation)).rows(correlation)
    record = np.where(record >= 0, record, by_call)
    latest = _latest(ids[1][:count], records.at_ns[:count], ids[1][count:], at)
    # A record that has a sync id is waited for by that id.
    has_id = known(syncs["cuda_event_sync_id"])[rows] != NULL
    latest = np.where(has_id & bool(count) & (ids[0][:count] != NULL).any(), -1, latest)
    return np.where(record >= 0, record, latest), ((record < 0) & (latest >= 0)).astype(np.int64)


def _latest(of: Ids, of_at: Ids, asked: Ids, asked_at: Ids) -> Ids:
    """Return the latest row with the asked key that was made before the asked time, -1 for none."""
    keys = np.concatenate([of, asked])
    at = np.concatenate([of_at, asked_at])
    is_asked = np.concatenate([np.zeros(len(of), np.int64), np.ones(len(asked), np.int64)])
    order = np.lexsort((is_asked, at, keys))
    row = np.where(is_asked[order] == 0, order, -1)
    begins = np.concatenate([[True], keys[order[1:]] != keys[order[:-1]]])
    place = np.where((row >= 0) | begins, np.arange(len(order)), 0)
    filled = row[np.maximum.accumulate(place)] if len(order) else row
    answer = np.full(len(keys), -1)
    answer[order] = filled
    answer = answer[len(of) :]
    return np.where(asked == NULL, -1, np.where(answer >= len(of), -1, answer))


def _freed(table: pa.Table) -> Flags:
    return np.asarray(known(table["freed"].cast(pa.uint8())) == 1)


def _reused(trace: Trace) -> tuple[Ids, Ids]:
    """Return stream-ordered allocations of memory that was freed before, and the row of that free.

    The allocator hands memory from one stream to another only once the free is ordered before the allocation.
    """
    table = trace.table("allocations")
    if not table.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rank, _ = dense(known(table["rank"]))
    address, found = dense(known(table["address"]))
    device, devices = dense(known(table["device_id"]))
    key = (rank * len(devices) + device) * len(found) + address
    order = np.lexsort((known(table["at_ns"]), key))
    freed, ordered = _freed(table), known(table["stream_id"]) != NULL
    before, after = order[:-1], order[1:]
    fits = (key[before] == key[after]) & freed[before] & ~freed[after] & ordered[before] & ordered[after]
    return after[fits], before[fits]


def find_holds(trace: Trace, calls: Calls, streams: Streams) -> Holds:
    """Gather host functions and value waits whose stream is known.

    A host function is a range of its own name on track `other` that names the stream it stood in; its call is
    joined by correlation id. Value waits and host functions are also synchronizations of kind `other` whose
    call is one of these, which end where the row does when it is later than its call.
    """
    parts = [_ranged(trace, calls, streams), _synced(trace, calls, streams)]
    columns = [np.concatenate([part[k] for part in parts]) for k in range(7)]
    return Holds(*columns)


def _ranged(trace: Trace, calls: Calls, streams: Streams) -> tuple[Ids, ...]:
    table = trace.table("ranges")
    codes, names = words(table["name"])
    code = names.index("host function") if "host function" in names else -2
    rows = np.flatnonzero((codes == code) & (known(table["stream_id"]) != NULL))
    call = calls.of_rows(table)[rows]
    rows, call = rows[call >= 0], call[call >= 0]
    stream = streams.of_rows(_with_context(table))[rows]
    kind = np.full(len(rows), 7)
    end = known(table["end_ns"], null=-1)[rows]
    correlation = known(table["correlation_id"])[rows]
    return calls.start_ns[call], stream, correlation, kind, np.full(len(rows), RANGES), rows, end


def _with_context(table: pa.Table) -> pa.Table:
    if "context_id" in table.schema.names:
        return table
    return table.append_column("context_id", pa.chunked_array([pa.nulls(table.num_rows, pa.int64())]))


def _synced(trace: Trace, calls: Calls, streams: Streams) -> tuple[Ids, ...]:
    table = trace.table("syncs")
    codes, names = words(table["sync_kind"])
    code = names.index("other") if "other" in names else -2
    rows = np.flatnonzero((codes == code) & (known(table["stream_id"]) != NULL))
    call = calls.of_rows(table)[rows]
    kinds = calls.kind[np.maximum(call, 0)] if len(calls.kind) else np.zeros(len(rows), np.uint8)
    is_value = kinds == CALL_CLASSES.index("value_wait")
    fits = (call >= 0) & (is_value | (kinds == CALL_CLASSES.index("host_function")))
    rows, call, is_value = rows[fits], call[fits], is_value[fits]
    end = known(table["end_ns"], null=-1)[rows]
    return (
        calls.start_ns[call],
        streams.of_rows(table)[rows],
        known(table["correlation_id"])[rows],
        np.where(is_value, 8, 7),
        np.full(len(rows), SYNCS),
        rows,
        np.where(end > calls.end_ns[call], end, -1),
    )
