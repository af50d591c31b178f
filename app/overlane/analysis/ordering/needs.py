"""What strong synchronizations have to tell, for everything that they order to stay ordered: one pass.

Two clocks are compared: those of the whole program, and those of the program whose strong synchronizations
tell nothing. A conflict that only the first orders rests on what a thread knew when it issued the later
access. It is put on the last strong synchronization before that which waits for the earlier one's stream,
unless one before it has to tell as much anyway. Only the nearest conflicting access of each chain is asked
for, since what tells of it tells of all before it in its chain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from overlane.analysis.keys import Codes, Ids
from overlane.analysis.ordering.clocks import Array, before_items, known_of, step_row
from overlane.analysis.ordering.conflicts import (
    ANY,
    CHAIN,
    FREE,
    FRESH,
    NEXT,
    WRITE,
    WRITTEN,
    spare_entries,
    take_entry,
)

__all__ = ["WILD", "Asked", "Lines", "find_needs", "reach"]

WILD = 16
"""Mode of what may touch any memory, since nothing says what it touches."""

_ORDERED, _UNORDERED = range(2)
_CHANGES = WRITE | FREE | FRESH
_AT_END = np.iinfo(np.int32).max


class Lines(NamedTuple):
    """Where things stand in the program.

    Attributes:
        reduced: Columns of the clocks in which the strong synchronizations tell nothing.
        full: Columns of the clocks of the whole program, with the same items.
        streams: Number of streams.
        chains: Number of chains.
        begins: int64, shape (streams + 1,): where the items of each stream begin in the next two.
        places: int64: places of their actions.
        items: int32: the items, by stream and position.
        tick_begins: int64, shape (threads + 1,): where the ticks of each thread begin in the next one.
        tick_places: int64: places of their actions.
        number_at: int32, shape (actions,): number of the strong synchronization there, -1 for none.
        member_begins: int64, shape (n + 1,): where the streams that each of these waits for begin.
        members: int32: these streams.
        line_begins: int64: where the rows of `members` of each thread and stream begin, in host order.
        line_places: int64: places of their actions.
        line_rows: int64: these rows.
    """

    reduced: tuple[Array, ...]
    full: tuple[Array, ...]
    streams: int
    chains: int
    begins: Ids
    places: Ids
    items: Codes
    tick_begins: Ids
    tick_places: Ids
    number_at: Codes
    member_begins: Ids
    members: Codes
    line_begins: Ids
    line_places: Ids
    line_rows: Ids


class Asked(NamedTuple):
    """What is asked for; the last four are filled in.

    Attributes:
        host_begins: int64, shape (threads + 1,): where the ticks of each thread's own accesses begin.
        host_ticks: int64.
        wild_chains: int32: chains of wild items, ascending.
        needed: int32, shape (members,): position of its stream that each synchronization has to tell.
        assured: int32, shape (threads, chains): position that a thread will know by what was put down so far.
        kept: int32, shape (actions + 2,): how many more, or fewer, ranges of actions begin there in which
            every strong synchronization has to stay whole.
        opened: int32: by positions of streams, how many more, or fewer, ranges begin there of what may be
            unordered with a later access.
    """

    host_begins: Ids
    host_ticks: Ids
    wild_chains: Codes
    needed: Codes
    assured: Codes
    kept: Codes
    opened: Codes


@njit(cache=True, nogil=True)
def reach(columns: tuple[Array, ...], streams: int, chains: int, b: int, of: int) -> int:
    """Return how many items of chain `of` are over before item `b` starts."""
    starts, at, value, chain, position, prefix, thread, tick = columns
    mine = chain[b]
    if mine < 0:
        return 0
    most = prefix[b] if mine == of else known_of(starts, at, value, mine * chains + of, position[b])
    if mine >= streams:
        return most
    for h in range(streams, chains):
        is_own = thread[b] + streams == h
        known = tick[b] if is_own else known_of(starts, at, value, mine * chains + h, position[b])
        if h == of:
            most = max(most, known)
        elif known:
            most = max(most, known_of(starts, at, value, h * chains + of, known))
    return most


@njit(cache=True, nogil=True)
def _known(lines: Lines, columns: tuple[Array, ...], h: int, of: int, tick: int) -> int:
    """Return how many items of a chain a thread knows to be over at one of its ticks."""
    return known_of(columns[0], columns[1], columns[2], (lines.streams + h) * lines.chains + of, tick)


@njit(cache=True, nogil=True)
def _put_last(lines: Lines, asked: Asked, h: int, of: int, position: int, place: int) -> bool:  # noqa: PLR0917
    """Put a need on the last synchronization of a thread before a place that waits for the stream itself."""
    if of >= lines.streams:
        return False
    line = h * lines.streams + of
    first, last = lines.line_begins[line], lines.line_begins[line + 1]
    at = first + np.searchsorted(lines.line_places[first:last], place) - 1
    if at < first or lines.line_places[at] < lines.places[lines.begins[of] + position - 1]:
        return False
    row = lines.line_rows[at]
    asked.needed[row] = max(asked.needed[row], position)
    return True


@njit(cache=True, nogil=True)
def _tells(lines: Lines, row: int, place: int, of: int, position: int) -> int:
    """Return the first position of a row's stream whose event tells of an item, 0 where none does."""
    s = lines.members[row]
    first = lines.begins[s]
    low, high = 1, int(np.searchsorted(lines.places[first : lines.begins[s + 1]], place))
    if s == of:
        return position if position <= high else 0
    sizes = (lines.streams, lines.chains)
    if not high or reach(lines.reduced, *sizes, lines.items[first + high - 1], of) < position:
        return 0
    while low < high:
        middle = (low + high) // 2
        if reach(lines.reduced, *sizes, lines.items[first + middle - 1], of) >= position:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _put_first(lines: Lines, asked: Asked, h: int, of: int, position: int) -> None:
    """Put a need on what first told a thread of an item; what cannot be followed stays whole on the way."""
    step = step_row(lines.full[0], lines.full[2], (lines.streams + h) * lines.chains + of, position)
    if step < 0:
        return
    tick = lines.full[1][step]
    place = lines.tick_places[lines.tick_begins[h] + tick - 1]
    number = lines.number_at[place]
    if number < 0:
        if _known(lines, lines.reduced, h, of, tick) >= position:
            return
    else:
        for row in range(lines.member_begins[number], lines.member_begins[number + 1]):
            told = _tells(lines, row, place, of, position)
            if told:
                asked.needed[row] = max(asked.needed[row], told)
                return
    low = lines.places[lines.begins[of] + position - 1] if of < lines.streams else 0
    asked.kept[low] += 1
    asked.kept[place + 1] -= 1


