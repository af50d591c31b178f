"""What had been taken of the device while an operation, free of all dependencies, had not started yet.

Every finding is a claim: that a row held an operation from one moment to another. Where claims of one
operation meet, the lower rank goes first; `overlane.analysis.waits` cuts the wait by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from overlane.analysis.causes import code_of
from overlane.analysis.dependencies import PROOF_TABLES, Dependencies
from overlane.analysis.growing import with_room
from overlane.analysis.keys import NULL, Ids, dense, in_order, known, words
from overlane.analysis.missing import lacks_device_times
from overlane.analysis.sms import Device, claim_sms, devices_of
from overlane.analysis.streams import Streams
from overlane.trace import Trace

__all__ = ["RANKS", "Resources", "covering_claims", "root_contexts"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

RANKS = {
    "priority": 0,
    "copy_engine_busy": 1,
    "partition_busy": 1,
    "channel_shared": 3,
    "blocking_copy": 4,
    "launch_latency": 5,
    "context_switch": 6,
    "module_load": 7,
    "implicit_sync": 8,
    "allocation": 8,
    "profiler_overhead": 9,
}
"""Which claim goes first where several meet, by cause."""

_MOST_BACK = 256
"""Operations looked at before one, at most, in the search for what held it."""
_MOST_AHEAD = 16
"""The same for operations ahead in a hardware queue."""
_OPS = PROOF_TABLES.index("ops")


class Resources:
    """What of the devices of a trace was taken, and by what.

    Args:
        trace: Trace.
        deps: Its dependencies.
    """

    def __init__(self, trace: Trace, deps: Dependencies) -> None:
        self._ops, self._deps = trace.table("ops"), deps
        self._context, self._contexts = root_contexts(deps.numbering)
        # Brackets of events stand around operations: what ran, and what only waited for room, is not known.
        self._is_told = not lacks_device_times(trace)
        self._devices = devices_of(trace, self._context, self._contexts) if self._is_told else []
        self._engine = _engine_groups(self._ops)
        kinds, found = words(self._ops["kind"])
        self._is_kernel: Flags = kinds == (found.index("kernel") if "kernel" in found else -2)
        self._priority = _priorities(self._ops, deps.numbering)

    def claims(self, window: tuple[Ids, Ids]) -> Ids:
        """Return what held operations among the resources of the device.

        Args:
            window: From when to when each operation waited for the device, empty where it did not.

        Returns:
            int64 array, shape (claims, 7): the columns of `overlane.analysis.sms.CLAIM`, then the code of the
            table of the row.
        """
        if not self._is_told:
            return np.zeros((0, 7), np.int64)
        deps = self._deps
        times = deps.issue.start_ns, deps.issue.end_ns
        causes = code_of("partition_busy"), code_of("priority")
        parts = [claim_sms(device, times, window, self._priority, causes) for device in self._devices]
        rows = np.flatnonzero(self._engine >= 0)
        every = np.arange(len(self._engine))
        parts.append(_back(self._engine, deps, window, rows, "copy_engine_busy", every))
        parts.append(_channels(self._ops, deps, self._context, window))
        of_device = self._shared_devices()
        if of_device is not None:
            rows = np.flatnonzero(self._is_kernel)
            parts.append(_back(of_device, deps, window, rows, "context_switch", self._context))
        claims = np.concatenate(parts)
        return np.column_stack([claims, np.full(len(claims), _OPS)])

    def _shared_devices(self) -> Ids | None:
        """Return the device of every operation, None where none has kernels of unrelated contexts."""
        devices: dict[tuple[int | None, ...], int] = {}
        of_root = np.array([devices.setdefault(key[:2], len(devices)) for key in self._contexts] or [0])
        return None if len(devices) == len(self._contexts) else of_root[self._context]

    def unjudged(self, since: Ids) -> Flags:
        """Return the kernels beside which others ran of which the rows do not tell whether they left room.

        Args:
            since: int64, shape (ops,), moments before the starts.
        """
        judged = np.zeros(len(since), np.bool_)
        for device in self._devices:
            judged[device.rows[(device.needs[:, 0] > 0) & (device.areas > 0)]] = True
        unjudged = self._is_kernel & ~judged
        if not self._is_told or not unjudged.any():
            return np.zeros(len(since), np.bool_)
        # Unrelated contexts take turns, whatever room there is.
        context, start = self._context, self._deps.issue.start_ns
        asked = np.where(self._is_kernel & (since < start), context, -1)
        all_kernels = np.where(self._is_kernel, context, -1)
        beside: Flags = unjudged & _ran_within(all_kernels, self._deps, asked, since, start)
        beside |= _ran_within(np.where(unjudged, context, -1), self._deps, asked, since, start)
        return beside

    def taken_as_well(self, parts: tuple[Ids, Ids, Ids]) -> Ids:
        """Return what had been taken of the device while something else held an operation, as sets of causes.

        Args:
            parts: Operation, start and end of parts of waits.

        Returns:
            int64 array, shape (parts,): bit of `copy_engine_busy` where another copy of the engine ran within
            the part, of `partition_busy` where kernels with more blocks than fit had all of the SMs, of
            `priority` where one of higher priority was among what ran then, of `context_switch` where a
            kernel of an unrelated context ran, of `channel_shared` where another stream was ahead in the
            queue, of `blocking_copy` inside the own call.
        """
        op, since, until = parts
        deps, bits = self._deps, np.zeros(len(op), np.int64)
        if not self._is_told:
            return bits
        busy = _ran_within(self._engine, deps, self._engine[op], since, until)
        bits[busy] |= 1 << code_of("copy_engine_busy")
        for device in self._devices:
            self._crowded(device, parts, bits)
        of_device = self._shared_devices()
        if of_device is not None:
            bits[self._taking_turns(of_device, parts)] |= 1 << code_of("context_switch")
        start, issued = deps.issue.start_ns, deps.issued_ns
        ahead = _channels(self._ops, deps, self._context, (np.where(issued >= 0, issued, start), start))
        if len(ahead):
            until_ahead = np.full(len(start), -1)
            np.maximum.at(until_ahead, ahead[:, 0], ahead[:, 2])
            bits[until_ahead[op] > since] |= 1 << code_of("channel_shared")
        if len(deps.calls.end_ns):
            own = deps.issue.is_blocking_copy[op] & (deps.calls.end_ns[deps.issue_call[op]] > since)
            bits[own] |= 1 << code_of("blocking_copy")
        return bits

    def _crowded(self, device: Device, parts: tuple[Ids, Ids, Ids], bits: Ids) -> None:
        """Set the bits of `partition_busy` and `priority` for the kernels of a device."""
        if not (device.least < 0).any():
            return
        op, since, until = parts
        count = len(self._engine)
        areas = np.zeros(count, np.int64)
        areas[device.rows] = device.areas
        mine = np.flatnonzero(areas[op] > 0)
        full = np.ones(len(mine), np.bool_)
        for area in range(len(device.sms)):
            of = np.full(count, -1)
            of[device.rows[(device.least < 0) & (device.areas >> area & 1 == 1)]] = 0
            ran = _ran_within(of, self._deps, np.zeros(len(mine), np.int64), since[mine], until[mine])
            full &= ran | (areas[op[mine]] >> area & 1 == 0)
        mine = mine[full]
        bits[mine] |= 1 << code_of("partition_busy")
        urgency = self._priority[device.rows]
        for level in np.unique(urgency[urgency != NULL])[1:]:
            of = np.full(count, -1)
            of[device.rows[(urgency < level) & (urgency != NULL)]] = 0
            lower = mine[self._priority[op[mine]] == level]
            ran = _ran_within(of, self._deps, np.zeros(len(lower), np.int64), since[lower], until[lower])
            bits[lower[ran]] |= 1 << code_of("priority")

    def _taking_turns(self, of_device: Ids, parts: tuple[Ids, Ids, Ids]) -> Flags:
        """Return the parts of kernels within which a kernel of an unrelated context ran."""
        op, since, until = parts
        found = np.zeros(len(op), np.bool_)
        for context in np.unique(self._context[self._is_kernel]):
            others = np.where(self._is_kernel & (self._context != context), of_device, -1)
            mine = np.flatnonzero(self._is_kernel[op] & (self._context[op] == context))
            found[mine] = _ran_within(others, self._deps, of_device[op[mine]], since[mine], until[mine])
        return found


def root_contexts(streams: Streams) -> tuple[Ids, list[tuple[int | None, ...]]]:
    """Number the contexts of operations, green ones as their parents; rank, device and context of each."""
    by_stream: dict[tuple[int | None, ...], int] = {}
    of_stream = []
    for row in streams.rows:
        root = streams.root_of(row.rank, row.device_id, row.context_id)
        of_stream.append(by_stream.setdefault((row.rank, row.device_id, root), len(by_stream)))
    numbers = np.array(of_stream or [0], np.int64)
    return (numbers[streams.of_op] if len(streams.of_op) else streams.of_op), list(by_stream)


def _priorities(ops: pa.Table, streams: Streams) -> Ids:
    """Return the priority of every operation's stream; records of kernels name 0 for every stream."""
    of_stream = np.array(
        [NULL if r.priority is None else r.priority for r in streams.rows] or [NULL], np.int64
    )
    given = known(ops["priority"])
    if not len(given):
        return given
    found = of_stream[streams.of_op]
    return np.where(found == NULL, given, found)


