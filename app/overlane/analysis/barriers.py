"""What held several streams or threads back: which barriers there were, whom they held, what it cost.

Barriers are rows of the trace that parts of waits and gaps name as their proof; `docs/causes.md` defines
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from overlane.analysis.causes import code_of
from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.idle import SCOPES, Idle
from overlane.analysis.keys import Bytes, Codes, Ids, dense
from overlane.analysis.waits import Waits
from overlane.trace import Trace

__all__ = ["BARRIER_KINDS", "Barrier", "Barriers", "barriers"]

BARRIER_KINDS = (
    "legacy_default_stream",
    "event_wait",
    "event_sync",
    "stream_sync",
    "context_sync",
    "device_sync",
    "implicit_sync",
    "allocation",
    "module_load",
    "blocking_copy",
)
"""Kinds of barriers; the place is the code."""

_PLAIN = (
    "legacy_default_stream",
    "event_wait",
    "implicit_sync",
    "allocation",
    "module_load",
    "blocking_copy",
)


@dataclass(frozen=True)
class Barrier:
    """One barrier.

    Attributes:
        kind: A word of `BARRIER_KINDS`.
        proof_table: Table of the row that is the barrier.
        proof_row: That row.
        start_ns: First held instant, for a synchronization that held nothing the start of its call.
        end_ns: Last held instant.
        lost_ns: Time lost by the streams that it held, added up over them.
        streams_held: Numbers of these streams.
        ops_held: Operations that it held.
        critical_ns: Its part of the critical path, None where that was not computed.
    """

    kind: str
    proof_table: str
    proof_row: int
    start_ns: int
    end_ns: int
    lost_ns: int
    streams_held: tuple[int, ...]
    ops_held: tuple[int, ...]
    critical_ns: int | None


@dataclass(frozen=True)
class Barriers:
    """Barriers, the costliest first.

    Attributes:
        kind: uint8, shape (barriers,), place in `BARRIER_KINDS`.
        proof_table: uint8, place in `overlane.analysis.dependencies.PROOF_TABLES`.
        proof_row: int64, row there.
        start_ns: int64, first held instant.
        end_ns: int64, last held instant.
        lost_ns: int64, held time of each held stream, added up.
        streams_held: int32, numbers of the held streams, barrier by barrier.
        stream_begins: int64, shape (barriers + 1,), where those of each barrier begin.
        ops_held: int32, held operations, barrier by barrier.
        op_begins: int64, shape (barriers + 1,), where those of each barrier begin.
        critical_ns: int64, part of the critical path, -1 where that was not computed.
    """

    kind: Bytes
    proof_table: Bytes
    proof_row: Ids
    start_ns: Ids
    end_ns: Ids
    lost_ns: Ids
    streams_held: Codes
    stream_begins: Ids
    ops_held: Codes
    op_begins: Ids
    critical_ns: Ids

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.kind)

    def __getitem__(self, place: int) -> Barrier:
        """Return one by its rank, 0 is the costliest."""
        streams = self.streams_held[self.stream_begins[place] : self.stream_begins[place + 1]]
        ops = self.ops_held[self.op_begins[place] : self.op_begins[place + 1]]
        critical = int(self.critical_ns[place])
        return Barrier(
            BARRIER_KINDS[self.kind[place]],
            PROOF_TABLES[self.proof_table[place]],
            int(self.proof_row[place]),
            int(self.start_ns[place]),
            int(self.end_ns[place]),
            int(self.lost_ns[place]),
            tuple(streams.tolist()),
            tuple(ops.tolist()),
            None if critical < 0 else critical,
        )

    def with_critical(self, critical_ns: Ids) -> Barriers:
        """Return the same with each barrier's part of the critical path."""
        return replace(self, critical_ns=critical_ns)


@dataclass(frozen=True)
class _Held:
    """Parts that a barrier held: its kind and row, the stream and operation, from when to when."""

    kind: Ids
    table: Ids
    row: Ids
    stream: Ids
    op: Ids
    start: Ids
    end: Ids


def barriers(trace: Trace, deps: Dependencies, waits: Waits, idle: Idle) -> Barriers:
    """Gather what held several streams or threads back.

    Args:
        trace: Any trace.
        deps: Its dependencies.
        waits: The parts of its waits.
        idle: Its gaps.

    Example:
        >>> import overlane
        >>> from overlane.analysis.study import Study  # doctest: +SKIP
        >>> Study(overlane.open_trace("run.overlane")).barriers[0].lost_ns  # doctest: +SKIP
    """
    of_sync = _kinds_of_rows(trace, deps)
    held = _held(deps, waits, idle, of_sync)
    # Synchronizations that held nothing are barriers too, with the span of their call.
    plain = of_sync[2]
    key = np.concatenate([_keys(held.kind, held.table, held.row), _keys(plain.kind, plain.table, plain.row)])
    number, found = dense(key)
    of = number[: len(held.kind)]
    count = len(found)
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(start, of, held.start)
    np.maximum.at(end, of, held.end)
    own = number[len(held.kind) :]
    is_idle = end[own] < 0
    start[own[is_idle]], end[own[is_idle]] = plain.start[is_idle], plain.end[is_idle]
    lost = _lost(of, held, count)
    rank = np.lexsort((found, start, -lost))
    place = np.empty(count, np.int64)
    place[rank] = np.arange(count)
    streams, stream_begins = _members(place[of], held.stream, count)
    ops, op_begins = _members(place[of], held.op, count)
    first = np.zeros(count, np.int64)
    first[number[::-1]] = np.arange(len(key) - 1, -1, -1)
    first = first[rank]
    columns = [
        np.concatenate([a, b])[first]
        for a, b in ((held.kind, plain.kind), (held.table, plain.table), (held.row, plain.row))
    ]
    return Barriers(
        columns[0].astype(np.uint8),
        columns[1].astype(np.uint8),
        columns[2],
        start[rank],
        end[rank],
        lost[rank],
        streams.astype(np.int32),
        stream_begins,
        ops.astype(np.int32),
        op_begins,
        np.full(count, -1),
    )


