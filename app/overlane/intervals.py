"""Half-open interval algebra on int64 arrays.

A set of intervals is two arrays `(start, end)` of equal length. Every function takes intervals in any
order, overlapping, touching, nested or of zero length, and returns them sorted, disjoint and not touching
(a *union*). A zero-length interval holds no time and is in no result. Ends must be known: unfinished
intervals are closed by the caller with `close_unfinished`, who says at which time and why.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

__all__ = [
    "Intervals",
    "Times",
    "clip",
    "close_unfinished",
    "complement",
    "concurrency",
    "intersect",
    "subtract",
    "summed_length",
    "union",
    "union_length",
]

Times: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
"""int64 array of nanoseconds, shape (n,)."""
Intervals: TypeAlias = tuple[Times, Times]
"""Starts and ends, equal lengths."""


def close_unfinished(start: Times, end: Times, is_unfinished: np.ndarray[Any, Any], at_ns: int) -> Times:
    """Return ends in which every unknown one is `at_ns`, or the start where that is later.

    Args:
        start: int64, shape (n,).
        end: int64, shape (n,); values at unfinished positions are ignored.
        is_unfinished: bool, shape (n,).
        at_ns: When the recording ended.

    Example:
        >>> close_unfinished(np.array([1, 9]), np.array([4, 0]), np.array([False, True]), 12)
        array([ 4, 12])
    """
    return np.where(is_unfinished, np.maximum(start, at_ns), end).astype(np.int64, copy=False)


def union(intervals: Intervals) -> Intervals:
    """Return the union: sorted, disjoint, touching intervals joined.

    Example:
        >>> union((np.array([5, 0, 3]), np.array([7, 3, 4])))
        (array([0, 5]), array([4, 7]))
    """
    start, end = _sorted(intervals)
    out_start, out_end = np.empty_like(start), np.empty_like(end)
    count = _union(start, end, out_start, out_end)
    return out_start[:count], out_end[:count]


def summed_length(disjoint: Intervals) -> int:
    """Return the time in ns that intervals cover which do not overlap.

    Example:
        >>> summed_length((np.array([0, 5]), np.array([3, 7])))
        5
    """
    return int((disjoint[1] - disjoint[0]).sum())


def union_length(intervals: Intervals) -> int:
    """Return the length of the union in ns: the time in which at least one interval is open.

    Example:
        >>> union_length((np.array([5, 0, 3]), np.array([7, 3, 4])))
        6
    """
    return summed_length(union(intervals))


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Return where both sets are open: the intersection of their unions.

    Example:
        >>> intersect((np.array([0]), np.array([9])), (np.array([2, 8]), np.array([4, 12])))
        (array([2, 8]), array([4, 9]))
    """
    a_start, a_end = union(a)
    b_start, b_end = union(b)
    room = max(len(a_start) + len(b_start) - 1, 0)
    out_start, out_end = np.empty(room, np.int64), np.empty(room, np.int64)
    count = _intersect(a_start, a_end, b_start, b_end, out_start, out_end)
    return out_start[:count], out_end[:count]


