"""The compiled loops that build an index: sublanes, places, summary trees, union runs.

The loops are long and take many arguments on purpose: a call that passes arrays costs as much as a dozen
slices, and Numba compiles a few large functions faster than many small ones. Calls by position, because
Numba knows no others.
"""

# ruff: noqa: PLR0917

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from overlane.timeline.categories import CATEGORY_LIMIT
from overlane.timeline.slices import HEAD, LEAF_BITS, LONG, LONG_NS, Slices, long_duration

__all__ = ["LOOPS", "STATE", "assign_sublanes", "build_nodes", "scatter", "union_runs"]

LOOPS = ("assign_sublanes", "build_nodes", "scatter", "union_runs")
"""What is compiled here."""

Array = npt.NDArray[Any]

_LEAF = 1 << LEAF_BITS
_ROWS, _FIRST, _BEGAN, _UNTIL, _WORK = range(5)

STATE = _WORK + CATEGORY_LIMIT
"""Words that `union_runs` keeps of a key."""


@njit(cache=True, nogil=True)
def assign_sublanes(
    lane: Array,
    start: Array,
    end: Array,
    order: Array,
    sub: Array,
    counts: Array,
    ends: Array,
    used: Array,
    lane_from: int,
    lane_to: int,
) -> int:
    """Give every slice of a range of lanes the first sublane of its lane that is free at its start.

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
        lane_from: First lane, at least 0.
        lane_to: One past the last lane.

    Returns:
        How many slices have a long duration.
    """
    limit = ends.shape[1]
    is_ordered = order.shape[0] > 0
    longs = 0
    for at in range(start.shape[0]):
        i = order[at] if is_ordered else at
        k = lane[i]
        if k < lane_from or k >= lane_to:
            continue
        if end[i] - start[i] >= LONG_NS:
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
    merged: int,
    lane_from: int,
    lane_to: int,
) -> int:
    """Write one layer's slices of a range of lanes to their places.

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
        slices: Written; its side table from the beginning.
        present: uint8 (w, CATEGORY_LIMIT), marked for each category of each wire lane.
        merged: Sublane to skip.
        lane_from: First lane, at least 0.
        lane_to: One past the last lane.

    Returns:
        How many slices were written to the side table.
    """
    longs = 0
    is_ordered = order.shape[0] > 0
    has_rows = row.shape[0] > 0
    one_category = category.shape[0] == 1
    for at in range(start.shape[0]):
        i = order[at] if is_ordered else at
        if lane[i] < lane_from or lane[i] >= lane_to or sub[i] == merged:
            continue
        wire = wire_first[lane[i]] + sub[i]
        place = cursor[wire]
        cursor[wire] = place + 1
        duration = end[i] - start[i]
        slices.start[place] = start[i]
        if duration >= LONG_NS:
            slices.duration[place] = LONG
            slices.long_at[longs] = place
            slices.long_duration[longs] = duration
            longs += 1
        else:
            slices.duration[place] = duration
        slices.row[place] = row[i] if has_rows else i
        kind = category[0] if one_category else category[i]
        slices.place[place] = kind
        present[wire, kind] = 1
    return longs


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
                if duration == LONG_NS:
                    duration = np.int64(long_duration(slices.long_at, slices.long_duration, i))
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
            for c in range(_WORK, _WORK + CATEGORY_LIMIT):
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
            for c in range(_WORK, _WORK + CATEGORY_LIMIT):
                state[k, c] = 0
        state[k, _UNTIL] = max(state[k, _UNTIL], end[i])
        state[k, _ROWS] += 1
        state[k, _WORK + category[i]] += end[i] - start[i]
    return n
