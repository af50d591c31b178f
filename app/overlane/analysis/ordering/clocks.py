"""Vector clocks over the actions of a host, one compiled pass, and questions to them.

Each stream and each host thread is a *chain*: its items are in order, so that what is known of it is one
number, the count of its items that are done. Going through the actions in host order, every stream knows of
each other chain how far that had to come before the stream's next item may start, and every thread what it
knows to be done. A clock is written down only where it changes: for each pair of chains a list of steps.
What a stream knows through the thread that issued its work is not copied into it, but looked up in the
thread's clock at the thread's position (its *tick*), since a synchronization tells a thread about all chains
at once.

The cost is the number of actions, and of chains for each wait and synchronization; the memory that of chains
squared, 8 bytes for each two of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numba import njit

from overlane.analysis.keys import Codes, Ids
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import Program
from overlane.errors import UntoldError

__all__ = ["Clocks", "before_items", "clocks", "known_of", "step_row"]

Array: TypeAlias = np.ndarray[Any, Any]

State: TypeAlias = tuple[Array, ...]
"""What `_state` describes."""
Facts: TypeAlias = tuple[Array, ...]
"""Legacy default stream of each stream; streams by that one, with where they begin; scopes the same way."""

_ITEM, _RECORD, _WAIT, _EVENT, _STREAM, _HOST = (
    act.ITEM, act.RECORD, act.WAIT, act.SYNC_EVENT, act.SYNC_STREAM, act.HOST,
)  # fmt: skip
_PROGRAMMATIC, _HOST_WAITS, _LIKELY, _MARK = act.PROGRAMMATIC, act.HOST_WAITS, act.LIKELY, act.MARK
_OWNER, _COMPONENT, _POSITION, _VALUE, _ROW, _PREVIOUS = range(6)  # columns of the log
_FIRST_ROOM = 1024
_MOST_CHAINS = 16_384  # streams and host threads; their clocks take 2 GiB
_FURTHEST = 64  # steps of a thread's clock that are looked through to see whether a wait tells anything new


@dataclass(frozen=True)
class Clocks:
    """What every item is after.

    Attributes:
        streams: Number of streams; chains from there on are threads.
        chains: Number of chains.
        starts: int32, shape (chains * chains + 1,): where the steps of each pair (who knows, of whom) begin.
        at: int32: position of the knowing chain's next item (a thread's tick) at each step.
        value: int32: how many items of the other chain are done before that, ascending within a pair.
        row: int32: proof of the action that made the step, -1 for none.
        item_chain: int32, shape (items,): chain of each item.
        item_at: int32: its position in the chain, from 1.
        item_prefix: int32: items of its own chain that are done before it starts.
        item_thread: int32: thread that issued it, -1 for unknown.
        item_tick: int32: position of that thread then.
        news: int32, shape (actions,): chains about which each wait or synchronization told something new, -1
            for other actions.
        record_stream: int32, shape (records,): stream of each record, -1 for those not made.
        record_at: int32: position up to which that stream is recorded.
    """

    streams: int
    chains: int
    starts: Codes
    at: Codes
    value: Codes
    row: Codes
    item_chain: Codes
    item_at: Codes
    item_prefix: Codes
    item_thread: Codes
    item_tick: Codes
    news: Codes
    record_stream: Codes
    record_at: Codes

    @property
    def columns(self) -> tuple[Array, ...]:
        """What compiled questions take: steps, then items."""
        return (
            self.starts, self.at, self.value, self.item_chain, self.item_at, self.item_prefix,
            self.item_thread, self.item_tick,
        )  # fmt: skip


def clocks(program: Program, *, is_certain: bool) -> Clocks:
    """Run the clocks over a program.

    Args:
        program: The actions in host order.
        is_certain: Follow only what is certain: neither likely edges nor the order of streams that is a
            guess.

    Raises:
        UntoldError: There are more streams and threads than clocks have room for.
    """
    actions, streams = program.actions, len(program.streams.legacy)
    threads = len(program.threads)
    chains = streams + threads
    if chains > _MOST_CHAINS:
        raise UntoldError(
            f"the order of operations is told for at most {_MOST_CHAINS} streams and host threads, and the"
            f" trace has {chains}; analyse fewer ranks or a shorter recording"
        )
    waits = actions.ref[np.isin(actions.kind, (act.WAIT, act.SYNC_EVENT)) & (actions.ref >= 0)]
    uses = np.bincount(waits, minlength=program.record_count).astype(np.int64)
    legacy = program.streams.legacy
    order = np.argsort(legacy, kind="stable").astype(np.int32)
    member_starts = np.searchsorted(legacy[order], np.arange(streams + 1)).astype(np.int64)
    is_blind = program.streams.is_nameless | (program.streams.is_guessed & is_certain)
    items, records = _items(program.item_count), np.full((2, program.record_count), -1, np.int32)
    news = np.full(len(actions.kind), -1, np.int32)
    log = _run(
        (actions.kind, actions.flags, actions.stream, actions.thread, actions.ref, actions.row),
        (legacy, member_starts, order, program.scope_starts, program.scope_streams),
        is_blind, (streams, threads, is_certain), uses, items, records, news,
    )  # fmt: skip
    starts, at, value, row = _by_pair(log, chains)
    chain, position, prefix, thread, tick = items
    return Clocks(
        streams, chains, starts, at, value, row, chain, position, prefix, thread, tick, news, *records
    )  # fmt: skip


def _items(count: int) -> Codes:
    items = np.zeros((5, count), np.int32)
    items[[0, 3]] = -1
    return items


def _by_pair(log: Codes, chains: int) -> tuple[Codes, Codes, Codes, Codes]:
    """Bring the steps of each pair of chains together, in their order."""
    starts, out = np.zeros(chains * chains + 2, np.int32), np.empty((3, len(log)), np.int32)
    _spread(log, chains, starts, out)
    return starts[:-1], out[0], out[1], out[2]


@njit(cache=True, nogil=True)
def _spread(log: Codes, chains: int, starts: Codes, out: Codes) -> None:
    # Counts stand two places on, so that filling in each pair moves its start to where it belongs.
    for i in range(len(log)):
        starts[np.int64(log[i, _OWNER]) * chains + log[i, _COMPONENT] + 2] += 1
    for pair in range(1, len(starts)):
        starts[pair] += starts[pair - 1]
    for i in range(len(log)):
        pair = np.int64(log[i, _OWNER]) * chains + log[i, _COMPONENT] + 1
        to = starts[pair]
        starts[pair] = to + 1
        out[0, to] = log[i, _POSITION]
        out[1, to] = log[i, _VALUE]
        out[2, to] = log[i, _ROW]


@njit(cache=True, nogil=True)
def _longer(log: Codes) -> Codes:
    longer = np.empty((2 * len(log), 6), np.int32)
    longer[: len(log)] = log
    return longer


@njit(cache=True, nogil=True)
def _append(log: Codes, count: int, entry: tuple[int, int, int, int, int, int]) -> Codes:
    """Write one step behind the others, into a longer log where this one is full."""
    if count == len(log):
        log = _longer(log)
    log[count, _OWNER], log[count, _COMPONENT], log[count, _POSITION] = entry[0], entry[1], entry[2]
    log[count, _VALUE], log[count, _ROW], log[count, _PREVIOUS] = entry[3], entry[4], entry[5]
    return log


@njit(cache=True, nogil=True)
def _is_known(state: State, s: int, j: int, value: int, log: Codes) -> bool:
    """Tell whether a stream is after so many items of a chain by what threads knew that it comes after.

    Looks a bounded way back into what each of them knew; beyond it the answer is no.
    """
    tails, heard, heads = state[0], state[1], state[2]
    streams = len(tails)
    for h in range(len(heard)):
        if heard[h, j] < value:
            continue
        step, tick = heads[h, j], tails[s, streams + h]
        for _ in range(_FURTHEST):
            if step < 0 or log[step, _VALUE] < value:
                break
            if log[step, _POSITION] <= tick:
                return True
            step = log[step, _PREVIOUS]
    return False


@njit(cache=True, nogil=True)
def _tell_stream(  # noqa: PLR0917 - one state machine
    state: State, source: Codes, s: int, h: int, row: int, log: Codes, count: int
) -> tuple[Codes, int, int]:
    """Let a stream wait for what a clock says; what the issuing thread knows to be done need not be told."""
    tails, heard, length, over = state[0], state[1], state[4], state[11]
    over[s] = max(over[s], source[s])
    news, steps, at, mine = 0, 0, length[s] + 1, tails[s]
    if len(log) - count < len(source):
        log = _longer(log)
    for j in range(len(source)):
        value = source[j]
        if value > mine[j] and (h < 0 or value > heard[h, j]):
            mine[j] = value
            entry = log[count + steps]
            entry[_OWNER], entry[_COMPONENT], entry[_POSITION] = s, j, at
            entry[_VALUE], entry[_ROW] = value, row
            steps += 1
            news += not _is_known(state, s, j, value, log)
    return log, count + steps, news


@njit(cache=True, nogil=True)
def _tell_thread(  # noqa: PLR0917 - one state machine
    state: State, source: Codes, h: int, row: int, log: Codes, count: int
) -> tuple[Codes, int, int]:
    """Let a thread know what a stream's clock says, and what the threads that issued that work knew then."""
    heard, heads, tick = state[1], state[2], state[3][h]
    chains, own = len(source), len(source) - len(heard) + h
    news = 0
    for j in range(chains):
        if source[j] <= heard[h, j] or j == own:
            continue
        log, count = _hear(heard, heads, h, own, j, (tick, source[j], row), log, count)
        news += 1
        other = j - chains + len(heard)
        if other < 0:
            continue
        for k in range(chains):
            step = heads[other, k]
            while step >= 0 and log[step, _POSITION] > source[j]:
                step = log[step, _PREVIOUS]
            if step >= 0 and k != own and log[step, _VALUE] > heard[h, k]:
                log, count = _hear(heard, heads, h, own, k, (tick, log[step, _VALUE], row), log, count)
                news += 1
    return log, count, news