def complement(intervals: Intervals, window: tuple[int, int]) -> Intervals:
    """Return the gaps: the parts of a window in which no interval is open.

    Args:
        intervals: Any intervals, also outside the window.
        window: Start and end in ns; an empty one has no gaps.

    Example:
        >>> complement((np.array([2]), np.array([4])), (0, 9))
        (array([0, 4]), array([2, 9]))
    """
    low, high = window
    if high <= low:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start, end = union(clip(intervals, window))
    gap_start, gap_end = np.concatenate([[low], end]), np.concatenate([start, [high]])
    is_gap = gap_start < gap_end
    return gap_start[is_gap].astype(np.int64), gap_end[is_gap].astype(np.int64)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Return where `a` is open and `b` is not.

    Example:
        >>> subtract((np.array([0]), np.array([9])), (np.array([2, 8]), np.array([4, 12])))
        (array([0, 4]), array([2, 8]))
    """
    start, end = union(a)
    if not len(start):
        return start, end
    return intersect((start, end), complement(b, (int(start[0]), int(end[-1]))))


def clip(intervals: Intervals, window: tuple[int, int]) -> Intervals:
    """Return the parts inside a window, in the given order; what holds no time there is left out.

    The given arrays themselves are returned where all of them is inside.

    Example:
        >>> clip((np.array([0, 5, 9]), np.array([3, 7, 12])), (2, 9))
        (array([2, 5]), array([3, 7]))
    """
    low, high = window
    start, end = np.asarray(intervals[0], np.int64), np.asarray(intervals[1], np.int64)
    # The usual case, a window around everything, is told at a sixth of the cost of copying.
    if len(start) and start.min() >= low and end.max() <= high and (start < end).all():
        return start, end
    start, end = np.maximum(start, low), np.minimum(end, high)
    is_inside = start < end
    return start[is_inside], end[is_inside]


def concurrency(intervals: Intervals, window: tuple[int, int]) -> tuple[Times, Times]:
    """Return how long how many intervals were open at once, and the longest such stretch of each number.

    Args:
        intervals: Any intervals; only their parts inside the window count.
        window: Start and end in ns.

    Returns:
        int64 array, shape (levels,): ns at each number of open intervals, from 0 to the largest; it adds up
        to the window. int64 array, shape (levels, 2): start and end of the longest stretch, equal where
        there is none.

    Example:
        >>> levels, longest = concurrency((np.array([0, 2]), np.array([4, 6])), (0, 10))
        >>> levels
        array([4, 4, 2])
        >>> longest[2]
        array([2, 4])
    """
    low, high = window[0], max(window)
    start, end = clip(intervals, window)
    levels = np.zeros(len(start) + 1, np.int64)
    longest = np.zeros((len(start) + 1, 2), np.int64)
    _concurrency(start if _is_sorted(start) else np.sort(start), np.sort(end), low, high, levels, longest)
    reached = np.flatnonzero(levels)
    count = int(reached[-1]) + 1 if len(reached) else 1
    return levels[:count], longest[:count]


def _is_sorted(values: Times) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _sorted(intervals: Intervals) -> Intervals:
    """Return the intervals in the order of their starts; looking costs a tenth of sorting."""
    start = np.ascontiguousarray(intervals[0], np.int64)
    end = np.ascontiguousarray(intervals[1], np.int64)
    if _is_sorted(start):
        return start, end
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


@njit(cache=True, nogil=True)
def _union(start: Times, end: Times, out_start: Times, out_end: Times) -> int:
    count = 0
    for i in range(len(start)):
        if end[i] <= start[i]:
            continue
        if count and start[i] <= out_end[count - 1]:
            out_end[count - 1] = max(out_end[count - 1], end[i])
        else:
            out_start[count] = start[i]
            out_end[count] = end[i]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _intersect(  # noqa: PLR0917 - arrays in, arrays out
    a_start: Times, a_end: Times, b_start: Times, b_end: Times, out_start: Times, out_end: Times
) -> int:
    i, j, count = 0, 0, 0
    while i < len(a_start) and j < len(b_start):
        low = max(a_start[i], b_start[j])
        high = min(a_end[i], b_end[j])
        if low < high:
            out_start[count] = low
            out_end[count] = high
            count += 1
        if a_end[i] < b_end[j]:
            i += 1
        else:
            j += 1
    return count


@njit(cache=True, nogil=True)
def _concurrency(  # noqa: PLR0917 - arrays in, arrays out
    start: Times, end: Times, low: int, high: int, levels: Times, longest: Times
) -> None:
    # Starts and ends sorted apart: how many are open depends on their merged order only, not on which end
    # is whose. Whether a start or an end comes next cannot be predicted, so it is added, not branched on.
    count = len(start)
    i, j, level, last, at, since = 0, 0, 0, 0, low, low
    while True:
        begin = start[i] if i < count else high
        finish = end[j] if j < count else high
        is_start = int(i < count) & int(begin < finish)
        now = min(begin, finish)
        if now > at:
            if level != last:
                if at - since > longest[last, 1] - longest[last, 0]:
                    longest[last, 0], longest[last, 1] = since, at
                last, since = level, at
            levels[level] += now - at
            at = now
        if j == count:
            break
        level += 2 * is_start - 1
        i += is_start
        j += 1 - is_start
    if at - since > longest[last, 1] - longest[last, 0]:
        longest[last, 0], longest[last, 1] = since, at