def _keys(kind: Ids, table: Ids, row: Ids) -> Ids:
    return (row * len(PROOF_TABLES) + table) * len(BARRIER_KINDS) + kind


def _kinds_of_rows(trace: Trace, deps: Dependencies) -> tuple[Ids, Ids, _Held]:
    """Return the kind of each row of `syncs` and `api_calls` that is a host wait, and all of these waits."""
    waits = deps.host_waits
    kinds = waits.kind + BARRIER_KINDS.index("event_sync")
    of_syncs = np.full(trace.table("syncs").num_rows, -1)
    of_calls = np.full(len(deps.calls.kind), -1)
    is_row = waits.table == PROOF_TABLES.index("syncs")
    of_syncs[waits.row[is_row]] = kinds[is_row]
    of_calls[waits.row[~is_row]] = kinds[~is_row]
    nothing = np.full(len(kinds), -1)
    return (
        of_syncs,
        of_calls,
        _Held(kinds, waits.table, waits.row, nothing, nothing, waits.start_ns, waits.end_ns),
    )


def _held(deps: Dependencies, waits: Waits, idle: Idle, of_sync: tuple[Ids, Ids, _Held]) -> _Held:
    """Return the parts of waits, and of gaps of streams, that name a barrier."""
    kinds = np.full(64, -1)
    for name in _PLAIN:
        kinds[code_of(name)] = BARRIER_KINDS.index(name)
    is_barrier = kinds >= 0
    is_barrier[code_of("host_sync")] = True
    mine = np.flatnonzero(is_barrier[waits.cause] & (waits.proof_row >= 0))
    others = np.flatnonzero(is_barrier[idle.cause] & (idle.proof_row >= 0))
    gap = idle.gap[others]
    in_stream = (idle.scope[gap] == SCOPES.index("stream")) & (idle.next_op[gap] >= 0)
    others, gap = others[in_stream], gap[in_stream]
    op = np.concatenate([waits.op[mine], idle.next_op[gap]]).astype(np.int64)
    kind = kinds[np.concatenate([waits.cause[mine], idle.cause[others]])]
    table = np.concatenate([waits.proof_table[mine], idle.proof_table[others]]).astype(np.int64)
    row = np.concatenate([waits.proof_row[mine], idle.proof_row[others]])
    start = np.concatenate([waits.start_ns[mine], idle.part_start_ns[others]])
    end = np.concatenate([waits.end_ns[mine], idle.part_end_ns[others]])
    is_sync = kind < 0
    for code, of in (
        (PROOF_TABLES.index("syncs"), of_sync[0]),
        (PROOF_TABLES.index("api_calls"), of_sync[1]),
    ):
        here = is_sync & (table == code)
        kind[here] = of[row[here]]
    # Work on the legacy default stream is the barrier, also where it is what had to wait.
    names = np.array([s.stream_kind == "legacy_default" for s in deps.streams] or [False])
    itself = (kind == BARRIER_KINDS.index("legacy_default_stream")) & names[deps.stream_key[op]]
    table, row = np.where(itself, PROOF_TABLES.index("ops"), table), np.where(itself, op, row)
    fits = kind >= 0
    return _Held(
        kind[fits],
        table[fits],
        row[fits],
        deps.stream_key[op[fits]].astype(np.int64),
        op[fits],
        start[fits],
        end[fits],
    )


def _lost(of: Ids, held: _Held, count: int) -> Ids:
    """Return the union of held time per barrier and stream, added up over the streams."""
    lost = np.zeros(count, np.int64)
    if not len(of):
        return lost
    order = np.lexsort((held.start, held.stream, of))
    start, end = held.start[order], held.end[order]
    number, stream = of[order], held.stream[order]
    group, _ = dense(number * (int(stream.max()) + 1) + stream)
    # Shifted apart group by group, one running maximum serves all groups.
    span = int(end.max()) + 1
    reached = np.maximum.accumulate(group * span + end)
    before = np.append(np.int64(-1), reached[:-1]) - group * span
    length = np.maximum(end - np.maximum(start, before), 0)
    np.add.at(lost, number, length)
    return lost


def _members(place: Ids, member: Ids, count: int) -> tuple[Ids, Ids]:
    """Return the distinct members of each barrier in order, and where those of each begin."""
    span = int(member.max(initial=0)) + 1
    keys = np.unique(place * span + member)
    return keys % span, np.searchsorted(keys // span, np.arange(count + 1)).astype(np.int64)
