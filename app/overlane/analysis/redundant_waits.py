"""Waits that guarantee nothing: all that they wait for is over anyway by what else the program promises.

`docs/causes.md` ("Redundant waits") defines them. The clocks of happens-before count what each wait told that
was not known (`Clocks.news`). A wait that tells nothing leaves all clocks as they are, so that all that are
found can go together: of two that imply each other the later one is named, and of several waits of a stream
with nothing between them those for earlier records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.keys import Bytes, Codes, Ids, words
from overlane.analysis.order import Order
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Actions, Program
from overlane.analysis.ordering.clocks import Clocks, clocks
from overlane.analysis.ordering.tellers import Tellers
from overlane.analysis.ordering.unrecorded import (
    has_all_records,
    is_behind_whole_wait,
    work_without_rows,
)
from overlane.trace import Trace

__all__ = ["WAIT_KINDS", "RedundantWait", "RedundantWaits", "redundant_waits"]

WAIT_KINDS = ("stream_wait_event", "event", "stream", "context", "device")
"""Kinds of waits that are looked at, as table `syncs` names them."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_SYNCS = PROOF_TABLES.index("syncs")
_WAITS = (act.WAIT, act.SYNC_EVENT, act.SYNC_STREAM, act.SYNC_SCOPE)
_MOST_ROWS = 10_000
"""Waits that are listed; what is left out is counted."""


@dataclass(frozen=True)
class RedundantWait:
    """One wait that could go.

    Attributes:
        sync_id: Its row of `syncs`.
        kind: A word of `WAIT_KINDS`.
        certainty: `certain`, or `likely` where a guessed order implies it.
        op_id: Last operation that it waits for.
        known_table: `syncs`, or `ops` for a copy that held the thread: what had told that this operation is
            over; empty where the order of its stream or another rule tells it.
        known_row: Its row there, None where that is empty.
    """

    sync_id: int
    kind: str
    certainty: str
    op_id: int
    known_table: str
    known_row: int | None


@dataclass(frozen=True)
class RedundantWaits:
    """The redundant waits of a trace, in host order; equal lengths.

    Attributes:
        sync: int64, row of `syncs` of each.
        kind: uint8, place in `WAIT_KINDS`.
        is_certain: bool.
        op: int32, last operation that it waits for.
        known_table: uint8, place in `PROOF_TABLES` of what had told that this one is over, 0 where the order
            of its stream or another rule tells it.
        known_row: int64, row there, -1 for none.
        is_checked: bool, shape (syncs,): waits of which the rows tell whether they are redundant.
        left_out_count: Redundant waits that are not listed.
    """

    sync: Ids
    kind: Bytes
    is_certain: Flags
    op: Codes
    known_table: Bytes
    known_row: Ids
    is_checked: Flags
    left_out_count: int

    def __len__(self) -> int:
        return len(self.sync)

    def row(self, place: int) -> RedundantWait:
        """Return one as words and plain numbers."""
        teller = int(self.known_row[place])
        return RedundantWait(
            int(self.sync[place]),
            WAIT_KINDS[self.kind[place]],
            "certain" if self.is_certain[place] else "likely",
            int(self.op[place]),
            PROOF_TABLES[self.known_table[place]],
            None if teller < 0 else teller,
        )


def redundant_waits(trace: Trace, deps: Dependencies, order: Order) -> RedundantWaits:
    """Find the stream waits and host synchronizations that all other edges imply.

    Args:
        trace: Any trace.
        deps: Its dependencies.
        order: Its happens-before relation.

    Example:
        >>> import overlane
        >>> from overlane.analysis.study import Study
        >>> study = Study(overlane.open_trace("run.overlane"))  # doctest: +SKIP
        >>> study.redundant_waits.row(0).known_row  # doctest: +SKIP
    """
    is_sole = _is_sole(order.program)
    turn = _latest_first(order.program, is_sole)
    actions = Actions(*(getattr(order.program.actions, n)[turn] for n in Actions.__dataclass_fields__))
    program = replace(order.program, actions=actions)
    every = clocks(program, is_certain=False)
    sure = every if order.certain is order.all else clocks(program, is_certain=True)
    row, places = _rows(program, trace)
    tells = _can_tell(trace, deps, program, every) & is_sole[turn]
    # A wait of a whole context is one action for each of its streams.
    can = np.ones(len(trace.table("syncs")), np.bool_)
    silent, certain = can.copy(), can.copy()
    np.logical_and.at(can, row, tells[places])
    np.logical_and.at(silent, row, every.news[places] == 0)
    is_sure = (sure.news[places] == 0) & (program.actions.flags[places] & act.LIKELY == 0)
    is_sure &= ~_names_any(program, every, program.streams.is_guessed)[places]
    np.logical_and.at(certain, row, is_sure)
    asked = np.unique(row)
    is_checked = np.zeros(len(can), np.bool_)
    is_checked[asked] = can[asked]
    found = asked[can[asked] & silent[asked]]
    first = np.full(len(can), -1, np.int64)
    first[row[::-1]] = places[::-1]
    found = found[np.argsort(first[found], kind="stable")]
    listed = found[:_MOST_ROWS]
    op, table, teller = Tellers(program, every, deps).of_waits(first[listed])
    codes, names = words(trace.table("syncs")["sync_kind"])
    kinds = np.array([WAIT_KINDS.index(n) if n in WAIT_KINDS else 0 for n in names] or [0], np.uint8)
    return RedundantWaits(
        sync=listed, kind=kinds[codes[listed]], is_certain=certain[listed], op=op,
        known_table=table, known_row=teller,
        is_checked=is_checked, left_out_count=len(found) - len(listed),
    )  # fmt: skip


