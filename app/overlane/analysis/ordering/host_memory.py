"""Which operations touch memory that the host can reach, so that it may need to know of their end."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlane.analysis.keys import NULL, Ids, known, words
from overlane.analysis.ordering.actions import Program
from overlane.analysis.ordering.conflicts import READ
from overlane.analysis.ordering.touched import Touched
from overlane.intervals import Intervals, union
from overlane.trace import Trace

__all__ = ["Reachable", "reachable"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_DEVICE = ("device", "array")
_WITHIN_DEVICES = ("copy_d2d", "copy_p2p")


class Reachable:
    """What is known of the memory that each operation touches.

    Attributes:
        is_needed: bool, shape (ops,): it touches memory of the host, and no access of the host to those bytes
            is declared.
        is_unknown: bool, shape (ops,): no row tells what kind of memory some of its accesses touch.
    """

    def __init__(self, is_needed: Flags, is_unknown: Flags) -> None:
        self.is_needed, self.is_unknown = is_needed, is_unknown


def reachable(trace: Trace, program: Program, touched: Touched) -> Reachable:
    """Tell which operations touch memory that the host can reach.

    Args:
        trace: Any trace.
        program: What its host did.
        touched: Its accesses.
    """
    ops = trace.table("ops")
    kind, kinds = words(ops["kind"])
    is_copy, is_memset = _is(kind, kinds, "memcpy"), _is(kind, kinds, "memset")
    reads, writes = _sides(trace, is_copy, is_memset)
    reads &= program.staged_item < 0  # read when the call returned
    rows = np.flatnonzero(touched.op >= 0)
    op, is_read = touched.op[rows], touched.mode[rows] == READ
    start, end = touched.address[rows], touched.end[rows]
    of_host, of_device = _allocated(trace)
    is_sided = np.where(is_read, reads[op], writes[op])
    is_moved = (is_copy | is_memset)[op]
    at_host = is_sided | (_touches(of_host, start, end) & ~(is_read & (program.staged_item[op] >= 0)))
    hosts = np.flatnonzero((touched.op < 0) & ~touched.is_allocation & touched.is_declared)
    is_declared = _lies_in(union((touched.address[hosts], touched.end[hosts])), start, end)
    needed, unknown = np.zeros(len(kind), np.bool_), np.zeros(len(kind), np.bool_)
    needed[op[at_host & ~is_declared]] = True
    unknown[op[~at_host & ~is_moved & ~_lies_in(of_device, start, end)]] = True
    # What is not declared at all may touch anything, a copy its two sides.
    has_read, has_written = np.zeros(len(kind), np.bool_), np.zeros(len(kind), np.bool_)
    has_read[op[is_read]], has_written[op[~is_read]] = True, True
    needed |= (reads & ~has_read) | (writes & ~has_written)
    needed |= ~(is_copy | is_memset | has_read | has_written)
    return Reachable(needed, unknown)


def _sides(trace: Trace, is_copy: Flags, is_memset: Flags) -> tuple[Flags, Flags]:
    """Tell which copies read and which copies and memsets write memory of the host, or of no known kind."""
    ops = trace.table("ops")
    engine, engines = words(ops["engine"])
    within = np.zeros(len(engine), np.bool_)
    for name in _WITHIN_DEVICES:
        within |= _is(engine, engines, name)
    sides = []
    for column, moves in (("src_memory", is_copy), ("dst_memory", is_copy | is_memset)):
        code, names = words(ops[column])
        on_device = np.zeros(len(code), np.bool_)
        for name in _DEVICE:
            on_device |= _is(code, names, name)
        sides.append(moves & ~on_device & ~((code < 0) & (within | is_memset)))
    return sides[0], sides[1]


def _is(codes: Any, found: list[str], word: str) -> Flags:
    return np.asarray(codes == found.index(word)) if word in found else np.zeros(len(codes), np.bool_)


def _allocated(trace: Trace) -> tuple[Intervals, Intervals]:
    """Return the bytes that were ever allocated to the host, and those of devices."""
    table = trace.table("allocations")
    address, length = known(table["address"]), known(table["bytes"])
    code, names = words(table["memory_kind"])
    fits = (length != NULL) & (length > 0) & (code >= 0)
    on_device = _is(code, names, "device")
    found = (np.flatnonzero(fits & which) for which in (~on_device, on_device))
    host, device = (union((address[rows], address[rows] + length[rows])) for rows in found)
    return host, device


def _lies_in(bytes_: Intervals, start: Ids, end: Ids) -> Flags:
    place = np.searchsorted(bytes_[0], start, "right") - 1
    last = np.append(bytes_[1], np.iinfo(np.int64).min)
    return np.asarray((place >= 0) & (last[place] >= end))


def _touches(bytes_: Intervals, start: Ids, end: Ids) -> Flags:
    first, last = np.searchsorted(bytes_[1], start, "right"), np.searchsorted(bytes_[0], end, "left")
    return np.asarray(last > first)
