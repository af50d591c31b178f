"""Every gap of every stream, partition and device cut into parts with one cause each.

From the issue of the operation after it on, a gap has the causes of that operation's wait; before it, what
the thread was doing that issued it. `docs/causes.md` defines both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numba import njit

from overlane.analysis.causes import CAUSE_NAMES, code_of
from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.hosts import host_states, nest
from overlane.analysis.keys import NULL, Bytes, Codes, Ids, identities, in_order, known
from overlane.analysis.waits import Waits
from overlane.errors import OverlaneError
from overlane.trace import Trace

__all__ = ["SCOPES", "Idle", "idle"]

SCOPES = ("stream", "partition", "device")
"""What was idle; the place is the code."""

BitSets = np.ndarray[Any, np.dtype[np.uint32]]
Columns: TypeAlias = tuple[np.ndarray[Any, Any], ...]

_COLUMNS = (np.int32, np.int64, np.int64, np.uint8, np.uint8, np.int64, np.uint32, np.bool_)
"""Types of the columns of parts: gap, start, end, cause, table and row of the proof, causes also open, and
whether it begins or ends with a stamp of the host."""


@dataclass(frozen=True)
class Idle:
    """Gaps in order of scope, owner and time, and their parts in the same order; parts add up to their gap.

    Attributes:
        scope: uint8, shape (gaps,), place in `SCOPES`.
        owner: int32, the stream (`Dependencies.streams`), partition (row id) or device (`devices`) that was
            idle.
        start_ns: int64, first nanosecond.
        end_ns: int64, first nanosecond after it.
        next_op: int32, first operation after it, -1 where a given window ends first.
        gap: int32, shape (parts,), gap of each part.
        part_start_ns: int64, first nanosecond.
        part_end_ns: int64, first nanosecond after it.
        cause: uint8, place in `overlane.analysis.causes.CAUSES`.
        proof_table: uint8, place in `overlane.analysis.dependencies.PROOF_TABLES`.
        proof_row: int64, row there, -1 for none.
        call_row: int64, for `late_launch` the call that the issuing thread was in, -1 for none.
        range_row: int64, for `late_launch` the innermost range that it was in, -1 for none.
        also_open: uint32, bit set of the codes of other causes that held at the same time.
        is_below_fit_error: bool, shorter than the clock's fit error, between a stamp of the host and one of
            the device.
        devices: Rank and device id of each device.
    """

    scope: Bytes
    owner: Codes
    start_ns: Ids
    end_ns: Ids
    next_op: Codes
    gap: Codes
    part_start_ns: Ids
    part_end_ns: Ids
    cause: Bytes
    proof_table: Bytes
    proof_row: Ids
    call_row: Ids
    range_row: Ids
    also_open: BitSets
    is_below_fit_error: np.ndarray[Any, np.dtype[np.bool_]]
    devices: tuple[tuple[int | None, int | None], ...]

    def totals(self, scope: str) -> dict[int, dict[str, int]]:
        """Return the idle time of each owner of a scope by cause, in ns; causes without time are left out.

        Raises:
            ValueError: There is no such scope.
        """
        of = self.scope[self.gap] == SCOPES.index(scope)
        owner = self.owner[self.gap][of]
        count = len(CAUSE_NAMES)
        sums = np.zeros((int(owner.max(initial=-1)) + 1, count), np.int64)
        np.add.at(sums, (owner, self.cause[of]), (self.part_end_ns - self.part_start_ns)[of])
        return {
            int(one): {CAUSE_NAMES[k]: int(sums[one, k]) for k in range(count) if sums[one, k]}
            for one in np.unique(self.owner[self.scope == SCOPES.index(scope)])
        }


def idle(trace: Trace, deps: Dependencies, waits: Waits, *, window: tuple[int, int] | None = None) -> Idle:
    """Cut the idle time of every stream, partition and device into parts.

    Args:
        trace: Any trace.
        deps: Its dependencies.
        waits: The parts of its waits.
        window: Start and end in ns; by default idle lies between operations.

    Raises:
        OverlaneError: The window ends before it starts.

    Example:
        >>> import overlane
        >>> from overlane.analysis.dependencies import dependencies
        >>> from overlane.analysis.idle import idle
        >>> from overlane.analysis.waits import waits
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> deps = dependencies(trace)  # doctest: +SKIP
        >>> idle(trace, deps, waits(trace, deps)).totals("device")  # doctest: +SKIP
    """
    if window is not None and window[1] < window[0]:
        raise OverlaneError(f"the window {window[0]}:{window[1]} ends before it starts; give its start first")
    owners, devices = _owners(trace, deps)
    found = [_gaps(deps, owner, window) for owner in owners]
    scope = np.repeat(np.arange(len(SCOPES)), [len(part) for part in found])
    gaps = np.concatenate(found)
    parts = _parts(trace, deps, waits, gaps)
    gap, start, end, cause, table, row, also_open, meets_host = parts
    call_row, range_row = _whereabouts(trace, deps, parts, gaps[:, 3])
    has_call = call_row >= 0
    has_range = ~has_call & (range_row >= 0)
    table[has_call], row[has_call] = PROOF_TABLES.index("api_calls"), call_row[has_call]
    table[has_range], row[has_range] = PROOF_TABLES.index("ranges"), range_row[has_range]
    error = max((clock.fit_error_ns or 0 for clock in trace.header.clocks), default=0)
    return Idle(
        scope.astype(np.uint8),
        gaps[:, 0].astype(np.int32),
        np.ascontiguousarray(gaps[:, 1]),
        np.ascontiguousarray(gaps[:, 2]),
        gaps[:, 3].astype(np.int32),
        gap,
        start,
        end,
        cause,
        table,
        row,
        call_row,
        range_row,
        also_open,
        (end - start < error) & meets_host,
        tuple(devices),
    )


def _parts(trace: Trace, deps: Dependencies, waits: Waits, gaps: Ids) -> Columns:
    """Return the parts of all gaps, columns as in `_COLUMNS`."""
    states = host_states(trace, deps)
    begins = np.searchsorted(waits.op, np.arange(len(deps.issued_ns) + 1)).astype(np.int64)
    inputs = (
        (gaps[:, 1], gaps[:, 2], gaps[:, 3]),
        (deps.issued_ns, deps.issue_call, deps.calls.thread, deps.calls.start_ns),
        (
            states.begins,
            states.start_ns,
            states.end_ns,
            states.cause,
            states.table,
            states.row,
            states.also_open,
        ),
        (
            begins,
            waits.start_ns,
            waits.end_ns,
            waits.cause,
            waits.proof_table,
            waits.proof_row,
            waits.also_open,
        ),
        (code_of("late_launch"), code_of("unknown")),
    )
    count = 3 * len(gaps)
    parts = tuple(np.empty(count, kind) for kind in _COLUMNS)
    used = _cut(parts, *inputs)
    if used > count:
        parts = tuple(np.empty(used, kind) for kind in _COLUMNS)
        _cut(parts, *inputs)
    return tuple(column[:used] for column in parts)


def _owners(trace: Trace, deps: Dependencies) -> tuple[list[Ids], list[tuple[int | None, int | None]]]:
    """Return the owner of every operation in each scope, -1 for none; and the devices."""
    ops = trace.table("ops")
    device, keys = identities(ops, ("rank", "device_id"))
    partition = known(ops["partition_id"], null=-1)
    return [deps.stream_key.astype(np.int64), partition, device], [(key[0], key[1]) for key in keys]


def _gaps(deps: Dependencies, owner: Ids, window: tuple[int, int] | None) -> Ids:
    """Return owner, start, end and next operation of the gaps of every owner."""
    rows = np.flatnonzero(owner >= 0)
    rows = rows[in_order(owner[rows], int(owner.max(initial=-1)) + 1)]
    start, end = deps.issue.start_ns[rows], deps.issue.end_ns[rows]
    low, high = window if window is not None else (NULL, -NULL - 1)
    found = _between(owner[rows], start, end, low, high, window is not None)
    found[:, 3] = np.where(found[:, 3] >= 0, rows[np.maximum(found[:, 3], 0)] if len(rows) else -1, -1)
    return np.asarray(found)


def _whereabouts(trace: Trace, deps: Dependencies, parts: Columns, following: Ids) -> tuple[Ids, Ids]:
    """Return the call and the innermost range that the thread was in, in the middle of each late part."""
    gap, start, end, cause = parts[:4]
    call_row, range_row = np.full(len(gap), -1), np.full(len(gap), -1)
    late = np.flatnonzero(cause == code_of("late_launch"))
    late = late[following[gap[late]] >= 0]
    if not len(late):
        return call_row, range_row
    calls, count = deps.calls, len(deps.calls.threads)
    thread = calls.thread[deps.issue_call[following[gap[late]]]]
    middle = (start[late] + end[late]) // 2
    call_row[late] = nest(calls.thread, calls.start_ns, calls.end_ns, count).innermost(thread, middle)
    table = trace.table("ranges")
    codes, keys = identities(table, ("rank", "process_id", "thread_id"))
    numbers = {key: number for number, key in enumerate(calls.threads)}
    of = np.array([numbers.get(key, -1) if key[2] is not None else -1 for key in keys] or [-1], np.int64)
    end = known(table["end_ns"])
    end = np.where(end == NULL, trace.span_ns, end)
    ranges = nest(of[codes] if len(codes) else codes, known(table["start_ns"]), end, count)
    range_row[late] = ranges.innermost(thread, middle)
    return call_row, range_row


@njit(cache=True, nogil=True)
def _between(  # noqa: PLR0917
    owner: Ids, start: Ids, end: Ids, low: int, high: int, has_window: bool
) -> Ids:
    """Return gaps between the intervals of each owner, sorted by owner and start, within `low` and `high`."""
    gaps = np.empty((2 * len(owner) + 1, 4), np.int64)
    used, reached = 0, low
    for k in range(len(owner)):
        begins = k == 0 or owner[k] != owner[k - 1]
        if begins:
            reached = low if has_window else start[k]
        since, until = max(reached, low), min(start[k], high)
        if since < until:
            following = k if start[k] <= high else -1
            gaps[used, 0], gaps[used, 1], gaps[used, 2], gaps[used, 3] = owner[k], since, until, following
            used += 1
        reached = max(reached, end[k])
        is_last = k + 1 == len(owner) or owner[k + 1] != owner[k]
        if is_last and has_window and reached < high:
            gaps[used] = np.array([owner[k], max(reached, low), high, -1])
            used += 1
    return gaps[:used]


@njit(cache=True, nogil=True)
def _write(  # noqa: PLR0917
    parts: Columns,
    used: int,
    gap: int,
    begin: int,
    finish: int,
    what: tuple[int, int, int, int],
    meets_host: bool,
) -> int:
    """Write a part, where there is room for one; return how many there are, written or not."""
    if begin >= finish:
        return used
    # Before the columns are taken apart: inside of a branch that would count references, ten times as slow.
    if used >= len(parts[0]):
        return used + 1
    gaps, starts, ends, causes, tables, rows, bits, meets = parts
    gaps[used], starts[used], ends[used], meets[used] = gap, begin, finish, meets_host
    causes[used], tables[used], rows[used], bits[used] = what
    return used + 1


@njit(cache=True, nogil=True)
def _cut(  # noqa: PLR0917
    parts: Columns,
    gaps: tuple[Ids, Ids, Ids],
    issues: tuple[Ids, Ids, Ids, Ids],
    states: tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids],
    waits: tuple[Ids, Ids, Ids, Any, Any, Ids, Any],
    codes: tuple[int, int],
) -> int:
    """Cut the gaps one by one: the host before the issue of the next operation, its wait from then on.

    Returns how many parts there are, more than `parts` has room for where it has too little.
    """
    starts, ends, following = gaps
    issued, calls, threads, call_starts = issues
    begins, wait_starts, wait_ends, causes, tables, rows, bits = waits
    late, unknown = codes
    used = 0
    for gap in range(len(starts)):
        start, end, op = starts[gap], ends[gap], following[gap]
        if op < 0:
            used = _write(parts, used, gap, start, end, (late, 0, -1, 0), False)
            continue
        issue, call = issued[op], calls[op]
        until = min(issue, end) if issue >= 0 else end
        if start < until:
            if call < 0 or threads[call] < 0 or issue < 0:
                used = _write(parts, used, gap, start, until, (unknown, 0, -1, 0), False)
            else:
                where = (start, until, threads[call], call_starts[call])
                used = _cut_host(parts, used, gap, where, states, late)
        since = max(start, issue)
        if issue < 0 or since >= end:
            continue
        low, high = begins[op], begins[op + 1]
        k = low + np.searchsorted(wait_ends[low:high], since, "right")
        while k < high and wait_starts[k] < end:
            what = (int(causes[k]), int(tables[k]), int(rows[k]), int(bits[k]))
            begin, finish = max(wait_starts[k], since), min(wait_ends[k], end)
            used = _write(parts, used, gap, begin, finish, what, begin == issue)
            k += 1
    return used


@njit(cache=True, nogil=True)
def _cut_host(  # noqa: PLR0917
    parts: Columns,
    used: int,
    gap: int,
    where: tuple[int, int, int, int],
    states: tuple[Ids, Ids, Ids, Ids, Ids, Ids, Ids],
    late: int,
) -> int:
    """Name a stretch after what a thread did; the issuing call is a part of its own."""
    at, until, thread, call_start = where
    begins, start, end, cause, table, row, bits = states
    low, high = begins[thread], begins[thread + 1]
    k = low + np.searchsorted(end[low:high], at, "right")
    while at < until:
        if k < high and start[k] <= at:
            finish = min(end[k], until)
            used = _write(parts, used, gap, at, finish, (cause[k], table[k], row[k], bits[k]), True)
            k += 1
        else:
            finish = min(start[k], until) if k < high else until
            if at < call_start < finish:
                finish = call_start
            used = _write(parts, used, gap, at, finish, (late, 0, -1, 0), True)
        at = finish
    return used
