"""The host's actions replayed in order, to see which earlier operations each new one has to wait for.

Each stream carries a front: its last operation, and beside it what waits, holds and the legacy default stream
have added since. The next operation depends on all of the front and becomes the new one. A record keeps the
front of its stream; a wait on it adds that front to another stream's. Of two sources in one stream the later
implies the earlier, so a front never holds more than one of each stream and kind, and the whole is
near-linear.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from overlane.analysis.growing import with_room
from overlane.analysis.keys import Ids

__all__ = ["ACTIONS", "COLUMNS", "LEGACY", "Front", "replay"]

ACTIONS = ("operation", "record", "wait", "hold")
"""In a stream: an operation or graph launch, its front kept, a kept front added, a hold put in its way."""
COLUMNS = ("op", "source", "kind", "certainty", "proof_table", "proof_row")
"""Columns of an edge; a source below -1 is hold number `-2 - source`."""

_SOURCE, _KIND, _CERTAINTY, _TABLE, _ROW = range(5)
# Codes of kinds and tables; `dependencies` checks that its lists agree.
STREAM, LEGACY, GRAPH = 0, 3, 5
OPS = 1


class Front(NamedTuple):
    """State of the streams during the replay.

    Attributes:
        last: int64, shape (streams,), last operation, -1 for none.
        begin: int64, shape (streams,), where what stands beside it begins in `pool`.
        length: int64, shape (streams,), how much that is.
        seen: int64, shape (streams,), how many actions of the legacy default stream it has waited for.
        touched: bool, shape (streams,), something was issued since the legacy default stream last waited for
            it.
    """

    last: Ids
    begin: Ids
    length: Ids
    seen: Ids
    touched: np.ndarray[Any, np.dtype[np.bool_]]


def replay(  # noqa: PLR0917
    actions: tuple[Ids, Ids, Ids, Ids],
    units: tuple[Ids, Ids, Ids, Ids, Ids],
    records: tuple[Ids, Ids],
    waits: tuple[Ids, Ids, Ids, Ids, Ids],
    holds: tuple[Ids, Ids, Ids],
    groups: tuple[Ids, Ids, Ids, Ids],
) -> Ids:
    """Return the edges that streams, events, the legacy default stream, graph launches and holds make.

    Args:
        actions: In host order: place in `ACTIONS`, stream (-1 for one that orders nothing), row (of the unit,
            record, wait or hold) and certainty (1 where the order is inferred).
        units: Roots of every unit of issue, where the roots of each begin (shape (units + 1,)), its tail, the
            unit whose tail it follows as a launch of the same graph (-1 for none), and the stream of every
            operation.
        records: Table and row that prove each record.
        waits: Record of each wait (-1 for none), certainty of that, kind of edge, table and row that prove
            it.
        holds: Kind of edge of each hold, table and row that prove it.
        groups: Per stream the group that it shares with a legacy default stream (-1 for none) and whether it
            is that stream; the other streams of each group, and where those of each begin.

    Returns:
        int64 array, shape (edges, 6), columns as in `COLUMNS`.
    """
    streams = len(groups[0])
    front = Front(
        np.full(streams, -1, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.int64),
        np.zeros(streams, np.bool_),
    )
    return np.asarray(_replay(actions, units, records, waits, holds, groups, front))


@njit(cache=True, nogil=True)
def _put(pool: Ids, state: Ids, entry: Ids, stream: int, own: Ids, place: Ids) -> Ids:  # noqa: PLR0917
    """Add an entry to the list being built at `state[0]`, length `state[1]`, for a stream."""
    source, kind = entry[_SOURCE], entry[_KIND]
    of = own[source] if source >= 0 else -1
    if of == stream:
        return pool  # the stream's own order says more
    begin = state[0]
    for k in range(begin, begin + state[1]):
        other = pool[k, _SOURCE]
        if pool[k, _KIND] != kind:
            continue
        if other == source:
            pool[k, _CERTAINTY] = min(pool[k, _CERTAINTY], entry[_CERTAINTY])
            return pool
        if source >= 0 and other >= 0 and own[other] == of:
            if place[other] < place[source]:
                pool[k] = entry
            return pool
    pool = with_room(pool, begin + state[1])
    pool[begin + state[1]] = entry
    state[1] += 1
    return pool


@njit(cache=True, nogil=True)
def _add(  # noqa: PLR0917
    pool: Ids,
    state: Ids,
    stream: int,
    kept: tuple[int, int, int],
    change: Ids,
    own: Ids,
    place: Ids,
) -> Ids:
    """Add a kept front: every entry becomes of the kind, certainty and proof of `change`.

    A proof table of -1 in `change` stands for the entry's own source.
    """
    last, begin, length = kept
    entry = np.empty(5, np.int64)
    for k in range(-1, length):
        if k < 0:
            if last < 0:
                continue
            entry[_SOURCE], entry[_CERTAINTY] = last, 0
        else:
            entry[:] = pool[begin + k]
        entry[_KIND] = change[_KIND]
        entry[_CERTAINTY] = max(entry[_CERTAINTY], change[_CERTAINTY])
        if change[_TABLE] >= 0 and not (change[_KIND] == LEGACY and k < 0):
            entry[_TABLE], entry[_ROW] = change[_TABLE], change[_ROW]
        elif entry[_SOURCE] >= 0:
            entry[_TABLE], entry[_ROW] = OPS, entry[_SOURCE]
        pool = _put(pool, state, entry, stream, own, place)
    return pool


@njit(cache=True, nogil=True)
def _open(pool: Ids, used: int, front: Front, stream: int, state: Ids) -> Ids:
    """Begin a new list with what stands beside the stream's last operation."""
    state[0], state[1] = used, 0
    for k in range(front.length[stream]):
        pool = with_room(pool, used + k)
        pool[used + k] = pool[front.begin[stream] + k]
        state[1] += 1
    return pool