@njit(cache=True, nogil=True)
def _need(lines: Lines, asked: Asked, h: int, of: int, position: int, place: int) -> None:  # noqa: PLR0917
    """Note that a thread has to know of an item before a place."""
    if asked.assured[h, of] >= position:
        return
    if not _put_last(lines, asked, h, of, position, place):
        _put_first(lines, asked, h, of, position)
    asked.assured[h, of] = position


@njit(cache=True, nogil=True)
def _ask(lines: Lines, asked: Asked, x: int, b: int, place: int) -> int:
    """Tell whether the whole program orders item `x` before item `b`, and note whose knowledge that takes."""
    full, sizes = lines.full, (lines.streams, lines.chains)
    if x == b or before_items(lines.reduced, *sizes, x, b):
        return _ORDERED
    of, position, h = full[3][x], full[4][x], full[6][b]
    if h >= 0 and _known(lines, full, h, of, full[7][b]) >= position:
        _need(lines, asked, h, of, position, place)
        return _ORDERED
    # Other threads: by what they put into streams, or by what they tell each other, which is in no row.
    for g in range(lines.chains - lines.streams):
        ticks = lines.tick_places[lines.tick_begins[g] : lines.tick_begins[g + 1]]
        if g != h and _known(lines, full, g, of, int(np.searchsorted(ticks, place))) >= position:
            _put_first(lines, asked, g, of, position)
    return _ORDERED if before_items(full, *sizes, x, b) else _UNORDERED


