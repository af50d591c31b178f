"""What every operation had to wait for by the rules of CUDA, and the row that proves each edge.

`docs/causes.md` defines the kinds. What the rows do not prove is no edge; what is inferred from host order or
from ids that CUDA reuses is `likely`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from overlane.analysis import replay as replayed
from overlane.analysis.actions import (
    Holds,
    Records,
    Waits,
    find_holds,
    find_records,
    find_waits,
    unrecorded_sources,
)
from overlane.analysis.calls import Calls, host_calls
from overlane.analysis.graphs import Launches, graph_launches
from overlane.analysis.inferred import Candidates, hold_candidates, loading_edges, proven_holds
from overlane.analysis.issuing import Issue, issue_operations
from overlane.analysis.keys import NULL, Bytes, Codes, Ids, group_rows, known, words
from overlane.analysis.streams import StreamRow, Streams, number_streams
from overlane.analysis.synchronizing import Synchronizations, synchronizations
from overlane.trace import Trace

__all__ = [
    "CERTAINTIES",
    "DEPENDENCY_KINDS",
    "PROOF_TABLES",
    "Dependencies",
    "Edge",
    "dependencies",
]

DEPENDENCY_KINDS = (
    "stream",
    "programmatic",
    "event",
    "legacy",
    "host",
    "graph",
    "allocation",
    "host_function",
    "value_wait",
    "module",
)
"""Kinds of edges; a kind's place is its code."""

CERTAINTIES = ("certain", "likely")
"""How an edge is known; the place is the code."""

PROOF_TABLES = (
    "",
    "ops",
    "api_calls",
    "syncs",
    "event_records",
    "overheads",
    "ranges",
    "allocations",
    "graph_edges",
)
"""Tables whose rows prove something; the place is the code, the first stands for no proof."""

_KIND = {name: code for code, name in enumerate(DEPENDENCY_KINDS)}
_TABLE = {name: code for code, name in enumerate(PROOF_TABLES)}
if (_KIND["stream"], _KIND["legacy"], _KIND["graph"], _TABLE["ops"]) != (
    replayed.STREAM,
    replayed.LEGACY,
    replayed.GRAPH,
    replayed.OPS,
):
    raise AssertionError("the codes of the replay are not those of the lists")


@dataclass(frozen=True)
class Edge:
    """One dependency.

    Attributes:
        op: Operation that waits.
        source: Operation that it waits for, None where the source is a call.
        kind: A word of `DEPENDENCY_KINDS`.
        certainty: A word of `CERTAINTIES`.
        proof_table: Table of the row that proves it.
        proof_row: That row.
        end_ns: When the source ended, None where not known.
    """

    op: int
    source: int | None
    kind: str
    certainty: str
    proof_table: str
    proof_row: int
    end_ns: int | None


@dataclass(frozen=True)
class Dependencies:
    """The dependencies of a trace; edges in order of `op`, the rest per operation.

    Attributes:
        op: int32, shape (edges,), the operation that waits.
        source: int32, the operation that it waits for, -1 where the source is a call.
        kind: uint8, place in `DEPENDENCY_KINDS`.
        certainty: uint8, place in `CERTAINTIES`.
        proof_table: uint8, place in `PROOF_TABLES`.
        proof_row: int64, row there, -1 for none.
        end_ns: int64, when the source ended, -1 where not known.
        issued_ns: int64, shape (ops,), when each operation was issued, -1 where unknown.
        eligible_ns: int64, latest end of what it depends on, or its issue where that is later; -1 where the
            issue or one of these ends is unknown.
        issue_call: int64, row of the call that issued it, -1 where unknown.
        stream_key: int32, number of its stream in `streams`.
        streams: The streams; those of operations come first.
        issue: How operations were issued.
        calls: The host calls.
        records: Event records and stream-ordered frees.
        waits: What streams were told to wait for.
        holds: Host functions and value waits whose stream is known.
        candidates: Calls of host functions and value waits that may stand before operations.
        numbering: The numbers of streams.
        host_waits: Calls in which the host waited for the device.
    """

    op: Codes
    source: Codes
    kind: Bytes
    certainty: Bytes
    proof_table: Bytes
    proof_row: Ids
    end_ns: Ids
    issued_ns: Ids
    eligible_ns: Ids
    issue_call: Ids
    stream_key: Codes
    streams: tuple[StreamRow, ...]
    issue: Issue
    calls: Calls
    records: Records
    waits: Waits
    holds: Holds
    candidates: Candidates
    numbering: Streams
    host_waits: Synchronizations

    @cached_property
    def _begins(self) -> Ids:
        return np.searchsorted(self.op, np.arange(len(self.issued_ns) + 1)).astype(np.int64)

    @cached_property
    def _by_source(self) -> tuple[Ids, Ids]:
        return group_rows(self.source.astype(np.int64), len(self.issued_ns))

    @property
    def begins(self) -> Ids:
        """Where the edges of each operation begin, int64, shape (ops + 1,)."""
        return self._begins

    def _edge(self, place: int) -> Edge:
        source, end = int(self.source[place]), int(self.end_ns[place])
        return Edge(
            int(self.op[place]),
            None if source < 0 else source,
            DEPENDENCY_KINDS[self.kind[place]],
            CERTAINTIES[self.certainty[place]],
            PROOF_TABLES[self.proof_table[place]],
            int(self.proof_row[place]),
            None if end < 0 else end,
        )

    def of(self, op_id: int) -> list[Edge]:
        """Return what an operation depends on."""
        return [self._edge(place) for place in range(self._begins[op_id], self._begins[op_id + 1])]

    def successors(self, op_id: int) -> list[Edge]:
        """Return the edges of the operations that depend on one."""
        order, begins = self._by_source
        return [self._edge(int(place)) for place in order[begins[op_id] : begins[op_id + 1]]]


