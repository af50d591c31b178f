"""Fewer rectangles for many slices: short neighbours become one, as coarsely as a budget asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Rectangles", "joined", "merge"]

Array = npt.NDArray[Any]
_COARSEST = 62
"""Power of two, in ns, at which every lane is one rectangle."""


@dataclass(frozen=True)
class Rectangles:
    """Slices or runs of slices, in order of lane and start.

    Attributes:
        lane: int64 (n,), number of the lane.
        start: int64 (n,), ns.
        end: int64 (n,), ns.
        category: int64 (n,), code of the longest slice.
        row: int64 (n,), row of the longest slice.
        count: int64 (n,), slices that a rectangle stands for.
        busy: int64 (n,), ns of it that slices cover.
        resolution_ns: Slices at least this long stand alone; 0 where all do.
    """

    lane: Array
    start: Array
    end: Array
    category: Array
    row: Array
    count: Array
    busy: Array
    resolution_ns: int = 0

    def __len__(self) -> int:
        return len(self.lane)


def joined(parts: list[tuple[Array, Array, Array, Array, Array]], window: tuple[int, int]) -> Rectangles:
    """Return slices of several lanes as rectangles, those that touch a window, each standing alone.

    Args:
        parts: lane, start, end, category and row, each (n,).
        window: Start and end in ns.
    """
    columns = [
        np.concatenate([part[at] for part in parts]).astype(np.int64) if parts else np.zeros(0, np.int64)
        for at in range(5)
    ]
    lane, start, end, category, row = columns
    kept = np.flatnonzero((start <= window[1]) & (end >= window[0]))
    order = kept[np.lexsort((start[kept], lane[kept]))]
    lane, start, end, category, row = (column[order] for column in columns)
    return Rectangles(lane, start, end, category, row, np.ones_like(lane), end - start)


def merge(slices: Rectangles, most: int) -> Rectangles:
    """Return at most `most` rectangles, or one for each lane where even these are more.

    Slices shorter than the resolution that start in the same step of it become one rectangle; the
    resolution is the finest power of two that keeps the budget. Slices of one lane do not overlap.

    Args:
        slices: Slices that stand alone, as `joined` gives them.
        most: The budget.

    Example:
        >>> at = np.array([0, 2, 4, 100], np.int64)
        >>> slices = joined([(at * 0, at, at + 1, at * 0, at)], (0, 200))
        >>> found = merge(slices, 2)
        >>> found.start.tolist(), found.end.tolist(), found.count.tolist(), found.resolution_ns
        ([0, 100], [5, 101], [3, 1], 8)
    """
    if len(slices) <= most:
        return slices
    opens = _opens(slices, _COARSEST)
    low, high = 0, _COARSEST  # the budget is kept at high, if anywhere
    while high - low > 1:
        middle = (low + high) // 2
        found = _opens(slices, middle)
        if found.sum() <= most:
            high, opens = middle, found
        else:
            low = middle
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(slices)) - 1
    group = np.cumsum(opens) - 1
    # The longest slice of a group speaks for it; the earliest of equal ones.
    by_length = np.lexsort((-slices.busy, group))
    speaker = by_length[first]
    return Rectangles(
        lane=slices.lane[first],
        start=slices.start[first],
        end=np.maximum.reduceat(slices.end, first),
        category=slices.category[speaker],
        row=slices.row[speaker],
        count=last - first + 1,
        busy=np.add.reduceat(slices.busy, first),
        resolution_ns=1 << high,
    )


def _opens(slices: Rectangles, power: int) -> Array:
    """Return which slices begin a rectangle at a resolution of 2 to `power` ns."""
    step = slices.start >> power
    is_short = slices.busy < (1 << power)
    opens = np.ones(len(slices), np.bool_)
    opens[1:] = (
        (slices.lane[1:] != slices.lane[:-1]) | (step[1:] != step[:-1]) | ~is_short[1:] | ~is_short[:-1]
    )
    return opens
