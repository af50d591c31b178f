"""Which accesses to the same bytes are unordered: one compiled pass over accesses in host order.

Memory is cut where any access begins or ends, into *cells*. For each cell the pass keeps the last accesses
of each chain that a later access could conflict with; a write that is after all of them replaces them, so
that ordered programs cost a few questions per access. Where an access is unordered with one of these, it is
noted with its cell, and the second part finds all that it conflicts with there: in each chain, what is
before an access is a prefix, and what the host issued later is a suffix, so the conflicts are what lies
between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overlane.analysis.keys import Codes, Ids
from overlane.analysis.ordering.clocks import Array, before_items

__all__ = [
    "ANY",
    "CHAIN",
    "FREE",
    "FRESH",
    "NEXT",
    "READ",
    "WRITE",
    "WRITTEN",
    "find_conflicts",
    "find_suspects",
    "spare_entries",
    "take_entry",
    "write_histories",
]

READ, WRITE, FREE, FRESH = 1, 2, 4, 8
"""Modes of an access: a free ends the life of bytes, an allocation begins it."""

# An entry: last access of a chain to a cell, and whether that one was unordered with others.
CHAIN, ANY, WRITTEN, NEXT, _TOLD = range(5)
_A, _B, _SUSPECT, _SOURCE = range(4)  # columns of a conflict


@njit(cache=True, nogil=True)
def _longer(rows: Array) -> Array:
    more = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    more[: len(rows)] = rows
    return more


@njit(cache=True, nogil=True)
def _is_ordered(  # noqa: PLR0917 - columns of two tables
    clocks: tuple[Array, ...], streams: int, chains: int, item_of: Codes, same_item: Any, x: int, b: int
) -> bool:
    """Tell whether access `x` is over before access `b` starts, or both belong to one operation."""
    if item_of[x] == item_of[b]:
        return not same_item[b]
    return before_items(clocks, streams, chains, item_of[x], item_of[b])


@njit(cache=True, nogil=True)
def take_entry(entries: Codes, used: int, spare: int) -> tuple[Codes, int, int, int]:
    """Return a place for an entry, in more room where all is taken."""
    if spare >= 0:
        return entries, used, entries[spare, NEXT], spare
    if used == len(entries):
        entries = _longer(entries)
    return entries, used + 1, spare, used


@njit(cache=True, nogil=True)
def spare_entries(entries: Codes, first: int, spare: int) -> int:
    """Let go of a cell's entries; returns the first spare one."""
    while first >= 0:
        entry, first = first, entries[first, NEXT]
        entries[entry, NEXT] = spare
        spare = entry
    return spare


@njit(cache=True, nogil=True)
def find_suspects(  # noqa: C901, PLR0912, PLR0917 - one state machine
    clocks: tuple[Array, ...], streams: int, chains: int, item_of: Codes, same_item: Any,
    mode: Array, low: Codes, high: Codes, cells: int,
) -> Ids:  # fmt: skip
    """Return the accesses that are unordered with an earlier conflicting one, or that follow a free.

    Args:
        clocks: Columns of the clocks.
        streams: Number of streams.
        chains: Number of chains.
        item_of: int32, shape (n,): item of each access, in host order; of one operation writes come first.
        same_item: bool, shape (n,): whether order inside of the item matters (nodes of a graph with known
            edges).
        mode: uint8, shape (n,): sets of modes.
        low: int32, shape (n,): first cell.
        high: int32, shape (n,): cell after the last.
        cells: Number of cells.

    Returns:
        int64, shape (m, 3): access, cell, and the free that ended the life of its bytes, -1 for none.
    """
    chain = clocks[3]
    head = np.full(cells, -1, np.int32)
    freed = np.full(cells, -1, np.int32)
    entries, used, spare = np.empty((1024, 5), np.int32), 0, -1
    found, count = np.empty((1024, 3), np.int64), 0
    for b in range(len(item_of)):
        mine = chain[item_of[b]]
        is_write = mode[b] & (WRITE | FREE) != 0
        for cell in range(low[b], high[b]):
            own = -1
            if mode[b] == FRESH:  # what came before is the allocator's business
                freed[cell] = -1
            is_suspect = freed[cell] >= 0
            entry = head[cell]
            while entry >= 0 and mode[b] != FRESH:
                if entries[entry, CHAIN] == mine:
                    own = entry
                    # The operation's own write hides what stands before it in the chain.
                    if entries[entry, _TOLD] == 1 and item_of[entries[entry, ANY]] == item_of[b]:
                        is_suspect = True
                last = entries[entry, ANY] if is_write else entries[entry, WRITTEN]
                if last >= 0 and not _is_ordered(clocks, streams, chains, item_of, same_item, last, b):
                    is_suspect = True
                entry = entries[entry, NEXT]
            if is_suspect:
                if count == len(found):
                    found = _longer(found)
                found[count, 0], found[count, 1], found[count, 2] = b, cell, freed[cell]
                count += 1
            elif is_write or mode[b] == FRESH:
                # All others are before this one, and what comes later is compared with it.
                spare = spare_entries(entries, head[cell], spare)
                head[cell] = own = -1
            if mode[b] == FRESH:
                continue
            if own < 0:
                entries, used, spare, own = take_entry(entries, used, spare)
                entries[own, CHAIN], entries[own, WRITTEN], entries[own, NEXT] = mine, -1, head[cell]
                head[cell] = own
            entries[own, ANY], entries[own, _TOLD] = b, is_suspect
            if is_write:
                entries[own, WRITTEN] = b
            if mode[b] & FREE:
                freed[cell] = b
    return found[:count]