def _rows(program: Program, trace: Trace) -> tuple[Ids, Ids]:
    """Return the row of `syncs` of each action that is a wait with one, and the places of these actions."""
    actions = program.actions
    places = np.flatnonzero(np.isin(actions.kind, _WAITS) & (actions.row >= 0))
    proof = actions.row[places]
    places = places[program.proof_table[proof] == _SYNCS]
    row = program.proof_row[actions.row[places]]
    codes, names = words(trace.table("syncs")["sync_kind"])
    is_wait = np.array([name in WAIT_KINDS for name in names] or [False])[codes[row]] if len(row) else row > 0
    return row[is_wait], places[is_wait]


@dataclass(frozen=True)
class _Next:
    """What comes next for the clock of each action's stream.

    Attributes:
        turn: int64, shape (n,): places of the actions that look at one stream's clock, those of streams that
            the legacy default stream orders together, each in host order.
        is_own: bool, shape (n,): the same thread puts something into the same stream next, and nothing looks
            at its clock before.
        is_last: bool: nothing looks at its clock any more.
    """

    turn: Ids
    is_own: Flags
    is_last: Flags


def _next(program: Program) -> _Next:
    actions = program.actions
    line = _lines(program)
    turn = np.argsort(line, kind="stable")
    turn = turn[line[turn] >= 0]
    until = np.append(turn[1:], len(line))
    is_end = np.append(line[turn[1:]] != line[turn[:-1]], np.ones(min(len(turn), 1), np.bool_))
    until[is_end] = len(line)
    after = np.where(is_end, turn, until)
    is_own = ~is_end & (actions.kind[after] <= act.WAIT) & (actions.stream[after] == actions.stream[turn])
    is_own &= actions.thread[after] == actions.thread[turn]
    seen = np.zeros(len(turn), np.bool_)
    scopes = np.flatnonzero(actions.kind == act.SYNC_SCOPE)
    for scope in np.unique(actions.ref[scopes]).tolist():
        mine = scopes[actions.ref[scopes] == scope]
        members = program.scope_streams[program.scope_starts[scope] : program.scope_starts[scope + 1]]
        is_member = np.zeros(len(program.streams.legacy), np.bool_)
        is_member[members] = True
        between = np.searchsorted(mine, until) > np.searchsorted(mine, turn)
        seen |= between & is_member[actions.stream[turn]]
    return _Next(turn, is_own & ~seen, is_end & ~seen)


def _latest_first(program: Program, is_sole: Flags) -> Ids:
    """Return an order in which the waits of a stream stand before what follows them there.

    Those that cannot go come first, then those for later records: what an earlier record tells, a later one
    may tell too, and the thread may have learned it meanwhile. Taken in this order the waits that imply
    others are the ones that have something to tell.
    """
    actions, following = program.actions, _next(program)
    turn = following.turn
    joined = following.is_own & (actions.kind[turn] == act.WAIT)
    if not joined.any():
        return np.arange(len(actions.kind))
    block = np.cumsum(np.append(True, ~joined[:-1])) - 1
    last = np.zeros(int(block[-1]) + 1, np.int64)
    np.maximum.at(last, block, turn)
    record_at = np.full(program.record_count + 1, -1, np.int64)
    made = np.flatnonzero(actions.kind == act.RECORD)
    record_at[actions.ref[made]] = made
    place = np.arange(len(actions.kind))
    place[turn] = last[block]
    latest = np.ones(len(place), np.int64)
    waits = np.flatnonzero(actions.kind == act.WAIT)
    latest[waits] = -record_at[actions.ref[waits]]
    must_stay = waits[~is_sole[waits]]
    latest[must_stay] = -len(place)
    return np.lexsort((latest, place))


