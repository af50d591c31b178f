"""Which single event would tell all that a synchronization has to tell."""

from __future__ import annotations

import numpy as np
from numba import njit

from overlane.analysis.keys import Codes, Ids
from overlane.analysis.ordering.needs import Lines, reach

__all__ = ["choose"]


@njit(cache=True, nogil=True)
def _covers(lines: Lines, x: int, of: int, position: int) -> bool:
    """Tell whether an event behind item `x` tells of so many items of a stream."""
    columns = lines.reduced
    if columns[3][x] == of and columns[4][x] >= position:
        return True
    return bool(reach(columns, lines.streams, lines.chains, x, of) >= position)


@njit(cache=True, nogil=True)
def _covers_all(lines: Lines, needed: Codes, first: int, last: int, x: int) -> bool:
    """Tell whether an event behind item `x` tells of all that some rows of `members` need."""
    for row in range(first, last):
        if needed[row] and not _covers(lines, x, lines.members[row], needed[row]):
            return False
    return True


@njit(cache=True, nogil=True)
def _behind_all(lines: Lines, needed: Codes, first: int, last: int, place: int) -> int:
    """Return the first item before a place whose event tells of all that is needed, -1 for none."""
    best, best_place = -1, np.int64(0)
    for row in range(first, last):
        s = lines.members[row]
        begin = lines.begins[s]
        low, high = 1, int(np.searchsorted(lines.places[begin : lines.begins[s + 1]], place))
        if not high or not _covers_all(lines, needed, first, last, lines.items[begin + high - 1]):
            continue
        while low < high:
            middle = (low + high) // 2
            if _covers_all(lines, needed, first, last, lines.items[begin + middle - 1]):
                high = middle
            else:
                low = middle + 1
        if best < 0 or lines.places[begin + low - 1] < best_place:
            best, best_place = lines.items[begin + low - 1], lines.places[begin + low - 1]
    return best


@njit(cache=True, nogil=True)
def _next_operation(lines: Lines, op_of_item: Codes, x: int, place: int) -> int:
    """Return an item itself, or the operation behind a free or an allocation; -2 for none before a place."""
    at = lines.begins[lines.reduced[3][x]] + lines.reduced[4][x] - 1
    end = lines.begins[lines.reduced[3][x] + 1]
    while at < end and lines.places[at] < place:
        if op_of_item[lines.items[at]] >= 0:
            return int(lines.items[at])
        at += 1
    return -2


@njit(cache=True, nogil=True)
def choose(lines: Lines, needed: Codes, op_of_item: Codes, places: Ids, event: Codes) -> None:
    """Choose for each strong synchronization the item whose event would do in its place.

    Args:
        lines: The program.
        needed: int32, shape (members,): position of its stream that each has to tell, 0 for nothing.
        op_of_item: int32: operation of each item, -1 for those that are none.
        places: int64, shape (n,): places of the synchronizations' actions.
        event: int32, shape (n,): the item, -1 where nothing is needed, -2 where no event would do (filled
            in).
    """
    for n in range(len(places)):
        first, last = lines.member_begins[n], lines.member_begins[n + 1]
        best = -1
        for row in range(first, last):
            s = lines.members[row]
            if needed[row] and (best < 0 or not _covers(lines, best, s, needed[row])):
                best = lines.items[lines.begins[s] + needed[row] - 1]
        if best >= 0 and not _covers_all(lines, needed, first, last, best):
            best = _behind_all(lines, needed, first, last, places[n])
            best = -2 if best < 0 else best
        event[n] = _next_operation(lines, op_of_item, best, places[n]) if best >= 0 else best
