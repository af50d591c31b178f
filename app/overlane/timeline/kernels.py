"""The compiled loops of the timeline index: sublanes, scatter, summaries, viewport query.

Every lane holds slices that do not overlap, sorted by start, so starts and ends both rise. Over the slices
of a lane lies a binary tree by rank: a leaf summarizes `LEAF` consecutive slices, a node its two children;
only full nodes exist. A node is `HEAD + width` int64 words: start of its first slice, end of its last,
duration and row of its longest, then busy nanoseconds per category of the lane. A query walks the tree from
left to right and takes the largest nodes that are narrower than a pixel, so its cost follows the pixels and
not the slices, however bursty the lane is.

The loops are long and take many arguments on purpose: a call that passes arrays costs as much as a dozen
slices, and Numba compiles a few large functions faster than many small ones. Calls by position, because
Numba knows no others.
"""

# ruff: noqa: PLR0917

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from overlane.timeline.categories import CATEGORY_LIMIT

__all__ = [
    "HEAD",
    "LEAF_BITS",
    "LONG",
    "LOOPS",
    "SCRATCH",
    "STATE",
    "Output",
    "Slices",
    "assign_sublanes",
    "build_nodes",
    "fill",
    "find_bounds",
    "scatter",
    "union_runs",
]

Array = npt.NDArray[Any]

LOOPS = ("assign_sublanes", "build_nodes", "fill", "find_bounds", "scatter", "union_runs")
"""The compiled functions that others call; each is compiled for one set of types only."""

LEAF_BITS = 5
"""A leaf of the tree holds 32 slices: fewer cost memory, more cost time where a pixel holds a few slices."""

HEAD = 4
"""Words of a node before its busy times."""

LONG = np.uint32(0xFFFFFFFF)
"""Stored duration of a slice of this many nanoseconds (4.3 s) or more; the side table has the true one."""

_LEAF = 1 << LEAF_BITS
_LONG_NS = 0xFFFFFFFF
_CATEGORIES = CATEGORY_LIMIT
_ENDLESS = 1 << 62
_ROWS, _FIRST, _BEGAN, _UNTIL, _WORK = range(5)

STATE = _WORK + CATEGORY_LIMIT
"""Words that `union_runs` keeps of a key."""

SCRATCH = 40 + CATEGORY_LIMIT
"""Words that `fill` works with: first nodes of each level, busy times of the open run."""


class Slices(NamedTuple):
    """The stored arrays of one index, n slices on w wire lanes.

    Attributes:
        start: int64 (n,), ns, sorted within each lane.
        duration: uint32 (n,), ns; `LONG` where the side table holds it.
        row: uint32 (n,), row in the lane's table.
        place: uint8 (n,), place of the slice's category among those of its lane.
        long_at: int64 (m,), positions of slices with a long duration, sorted.
        long_duration: int64 (m,), ns.
        lane_offset: int64 (w + 1,), first slice of each lane.
        node_offset: int64 (w + 1,), first word of each lane's tree.
        category_of: uint8 (w, CATEGORY_LIMIT), category of each place of a lane.
        width: int64 (w,), number of categories of each lane.
        nodes: int64 (words,), the trees.
    """

    start: Array
    duration: Array
    row: Array
    place: Array
    long_at: Array
    long_duration: Array
    lane_offset: Array
    node_offset: Array
    category_of: Array
    width: Array
    nodes: Array


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
def assign_sublanes(
    lane: Array, start: Array, end: Array, order: Array, sub: Array, counts: Array, ends: Array, used: Array
) -> int:
    """Give every slice the first sublane of its lane that is free at its start.

    Args:
        lane: int32 (n,), lane or -1 for a row that is not drawn.
        start: int64 (n,), ns, sorted.
        end: int64 (n,), ns.
        order: int64 (n,) order to go through (starts rising, longer first at equal starts), or empty for
            0..n.
        sub: uint16 (n,), filled; the last sublane takes what finds no place.
        counts: int64 (lanes, limit + 1), filled with slices per sublane.
        ends: int64 (lanes, limit), zeros: where the last slice of each sublane ends.
        used: int64 (lanes,), zeros: sublanes in use.

    Returns:
        How many slices have a long duration.
    """
    limit = ends.shape[1]
    is_ordered = order.shape[0] > 0
    longs = 0
    for at in range(start.shape[0]):
        i = order[at] if is_ordered else at
        k = lane[i]
        if k < 0:
            continue
        if end[i] - start[i] >= _LONG_NS:
            longs += 1
        free = 0
        while free < used[k] and ends[k, free] > start[i]:
            free += 1
        if free < limit:
            if free == used[k]:
                used[k] += 1
            ends[k, free] = end[i]
        sub[i] = free
        counts[k, free] += 1
    return longs


