"""Calls in which the host waited for the device: who waited, for which streams, from when to when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.calls import CALL_CLASSES, Calls
from overlane.analysis.issuing import Issue
from overlane.analysis.keys import NULL, Ids, known, words
from overlane.analysis.streams import Streams
from overlane.trace import Trace

__all__ = ["SYNC_KINDS", "Synchronizations", "synchronizations"]

SYNC_KINDS = ("event", "stream", "context", "device")
"""Synchronizations that hold the calling thread."""

_SYNCS, _API_CALLS, _HOST = 3, 2, 4
_OF_CALL = ("event_sync", "stream_sync", "context_sync", "device_sync")


@dataclass(frozen=True)
class Synchronizations:
    """Host waits, in the order of their starts.

    Attributes:
        kind: int64, place in `SYNC_KINDS`.
        start_ns: int64, start of the call.
        end_ns: int64, end of the call.
        thread: int64, thread of `Calls.threads`, -1 where not known.
        stream: int64, stream that was waited for, -1 for all or where not known.
        has_succeeded: bool, false where the call returned an error and so orders nothing.
        table: int64, code of the table of the row that tells it: `syncs`, else `api_calls`.
        row: int64, row there.
        call: int64, row of the call, -1 where it is not recorded.
    """

    kind: Ids
    start_ns: Ids
    end_ns: Ids
    thread: Ids
    stream: Ids
    has_succeeded: np.ndarray[Any, np.dtype[np.bool_]]
    table: Ids
    row: Ids
    call: Ids

    def edges(self, issue: Issue, calls: Calls) -> Ids:
        """Return an edge for the first operation that each thread issued after each wait had returned.

        Args:
            issue: How operations were issued.
            calls: The host calls.

        Returns:
            int64 array, shape (edges, 6), columns as in `overlane.analysis.replay.COLUMNS`; the source is -1.
        """
        op = self.next_operations(issue, calls)
        fits = np.flatnonzero((op >= 0) & self.has_succeeded)
        # Of several waits before one operation the last implies the others.
        fits = fits[np.lexsort((self.end_ns[fits], op[fits]))]
        fits = fits[np.append(op[fits[1:]] != op[fits[:-1]], True)] if len(fits) else fits
        count = len(fits)
        return np.stack(
            [
                op[fits],
                np.full(count, -1),
                np.full(count, _HOST),
                np.zeros(count, np.int64),
                self.table[fits],
                self.row[fits],
            ],
            axis=1,
        )

    def next_operations(self, issue: Issue, calls: Calls) -> Ids:
        """Return the first operation that each thread issued after each wait had returned, -1 for none."""
        rows = np.flatnonzero(issue.call >= 0)
        thread = calls.thread[issue.call[rows]] if len(rows) else rows
        rows, thread = rows[thread >= 0], thread[thread >= 0]
        span = int(max(calls.end_ns.max(initial=0), self.end_ns.max(initial=0))) + 1
        keys = thread * span + issue.order_ns[rows]
        order = np.argsort(keys, kind="stable")
        place = np.searchsorted(keys[order], self.thread * span + self.end_ns)
        inside = (place < len(rows)) & (self.thread >= 0)
        if not len(rows):
            return np.full(len(self.thread), -1)
        found = order[np.minimum(place, len(rows) - 1)]
        return np.where(inside & (thread[found] == self.thread), rows[found], -1)


def synchronizations(trace: Trace, calls: Calls, streams: Streams) -> Synchronizations:
    """Gather the host waits of a trace: rows of `syncs`, and calls of that kind that have no such row."""
    table = trace.table("syncs")
    codes, names = words(table["sync_kind"])
    kinds = np.array([SYNC_KINDS.index(name) if name in SYNC_KINDS else -1 for name in names] or [-1])
    kind = np.where(codes >= 0, kinds[codes], -1) if len(codes) else np.zeros(0, np.int64)
    rows = np.flatnonzero(kind >= 0)
    call = calls.of_rows(table)
    start, end = known(table["start_ns"]), known(table["end_ns"])
    result = known(table["result"])
    told = np.zeros(len(calls.kind), np.bool_)
    told[call[call >= 0]] = True
    of_call = np.full(len(CALL_CLASSES), -1)
    for place, name in enumerate(_OF_CALL):
        of_call[CALL_CLASSES.index(name)] = place
    bare = np.flatnonzero((of_call[calls.kind] >= 0) & ~told)
    has_call = call[rows] >= 0
    thread = np.where(has_call, calls.thread[np.maximum(call[rows], 0)] if len(calls.thread) else -1, -1)
    end = np.where(end == NULL, np.maximum(start, trace.span_ns), end)
    joined = [
        np.concatenate(pair)
        for pair in (
            (kind[rows], of_call[calls.kind][bare]),
            (start[rows], calls.start_ns[bare]),
            (end[rows], calls.end_ns[bare]),
            (thread, calls.thread[bare]),
            (streams.of_rows(table)[rows], np.full(len(bare), -1)),
            (((result == NULL) | (result == 0))[rows], calls.has_succeeded[bare]),
            (np.full(len(rows), _SYNCS), np.full(len(bare), _API_CALLS)),
            (rows, bare),
            (call[rows], bare),
        )
    ]
    order = np.argsort(joined[1], kind="stable")
    return Synchronizations(*(column[order] for column in joined))
