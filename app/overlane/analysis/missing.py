"""Which rows a file may lack that could have held an operation after all that is known to order it.

A cause of the device's own part of a wait is only told where nothing unrecorded could have held the
operation: a wait for an event, the legacy default stream, a host function, or kernels whose sizes are not
known.
`docs/causes.md` holds the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from overlane.analysis.dependencies import DEPENDENCY_KINDS, Dependencies
from overlane.analysis.keys import Codes, Ids, dense, identities, words
from overlane.analysis.streams import Key, StreamRow, Streams
from overlane.trace import Trace

__all__ = ["MISSING", "OF_ORDER", "lacks_device_times", "missing_rows"]

MISSING = {
    "all_kinds": "Kinds of records were left out.",
    "syncs": "What streams were told to wait for was not recorded.",
    "event_records": "The record that a stream was told to wait for was not recorded.",
    "stream_kinds": "Streams do not say how they order with the legacy default stream.",
    "host_calls": "Host functions and waits for values were not recorded.",
    "whole_run": "What stood in the stream before the recording began was not recorded.",
    "grids": "Kernels that ran beside it do not say whether they left room.",
    "partitions": "Contexts of the device do not say whether they share it or take turns.",
    "overheads": "Loading of code by its first launch was not recorded.",
}
"""Why nobody can tell what held an operation, by what the file lacks, as headers name it; places are bits."""

_NAMES = tuple(MISSING)
OF_ORDER = sum(
    1 << _NAMES.index(name) for name in ("syncs", "event_records", "stream_kinds", "host_calls", "whole_run")
)
"""Bits of what may have ordered operations; a submission, which is stamped afterwards, makes up for these."""
_EVENT = DEPENDENCY_KINDS.index("event")
_HOST = DEPENDENCY_KINDS.index("host")
_IN_STREAM = (DEPENDENCY_KINDS.index("stream"), DEPENDENCY_KINDS.index("programmatic"))
_HELD_BY_LEGACY = {"blocking", "per_thread_default"}

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def lacks_device_times(trace: Trace) -> bool:
    """Return whether starts are brackets around operations, so that waiting for the device counts as work."""
    return _stated(trace, "device_times") is False


def missing_rows(trace: Trace, deps: Dependencies, has_unjudged_kernels: Flags) -> Codes:
    """Return the capabilities without which it is not told what held each operation, as bit sets.

    Args:
        trace: Trace.
        deps: Its dependencies.
        has_unjudged_kernels: Kernels that waited for the device while others ran, of which the rows do not
            tell whether they left room.
    """
    streams = deps.numbering
    found = np.zeros(len(deps.issued_ns), np.int32)
    several = _has_company(streams)[streams.of_op] if len(found) else np.zeros(0, np.bool_)

    def lack(name: str, which: Flags) -> None:
        found[which] |= 1 << _NAMES.index(name)

    if _stated(trace, "all_kinds") is False:
        lack("all_kinds", np.ones(len(found), np.bool_))
    lack("syncs", several if not _has_syncs(trace) else several & _may_wait(trace, deps))
    orders = (deps.kind == _EVENT) & (deps.end_ns < 0)
    dangling = np.zeros(len(found), np.bool_)
    dangling[deps.op[orders]] = True
    lack("event_records", dangling)
    lack("stream_kinds", several & _may_meet_legacy(deps, streams))
    has_calls = _stated(trace, "host_calls")
    if has_calls is False or (has_calls is None and not len(deps.calls.kind)):
        lack("host_calls", several)
    if _stated(trace, "whole_run") is False:
        lack("whole_run", _before(deps) < 0)
    lack("grids", has_unjudged_kernels)
    codes, kinds = words(trace.table("ops")["kind"])
    is_kernel = codes == (kinds.index("kernel") if "kernel" in kinds else -2)
    lack("partitions", is_kernel & _may_share(trace, streams)[streams.of_op])
    if not trace.table("overheads").num_rows and not _stated(trace, "all_kinds"):
        lack("overheads", is_kernel & _is_first_of_name(trace))
    return found


def _stated(trace: Trace, name: str) -> bool | None:
    """Return what the file says of a capability, None where it says nothing."""
    capability = trace.header.capabilities.get(name)
    return None if capability is None else capability.proven


def _has_syncs(trace: Trace) -> bool:
    stated = _stated(trace, "syncs")
    if stated is not None:
        return stated
    return bool(_stated(trace, "sync_ids")) or bool(trace.table("syncs").num_rows)


def _has_company(streams: Streams) -> Flags:
    """Return of every stream whether its process has others; one that is not known may be any of them."""
    named: dict[int | None, set[Key]] = {}
    for row in streams.rows:
        if row.stream_id is not None:
            named.setdefault(row.rank, set()).add((row.device_id, row.context_id, row.stream_id))
    return np.array(
        [row.stream_id is None or len(named[row.rank]) > 1 for row in streams.rows] or [False], np.bool_
    )


def _before(deps: Dependencies) -> Ids:
    """Return the previous operation of every operation's stream, -1 for none."""
    before = np.full(len(deps.issued_ns), -1)
    rows = np.flatnonzero(np.isin(deps.kind, _IN_STREAM))
    before[deps.op[rows]] = deps.source[rows]
    return before