@njit(cache=True, nogil=True)
def _ask_all(lines: Lines, asked: Asked, h: int, b: int, place: int) -> None:
    """Note that all that a thread knows may be needed, by an item or (-1) after the end of the recording."""
    for of in range(lines.chains):
        if of == lines.streams + h:
            continue
        known = _known(lines, lines.full, h, of, lines.full[7][b] if b >= 0 else _AT_END)
        if known and of >= lines.streams:  # of another thread only its accesses and frees count
            g = of - lines.streams
            ticks = asked.host_ticks[asked.host_begins[g] : asked.host_begins[g + 1]]
            at = np.searchsorted(ticks, known, "right")
            known = ticks[at - 1] if at else 0
        if b >= 0:
            without = reach(lines.reduced, lines.streams, lines.chains, b, of)
        else:
            without = _known(lines, lines.reduced, h, of, _AT_END)
        if known > without:
            _need(lines, asked, h, of, known, place)


@njit(cache=True, nogil=True)
def _open(lines: Lines, opened: Codes, x: int, b: int) -> None:
    """Note what is unordered: the later item, and of the earlier one's chain all that may be."""
    full = lines.full
    for item in (b, x):
        chain, first = full[3][item], full[4][item] - 1
        if item == x:
            first = reach(full, lines.streams, lines.chains, b, chain)
        if chain < lines.streams:
            opened[lines.begins[chain] + first] += 1
            opened[lines.begins[chain] + full[4][item]] -= 1


@njit(cache=True, nogil=True)
def _ask_wild(lines: Lines, asked: Asked, last: Codes, done: Codes, b: int, place: int) -> int:  # noqa: PLR0917
    """Ask for the last wild item of each chain; what a chain's item is after, the next one is after too."""
    mine, is_plain = lines.full[3][b], lines.full[5][b] == lines.full[4][b] - 1
    found = _ORDERED
    for k in range(len(last)):
        x = last[k]
        if x < 0 or (is_plain and done[mine, k] >= lines.full[4][x]):
            continue
        if _ask(lines, asked, x, b, place) == _UNORDERED:
            found = _UNORDERED
        elif is_plain:
            done[mine, k] = lines.full[4][x]
    return found


@njit(cache=True, nogil=True)
def _is_settled(  # noqa: PLR0917 - columns of two tables
    reduced: tuple[Array, ...], streams: int, chains: int, assured: Codes, entries: Codes, head: Codes,
    cells: tuple[int, int], column: int, b: int,
) -> bool:  # fmt: skip
    """Tell whether an access comes after all that it conflicts with in some cells, as most do."""
    chain, position, h = reduced[3], reduced[4], reduced[6][b]
    for cell in range(cells[0], cells[1]):
        entry = head[cell]
        while entry >= 0:
            x = entries[entry, column]
            is_known = x < 0 or x == b or (h >= 0 and assured[h, chain[x]] >= position[x])
            if not is_known and not before_items(reduced, streams, chains, x, b):
                return False
            entry = entries[entry, NEXT]
    return True


@njit(cache=True, nogil=True)
def _ask_cells(  # noqa: PLR0917 - one state machine
    lines: Lines, asked: Asked, entries: Codes, head: Codes, cells: tuple[int, int], mode: int, b: int,
    place: int,
) -> int:  # fmt: skip
    """Ask for the last accesses of each chain to some cells that an access conflicts with."""
    found = _ORDERED
    for cell in range(cells[0], cells[1]):
        entry = head[cell]
        while entry >= 0:
            x = entries[entry, ANY] if mode & _CHANGES else entries[entry, WRITTEN]
            if x >= 0 and _ask(lines, asked, x, b, place) == _UNORDERED and mode != FRESH:
                found = _UNORDERED
                _open(lines, asked.opened, x, b)
            entry = entries[entry, NEXT]
    return found


@njit(cache=True, nogil=True)
def _enter(  # noqa: PLR0917 - one state machine
    entries: Codes,
    head: Codes,
    room: tuple[int, int],
    cell: int,
    access: tuple[int, int, int],
    is_ordered: bool,
) -> tuple[Codes, int, int]:
    """Write an access down as its chain's last to a cell; a write that is after all others replaces them."""
    b, mode, mine = access
    used, spare = room
    if mode & _CHANGES and is_ordered:
        spare = spare_entries(entries, head[cell], spare)
        head[cell] = -1
    own = head[cell]
    while own >= 0 and entries[own, CHAIN] != mine:
        own = entries[own, NEXT]
    if own < 0:
        entries, used, spare, own = take_entry(entries, used, spare)
        entries[own, CHAIN], entries[own, WRITTEN], entries[own, NEXT] = mine, -1, head[cell]
        head[cell] = own
    entries[own, ANY] = b
    if mode & _CHANGES:
        entries[own, WRITTEN] = b
    return entries, used, spare


