"""What would order two unordered accesses, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from overlane.analysis.keys import Ids, words
from overlane.analysis.order import Order
from overlane.analysis.ordering.conflicts import FREE, READ
from overlane.analysis.ordering.touched import Touched
from overlane.trace import Trace

__all__ = ["Fixes", "roots"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]


class Fixes:
    """Says what to do about a pair of accesses.

    Args:
        trace: Trace.
        order: Its happens-before relation.
        touched: Its accesses.
    """

    def __init__(self, trace: Trace, order: Order, touched: Touched) -> None:
        self._order, self._touched = order, touched
        self._names = words(trace.table("ops")["name"])

    def of(self, a: int, b: int) -> str:
        """Return the smallest change that orders access `a` before access `b`, a sentence."""
        touched, item = self._touched, self._touched.item
        first, second = int(touched.op[a]), int(touched.op[b])
        if touched.mode[a] & FREE:
            return f"Free the memory only after {self._name(b)}, or use memory there that is still allocated."
        if first >= 0 and second >= 0 and item[a] == item[b]:
            return f"Add an edge from {self._name(a)} to {self._name(b)} to their graph."
        here, there = self._place(a), self._place(b)
        if first >= 0 and touched.chain[a] == touched.chain[b]:
            return (
                f"Let {self._name(b)} wait for {self._name(a)} before it touches the memory"
                " (cudaGridDependencySynchronize), or launch it without programmatic serialization."
            )
        if first < 0:
            return f"Let {there} issue {self._name(b)} only after {self._name(a)} by {here}."
        record = f"Record an event in {here} after {self._name(a)}"
        if touched.chain[b] >= self._order.all.streams:
            return f"{record}, and let {there} wait for it (cudaEventSynchronize) before {self._name(b)}."
        return f"{record}, and let {there} wait for it (cudaStreamWaitEvent) before {self._name(b)}."

    def _name(self, access: int) -> str:
        touched = self._touched
        op = int(touched.op[access])
        if op >= 0:
            codes, names = self._names
            return f"operation {op} ({names[codes[op]]})"
        if touched.is_allocation[access]:
            return f"the free of allocation row {int(touched.row[access])}"
        return "it reads the memory" if touched.mode[access] & READ else "it writes the memory"

    def _place(self, access: int) -> str:
        """Return the stream of an access, or its host thread."""
        chain, streams = int(self._touched.chain[access]), self._order.all.streams
        if chain >= streams:
            return f"host thread {self._order.program.threads[chain - streams][2]}"
        row = self._order.program.stream_rows[chain]
        name = f" ({row.name})" if row.name else ""
        where = f" of context {row.context_id}" if self._is_ambiguous(row.stream_id) else ""
        return f"stream {row.stream_id}{name}{where}"

    def _is_ambiguous(self, stream_id: int | None) -> bool:
        return sum(row.stream_id == stream_id for row in self._order.program.stream_rows) > 1


def roots(order: Order, item_a: Ids, item_b: Ids, is_reversed: Flags) -> Ids:
    """Return for each pair the place of another one whose edge orders this pair too, -1 for none.

    An edge from a later item to an earlier one orders everything before the one and after the other.

    Args:
        order: The happens-before relation.
        item_a: int64, shape (n,): item of the first of each pair.
        item_b: int64: item of the second.
        is_reversed: bool: the second has to come first (memory that was freed before its use).
    """
    source, target = np.where(is_reversed, item_b, item_a), np.where(is_reversed, item_a, item_b)
    implied = _by_position(order, source, target)
    # Other chains: of the pairs with one target, those whose source is over before another's.
    left = np.flatnonzero(implied < 0)
    left = left[np.argsort(target[left], kind="stable")]
    for group in np.split(left, np.flatnonzero(np.diff(target[left])) + 1):
        if len(group) < 2:
            continue
        is_before = order.before_items(source[group][:, None], source[group][None, :])
        for place, row in zip(group.tolist(), is_before, strict=True):
            later = group[row]
            # The last of a chain of sources is before no other, and is what all of them point to.
            last = [other for other in later.tolist() if not is_before[group == other][0].any()]
            if last:
                implied[place] = last[0]
    over = implied >= 0
    while over.any():  # what points to a pair that points on, points on too
        onward = np.where(over, implied[implied], -1)
        over = onward >= 0
        implied = np.where(over, onward, implied)
    return implied


def _by_position(order: Order, source: Ids, target: Ids) -> Ids:
    """Do the same among pairs of the same two chains."""
    chain, at = order.all.item_chain, order.all.item_at
    implied = np.full(len(source), -1, np.int64)
    best: dict[tuple[int, int], tuple[int, int]] = {}
    columns = [chain[source], at[source], chain[target], at[target]]
    chain_a, at_a, chain_b, _ = (column.tolist() for column in columns)
    for place in np.lexsort((-columns[1], columns[3])).tolist():
        pair = chain_a[place], chain_b[place]
        last, root = best.get(pair, (-1, -1))
        if at_a[place] <= last:
            implied[place] = root
        else:
            best[pair] = at_a[place], place
    return implied