@njit(cache=True, nogil=True)
def _meet_legacy(  # noqa: PLR0917
    pool: Ids,
    state: Ids,
    stream: int,
    front: Front,
    groups: tuple[Ids, Ids, Ids, Ids],
    legacy: Ids,
    own: Ids,
    place: Ids,
) -> Ids:
    """Let an action wait for the legacy default stream, or that stream's action for the others of its group.

    Columns of `legacy`, per group: actions so far, the stream, table and row of its last action.
    """
    of, is_legacy, members, begins = groups
    group = of[stream]
    change = np.array([0, LEGACY, 0, -1, -1])
    if is_legacy[stream]:
        for k in range(begins[group], begins[group + 1]):
            other = members[k]
            if front.touched[other]:
                kept = (front.last[other], front.begin[other], front.length[other])
                pool = _add(pool, state, stream, kept, change, own, place)
                front.touched[other] = False
    elif front.seen[stream] != legacy[group, 0]:
        front.seen[stream] = legacy[group, 0]
        other = legacy[group, 1]
        change[_TABLE], change[_ROW] = legacy[group, 2], legacy[group, 3]
        kept = (front.last[other], front.begin[other], front.length[other])
        pool = _add(pool, state, stream, kept, change, own, place)
    return pool


@njit(cache=True, nogil=True)
def _emit(  # noqa: PLR0917
    edges: Ids,
    used: int,
    op: int,
    stream: int,
    certainty: int,
    front: Front,
    pool: Ids,
    state: Ids,
    unsure: Any,
) -> int:
    """Write the edges of one operation: its stream's last one, then what stands beside. There is room."""
    last = front.last[stream]
    if last >= 0:
        edges[used, 0], edges[used, 1], edges[used, 2] = op, last, STREAM
        edges[used, 3] = max(certainty, unsure[last])
        edges[used, 4], edges[used, 5] = OPS, last
        used += 1
    for k in range(state[0], state[0] + state[1]):
        edges[used, 0] = op
        for column in range(5):
            edges[used, 1 + column] = pool[k, column]
        source = pool[k, _SOURCE]
        doubt = unsure[source] if source >= 0 else 0
        edges[used, 3] = max(edges[used, 3], certainty, doubt)
        used += 1
    return used


