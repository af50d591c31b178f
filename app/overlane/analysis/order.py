"""Which operation is over before which other starts, whatever the stamps say: happens-before.

The relation is the transitive closure of what CUDA promises (`docs/causes.md`, "Happens-before"): stream
order in issue order, event records and waits, the legacy default stream, synchronizations that succeeded,
program order of host threads, launches, graph order and stream-ordered memory. No stamp of the device enters
it, except where an operation has no launch call; its order is `likely` then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import njit

from overlane.analysis.keys import NULL, Codes, Ids, dense, known, words
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Program
from overlane.analysis.ordering.clocks import Array, Clocks, before_items, clocks
from overlane.analysis.ordering.program import program as program_of
from overlane.trace import Trace

if TYPE_CHECKING:
    from overlane.analysis.dependencies import Dependencies

__all__ = ["CERTAIN", "LIKELY", "UNORDERED", "Graphs", "Order", "before_ops", "happens_before"]

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

UNORDERED, LIKELY, CERTAIN = 0, 1, 2
"""What `Order.certainty` answers."""

_MOST_NODE_PAIRS = 1 << 26
"""Graphs with more pairs of nodes than this in all keep no relation between their nodes (64 MiB)."""


@dataclass(frozen=True)
class Graphs:
    """Which nodes of a graph come before which, inside of one launch.

    Attributes:
        of_op: int32, shape (ops,): graph with known edges that an operation is a node of, -1 for none.
        node_of_op: int32, shape (ops,): its node within that graph.
        starts: int64, shape (graphs + 1,): where the relation of each graph begins in `reach`.
        sizes: int64, shape (graphs,): nodes of each.
        reach: uint8: row by row, 1 where the node of the row comes before that of the column.
    """

    of_op: Codes
    node_of_op: Codes
    starts: Ids
    sizes: Ids
    reach: np.ndarray[Any, np.dtype[np.uint8]]

    @property
    def columns(self) -> tuple[Array, ...]:
        """What compiled questions take."""
        return (self.of_op, self.node_of_op, self.starts, self.sizes, self.reach)


@dataclass(frozen=True)
class Order:
    """The happens-before relation of a trace.

    Attributes:
        program: What the host did, in order.
        all: Clocks over every edge.
        certain: Clocks over certain edges alone; the same object where every edge is certain.
        graphs: Order inside of graph launches.
    """

    program: Program
    all: Clocks
    certain: Clocks
    graphs: Graphs

    def before(self, a: Any, b: Any) -> Flags:
        """Tell whether operations `a` are over before operations `b` start.

        Args:
            a: Operation ids, a number or an array.
            b: Operation ids, broadcast against `a`.

        Returns:
            Bool array of the common shape.

        Example:
            >>> from overlane.analysis.dependencies import dependencies
            >>> order = happens_before(trace, dependencies(trace))  # doctest: +SKIP
            >>> order.before([0, 1], 2)  # doctest: +SKIP
        """
        return self._ask(self.all, a, b)

    def certainty(self, a: Any, b: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Tell how sure it is that `a` is over before `b` starts: UNORDERED, LIKELY or CERTAIN.

        Args:
            a: Operation ids, a number or an array.
            b: Operation ids, broadcast against `a`.
        """
        is_before = self._ask(self.all, a, b)
        if self.certain is self.all:
            return np.where(is_before, CERTAIN, UNORDERED).astype(np.uint8)
        sure = self._ask(self.certain, a, b)
        return np.where(sure, CERTAIN, np.where(is_before, LIKELY, UNORDERED)).astype(np.uint8)

    def before_items(self, a: Any, b: Any) -> Flags:
        """Tell the same of items of the program: operations, accesses by the host, allocations and frees."""
        first, second, shape = _paired(a, b)
        out = np.zeros(len(first), np.bool_)
        _before_items(self.all.columns, self.all.streams, self.all.chains, first, second, out)
        return out.reshape(shape)

    def _ask(self, which: Clocks, a: Any, b: Any) -> Flags:
        first, second, shape = _paired(a, b)
        out = np.zeros(len(first), np.bool_)
        sizes = (which.streams, which.chains)
        _before_ops(which.columns, *sizes, self.program.op_item, self.graphs.columns, first, second, out)
        return out.reshape(shape)


def _paired(a: Any, b: Any) -> tuple[Ids, Ids, tuple[int, ...]]:
    """Return both as flat arrays of equal length, and their common shape."""
    first, second = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
    return np.array(first).ravel(), np.array(second).ravel(), first.shape


