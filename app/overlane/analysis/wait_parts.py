"""Cuts waits into parts by what `overlane.analysis.waits` has gathered, in compiled passes.

Columns stand in named tuples and are not taken out of them but in straight code: where there are branches, a
compiled loop would count references to each of them, several times as slow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from overlane.analysis.dependencies import PROOF_TABLES
from overlane.analysis.keys import Bytes, Codes, Ids

__all__ = ["MOST_LATENCY_NS", "Edges", "WaitParts", "cut_waits"]

MOST_LATENCY_NS = 20_000
"""No start that nothing holds takes longer; what is longer has a cause that the rows do not tell."""
_NO_RANK = 99
_API_CALLS = PROOF_TABLES.index("api_calls")

BitSets = np.ndarray[Any, np.dtype[np.uint32]]


class WaitParts(NamedTuple):
    """Columns of parts, the first seven of `Waits`."""

    op: Codes
    start: Ids
    end: Ids
    cause: Bytes
    table: Bytes
    row: Ids
    bits: BitSets


class Edges(NamedTuple):
    """Columns of edges: where those of each operation begin, then cause, end, table and row of each."""

    begins: Ids
    cause: Ids
    end: Ids
    table: Bytes
    row: Ids


def cut_waits(
    times: tuple[Ids, Ids, Ids, Ids, Ids],
    edges: Edges,
    holds: tuple[Ids, Ids],
    held: tuple[Ids, Ids],
    codes: tuple[int, int, int],
) -> WaitParts:
    """Return the parts of all waits, in order of operation, then time.

    Args:
        times: Per operation its issue (its start where it did not wait), from when on it waited for the
            device, its start, its launch latency, and from when on nothing unrecorded can have held it.
        edges: What operations depended on.
        holds: Per operation the call that held it, -1 for none, and the cause that this is.
        held: Where the claims on each operation begin, and the claims, as of
            `overlane.analysis.resources.Resources.claims`.
        codes: Codes of `launch_latency` and `unknown`, and the rank of the former.
    """
    parts = _room(2 * len(times[0]))
    used = _cut(parts, times, edges, holds, held, codes)
    if used > len(parts.op):
        parts = _room(used)
        _cut(parts, times, edges, holds, held, codes)
    used = _joined(parts, used)
    return WaitParts._make(column[:used] for column in parts)


def _room(count: int) -> WaitParts:
    kinds = (np.int32, np.int64, np.int64, np.uint8, np.uint8, np.int64, np.uint32)
    return WaitParts._make(np.empty(count, kind) for kind in kinds)


@njit(cache=True, nogil=True)
def _write(  # noqa: PLR0917
    parts: WaitParts,
    used: int,
    op: int,
    begin: int,
    finish: int,
    cause: int,
    table: int,
    row: int,
    bits: int,
) -> int:
    """Write a part, where there is room for one; return how many there are, written or not."""
    if begin >= finish:
        return used
    if used >= len(parts.op):
        return used + 1
    parts.op[used], parts.start[used], parts.end[used] = op, begin, finish
    parts.cause[used], parts.table[used], parts.row[used], parts.bits[used] = cause, table, row, bits
    return used + 1


@njit(cache=True, nogil=True)
def _joined(parts: WaitParts, count: int) -> int:
    """Make one of neighbours that say the same, in place; return how many are left."""
    op, start, end, cause, table, row, bits = parts
    used = 0
    for k in range(count):
        last = used - 1
        is_same = used > 0 and op[last] == op[k] and end[last] == start[k] and cause[last] == cause[k]
        if is_same and table[last] == table[k] and row[last] == row[k] and bits[last] == bits[k]:
            end[last] = end[k]
            continue
        op[used], start[used], end[used], cause[used] = op[k], start[k], end[k], cause[k]
        table[used], row[used], bits[used] = table[k], row[k], bits[k]
        used += 1
    return used


@njit(cache=True, nogil=True)
def _cut(  # noqa: PLR0917
    parts: WaitParts,
    times: tuple[Ids, Ids, Ids, Ids, Ids],
    edges: Edges,
    holds: tuple[Ids, Ids],
    held: tuple[Ids, Ids],
    codes: tuple[int, int, int],
) -> int:
    """Cut the waits one by one: ordering, then the device; return how many parts there are."""
    issued, low, start, floor, sure = times
    used = 0
    for op in range(len(start)):
        if issued[op] >= start[op]:
            continue
        hold = (holds[0][op], holds[1][op])
        unknown, used = _cut_ordering(parts, used, op, (issued[op], low[op]), edges, hold)
        moments = (low[op], start[op], floor[op], sure[op])
        used = _cut_device(parts, used, op, moments, held, codes, unknown)
    return used


@njit(cache=True, nogil=True)
def _cut_ordering(  # noqa: PLR0917
    parts: WaitParts, used: int, op: int, times: tuple[int, int], edges: Edges, hold: tuple[int, int]
) -> tuple[int, int]:
    """Name the time before `low` after the dependency that ends last; cut where the set of open ones changes.

    A hold, told by its call, ended last of all. Returns the causes whose ends are not known, as a bit set.
    """
    at, low = times
    first, after = edges.begins[op], edges.begins[op + 1]
    latest, last_end, cause, unknown = -1, -1, -1, 0
    for k in range(first, after):
        its_cause, end = edges.cause[k], edges.end[k]
        if its_cause < 0:
            continue
        if end < 0:
            unknown |= 1 << its_cause
        elif latest < 0 or end > last_end or (end == last_end and its_cause < cause):
            latest, last_end, cause = k, end, its_cause
    table, row = _API_CALLS, hold[0]
    if row >= 0:
        cause = hold[1]
    elif latest >= 0:
        table, row = int(edges.table[latest]), edges.row[latest]
    while at < low and row >= 0:
        bits, until = unknown & ~(1 << cause), low
        for k in range(first, after):
            if edges.cause[k] >= 0 and edges.cause[k] != cause and edges.end[k] > at:
                bits |= 1 << edges.cause[k]
                until = min(until, edges.end[k])
        used = _write(parts, used, op, at, until, cause, table, row, bits)
        at = until
    return unknown, used


@njit(cache=True, nogil=True)
def _cut_device(  # noqa: PLR0917
    parts: WaitParts,
    used: int,
    op: int,
    times: tuple[int, int, int, int],
    held: tuple[Ids, Ids],
    codes: tuple[int, int, int],
    unknown: int,
) -> int:
    """Name the time from `sure` on after the claim of the lowest rank; the rest is latency, or unknown."""
    low, start, floor, sure = times
    begins, claims = held
    latency, nothing, latency_rank = codes
    tail = low
    for k in range(begins[op], begins[op + 1]):
        tail = max(tail, min(claims[k, 2], start))
    if start - tail > MOST_LATENCY_NS:
        # No start takes so long: something held it until a moment that is not known.
        floor = 0
    at = low
    while at < start:
        until, chosen, rank, bits = start, -1, _NO_RANK, unknown
        for k in range(begins[op], begins[op + 1]):
            if claims[k, 1] > at:
                until = min(until, claims[k, 1])
            elif claims[k, 2] > at:
                until = min(until, claims[k, 2])
                bits |= 1 << claims[k, 4]
                if claims[k, 3] < rank:
                    chosen, rank = k, claims[k, 3]
        if at < sure:
            until, rank, chosen = min(until, sure), _NO_RANK, -1
        elif at < start - floor:
            until = min(until, start - floor)
        elif rank > latency_rank:
            rank, chosen = latency_rank, -1
        cause = nothing if rank == _NO_RANK else latency if chosen < 0 else claims[chosen, 4]
        table = claims[chosen, 6] if chosen >= 0 else 0
        row = claims[chosen, 5] if chosen >= 0 else -1
        used = _write(parts, used, op, at, until, cause, table, row, bits & ~(1 << cause))
        at = until
    return used
