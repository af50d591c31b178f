"""Which operation is ordered before which, by the closure of all that orders them, and what is not ordered.

Nodes are the beginning and the end of every command and the points of host threads. The closure is taken by
squaring the matrix of edges, the plainest way there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overlane.simulate.commands import Command, Operation
from overlane.simulate.host import Point
from overlane.simulate.program import Access
from overlane.simulate.truth import Hazard

__all__ = ["Reach"]

_UNSEEN = {"host_function", "value_wait"}  # their calls name no stream
Matrix = np.ndarray[Any, np.dtype[np.bool_]]


class Reach:
    """The order of one run.

    Args:
        operations: In the order of their rows.
        commands: All commands in order of issue.
        points: Points of all threads in order of time.
        addresses: First byte of each buffer.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        commands: Sequence[Command],
        points: Sequence[Point],
        addresses: Mapping[str, int],
    ) -> None:
        self._operations = operations
        self._commands = commands
        self._points = points
        self._addresses = addresses

    def matrix(self, *, certain: bool) -> Matrix:
        """Return for every pair of operations whether the first ends before the second may begin.

        Args:
            certain: Only rules that are documented and shown by rows; else everything that did order.

        Returns:
            Boolean array, shape (operations, operations), by rows in `ops`.
        """
        edges = self._edges(certain=certain)
        reached = _closure(2 * len(self._commands) + len(self._points), edges)
        begins = [2 * o.command.number for o in self._operations]
        ends = [2 * o.command.number + 1 for o in self._operations]
        return reached[np.ix_(ends, begins)] if self._operations else np.zeros((0, 0), np.bool_)

    def _edges(self, *, certain: bool) -> list[tuple[int, int]]:
        edges = []
        for command in self._commands:
            begin, end = 2 * command.number, 2 * command.number + 1
            edges.append((begin, end))
            for need, rule in command.needs:
                if rule == "programmatic" and need.operation is not None:
                    before = 2 * need.operation.command.number
                    edges += [(before, begin), (before + 1, end if certain else begin)]
                elif rule != "module" or not certain:
                    edges.append((2 * need.number + 1, begin))
        return edges + self._host_edges(certain=certain)

    def _host_edges(self, *, certain: bool) -> list[tuple[int, int]]:
        edges, first = [], 2 * len(self._commands)
        last_of: dict[int, int] = {}
        for k, point in enumerate(self._points):
            node = first + k
            if point.thread in last_of:
                edges.append((last_of[point.thread], node))
            last_of[point.thread] = node
            if point.issues is not None and not (certain and point.issues.kind in _UNSEEN):
                edges.append((node, 2 * point.issues.number))
            edges += [
                (2 * command.number + 1, node)
                for command, is_guaranteed in point.after
                if is_guaranteed or not certain
            ]
            if point.releases and not certain:
                edges += [
                    (node, 2 * c.number + 1)
                    for c in self._commands
                    if c.kind == "value_wait" and c.flag == point.releases
                ]
        return edges

    def hazards(self, ordered: Matrix) -> tuple[Hazard, ...]:
        """Return all pairs of accesses to the same bytes, at least one a write, that are not ordered."""
        accesses = [
            (op_id, access, self._addresses[access.buffer] + access.offset)
            for op_id, operation in enumerate(self._operations)
            for access in operation.work.accesses
        ]
        found = set()
        for k, (first, a, low) in enumerate(accesses):
            for second, b, other_low in accesses[k + 1 :]:
                start = max(low, other_low)
                end = min(low + a.bytes, other_low + b.bytes)
                if first != second and start < end and not (ordered[first, second] or ordered[second, first]):
                    kind = _kind(a, b)
                    if kind:
                        found.add(Hazard(kind, first, second, start, end - start))
        return tuple(
            sorted(found, key=lambda h: (h.first_op, h.second_op, h.kind, h.address, h.bytes))
        )  # fmt: skip


def _kind(first: Access, second: Access) -> str:
    kinds = {("write", "read"): "RAW", ("read", "write"): "WAR", ("write", "write"): "WAW"}
    return kinds.get((first.mode, second.mode), "")


def _closure(count: int, edges: Sequence[tuple[int, int]]) -> Matrix:
    """Return which node is reached from which over one or more edges."""
    step = np.eye(count, dtype=np.float32)
    if edges:
        rows, columns = zip(*edges, strict=True)
        step[list(rows), list(columns)] = 1
    while True:
        wider = np.minimum(step @ step, 1)
        if (wider == step).all():
            return step.astype(np.bool_) & ~np.eye(count, dtype=np.bool_)
        step = wider