def _may_wait(trace: Trace, deps: Dependencies) -> Flags:
    """Return the operations with an unrecorded wait between them and the one before in their stream.

    That is a call that tells a stream to wait for an event, of which no row tells stream and event.
    """
    loose = deps.calls.is_of("stream_wait") & deps.calls.has_succeeded
    if not loose.any():
        return np.zeros(len(deps.issued_ns), np.bool_)
    table = trace.table("syncs")
    codes, kinds = words(table["sync_kind"])
    rows = codes == (kinds.index("stream_wait_event") if "stream_wait_event" in kinds else -2)
    call = deps.calls.of_rows(table)[rows]
    loose[call[call >= 0]] = False
    at = np.sort(deps.calls.start_ns[loose])
    until = np.searchsorted(at, deps.issue.order_ns, "right")
    before = _before(deps)
    return np.asarray((until > 0) & ((before < 0) | (until[np.maximum(before, 0)] < until)))


def _may_meet_legacy(deps: Dependencies, streams: Streams) -> Flags:
    """Return the operations that the legacy default stream may have held, or that stood there and were held.

    So it is where kinds of streams are not known: on a stream that with another of its context may be the
    legacy default one and a blocking one, or behind an event, whose record may stand behind such a stream.
    """
    vague = {row.rank for row in streams.rows if row.device_id is None or row.context_id is None}
    contexts: dict[Key, list[int]] = {}
    for number, row in enumerate(streams.rows):
        place = (row.rank,) if row.rank in vague else _place(row, streams)
        contexts.setdefault(place, []).append(number)
    may = np.zeros(max(len(streams.rows), 1), np.bool_)
    for members in contexts.values():
        may[members] = _rests_on_kinds([streams.rows[number].stream_kind for number in members])
    if not may.any():
        return np.zeros(len(deps.issued_ns), np.bool_)
    found = may[streams.of_op]
    found[deps.op[deps.kind == _EVENT]] = True
    return np.asarray(found)


def _place(row: StreamRow, streams: Streams) -> Key:
    """Return what streams that meet share: rank, device and root context."""
    return row.rank, row.device_id, streams.root_of(row.rank, row.device_id, row.context_id)


def _rests_on_kinds(kinds: list[str | None]) -> Flags:
    """Return of each stream of a context whether its order with another rests on a kind that is not known."""
    unknown = np.array([kind is None for kind in kinds])
    legacy = np.array([kind == "legacy_default" for kind in kinds])
    legacy |= unknown & (not legacy.any())
    held = unknown | np.array([kind in _HELD_BY_LEGACY for kind in kinds])
    # How many others each may meet as the legacy stream, and as one held by it; pairs of known kinds apart.
    as_legacy = np.where(unknown, held.sum() - held, (held & unknown).sum())
    as_held = np.where(unknown, legacy.sum() - legacy, (legacy & unknown).sum())
    return np.asarray((legacy & (as_legacy > 0)) | (held & (as_held > 0)))


def _may_share(trace: Trace, streams: Streams) -> Flags:
    """Return the streams on devices of several contexts of which one does not say what it was made from."""
    described = {
        (row["rank"], row["device_id"], row["context_id"]) for row in trace.table("partitions").to_pylist()
    }
    contexts: dict[Key, set[Key]] = {}
    for number in np.unique(streams.of_op).tolist():
        row = streams.rows[number]
        key = (row.rank, row.device_id, row.context_id)
        contexts.setdefault(key[:2], set()).add(key)
    unclear = {place for place, found in contexts.items() if len(found) > 1 and not found <= described}
    return np.array([(row.rank, row.device_id) in unclear for row in streams.rows] or [False], np.bool_)


def _is_first_of_name(trace: Trace) -> Flags:
    """Return the operations before which none of the same rank, process and name started."""
    ops = trace.table("ops")
    codes, names = words(ops["name"])
    place, _ = identities(ops, ("rank", "process_id"))
    number, found = dense(place * (len(names) + 1) + codes + 1)
    first = np.zeros(len(found), np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    is_first = np.zeros(len(number), np.bool_)
    is_first[first] = True
    return is_first
