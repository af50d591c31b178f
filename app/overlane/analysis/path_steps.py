"""Compiled passes of the critical path: the walk back, and the slack of every operation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overlane.analysis.keys import Ids

__all__ = ["slacks", "walk"]

# Numba compiles a function anew for each plain number in a tuple that it is called with, not for NumPy's.
_KINDS: tuple[Any, ...] = tuple(np.arange(5))
_OPERATION, _DEVICE, _LAUNCH, _CALL, _HOST = _KINDS  # places in `critical_path.PATH_KINDS`
_NONE: Any = np.int64(-1)
_FAR = np.iinfo(np.int64).max // 4


@njit(cache=True, nogil=True)
def _link(out: Ids, count: int, link: tuple[int, int, int, int, int]) -> tuple[Ids, int]:
    """Write down a link that holds time."""
    if link[2] >= link[3]:
        return out, count
    if count == len(out):
        longer = np.empty((2 * len(out), 5), np.int64)
        longer[: len(out)] = out
        out = longer
    out[count, 0], out[count, 1], out[count, 2], out[count, 3], out[count, 4] = link
    return out, count + 1


@njit(cache=True, nogil=True)
def _bound(ops: tuple[Ids, ...], b: int) -> tuple[int, int]:
    """Return the dependency of an operation that ended last, -1 for none, and when, not after its start."""
    start, end, _, _, begins, sources = ops
    best, at = -1, -1
    for edge in range(begins[b], begins[b + 1]):
        a = sources[edge]
        if a >= 0 and a != b and min(end[a], start[b]) > at and start[a] <= start[b]:
            best, at = a, min(end[a], start[b])
    return best, at


@njit(cache=True, nogil=True)
def walk(ops: tuple[Ids, ...], calls: tuple[Ids, ...], last: int, low: int, stop: int) -> Ids:
    """Walk back from the end of an operation; return the links, the last one first.

    Args:
        ops: start, end, issue, call, first edge of each operation, and sources of edges.
        calls: start, end, call before and after in the thread, holding operation of each call.
        last: Operation that ends last.
        low: Where the window starts, in ns.
        stop: Its last end, in ns.
    """
    start, _, issued, call_of, _, _ = ops
    out = np.empty((64, 5), np.int64)
    count: Any = np.int64(0)
    b, t = last, stop
    left = 4 * (len(start) + len(calls[0])) + 4  # a chain that meets itself in broken stamps ends here
    while t > low and left > 0:
        left -= 1
        at = min(start[b], t)
        out, count = _link(out, count, (b, _NONE, max(at, low), t, _OPERATION))
        a, ready = _bound(ops, b)
        issue = min(issued[b], at)
        ready = min(ready, at)
        if a >= 0 and ready >= issue:
            out, count = _link(out, count, (b, _NONE, max(ready, low), at, _DEVICE))
            b, t = a, ready
            continue
        if issue < 0:
            out, count = _link(out, count, (_NONE, _NONE, low, at, _HOST))
            break
        out, count = _link(out, count, (b, _NONE, max(issue, low), at, _LAUNCH))
        out, count, b, t = _walk_host(calls, ops[1], call_of[b], low, issue, out, count)
        if b < 0:
            break
    return out[:count]


@njit(cache=True, nogil=True)
def _walk_host(  # noqa: PLR0917 - a part of the walk
    calls: tuple[Ids, ...], op_end: Ids, c: int, low: int, t: int, out: Ids, count: int
) -> tuple[Ids, int, int, int]:
    """Walk back from inside of a call to the operation that held its thread, -1 for none in the window."""
    start, end, before, _, holder = calls
    is_launch = True
    while t > low and c >= 0:
        h = -1 if is_launch else holder[c]
        is_launch = False
        if h >= 0 and min(op_end[h], t) > start[c]:
            over = min(op_end[h], t)
            out, count = _link(out, count, (_NONE, c, max(over, low), t, _CALL))
            return out, count, h, over
        since = min(start[c], t)
        out, count = _link(out, count, (_NONE, c, max(since, low), t, _CALL))
        p = before[c]
        t = min(end[p], since) if p >= 0 else low
        out, count = _link(out, count, (_NONE, c, max(t, low), since, _HOST))
        c = p
    out, count = _link(out, count, (_NONE, _NONE, low, t, _HOST))
    return out, count, -1, low


@njit(cache=True, nogil=True)
def slacks(ops: tuple[Ids, ...], calls: tuple[Ids, ...], order: Ids, held: tuple[Ids, Ids], stop: int) -> Ids:
    """Return how much each operation may grow without moving the last end, in ns.

    Args:
        ops: As of `walk`.
        calls: As of `walk`.
        order: Operations, then starts of calls, then their ends, in host order, by numbers that go on.
        held: Where the operations that each call waited for begin, and these.
        stop: The last end, in ns.
    """
    start, end, issued, call_of, begins, sources = ops
    call_start, call_end, _, after, _ = calls
    count = len(start)
    slack = np.full(count, _FAR, np.int64)
    for b in range(count):
        if start[b] < stop:
            slack[b] = max(stop - end[b], 0)
    room = np.full(len(call_start), _FAR, np.int64)  # how much later each call may start
    until = np.full(len(call_start), _FAR, np.int64)  # the same, as far as its end tells
    for place in range(len(order) - 1, -1, -1):
        if order[place] < count:
            b = order[place]
            _, ready = _bound(ops, b)
            ready = max(ready, min(issued[b], start[b]))
            for edge in range(begins[b], begins[b + 1]):
                a = sources[edge]
                if a >= 0 and a != b and start[a] <= start[b]:
                    slack[a] = min(slack[a], ready - min(end[a], start[b]) + slack[b])
            if issued[b] >= 0 and call_of[b] >= 0:
                room[call_of[b]] = min(room[call_of[b]], ready - min(issued[b], start[b]) + slack[b])
            continue
        c = order[place] - count
        if c < len(room):  # its start, behind which everything that it issued has been looked at
            room[c] = min(room[c], until[c])
            continue
        c -= len(room)
        later = room[after[c]] if after[c] >= 0 else _FAR
        ready = call_start[c]
        for k in range(held[0][c], held[0][c + 1]):
            ready = max(ready, min(end[held[1][k]], call_end[c]))
        for k in range(held[0][c], held[0][c + 1]):
            a = held[1][k]
            slack[a] = min(slack[a], ready - min(end[a], call_end[c]) + later)
        until[c] = ready - call_start[c] + later
    return slack