def _back(  # noqa: PLR0917
    groups: Ids, deps: Dependencies, window: tuple[Ids, Ids], rows: Ids, cause: str, own: Ids
) -> Ids:
    """Claim for what ran among earlier starts of the same group, where `own` differs."""
    if not len(rows) or not (window[0][rows] < window[1][rows]).any():
        return np.zeros((0, 6), np.int64)
    order = rows[in_order(groups[rows], int(groups.max()) + 1)]
    start, end = deps.issue.start_ns[order], deps.issue.end_ns[order]
    claims = _looked_back(groups[order], start, end, window[0][order], window[1][order], own[order])
    claims[:, 0], claims[:, 5] = order[claims[:, 0]], order[claims[:, 5]]
    # The work of another context is seen to run; a row of the host only covers what nothing else explains.
    claims[:, 3] = RANKS["channel_shared"] if cause == "context_switch" else RANKS[cause]
    claims[:, 4] = code_of(cause)
    return np.asarray(claims)


def _engine_groups(ops: pa.Table) -> Ids:
    """Return a number for the engine of every copy, -1 for other operations."""
    kinds, kind_words = words(ops["kind"])
    engines, found = words(ops["engine"])
    is_copy = (kinds == (kind_words.index("memcpy") if "memcpy" in kind_words else -2)) & (engines >= 0)
    return np.where(is_copy, _device_numbers(ops) * max(len(found), 1) + engines, -1)


