"""When and by which call each operation was issued, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.calls import CALL_CLASSES, Calls
from overlane.analysis.keys import NULL, Ids, known, words
from overlane.intervals import close_unfinished
from overlane.trace import Trace

__all__ = ["Issue", "issue_operations"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Issue:
    """How operations were issued; arrays in order of operation.

    Attributes:
        start_ns: int64, when each started.
        end_ns: int64, when each ended; unfinished ones are taken to run to the trace's last stamp.
        call: int64, row of the call that issued it, -1 where unknown.
        issued_ns: int64, -1 where unknown; graph nodes as kernels without a queued stamp.
        order_ns: int64, where it stands among the calls of the host: the start of its call, else its queued
            stamp, else its own start.
        is_ordered_by_start: bool, where only its own start tells the order.
        is_blocking_copy: bool, a copy that holds the thread that issues it.
        is_node: bool, a node of a graph.
        is_host_stamp: bool, where `issued_ns` is a stamp of the host's clock.
    """

    start_ns: Ids
    end_ns: Ids
    call: Ids
    issued_ns: Ids
    order_ns: Ids
    is_ordered_by_start: Flags
    is_blocking_copy: Flags
    is_node: Flags
    is_host_stamp: Flags


def issue_operations(trace: Trace, calls: Calls) -> Issue:
    """Find the call and the issue of every operation, as `docs/causes.md` defines them."""
    ops = trace.table("ops")
    start = known(ops["start_ns"])
    end = known(ops["end_ns"])
    if ops["end_ns"].null_count:
        end = close_unfinished(start, end, end == NULL, trace.span_ns)
    call = calls.of_rows(ops, starts_work=True)
    has_call = call >= 0
    place = np.maximum(call, 0)
    none = np.full(1, NULL, np.int64)
    call_start = (calls.start_ns if len(calls.start_ns) else none)[place]
    call_end = (calls.end_ns if len(calls.end_ns) else none)[place]
    call_kind = (calls.kind if len(calls.kind) else np.zeros(1, np.uint8))[place]
    queued = known(ops["queued_ns"])
    graph = CALL_CLASSES.index("graph_launch")
    is_node = (known(ops["graph_node_id"]) != NULL) | (
        has_call & (call_kind == graph) & ~_is(ops, "kind", "graph")
    )
    blocking = has_call & _blocking_copies(ops, call_kind)
    issued = np.where(has_call, np.minimum(call_end, start), -1)
    is_stamped = _is(ops, "kind", "kernel") & (queued != NULL) & ~is_node
    issued = np.where(is_stamped, queued, np.where(blocking, call_start, issued))
    order = np.where(has_call, call_start, np.where(queued != NULL, queued, start))
    return Issue(
        start,
        end,
        call,
        issued,
        order,
        ~has_call & (queued == NULL),
        blocking,
        is_node,
        is_stamped | blocking | (has_call & (call_end < start)),
    )


def _blocking_copies(ops: Any, call_kind: np.ndarray[Any, np.dtype[np.uint8]]) -> Flags:
    """Return the copies between host and device by a synchronous call, or of pageable memory."""
    crosses = _is(ops, "engine", "copy_h2d") | _is(ops, "engine", "copy_d2h")
    pageable = _is(ops, "src_memory", "pageable") | _is(ops, "dst_memory", "pageable")
    blocking: Flags = crosses & (pageable | (call_kind == CALL_CLASSES.index("copy_sync")))
    return blocking


def _is(ops: Any, column: str, word: str) -> Flags:
    codes, found = words(ops[column])
    if word not in found:
        return np.zeros(len(codes), np.bool_)
    return np.asarray(codes == found.index(word), np.bool_)