@njit(cache=True, nogil=True)
def _put_for_host(lines: Lines, asked: Asked, by_host: tuple[Ids, Ids, Ids, Ids], at: int, place: int) -> int:
    """Put down what the host may need of the waits before a place; return how many needs that were in all."""
    while at < len(by_host[0]) and by_host[0][at] < place:
        h, of, position = by_host[1][at], by_host[2][at], by_host[3][at]
        _put_first(lines, asked, h, of, position)
        asked.assured[h, of] = max(asked.assured[h, of], position)
        at += 1
    return at


@njit(cache=True, nogil=True)
def find_needs(  # noqa: PLR0917 - one state machine
    lines: Lines, asked: Asked, accesses: tuple[Codes, Any, Codes, Codes, Ids],
    by_host: tuple[Ids, Ids, Ids, Ids], cells: int, last_kept: Ids,
) -> None:  # fmt: skip
    """Find what every strong synchronization has to tell.

    Args:
        lines: The program.
        asked: What is asked for, and what is found.
        accesses: Items, modes, first cells, cells after the last and places of actions, in host order.
        by_host: Place at which a thread first knew what the host may need, the thread, the chain and the
            position, in host order.
        cells: Number of cells.
        last_kept: int64, shape (threads,): place before which all that a thread waited for may be needed
            (filled in).
    """
    item_of, modes, low, high, places = accesses
    reduced, full, streams, chains = lines.reduced, lines.full, lines.streams, lines.chains
    prefix, position, threads, ticks, chain = full[5], full[4], full[6], full[7], full[3]
    head = np.full(cells + 1, -1, np.int32)
    entries, used, spare = np.empty((1024, 4), np.int32), 0, -1
    last_wild = np.full(len(asked.wild_chains), -1, np.int32)
    done = np.zeros((chains if len(last_wild) else 0, len(last_wild)), np.int32)
    wide_tick, wide_thread = np.full(chains, -1, np.int32), np.full(chains, -1, np.int32)
    at_host, before, is_hidden = 0, -1, False
    for i in range(len(item_of)):
        place, b, mode, bounds = places[i], item_of[i], modes[i], (low[i], high[i])
        mine, h, tick = chain[b], threads[b], ticks[b]
        if at_host < len(by_host[0]) and by_host[0][at_host] < place:
            at_host = _put_for_host(lines, asked, by_host, at_host, place)
        if len(last_wild) and b != before:
            is_hidden = _ask_wild(lines, asked, last_wild, done, b, place) == _UNORDERED
        before, is_unordered = b, is_hidden or mode == WILD
        column = ANY if mode & _CHANGES else WRITTEN
        if not _is_settled(reduced, streams, chains, asked.assured, entries, head, bounds, column, b):
            is_unordered |= _ask_cells(lines, asked, entries, head, bounds, mode, b, place) == _UNORDERED
        if is_unordered and mode != FRESH:
            for g in range(len(last_kept)):  # threads may tell each other anything
                if g != h:
                    last_kept[g] = max(last_kept[g], place)
            # An item behind one that asked for all of the same knowledge comes after all of that too.
            is_asked = wide_tick[mine] == tick and wide_thread[mine] == h and prefix[b] == position[b] - 1
            if h >= 0 and not is_asked:
                _ask_all(lines, asked, h, b, place)
                wide_tick[mine], wide_thread[mine] = tick, h
        if mode == WILD:
            last_wild[np.searchsorted(asked.wild_chains, mine)] = b
        is_ordered = not is_unordered or mode == FRESH
        for cell in range(bounds[0], bounds[1]):
            if mode == FRESH and mine >= streams:  # nothing on the device has to wait for it
                spare = spare_entries(entries, head[cell], spare)
                head[cell] = -1
                continue
            access = (b, mode, mine)
            entries, used, spare = _enter(entries, head, (used, spare), cell, access, is_ordered)
    _put_for_host(lines, asked, by_host, at_host, _AT_END)
    for g in range(len(last_kept)):
        _ask_all(lines, asked, g, -1, _AT_END)