def _device_numbers(ops: pa.Table) -> Ids:
    rank, _ = dense(known(ops["rank"]))
    device, found = dense(known(ops["device_id"]))
    return rank * max(len(found), 1) + device


def _channels(ops: pa.Table, deps: Dependencies, context: Ids, window: tuple[Ids, Ids]) -> Ids:
    """Claim for operations of other streams that were issued before on the same hardware queue."""
    channel = known(ops["channel_id"])
    rows = np.flatnonzero(channel != NULL)
    if not len(rows) or not (window[0][rows] < window[1][rows]).any():
        return np.zeros((0, 6), np.int64)
    number, found = dense(channel[rows])
    # Queues belong to a context: equal numbers of unrelated ones are different queues.
    group = context[rows] * len(found) + number
    order = np.lexsort((deps.issue.order_ns[rows], group))
    rows, group = rows[order], group[order]
    claims = _issued_before(
        group,
        deps.issue.start_ns[rows],
        deps.issue.end_ns[rows],
        window[0][rows],
        window[1][rows],
        deps.stream_key[rows].astype(np.int64),
    )
    claims[:, 0], claims[:, 5] = rows[claims[:, 0]], rows[claims[:, 5]]
    claims[:, 3], claims[:, 4] = RANKS["channel_shared"], code_of("channel_shared")
    return np.asarray(claims)


def _ran_within(groups: Ids, deps: Dependencies, asked: Ids, since: Ids, until: Ids) -> Flags:
    """Return whether an operation of each asked group, -1 for none, ran at some time of each interval."""
    rows = np.flatnonzero(groups >= 0)
    if not len(rows) or not len(asked):
        return np.zeros(len(asked), np.bool_)
    rows = rows[in_order(groups[rows], int(groups.max()) + 1)]
    start, end, group = deps.issue.start_ns[rows], deps.issue.end_ns[rows], groups[rows]
    span = int(end.max()) + 1
    # Shifted apart group by group, one running maximum serves all groups.
    reached = np.maximum.accumulate(group * span + end)
    place = np.searchsorted(group * span + start, asked * span + np.minimum(until, span - 1)) - 1
    ran: Flags = (place >= 0) & (asked >= 0)
    ran &= reached[np.maximum(place, 0)] > asked * span + since
    return ran


def covering_claims(trace: Trace, deps: Dependencies, window: tuple[Ids, Ids], floor: Ids) -> Ids:
    """Return where rows of the host cover waits to their end: loading, implicit waits, the recording.

    Args:
        trace: Trace.
        deps: Its dependencies.
        window: From when to when each operation waited for the device.
        floor: int64, shape (ops,), launch latency that may follow the row.

    Returns:
        int64 array, shape (claims, 7), as of `resource_claims`.
    """
    parts = [_rows_of_overheads(trace), _rows_of_calls(deps)]
    start, end, cause, table, row = (np.concatenate([part[k] for part in parts]) for k in range(5))
    waiting = np.flatnonzero(window[1] - window[0] > floor)
    if not len(start) or not len(waiting):
        return np.zeros((0, 7), np.int64)
    order = np.lexsort((start, end))
    claims = _covering(end[order], start[order], window[0][waiting], window[1][waiting], floor[waiting])
    of, place = waiting[claims[:, 0]], order[claims[:, 1]]
    ranks = np.zeros(64, np.int64)
    for name, rank in RANKS.items():
        ranks[code_of(name)] = rank
    since = np.maximum(window[0][of], start[place])
    kind = cause[place]
    return np.column_stack([of, since, end[place], ranks[kind], kind, row[place], table[place]])


