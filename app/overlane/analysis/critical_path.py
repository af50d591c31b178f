"""The chain of device and host work that the end of a window waited for, and how far operations may grow.

`docs/causes.md` ("Critical path and slack") defines both. The chain is walked back from the last end: an
operation was bound by the dependency that ended last, or by its issue where that was later; an issue by what
its thread did before; a call that waited for the device by the operation that ended last of those it waited
for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis import path_steps as steps
from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.keys import NULL, Bytes, Codes, Ids, Lookup, dense, known
from overlane.analysis.streams import StreamRow, number_streams
from overlane.analysis.synchronizing import SYNC_KINDS, Synchronizations, synchronizations
from overlane.errors import OverlaneError
from overlane.trace import Trace

__all__ = ["PATH_KINDS", "CriticalPath", "critical_path"]

PATH_KINDS = ("operation", "device_wait", "launch", "call", "host")
"""Kinds of links: an operation ran; it waited for the device after its last dependency, or after its issue; a
host call ran; the host did something between calls."""


_NEVER = -2  # an id that no row has


@dataclass(frozen=True)
class CriticalPath:
    """The links from the window's start to its last end, without gaps.

    Attributes:
        op: int32, shape (links,): operation that ran or waited, -1 for the host.
        call: int64: call that ran, or before which the host was busy, -1 for none.
        start_ns: int64.
        end_ns: int64, where the next link starts.
        kind: uint8, place in `PATH_KINDS`.
        slack_ns: int64, shape (ops,): how much each operation may grow without moving the last end; -1 for
            those that start at or after it.
        window: Start and end that the links cover.
    """

    op: Codes
    call: Ids
    start_ns: Ids
    end_ns: Ids
    kind: Bytes
    slack_ns: Ids
    window: tuple[int, int]

    def __len__(self) -> int:
        return len(self.op)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the documented keys of the report's section `critical-path`."""
        ends = self.start_ns.tolist(), self.end_ns.tolist()
        rows = zip(self.op.tolist(), self.call.tolist(), *ends, self.kind.tolist(), strict=True)
        return [
            ({"op_id": op} if op >= 0 else {"call_id": call if call >= 0 else None})
            | {"start_ns": start, "end_ns": end, "kind": PATH_KINDS[kind]}
            for op, call, start, end, kind in rows
        ]


def critical_path(trace: Trace, deps: Dependencies, window: tuple[int, int] | None = None) -> CriticalPath:
    """Return what the last end of a window waited for.

    Args:
        trace: Any trace.
        deps: Its dependencies.
        window: Start and end in ns; by default from the first start to the last end of the operations.

    Raises:
        OverlaneError: The window ends before it starts.

    Example:
        >>> import overlane
        >>> from overlane.analysis.dependencies import dependencies
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> critical_path(trace, dependencies(trace)).slack_ns  # doctest: +SKIP
    """
    if window is not None and window[1] < window[0]:
        raise OverlaneError(f"the window {window[0]}:{window[1]} ends before it starts; give its start first")
    issue = deps.issue
    start, end = issue.start_ns, issue.end_ns
    low, high = window or (int(start[0]) if len(start) else 0, int(end.max(initial=0)))
    inside = (start < high) & (np.minimum(end, high) > low)
    if not inside.any():
        none = np.zeros(0, np.int64)
        slack = np.full(len(start), -1, np.int64)
        return CriticalPath(none.astype(np.int32), none, none, none, none.astype(np.uint8), slack, (low, low))
    reached = np.where(inside, np.minimum(end, high), low - 1)
    last = int(np.argmax(reached))
    stop = int(reached[last])
    graph = _graph(trace, deps)
    links = steps.walk(graph.ops, graph.calls, last, low, stop)[::-1]
    slack = steps.slacks(graph.ops, graph.calls, graph.order, graph.held, stop)
    return CriticalPath(
        links[:, 0].astype(np.int32), links[:, 1].copy(), links[:, 2].copy(), links[:, 3].copy(),
        links[:, 4].astype(np.uint8), np.where(start < stop, slack, -1), (low, stop),
    )  # fmt: skip


@dataclass(frozen=True)
class _Graph:
    """Columns for the compiled passes.

    Attributes:
        ops: start, end, issue (-1 unknown), call, first edge, and source of each edge.
        calls: start, end, previous call of the thread, next call, and the operation that held it last, -1
            for none.
        order: Operations, then starts of calls, then their ends, in host order, by numbers that go on.
        held: call and operation of each operation that a call waited for, in order of call.
    """

    ops: tuple[Ids, ...]
    calls: tuple[Ids, ...]
    order: Ids
    held: tuple[Ids, Ids]


def _graph(trace: Trace, deps: Dependencies) -> _Graph:
    issue, calls = deps.issue, deps.calls
    count = len(issue.start_ns)
    before, after = _neighbours(calls.thread, calls.start_ns)
    call, op = _held(trace, deps)
    holder = np.full(len(calls.start_ns), -1, np.int64)
    by_end = np.argsort(issue.end_ns[op], kind="stable")
    fits = by_end[issue.end_ns[op[by_end]] <= calls.end_ns[call[by_end]]]
    holder[call[fits]] = op[fits]  # the last one wins
    at = np.concatenate([issue.order_ns, calls.start_ns, calls.start_ns])
    rank = np.repeat([1, 0, 2], [count, len(calls.start_ns), len(calls.start_ns)])
    second = np.concatenate([issue.start_ns, calls.start_ns, calls.start_ns])
    order = np.lexsort((second, rank, at))
    turn = np.argsort(call, kind="stable")
    starts = np.searchsorted(call[turn], np.arange(len(calls.start_ns) + 1)).astype(np.int64)
    issued = np.where(deps.issued_ns >= 0, np.minimum(deps.issued_ns, issue.start_ns), -1)
    return _Graph(
        (issue.start_ns, issue.end_ns, issued, deps.issue_call, deps.begins, deps.source.astype(np.int64)),
        (calls.start_ns, calls.end_ns, before, after, holder),
        order,
        (starts, op[turn]),
    )


