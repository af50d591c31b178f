"""Rules on what orders the work: default stream, synchronizations, missing and misplaced order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overlane.analysis.advice.facts import Facts
from overlane.analysis.advice.model import Finding, NotChecked, Rule, evidence
from overlane.analysis.work import Mask, text_codes
from overlane.figures.units import format_ns
from overlane.intervals import Times
from overlane.tables import numbers

__all__ = ["RULES"]

_SPANNING = ("device_sync", "context_sync")
_STREAM = ("device_id", "context_id", "stream_id")


def _legacy(rule: Rule, facts: Facts) -> Iterator[Finding]:
    parts = facts.waits
    lost = facts.lost(waits=parts.of("legacy_default_stream"))
    if not lost.cost_ns:
        return
    stream, identities = facts.work.stream
    held = np.unique(parts.op[lost.waits])
    rows = lost.waits[parts.proven_by("ops", np.arange(len(facts.work)))[lost.waits]]
    proof = [facts.op_evidence(np.unique(parts.proof_row[rows]), "ran meanwhile")] if len(rows) else []
    names = ", ".join(
        dict.fromkeys(_stream_name(facts, identities[code]) for code in np.unique(stream[held]))
    )
    yield rule.found(
        f"{len(held)} operations waited because one of two was on the legacy default stream and the other "
        f"on a blocking stream of its context: streams {names} were held for {format_ns(lost.cost_ns)}.",
        "Put that work on a stream of its own, create the streams with cudaStreamNonBlocking, or compile "
        "with --default-stream per-thread; order with an event where order is needed.",
        [facts.op_evidence(held, "waited"), *proof],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _stream_name(facts: Facts, identity: tuple[Any, ...]) -> str:
    """Return a stream's number, with its name where the program gave one."""
    for row in facts.trace.table("streams").to_pylist():
        if (row["rank"], row["device_id"], row["context_id"], row["stream_id"]) == identity and row["name"]:
            return f"{identity[3]} ({row['name']})"
    return str(identity[3])