_OVERHEADS = {
    "context_switch": "context_switch",
    "lazy_function_loading": "module_load",
    "runtime_triggered_module_loading": "module_load",
    "driver_compiler": "module_load",
}


def _rows_of_overheads(trace: Trace) -> tuple[Ids, ...]:
    table = trace.table("overheads")
    codes, kinds = words(table["kind"])
    of_recording = known(table["of_recording"].cast(pa.uint8()), null=0) == 1
    causes = np.array(
        [code_of(_OVERHEADS[name]) if name in _OVERHEADS else -1 for name in map(_plain, kinds)] or [-1]
    )
    cause = np.where(of_recording, code_of("profiler_overhead"), causes[codes] if len(codes) else -1)
    end = known(table["end_ns"])
    rows = np.flatnonzero((cause >= 0) & (end != NULL))
    tables = np.full(len(rows), PROOF_TABLES.index("overheads"))
    return known(table["start_ns"])[rows], end[rows], cause[rows], tables, rows


def _plain(kind: str) -> str:
    return kind.lower().replace(" ", "_")


def _rows_of_calls(deps: Dependencies) -> tuple[Ids, ...]:
    calls = deps.calls
    cause = np.full(len(calls.kind), -1)
    # Calls that allocate hold nothing; those that free hold until the device has ended.
    for kind, name in (("module_load",) * 2, ("implicit_sync",) * 2, ("free", "allocation")):
        cause[calls.is_of(kind)] = code_of(name)
    rows = np.flatnonzero(cause >= 0)
    tables = np.full(len(rows), PROOF_TABLES.index("api_calls"))
    return calls.start_ns[rows], calls.end_ns[rows], cause[rows], tables, rows


@njit(cache=True, nogil=True)
def _looked_back(  # noqa: PLR0917
    group: Ids, start: Ids, end: Ids, low: Ids, high: Ids, own: Ids
) -> Ids:
    """Claim for operations of one group, sorted by start, that ran while a later one waited."""
    claims = np.empty((64, 6), np.int64)
    used = 0
    latest = np.empty(len(start), np.int64)
    for k in range(len(start)):
        begins = k == 0 or group[k] != group[k - 1]
        latest[k] = end[k] if begins else max(latest[k - 1], end[k])
    for k in range(len(start)):
        if low[k] >= high[k]:
            continue
        other, steps = k - 1, 0
        while other >= 0 and group[other] == group[k] and latest[other] > low[k] and steps < _MOST_BACK:
            begin, finish = max(start[other], low[k]), min(end[other], high[k])
            if begin < finish and own[other] != own[k]:
                claims = with_room(claims, used)
                claims[used, 0], claims[used, 1], claims[used, 2], claims[used, 5] = k, begin, finish, other
                used += 1
            other -= 1
            steps += 1
    return claims[:used]


@njit(cache=True, nogil=True)
def _issued_before(  # noqa: PLR0917
    group: Ids, start: Ids, end: Ids, low: Ids, high: Ids, stream: Ids
) -> Ids:
    """Claim for operations issued before on the same channel: until they end, or start where they run on."""
    claims = np.empty((64, 6), np.int64)
    used = 0
    for k in range(len(start)):
        if low[k] >= high[k]:
            continue
        other, steps = k - 1, 0
        while other >= 0 and group[other] == group[k] and steps < _MOST_AHEAD:
            until = end[other] if end[other] <= high[k] else start[other]
            if stream[other] != stream[k] and low[k] < until <= high[k]:
                claims = with_room(claims, used)
                claims[used, 0], claims[used, 1], claims[used, 2], claims[used, 5] = k, low[k], until, other
                used += 1
            other -= 1
            steps += 1
    return claims[:used]


@njit(cache=True, nogil=True)
def _covering(end: Ids, start: Ids, low: Ids, high: Ids, floor: Ids) -> Any:
    """Pair waits with rows that had begun when the device was waited for and ended right before the start."""
    claims = np.empty((64, 2), np.int64)
    used = 0
    for k in range(len(low)):
        place = np.searchsorted(end, high[k], "right") - 1
        while place >= 0 and end[place] >= high[k] - floor[k] and end[place] > low[k]:
            if start[place] <= low[k]:
                claims = with_room(claims, used)
                claims[used, 0], claims[used, 1] = k, place
                used += 1
            place -= 1
    return claims[:used]
