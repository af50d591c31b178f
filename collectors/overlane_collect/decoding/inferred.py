"""Accesses of recorded programs: what copies, memsets and kernels were given, as far as it is memory."""

from __future__ import annotations

import bisect
from typing import Any, NamedTuple

import numpy as np

from overlane_collect.decoding.columns import Column, Draft, constant, texts
from overlane_collect.decoding.frames import Gathered
from overlane_collect.decoding.lookup import Lookup

__all__ = ["inferred"]

_WORD = 8  # what is known of the length of memory that a kernel gets a pointer to: its first word


class _Given(NamedTuple):
    """One argument, as it was logged."""

    row: int
    at: int
    mode: str
    address: int
    bytes: int


def inferred(gathered: Gathered, op_correlation: Column, allocations: Draft) -> tuple[Draft, int]:
    """Return the draft of `accesses`, all inferred, and how many arguments belong to no operation.

    Of a pointer only its first word is known to be the kernel's, and not whether that is read or written: it
    stands for both. Values that lie in no live allocation are no pointers.

    Args:
        gathered: The journal, with facts `arguments` (columns correlation_id, at, mode, address, bytes).
        op_correlation: Correlation id of each row of `ops`.
        allocations: Draft of `allocations`.
    """
    lookup = Lookup(op_correlation.values, op_correlation.known())
    copies: set[tuple[int, str, int, int]] = set()
    pointers: list[_Given] = []
    lost = 0
    for fact in gathered.facts.get("arguments", []):
        rows = lookup.rows(np.asarray(fact["correlation_id"], np.int64))
        columns = (rows.tolist(), *(fact[n] for n in ("at", "mode", "address", "bytes")))
        for given in map(_Given._make, zip(*columns, strict=True)):
            if given.row < 0:
                lost += 1
            elif given.mode == "unknown":
                pointers.append(given)
            else:
                copies.add((given.row, given.mode, given.address, given.bytes))
    found = sorted(copies | _in_allocations(pointers, allocations))
    if not found:
        return {}, lost
    row, mode, address, length = zip(*found, strict=True)
    return {
        "op_id": Column(np.asarray(row, np.int64)),
        "thread_id": constant(None, len(found)),
        "at_ns": constant(None, len(found)),
        "address": Column(np.asarray(address, np.uint64).view(np.int64)),
        "bytes": Column(np.asarray(length, np.int64)),
        "mode": texts(mode),
        "certainty": constant("inferred", len(found)),
    }, lost


def _in_allocations(pointers: list[_Given], allocations: Draft) -> set[tuple[int, str, int, int]]:
    """Return the accesses of those pointers that lay in memory that was allocated at the time."""
    if not allocations or not pointers:
        return set()
    live: list[int] = []  # sorted addresses
    length_of: dict[int, int] = {}
    found = set()
    for change in _in_time(pointers, allocations):
        if isinstance(change, _Given):
            place = bisect.bisect_right(live, change.address) - 1
            left = live[place] + length_of[live[place]] - change.address if place >= 0 else 0
            if left > 0:
                for mode in ("read", "write"):
                    found.add((change.row, mode, change.address, min(_WORD, left)))
            continue
        address, length, freed = change
        if not freed:
            if address not in length_of:
                bisect.insort(live, address)
            length_of[address] = length
        elif address in length_of:
            del length_of[address]
            live.remove(address)
    return found


def _in_time(pointers: list[_Given], allocations: Draft) -> list[Any]:
    """Return allocations, frees and pointers in the order in which they came."""
    known = allocations["bytes"].known() | (allocations["freed"].values != 0)
    columns = [allocations[name].values[known].tolist() for name in ("at_ns", "address", "bytes", "freed")]
    changes: list[tuple[int, int, Any]] = [
        (at, 0, (address, length, freed)) for at, address, length, freed in zip(*columns, strict=True)
    ]
    changes += [(given.at, 1, given) for given in pointers]
    return [change for _, _, change in sorted(changes, key=lambda item: item[:2])]
