"""How ranges of host threads lie in one another, and in which of them each device operation was launched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numba import njit

from overlane.analysis.keys import NULL, Ids, Lookup, dense, identities, known, words
from overlane.trace import Trace

__all__ = ["HOST_TRACKS", "Nesting", "nesting", "stem_of"]

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

HOST_TRACKS = ("operator", "annotation", "python", "other")
"""Kinds of ranges that lie on host threads and nest there; projections on the device repeat them."""


_NUMBER = re.compile(r"(?<=[\s#_:.-])\d+$")


def stem_of(name: str) -> str:
    """Return the name of a range without the number that tells repeated ones apart.

    Example:
        >>> stem_of("ProfilerStep#12"), stem_of("round 3"), stem_of("MeanBackward0")
        ('ProfilerStep#*', 'round *', 'MeanBackward0')
    """
    return _NUMBER.sub("*", name)


@dataclass(frozen=True)
class Nesting:
    """Ranges of host threads with what they lie in.

    Attributes:
        trace: The trace.
        row: Row id in `ranges` of each host range, in the order of threads and starts, int64, shape (n,).
        parent: Place in `row` of the innermost range around it, -1 for an outermost one.
        end_ns: Ends; an unfinished range ends with the trace.
        op_range: For each operation, place in `row` of the innermost range that its launch call began in, -1
            where the call or a range around it is not recorded; int64, shape (operations,).
    """

    trace: Trace
    row: Rows
    parent: Rows
    end_ns: Rows
    op_range: Rows

    @cached_property
    def start_ns(self) -> Rows:
        """Starts, in the order of `row`."""
        return np.asarray(self.trace.column("ranges", "start_ns")[self.row])

    @cached_property
    def depth(self) -> Rows:
        """How many ranges lie around each one."""
        found = np.zeros(len(self.row), np.int64)
        _depths(self.parent, found)
        return found

    @cached_property
    def names(self) -> tuple[Rows, list[str]]:
        """Code of the name of each range in the order of `row`, and the names."""
        codes, known_names = words(self.trace.table("ranges")["name"])
        return codes[self.row].astype(np.int64), known_names

    def is_track(self, *tracks: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tell which of the ranges are of these kinds, in the order of `row`."""
        codes, found = words(self.trace.table("ranges")["track"])
        wanted = [code for code, name in enumerate(found) if name in tracks]
        return np.isin(codes[self.row], wanted)

    def innermost(self, is_wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> Rows:
        """Return for each operation the innermost wanted range around its launch, -1 where there is none.

        Args:
            is_wanted: bool, shape (ranges,), in the order of `row`.
        """
        nearest = np.empty(len(self.row), np.int64)
        _nearest(self.parent, is_wanted, nearest)
        found: Rows = np.where(self.op_range >= 0, np.append(nearest, -1)[self.op_range], -1)
        return found


def nesting(trace: Trace) -> Nesting:
    """Nest the ranges of each host thread and find the range that each operation was launched in.

    Args:
        trace: Any trace; one without ranges gives empty arrays.
    """
    ranges, calls = trace.table("ranges"), trace.table("api_calls")
    track, tracks = words(ranges["track"])
    row = np.flatnonzero(np.isin(track, [c for c, name in enumerate(tracks) if name in HOST_TRACKS]))
    if not len(row):
        none = np.zeros(0, np.int64)
        return Nesting(trace, none, none, none, np.full(trace.table("ops").num_rows, -1, np.int64))
    start = known(ranges["start_ns"])
    end = known(ranges["end_ns"])
    end = np.where(end == NULL, np.maximum(start, trace.span_ns), end)
    threads = _threads(trace)
    order = np.lexsort((-end[row], start[row], threads[0][row]))
    row = row[order]
    parent = np.full(len(row), -1, np.int64)
    at = np.lexsort((known(calls["start_ns"]), threads[1]))
    within = np.full(len(at), -1, np.int64)
    _nest(threads[0][row], start[row], end[row], threads[1][at], known(calls["start_ns"])[at], parent, within)
    call_range = np.full(len(at), -1, np.int64)
    call_range[at] = within
    return Nesting(trace, row, parent, end[row], _launched_in(trace, call_range, row))


def _threads(trace: Trace) -> tuple[Ids, Ids]:
    """Number the host threads alike in `ranges` and `api_calls`."""
    parts = [
        identities(trace.table(name), ("rank", "process_id", "thread_id")) for name in ("ranges", "api_calls")
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys([*parts[0][1], *parts[1][1]]))}
    ranges, calls = (
        np.array([numbers[key] for key in keys], np.int64)[codes] if keys else codes for codes, keys in parts
    )
    return ranges, calls


