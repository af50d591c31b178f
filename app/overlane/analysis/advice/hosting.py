"""Rules on what the host did while the device had nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from overlane.analysis.advice.facts import Choice, Facts, Lost
from overlane.analysis.advice.model import Evidence, Finding, Rule, evidence
from overlane.analysis.calls import CALL_CLASSES
from overlane.analysis.work import Mask, text_codes
from overlane.figures.units import format_ns, format_stamps
from overlane.intervals import union_length
from overlane.tables import numbers

__all__ = ["RULES"]

Rows: TypeAlias = np.ndarray[Any, Any]

_SMALL_LEAST = 16
"""Fewer small operations are no pattern."""
_ALLOCATION_CALLS = tuple(name for name in CALL_CLASSES if name in {"allocation", "free"})
_ALLOCATING = ("allocation", "implicit_sync")
_LAUNCHING = ("late_launch", "launch_latency", "launch_queue_full")
_DOINGS = 3
_SHORT_CHANGE = {
    "kernels": "Do more in one kernel, or capture the sequence into a CUDA graph.",
    "copies": "Copy larger chunks: fewer, and each far longer than its launch.",
}
_AHEAD = "do what the host does there while the device works or in another thread"
_FURTHER_AHEAD = (
    "Most of the time passes between the calls: what the host does there costs more than launching."
)
_LATE_SHARE = 0.05
"""Late launches are worth a word from this share of the window on."""


def _loop_calls(facts: Facts) -> Rows:
    """Return the calls that allocate or free inside a loop; in stream order they may stay there."""
    return facts.repeated(*_ALLOCATION_CALLS, all_of_turn=True)


def _allocation(rule: Rule, facts: Facts) -> Iterator[Finding]:
    calls = _loop_calls(facts)
    held = facts.waits.of(*_ALLOCATING) & facts.held_in(facts.waits, calls)
    lost = facts.lost(
        waits=held,
        gaps=lambda parts: parts.of(*_ALLOCATING) & facts.held_in(parts, calls),
        streams_too=True,
    )
    if not lost.cost_ns:
        return
    frees = facts.calls.is_of("free")[calls].any()
    yield rule.found(
        f"{facts.most_called(calls)} stand between launches; for {format_ns(lost.cost_ns)} work waited or a "
        "stream had nothing to do because of them."
        f"{' Freeing memory waits for all work of the device.' if frees else ''}",
        "Allocate before the loop and use the memory again, or allocate in stream order (cudaMallocAsync, "
        "cudaFreeAsync) from a pool.",
        [facts.call_evidence(calls, "allocate or free between launches"), *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _allocation_once(rule: Rule, facts: Facts) -> Iterator[Finding]:
    # What is done in a loop, or waits for the device, has a rule of its own.
    other = np.union1d(_loop_calls(facts), _holding(facts))
    lost = facts.lost(gaps=lambda parts: parts.of("allocation") & ~facts.held_in(parts, other))
    if lost.cost_ns <= _LATE_SHARE * facts.window_ns:
        return
    calls = _proving_calls(facts, lost)
    if not len(calls):
        return
    longest = int(calls[_took(facts, calls).argmax()])
    codes, names = facts.call_names
    yield rule.found(
        f"{facts.most_called(calls)}: the device idled for {format_ns(lost.cost_ns)} meanwhile. The longest "
        f"call, {names[codes[longest]]}, took {format_ns(int(_took(facts, calls).max()))}. Pinned memory is "
        "locked page by page, and the first allocation in stream order makes the pool.",
        "Allocate once, before the first work; make the pool ahead with one allocation, and keep its memory "
        "(cudaMemPoolAttrReleaseThreshold).",
        [facts.call_evidence(calls, "allocate or free"), *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _took(facts: Facts, calls: Rows) -> Rows:
    return np.asarray(facts.calls.end_ns[calls] - facts.calls.start_ns[calls])


def _held_by_call(rule: Rule, facts: Facts, lost: Lost, words: str, change: str) -> Iterator[Finding]:
    """Yield a finding that names the calls which prove the lost time."""
    if not lost.cost_ns:
        return
    calls = _proving_calls(facts, lost)
    named = facts.most_called(calls) if len(calls) else "Calls"
    proof = [facts.call_evidence(calls, "held the work")] if len(calls) else []
    held = format_ns(int(_took(facts, calls).sum()))
    yield rule.found(
        words.format(calls=named, time=format_ns(lost.cost_ns), held=held),
        change,
        [*proof, *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _proving_calls(facts: Facts, lost: Lost) -> Rows:
    found = [lost.stream_gaps.proving_calls(), facts.waits.take(lost.waits).proving_calls()]
    return np.unique(np.concatenate([*found, facts.idle.take(lost.gaps).proving_calls()]))


def _module_load(rule: Rule, facts: Facts) -> Iterator[Finding]:
    lost = facts.lost(
        waits=facts.waits.of("module_load"), gaps=lambda parts: parts.of("module_load"), streams_too=True
    )
    yield from _held_by_call(
        rule,
        facts,
        lost,
        "{calls} held the calling thread for {held}; for {time} work waited or a stream had nothing to do "
        "because code was being loaded. With lazy loading the first launch of each function loads it, and "
        "waits for what runs.",
        "Load code before the timed part: launch every kernel once, or set CUDA_MODULE_LOADING=EAGER.",
    )


def _implicit_sync(rule: Rule, facts: Facts) -> Iterator[Finding]:
    calls = np.setdiff1d(_holding(facts), _loop_calls(facts))  # those in a loop have a rule of their own
    lost = facts.lost(
        waits=facts.waits.of(*_ALLOCATING) & facts.held_in(facts.waits, calls),
        gaps=lambda parts: parts.of(*_ALLOCATING) & facts.held_in(parts, calls),
        streams_too=True,
    )
    yield from _held_by_call(
        rule,
        facts,
        lost,
        "{calls} returned only when all issued work was over, without being a synchronization, and held the "
        "calling thread for {held}. For {time} work waited or a stream had nothing to do because of it.",
        "Allocate and free, make green contexts, and set limits before the first work is issued or after "
        "the last; free in stream order (cudaFreeAsync) in between.",
    )


def _holding(facts: Facts) -> Rows:
    """Return calls that had to wait for the device; allocating waits for nothing, in stream order or not."""
    calls = facts.synchronizing()
    return np.asarray(calls[~facts.calls.is_of("allocation", "allocation_async")[calls]])


def _small_rows(facts: Facts, which: Mask) -> tuple[Rows, Rows, int]:
    """Return operations shorter than the calls that launched them, how long these took, and of how many.

    One launch of a graph is one call for many operations and is not meant. Nothing is returned where such
    operations are few.
    """
    none = np.zeros(0, np.int64)
    has_call = facts.issue_call >= 0
    if not has_call.any():
        return none, none, 0
    call = np.maximum(facts.issue_call, 0)
    took = facts.calls.end_ns[call] - facts.calls.start_ns[call]
    has_own = has_call & (np.bincount(call[has_call], minlength=len(facts.calls.start_ns))[call] == 1)
    own = has_own & facts.in_window() & which
    rows = np.flatnonzero(own & (facts.work.end - facts.work.start < took))
    total = int(own.sum())
    if len(rows) < _SMALL_LEAST or 2 * len(rows) < total:
        return none, none, total
    return rows, took[rows], total


def _short(facts: Facts) -> Iterator[tuple[str, Rows, Rows, int, Lost]]:
    """Yield kernels and copies shorter than their launches, with how long these took, and the idle time.

    Copies before which the host spent more time between its calls than in them are left out: their size is
    not what costs. A graph helps kernels all the same.
    """
    for kind, which in (("kernels", facts.work.is_kernel), ("copies", facts.work.is_copy)):
        rows, took, total = _small_rows(facts, which)
        lost = facts.lost(gaps=_before(*_LAUNCHING, ops=rows))
        if lost.cost_ns and (kind == "kernels" or 2 * _launching(facts, lost)[1] <= lost.cost_ns):
            yield kind, rows, took, total, lost


def _small(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for kind, rows, took, total, lost in _short(facts):
        median = format_ns(_median(facts.work.end[rows] - facts.work.start[rows]))
        words, between = _launching(facts, lost)
        change = _SHORT_CHANGE[kind]
        yield rule.found(
            f"{len(rows)} of {total} {kind} took less time (median {median}) than the calls that launched "
            f"them (median {format_ns(_median(took))}). The device idled for {format_ns(lost.cost_ns)} "
            f"before them: {words}.",
            f"{change} {_FURTHER_AHEAD}" if 2 * between > lost.cost_ns else change,
            [facts.op_evidence(rows, "shorter than their launch call"), *facts.held_evidence(lost)],
            cost_ns=lost.cost_ns,
            device_idle_ns=lost.device_idle_ns,
        )


def _launching(facts: Facts, lost: Lost) -> tuple[str, int]:
    """Say which part of idle time the launches took; return that and what the host spent between calls."""
    parts = facts.idle.take(lost.gaps)
    is_late = parts.of("late_launch")
    between = int(parts.length_ns[is_late & (parts.call_row < 0)].sum())
    inside = int(parts.length_ns[is_late].sum()) - between
    words = (
        f"{format_ns(inside)} in calls, {format_ns(lost.cost_ns - inside - between)} until the device "
        f"started them, {format_ns(between)} on the host between its calls"
    )
    return words, between


def _before(*causes: str, ops: Rows, inverted: bool = False) -> Choice:
    """Choose parts of some causes before some operations, or before all others."""
    return lambda parts: np.asarray(
        parts.of(*causes) & (parts.op >= 0) & np.isin(parts.op, ops, invert=inverted)
    )


def _median(values: Rows) -> int:
    return int(np.sort(values)[(len(values) - 1) // 2])


def _late(rule: Rule, facts: Facts) -> Iterator[Finding]:
    parts = facts.idle
    # What the launches themselves take has a rule of its own.
    small = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows, *_ in _short(facts))])
    lost = facts.lost(gaps=_before("late_launch", ops=small, inverted=True))
    if lost.cost_ns <= _LATE_SHARE * facts.window_ns:
        return
    length = parts.length_ns[lost.gaps]
    longest = int(lost.gaps[length.argmax()])
    when = format_stamps(int(parts.start_ns[longest]), int(parts.end_ns[longest]))
    doing, proof = _host_work(facts, lost)
    yield rule.found(
        f"The device idled for {format_ns(lost.cost_ns)} in {len(lost.gaps)} gaps because its next work had "
        f"not been issued: {doing}. The longest gap is {format_ns(int(length.max()))} before operation "
        f"{int(parts.op[longest])}, at {when}.",
        _late_change(facts, longest, is_most=2 * int(length.max()) > lost.cost_ns),
        [*proof, *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _late_change(facts: Facts, longest: int, *, is_most: bool) -> str:
    """Say what to change where work is issued late; one long gap is another matter than many short ones."""
    call = int(facts.idle.call_row[longest])
    if not is_most:
        return f"Issue work further ahead: {_AHEAD}, or replay the whole step as a CUDA graph."
    if call >= 0 and facts.calls.is_of("launch")[call]:
        return (
            "Most of it passes inside this one launch call. A first launch loads code and makes what the "
            "kernel needs: launch every kernel once before the part that counts."
        )
    return f"Most of it is this one gap; leave it out with --window where it is set-up, else {_AHEAD}."


def _host_work(facts: Facts, lost: Lost) -> tuple[str, list[Evidence]]:
    """Say in which ranges, and in which calls, the host spent the idle time, the longest first."""
    parts = facts.idle
    words: list[str] = []
    proof: list[Evidence] = []
    length = parts.length_ns[lost.gaps]
    for table, rows, where in (
        ("ranges", parts.range_row[lost.gaps], "ranges"),
        ("api_calls", parts.call_row[lost.gaps], "calls"),
    ):
        known = rows >= 0
        if not known.any():
            continue
        codes, names = text_codes(facts.trace.table(table)["name"])
        total = np.bincount(codes[rows[known]], weights=length[known], minlength=len(names)).astype(np.int64)
        most = np.argsort(-total, kind="stable")[:_DOINGS]
        spent = ", ".join(f"{names[code]} ({format_ns(int(total[code]))})" for code in most if total[code])
        words.append(f"{'in the' if words else 'the host was in the'} {where} {spent}")
        first, last = parts.start_ns[lost.gaps[known]], parts.end_ns[lost.gaps[known]]
        proof.append(evidence(table, rows[known], first, last, "what the host was doing"))
    if not words:
        return "no range or call tells what the host was doing", proof
    is_named = (parts.range_row[lost.gaps] >= 0) | (parts.call_row[lost.gaps] >= 0)
    rest = int(length[~is_named].sum())
    if rest:
        words.append(f"outside of all recorded ranges and calls for {format_ns(rest)}")
    return "; ".join(words), proof


def _recording(rule: Rule, facts: Facts) -> Iterator[Finding]:
    overheads = facts.trace.table("overheads")
    caused = facts.lost(
        waits=facts.waits.of("profiler_overhead"), gaps=lambda parts: parts.of("profiler_overhead")
    )
    launching = facts.lost(gaps=_before(*_LAUNCHING, "unknown", ops=np.arange(len(facts.work))))
    if not caused.cost_ns or caused.cost_ns < launching.cost_ns:
        return
    start = numbers(overheads["start_ns"])
    end = numbers(overheads["end_ns"], null=0)
    rows = np.flatnonzero((start < facts.window[1]) & (end > facts.window[0]))
    proof = [evidence("overheads", rows, start[rows], end[rows], "recording")] if len(rows) else []
    yield rule.found(
        f"Recording itself held the work for {format_ns(caused.cost_ns)} "
        f"({format_ns(union_length((start[rows], end[rows])))} of overhead in the window), more than the "
        f"{format_ns(launching.cost_ns)} of gaps that the host would explain: do not draw conclusions from "
        "gaps of this size.",
        "Record fewer kinds of rows or a shorter time, or record what was warmed up before.",
        [*proof, *facts.held_evidence(caused)],
        cost_ns=caused.cost_ns,
        device_idle_ns=caused.device_idle_ns,
    )


RULES = (
    Rule(
        "allocation_in_loop",
        "Memory is allocated or freed inside the loop",
        ("launch_times",),
        "CUDA C++ Programming Guide, Implicit synchronization; Stream ordered memory allocator",
        _allocation,
    ),
    Rule(
        "allocation_once",
        "The device idles while memory is allocated",
        ("launch_times",),
        "CUDA C++ Programming Guide, Stream ordered memory allocator; CUDA C++ Best Practices Guide, Pinned "
        "memory",
        _allocation_once,
    ),
    Rule(
        "code_loading",
        "Work waited for code to be loaded",
        ("launch_times",),
        "CUDA C++ Programming Guide, Lazy loading; CUPTI overhead records",
        _module_load,
    ),
    Rule(
        "implicit_sync",
        "A call synchronizes implicitly",
        ("launch_times",),
        "CUDA C++ Programming Guide, Implicit synchronization",
        _implicit_sync,
    ),
    Rule(
        "launches_cost_more_than_work",
        "Operations are shorter than their launches",
        ("launch_times",),
        "CUDA C++ Best Practices Guide, Concurrent kernel execution; CUDA C++ Programming Guide, CUDA graphs",
        _small,
    ),
    Rule(
        "late_launches",
        "The device idles because work is issued late",
        ("launch_times",),
        "CUDA C++ Programming Guide, Asynchronous concurrent execution",
        _late,
    ),
    Rule(
        "recording_cost",
        "Recording cost more than the gaps it would explain",
        ("recording_cost",),
        "CUPTI, Activity overhead records",
        _recording,
        is_about_results=True,
    ),
)