@njit(cache=True, nogil=True)
def scatter(
    lane: Array,
    sub: Array,
    start: Array,
    end: Array,
    category: Array,
    row: Array,
    order: Array,
    wire_first: Array,
    cursor: Array,
    slices: Slices,
    present: Array,
    long_from: int,
    merged: int,
) -> int:
    """Write one layer's slices to their places.

    Rows on sublane `merged` are skipped: they are drawn as union runs. `slices.place` gets the categories
    themselves, which `build_nodes` turns into places.

    Args:
        lane: As in `assign_sublanes`.
        sub: What that filled.
        start: As there.
        end: As there.
        category: uint8 (n,), or (1,) when all are alike.
        row: int64 (n,), row ids, or empty for 0..n.
        order: As in `assign_sublanes`.
        wire_first: int64 (lanes,), first wire lane of each lane.
        cursor: int64 (w,), next free place of each wire lane; moved on.
        slices: Written.
        present: uint8 (w, CATEGORY_LIMIT), marked for each category of each wire lane.
        long_from: Next free place of the side table of long durations.
        merged: Sublane to skip.

    Returns:
        The next free place of the side table.
    """
    is_ordered = order.shape[0] > 0
    has_rows = row.shape[0] > 0
    one_category = category.shape[0] == 1
    for at in range(start.shape[0]):
        i = order[at] if is_ordered else at
        if lane[i] < 0 or sub[i] == merged:
            continue
        wire = wire_first[lane[i]] + sub[i]
        place = cursor[wire]
        cursor[wire] = place + 1
        duration = end[i] - start[i]
        slices.start[place] = start[i]
        if duration >= _LONG_NS:
            slices.duration[place] = LONG
            slices.long_at[long_from] = place
            slices.long_duration[long_from] = duration
            long_from += 1
        else:
            slices.duration[place] = duration
        slices.row[place] = row[i] if has_rows else i
        kind = category[0] if one_category else category[i]
        slices.place[place] = kind
        present[wire, kind] = 1
    return long_from