def dependencies(trace: Trace) -> Dependencies:
    """Find what every operation had to wait for.

    Args:
        trace: Any trace; columns that are null give fewer edges, never others.

    Example:
        >>> import overlane
        >>> from overlane.analysis.dependencies import dependencies
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> dependencies(trace).of(3)  # doctest: +SKIP
    """
    calls = host_calls(trace)
    streams = number_streams(trace)
    issue = issue_operations(trace, calls)
    launches = graph_launches(trace, issue, streams.of_op)
    records = find_records(trace, calls, streams)
    waits = find_waits(trace, calls, streams, records)
    holds = _released(find_holds(trace, calls, streams), records, issue, streams)
    holds = holds.joined(unrecorded_sources(trace, records, waits))
    host_waits = synchronizations(trace, calls, streams)
    edges = _replayed(trace, streams, issue, launches, (records, waits, holds))
    edges = np.concatenate(
        [
            edges,
            *_graph_edges(launches),
            # An edge for the first operation that a thread issued after a call that waited had returned.
            host_waits.edges(issue, calls),
            loading_edges(trace, calls, issue, streams),
        ]
    )
    end = _ends(edges[:, 1], issue, holds)
    candidates = hold_candidates(calls, issue, holds, _before(edges, len(issue.start_ns)))
    ordered = np.full(len(issue.start_ns), -1)
    np.maximum.at(ordered, edges[:, 0], end)
    proven, let_go = proven_holds(candidates, calls, records, issue, (streams.of_op, ordered))
    candidates.call[proven[:, 0]] = -1
    edges, end = _in_order_of_op(np.concatenate([edges, proven]), np.concatenate([end, let_go]))
    issued = _issued(issue, launches)
    kind, certainty = _programmatic(trace, edges, issue)
    return Dependencies(
        edges[:, 0].astype(np.int32),
        np.maximum(edges[:, 1], -1).astype(np.int32),
        kind,
        certainty,
        edges[:, 4].astype(np.uint8),
        np.ascontiguousarray(edges[:, 5]),
        end,
        issued,
        _eligible(issued, edges[:, 0], kind, end),
        issue.call,
        streams.of_op.astype(np.int32),
        streams.rows,
        issue,
        calls,
        records,
        waits,
        holds,
        candidates,
        streams,
        host_waits,
    )


def _in_order_of_op(edges: Ids, end: Ids) -> tuple[Ids, Ids]:
    order = np.argsort(edges[:, 0], kind="stable")
    return edges[order], end[order]


def _ends(source: Ids, issue: Issue, holds: Holds) -> Ids:
    """Return when each source ended, -1 where not known; those below -1 are holds."""
    end = np.where(source >= 0, issue.end_ns[np.maximum(source, 0)] if len(issue.end_ns) else 0, -1)
    if len(holds.end_ns):
        end = np.where(source < -1, holds.end_ns[np.maximum(-2 - source, 0)], end)
    return end


def _before(edges: Ids, count: int) -> Ids:
    """Return the previous operation of every operation's stream, -1 for none."""
    before = np.full(count, -1)
    rows = edges[edges[:, 2] == _KIND["stream"]]
    before[rows[:, 0]] = rows[:, 1]
    return before


def _replayed(
    trace: Trace, streams: Streams, issue: Issue, launches: Launches, others: tuple[Records, Waits, Holds]
) -> Ids:
    """Bring everything into host order and replay it."""
    records, waits, holds = others
    is_ordered = np.array([row.stream_id is not None for row in streams.rows] or [False], np.bool_)
    of_unit = streams.of_op[launches.head]
    of_unit = np.where(is_ordered[of_unit], of_unit, -1) if len(of_unit) else of_unit
    correlation = _correlations(trace, launches)
    certainty = issue.is_ordered_by_start[launches.head] | launches.is_likely
    sizes = [len(of_unit), len(records.at_ns), len(waits.at_ns), len(holds.at_ns)]
    times = np.concatenate([issue.order_ns[launches.head], *(other.at_ns for other in others)])
    ids = np.concatenate([correlation, *(other.correlation for other in others)])
    stream = np.concatenate([of_unit, *(other.stream for other in others)])
    kinds = np.repeat(np.arange(4), sizes)
    rows = np.concatenate([np.arange(size) for size in sizes])
    unsure = np.zeros(len(kinds), np.int64)
    unsure[: sizes[0]] = certainty
    # Units come in the order of their starts, so a stable sort settles ties of one call by start.
    starts = np.argsort(issue.start_ns[launches.head], kind="stable")
    order = np.concatenate([starts, np.arange(sizes[0], len(kinds))])
    order = order[np.lexsort((ids[order], times[order]))]
    return replayed.replay(
        (kinds[order], stream[order], rows[order], unsure[order]),
        (launches.roots, launches.begins, launches.tail, launches.before, streams.of_op),
        (records.table, records.row),
        (waits.record, waits.is_likely, waits.kind, waits.table, waits.row),
        (holds.kind, holds.table, holds.row),
        _legacy_groups(streams),
    )


