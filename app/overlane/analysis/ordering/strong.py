"""The strong synchronizations of a program, and why some of them cannot be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.keys import Bytes, Codes, words
from overlane.analysis.order import Order
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Program
from overlane.analysis.ordering.unrecorded import (
    has_all_records,
    is_behind_whole_wait,
    work_without_rows,
)
from overlane.trace import Trace

if TYPE_CHECKING:
    from overlane.analysis.redundant_waits import RedundantWaits

__all__ = ["NOT_STRONG", "REASONS", "STRONG_KINDS", "Strong", "mark", "reasons"]

STRONG_KINDS = ("stream", "context", "device")
"""Kinds of synchronizations that are looked at, as table `syncs` names them."""

REASONS = (
    "checked",
    "no_accesses",
    "records_dropped",
    "shared_memory",
    "not_placed",
    "order_guessed",
    "first_wait",
    "hidden_work",
    "other_threads",
    "open_hazard",
)
"""Why a synchronization could not be checked; a reason's place is its code."""

NOT_STRONG = 255
"""Reason of rows of `syncs` that are no strong synchronization."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_SYNCS = PROOF_TABLES.index("syncs")
_SHARING = ("IpcGetMem", "IpcOpenMem", "ShareableHandle", "ExternalMemory", "Graphics", "EGL", "Vulkan")
"""Parts of names of calls that share memory with what leaves no rows here."""


def mark(reason: Bytes, rows: Any, name: str) -> None:
    """Write a reason down for rows of `syncs` that have none yet (in place)."""
    chosen = np.zeros(len(reason), np.bool_)
    chosen[rows] = True
    reason[chosen & (reason == 0)] = REASONS.index(name)


def reasons(trace: Trace) -> Bytes:
    """Return the reason code of each row of `syncs`, as far as one reason holds for all.

    Args:
        trace: Any trace.

    Returns:
        uint8, shape (syncs,): place in `REASONS`, `NOT_STRONG` for other rows.
    """
    codes, names = words(trace.table("syncs")["sync_kind"])
    is_strong = np.array([name in STRONG_KINDS for name in names] or [False])
    reason = np.where(is_strong[codes] if len(codes) else codes > 0, 0, NOT_STRONG).astype(np.uint8)
    calls = trace.table("api_calls")
    found = set(words(calls["name"])[1])
    for name, holds in (
        ("no_accesses", not len(trace.table("accesses"))),
        ("records_dropped", not has_all_records(trace) or not len(calls)),
        ("shared_memory", any(word in name for name in found for word in _SHARING)),
    ):
        if holds:
            mark(reason, slice(None), name)
    return reason


class Strong:
    """The strong synchronizations that have a row and a place in the program, and can be judged.

    Args:
        trace: Trace.
        deps: Its dependencies.
        order: Its happens-before relation.
        redundant: Its redundant waits, which are taken to be gone.
        reason: Reason code of each row of `syncs`; what holds for single ones is written down there.

    Attributes:
        place: int64, places of their actions, ascending.
        row: int64, their rows of `syncs`.
        member_starts: int64, shape (n + 1,): where the streams that each waits for begin.
        members: int32.
        silent: int64: places of all that the program is compared without: these, and the redundant ones.
    """

    def __init__(
        self, trace: Trace, deps: Dependencies, order: Order, redundant: RedundantWaits, reason: Bytes
    ) -> None:
        program, actions = order.program, order.program.actions
        is_wait = np.isin(actions.kind, (act.SYNC_STREAM, act.SYNC_SCOPE))
        is_wait &= (actions.row >= 0) & (actions.thread >= 0) & (actions.flags & act.LIKELY == 0)
        place = np.flatnonzero(is_wait)
        proof = actions.row[place]
        row = program.proof_row[proof]
        fits = program.proof_table[proof] == _SYNCS
        fits[fits] = reason[row[fits]] == 0  # a query that found all over waits for nothing
        self.place, self.row = place[fits], row[fits]
        mark(reason, np.setdiff1d(np.flatnonzero(reason == 0), self.row), "not_placed")
        self._name_streams(program)
        is_blind = (program.streams.is_nameless | program.streams.is_guessed)[self.members]
        inside = np.append(0, np.cumsum(is_blind))[self.member_starts]
        hidden = work_without_rows(trace, deps)
        is_hidden = ~is_behind_whole_wait(program, hidden)[self.place]
        is_hidden |= np.searchsorted(hidden, actions.at_ns[self.place], "left") < len(hidden)
        for name, holds in (
            ("order_guessed", np.diff(inside) > 0),
            ("first_wait", self._are_first(actions.thread[self.place])),
            ("hidden_work", is_hidden),
        ):
            mark(reason, self.row[holds], name)
        is_gone = np.isin(self.row, redundant.sync[redundant.is_certain])
        is_judged = reason[self.row] == 0
        self.silent = self.place[is_gone | is_judged]
        self.place, self.row = self.place[is_judged & ~is_gone], self.row[is_judged & ~is_gone]
        self._name_streams(program)

    def _name_streams(self, program: Program) -> None:
        """Gather the streams that each waits for."""
        actions = program.actions
        is_scope = actions.kind[self.place] == act.SYNC_SCOPE
        ref = np.where(is_scope, actions.ref[self.place], 0)
        starts = program.scope_starts.astype(np.int64)
        sizes = (
            np.where(is_scope, np.diff(starts)[ref], 1) if len(starts) > 1 else np.ones(len(ref), np.int64)
        )
        self.member_starts = np.concatenate([[0], np.cumsum(sizes)])
        number = np.repeat(np.arange(len(sizes)), sizes)
        inside = np.arange(len(number)) - self.member_starts[number]
        self.members = np.repeat(actions.stream[self.place], sizes).astype(np.int32)
        of_scope = np.flatnonzero(is_scope[number])
        self.members[of_scope] = program.scope_streams[starts[ref[number[of_scope]]] + inside[of_scope]]

    def _are_first(self, thread: Codes) -> Flags:
        """Tell which are the first of their thread that wait for one of their streams.

        What had been put into it before the recording began is over once that one has returned.
        """
        number = np.repeat(np.arange(len(self.row)), np.diff(self.member_starts))
        span = int(self.members.max(initial=0)) + 1
        key = thread[number].astype(np.int64) * span + self.members
        first = np.zeros(len(self.row), np.bool_)
        first[number[np.unique(key, return_index=True)[1]]] = True
        return first