@njit(cache=True, nogil=True)
def _long_duration(long_at: Array, long_duration: Array, at: int) -> int:
    # Called only for the few slices that need it: a call with arrays costs a hundred times a look at
    # `duration`.
    a = 0
    b = long_at.shape[0]
    while a < b:
        middle = (a + b) >> 1
        if long_at[middle] < at:
            a = middle + 1
        else:
            b = middle
    return long_duration[a]  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def build_nodes(slices: Slices, place_of: Array, lane_from: int, lane_to: int) -> None:
    """Fill the summary trees of a range of lanes and turn categories into places.

    `place_of` is uint8 (w, CATEGORY_LIMIT), the place of each category on each lane.
    """
    for lane in range(lane_from, lane_to):
        first = slices.lane_offset[lane]
        size = slices.lane_offset[lane + 1] - first
        stride = HEAD + slices.width[lane]
        base = slices.node_offset[lane]
        nodes = slices.nodes
        for i in range(first, first + size):
            slices.place[i] = place_of[lane, slices.place[i]]
        for block in range(size >> LEAF_BITS):
            at = base + block * stride
            for word in range(stride):
                nodes[at + word] = 0
            nodes[at] = slices.start[first + block * _LEAF]
            longest = np.int64(-1)
            for i in range(first + block * _LEAF, first + (block + 1) * _LEAF):
                duration = np.int64(slices.duration[i])
                if duration == _LONG_NS:
                    duration = np.int64(_long_duration(slices.long_at, slices.long_duration, i))
                nodes[at + HEAD + slices.place[i]] += duration
                if duration > longest:
                    longest = duration
                    nodes[at + 3] = slices.row[i]
                nodes[at + 1] = slices.start[i] + duration
            nodes[at + 2] = longest
        level = 0
        while size >> (LEAF_BITS + level + 1):
            upper = base + (size >> (LEAF_BITS + level)) * stride
            for block in range(size >> (LEAF_BITS + level + 1)):
                at = upper + block * stride
                left = base + 2 * block * stride
                right = left + stride
                nodes[at] = nodes[left]
                nodes[at + 1] = nodes[right + 1]
                longer = left if nodes[left + 2] >= nodes[right + 2] else right
                nodes[at + 2] = nodes[longer + 2]
                nodes[at + 3] = nodes[longer + 3]
                for word in range(HEAD, stride):
                    nodes[at + word] = nodes[left + word] + nodes[right + word]
            base = upper
            level += 1


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
                    if duration == _LONG_NS:
                        duration = np.int64(_long_duration(slices.long_at, slices.long_duration, a - 1))
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
        out: Written from place 0; large enough for min(slices, columns + 2 * pixels + 6) of each lane.

    Returns:
        Number of items.
    """
    n = 0
    busy = scratch[:_CATEGORIES]
    level = scratch[_CATEGORIES:]
    narrow = threshold // 4 * 3 if threshold > 1 else 1
    short = np.uint32(min(threshold, _LONG_NS))
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
                plain_until = (i | (_LEAF - 1)) + 1
                plain_until = min(plain_until, stop)
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
                            row = slices.nodes[node + 3]
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
                if longest == _LONG_NS:
                    longest = np.int64(_long_duration(slices.long_at, slices.long_duration, j))
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
                out.category[n] = slices.category_of[lane, best]
                out.lane[n] = lane
                n += 1
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
                out.category[n] = slices.category_of[lane, slices.place[origin + i]]
                out.lane[n] = lane
                n += 1
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


@njit(cache=True, nogil=True)
def union_runs(
    key: Array,
    start: Array,
    end: Array,
    category: Array,
    state: Array,
    out_key: Array,
    out_start: Array,
    out_end: Array,
    out_row: Array,
    out_count: Array,
    out_category: Array,
) -> int:
    """Join intervals of one key that overlap or touch into runs.

    Args:
        key: int32 (n,), a row of `state`, or -1 to leave a row out.
        start: int64 (n,), ns, sorted.
        end: int64 (n,), ns.
        category: uint8 (n,).
        state: int64 (keys, STATE), zeros: the open run of each key.
        out_key: int32 (n,), filled; the runs of one key come in order of start.
        out_start: int64 (n,).
        out_end: int64 (n,).
        out_row: int64 (n,), first row of the run.
        out_count: int64 (n,), rows of the run.
        out_category: uint8 (n,), the one with most work in the run.

    Returns:
        Number of runs.
    """
    n = 0
    keys = state.shape[0]
    for i in range(key.shape[0] + keys):
        # After the last row, each key's open run is closed.
        is_last = i >= key.shape[0]
        k = i - key.shape[0] if is_last else np.int64(key[i])
        if k < 0:
            continue
        if state[k, _ROWS] and (is_last or start[i] > state[k, _UNTIL]):
            best = _WORK
            for c in range(_WORK, _WORK + _CATEGORIES):
                if state[k, c] > state[k, best]:
                    best = c
            out_key[n] = k
            out_start[n] = state[k, _BEGAN]
            out_end[n] = state[k, _UNTIL]
            out_row[n] = state[k, _FIRST]
            out_count[n] = state[k, _ROWS]
            out_category[n] = best - _WORK if state[k, best] else category[state[k, _FIRST]]
            n += 1
            state[k, _ROWS] = 0
        if is_last:
            continue
        if state[k, _ROWS] == 0:
            state[k, _FIRST] = i
            state[k, _BEGAN] = start[i]
            state[k, _UNTIL] = end[i]
            for c in range(_WORK, _WORK + _CATEGORIES):
                state[k, c] = 0
        state[k, _UNTIL] = max(state[k, _UNTIL], end[i])
        state[k, _ROWS] += 1
        state[k, _WORK + category[i]] += end[i] - start[i]
    return n
