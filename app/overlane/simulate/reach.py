"""Which operation is ordered before which, by the closure of all that orders them, and what is not ordered.

Nodes are the beginning and the end of every command and the points of host threads. Every node is given the
set of all nodes behind it, the plainest closure there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from overlane.simulate.commands import Command, Operation
from overlane.simulate.host import Point
from overlane.simulate.program import Access
from overlane.simulate.truth import Hazard

__all__ = ["Reach"]

_KINDS = {("write", "read"): "RAW", ("read", "write"): "WAR", ("write", "write"): "WAW"}
_UNSEEN = {"host_function", "value_wait"}  # their calls name no stream
Matrix = np.ndarray[Any, np.dtype[np.bool_]]


class _Touch(NamedTuple):
    """One access or free: who made it, which bytes, and the nodes at which it begins and ends."""

    by: tuple[Any, ...]
    mode: str
    low: int
    high: int
    begin: int
    end: int


class Reach:
    """The order of one run.

    Args:
        operations: In the order of their rows.
        commands: All commands in order of issue.
        points: Points of all threads in order of time.
        addresses: First byte of each buffer.
        sizes: Bytes of each buffer.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        commands: Sequence[Command],
        points: Sequence[Point],
        addresses: Mapping[str, int],
        sizes: Mapping[str, int],
    ) -> None:
        self._operations = operations
        self._commands = commands
        self._points = points
        self._addresses = addresses
        self._sizes = sizes
        self._closures: dict[bool, list[int]] = {}

    def matrix(self, *, certain: bool) -> Matrix:
        """Return for every pair of operations whether the first ends before the second may begin.

        Args:
            certain: Only rules that are documented and shown by rows; else everything that did order.

        Returns:
            Boolean array, shape (operations, operations), by rows in `ops`.
        """
        reached = self._reached(certain=certain)
        numbers = [o.command.number for o in self._operations]
        rows = [[reached[2 * a + 1] >> 2 * b & 1 for b in numbers] for a in numbers]
        return np.array(rows, np.bool_).reshape(len(numbers), len(numbers))

    def _reached(self, *, certain: bool) -> list[int]:
        if certain not in self._closures:
            count = 2 * len(self._commands) + len(self._points)
            self._closures[certain] = _closure(count, self._edges(certain=certain))
        return self._closures[certain]

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

    def hazards(self, *, certain: bool) -> tuple[Hazard, ...]:
        """Return all pairs of accesses or frees of the same bytes that are not ordered.

        Args:
            certain: Ordered by rules that are documented and shown by rows; else by anything that did.
        """
        closures = [self._reached(certain=True)]
        if not certain:
            closures.append(self._reached(certain=False))

        def ordered(a: _Touch, b: _Touch) -> bool:
            return any(reached[a.end] >> b.begin & 1 for reached in closures)

        touches, found = self._touches(), set[Hazard]()
        for k, a in enumerate(touches):
            for b in touches[k + 1 :]:
                start, end = max(a.low, b.low), min(a.high, b.high)
                if a.by == b.by or start >= end:
                    continue
                if "free" in {a.mode, b.mode}:
                    use, free = (b, a) if a.mode == "free" else (a, b)
                    if use.mode != "free" and not ordered(use, free):
                        found.add(Hazard("use_after_free", a.by, b.by, start, end - start))
                elif (a.mode, b.mode) in _KINDS and not (ordered(a, b) or ordered(b, a)):
                    found.add(Hazard(_KINDS[a.mode, b.mode], a.by, b.by, start, end - start))
        return tuple(sorted(found, key=lambda h: (h.first, h.second, h.kind, h.address, h.bytes)))

    def _touches(self) -> list[_Touch]:
        """Return all accesses and frees, in order of who made them."""
        found = [
            _Touch(("op", op_id), a.mode, *self._span(a), 2 * o.command.number, 2 * o.command.number + 1)
            for op_id, o in enumerate(self._operations)
            for a in o.work.accesses
        ]
        by: tuple[Any, ...]
        for k, point in enumerate(self._points):
            node = 2 * len(self._commands) + k
            if point.access is not None:
                low, high = self._span(point.access)
                by = ("host", point.thread, point.at_ns, low, point.access.mode)
                found.append(_Touch(by, point.access.mode, low, high, node, node))
            if point.frees is not None:
                call, buffer = point.frees
                low, begin, end = self._addresses[buffer], node, node
                if point.issues is not None:
                    begin, end = 2 * point.issues.number, 2 * point.issues.number + 1
                by = ("free", call.correlation)
                found.append(_Touch(by, "free", low, low + self._sizes[buffer], begin, end))
        return sorted(found, key=lambda touch: touch.by)

    def _span(self, access: Access) -> tuple[int, int]:
        low = self._addresses[access.buffer] + access.offset
        return low, low + access.bytes


def _is_unseen_barrier(command: Command, rule: str) -> bool:
    """Whether it meets the legacy default stream's rule from a stream that its call does not name."""
    return command.kind in _UNSEEN and rule == "legacy"


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