def _neighbours(thread: Ids, start: Ids) -> tuple[Ids, Ids]:
    """Return the call before and after each one of its thread, -1 for none."""
    before, after = np.full(len(thread), -1, np.int64), np.full(len(thread), -1, np.int64)
    order = np.lexsort((start, thread))
    same = (thread[order[1:]] == thread[order[:-1]]) & (thread[order[1:]] >= 0)
    before[order[1:][same]] = order[:-1][same]
    after[order[:-1][same]] = order[1:][same]
    return before, after


def _held(trace: Trace, deps: Dependencies) -> tuple[Ids, Ids]:
    """Return calls and the operations that they waited for: the last one issued before to each stream."""
    streams = number_streams(trace)
    found = synchronizations(trace, deps.calls, streams)
    rows = np.flatnonzero((found.call >= 0) & found.has_succeeded)
    issue = deps.issue
    key = deps.stream_key.astype(np.int64)
    span = int(max(issue.order_ns.max(initial=0), found.start_ns.max(initial=0))) + 1
    order = np.argsort(key * span + issue.order_ns, kind="stable")
    sorted_keys = (key * span + issue.order_ns)[order]
    calls, ops = [], []
    where = _covering(trace, found, rows)
    for number, row in enumerate(deps.streams):
        mine = rows[where(number, row)]
        at = np.searchsorted(sorted_keys, number * span + deps.calls.start_ns[found.call[mine]]) - 1
        has = (at >= 0) & (key[order[np.maximum(at, 0)]] == number) if len(order) else at >= len(order)
        calls.append(found.call[mine][has])
        ops.append(order[at[has]])
    synced, recorded = _recorded(trace, deps, found, rows)
    stream = deps.records.stream[recorded]
    at = np.searchsorted(sorted_keys, stream * span + deps.records.at_ns[recorded]) - 1
    has = (at >= 0) & (key[order[np.maximum(at, 0)]] == stream) if len(order) else at >= len(order)
    calls.append(synced[has])
    ops.append(order[at[has]])
    copies = np.flatnonzero(issue.is_blocking_copy & (issue.call >= 0))
    copies = copies[issue.end_ns[copies] <= deps.calls.end_ns[issue.call[copies]]]
    return (
        np.concatenate([*calls, issue.call[copies]]).astype(np.int64),
        np.concatenate([*ops, copies]).astype(np.int64),
    )


def _recorded(trace: Trace, deps: Dependencies, found: Synchronizations, rows: Ids) -> tuple[Ids, Ids]:
    """Return the calls that waited for an event whose record is known by its sync id, and that record."""
    syncs, records = trace.table("syncs"), trace.table("event_records")
    is_event = (found.kind[rows] == SYNC_KINDS.index("event")) & (
        found.table[rows] == PROOF_TABLES.index("syncs")
    )
    rows = rows[is_event]
    asked, made = known(syncs["cuda_event_sync_id"]), known(records["cuda_event_sync_id"])
    ranks = dense(np.concatenate([known(syncs["rank"]), known(records["rank"])]))[0]
    keys, _ = dense(np.concatenate([asked, made]))
    keys = np.where(
        np.concatenate([asked, made]) == NULL, NULL, ranks * (int(keys.max(initial=0)) + 1) + keys
    )
    record = Lookup(keys[len(asked) :]).rows(keys[: len(asked)][found.row[rows]])
    fits = record >= 0
    fits[fits] &= deps.records.stream[record[fits]] >= 0
    return found.call[rows][fits], record[fits]


def _covering(trace: Trace, found: Synchronizations, rows: Ids) -> Callable[[int, StreamRow], Ids]:
    """Return a function that tells which of some waits cover a stream."""
    syncs = trace.table("syncs")
    is_row = found.table[rows] == PROOF_TABLES.index("syncs")
    place = np.where(is_row, found.row[rows], 0)
    none = np.zeros(len(rows), np.int64)
    device, context = (
        known(syncs[name])[place] if len(syncs) else none for name in ("device_id", "context_id")
    )
    kind = found.kind[rows]
    parents = {r["context_id"]: r["parent_context_id"] for r in trace.table("partitions").to_pylist()}

    def covers(number: int, row: StreamRow) -> Ids:
        own_device, own_context, root = (
            _NEVER if value is None else value
            for value in (row.device_id, row.context_id, parents.get(row.context_id))
        )
        is_stream = (kind == SYNC_KINDS.index("stream")) & (found.stream[rows] == number)
        same_device = ~is_row | (device == own_device) | (device == NULL)
        same_context = ~is_row | (context == NULL) | (context == own_context) | (context == root)
        wide = (kind == SYNC_KINDS.index("device")) & same_device
        wide |= (kind == SYNC_KINDS.index("context")) & same_device & same_context
        return np.flatnonzero(is_stream | wide)

    return covers