@njit(cache=True, nogil=True)
def write_histories(  # noqa: PLR0917 - columns of one table
    chain_of: Codes, mode: Array, low: Codes, high: Codes, is_wanted: Any, suspects: Ids
) -> tuple[Ids, int]:
    """Return all accesses to some cells, and let the suspects name lives of cells instead of cells.

    Args:
        chain_of: int32, shape (n,): chain of each access, in host order.
        mode: uint8, shape (n,).
        low: int32, shape (n,): first cell.
        high: int32, shape (n,): cell after the last.
        is_wanted: bool, shape (cells,).
        suspects: int64, shape (m, 3): access, cell and free; the cell is replaced by its life (in place).

    Returns:
        int64, shape (k, 3): life, chain and access, in host order; and the number of lives. An allocation
        begins a life.
    """
    life = np.full(len(is_wanted), -1, np.int64)
    lives, at = 0, 0
    out, count = np.empty((1024, 3), np.int64), 0
    for b in range(len(mode)):
        for cell in range(low[b], high[b]):
            if not is_wanted[cell]:
                continue
            if life[cell] < 0 or mode[b] == FRESH:
                life[cell] = lives
                lives += 1
            if at < len(suspects) and suspects[at, 0] == b and suspects[at, 1] == cell:
                suspects[at, 1] = life[cell]
                at += 1
            if mode[b] == FRESH:
                continue
            if count == len(out):
                out = _longer(out)
            out[count, 0], out[count, 1], out[count, 2] = life[cell], chain_of[b], b
            count += 1
    return out[:count], lives


@njit(cache=True, nogil=True)
def _first_unordered(  # noqa: PLR0917 - columns of two tables
    clocks: tuple[Array, ...],
    streams: int,
    chains: int,
    item_of: Codes,
    history: Codes,
    begin: int,
    end: int,
    b: int,
) -> int:
    """Return the first place of one chain's history whose access is not over before access `b` starts."""
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        x = history[middle]
        if item_of[x] != item_of[b] and before_items(clocks, streams, chains, item_of[x], item_of[b]):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def find_conflicts(  # noqa: PLR0917 - columns of three tables
    clocks: tuple[Array, ...], streams: int, chains: int, item_of: Codes, mode: Array,
    suspects: Ids, group_starts: Ids, groups_of_life: Ids, history: Codes, most: int,
) -> tuple[Ids, int]:  # fmt: skip
    """Return all conflicts of the suspects, the nearest ones of each chain where there are very many.

    Args:
        clocks: Columns of the clocks.
        streams: Number of streams.
        chains: Number of chains.
        item_of: int32, shape (n,): item of each access, in host order.
        mode: uint8, shape (n,): sets of modes.
        suspects: int64, shape (m, 3): access, life of a cell, free.
        group_starts: int64: where the accesses of each group (a life and a chain) begin in `history`.
        groups_of_life: int64: where the groups of each life begin.
        history: int32: accesses in host order within a group.
        most: Conflicts to keep of one suspect and chain.

    Returns:
        int64, shape (k, 4): earlier access, later access, suspect, and the last write that is over before
        the later access (-1 for none); and how many conflicts there are in all.
    """
    out, count, total = np.empty((1024, 4), np.int64), 0, 0
    for i in range(len(suspects)):
        b, life, free = suspects[i, 0], suspects[i, 1], suspects[i, 2]
        is_write = mode[b] & (WRITE | FREE) != 0
        source, first = -1, count
        if free >= 0:
            total += 1
            if count == len(out):
                out = _longer(out)
            out[count, _A], out[count, _B], out[count, _SUSPECT] = free, b, i
            count += 1
        for group in range(groups_of_life[life], groups_of_life[life + 1]):
            begin, end = group_starts[group], group_starts[group + 1]
            last = begin + np.searchsorted(history[begin:end], b)
            unordered = _first_unordered(clocks, streams, chains, item_of, history, begin, last, b)
            place = unordered - 1
            while place >= begin and mode[history[place]] & (WRITE | FREE) == 0:
                place -= 1
            if place >= begin:
                source = max(source, history[place])
            kept = 0
            for place in range(last - 1, unordered - 1, -1):
                a = history[place]
                if a == free or (not is_write and mode[a] & (WRITE | FREE) == 0):
                    continue
                total += 1
                if kept < most:
                    if count == len(out):
                        out = _longer(out)
                    out[count, _A], out[count, _B], out[count, _SUSPECT] = a, b, i
                    count += 1
                    kept += 1
        for k in range(first, count):
            out[k, _SOURCE] = source
    return out[:count], total
