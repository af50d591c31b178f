"""How the engines of each device shared its time: busy, overlap, idle, exposed copies, concurrency.

Definitions:

* The *window* runs from the first start to the last end of the trace's device operations, unless one is
  given. Operations count with their parts inside it.
* *Busy* time of a set of operations is the length of the union of their intervals; it is never a sum of
  durations. That sum is `work_ns`.
* *Overlap* of two engines is the time in which both are busy. *Idle* is the window without the union of all
  operations, copies included. *Exposed* copy time is the time in which a copy is under way and nothing
  computes.
* An operation whose engine the source does not say is busy time of the engine `None` ("unclassified").
* An operation without a known end is taken to run until the trace's last stamp, and counted in
  `unfinished_count`.
* An operation of zero length counts as an operation and adds no time.

Every number carries the longest unbroken interval that proves it, so that a page can show the place.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.analysis import sweep as swept
from overlane.errors import OverlaneError
from overlane.intervals import Times, close_unfinished
from overlane.trace import Trace
from overlane_collect.schema import ENGINES

__all__ = [
    "ConcurrencyLevel",
    "DeviceReport",
    "EngineOverlap",
    "EngineReport",
    "EngineUse",
    "Interval",
    "engine_report",
]

Interval: TypeAlias = tuple[int, int]
"""Start and end in ns from the trace's origin, half-open."""

_CLASSES: tuple[str | None, ...] = (*ENGINES, None)
_MASKS = np.arange(1 << swept.CLASSES)
_FEW_CODES = 4096
"""Ids this close together are their own codes, which takes no look-up."""


@dataclass(frozen=True)
class EngineUse:
    """What one engine of a device did.

    Attributes:
        engine: Engine of the contract, None for operations whose engine the source does not say.
        op_count: Operations that touch the window.
        busy_ns: Time in which at least one of them ran.
        work_ns: Their durations inside the window, added up.
        longest_ns: Longest unbroken busy interval, None when there is none.
        exposed_ns: For a copy engine, the time in which it was busy and nothing computed; None for others.
        exposed_longest_ns: Longest unbroken such interval.
    """

    engine: str | None
    op_count: int
    busy_ns: int
    work_ns: int
    longest_ns: Interval | None
    exposed_ns: int | None
    exposed_longest_ns: Interval | None


@dataclass(frozen=True)
class EngineOverlap:
    """Two engines of a device at once; each pair that has operations stands once.

    Attributes:
        engine_a: The one that comes first in `ENGINES`.
        engine_b: The other; None is the last.
        overlap_ns: Time in which both were busy.
        longest_ns: Longest unbroken such interval, None when there is none.
    """

    engine_a: str | None
    engine_b: str | None
    overlap_ns: int
    longest_ns: Interval | None


@dataclass(frozen=True)
class ConcurrencyLevel:
    """The time with exactly so many operations open.

    Attributes:
        level: Open operations, 0 is idle.
        ns: Time at that level; all levels add up to the window.
        longest_ns: Longest unbroken such interval, None when there is none.
    """

    level: int
    ns: int
    longest_ns: Interval | None


@dataclass(frozen=True)
class DeviceReport:
    """One device of one rank.

    Attributes:
        rank: Rank, None when the source names none.
        device_id: Device, None when the source names none.
        window: Start and end of the window in ns.
        window_ns: Its length.
        op_count: Operations that touch the window.
        unfinished_count: Operations without a known end, taken to run until the trace's last stamp.
        busy_ns: Time in which at least one operation ran.
        busy_longest: Longest unbroken such interval.
        idle_ns: The rest of the window.
        idle_longest: Longest gap.
        work_ns: Durations of all operations inside the window, added up.
        exposed_copy_ns: Time in which a copy was under way and nothing computed.
        exposed_longest: Longest unbroken such interval.
        engines: Engines that have operations, in the order of `ENGINES`, unclassified last.
        overlap: Pairs of these engines.
        concurrency: Time by number of open operations, levels without time left out.
    """

    rank: int | None
    device_id: int | None
    window: Interval
    window_ns: int
    op_count: int
    unfinished_count: int
    busy_ns: int
    busy_longest: Interval | None
    idle_ns: int
    idle_longest: Interval | None
    work_ns: int
    exposed_copy_ns: int
    exposed_longest: Interval | None
    engines: tuple[EngineUse, ...]
    overlap: tuple[EngineOverlap, ...]
    concurrency: tuple[ConcurrencyLevel, ...]


