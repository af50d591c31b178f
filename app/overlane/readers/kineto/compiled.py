"""Compiled passes over whole columns: nesting, begin-end pairs, packed integers, overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["count_overlaps", "match_pairs", "nesting_levels", "pool_offsets", "unpack"]

_DEEP = 1 << 14


@njit(cache=True, nogil=True)
def pool_offsets(pool: Any, counts: Any) -> Any:
    """Return where each row's integers start in the pool, given how many each row has.

    Args:
        pool: uint8 array of packed integers, see `scan`.
        counts: Integer array, shape (rows,).

    Returns:
        int64 array, shape (rows,).
    """
    offsets = np.empty(counts.size, np.int64)
    at = 0
    for row in range(counts.size):
        offsets[row] = at
        left = counts[row]
        while left > 0 and at < pool.size:
            if pool[at] < 128:
                left -= 1
            at += 1
    return offsets


@njit(cache=True, nogil=True)
def unpack(pool: Any, offsets: Any, counts: Any, values: Any) -> None:
    """Write the integers of the given rows to `values`, one row after the other.

    Args:
        pool: uint8 array of packed integers.
        offsets: int64 array: where each row's integers start.
        counts: Integer array: how many each row has.
        values: int64 array to fill, as long as the sum of the counts.
    """
    k = 0
    for row in range(offsets.size):
        at = offsets[row]
        for _ in range(counts[row]):
            packed = np.uint64(0)
            shift = np.uint64(0)
            while at < pool.size and pool[at] >= 128:
                packed |= np.uint64(pool[at] & 127) << shift
                shift += np.uint64(7)
                at += 1
            if at < pool.size:
                packed |= np.uint64(pool[at]) << shift
            at += 1
            values[k] = np.int64(packed >> np.uint64(1)) ^ -np.int64(packed & np.uint64(1))
            k += 1


@njit(cache=True, nogil=True)
def nesting_levels(lanes: Any, lane_count: int, starts: Any, ends: Any) -> Any:
    """Return how deep each range lies in its lane, -1 without an end or where it overlaps without nesting.

    The open ranges of a lane are kept sorted by end, the last to end first. A new range partly overlaps
    exactly those that end inside it; they stand at the end of that list.

    Args:
        lanes: int32 array, shape (rows,): lane of each range.
        lane_count: Number of lanes.
        starts: int64 array, ascending; of equal starts the longer range first.
        ends: int64 array; below the start: unknown.

    Returns:
        int16 array, shape (rows,).
    """
    levels = np.full(starts.size, -1, np.int16)
    top = np.full(lane_count, -1, np.int64)  # innermost open range of each lane
    below = np.full(starts.size, -1, np.int64)
    depth = np.zeros(lane_count, np.int64)
    for row in range(starts.size):
        if ends[row] < starts[row]:
            continue
        lane = lanes[row]
        inner = top[lane]
        while inner >= 0 and ends[inner] <= starts[row]:
            inner = below[inner]
            depth[lane] -= 1
        level = min(depth[lane], _DEEP)
        above = np.int64(-1)
        top[lane] = inner
        while inner >= 0 and ends[inner] < ends[row]:
            levels[inner] = -1
            level = -1
            above = inner
            inner = below[inner]
        below[row] = inner
        if above >= 0:
            below[above] = row
        else:
            top[lane] = row
        depth[lane] += 1
        levels[row] = level
    return levels


@njit(cache=True, nogil=True)
def match_pairs(threads: Any, thread_count: int, is_begin: Any) -> Any:
    """Return for each begin the index of its end, -1 where there is none; the last begun ends first.

    Args:
        threads: int32 array in the order of time: thread of each begin or end.
        thread_count: Number of threads.
        is_begin: bool array.

    Returns:
        int64 array, shape (events,); for an end that belongs to a begin, the index of that begin.
    """
    partner = np.full(threads.size, -1, np.int64)
    top = np.full(thread_count, -1, np.int64)
    below = np.full(threads.size, -1, np.int64)
    for k in range(threads.size):
        thread = threads[k]
        if is_begin[k]:
            below[k] = top[thread]
            top[thread] = k
        elif top[thread] >= 0:
            begin = top[thread]
            top[thread] = below[begin]
            partner[begin] = k
            partner[k] = begin
    return partner


@njit(cache=True, nogil=True)
def count_overlaps(tracks: Any, track_count: int, starts: Any, ends: Any) -> int:
    """Return how many intervals start before an earlier one of their track has ended.

    Args:
        tracks: int32 array: track of each interval.
        track_count: Number of tracks.
        starts: int64 array, ascending.
        ends: int64 array; below the start: unknown, taken as the start.
    """
    latest = np.full(track_count, np.iinfo(np.int64).min, np.int64)
    count = 0
    for row in range(starts.size):
        track = tracks[row]
        if starts[row] < latest[track] and ends[row] > starts[row]:
            count += 1
        latest[track] = max(latest[track], ends[row])
    return count