@njit(cache=True, nogil=True)
def _hear(  # noqa: PLR0917 - one state machine
    heard: Codes, heads: Codes, h: int, own: int, j: int, told: tuple[int, int, int], log: Codes, count: int
) -> tuple[Codes, int]:
    """Write down one step of a thread's clock, linked to the one before it."""
    heard[h, j] = told[1]
    log = _append(log, count, (own, j, told[0], told[1], told[2], heads[h, j]))
    heads[h, j] = count
    return log, count + 1


@njit(cache=True, nogil=True)
def _enter(  # noqa: PLR0917 - one state machine
    state: State, facts: Facts, s: int, h: int, log: Codes, count: int
) -> tuple[Codes, int]:
    """Let a thread put something into a stream: it comes after what the thread did, and by the legacy rule.

    Blocking streams wait for the legacy default stream and it for them, by versions: how often anything was
    put into a stream.
    """
    tails, _, _, ticks, length, _, issuer, version, seen, met, _, _ = state
    legacy, member_starts, members = facts[:3]
    if h != issuer[s]:
        if issuer[s] >= 0:  # a thread's tick is looked up with the item, unless another thread goes on
            j = tails.shape[1] - len(ticks) + issuer[s]
            log = _append(log, count, (s, j, length[s] + 1, tails[s, j], -1, -1))
            count += 1
        issuer[s] = h
    if h >= 0:
        tails[s, tails.shape[1] - len(ticks) + h] = ticks[h]
    first = legacy[s]
    if first == s:
        for m in range(member_starts[s], member_starts[s + 1]):
            b = members[m]
            if b != s and seen[b] != version[b]:
                seen[b] = version[b]
                log, count, _news = _tell_stream(state, tails[b], s, h, -1, log, count)
    elif first >= 0 and met[s] != version[first]:
        met[s] = version[first]
        log, count, _news = _tell_stream(state, tails[first], s, h, -1, log, count)
    version[s] += 1
    return log, count


