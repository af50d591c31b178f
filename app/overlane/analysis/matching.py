"""Which operations of two runs are the same: matched by name, stream role, launch order and dependency.

Names lose what runs differ in without being different work: the memory kinds of copies. Streams have no names
that hold over runs, so each has a *role*: the name that the program gave it, without its number; the default
stream; or else the stream of the other run whose work resembles its own most. Operations of one role and name
are one *group*.

Within a group, occurrences are paired first with those that follow the same operation in their stream (what
they depend on), then with those that are left, each in the order of their launches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from overlane.analysis.keys import NULL, Ids, dense, group_rows, identities, known, words
from overlane.analysis.work import Mask
from overlane.intervals import close_unfinished
from overlane.trace import Trace

__all__ = ["Groups", "Match", "Occurrences", "group", "pair"]

_Key: TypeAlias = tuple[int, str, str, str]
"""Place of the device among the trace's, role of the stream, kind, name."""

_COPY = re.compile(r"^(Mem(?:cpy|set)\b[^(]*?)\s*\([^()]*\)$")
_NUMBER = re.compile(r"[\s#_:.-]*\d+$")
_ALIKE_FROM = 0.2
"""Cosine of the counts of names from which two unnamed streams have the same role."""


@dataclass(frozen=True)
class Occurrences:
    """The operations of one capture.

    Attributes:
        trace: The capture.
        group: Number of each operation's group in `Groups.keys`, int64, shape (operations,).
        stream: Number of its stream in the capture.
        duration_ns: Length of each operation, int64; an unfinished one ends with the trace.
        start_ns: Start of each operation.
    """

    trace: Trace
    group: Ids
    stream: Ids
    duration_ns: Ids
    start_ns: Ids


@dataclass(frozen=True)
class Groups:
    """The groups of several captures.

    Attributes:
        keys: Device place, stream role, kind and name of each group.
        captures: The operations of each capture, in the given order.
    """

    keys: tuple[_Key, ...]
    captures: tuple[Occurrences, ...]


@dataclass(frozen=True)
class Match:
    """Operations of two captures that are the same.

    Attributes:
        first: Row ids in `ops` of one capture, int64, shape (pairs,), rising.
        second: Their counterparts in the other.
        same_dependency: Whether the operations before them in their streams are the same too.
    """

    first: Ids
    second: Ids
    same_dependency: np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class _Stream:
    """One stream of a capture.

    Attributes:
        device: Place of its device among those that have operations.
        stream_id: Its id, for an unnamed role.
        role: Role that it says of itself; empty where it says none.
        counts: Number of each of its names.
    """

    device: int
    stream_id: int | None
    role: str
    counts: dict[str, int]


def plain_name(name: str, kind: str) -> str:
    """Return the name that an operation has in every run.

    Example:
        >>> plain_name("Memcpy HtoD (Pinned -> Device)", "memcpy")
        'Memcpy HtoD'
    """
    found = _COPY.match(name) if kind in {"memcpy", "memset"} else None
    return found.group(1) if found else name


