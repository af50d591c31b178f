"""Small host programs, their tables, and happens-before by searching an explicit graph of everything in them.

Shares nothing with the analysis: every action is a node or two, every rule of CUDA draws edges between all
pairs that it names, and one thing is before another where a path leads there.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from hypothesis import strategies as st

from overlane.tables import table_from_columns
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.model import Header

# Streams: name, device, context, kind. Context 2 is a green context made from 1; device 1 has context 3.
STREAMS = (
    ("legacy", 0, 1, "legacy_default"),
    ("per-thread", 0, 1, "per_thread_default"),
    ("blocking", 0, 1, "blocking"),
    ("other blocking", 0, 1, "blocking"),
    ("free", 0, 1, "nonblocking"),
    ("green", 0, 2, "nonblocking"),
    ("far", 1, 3, "nonblocking"),
)
PARENTS = {2: 1}
THREADS = (11, 12, 13)
EVENTS = (1, 2, 3)
ORDERING = ("op", "programmatic", "copy_back", "copy_out", "record", "wait", "alloc", "free")
BYTES = 24  # of the memory that programs touch


@dataclass(frozen=True)
class Act:
    """One thing that a host thread does.

    Attributes:
        kind: `op`, `programmatic` (launch), `copy_back` (a copy that holds the host), `copy_out` (one to the
            host that does not), `record`, `wait`, `event_sync`, `stream_sync`, `context_sync`, `device_sync`,
            `stream_query`, `failed_query`, `host` (an access).
        thread: Place in `THREADS`.
        stream: Place in `STREAMS`.
        event: One of `EVENTS`.
        touches: (address, bytes, is_write) of an operation or the host.
    """

    kind: str
    thread: int = 0
    stream: int = 4
    event: int = 1
    touches: tuple[tuple[int, int, bool], ...] = ()


@dataclass
class Truth:
    """What the graph says.

    Attributes:
        reach: bool, shape (nodes, nodes).
        begin: Node at which each action's item starts, None for actions that are no items.
        end: Node at which it is over.
        records: Node of each action that is a record.
        done: Node at which each action of a thread has returned.
        ends: Node behind all that was put into each stream.
    """

    reach: np.ndarray
    begin: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    def before(self, a: int, b: int) -> bool:
        """Tell whether action `a` is over before action `b` starts."""
        return bool(self.reach[self.end[a], self.begin[b]])


KINDS = (
    "op", "op", "op", "programmatic", "copy_back", "record", "record", "wait", "wait", "event_sync",
    "stream_sync", "context_sync", "device_sync", "stream_query", "failed_query", "host",
)  # fmt: skip


_PAIRS = st.lists(st.integers(0, len(STREAMS) - 1), min_size=2, max_size=2, unique=True)


@st.composite
def programs(
    draw: st.DrawFn,
    most: int = 22,
    *,
    least: int = 0,
    kinds: tuple[str, ...] = KINDS,
    few: bool = False,
    touches: tuple[int, int] = (0, 2),
) -> list[Act]:
    """Draw a program.

    Args:
        draw: How to draw.
        most: Most actions.
        least: Fewest actions.
        kinds: Kinds of actions, each as often as it stands there.
        few: Use two streams and two events only, and mostly one thread.
        touches: Fewest and most places that an action touches.
    """
    touch = st.tuples(st.integers(0, BYTES - 1), st.integers(1, 8), st.booleans())
    threads = draw(st.sampled_from((1, 1, 1, 2)) if few else st.integers(1, len(THREADS))) - 1
    pair = draw(_PAIRS)
    act = st.builds(
        Act,
        kind=st.sampled_from(kinds),
        thread=st.integers(0, threads),
        stream=st.sampled_from(pair) if few else st.integers(0, len(STREAMS) - 1),
        event=st.sampled_from(EVENTS[:2] if few else EVENTS),
        touches=st.lists(touch, min_size=touches[0], max_size=touches[1]).map(tuple),
    )
    acts = draw(st.lists(act, min_size=least, max_size=most))
    # Each access by the host is one of its own; operations may touch several places.
    return [replace(act, touches=act.touches[:1]) if act.kind == "host" else act for act in acts]


def truth_of(  # noqa: C901, PLR0912 - the rules one after the other
    acts: list[Act],
    *,
    mute: Container[int] = (),
    gone: Container[int] = (),
    instead: Mapping[int, int | None] = MappingProxyType({}),
) -> Truth:
    """Draw every edge that CUDA promises, and close the graph.

    Args:
        acts: The program.
        mute: Waits that wait for nothing, but stand where they stood.
        gone: Actions that are not done at all.
        instead: Operation behind which an event is waited for in place of each of some synchronizations, None
            for no wait.
    """
    edges: list[tuple[int, int]] = []
    count = 0

    def node() -> int:
        nonlocal count
        count += 1
        return count - 1

    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    placed: list[tuple[int, int, int, str, list]] = []  # stream, in, out, kind, edges from elsewhere
    latest: dict[int, int] = {}
    tail: dict[int, int] = {}
    recorded: dict[int | None, int] = {}
    behind_some = set(instead.values())
    truth = Truth(np.zeros((0, 0)), begin, end)
    for i, act in enumerate(acts):
        if i in gone:
            continue
        host, done = node(), node()
        truth.done[i] = done
        edges.append((host, done))
        if act.thread in tail:
            edges.append((tail[act.thread], host))
        tail[act.thread] = done
        if act.kind == "host":
            begin[i] = end[i] = host
        elif act.kind in ORDERING:
            into = node()
            out = node() if act.kind in _LAUNCHES else into
            if out != into:
                edges.append((into, out))
                begin[i], end[i] = into, out
            if act.kind == "record":
                truth.records[i] = into
            foreign = [(host, into)]
            foreign += [(entry[2], into) for entry in placed if _excludes(entry[0], act.stream)]
            if act.kind == "wait" and act.event in latest and i not in mute:
                foreign.append((latest[act.event], into))
            edges += foreign
            own = [entry for entry in placed if entry[0] == act.stream]
            behind = max((k for k, entry in enumerate(own) if entry[3] in _LAUNCHES), default=-1)
            may_overlap = act.kind == "programmatic" and behind >= 0 and own[behind][3] not in _COPIES
            for entry in own[behind:] if may_overlap else ():
                # After the start of its predecessor only; marks in between are looked through.
                launched = entry is own[behind]
                edges += [(entry[1], into)] if launched else [(source, into) for source, _ in entry[4]]
            edges += [] if may_overlap else [(entry[2], into) for entry in own]
            placed.append((act.stream, into, out, act.kind, foreign))
            if i in behind_some:
                recorded[i] = node()
                edges += [(entry[2], recorded[i]) for entry in placed if entry[0] == act.stream]
            if act.kind == "record":
                latest[act.event] = into
            if act.kind == "copy_back":
                edges.append((out, done))
        elif i in mute:
            continue
        elif i in instead:
            mark = recorded.get(instead[i])
            edges += [] if mark is None else [(mark, done)]
        elif act.kind == "event_sync":
            if act.event in latest:
                edges.append((latest[act.event], done))
        elif act.kind != "failed_query":
            edges += [(entry[2], done) for entry in placed if _covers(act, entry[0])]
    for stream in range(len(STREAMS)):
        truth.ends[stream] = node()
        edges += [(entry[2], truth.ends[stream]) for entry in placed if entry[0] == stream]
    reach = np.zeros((count, count), bool)
    for a, b in edges:
        reach[a, b] = True
    for k in range(count):
        reach |= np.outer(reach[:, k], reach[k])
    np.fill_diagonal(reach, False)
    truth.reach = reach
    return truth


_COPIES = {"copy_back": "pageable", "copy_out": "pinned"}
_LAUNCHES = {"op", "programmatic", "copy_back", "copy_out"}


def _excludes(a: int, b: int) -> bool:
    """The legacy default stream and blocking streams of its context exclude each other."""
    first, second = STREAMS[a], STREAMS[b]
    if a == b or first[2] != second[2] or "nonblocking" in {first[3], second[3]}:
        return False
    return "legacy_default" in {first[3], second[3]}


def _covers(act: Act, stream: int) -> bool:
    mine, other = STREAMS[act.stream], STREAMS[stream]
    if act.kind in {"stream_sync", "stream_query"}:
        return act.stream == stream
    if act.kind == "device_sync":
        return mine[1] == other[1]
    return mine[2] in {other[2], PARENTS.get(other[2])}


def trace_of(acts: list[Act], order: list[int] | None = None) -> tuple[Trace, dict[int, int], dict[int, int]]:
    """Write a program down as a trace.

    Args:
        acts: The program; action i is called at 10 i.
        order: Places of the operations by their device stamps, which say nothing about the order.

    Returns:
        The trace; operation id of each action; row of the first access of each action of kind `host`.
    """
    ops = [i for i, act in enumerate(acts) if act.kind in _LAUNCHES]
    turn = [ops[k] for k in order] if order is not None else ops
    op_of = {i: place for place, i in enumerate(turn)}
    calls: dict[str, list] = {
        key: [] for key in ("thread_id", "api", "name", "start_ns", "end_ns", "correlation_id")
    }
    for i, act in enumerate(acts):
        row = (THREADS[act.thread], "runtime", _CALLS[act.kind], 10 * i, 10 * i + 5, i + 1)
        for column, value in zip(calls.values(), row, strict=True):
            column.append(value)
    host = [(i, t) for i, act in enumerate(acts) if act.kind == "host" for t in act.touches]
    declared = [(i, t) for i in turn for t in acts[i].touches]
    tables = {
        "api_calls": calls,
        "ops": _ops(acts, turn),
        "streams": {
            "device_id": [s[1] for s in STREAMS], "context_id": [s[2] for s in STREAMS],
            "stream_id": [20 + k for k in range(len(STREAMS))], "stream_kind": [s[3] for s in STREAMS],
        },
        "partitions": {"device_id": [0], "context_id": [2], "parent_context_id": [1]},
        "event_records": _records(acts),
        "syncs": _syncs(acts),
        "accesses": {
            "op_id": [op_of[i] for i, _ in declared] + [None] * len(host),
            "thread_id": [None] * len(declared) + [THREADS[acts[i].thread] for i, _ in host],
            "at_ns": [None] * len(declared) + [10 * i for i, _ in host],
            "address": [t[0] for _, t in declared + host], "bytes": [t[1] for _, t in declared + host],
            "mode": ["write" if t[2] else "read" for _, t in declared + host],
            "certainty": ["declared"] * len(declared + host),
        },
    }  # fmt: skip
    made = {name: table_from_columns(name, columns) for name, columns in tables.items()}
    trace = validate("made", Header("made"), made)
    at = trace.table("accesses")["at_ns"].to_pylist()
    row_of = {ns // 10: row for row, ns in reversed([*enumerate(at)]) if ns is not None}
    return trace, op_of, row_of


_CALLS = {
    "op": "cudaLaunchKernel", "programmatic": "cudaLaunchKernelExC", "copy_back": "cudaMemcpy",
    "copy_out": "cudaMemcpyAsync", "record": "cudaEventRecord", "wait": "cudaStreamWaitEvent",
    "event_sync": "cudaEventSynchronize",
    "stream_sync": "cudaStreamSynchronize", "context_sync": "cuCtxSynchronize",
    "device_sync": "cudaDeviceSynchronize", "stream_query": "cudaStreamQuery",
    "failed_query": "cudaStreamQuery", "host": "cudaGetLastError",
}  # fmt: skip


def _ops(acts: list[Act], turn: list[int]) -> dict[str, list]:
    copies = [_COPIES.get(acts[i].kind) for i in turn]
    return {
        "device_id": [STREAMS[acts[i].stream][1] for i in turn],
        "context_id": [STREAMS[acts[i].stream][2] for i in turn],
        "stream_id": [20 + acts[i].stream for i in turn],
        "kind": ["memcpy" if copy else "kernel" for copy in copies],
        "engine": ["copy_d2h" if copy else "compute" for copy in copies],
        "name": ["op"] * len(turn),
        "src_memory": ["device" if copy else None for copy in copies],
        "dst_memory": copies,
        "start_ns": [1000 + 10 * place for place in range(len(turn))],
        "end_ns": [1005 + 10 * place for place in range(len(turn))],
        "correlation_id": [i + 1 for i in turn],
        "launch_type": [
            None if copy else "programmatic" if acts[i].kind == "programmatic" else "regular"
            for i, copy in zip(turn, copies, strict=True)
        ],
    }


def _records(acts: list[Act]) -> dict[str, list]:
    rows = [i for i, act in enumerate(acts) if act.kind == "record"]
    return {
        "cuda_event_id": [acts[i].event for i in rows],
        "cuda_event_sync_id": [100 + i for i in rows],
        "device_id": [STREAMS[acts[i].stream][1] for i in rows],
        "context_id": [STREAMS[acts[i].stream][2] for i in rows],
        "stream_id": [20 + acts[i].stream for i in rows],
        "thread_id": [THREADS[acts[i].thread] for i in rows],
        "correlation_id": [i + 1 for i in rows],
        "at_ns": [10 * i for i in rows],
    }


_SYNCS = {
    "wait": "stream_wait_event", "event_sync": "event", "stream_sync": "stream", "context_sync": "context",
    "device_sync": "device", "stream_query": "stream_query", "failed_query": "stream_query",
}  # fmt: skip


def _syncs(acts: list[Act]) -> dict[str, list]:
    rows, latest, sync_ids = [], {}, []
    for i, act in enumerate(acts):
        if act.kind == "record":
            latest[act.event] = 100 + i
        if act.kind in _SYNCS:
            rows.append(i)
            sync_ids.append(latest.get(act.event) if act.kind in {"wait", "event_sync"} else None)
    of_stream = {"wait", "stream_sync", "stream_query", "failed_query"}
    of_event = {"wait", "event_sync"}
    return {
        "sync_kind": [_SYNCS[acts[i].kind] for i in rows],
        "thread_id": [THREADS[acts[i].thread] for i in rows],
        "device_id": [STREAMS[acts[i].stream][1] for i in rows],
        "context_id": [STREAMS[acts[i].stream][2] for i in rows],
        "stream_id": [20 + acts[i].stream if acts[i].kind in of_stream else None for i in rows],
        "cuda_event_id": [acts[i].event if acts[i].kind in of_event else None for i in rows],
        "cuda_event_sync_id": sync_ids,
        "start_ns": [10 * i for i in rows],
        "end_ns": [10 * i + 5 for i in rows],
        "correlation_id": [i + 1 for i in rows],
        "result": [600 if acts[i].kind == "failed_query" else 0 for i in rows],
    }