@njit(cache=True, nogil=True)
def _replay(  # noqa: C901, PLR0912, PLR0915, PLR0917
    actions: tuple[Ids, Ids, Ids, Ids],
    units: tuple[Ids, Ids, Ids, Ids, Ids],
    records: tuple[Ids, Ids],
    waits: tuple[Ids, Ids, Ids, Ids, Ids],
    holds: tuple[Ids, Ids, Ids],
    groups: tuple[Ids, Ids, Ids, Ids],
    front: Front,
) -> Ids:
    """Replay. Longer than 50 lines: one pass with a branch for each kind of action."""
    kinds, streams, rows, certainties = actions
    roots, begins, tails, before, own = units
    edges = np.empty((max(len(kinds), 16), 6), np.int64)
    pool = np.empty((256, 5), np.int64)
    used, filled = 0, 0
    kept = np.full((len(records[0]), 3), -1, np.int64)
    legacy = np.zeros((len(groups[3]), 4), np.int64)
    place, unsure = np.zeros(len(own), np.int64), np.zeros(len(own), np.int64)
    state, change = np.zeros(2, np.int64), np.zeros(5, np.int64)
    for at in range(len(kinds)):
        stream, row, kind = streams[at], rows[at], kinds[at]
        if stream < 0:
            continue
        group = groups[0][stream]
        is_legacy = group >= 0 and groups[1][stream] != 0
        state[0], state[1] = filled, 0
        if front.length[stream]:
            pool = _open(pool, filled, front, stream, state)
        if group >= 0 and (is_legacy or front.seen[stream] != legacy[group, 0]):
            pool = _meet_legacy(pool, state, stream, front, groups, legacy, own, place)
        if kind == 0:
            tail = tails[row]
            edges = with_room(edges, used, (begins[row + 1] - begins[row]) * (state[1] + 2))
            for k in range(begins[row], begins[row + 1]):
                used = _emit(edges, used, roots[k], stream, certainties[at], front, pool, state, unsure)
                if before[row] >= 0:
                    source = tails[before[row]]
                    edges[used, 0], edges[used, 1], edges[used, 2] = roots[k], source, GRAPH
                    edges[used, 3], edges[used, 4], edges[used, 5] = 0, OPS, source
                    used += 1
            front.last[stream], front.length[stream] = tail, 0
            place[tail], unsure[tail] = at, certainties[at]
        else:
            if kind == 2 and waits[0][row] >= 0:
                record = waits[0][row]
                change[_KIND], change[_CERTAINTY] = waits[2][row], max(waits[1][row], certainties[at])
                change[_TABLE], change[_ROW] = waits[3][row], waits[4][row]
                front_kept = (kept[record, 0], kept[record, 1], kept[record, 2])
                pool = _add(pool, state, stream, front_kept, change, own, place)
            elif kind == 3:
                change[_SOURCE], change[_KIND] = -2 - row, holds[0][row]
                change[_CERTAINTY] = certainties[at]
                change[_TABLE], change[_ROW] = holds[1][row], holds[2][row]
                pool = _put(pool, state, change, stream, own, place)
            front.begin[stream], front.length[stream] = state[0], state[1]
            filled = state[0] + state[1]
            if kind == 1:
                kept[row, 0], kept[row, 1] = front.last[stream], front.begin[stream]
                kept[row, 2] = front.length[stream]
        front.touched[stream] = True
        if is_legacy:
            legacy[group, 0] += 1
            legacy[group, 1] = stream
            if kind == 0:
                legacy[group, 2], legacy[group, 3] = OPS, front.last[stream]
            elif kind == 1:
                legacy[group, 2], legacy[group, 3] = records[0][row], records[1][row]
            elif kind == 2:
                legacy[group, 2], legacy[group, 3] = waits[3][row], waits[4][row]
            else:
                legacy[group, 2], legacy[group, 3] = holds[1][row], holds[2][row]
    return edges[:used]