def _device_sync(rule: Rule, facts: Facts) -> Iterator[Finding]:
    calls = facts.repeated(*_SPANNING)
    lost = facts.lost(
        gaps=lambda parts: parts.of("host_sync") & facts.held_in(parts, calls), streams_too=True
    )
    if not lost.cost_ns:
        return
    streams = len(np.unique(facts.work.stream[0][facts.in_window()]))
    yield rule.found(
        f"{facts.most_called(calls)} stand between launches: the thread waits for everything on the device "
        f"before it issues more, and {streams} streams stand still. Work that is issued earlier could fill "
        f"at most {format_ns(lost.cost_ns)} of that time.",
        "Wait for the one event or stream whose result is needed, as late as possible; where the host "
        "needs no result, order the streams with cudaStreamWaitEvent instead.",
        [facts.call_evidence(calls, "synchronize between launches"), *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _host_sync(rule: Rule, facts: Facts) -> Iterator[Finding]:
    calls = facts.repeated("stream_sync", "event_sync", "copy_sync")
    lost = facts.lost(
        gaps=lambda parts: parts.of("host_sync") & facts.held_in(parts, calls), streams_too=True
    )
    if not lost.cost_ns:
        return
    yield rule.found(
        f"{facts.most_called(calls)} stand between launches: streams have nothing to do while the thread "
        f"that issues their work waits for a result. Work that is issued earlier could fill at most "
        f"{format_ns(lost.cost_ns)} of that time.",
        "Issue the next piece of work before waiting for this one, so that one is always queued; keep "
        "results on the device until they are needed.",
        [facts.call_evidence(calls, "wait between launches"), *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _timing(rule: Rule, facts: Facts) -> Iterator[Finding | NotChecked]:
    codes, names = facts.call_names
    timing = [code for code, name in enumerate(names) if "EventElapsedTime" in name]
    if not timing:
        yield NotChecked(
            rule.name,
            "No call that reads the time between two events was recorded, so none is known to be timed.",
        )
        return
    timed = {int(thread) for thread in np.unique(facts.calls.thread[np.isin(codes, timing)])}
    records = _record_pairs(facts, timed)
    if len(records):
        at = numbers(facts.trace.table("event_records")["at_ns"], null=0)[records]
        yield rule.found(
            f"{len(records)} times, two events were recorded one after the other in a stream that was given "
            "no work in between, while other streams were: the time between them says nothing about that "
            "work.",
            "Record both events in the stream whose work is timed.",
            [evidence("event_records", records, at, at, "enclose no work of their stream")],
        )


def _record_pairs(facts: Facts, threads: set[int]) -> np.ndarray[Any, Any]:
    """Return pairs of records that follow one another in a stream without work between, shape (n, 2).

    Only pairs between which their thread gave work to other streams count, and only events that no stream
    waits for.
    """
    table = facts.trace.table("event_records")
    if not table.num_rows:
        return np.zeros((0, 2), np.int64)
    call = facts.calls.of_rows(table)
    at = numbers(table["at_ns"], null=-1)
    waited = np.unique(numbers(facts.trace.table("syncs")["cuda_event_id"], null=-1)[_stream_waits(facts)])
    event = numbers(table["cuda_event_id"], null=-1)
    thread = np.where(call >= 0, facts.calls.thread[call], -1) if len(facts.calls.thread) else call
    usable = (at >= 0) & np.isin(thread, list(threads)) & ~np.isin(event, waited)
    streams = [numbers(table[name], null=-1) for name in _STREAM]
    rows = np.flatnonzero(usable)
    rows = rows[np.lexsort((at[rows], *(column[rows] for column in streams), thread[rows]))]
    first, second = rows[:-1], rows[1:]
    follows = thread[first] == thread[second]
    for column in streams:
        follows &= column[first] == column[second]
    first, second = first[follows], second[follows]
    issued = np.flatnonzero(facts.issue_call >= 0)
    calls = facts.issue_call[issued]
    ops = [facts.calls.thread[calls], *(facts.work.ids(name)[issued] for name in _STREAM)]
    own = [thread[first], *(column[first] for column in streams)]
    starts, low, high = facts.calls.start_ns[calls], at[first], at[second]
    given = _between(ops, starts, own, low, high)
    by_thread = _between(ops[:1], starts, own[:1], low, high)
    return np.asarray(np.stack([first, second], axis=1)[(given == 0) & (by_thread > 0)])


def _between(
    keys: list[np.ndarray[Any, Any]],
    at: Times,
    wanted: list[np.ndarray[Any, Any]],
    low: Times,
    high: Times,
) -> np.ndarray[Any, Any]:
    """Count the instants of each wanted key in `[low, high)`.

    Keys and instants are numbered, so that both fit into one sorted number.
    """
    both = np.stack([np.concatenate([a, b]) for a, b in zip(keys, wanted, strict=True)]).astype(np.int64)
    numbered = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    times = np.unique(np.concatenate([at, low, high]))
    room = len(times) + 1
    line = np.sort(numbered[: len(at)] * room + np.searchsorted(times, at))
    base = numbered[len(at) :] * room
    ends = (np.searchsorted(line, base + np.searchsorted(times, edge)) for edge in (high, low))
    return np.asarray(next(ends) - next(ends))


def _stream_waits(facts: Facts) -> Mask:
    codes, names = text_codes(facts.trace.table("syncs")["sync_kind"])
    return (
        np.asarray(codes == names.index("stream_wait_event")) if "stream_wait_event" in names else codes < -1
    )


RULES = (
    Rule(
        "legacy_default_stream",
        "The legacy default stream holds other streams",
        ("launch_times", "stream_kinds"),
        "CUDA Runtime API, Stream synchronization behavior",
        _legacy,
    ),
    Rule(
        "device_sync_in_loop",
        "The whole device is waited for inside the loop",
        ("launch_times",),
        "CUDA C++ Programming Guide, Explicit synchronization; CUPTI synchronization records",
        _device_sync,
    ),
    Rule(
        "host_waits_in_loop",
        "The device idles while the host waits for it",
        ("launch_times",),
        "CUDA C++ Best Practices Guide, Asynchronous and overlapping transfers with computation",
        _host_sync,
    ),
    Rule(
        "timing_elsewhere",
        "Timing events enclose no work of their stream",
        ("launch_times", "event_records"),
        "CUDA Runtime API, cudaEventElapsedTime; CUPTI event records",
        _timing,
        is_about_results=True,
    ),
)