def _launched_in(trace: Trace, call_range: Rows, row: Rows) -> Rows:
    """Return the innermost range around the launch of each operation, by its call or else by its operator."""
    ops, calls, ranges = trace.table("ops"), trace.table("api_calls"), trace.table("ranges")
    found = np.full(ops.num_rows, -1, np.int64)
    call = Lookup(_joined(trace, "api_calls", "correlation_id")).rows(_joined(trace, "ops", "correlation_id"))
    if calls.num_rows:
        found = np.where(call >= 0, call_range[call], -1)
    if ranges.num_rows:
        operator = Lookup(_joined(trace, "ranges", "external_id")[row]).rows(
            _joined(trace, "ops", "external_id")
        )
        found = np.where(found >= 0, found, operator)
    return found


def _joined(trace: Trace, table: str, column: str) -> Ids:
    """Return an id of a process made unique over the ranks of a trace; `NULL` where it is null."""
    ids = known(trace.table(table)[column])
    ranks = {rank: number for number, rank in enumerate(trace.ranks)}
    if len(ranks) < 2:
        return ids
    values = known(trace.table(table)["rank"])
    codes, found = dense(values)
    place = np.array([ranks[None if value == NULL else int(value)] for value in found], np.int64)
    return np.where(ids == NULL, NULL, ids * len(ranks) + place[codes])


@njit(cache=True, nogil=True)
def _nest(  # noqa: PLR0917 - arrays in, arrays out
    thread: Rows, start: Rows, end: Rows, call_thread: Rows, call_at: Rows, parent: Rows, within: Rows
) -> None:
    # Ranges and calls in the order of threads and times; the stack holds the ranges that are open.
    stack = np.empty(len(start) + 1, np.int64)
    depth, call = 0, 0
    for i in range(len(start) + 1):
        is_last = i == len(start)
        while call < len(call_at) and (
            is_last
            or call_thread[call] < thread[i]
            or (call_thread[call] == thread[i] and call_at[call] < start[i])
        ):
            while depth and (
                thread[stack[depth - 1]] != call_thread[call] or end[stack[depth - 1]] <= call_at[call]
            ):
                depth -= 1
            if depth:
                within[call] = stack[depth - 1]
            call += 1
        if is_last:
            break
        while depth and (thread[stack[depth - 1]] != thread[i] or end[stack[depth - 1]] <= start[i]):
            depth -= 1
        for k in range(depth - 1, -1, -1):  # ranges that overlap without nesting are no parents
            if end[stack[k]] >= end[i]:
                parent[i] = stack[k]
                break
        stack[depth] = i
        depth += 1


@njit(cache=True, nogil=True)
def _depths(parent: Rows, depth: Rows) -> None:
    for i in range(len(parent)):
        if parent[i] >= 0:
            depth[i] = depth[parent[i]] + 1


@njit(cache=True, nogil=True)
def _nearest(parent: Rows, is_wanted: Any, nearest: Rows) -> None:
    for i in range(len(parent)):
        if is_wanted[i]:
            nearest[i] = i
        elif parent[i] >= 0:
            nearest[i] = nearest[parent[i]]
        else:
            nearest[i] = -1