@dataclass(frozen=True)
class EngineReport:
    """The devices of a trace, in the order of rank and device id, unnamed ones last.

    Attributes:
        devices: One entry per device that has operations anywhere in the trace.
    """

    devices: tuple[DeviceReport, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; intervals are lists of start and end, None is null."""
        return {"schema": 1, "devices": [_plain(device) for device in self.devices]}


def engine_report(trace: Trace, *, window: tuple[int, int] | None = None) -> EngineReport:
    """Measure how the engines of every device shared its time.

    Args:
        trace: Any trace; one without device operations has no devices.
        window: Start and end in ns from the trace's origin; by default from the first start to the last end
            of the trace's device operations.

    Raises:
        OverlaneError: The window ends before it starts.

    Example:
        >>> import overlane
        >>> from overlane.analysis.engines import engine_report
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> engine_report(trace).devices[0].idle_ns  # doctest: +SKIP
    """
    if window is not None and window[1] < window[0]:
        raise OverlaneError(f"the window {window[0]}:{window[1]} ends before it starts; give its start first")
    ops = trace.table("ops")
    if not ops.num_rows:
        return EngineReport(())
    start = _numbers(ops["start_ns"])
    end, unfinished = _known_ends(trace, start)
    engine = _engine_classes(ops["engine"])
    group, identities = _groups(ops["rank"], ops["device_id"])
    given = window or (int(start[0]), int(end.max()))
    reports = []
    operations = swept.by_group(start, end, engine, group, len(identities))
    for which, ((rank, device_id), columns) in enumerate(zip(identities, operations, strict=True)):
        if not len(columns[0]):
            continue
        measured = swept.sweep(*columns, window=given, takes_edge=window is None)
        open_ended = int(np.count_nonzero(unfinished & (group == which))) if unfinished is not None else 0
        reports.append(_device(rank, device_id, given, open_ended, measured))
    order = sorted(
        reports, key=lambda d: (d.rank is None, d.rank or 0, d.device_id is None, d.device_id or 0)
    )
    return EngineReport(tuple(order))


def _plain(value: Any) -> Any:
    """Return a result as dictionaries, lists and plain values."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _device(
    rank: int | None, device_id: int | None, window: Interval, unfinished_count: int, measured: swept.Sweep
) -> DeviceReport:
    """Turn the sums over subsets into the numbers of one device."""
    present = [e for e in range(swept.CLASSES) if measured.op_count[e]]
    idle_ns = int(measured.subset_ns[0])
    window_ns = window[1] - window[0]

    def busy(bits: int, without: int = 0) -> int:
        return int(measured.subset_ns[(_MASKS & bits != 0) & (_MASKS & without == 0)].sum())

    def longest(row: int) -> Interval | None:
        length, since = (int(value) for value in measured.longest[row])
        return (since, since + length) if length else None

    def use(e: int) -> EngineUse:
        is_copy = bool(swept.COPIES >> e & 1)
        return EngineUse(
            engine=_CLASSES[e],
            op_count=int(measured.op_count[e]),
            busy_ns=busy(1 << e),
            work_ns=int(measured.work_ns[e]),
            longest_ns=longest(e),
            exposed_ns=busy(1 << e, swept.COMPUTE) if is_copy else None,
            exposed_longest_ns=longest(swept.EXPOSED + e) if is_copy else None,
        )

    def overlap(a: int, b: int) -> EngineOverlap:
        both = (_MASKS >> a & _MASKS >> b & 1).astype(bool)
        ns = int(measured.subset_ns[both].sum())
        return EngineOverlap(_CLASSES[a], _CLASSES[b], ns, longest(swept.pair_row(a, b)))

    return DeviceReport(
        rank=rank,
        device_id=device_id,
        window=window,
        window_ns=window_ns,
        op_count=int(measured.op_count.sum()),
        unfinished_count=unfinished_count,
        busy_ns=window_ns - idle_ns,
        busy_longest=longest(swept.BUSY),
        idle_ns=idle_ns,
        idle_longest=longest(swept.IDLE),
        work_ns=int(measured.work_ns.sum()),
        exposed_copy_ns=busy(swept.COPIES, swept.COMPUTE),
        exposed_longest=longest(swept.ANY_EXPOSED),
        engines=tuple(use(e) for e in present),
        overlap=tuple(overlap(a, b) for a, b in combinations(present, 2)),
        concurrency=_concurrency(measured),
    )


