"""Which operation is ordered before which, by the closure of all that orders them, and what is not ordered.

Nodes are the beginning and the end of every command and the points of host threads. Every node is given the
set of all nodes behind it, the plainest closure there is.
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
        reached = _closure(2 * len(self._commands) + len(self._points), self._edges(certain=certain))
        numbers = [o.command.number for o in self._operations]
        rows = [[reached[2 * a + 1] >> 2 * b & 1 for b in numbers] for a in numbers]
        return np.array(rows, np.bool_).reshape(len(numbers), len(numbers))

    def _edges(self, *, certain: bool) -> list[tuple[int, int]]:
        edges = []
        for command in self._commands:
            begin, end = 2 * command.number, 2 * command.number + 1
            edges.append((begin, end))
            for need, rule in command.needs:
                if rule == "programmatic" and need.operation is not None:
                    before = 2 * need.operation.command.number
                    edges += [(before, begin), (before + 1, end if certain else begin)]
                elif not certain or (rule != "module" and not _is_unseen_barrier(command, rule)):
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


def _is_unseen_barrier(command: Command, rule: str) -> bool:
    """Whether it meets the legacy default stream's rule from a stream that its call does not name."""
    return command.kind in _UNSEEN and rule == "legacy"


def _kind(first: Access, second: Access) -> str:
    kinds = {("write", "read"): "RAW", ("read", "write"): "WAR", ("write", "write"): "WAW"}
    return kinds.get((first.mode, second.mode), "")


def _closure(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each node the bit set of the nodes that are reached from it over one or more edges."""
    onward: list[set[int]] = [set() for _ in range(count)]
    unmet = [0] * count
    for a, b in set(edges):
        onward[a].add(b)
        unmet[b] += 1
    order = [node for node in range(count) if not unmet[node]]
    for node in order:  # grows while it is read: what comes first is read first
        for after in onward[node]:
            unmet[after] -= 1
            if not unmet[after]:
                order.append(after)
    reached = [0] * count
    for node in reversed(order):
        for after in onward[node]:
            reached[node] |= reached[after] | 1 << after
    return reached