def happens_before(trace: Trace, deps: Dependencies) -> Order:
    """Return the happens-before relation of a trace.

    Args:
        trace: Any trace; the fewer tables it holds, the fewer pairs are ordered.
        deps: Its dependencies.
    """
    program = program_of(trace, deps)
    every = clocks(program, is_certain=False)
    is_guess = bool((program.actions.flags & act.LIKELY).any() or program.streams.is_guessed.any())
    return Order(
        program, every, clocks(program, is_certain=True) if is_guess else every, _graphs(trace, deps)
    )


def _graphs(trace: Trace, deps: Dependencies) -> Graphs:
    """Close the recorded edges inside of each launch, once per graph."""
    ops, edges = trace.table("ops"), trace.table("graph_edges")
    none = np.full(len(ops), -1, np.int32)
    if not len(edges) or not deps.issue.is_node.any():
        return Graphs(none, none, np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
    count = len(edges)
    own = [known(ops[name]) for name in ("rank", "graph_id", "graph_node_id")]
    graph_keys = [
        dense(np.concatenate([known(edges[n]), mine]))[0]
        for n, mine in zip(("rank", "graph_id"), own[:2], strict=True)
    ]
    graph, _ = dense(graph_keys[0] * (int(graph_keys[1].max()) + 1) + graph_keys[1])
    has_edges = np.bincount(graph[:count], minlength=int(graph.max()) + 1) > 0
    ends = [known(edges["from_node_id"]), known(edges["to_node_id"])]
    node, _ = dense(np.concatenate([*ends, own[2]]))
    of_graph = np.concatenate([graph[:count], graph])
    node, keys = dense(of_graph * (int(node.max()) + 1) + node)
    first_of = np.full(len(has_edges) + 1, len(keys), np.int64)
    np.minimum.at(first_of, of_graph, node)
    first_of = np.minimum.accumulate(first_of[::-1])[::-1]
    sizes = np.where(has_edges, np.diff(first_of), 0)
    if int((sizes * sizes).sum()) > _MOST_NODE_PAIRS:
        sizes = np.zeros_like(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes * sizes)])
    place = node - first_of[of_graph]
    kind, kinds = words(edges["edge_kind"])
    is_full = kind != kinds.index("programmatic") if "programmatic" in kinds else np.ones(count, np.bool_)
    used = np.flatnonzero(is_full & (sizes[graph[:count]] > 0))
    of = graph[used]
    reach = np.zeros(int(starts[-1]), np.uint8)
    reach[starts[of] + place[used] * sizes[of] + place[count + used]] = 1
    _close(reach, starts, sizes)
    mine = graph[count:]
    is_node = (own[1] != NULL) & (own[2] != NULL) & (sizes[mine] > 0)
    return Graphs(
        np.where(is_node, mine, -1).astype(np.int32),
        place[2 * count :].astype(np.int32),
        starts,
        sizes,
        reach,
    )


@njit(cache=True, nogil=True)
def _close(reach: Array, starts: Ids, sizes: Ids) -> None:
    for g in range(len(sizes)):
        n = sizes[g]
        square = reach[starts[g] : starts[g + 1]].reshape((n, n))
        for k in range(n):
            for i in range(n):
                if square[i, k]:
                    square[i] |= square[k]


@njit(cache=True, nogil=True)
def before_ops(  # noqa: PLR0917 - columns of two tables
    columns: tuple[Array, ...],
    streams: int,
    chains: int,
    item: Codes,
    graphs: tuple[Array, ...],
    a: int,
    b: int,
) -> bool:
    """Tell whether operation `a` is over before operation `b` starts."""
    if item[a] != item[b]:
        return before_items(columns, streams, chains, item[a], item[b])
    of_op, node, starts, sizes, reach = graphs
    g = of_op[a]
    return bool(g >= 0 and of_op[b] == g and reach[starts[g] + node[a] * sizes[g] + node[b]] != 0)


@njit(cache=True, nogil=True)
def _before_ops(  # noqa: PLR0917 - columns of two tables
    columns: tuple[Array, ...], streams: int, chains: int, item: Codes, graphs: tuple[Array, ...],
    a: Ids, b: Ids, out: Flags,
) -> None:  # fmt: skip
    for i in range(len(a)):
        out[i] = before_ops(columns, streams, chains, item, graphs, a[i], b[i])


@njit(cache=True, nogil=True)
def _before_items(  # noqa: PLR0917 - columns of one table
    columns: tuple[Array, ...], streams: int, chains: int, a: Ids, b: Ids, out: Flags
) -> None:
    for i in range(len(a)):
        out[i] = before_items(columns, streams, chains, a[i], b[i])