def _correlations(trace: Trace, launches: Launches) -> Ids:
    return known(trace.table("ops")["correlation_id"])[launches.head]


def _legacy_groups(streams: Streams) -> tuple[Ids, Ids, Ids, Ids]:
    """Return per stream its group and whether it is the legacy default one; the others of each group."""
    groups: dict[tuple[int | None, ...], int] = {}
    rows = streams.rows
    for row in rows:
        if row.stream_kind == "legacy_default":
            groups.setdefault((row.rank, row.device_id, row.context_id), len(groups))
    of = np.full(max(len(rows), 1), -1)
    is_legacy = np.zeros(max(len(rows), 1), np.int64)
    for number, row in enumerate(rows):
        if row.stream_kind in {"legacy_default", "blocking", "per_thread_default"}:
            of[number] = groups.get((row.rank, row.device_id, row.context_id), -1)
            is_legacy[number] = row.stream_kind == "legacy_default"
    members, begins = group_rows(np.where(is_legacy == 1, -1, of), len(groups))
    return of, is_legacy, members, begins


def _graph_edges(launches: Launches) -> Iterator[Ids]:
    if len(launches.edge_op):
        count = len(launches.edge_op)
        yield np.stack(
            [
                launches.edge_op,
                launches.edge_source,
                np.full(count, _KIND["graph"]),
                np.zeros(count, np.int64),
                np.full(count, _TABLE["graph_edges"]),
                launches.edge_row,
            ],
            axis=1,
        )


def _released(holds: Holds, records: Records, issue: Issue, streams: Streams) -> Holds:
    """Fill in when holds let go: no later than the completion of a record that stands right behind."""
    open_ = np.flatnonzero((holds.end_ns < 0) & (holds.stream >= 0))
    if not len(open_):
        return holds
    end = holds.end_ns.copy()
    for place in open_:
        behind = (records.stream == holds.stream[place]) & (records.at_ns >= holds.at_ns[place])
        behind &= records.device_ns != NULL
        if behind.any():
            first = np.flatnonzero(behind)[np.argmin(records.at_ns[behind])]
            ops = issue.order_ns[streams.of_op == holds.stream[place]]
            if not ((ops >= holds.at_ns[place]) & (ops < records.at_ns[first])).any():
                end[place] = records.device_ns[first]
    return replace(holds, end_ns=end)


def _issued(issue: Issue, launches: Launches) -> Ids:
    """Return the issue of every operation: for nodes the end of their last predecessor."""
    issued = issue.issued_ns.copy()
    if len(launches.edge_op):
        last = np.full(len(issued), -1)
        np.maximum.at(last, launches.edge_op, issue.end_ns[launches.edge_source])
        issued = np.where(last >= 0, last, issued)
    inner = issue.is_node & ~launches.has_edges
    inner[launches.head] = False
    return np.where(inner, -1, issued)


def _programmatic(trace: Trace, edges: Ids, issue: Issue) -> tuple[Bytes, Bytes]:
    """Return kinds and certainties with the stream order of programmatic launches set apart.

    Where launch types do not tell, a kernel whose extended launch call allows it and that started before its
    predecessor had ended was launched so.
    """
    kind, certainty = edges[:, 2].astype(np.uint8), edges[:, 3].astype(np.uint8)
    codes, types = words(trace.table("ops")["launch_type"])
    is_stream = kind == _KIND["stream"]
    if "programmatic" in types:
        kind[is_stream & (codes[edges[:, 0]] == types.index("programmatic"))] = _KIND["programmatic"]
    early = np.flatnonzero(kind == _KIND["stream"])
    source, op = edges[early, 1], edges[early, 0]
    early = early[(issue.start_ns[op] < issue.end_ns[source]) & (issue.call[op] >= 0)]
    names, calls = words(trace.table("api_calls")["name"])
    may = np.array(["LaunchKernelEx" in name for name in calls] or [False], np.bool_)
    if len(early):
        early = early[may[names[issue.call[edges[early, 0]]]]]
        kind[early], certainty[early] = _KIND["programmatic"], CERTAINTIES.index("likely")
    return kind, certainty


def _eligible(issued: Ids, op: Ids, kind: Bytes, end: Ids) -> Ids:
    """Return the latest end of what orders each operation, or its issue where that is later."""
    eligible = issued.copy()
    orders = kind != _KIND["host"]
    np.maximum.at(eligible, op[orders], end[orders])
    unknown = issued < 0
    unknown[op[orders & (end < 0)]] = True
    return np.where(unknown, -1, eligible)
