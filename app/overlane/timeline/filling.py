"""The compiled loops that answer a viewport.

The tree over a lane (see `slices`) is walked from left to right, taking the largest nodes that are narrower
than a pixel, so the cost follows the pixels and not the slices, however bursty the lane is. The loop is long
on purpose: see `building`.
"""

# ruff: noqa: PLR0917

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from overlane.timeline.categories import CATEGORY_LIMIT
from overlane.timeline.slices import HEAD, LEAF_BITS, LONG_NS, Slices, long_duration

__all__ = ["LOOPS", "SCRATCH", "Output", "fill", "find_bounds"]

LOOPS = ("fill", "find_bounds")
"""What is compiled here."""

Array = npt.NDArray[Any]

_PLACES = 256
"""Busy times that are kept: a place is a stored byte, and a damaged one must not reach beyond them."""

SCRATCH = 40 + _PLACES
"""Words that `fill` works with: first nodes of each level, busy times of the open run."""

_LEAF = 1 << LEAF_BITS
_ENDLESS = 1 << 62


class Output(NamedTuple):
    """Where a query writes, one place per item: int64 but for lane and category.

    Attributes:
        start: ns.
        end: ns.
        first: Position of the first slice; an item is a run of consecutive slices.
        size: Slices of the run.
        row: Row of the longest.
        busy: ns.
        category: uint8, the one with most busy time.
        lane: uint16, wire lane.
    """

    start: Array
    end: Array
    first: Array
    size: Array
    row: Array
    busy: Array
    category: Array
    lane: Array


@njit(cache=True, nogil=True)
def find_bounds(slices: Slices, lanes: Array, t0: int, t1: int, low: Array, high: Array) -> None:
    """Find the slices that meet `[t0, t1)` on each lane: `low` gets the first, `high` one past the last."""
    for at in range(lanes.shape[0]):
        first = slices.lane_offset[lanes[at]]
        last = slices.lane_offset[lanes[at] + 1]
        for side in range(2):
            bound = t1 if side else t0
            a = first
            b = last
            while a < b:
                middle = (a + b) >> 1
                if slices.start[middle] < bound:
                    a = middle + 1
                else:
                    b = middle
            if side:
                high[at] = a
            else:
                if a > first:  # the one before may still be open at t0
                    duration = np.int64(slices.duration[a - 1])
                    if duration == LONG_NS:
                        duration = np.int64(long_duration(slices.long_at, slices.long_duration, a - 1))
                    if slices.start[a - 1] + duration > t0:
                        a -= 1
                low[at] = a