@njit(cache=True, nogil=True)
def _cover(  # noqa: PLR0917 - one state machine
    state: State, facts: Facts, is_blind: Array, what: int, s: int, h: int, r: int, row: int,
    log: Codes, count: int,
) -> tuple[Codes, int, int]:  # fmt: skip
    """Let a thread know that all streams of a scope, or one, are done."""
    tails, version, synced = state[0], state[7], state[10]
    scope_starts, scope_streams = facts[3], facts[4]
    news = 0
    if what == _STREAM:
        if not is_blind[s]:
            log, count, news = _tell_thread(state, tails[s], h, row, log, count)
        return log, count, news
    for m in range(scope_starts[r], scope_starts[r + 1]):
        b = scope_streams[m]
        if synced[h, b] != version[b] and not is_blind[b]:
            synced[h, b] = version[b]
            log, count, some = _tell_thread(state, tails[b], h, row, log, count)
            news += some
    return log, count, news


@njit(cache=True, nogil=True)
def _keep(slots: Codes, free: Ids, top: int, taken: int) -> tuple[Codes, Ids, int, int, int]:
    """Return a place for a record's clock, in more room where all is taken."""
    if top:
        return slots, free, top - 1, taken, free[top - 1]
    if taken == len(slots):
        more = np.zeros((2 * len(slots), slots.shape[1]), np.int32)
        more[: len(slots)] = slots
        slots, free = more, np.zeros(2 * len(slots), np.int64)
    return slots, free, top, taken + 1, taken


