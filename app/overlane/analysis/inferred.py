"""Dependencies that only calls imply: holds whose stream is not named, and code that a launch loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlane.analysis.actions import Holds, Records
from overlane.analysis.calls import CALL_CLASSES, Calls
from overlane.analysis.issuing import Issue
from overlane.analysis.keys import NULL, Ids, identities, known, words
from overlane.analysis.streams import Streams
from overlane.trace import Trace

__all__ = ["Candidates", "hold_candidates", "loading_edges", "loading_launches", "proven_holds"]

_STREAM, _HOST_FUNCTION, _VALUE_WAIT, _MODULE = 0, 7, 8, 9
_API_CALLS, _OVERHEADS = 2, 5
_KIND_OF_CLASS = np.zeros(len(CALL_CLASSES), np.int64)
_KIND_OF_CLASS[CALL_CLASSES.index("host_function")] = _HOST_FUNCTION
_KIND_OF_CLASS[CALL_CLASSES.index("value_wait")] = _VALUE_WAIT
_KIND_OF_CLASS[CALL_CLASSES.index("prefetch")] = _STREAM
_LIKELY = 1
_MOST_LATENCY_NS = 20_000


@dataclass(frozen=True)
class Candidates:
    """Host functions, value waits and prefetches that may stand before operations.

    Their calls name no stream.

    Attributes:
        call: int64, shape (ops,), the last such call of the issuing thread between the previous operation of
            the stream and this one, -1 for none.
        kind: int64, shape (ops,), kind of the dependency that it would be.
    """

    call: Ids
    kind: Ids


def hold_candidates(calls: Calls, issue: Issue, holds: Holds, before: Ids) -> Candidates:
    """Find the calls that may have put something into the way of each operation.

    Args:
        calls: Host calls.
        issue: How operations were issued.
        holds: Those whose stream is known; their calls are no candidates.
        before: int64, shape (ops,), previous operation of each one's stream, -1 for none.
    """
    count = len(issue.start_ns)
    nothing = np.full(count, -1)
    loose = calls.is_of("host_function", "value_wait", "prefetch") & calls.has_succeeded & (calls.thread >= 0)
    loose &= ~np.isin(calls.correlation, holds.correlation[holds.correlation != NULL])
    rows = np.flatnonzero(loose)
    if not len(rows) or not count:
        return Candidates(nothing, nothing)
    span = int(calls.end_ns.max()) + 1
    keys = calls.thread[rows] * span + calls.start_ns[rows]
    order = np.argsort(keys, kind="stable")
    thread = np.where(issue.call >= 0, calls.thread[np.maximum(issue.call, 0)], -1)
    place = np.searchsorted(keys[order], thread * span + issue.order_ns) - 1
    found = rows[order[np.maximum(place, 0)]]
    since = np.where(before >= 0, issue.order_ns[np.maximum(before, 0)], -1)
    fits = (place >= 0) & (thread >= 0) & (calls.thread[found] == thread) & (calls.start_ns[found] > since)
    return Candidates(np.where(fits, found, -1), np.where(fits, _KIND_OF_CLASS[calls.kind[found]], -1))


def proven_holds(
    candidates: Candidates, calls: Calls, records: Records, issue: Issue, places: tuple[Ids, Ids]
) -> tuple[Ids, Ids]:
    """Return edges of holds that an event record right behind proves, and when each let go.

    A record takes no time: completed long after everything before it had ended, it was held, and the call is
    what stands before it.

    Args:
        candidates: Calls that may have held.
        calls: Host calls.
        records: Event records.
        issue: How operations were issued.
        places: Stream of each operation, and the latest end of what is known to order it.

    Returns:
        int64 array, shape (edges, 6), as of `overlane.analysis.replay`; int64 array of ends.
    """
    stream, ordered = places
    ops = np.flatnonzero(candidates.call >= 0)
    rows = np.flatnonzero((records.device_ns != NULL) & (records.stream >= 0) & (records.at_ns != NULL))
    if not len(ops) or not len(rows):
        return np.zeros((0, 6), np.int64), np.zeros(0, np.int64)
    span = int(max(records.at_ns[rows].max(), issue.order_ns.max(), calls.end_ns.max())) + 1
    keys = records.stream[rows] * span + records.at_ns[rows]
    order = np.argsort(keys, kind="stable")
    call = candidates.call[ops]
    place = np.searchsorted(keys[order], stream[ops] * span + calls.start_ns[call])
    found = rows[order[np.minimum(place, len(rows) - 1)]]
    fits = (place < len(rows)) & (records.stream[found] == stream[ops])
    fits &= records.at_ns[found] < issue.order_ns[ops]
    device = records.device_ns[found]
    earliest = np.maximum(np.maximum(ordered[ops], records.at_ns[found]), calls.end_ns[call])
    fits &= (device > earliest + _MOST_LATENCY_NS) & (device <= issue.start_ns[ops])
    ops, call, device = ops[fits], call[fits], device[fits]
    return _edges(ops, np.full(len(ops), -1), candidates.kind[ops], _API_CALLS, call), device


def loading_launches(trace: Trace, calls: Calls, issue: Issue) -> tuple[Ids, Ids]:
    """Return the operations whose launch call loaded code lazily, with the row of the overhead inside it."""
    table = trace.table("overheads")
    kinds, names = words(table["kind"])
    lazy = np.array(["lazy_function_loading" in name.lower().replace(" ", "_") for name in names] or [False])
    rows = np.flatnonzero(lazy[kinds]) if len(kinds) else np.zeros(0, np.int64)
    ops = np.flatnonzero(issue.call >= 0)
    if not len(rows) or not len(ops):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    threads = {key: number for number, key in enumerate(calls.threads)}
    codes, keys = identities(table, ("rank", "process_id", "thread_id"))
    of = np.array([threads.get(key, -1) for key in keys] or [-1])[codes][rows]
    span = int(max(calls.end_ns.max(), trace.span_ns)) + 1
    sorted_keys = calls.thread[issue.call[ops]] * span + calls.start_ns[issue.call[ops]]
    order = np.argsort(sorted_keys, kind="stable")
    place = np.searchsorted(sorted_keys[order], of * span + known(table["start_ns"])[rows], "right") - 1
    op = ops[order[np.maximum(place, 0)]]
    call = issue.call[op]
    fits = (place >= 0) & (of >= 0) & (calls.thread[call] == of)
    fits &= known(table["end_ns"])[rows] <= calls.end_ns[call]
    return op[fits], rows[fits]


def loading_edges(trace: Trace, calls: Calls, issue: Issue, streams: Streams) -> Ids:
    """Return an edge to the last-ending earlier operation of the device, where a launch loaded code lazily.

    An operation that ran on when the launched one started shows that this load waited for nothing.
    """
    op, rows = loading_launches(trace, calls, issue)
    if not len(op):
        return np.zeros((0, 6), np.int64)
    source = _last_ending(issue, streams)[op]
    fits = (source >= 0) & (issue.end_ns[np.maximum(source, 0)] <= issue.start_ns[op])
    return _edges(op[fits], source[fits], np.full(int(fits.sum()), _MODULE), _OVERHEADS, rows[fits])


def _last_ending(issue: Issue, streams: Streams) -> Ids:
    """Return, for every operation, the last-ending one of those issued to its device before, -1 for none."""
    devices: dict[tuple[int | None, int | None], int] = {}
    of_stream = np.array(
        [devices.setdefault((row.rank, row.device_id), len(devices)) for row in streams.rows] or [0]
    )
    device = of_stream[streams.of_op]
    count = len(device)
    by_end = np.argsort(issue.end_ns, kind="stable")
    rank = np.empty(count, np.int64)
    rank[by_end] = np.arange(count)
    order = np.lexsort((issue.order_ns, device))
    # Shifted apart device by device, one running maximum serves all of them.
    reached = np.maximum.accumulate(device[order] * count + rank[order])
    first = np.append(True, device[order[1:]] != device[order[:-1]])
    source = np.full(count, -1)
    latest = by_end[np.append(np.int64(0), reached[:-1] % count)]
    source[order] = np.where(first, -1, latest)
    return source


def _edges(op: Ids, source: Ids, kind: Ids, table: int, row: Ids) -> Ids:
    count = len(op)
    columns = (op, source, kind, np.full(count, _LIKELY), np.full(count, table), row)
    return np.stack(columns, axis=1).astype(np.int64)
