"""Edges of graphs: CUPTI's records name nodes, and only its callbacks say how they depend on each other.

A graph that a program builds or captures is cloned into an executable one, and the clones are what runs. So
edges and clones are logged as they are made, and joined when the journal is decoded.
"""

from __future__ import annotations

from collections.abc import Callable

from overlane_collect._callbacks import RESOURCE, Callbacks, GraphChange, graph_call
from overlane_collect._cupti import Cupti
from overlane_collect.backends.base import Sink

__all__ = ["GraphWatch"]

_CHANGES = {
    GraphChange.EDGE_CREATED: "edge",
    GraphChange.EDGE_REMOVED: "gone",
    GraphChange.NODE_CLONED: "clone",
}


class GraphWatch:
    """Logs edges and clones of nodes.

    Args:
        cupti: Gives nodes and graphs their numbers.
        callbacks: Where to register.
    """

    def __init__(self, cupti: Cupti, callbacks: Callbacks) -> None:
        self._cupti = cupti
        self._rows: list[tuple[str, int, int, int]] = []
        for number, what in _CHANGES.items():
            callbacks.on(RESOURCE, (number,), self._handler(what))

    def _handler(self, what: str) -> Callable[[int], None]:
        node_id, graph_id = self._cupti.graph_node_id, self._cupti.graph_id

        def changed(data: int) -> None:
            call = graph_call(data)
            other = call.original_node if what == "clone" else call.dependency
            if call.node and other:
                graph = graph_id(call.graph) if call.graph else 0
                self._rows.append((what, node_id(other), node_id(call.node), graph))

        return changed

    def give(self, sink: Sink) -> None:
        """Give the sink what was logged since the last time."""
        rows, self._rows = self._rows, []
        if rows:
            what, first, second, graph = (list(column) for column in zip(*rows, strict=True))
            sink.fact("graph_changes", what=what, first=first, second=second, graph=graph)
