"""What each host thread was doing at any moment, as far as it holds up the work that it issues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from overlane.analysis.causes import code_of
from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.inferred import loading_launches
from overlane.analysis.keys import NULL, Ids, identities, in_order, known, words
from overlane.trace import Trace

__all__ = ["Doing", "Nest", "States", "host_states", "nest"]

_RANKS = (
    "host_sync",
    "allocation",
    "module_load",
    "implicit_sync",
    "blocking_copy",
    "launch_queue_full",
    "profiler_overhead",
)
"""Causes of idle time by what the issuing thread did, the one that goes first where several meet in front."""


@dataclass(frozen=True)
class Doing:
    """Intervals in which threads did something that holds up work; any order, overlapping.

    Attributes:
        thread: int64, number of the thread.
        start_ns: int64.
        end_ns: int64.
        rank: int64, place of the cause in the order of precedence.
        table: int64, code of the table that proves it.
        row: int64, row there.
    """

    thread: Ids
    start_ns: Ids
    end_ns: Ids
    rank: Ids
    table: Ids
    row: Ids


@dataclass(frozen=True)
class States:
    """Disjoint stretches of threads with one cause each, in order of thread, then time.

    Attributes:
        begins: int64, shape (threads + 1,), where the stretches of each thread begin.
        start_ns: int64.
        end_ns: int64.
        cause: int64, code of the cause.
        table: int64, code of the table that proves it.
        row: int64, row there.
        also_open: int64, bit set of other causes at once.
    """

    begins: Ids
    start_ns: Ids
    end_ns: Ids
    cause: Ids
    table: Ids
    row: Ids
    also_open: Ids


def host_states(trace: Trace, deps: Dependencies) -> States:
    """Return what each thread of `deps.calls.threads` was doing that holds up work."""
    parts = [
        _synchronizing(deps),
        _calling(trace, deps),
        *_overheads(trace, deps),
    ]
    joined = [
        np.concatenate([getattr(part, name) for part in parts]).astype(np.int64)
        for name in ("thread", "start_ns", "end_ns", "rank", "table", "row")
    ]
    fits = (joined[0] >= 0) & (joined[1] < joined[2])
    thread, start, end, rank, table, row = (column[fits] for column in joined)
    count = len(thread)
    # Moments of every thread; at one moment ends come before starts, and the outermost starts first.
    at = np.concatenate([start, end])
    of = np.concatenate([np.arange(count), np.arange(count)])
    is_start = np.repeat([1, 0], count)
    order = np.lexsort((-end[of], is_start, at, thread[of]))
    causes = np.array([code_of(name) for name in _RANKS])
    swept = _sweep(at[order], of[order], is_start[order], thread, rank, causes)
    owner = swept[:, 3]
    return States(
        np.searchsorted(swept[:, 0], np.arange(len(deps.calls.threads) + 1)).astype(np.int64),
        np.ascontiguousarray(swept[:, 1]),
        np.ascontiguousarray(swept[:, 2]),
        causes[rank[owner]],
        table[owner],
        row[owner],
        np.ascontiguousarray(swept[:, 4]),
    )


def _synchronizing(deps: Dependencies) -> Doing:
    waits = deps.host_waits
    # The call lasts longer than the wait that is recorded inside it.
    call = waits.call
    has_call = call >= 0
    start, end = waits.start_ns, waits.end_ns
    if len(deps.calls.start_ns):
        start = np.where(has_call, np.minimum(start, deps.calls.start_ns[call]), start)
        end = np.where(has_call, np.maximum(end, deps.calls.end_ns[call]), end)
    return Doing(waits.thread, start, end, np.zeros(len(call), np.int64), waits.table, waits.row)


def _calling(trace: Trace, deps: Dependencies) -> Doing:
    calls = deps.calls
    rank = np.full(len(calls.kind), -1)
    blocking = deps.issue_call[deps.issue.is_blocking_copy]
    rank[blocking] = _RANKS.index("blocking_copy")
    for name, classes in (
        ("allocation", ("allocation", "allocation_async", "free")),
        ("module_load", ("module_load",)),
        ("implicit_sync", ("implicit_sync",)),
    ):
        rank[calls.is_of(*classes)] = _RANKS.index(name)
    launched, _ = loading_launches(trace, calls, deps.issue)
    rank[deps.issue_call[launched]] = _RANKS.index("module_load")
    rows = np.flatnonzero(rank >= 0)
    table = np.full(len(rows), PROOF_TABLES.index("api_calls"))
    return Doing(calls.thread[rows], calls.start_ns[rows], calls.end_ns[rows], rank[rows], table, rows)


def _overheads(trace: Trace, deps: Dependencies) -> list[Doing]:
    """Return full command buffers inside launch calls, and the recording's own work."""
    table = trace.table("overheads")
    threads = {key: number for number, key in enumerate(deps.calls.threads)}
    codes, keys = identities(table, ("rank", "process_id", "thread_id"))
    numbers = np.array([threads.get(key, -1) if key[2] is not None else -1 for key in keys] or [-1])
    thread = numbers[codes] if len(codes) else codes
    kinds, names = words(table["kind"])
    is_full = np.array(["buffer_full" in name.lower().replace(" ", "_") for name in names] or [False])
    start, end = known(table["start_ns"]), known(table["end_ns"])
    of_recording = known(table["of_recording"].cast("uint8"), null=0) == 1
    code = PROOF_TABLES.index("overheads")
    own = np.flatnonzero(of_recording & (end != NULL) & (thread >= 0))
    found = [
        Doing(
            thread[own],
            start[own],
            end[own],
            np.full(len(own), _RANKS.index("profiler_overhead")),
            np.full(len(own), code),
            own,
        )
    ]
    full = np.flatnonzero(is_full[kinds] & (end != NULL)) if len(kinds) else own[:0]
    if len(full):
        found.append(_full(deps, full, (thread[full], start[full], end[full]), code))
    return found