def _lines(program: Program) -> Ids:
    """Return for each action that looks at one stream's clock the number of all streams that share it.

    These are the stream itself, or all that its legacy default stream orders; -1 for other actions.
    """
    actions, legacy = program.actions, program.streams.legacy
    of_stream = np.append(np.where(legacy >= 0, legacy, np.arange(len(legacy))), -1)
    looks = (actions.kind <= act.WAIT) | (actions.kind == act.SYNC_STREAM)
    return of_stream[np.where(looks, actions.stream, -1)].astype(np.int64)


def _can_tell(trace: Trace, deps: Dependencies, program: Program, every: Clocks) -> Flags:
    """Tell for each action whether all that a wait there covers is in rows."""
    actions = program.actions
    if not has_all_records(trace) or not len(deps.calls.kind):
        return np.zeros(len(actions.kind), np.bool_)
    can = np.isin(actions.kind, _WAITS) & (actions.thread >= 0)
    by_record = np.isin(actions.kind, (act.WAIT, act.SYNC_EVENT))
    at = np.append(every.record_at, -1)[np.where(by_record, actions.ref, -1)]
    can &= ~by_record | (at > 0)
    can &= (actions.kind != act.SYNC_STREAM) | _has_work(program)
    can &= ~_names_any(program, every, program.streams.is_nameless)
    can &= ~_is_first_of_scope(program)
    return can & is_behind_whole_wait(program, work_without_rows(trace, deps))


def _has_work(program: Program) -> Flags:
    """Tell for each action whether its stream had been given anything before."""
    actions = program.actions
    first = np.full(len(program.streams.legacy) + 1, len(actions.kind))
    puts = np.flatnonzero(actions.kind == act.ITEM)
    first[actions.stream[puts[::-1]]] = puts[::-1]
    return np.asarray(first[actions.stream] < np.arange(len(actions.kind)))


def _names_any(program: Program, every: Clocks, of_stream: Flags) -> Flags:
    """Tell which actions name a stream of some: their own, their record's, or one of their scope."""
    actions = program.actions
    flags = np.append(of_stream, False)
    named = flags[np.where(actions.kind == act.HOST, -1, actions.stream)]
    by_record = np.isin(actions.kind, (act.WAIT, act.SYNC_EVENT))
    record = np.where(by_record, actions.ref, -1)
    named |= flags[np.append(every.record_stream, -1)[record]]
    inside = np.concatenate([[0], np.cumsum(of_stream[program.scope_streams])])
    of_scope = np.append(np.diff(inside[program.scope_starts]) > 0, False)
    return np.asarray(named | of_scope[np.where(actions.kind == act.SYNC_SCOPE, actions.ref, -1)])


def _is_first_of_scope(program: Program) -> Flags:
    """Tell which synchronizations of a context or device are the first of their thread.

    What had been put into other streams before the recording began is over once one has returned.
    """
    actions = program.actions
    first = np.zeros(len(actions.kind), np.bool_)
    scopes = np.flatnonzero((actions.kind == act.SYNC_SCOPE) & (actions.row >= 0))
    key = actions.thread[scopes].astype(np.int64) * len(program.scope_starts) + actions.ref[scopes]
    first[scopes[np.unique(key, return_index=True)[1]]] = True
    return first


def _is_sole(program: Program) -> Flags:
    """Tell which stream waits hand on nothing else to their stream: what their thread or legacy order tells.

    The next action of the stream tells it that too, where the same thread does it and nobody looks before. A
    programmatic launch behind any wait starts later than it would without.
    """
    actions, following = program.actions, _next(program)
    is_sole = np.zeros(len(actions.kind), np.bool_)
    is_sole[following.turn] = following.is_own | following.is_last
    if len(np.unique(actions.thread)) < 2:
        is_sole |= np.append(program.streams.legacy, -1)[actions.stream] < 0
    launches = np.flatnonzero((actions.kind == act.ITEM) & (actions.flags & act.MARK == 0))
    span = len(actions.kind) + 1
    key = np.sort(actions.stream[launches].astype(np.int64) * span + launches)
    at = np.searchsorted(key, actions.stream.astype(np.int64) * span + np.arange(span - 1))
    key = np.append(key, -1)[at]
    is_behind = (key >= 0) & (key // span == actions.stream)
    is_early = np.append(actions.flags & act.PROGRAMMATIC != 0, False)[np.where(is_behind, key % span, -1)]
    return np.asarray((is_sole & ~is_early) | (actions.kind != act.WAIT))
