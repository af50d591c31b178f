"""Launches of graphs: which operations one owns, how its nodes depend on each other, and on what.

Edges come from table `graph_edges`; the streams of nodes give no order. Where edges are not recorded, the
node that starts first stands for those without predecessors, and nothing is said of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.issuing import Issue
from overlane.analysis.keys import NULL, Ids, Lookup, dense, group_rows, known
from overlane.trace import Trace

__all__ = ["Launches", "graph_launches"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Launches:
    """Units of issue: single operations, and launches of graphs with all their nodes.

    Attributes:
        head: int64, shape (units,), operation that stands for the unit in its stream: itself, or the first
            node.
        tail: int64, shape (units,), operation that ends last.
        is_likely: bool, shape (units,), nodes ran on several streams, so that the launch's own one is
            inferred.
        roots: int64, operations without predecessors in their graph, unit by unit.
        begins: int64, shape (units + 1,), where the roots of each unit begin.
        before: int64, shape (units,), the earlier unit that launched the same executable graph, -1 for none.
        edge_op: int64, nodes that depend on another of their launch.
        edge_source: int64, the node that each depends on.
        edge_row: int64, row of `graph_edges`.
        has_edges: bool, shape (ops,), nodes of graphs whose edges are recorded.
    """

    head: Ids
    tail: Ids
    is_likely: Flags
    roots: Ids
    begins: Ids
    before: Ids
    edge_op: Ids
    edge_source: Ids
    edge_row: Ids
    has_edges: Flags


def graph_launches(trace: Trace, issue: Issue, stream: Ids) -> Launches:
    """Gather operations into units of issue.

    Args:
        trace: Trace.
        issue: How its operations were issued.
        stream: int64, shape (ops,), number of each operation's stream.
    """
    count = len(issue.start_ns)
    every = np.arange(count)
    none = np.zeros(0, np.int64)
    nodes = np.flatnonzero(issue.is_node)
    if not len(nodes):
        begins = np.arange(count + 1)
        no = np.zeros(count, np.bool_)
        return Launches(every, every, no, every, begins, np.full(count, -1), none, none, none, no)
    named = known(trace.table("ops")["graph_id"])[nodes]
    is_named = named != NULL
    rank, _ = dense(known(trace.table("ops")["rank"])[nodes])
    graph, found = dense(named)
    graph = dense(rank * len(found) + graph)[0]
    launch = _launch_numbers(trace, issue, nodes, graph)
    edge_op, edge_source, edge_row, has_edges = _node_edges(trace, nodes, launch, count)
    groups = int(launch.max()) + 1
    members, begins = group_rows(launch, groups)
    members = nodes[members]
    head = _heads(trace, nodes, launch)
    last = np.lexsort((issue.end_ns[nodes], launch))
    tail = nodes[last[np.append(np.flatnonzero(np.diff(launch[last])), len(last) - 1)]]
    lows, highs = np.full(groups, np.iinfo(np.int64).max), np.full(groups, -1)
    np.minimum.at(lows, launch, stream[nodes])
    np.maximum.at(highs, launch, stream[nodes])
    singles = np.flatnonzero(~issue.is_node)
    has_source = np.zeros(count, np.bool_)
    has_source[edge_op] = True
    is_root = np.where(has_edges[members], ~has_source[members], np.isin(members, members[begins[:-1]]))
    sizes = np.add.reduceat(is_root.astype(np.int64), begins[:-1])
    return Launches(
        np.concatenate([singles, head]),
        np.concatenate([singles, tail]),
        np.concatenate([np.zeros(len(singles), np.bool_), lows != highs]),
        np.concatenate([singles, members[is_root]]),
        np.concatenate([np.arange(len(singles)), len(singles) + np.concatenate([[0], np.cumsum(sizes)])]),
        np.concatenate(
            [np.full(len(singles), -1), _before(issue, head, graph, is_named, nodes, len(singles))]
        ),
        edge_op,
        edge_source,
        edge_row,
        has_edges,
    )


def _heads(trace: Trace, nodes: Ids, launch: Ids) -> Ids:
    """Return the node with the lowest id of every launch; operations are sorted by start."""
    node = known(trace.table("ops")["graph_node_id"])[nodes]
    order = np.lexsort((node, launch))
    heads: Ids = nodes[order[np.append(True, launch[order[1:]] != launch[order[:-1]])]]
    return heads


def _launch_numbers(trace: Trace, issue: Issue, nodes: Ids, graph: Ids) -> Ids:
    """Number the launches: nodes of one graph with one call or correlation id; others stand alone."""
    correlation = known(trace.table("ops")["correlation_id"])[nodes]
    by_call, _ = dense(issue.call[nodes])
    by_id, _ = dense(correlation)
    alone = (issue.call[nodes] < 0) & (correlation == NULL)
    keys = (by_call * (by_id.max() + 1) + by_id) * (graph.max() + 1) + graph
    keys = np.where(alone, keys.max() + 1 + np.arange(len(nodes)), keys)
    return dense(keys)[0]


def _before(  # noqa: PLR0917
    issue: Issue, head: Ids, graph: Ids, is_named: Flags, nodes: Ids, first_unit: int
) -> Ids:
    """Return the unit of the launch before each launch of the same executable graph, -1 where not known."""
    of_op = np.full(len(issue.start_ns), -1)
    of_op[nodes] = np.where(is_named, graph, -1)
    before = np.full(len(head), -1)
    order = np.lexsort((issue.start_ns[head], issue.order_ns[head], of_op[head]))
    same = (of_op[head[order[1:]]] == of_op[head[order[:-1]]]) & (of_op[head[order[1:]]] >= 0)
    before[order[1:][same]] = first_unit + order[:-1][same]
    return before


def _node_edges(trace: Trace, nodes: Ids, launch: Ids, count: int) -> tuple[Ids, Ids, Ids, Flags]:
    """Return the edges between operations: both ends, the row, and which nodes' graphs have edges."""
    edges, ops = trace.table("graph_edges"), trace.table("ops")
    has_edges = np.zeros(count, np.bool_)
    none = np.zeros(0, np.int64)
    if not edges.num_rows:
        return none, none, none, has_edges
    stacked = [
        dense(np.concatenate([known(edges[a]), known(edges[b]), known(ops[c])[nodes]]))[0]
        for a, b, c in (("rank", "rank", "rank"), ("graph_id", "graph_id", "graph_id"))
    ]
    rows = edges.num_rows
    graph = dense(stacked[0] * (stacked[1].max() + 1) + stacked[1])[0]
    node, _ = dense(
        np.concatenate(
            [known(edges["from_node_id"]), known(edges["to_node_id"]), known(ops["graph_node_id"])[nodes]]
        )
    )
    node = dense(graph * (node.max() + 1) + node)[0]
    has_edges[nodes[np.isin(graph[2 * rows :], graph[:rows])]] = True
    # Every operation of an edge's later node, then the operation of its earlier node in the same launch.
    order, begins = group_rows(node[2 * rows :], int(node.max()) + 1)
    target = node[rows : 2 * rows]
    sizes = begins[target + 1] - begins[target]
    row = np.repeat(np.arange(rows), sizes)
    place = order[
        np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(begins[target], sizes)
    ]
    span = int(node.max()) + 1
    lookup = Lookup(launch * span + node[2 * rows :])
    source = lookup.rows(launch[place] * span + node[:rows][row])
    fits = source >= 0
    return nodes[place[fits]], nodes[source[fits]], row[fits], has_edges
