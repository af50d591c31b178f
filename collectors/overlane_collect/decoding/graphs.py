"""Edges of executable graphs, from what callbacks logged while graphs were made."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overlane_collect.activities import Kind
from overlane_collect.decoding.columns import Column, Draft
from overlane_collect.decoding.frames import Gathered

__all__ = ["edges"]


def edges(gathered: Gathered, ops: Draft) -> Draft:
    """Return the draft of `graph_edges`: the edges of every executable graph of which something ran.

    What ran names its executable graph and a node of it, which is a clone of a node that the program made.
    The edges of a cloned graph are those of the original at that moment. Callbacks say nothing of an edge's
    kind.

    Args:
        gathered: The journal, with facts `graph_changes` (columns what, first, second, graph).
        ops: Draft of `ops`.
    """
    found = _cloned_edges(gathered)
    if not found:
        return {}
    graph_of = _graphs_of_nodes(gathered, ops)
    rows = set()
    for pairs in found.values():
        nodes = {node for pair in pairs for node in pair}
        for graph in {graph for node in nodes for graph in graph_of.get(node, ())}:
            rows |= {(graph, first, second) for first, second in pairs}
    if not rows:
        return {}
    columns = np.asarray(sorted(rows), np.int64).T
    return {
        name: Column(values)
        for name, values in zip(("graph_id", "from_node_id", "to_node_id"), columns, strict=True)
    }


def _cloned_edges(gathered: Gathered) -> dict[int, set[tuple[int, int]]]:
    """Return the edges of each graph that was cloned, by CUPTI's number of the clone."""
    standing: dict[int, dict[int, None]] = {}  # node to the nodes that depend on it, in order
    clones: dict[int, dict[int, int]] = {}
    cloned: dict[int, set[tuple[int, int]]] = {}
    for fact in gathered.facts.get("graph_changes", []):
        columns = (fact[name] for name in ("what", "first", "second", "graph"))
        for what, first, second, graph in zip(*columns, strict=True):
            if what == "edge":
                standing.setdefault(first, {})[second] = None
            elif what == "gone":
                standing.get(first, {}).pop(second, None)
            else:
                _clone(clones.setdefault(graph, {}), first, second, standing, cloned.setdefault(graph, set()))
    return {graph: pairs for graph, pairs in cloned.items() if pairs}


def _clone(
    copies: dict[int, int],
    original: int,
    clone: int,
    standing: Mapping[int, Mapping[int, None]],
    pairs: set[tuple[int, int]],
) -> None:
    """Note a node's clone, and the edges between it and the clones that are there already."""
    copies[original] = clone
    for first, second in ((original, other) for other in standing.get(original, {})):
        if second in copies:
            pairs.add((copies[first], copies[second]))
    for other, copy in copies.items():
        if original in standing.get(other, {}):
            pairs.add((copy, clone))


def _graphs_of_nodes(gathered: Gathered, ops: Draft) -> dict[int, set[int]]:
    """Return the executable graphs that nodes ran in."""
    graphs: dict[int, set[int]] = {}
    if "graph_node_id" in ops:
        both = ops["graph_node_id"].known() & ops["graph_id"].known()
        pairs = np.stack([ops["graph_node_id"].values[both], ops["graph_id"].values[both]], axis=1)
        for node, graph in np.unique(pairs, axis=0).tolist():
            graphs.setdefault(node, set()).add(graph)
    for record in gathered.records(Kind.GRAPH_HOST_NODE):
        graphs.setdefault(int(record["graph_node_id"]), set()).add(int(record["graph_id"]))
    return graphs