@njit(cache=True, nogil=True)
def fill(  # noqa: C901, PLR0912, PLR0915 - one loop, see above
    slices: Slices,
    lanes: Array,
    low: Array,
    high: Array,
    t0: int,
    threshold: int,
    scale: float,
    scratch: Array,
    out: Output,
) -> int:
    """Answer a viewport for some lanes.

    Slices of at least `threshold` ns are written one by one; shorter ones are gathered into one run per
    column of their start.

    Args:
        slices: The index.
        lanes: int64 (k,), wire lanes.
        low: int64 (k,), first slice that meets the window.
        high: int64 (k,), one past the last.
        t0: Start of the window in ns.
        threshold: Width of a pixel in ns, rounded up.
        scale: Columns per ns; 0 gathers all that is short into one run.
        scratch: int64 (SCRATCH,), any values.
        out: Written from place 0; large enough for min(slices, columns + 2 * pixels + 6) of each lane and one
            to spare, which takes whatever a damaged file has too much.

    Returns:
        Number of items.
    """
    # n: items written. at: lane asked for, wire lane `lane`. i, stop: next slice and end, counted from the
    # lane's first; j: the same slice's position in the stored arrays. k: level of the node at hand, -1 for a
    # slice. plain_until: up to here no node can start. c: place of a category. run_*: the open run, whose row
    # is -1 - j where only the slice's position is known yet.
    n = 0
    spare = out.start.shape[0] - 1
    busy = scratch[:_PLACES]
    level = scratch[_PLACES:]
    narrow = threshold // 4 * 3 if threshold > 1 else 1
    short = np.uint32(min(threshold, LONG_NS))
    for at in range(lanes.shape[0]):
        lane = lanes[at]
        origin = slices.lane_offset[lane]
        size = slices.lane_offset[lane + 1] - origin
        width = slices.width[lane]
        stride = HEAD + width
        depth = 0
        base = slices.node_offset[lane]
        while size >> (LEAF_BITS + depth):
            level[depth] = base
            base += (size >> (LEAF_BITS + depth)) * stride
            depth += 1
        i = low[at] - origin
        stop = high[at] - origin
        plain_until = i
        k = -1
        run_count = np.int64(0)
        run_first = np.int64(0)
        run_start = np.int64(0)
        run_end = np.int64(0)
        run_longest = np.int64(-1)
        run_row = np.int64(0)
        run_until = np.int64(0)
        while True:
            # 1. The next element: a node narrower than three quarters of a pixel, or one slice; none at the
            # end of the lane.
            count = np.int64(0)
            node = np.int64(0)
            start = np.int64(0)
            end = np.int64(0)
            longest = np.int64(0)
            row = np.int64(0)
            if i >= plain_until and i < stop:
                plain_until = min((i | (_LEAF - 1)) + 1, stop)
                if (i & (_LEAF - 1)) == 0 and i + _LEAF <= stop:
                    k = k + 1 if k >= 0 else 1
                    while k >= depth or (i & ((_LEAF << k) - 1)) != 0 or i + (_LEAF << k) > stop:
                        k -= 1
                    while k >= 0:
                        node = level[k] + (i >> (LEAF_BITS + k)) * stride
                        start = slices.nodes[node]
                        end = slices.nodes[node + 1]
                        if end - start < narrow:
                            count = np.int64(_LEAF << k)
                            longest = slices.nodes[node + 2]
                            row = max(slices.nodes[node + 3], np.int64(0))  # negative ones are positions
                            plain_until = i
                            break
                        k -= 1
                else:
                    k = -1
            if count == 0 and i < stop:
                # Most slices end here, in the loop that lets short ones join the open run.
                j = origin + i
                if run_count:
                    until = origin + plain_until
                    while j < until and slices.duration[j] < short and slices.start[j] < run_until:
                        duration = np.int64(slices.duration[j])
                        busy[slices.place[j]] += duration
                        if duration > run_longest:
                            run_longest = duration
                            run_row = -1 - j
                        j += 1
                    joined = j - origin - i
                    if joined:
                        run_count += joined
                        run_end = slices.start[j - 1] + np.int64(slices.duration[j - 1])
                        i += joined
                        if i == plain_until:
                            continue
                k = -1
                count = np.int64(1)
                start = slices.start[j]
                longest = np.int64(slices.duration[j])
                if longest == LONG_NS:
                    longest = np.int64(long_duration(slices.long_at, slices.long_duration, j))
                end = start + longest
                row = -1 - j
            is_long = k < 0 and longest >= threshold
            # 2. Close the open run where the lane ends, a column ends or a long slice stands.
            if run_count and (count == 0 or is_long or start >= run_until):
                total = np.int64(0)
                best = np.int64(0)
                for c in range(width):
                    total += busy[c]
                    if busy[c] > busy[best]:
                        best = np.int64(c)
                if total == 0:
                    best = np.int64(slices.place[run_first])
                out.start[n] = run_start
                out.end[n] = run_end
                out.first[n] = run_first
                out.size[n] = run_count
                out.row[n] = run_row if run_row >= 0 else slices.row[-1 - run_row]
                out.busy[n] = total
                out.category[n] = slices.category_of[lane, best & (CATEGORY_LIMIT - 1)]
                out.lane[n] = lane
                n = min(n + 1, spare)
                run_count = np.int64(0)
            if count == 0:
                break
            # 3. Write a long slice, or let the element join the run.
            if is_long:
                out.start[n] = start
                out.end[n] = end
                out.first[n] = origin + i
                out.size[n] = 1
                out.row[n] = slices.row[origin + i]
                out.busy[n] = longest
                out.category[n] = slices.category_of[lane, slices.place[origin + i] & (CATEGORY_LIMIT - 1)]
                out.lane[n] = lane
                n = min(n + 1, spare)
            else:
                if run_count == 0:
                    run_first = origin + i
                    run_start = start
                    run_longest = np.int64(-1)
                    run_until = np.int64(_ENDLESS)
                    if scale > 0:
                        column = np.int64((start - t0) * scale) if start > t0 else np.int64(0)
                        run_until = t0 + np.int64((column + 1) / scale)
                        if run_until <= start:
                            run_until = start + 1
                    for c in range(width):
                        busy[c] = 0
                run_count += count
                run_end = end
                if longest > run_longest:
                    run_longest = longest
                    run_row = row
                if k < 0:
                    busy[slices.place[origin + i]] += longest
                else:
                    for c in range(width):
                        busy[c] += slices.nodes[node + HEAD + c]
            i += count
    return n
