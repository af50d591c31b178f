"""What a trace does not say about the work that its host put into streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlane.analysis.dependencies import Dependencies
from overlane.analysis.keys import Ids, words
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Program
from overlane.trace import Trace

__all__ = ["has_all_records", "is_behind_whole_wait", "work_without_rows"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_FOREIGN = ("IpcOpenEventHandle", "ExternalSemaphores")


def has_all_records(trace: Trace) -> bool:
    """Tell whether the recording dropped nothing, as far as it says."""
    return all(c.check != "dropped_records" or c.status == "ok" for c in trace.header.integrity)


def work_without_rows(trace: Trace, deps: Dependencies) -> Ids:
    """Return when the host put something into a stream that no row of the device tells of, ascending.

    These are host functions, value waits, signals of other processes, and launches and copies without an
    operation.

    Args:
        trace: Any trace.
        deps: Its dependencies.
    """
    calls = deps.calls
    is_hidden = calls.is_of("host_function", "value_wait")
    codes, names = words(trace.table("api_calls")["name"])
    foreign = np.array([any(word in name for word in _FOREIGN) for name in names] or [False])
    is_hidden |= foreign[codes] if len(codes) else is_hidden
    puts = calls.is_of("launch", "copy", "copy_sync", "memset", "prefetch", "graph_launch")
    puts &= calls.has_succeeded
    has_row = np.zeros(len(calls.kind), np.bool_)
    has_row[deps.issue.call[deps.issue.call >= 0]] = True
    bare = np.flatnonzero(puts & ~has_row)
    is_hidden[bare] = ~_is_part_of(calls.thread, calls.start_ns, calls.end_ns, bare, np.flatnonzero(has_row))
    return np.sort(calls.start_ns[is_hidden])


def _is_part_of(thread: Ids, start: Ids, end: Ids, asked: Ids, others: Ids) -> Flags:
    """Tell which calls lie inside of another one of their thread, or around one: one call on two levels."""
    if not len(others) or not len(asked):
        return np.zeros(len(asked), np.bool_)
    span = int(end.max()) + 1
    key = (thread + 1) * span + start
    order = others[np.argsort(key[others], kind="stable")]
    place = np.searchsorted(key[order], key[asked], "right")
    before, after = order[np.maximum(place - 1, 0)], order[np.minimum(place, len(order) - 1)]
    inside = (place > 0) & (thread[before] == thread[asked]) & (end[before] >= end[asked])
    around = (place < len(order)) & (thread[after] == thread[asked]) & (end[after] <= end[asked])
    return np.asarray(inside | around)


def is_behind_whole_wait(program: Program, hidden: Ids) -> Flags:
    """Tell for each action whether its thread has waited for all streams since the last hidden work before.

    Args:
        program: The actions in host order.
        hidden: int64, ascending: when something was put into a stream that is in no row.
    """
    actions = program.actions
    count = len(actions.kind)
    if not len(hidden):
        return np.ones(count, np.bool_)
    last = np.append(np.int64(-1), hidden)[np.searchsorted(hidden, actions.at_ns, "left")]
    sizes = np.diff(program.scope_starts)
    whole = np.flatnonzero((actions.kind == act.SYNC_SCOPE) & (actions.row >= 0))
    whole = whole[(actions.flags[whole] & act.LIKELY == 0) & (actions.thread[whole] >= 0)]
    whole = whole[sizes[actions.ref[whole]] == len(program.streams.legacy)]
    out = last < 0
    for thread in np.unique(actions.thread[whole]).tolist():
        mine = whole[actions.thread[whole] == thread]
        rows = np.flatnonzero(actions.thread == thread)
        place = np.searchsorted(mine, rows, "left") - 1
        since = np.where(place >= 0, actions.at_ns[mine[np.maximum(place, 0)]], -1)
        out[rows] |= since > last[rows]
    return out