def _concurrency(measured: swept.Sweep) -> tuple[ConcurrencyLevel, ...]:
    return tuple(
        ConcurrencyLevel(level, int(ns), (int(since), int(until)) if until > since else None)
        for level, (ns, (since, until)) in enumerate(
            zip(measured.level_ns, measured.level_longest, strict=True)
        )
        if ns
    )


def _known_ends(trace: Trace, start: Times) -> tuple[Times, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """Return the ends with unknown ones at the trace's last stamp, and where they were unknown."""
    column = trace.table("ops")["end_ns"]
    if not column.null_count:
        return _numbers(column), None
    unfinished = _numbers(pc.cast(pc.is_null(column), pa.uint8())).astype(bool)
    return close_unfinished(start, _numbers(pc.fill_null(column, 0)), unfinished, trace.span_ns), unfinished


def _engine_classes(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the class of each operation, 0 to 5 as in `ENGINES`, 6 where the source does not say."""
    column = column.unify_dictionaries()
    words = column.chunk(0).dictionary.to_pylist()
    classes = np.array([*(_CLASSES.index(word) for word in words), len(ENGINES)], np.uint8)
    codes = pa.chunked_array([chunk.indices for chunk in column.chunks])
    if codes.null_count:
        codes = pc.fill_null(codes, len(words))
    return np.asarray(classes[_numbers(codes)])


def _groups(
    rank: pa.ChunkedArray, device: pa.ChunkedArray
) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[tuple[int | None, int | None]]]:
    """Number the devices of the operations: a code per row, and rank and device id per code, used or not."""
    rank_codes, ranks = _codes(rank)
    device_codes, devices = _codes(device)
    if len(ranks) == len(devices) == 1:
        return rank_codes, [(ranks[0], devices[0])]
    pairs = rank_codes * np.int32(len(devices)) + device_codes if len(ranks) > 1 else device_codes
    return pairs, [*product(ranks, devices)]


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, np.dtype[np.int32]], list[int | None]]:
    """Return a code per row and the value of each code; a column of one value takes no look-up."""
    ends = pc.min_max(column).as_py()
    if column.null_count == len(column) or (not column.null_count and ends["min"] == ends["max"]):
        return np.zeros(len(column), np.int32), [ends["min"]]
    if not column.null_count and ends["max"] - ends["min"] < _FEW_CODES:
        return _numbers(column) - np.int32(ends["min"]), [*range(ends["min"], ends["max"] + 1)]
    encoded = pc.dictionary_encode(column, null_encoding="encode").unify_dictionaries()
    codes = pa.chunked_array([chunk.indices for chunk in encoded.chunks])
    return _numbers(codes).astype(np.int32, copy=False), encoded.chunk(0).dictionary.to_pylist()


def _numbers(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return a column without nulls, where possible uncopied; `to_numpy` would import pandas."""
    parts = [np.from_dlpack(chunk) for chunk in column.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
