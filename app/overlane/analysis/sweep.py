"""Compiled passes over the start-sorted operations of one device.

The first follows which engines are busy: between two neighbouring changes the set does not change, so each
piece of time is added to one subset of engines, and every busy time, overlap and idle time is a sum over
subsets. The second (`overlane.intervals.concurrency`) follows how many operations are open. Beside the
sums, each keeps the longest unbroken interval of each number, as the proof that a page can link to.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from overlane.intervals import Times, concurrency

__all__ = [
    "ANY_EXPOSED",
    "BUSY",
    "CLASSES",
    "COMPUTE",
    "COPIES",
    "EXPOSED",
    "IDLE",
    "Sweep",
    "by_group",
    "pair_row",
    "sweep",
]

Classes = np.ndarray[Any, np.dtype[np.uint8]]

CLASSES = 7
"""The six engines of the contract and, last, operations whose engine the source does not say."""
COMPUTE = 0b0000001
"""Bit of the compute engine in a subset."""
COPIES = 0b0011110
"""Bits of the copy engines in a subset."""

# Rows of `longest`: one per class, then one per pair, then:
EXPOSED = CLASSES + CLASSES * CLASSES
"""Row of the first class without compute; one row per class."""
BUSY = EXPOSED + CLASSES
"""Row of any operation."""
IDLE = BUSY + 1
"""Row of no operation."""
ANY_EXPOSED = IDLE + 1
"""Row of any copy without compute."""
_ROWS = ANY_EXPOSED + 1

_LOW_BITS = 32
"""Lengths are added up in two parts, the low bits apart from the rest."""
_NEVER = np.iinfo(np.int64).max
_LOWEST = np.array([(mask & -mask).bit_length() - 1 for mask in range(1 << CLASSES)], np.int64)


def pair_row(a: int, b: int) -> int:
    """Return the row of `Sweep.longest` of two classes, in either order."""
    return CLASSES + min(a, b) * CLASSES + max(a, b)


@dataclass(frozen=True)
class Sweep:
    """What one pass measured.

    Attributes:
        subset_ns: int64, shape (128,): time in which exactly these engines were busy; the index is their
            bit set.
        longest: int64, shape (rows, 2): length and start; row e is class e, the others are named above.
        op_count: int64, shape (7,): operations that touch the window.
        work_ns: Python integers, shape (7,): their lengths inside the window, added up. Many long ones at
            the same time pass 64 bits.
        level_ns: int64, shape (levels,): time with exactly that many operations open.
        level_longest: int64, shape (levels, 2): start and end of the longest such interval.
    """

    subset_ns: Times
    longest: Times
    op_count: Times
    work_ns: np.ndarray[Any, np.dtype[np.object_]]
    level_ns: Times
    level_longest: Times


def by_group(
    start: Times, end: Times, engine: Classes, group: np.ndarray[Any, np.dtype[np.int32]], groups: int
) -> Iterator[tuple[Times, Times, Classes]]:
    """Yield the operations of each group, in their order.

    Args:
        start: int64, shape (n,).
        end: int64, shape (n,).
        engine: uint8, shape (n,).
        group: int32, shape (n,), from 0 to `groups` - 1.
        groups: Number of groups; with one, the given arrays are yielded.
    """
    if groups == 1:
        yield start, end, engine
        return
    counts = _count(group, groups)
    until = np.cumsum(counts)
    parted = np.empty_like(start), np.empty_like(end), np.empty_like(engine)
    _part(start, end, engine, group, until - counts, *parted)
    for low, high in pairwise([0, *until.tolist()]):
        yield parted[0][low:high], parted[1][low:high], parted[2][low:high]


def sweep(start: Times, end: Times, engine: Classes, *, window: tuple[int, int], takes_edge: bool) -> Sweep:
    """Measure the operations of one device.

    Args:
        start: int64, shape (n,), sorted.
        end: int64, shape (n,), known and never before the start.
        engine: uint8, shape (n,), class 0 to 6.
        window: Start and end in ns; operations count with their parts inside.
        takes_edge: Operations of zero length at the very end of the window count too (the window is the
            trace's).
    """
    low, high = window[0], max(window)
    with ThreadPoolExecutor(1) as beside:  # neither pass holds the interpreter's lock
        levels = beside.submit(concurrency, (start, end), (low, high))
        subset_ns, longest, op_count, work = _engines(start, end, engine, low, high, takes_edge)
        work_ns = (work[0].astype(object) << _LOW_BITS) + work[1].astype(object)
        return Sweep(subset_ns, longest, op_count, work_ns, *levels.result())


@njit(cache=True, nogil=True)
def _count(group: Any, groups: int) -> Times:
    """Return the rows of each group; NumPy's own count first copies the groups as wider integers."""
    counts = np.zeros(groups, np.int64)
    for i in range(len(group)):
        counts[group[i]] += 1
    return counts


@njit(cache=True, nogil=True)
def _part(  # noqa: PLR0917 - arrays in, arrays out
    start: Times, end: Times, engine: Classes, group: Any, at: Any,
    out_start: Times, out_end: Times, out_engine: Classes,
) -> None:  # fmt: skip
    """Bring rows of one group together; `at` holds where the next row of each group goes."""
    for i in range(len(start)):
        to = at[group[i]]
        at[group[i]] = to + 1
        out_start[to] = start[i]
        out_end[to] = end[i]
        out_engine[to] = engine[i]


@njit(cache=True, nogil=True)
def _keep(longest: Times, row: int, since: int, at: int) -> None:
    if at - since > longest[row, 0]:
        longest[row, 0] = at - since
        longest[row, 1] = since


@njit(cache=True, nogil=True)
def _turn(longest: Times, since: Times, last: int, mask: int, at: int) -> None:
    """Note what ends and what begins where the set of busy engines changes from `last` to `mask`.

    `since` holds when each class became busy, then, by the rows' offsets from EXPOSED, when compute became
    idle, when busy and idle changed, and when copies became exposed.
    """
    no_compute, any_since, exposed = CLASSES, CLASSES + 1, CLASSES + 2
    if last == 0 or mask == 0:
        _keep(longest, IDLE if last == 0 else BUSY, since[any_since], at)
        since[any_since] = at
    closing = last & ~mask
    was_exposed = last & COPIES if last & COMPUTE == 0 else 0
    if was_exposed:
        if mask & COPIES == 0 or mask & COMPUTE:
            _keep(longest, ANY_EXPOSED, since[exposed], at)
        ending = was_exposed if mask & COMPUTE else was_exposed & closing
        while ending:
            e = _LOWEST[ending]
            ending &= ending - 1
            _keep(longest, EXPOSED + e, max(since[e], since[no_compute]), at)
    elif mask & COPIES and mask & COMPUTE == 0:
        since[exposed] = at
    while closing:
        e = _LOWEST[closing]
        closing &= closing - 1
        _keep(longest, e, since[e], at)
        # A pair was busy together since the later of the two began, until the first of them ends: here.
        others = last & ~(1 << e)
        while others:
            f = _LOWEST[others]
            others &= others - 1
            _keep(longest, CLASSES + min(e, f) * CLASSES + max(e, f), max(since[e], since[f]), at)
    opening = mask & ~last
    while opening:
        since[_LOWEST[opening]] = at
        opening &= opening - 1
    if last & COMPUTE and mask & COMPUTE == 0:
        since[no_compute] = at


@njit(cache=True, nogil=True)
def _add(sums: Times, row: int, length: int) -> None:
    sums[0, row] += length >> _LOW_BITS
    sums[1, row] += length & ((1 << _LOW_BITS) - 1)


@njit(cache=True, nogil=True)
def _engines(  # noqa: PLR0917 - the loop is one state machine; split, its state would leave the registers
    start: Times,
    end: Times,
    engine: Classes,
    low: int,
    high: int,
    takes_edge: bool,
) -> tuple[Times, Times, Times, Times]:
    subset_ns = np.zeros(1 << CLASSES, np.int64)
    longest = np.zeros((_ROWS, 2), np.int64)
    op_count = np.zeros(CLASSES, np.int64)
    work = np.zeros((2, CLASSES), np.int64)
    since = np.full(CLASSES + 3, low, np.int64)
    busy_until = np.zeros(CLASSES, np.int64)
    at, mask = low, 0
    next_end = _NEVER  # no engine of the mask ends before
    for i in range(len(start) + 1):
        begin, finish, e = _NEVER, _NEVER, 0
        if i < len(start):
            begin, finish, e = max(start[i], low), min(end[i], high), engine[i]
            if begin >= finish:
                is_instant = start[i] == end[i] and low <= start[i]
                if is_instant and (start[i] < high or (takes_edge and start[i] == high)):
                    op_count[e] += 1
                continue
            op_count[e] += 1
            _add(work, e, finish - begin)
        # Ends at `begin` itself wait, so that an operation that touches its predecessor prolongs it.
        while next_end < begin:
            now, closing, rest, next_end = next_end, 0, mask, _NEVER
            while rest:
                f = _LOWEST[rest]
                rest &= rest - 1
                if busy_until[f] <= now:
                    closing |= 1 << f
                else:
                    next_end = min(next_end, busy_until[f])
            if closing:
                subset_ns[mask] += now - at
                _turn(longest, since, mask, mask & ~closing, now)
                mask, at = mask & ~closing, now
        if i == len(start):
            break
        if mask & (1 << e) == 0:
            subset_ns[mask] += begin - at
            _turn(longest, since, mask, mask | (1 << e), begin)
            mask, at = mask | (1 << e), begin
            busy_until[e] = finish
            next_end = min(next_end, finish)
        elif finish > busy_until[e]:
            busy_until[e] = finish
    subset_ns[0] += high - at
    _keep(longest, IDLE, since[CLASSES + 1], high)
    return subset_ns, longest, op_count, work
