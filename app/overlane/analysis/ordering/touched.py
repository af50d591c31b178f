"""Accesses to memory in host order, cut into cells, and the conflicts among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from overlane.analysis.keys import NULL, Codes, Ids, dense, known, words
from overlane.analysis.ordering import conflicts as found
from overlane.analysis.ordering.actions import HOST, ITEM
from overlane.trace import Trace

if TYPE_CHECKING:
    from overlane.analysis.order import Order

__all__ = ["MOST_CONFLICTS", "Conflicts", "Touched"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

MOST_CONFLICTS = 100_000
"""Conflicts of single cells that are kept, the nearest ones of each access first."""

_MOST_CELLS = 1 << 26
"""Cells that all accesses may touch together; a check costs about 50 ns for each."""


class Touched:
    """The accesses of a trace that can be checked, in host order.

    Frees and allocations are among them. What a copy from pageable memory reads it has read when its call
    returns (CUDA Runtime API, "API synchronization behavior"): what comes after the call comes after the
    read.

    Attributes:
        item: int32, shape (n,): item of each.
        op: int32: operation, -1 for the host and for allocations.
        row: int64: row of `accesses` or `allocations`.
        is_allocation: bool: which of these.
        mode: uint8: set of modes of `overlane.analysis.ordering.conflicts`.
        address: int64: first byte.
        end: int64: byte after the last.
        thread: int32: thread that accesses or issued, -1 for unknown.
        is_declared: bool: not inferred.
        staged: int64: item of the host's own read for a copy, -1 for other accesses.
        unsized: int32: items of frees that do not say how much they free.
        unchecked_count: Accesses that are left out, since nothing says who made them, or since cells became
            too many.
        unplaced_count: Frees that are left out, since nothing says who made them.
    """

    def __init__(self, trace: Trace, order: Order) -> None:
        self._order = order
        program, accesses, allocations = order.program, trace.table("accesses"), trace.table("allocations")
        op = known(accesses["op_id"])
        is_op = op != NULL
        item = program.access_item.copy()
        item[is_op] = program.op_item[op[is_op]]
        mode, modes = words(accesses["mode"])
        is_write = mode == modes.index("write") if "write" in modes else np.zeros(len(op), np.bool_)
        certainty, certainties = words(accesses["certainty"])
        freed = known(allocations["freed"].cast(pa.uint8())) == 1
        count, others = len(op), len(freed)
        self.item = np.concatenate([item, program.allocation_item])
        self.op = np.concatenate([np.where(is_op, op, -1), np.full(others, -1)]).astype(np.int32)
        self.row = np.concatenate([np.arange(count), np.arange(others)])
        self.is_allocation = np.concatenate([np.zeros(count, np.bool_), np.ones(others, np.bool_)])
        self.mode = np.concatenate(
            [np.where(is_write, found.WRITE, found.READ), np.where(freed, found.FREE, found.FRESH)]
        ).astype(np.uint8)
        self.address = np.concatenate([known(accesses["address"]), known(allocations["address"])])
        length = np.concatenate([known(accesses["bytes"]), _sizes(allocations, freed)])
        self.end = self.address + np.maximum(length, 0)
        declared = certainty == certainties.index("declared") if "declared" in certainties else is_op & False
        self.is_declared = np.concatenate([declared, np.ones(others, np.bool_)])
        read = np.flatnonzero(is_op & ~is_write)
        staged = np.full(count, -1, np.int64)
        staged[read] = program.staged_item[op[read]]
        self.staged = np.concatenate([staged, np.full(others, -1)])
        self.unsized = program.allocation_item[freed & (length[count:] <= 0)]
        self._select(order, length > 0)

    def _select(self, order: Order, usable: Flags) -> None:
        """Keep what can be checked, in host order, of one operation its writes first."""
        actions, program = order.program.actions, order.program
        rank = np.full(program.item_count, -1, np.int64)
        puts = np.flatnonzero((actions.kind == ITEM) | (actions.kind == HOST))
        rank[actions.ref[puts]] = puts
        chain = order.all.item_chain
        is_known = usable & (chain[self.item] >= 0) if len(chain) else usable
        self.unchecked_count = int(np.count_nonzero(usable & ~is_known & ~self.is_allocation))
        is_free = self.is_allocation & (self.mode == found.FREE)
        self.unplaced_count = int(np.count_nonzero(is_free & ~is_known))
        rows = np.flatnonzero(is_known)
        rows = rows[np.lexsort((self.mode[rows] == found.READ, self.op[rows], rank[self.item[rows]]))]
        for name in ("item", "op", "row", "is_allocation", "mode", "address", "end", "is_declared", "staged"):
            setattr(self, name, getattr(self, name)[rows])
        self.rank = rank[self.item]
        self.thread = order.all.item_thread[self.item] if len(rows) else np.zeros(0, np.int32)
        self.chain = chain[self.item] if len(rows) else np.zeros(0, np.int32)

    def conflicts(self) -> Conflicts:
        """Return all conflicts of single cells."""
        low, high, cells = self.cells()
        order, clocks = self._order, self._order.all
        of_graph = order.graphs.of_op
        nodes = (
            (self.op >= 0) & (of_graph[self.op] >= 0) if len(of_graph) else np.zeros(len(self.op), np.bool_)
        )
        question = (clocks.columns, clocks.streams, clocks.chains, self.item)
        suspects = found.find_suspects(*question, nodes, self.mode, low, high, cells)
        if not len(suspects):
            return Conflicts(np.zeros((0, 4), np.int64), 0)
        wanted = np.zeros(cells, np.bool_)
        wanted[suspects[:, 1]] = True
        history, lives = found.write_histories(self.chain, self.mode, low, high, wanted, suspects)
        order_ = np.lexsort((history[:, 2], history[:, 1], history[:, 0]))
        history = history[order_]
        cut = np.flatnonzero(np.any(history[1:, :2] != history[:-1, :2], axis=1)) + 1
        starts = np.concatenate([[0], cut, [len(history)]])
        lives_of_groups = np.searchsorted(history[starts[:-1], 0], np.arange(lives + 1))
        most = max(1, MOST_CONFLICTS // len(suspects))
        rows, total = found.find_conflicts(
            *question, self.mode, suspects, starts, lives_of_groups, history[:, 2].astype(np.int32), most
        )
        return Conflicts(self._without_own(rows), max(total - len(rows), 0))

    def cells(self) -> tuple[Codes, Codes, int]:
        """Cut memory where any access begins or ends; return the cells of each access."""
        start, first = dense(self.address)
        stop, last = dense(self.end)
        bounds = np.union1d(first, last)
        low = np.searchsorted(bounds, first)[start] if len(start) else start
        high = np.searchsorted(bounds, last)[stop] if len(stop) else stop
        total = np.cumsum(high - low)
        beyond = int(np.searchsorted(total, _MOST_CELLS, "right"))
        self.unchecked_count += len(total) - beyond
        high[beyond:] = low[beyond:]
        return low.astype(np.int32), high.astype(np.int32), len(bounds)

    def _without_own(self, rows: Ids) -> Ids:
        """Leave out what the host had read, pairs inside of an operation, and nodes that no edge tells of."""
        staged = self.staged[rows[:, 0]]
        if (staged >= 0).any():
            is_read = self._order.before_items(np.maximum(staged, 0), self.item[rows[:, 1]].astype(np.int64))
            rows = rows[~(is_read & (staged >= 0))]
        a, b = rows[:, 0], rows[:, 1]
        same = self.item[a] == self.item[b]
        if not same.any():
            return rows
        first, second = self.op[a[same]], self.op[b[same]]
        graphs = self._order.graphs.of_op
        is_pair = (first != second) & (graphs[first] >= 0)
        is_pair &= ~self._order.before(first, second) & ~self._order.before(second, first)
        keep = np.ones(len(rows), np.bool_)
        keep[np.flatnonzero(same)] = is_pair
        return rows[keep]


class Conflicts:
    """Conflicts of single cells.

    Attributes:
        first: int64, shape (n,): earlier access in host order, as a place in `Touched`.
        second: int64: later access.
        source: int64: last write of the cell that is over before the second, -1 for none.
        left_out_count: Conflicts that are not listed.
    """

    def __init__(self, rows: Ids, left_out_count: int) -> None:
        self.first, self.second, self.source = rows[:, 0], rows[:, 1], rows[:, 3]
        self.left_out_count = left_out_count


def _sizes(allocations: pa.Table, freed: Flags) -> Ids:
    """Return the bytes of each row; a free that names none has those of the allocation before it."""
    size, address = known(allocations["bytes"]), known(allocations["address"])
    lacking = np.flatnonzero(freed & (size == NULL))
    if not len(lacking):
        return size
    order = np.argsort(address, kind="stable")
    at, same = order[1:], address[order[1:]] == address[order[:-1]]
    fits = same & (size[at] == NULL) & ~freed[order[:-1]]
    size = size.copy()
    size[at[fits]] = size[order[:-1][fits]]
    return size