def group(traces: Sequence[Trace]) -> Groups:
    """Group the operations of captures by device, stream role, kind and name.

    Args:
        traces: Captures; the roles of unnamed streams are those of the first capture that has them.
    """
    keys: dict[_Key, int] = {}
    roles: list[tuple[_Stream, str]] = []
    captures = []
    for trace in traces:
        ops = trace.table("ops")
        kind, kinds = words(ops["kind"])
        name, names = words(ops["name"])
        codes, stream_keys = identities(ops, ("rank", "device_id", "context_id", "stream_id"))
        pair_codes, pairs = dense(kind.astype(np.int64) * max(len(names), 1) + name)
        labels = [
            (kinds[pair // len(names)], plain_name(names[pair % len(names)], kinds[pair // len(names)]))
            for pair in pairs.tolist()
        ]
        streams = _streams(trace, stream_keys, codes, pair_codes, labels)
        found_roles = _roles(streams, roles)
        both, combined = dense(codes * max(len(labels), 1) + pair_codes)
        numbers = [
            keys.setdefault(
                (
                    streams[at // len(labels)].device,
                    found_roles[at // len(labels)],
                    *labels[at % len(labels)],
                ),
                len(keys),
            )
            for at in combined.tolist()
        ]
        start = trace.column("ops", "start_ns")
        end = known(ops["end_ns"])
        end = close_unfinished(start, end, end == NULL, trace.span_ns)
        of_code = np.array(numbers, np.int64)
        captures.append(Occurrences(trace, of_code[both] if numbers else both, codes, end - start, start))
    return Groups(tuple(keys), tuple(captures))


def pair(first: Occurrences, second: Occurrences, *, inside: tuple[Mask, Mask] | None = None) -> Match:
    """Pair the operations of two captures that were grouped together.

    Args:
        first: One capture.
        second: The other, of the same `Groups`.
        inside: Which operations of each to pair, shape (operations,); None for all.
    """
    sides = (first, second)
    rows = [np.flatnonzero(mask) for mask in inside] if inside else [np.arange(len(x.group)) for x in sides]
    groups = [side.group[mine] for side, mine in zip(sides, rows, strict=True)]
    before = [_before(side)[mine] for side, mine in zip(sides, rows, strict=True)]
    base = 2 + max(int(side.group.max(initial=0)) for side in sides)
    close = _joined(*(group * base + previous + 1 for group, previous in zip(groups, before, strict=True)))
    rest = [np.ones(len(mine), np.bool_) for mine in rows]
    for left, taken in zip(rest, close, strict=True):
        left[taken] = False
    loose = _joined(*(group[left] for group, left in zip(groups, rest, strict=True)))
    one, other = (
        mine[np.concatenate([taken, np.flatnonzero(left)[of_left]])]
        for mine, taken, left, of_left in zip(rows, close, rest, loose, strict=True)
    )
    partner = np.full(len(first.group), -1, np.int64)
    partner[one] = other
    is_close = np.zeros(len(first.group), np.bool_)
    is_close[one[: len(close[0])]] = True
    paired = np.flatnonzero(partner >= 0)
    return Match(paired, partner[paired], is_close[paired])


def _before(side: Occurrences) -> Ids:
    """Return the group of the operation before each one in its stream, -1 for the first of a stream."""
    order, begins = group_rows(side.stream, int(side.stream.max(initial=-1)) + 1)  # in the order of starts
    before = np.full(len(order) + 1, -1, np.int64)
    before[1:] = side.group[order]
    before[begins[:-1]] = -1
    found = np.empty(len(order), np.int64)
    found[order] = before[:-1]
    return found


def _joined(first: Ids, second: Ids) -> tuple[Ids, Ids]:
    """Return the rows of equal keys, the first of one side with the first of the other and so on."""
    codes, found = dense(np.concatenate([first, second]))
    (order_a, begins_a), (order_b, begins_b) = (
        group_rows(side, len(found)) for side in (codes[: len(first)], codes[len(first) :])
    )
    both = np.minimum(np.diff(begins_a), np.diff(begins_b))
    offsets = np.arange(int(both.sum())) - np.repeat(np.cumsum(both) - both, both)
    return tuple(
        order[np.repeat(begins[:-1], both) + offsets]
        for order, begins in ((order_a, begins_a), (order_b, begins_b))
    )


def _streams(
    trace: Trace,
    keys: list[tuple[int | None, ...]],
    codes: Ids,
    pair_codes: Ids,
    labels: list[tuple[str, str]],
) -> list[_Stream]:
    """Describe the streams that have operations, in the order of `keys`."""
    table = trace.table("streams").to_pylist()
    names = ("rank", "device_id", "context_id", "stream_id")
    rows: dict[tuple[int | None, ...], dict[str, Any]] = {
        tuple(row[name] for name in names): row for row in table
    }
    devices = sorted(
        {key[:2] for key in keys}, key=lambda key: tuple((part is None, part or 0) for part in key)
    )
    both, combined = dense(codes * max(len(labels), 1) + pair_codes)
    amounts = np.bincount(both, minlength=len(combined)).tolist()
    counts: list[dict[str, int]] = [{} for _ in keys]
    for at, amount in zip(combined.tolist(), amounts, strict=True):
        name = labels[at % len(labels)][1]
        counts[at // len(labels)][name] = counts[at // len(labels)].get(name, 0) + amount
    return [
        _Stream(devices.index(key[:2]), key[3], _own_role(rows.get(key)), counts[number])
        for number, key in enumerate(keys)
    ]


def _own_role(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["name"]:
        return _NUMBER.sub("", row["name"]) or row["name"]
    return "default stream" if row["stream_kind"] in {"legacy_default", "per_thread_default"} else ""


def _roles(streams: list[_Stream], known_roles: list[tuple[_Stream, str]]) -> list[str]:
    """Return the role of each stream, and remember those of unnamed streams that are new."""
    found = [stream.role for stream in streams]
    candidates = [
        (-_likeness(stream.counts, other.counts), stream.stream_id != other.stream_id, number, place)
        for number, stream in enumerate(streams)
        if not stream.role
        for place, (other, _) in enumerate(known_roles)
        if other.device == stream.device
    ]
    taken: set[int] = set()
    for unlikeness, _, number, place in sorted(candidates):  # the likest first
        if -unlikeness >= _ALIKE_FROM and not found[number] and place not in taken:
            found[number] = known_roles[place][1]
            taken.add(place)
    used = {role for _, role in known_roles} | set(found)
    for number, stream in enumerate(streams):
        if not found[number]:
            role = "stream not recorded" if stream.stream_id is None else f"stream {stream.stream_id}"
            while role in used:
                role += " (another)"
            used.add(role)
            found[number] = role
            known_roles.append((stream, role))
    return found


def _likeness(one: dict[str, int], other: dict[str, int]) -> float:
    """Return the cosine between the counts of names, 0..1."""
    shared = sum(count * other.get(name, 0) for name, count in one.items())
    lengths = [sum(count * count for count in counts.values()) ** 0.5 for counts in (one, other)]
    return float(shared / (lengths[0] * lengths[1])) if all(lengths) else 0.0