def _full(deps: Dependencies, rows: Ids, overhead: tuple[Ids, Ids, Ids], code: int) -> Doing:
    """Return the parts of launch calls in which the command buffer was full."""
    calls = deps.calls
    launch = np.flatnonzero(
        calls.is_of("launch", "graph_launch", "copy", "memset", "copy_sync") & (calls.thread >= 0)
    )
    span = int(max(calls.end_ns.max(initial=0), overhead[2].max(initial=0))) + 1
    keys = calls.thread[launch] * span + calls.start_ns[launch]
    order = np.argsort(keys, kind="stable")
    thread, start, end = overhead
    place = np.searchsorted(keys[order], thread * span + end) - 1
    fits = (place >= 0) & (thread >= 0)
    call = launch[order[np.maximum(place, 0)]] if len(launch) else np.zeros(len(rows), np.int64)
    fits &= (calls.thread[call] == thread) if len(launch) else False
    rows, call, thread, start, end = rows[fits], call[fits], thread[fits], start[fits], end[fits]
    return Doing(
        thread,
        np.maximum(start, calls.start_ns[call]),
        np.minimum(end, calls.end_ns[call]),
        np.full(len(rows), _RANKS.index("launch_queue_full")),
        np.full(len(rows), code),
        rows,
    )


@njit(cache=True, nogil=True)
def _sweep(  # noqa: PLR0917
    at: Ids, of: Ids, is_start: Any, thread: Ids, rank: Ids, causes: Ids
) -> Ids:
    """Return stretches: thread, start, end, the interval that counts, and the bit set of other causes."""
    found = np.empty((2 * len(at) + 1, 5), np.int64)
    used = 0
    active = np.zeros(len(causes), np.int64)
    owner = np.full(len(causes), -1, np.int64)
    for k in range(len(at) - 1):
        interval = of[k]
        mine = rank[interval]
        if is_start[k]:
            if active[mine] == 0:
                owner[mine] = interval
            active[mine] += 1
        else:
            active[mine] -= 1
        following = of[k + 1]
        if thread[following] != thread[interval] or at[k + 1] == at[k]:
            continue
        first, bits = -1, 0
        for place in range(len(causes)):
            if active[place]:
                if first < 0:
                    first = place
                else:
                    bits |= 1 << causes[place]
        if first < 0:
            continue
        row = found[used - 1]
        if (
            used
            and row[2] == at[k]
            and row[0] == thread[interval]
            and row[3] == owner[first]
            and row[4] == bits
        ):
            row[2] = at[k + 1]
            continue
        found[used, 0], found[used, 1], found[used, 2] = thread[interval], at[k], at[k + 1]
        found[used, 3], found[used, 4] = owner[first], bits
        used += 1
    return found[:used]


@dataclass(frozen=True)
class Nest:
    """Intervals of threads, to find the innermost one at a moment.

    Attributes:
        begins: int64, shape (threads + 1,), where the intervals of each thread begin.
        start_ns: int64, in order of thread, start, and from the longest.
        end_ns: int64.
        parent: int64, the interval around each, -1 for none.
        row: int64, row of the table.
    """

    begins: Ids
    start_ns: Ids
    end_ns: Ids
    parent: Ids
    row: Ids

    def innermost(self, thread: Ids, at: Ids) -> Ids:
        """Return the row of the innermost interval of each thread at each moment, -1 for none."""
        return np.asarray(
            _innermost(self.begins, self.start_ns, self.end_ns, self.parent, self.row, thread, at)
        )


def nest(thread: Ids, start: Ids, end: Ids, count: int) -> Nest:
    """Arrange the intervals of threads.

    Args:
        thread: Number of each interval's thread, -1 for none.
        start: Starts.
        end: Ends.
        count: How many threads there are.
    """
    rows = np.flatnonzero(thread >= 0)
    rows = rows[in_order(thread[rows], count)]
    of, at = thread[rows], start[rows]
    # Rows come in the order of their starts, shorter ones first where several start at once.
    if ((of[1:] == of[:-1]) & (at[1:] <= at[:-1])).any():
        rows = rows[np.lexsort((-end[rows], at, of))]
        of, at = thread[rows], start[rows]
    begins = np.searchsorted(of, np.arange(count + 1)).astype(np.int64)
    return Nest(begins, at, end[rows], np.asarray(_parents(of, at, end[rows])), rows)


@njit(cache=True, nogil=True)
def _parents(thread: Ids, start: Ids, end: Ids) -> Ids:
    parent = np.full(len(start), -1, np.int64)
    for k in range(1, len(start)):
        around = k - 1
        while around >= 0 and (thread[around] != thread[k] or end[around] <= start[k]):
            around = parent[around] if thread[around] == thread[k] else -1
        parent[k] = around
    return parent


@njit(cache=True, nogil=True)
def _innermost(  # noqa: PLR0917
    begins: Ids, start: Ids, end: Ids, parent: Ids, row: Ids, thread: Ids, at: Ids
) -> Ids:
    found = np.full(len(thread), -1, np.int64)
    for k in range(len(thread)):
        if thread[k] < 0:
            continue
        low, high = begins[thread[k]], begins[thread[k] + 1]
        place = low + np.searchsorted(start[low:high], at[k], "right") - 1
        while place >= low and end[place] <= at[k]:
            place = parent[place]
        found[k] = row[place] if place >= low else -1
    return found
