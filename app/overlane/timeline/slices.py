"""What is stored of an index: slices of wire lanes and the summary trees over them.

Every lane holds slices that do not overlap, sorted by start, so starts and ends both rise. Over the slices
of a lane lies a binary tree by position: a leaf summarizes `1 << LEAF_BITS` consecutive slices, a node its
two children; only full nodes exist. A node is `HEAD + width` int64 words: start of its first slice, end of
its last, duration and row of its longest, then busy nanoseconds per category of the lane.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["HEAD", "LEAF_BITS", "LONG", "LONG_NS", "Slices", "long_duration"]

Array = npt.NDArray[Any]

LEAF_BITS = 4
"""A leaf of the tree holds 16 slices: fewer cost memory, more cost time where a pixel holds a few slices."""

HEAD = 4
"""Words of a node before its busy times."""

LONG_NS = 0xFFFFFFFF
"""A slice of this many nanoseconds (4.3 s) or more has its duration in the side table."""

LONG = np.uint32(LONG_NS)
"""Stored duration of such a slice."""


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


@njit(cache=True, nogil=True)
def long_duration(positions: Array, durations: Array, at: int) -> int:
    """Return the true duration of the slice at position `at`, whose stored one is `LONG`.

    Called for the few slices that need it: a call with arrays costs a hundred times a look at `duration`.

    Args:
        positions: `Slices.long_at`.
        durations: `Slices.long_duration`.
        at: One of the positions; any other, as of a damaged file, gets the least long duration.
    """
    a = 0
    b = positions.shape[0]
    while a < b:
        middle = (a + b) >> 1
        if positions[middle] < at:
            a = middle + 1
        else:
            b = middle
    if a == positions.shape[0]:
        return LONG_NS
    return durations[a]  # type: ignore[no-any-return]