@njit(cache=True, nogil=True)
def _release(uses: Ids, slot_of: Ids, free: Ids, top: int, r: int) -> int:
    """Count a use of a record's clock, and give its place back after the last one."""
    uses[r] -= 1
    if uses[r] or slot_of[r] < 0:
        return top
    free[top], slot_of[r] = slot_of[r], -1
    return top + 1


@njit(cache=True, nogil=True)
def _copy(to: Codes, a: int, source: Codes, b: int) -> None:
    for j in range(to.shape[1]):
        to[a, j] = source[b, j]


@njit(cache=True, nogil=True)
def _raise(to: Codes, a: int, source: Codes, b: int) -> None:
    for j in range(to.shape[1]):
        to[a, j] = max(to[a, j], source[b, j])


@njit(cache=True, nogil=True)
def _state(streams: int, threads: int) -> State:
    """Return the state before the first action.

    What the next item of a stream is after; what a thread knows; the last step of each component of a thread;
    ticks of threads; items of streams, and how many of them are done before the last one starts; the thread
    that issued last; how often anything was put in; the version that the legacy default stream waited for,
    and that of the legacy default stream that was waited for; the version that a thread synchronized with;
    items of a stream that are done since others waited for them and it for those.
    """
    chains = streams + threads
    return (
        np.zeros((streams, chains), np.int32),
        np.zeros((threads, chains), np.int32),
        np.full((threads, chains), -1, np.int32),
        np.zeros(threads, np.int32), np.zeros(streams, np.int32), np.zeros(streams, np.int32),
        np.full(streams, -1, np.int32),
        np.zeros(streams, np.int64), np.zeros(streams, np.int64), np.zeros(streams, np.int64),
        np.zeros((threads, streams), np.int64),
        np.zeros(streams, np.int32),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _run(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one state machine
    actions: tuple[Array, ...], facts: Facts, is_blind: Array, sizes: tuple[int, int, bool],
    uses: Ids, items: Codes, records: Codes, all_news: Codes,
) -> Codes:  # fmt: skip
    """Go through all actions; return the steps of all clocks in the order in which they were made.

    Longer than 50 lines: items, the commonest actions, are put into their streams in place, since a function
    that changes so many arrays takes twice as long as all the rest.
    """
    streams, threads, is_certain = sizes
    state = _state(streams, threads)
    tails, _, _, ticks, length, prefix, issuer, version, _, _, _, over = state
    legacy = facts[0]
    slots, free, top, taken = np.zeros((16, streams + threads), np.int32), np.zeros(16, np.int64), 0, 0
    slot_of = np.full(len(uses), -1, np.int64)
    log, count = np.empty((max(_FIRST_ROOM, 2 * (streams + threads)), 6), np.int32), 0
    for i in range(len(actions[0])):
        what, s, h, r, row = actions[0][i], actions[2][i], actions[3][i], actions[4][i], actions[5][i]
        is_off = (is_certain and actions[1][i] & _LIKELY != 0) or (what <= _WAIT and is_blind[s])
        slot = slot_of[r] if r >= 0 and what in (_RECORD, _WAIT, _EVENT) else -1
        if what <= _WAIT and not is_off:
            if h == issuer[s] and h >= 0 and legacy[s] < 0:  # nothing to tell, as most often
                tails[s, streams + h] = ticks[h]
                version[s] += 1
            else:
                log, count = _enter(state, facts, s, h, log, count)
        if what == _ITEM:
            length[s] += 1
            items[0, r], items[1, r], items[3, r] = s, length[s], h
            if h >= 0:
                items[4, r] = ticks[h]
            if is_blind[s]:
                continue
            flags, tails[s, s] = actions[1][i], length[s]
            items[2, r] = max(prefix[s], over[s]) if flags & _PROGRAMMATIC else length[s] - 1
            if flags & _MARK == 0:
                prefix[s] = items[2, r]
            if flags & _HOST_WAITS and h >= 0:  # the thread is told of its end
                ticks[h] += 1
                log, count, news = _tell_thread(state, tails[s], h, row, log, count)
            continue
        if what == _RECORD:
            records[0, r], records[1, r] = s, length[s]
            if uses[r] and not is_off:
                if slot < 0:
                    slots, free, top, taken, slot = _keep(slots, free, top, taken)
                    slot_of[r] = slot
                    _copy(slots, slot, tails, s)
                else:
                    _raise(slots, slot, tails, s)
            continue
        news = 0
        if what == _WAIT:
            if slot >= 0 and not is_off:
                log, count, news = _tell_stream(state, slots[slot], s, h, row, log, count)
        elif h >= 0:
            ticks[h] += 1
            if what == _HOST:
                items[0, r], items[1, r], items[2, r] = streams + h, ticks[h], ticks[h] - 1
                items[3, r], items[4, r] = h, ticks[h]
            elif what == _EVENT and slot >= 0 and not is_off:
                log, count, news = _tell_thread(state, slots[slot], h, row, log, count)
            elif what != _EVENT and not is_off:
                log, count, news = _cover(state, facts, is_blind, what, s, h, r, row, log, count)
        all_news[i] = news
        if what in (_WAIT, _EVENT) and r >= 0:
            top = _release(uses, slot_of, free, top, r)
    return log[:count]


@njit(cache=True, nogil=True)
def known_of(starts: Codes, at: Codes, value: Codes, pair: int, position: int) -> int:
    """Return how many items of a pair's other chain are done at a position of the knowing chain."""
    low, high = starts[pair], starts[pair + 1]
    first = low
    while low < high:
        middle = (low + high) // 2
        if at[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return value[low - 1] if low > first else 0


@njit(cache=True, nogil=True)
def step_row(starts: Codes, value: Codes, pair: int, needed: int) -> int:
    """Return the first step of a pair at which so many items of the other chain are done, or -1."""
    low, high = starts[pair], starts[pair + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if value[middle] >= needed:
            high = middle
        else:
            low = middle + 1
    return low if low < end else -1


@njit(cache=True, nogil=True)
def before_items(columns: tuple[Array, ...], streams: int, chains: int, a: int, b: int) -> bool:
    """Tell whether item `a` is done before item `b` starts."""
    starts, at, value, chain, position, prefix, thread, tick = columns
    mine, theirs, needed, place = chain[b], chain[a], position[a], position[b]
    if mine < 0 or theirs < 0:
        return False
    if mine == theirs and needed <= prefix[b]:
        return True
    if mine >= streams:  # a host item: its thread knows all that it is after
        return bool(mine != theirs and known_of(starts, at, value, mine * chains + theirs, place) >= needed)
    if mine != theirs and known_of(starts, at, value, mine * chains + theirs, place) >= needed:
        return True
    for h in range(streams, chains):
        is_own = thread[b] + streams == h
        known = tick[b] if is_own else known_of(starts, at, value, mine * chains + h, place)
        if not known:
            continue
        if h == theirs:
            if known >= needed:
                return True
        elif known_of(starts, at, value, h * chains + theirs, known) >= needed:
            return True
    return False
