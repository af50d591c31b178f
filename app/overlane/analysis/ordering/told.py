"""What strong synchronizations told their threads, what of that is needed, and which event would tell it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from overlane.analysis.dependencies import Dependencies
from overlane.analysis.keys import Codes, Ids, words
from overlane.analysis.order import Order
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Program
from overlane.analysis.ordering.clocks import Clocks, clocks
from overlane.analysis.ordering.events import choose
from overlane.analysis.ordering.host_memory import reachable
from overlane.analysis.ordering.needs import WILD, Asked, Lines, find_needs, reach
from overlane.analysis.ordering.strong import Strong
from overlane.analysis.ordering.touched import Touched
from overlane.trace import Trace

__all__ = ["Told"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]


class Told:
    """What each strong synchronization told of, what of that is needed, and which event would do.

    Args:
        trace: Trace.
        deps: Its dependencies.
        order: Its happens-before relation.
        strong: Its strong synchronizations.
        touched: Its accesses.

    Attributes:
        is_guess: Some order or access is inferred, or several threads put work into streams.
        is_kept: bool, shape (n,): others rely on it in ways that are not followed.
        event: int32, shape (n,): item whose event would do, -1 where nothing is needed, -2 where none would.
        begins: int64, shape (streams + 1,): where the items of each stream begin in `items`.
        items: int32: items by stream and position.
        op_of_item: int32: operation of each item, of a graph the one that ends last; -1 for none.
        is_unknown: bool, shape (len(items),): no row tells what kind of memory it touches.
        is_open: bool, shape (len(items),): it may be unordered with a later access.
        number: int64: synchronization of each row; rows are what one told of one stream, in order.
        stream: int64: that stream.
        covered: int64: how much of it its thread would know then.
        known: int64: how much it knew.
    """

    def __init__(
        self, trace: Trace, deps: Dependencies, order: Order, strong: Strong, touched: Touched
    ) -> None:
        program = order.program
        self._strong, self._program = strong, program
        self._full, self._reduced, guessed = _both(order, strong)
        threads = np.unique(program.actions.thread[np.isin(program.actions.kind, (act.ITEM, act.HOST))])
        self.is_guess = guessed or len(threads) > 1 or not touched.is_declared.all()
        self.op_of_item = np.full(program.item_count, -1, np.int32)
        by_end = np.argsort(deps.issue.end_ns, kind="stable")
        self.op_of_item[program.op_item[by_end]] = by_end
        self._lines = self._lines_of()
        self.begins, self.items = self._lines.begins, self._lines.items
        self._learned = self._steps()
        memory = reachable(trace, program, touched)
        unknown = np.zeros(program.item_count, np.bool_)
        unknown[program.op_item[memory.is_unknown]] = True
        self.is_unknown = unknown[self.items]
        asked, last_kept = self._asked(trace, touched, self._by_host(trace, memory.is_needed))
        self.is_open = np.cumsum(asked.opened)[:-1] > 0
        self.is_kept = np.cumsum(asked.kept)[strong.place] > 0
        self.is_kept |= strong.place < last_kept[program.actions.thread[strong.place]]
        self.event = np.full(len(strong.place), -2, np.int32)
        choose(self._lines, asked.needed, self.op_of_item, strong.place, self.event)
        self._rows()

    def _lines_of(self) -> Lines:
        """Return where things stand in the program."""
        program, full, strong = self._program, self._full, self._strong
        actions, streams = program.actions, full.streams
        self._item_place = np.full(program.item_count, -1, np.int64)
        puts = np.flatnonzero((actions.kind == act.ITEM) | (actions.kind == act.HOST))
        self._item_place[actions.ref[puts]] = puts
        inside = np.flatnonzero((full.item_chain >= 0) & (full.item_chain < streams))
        counts = np.bincount(full.item_chain[inside], minlength=streams)
        begins = np.append(0, np.cumsum(counts)).astype(np.int64)
        items = np.zeros(len(inside), np.int32)
        items[begins[full.item_chain[inside]] + full.item_at[inside] - 1] = inside
        is_blind = np.append(program.streams.is_nameless, False)[actions.stream]
        ticking = (actions.kind == act.ITEM) & (actions.flags & act.HOST_WAITS != 0) & ~is_blind
        ticks = np.flatnonzero((ticking | (actions.kind > act.WAIT)) & (actions.thread >= 0))
        ticks = ticks[np.argsort(actions.thread[ticks], kind="stable")]
        threads = np.arange(len(program.threads) + 1)
        number_at = np.full(len(actions.kind), -1, np.int32)
        number_at[strong.place] = np.arange(len(strong.place))
        number = np.repeat(np.arange(len(strong.place)), np.diff(strong.member_starts))
        line = actions.thread[strong.place][number].astype(np.int64) * streams + strong.members
        rows = np.argsort(line, kind="stable")
        lines = np.arange(len(program.threads) * streams + 1)
        return Lines(
            self._reduced.columns, full.columns, streams, full.chains, begins, self._item_place[items], items,
            np.searchsorted(actions.thread[ticks], threads).astype(np.int64), ticks, number_at,
            strong.member_starts, strong.members, np.searchsorted(line[rows], lines).astype(np.int64),
            strong.place[number[rows]], rows,
        )  # fmt: skip

    def _steps(self) -> tuple[Ids, Ids, Ids, Ids, Ids]:
        """Return what threads learned: thread, chain, items known before and after, place of the action."""
        full, lines = self._full, self._lines
        first = full.streams * full.chains
        pair = np.repeat(np.arange(first, full.chains**2), np.diff(full.starts[first:]))
        low = int(full.starts[first])
        thread, of = pair // full.chains - full.streams, pair % full.chains
        new, tick = full.value[low:].astype(np.int64), full.at[low:]
        is_first = np.append(True, pair[1:] != pair[:-1])[: len(pair)]
        old = np.where(is_first, 0, np.append(0, new)[: len(new)])
        place = lines.tick_places[lines.tick_begins[thread] + tick - 1]
        return thread, of, old, new, place

    def _by_host(self, trace: Trace, is_needed: Flags) -> tuple[Ids, Ids, Ids, Ids]:
        """Return where each thread first knew what the host may need: place, thread, stream and position."""
        full, program = self._full, self._program
        needs = np.zeros(program.item_count, np.bool_)
        needs[program.op_item[is_needed]] = True
        needs = needs[self.items]
        if any("EventElapsedTime" in name for name in words(trace.table("api_calls")["name"])[1]):
            made = np.flatnonzero(full.record_at[: len(trace.table("event_records"))] > 0)
            needs[self.begins[full.record_stream[made]] + full.record_at[made] - 1] = True
        thread, of, old, new, place = self._learned
        rows = np.flatnonzero(of < full.streams)
        rows = rows[np.argsort(place[rows], kind="stable")]
        last = np.maximum.accumulate(np.where(needs, np.arange(len(needs)), -1))
        position = last[self.begins[of[rows]] + new[rows] - 1] - self.begins[of[rows]] + 1
        fits = position > old[rows]
        rows = rows[fits]
        return place[rows], thread[rows], of[rows], position[fits]

    def _asked(self, trace: Trace, touched: Touched, by_host: tuple[Ids, Ids, Ids, Ids]) -> tuple[Asked, Ids]:
        """Return what is needed, and up to where all that a thread waited for may be."""
        full, program = self._full, self._program
        threads = full.chains - full.streams
        wild = self._wild(trace, touched)
        hosts = np.flatnonzero(full.item_chain >= full.streams)
        hosts = hosts[np.lexsort((full.item_at[hosts], full.item_chain[hosts]))]
        asked = Asked(
            np.searchsorted(full.item_chain[hosts], np.arange(full.streams, full.chains + 1)),
            full.item_at[hosts].astype(np.int64), np.unique(full.item_chain[wild]),
            np.zeros(len(self._strong.members), np.int32), np.zeros((threads, full.chains), np.int32),
            np.zeros(len(program.actions.kind) + 2, np.int32), np.zeros(len(self.items) + 1, np.int32),
        )  # fmt: skip
        last_kept = np.full(threads, -1, np.int64)
        low, high, cells = touched.cells()
        accesses = self._accesses(touched, wild, low, high)
        find_needs(self._lines, asked, accesses, by_host, cells, last_kept)
        return asked, last_kept

    def _wild(self, trace: Trace, touched: Touched) -> Codes:
        """Return the items of which nothing says what they touch."""
        is_wild = np.zeros(self._program.item_count, np.bool_)
        is_bare = np.ones(len(trace.table("ops")), np.bool_)
        is_bare[touched.op[touched.op >= 0]] = False
        is_wild[self._program.op_item[is_bare]] = True
        is_wild[touched.unsized] = True
        return np.flatnonzero(is_wild & (self._full.item_chain >= 0)).astype(np.int32)

    def _accesses(
        self, touched: Touched, wild: Codes, low: Codes, high: Codes
    ) -> tuple[Codes, Any, Codes, Codes, Ids]:
        """Return item, mode, cells and place of each access in host order, with those of wild items."""
        item = np.where(touched.staged >= 0, touched.staged, touched.item).astype(np.int32)
        mode, place = touched.mode, self._item_place[item]
        if not len(wild):
            return item, mode, low, high, place
        none, modes = np.zeros(len(wild), np.int32), np.full(len(wild), WILD, np.uint8)
        place = np.append(place, self._item_place[wild])
        turn = np.argsort(place, kind="stable")
        item, mode = np.append(item, wild)[turn], np.append(mode, modes)[turn]
        return item, mode, np.append(low, none)[turn], np.append(high, none)[turn], place[turn]

    def _rows(self) -> None:
        """Bring together what each told, and how much of that its thread would know by the event."""
        _, of, old, new, place = self._learned
        number = self._lines.number_at[place].astype(np.int64)
        rows = np.flatnonzero((number >= 0) & (of < self._full.streams))
        rows = rows[np.lexsort((new[rows], of[rows], number[rows]))]
        key = number[rows] * self._full.chains + of[rows]
        cut = np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])
        self.number, self.stream = number[rows[cut]], of[rows[cut]]
        self.known = np.maximum.reduceat(new[rows], cut) if len(cut) else new[:0]
        self.covered = old[rows[cut]]
        event, columns = self.event[self.number], self._reduced.columns
        sizes = self._full.streams, self._full.chains
        for row in np.flatnonzero(event >= 0).tolist():
            b, s = int(event[row]), int(self.stream[row])
            own = int(columns[4][b]) if columns[3][b] == s else 0
            self.covered[row] = max(int(self.covered[row]), own, reach(columns, *sizes, b, s))
        self.covered = np.minimum(self.covered, self.known)


def _both(order: Order, strong: Strong) -> tuple[Clocks, Clocks, bool]:
    """Return the clocks of the program, those without what strong ones tell, and whether any is a guess.

    That a free waits for the device was seen, but is not promised: it tells nothing here.
    """
    program = order.program
    actions = program.actions
    is_free = (actions.kind == act.SYNC_SCOPE) & (actions.row < 0) & (actions.flags & act.LIKELY != 0)
    is_guess = bool(((actions.flags & act.LIKELY != 0) & ~is_free).any() or program.streams.is_guessed.any())
    if not is_free.any():
        full = order.all
    else:
        full = clocks(_muted(program, is_free), is_certain=False) if is_guess else order.certain
    is_silent = is_free
    is_silent[strong.silent] = True
    return full, clocks(_muted(program, is_silent), is_certain=False), is_guess


def _muted(program: Program, which: Flags) -> Program:
    """Return the program in which some synchronizations stand where they stood, but tell nothing."""
    actions = program.actions
    kind, ref = np.where(which, act.SYNC_EVENT, actions.kind), np.where(which, -1, actions.ref)
    return replace(program, actions=replace(actions, kind=kind.astype(np.uint8), ref=ref))
