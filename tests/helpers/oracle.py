"""A slow second opinion on a Kineto file, written apart from the code under test and sharing nothing with it.

It walks the JSON with the standard library, keeps every stamp as an exact integer of nanoseconds made from
the text, and measures a device in two ways that must agree. `measure` cuts the window at every stamp: between
two neighbouring stamps the set of running operations does not change, so each piece is counted once for
whatever runs in it. `measure_by_unions` merges intervals and knows only the length of a union: the overlap of
two engines is the length of both minus that of their union, exposed copy time the union with compute minus
compute.

Definitions (the design's words): intervals are half-open; the window goes from the first start to the last
end of the trace's device operations; busy is the time in which at least one operation runs, overlap of two
engines the time in which both have one; exposed copy time is the time in which a copy runs and no compute
does. Annotations projected onto the device repeat its time and are never counted.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

__all__ = [
    "DeviceTruth",
    "FileTruth",
    "Op",
    "measure",
    "measure_by_unions",
    "nanoseconds",
    "read_file",
    "read_text",
]

_END = object()
"""Stands behind the last item of a list, since an item itself may be null."""

COPY_ENGINES = ("copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p")

UNSET = (None, -1, 4294967295)
"""What files write for an id that is not known; the contract has null for it."""

# Category as the file writes it (old files use capitals) -> table of the trace contract.
TABLE_OF_CATEGORY = {
    "kernel": "ops", "gpu_memcpy": "ops", "gpu_memset": "ops", "mtia_ccp_events": "ops",
    "Kernel": "ops", "Memcpy": "ops", "Memset": "ops",
    "cuda_runtime": "api_calls", "cuda_driver": "api_calls", "mtia_runtime": "api_calls",
    "Runtime": "api_calls",
    "cuda_sync": "syncs",
    "cuda_event": "event_records", "overhead": "overheads",
}  # fmt: skip
# Everything else that has a duration is a range: operators, annotations, their projections, Python, spans.


@dataclass(frozen=True)
class Op:
    """One device operation: exact times from the file's origin, and what identifies it."""

    start_ns: int
    end_ns: int
    device: int | None
    stream: int | None
    engine: str | None
    name: str
    correlation: int | None


@dataclass
class DeviceTruth:
    """What one device did, in whole nanoseconds."""

    window: tuple[int, int]
    busy_ns: int
    idle_ns: int
    engine_busy_ns: dict[str | None, int]
    engine_work_ns: dict[str | None, int]
    engine_ops: dict[str | None, int]
    overlap_ns: dict[tuple[str | None, str | None], int]
    exposed_copy_ns: int
    concurrency_ns: dict[int, int]
    longest_ns: dict[object, int] = field(default_factory=dict, compare=False)
    """Longest unbroken stretch: by (engine,), pair, number of open operations, and by word for the rest."""


@dataclass
class FileTruth:
    """What a Kineto file holds: its events, where each belongs, the exact times, and the devices' figures."""

    events: int = 0
    rank: int | None = None
    origin_ns: int | None = None
    base_ns: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    derived: Counter[str] = field(default_factory=Counter)
    """Rows by table that are no event of their own: see `_Derived`."""
    ops: list[Op] = field(default_factory=list)
    intervals: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)

    @property
    def devices(self) -> dict[int | None, DeviceTruth]:
        """Figures by device id, measured anew on every access."""
        by_device: dict[int | None, list[Op]] = {}
        for op in self.ops:
            by_device.setdefault(op.device, []).append(op)
        window = (
            (min(op.start_ns for op in self.ops), max(op.end_ns for op in self.ops)) if self.ops else None
        )
        return {
            device: measure(((op.start_ns, op.end_ns, op.engine) for op in ops), window)
            for device, ops in by_device.items()
        }


def nanoseconds(stamp: Any) -> int:
    """Return a microsecond stamp (int, Decimal or text) as exact nanoseconds.

    Raises:
        ValueError: The stamp has digits below the nanosecond, which no whole number can hold.
    """
    scaled = Decimal(str(stamp)).scaleb(3)
    whole = int(scaled)
    if whole != scaled:
        raise ValueError(f"{stamp} is not a whole number of nanoseconds")
    return whole


def measure(
    intervals: Iterable[tuple[int, int, str | None]], window: tuple[int, int] | None = None
) -> DeviceTruth:
    """Return the figures of one device from (start, end, engine), by pieces between neighbouring stamps.

    Args:
        intervals: The device's operations.
        window: What they are measured in and lie in; by default from their first start to their last end.
    """
    rows = list(intervals)
    changes: dict[int, Counter[str | None]] = {stamp: Counter() for stamp in window or ()}
    for start, end, engine in rows:
        changes.setdefault(start, Counter())
        changes.setdefault(end, Counter())
        changes[start][engine] += 1
        changes[end][engine] -= 1
    stamps = sorted(changes)
    engines = _in_order({engine for _, _, engine in rows})
    truth = DeviceTruth(
        window=(stamps[0], stamps[-1]),
        busy_ns=0,
        idle_ns=0,
        engine_busy_ns=dict.fromkeys(engines, 0),
        engine_work_ns={e: sum(b - a for a, b, engine in rows if engine == e) for e in engines},
        engine_ops={e: sum(1 for *_, engine in rows if engine == e) for e in engines},
        overlap_ns=dict.fromkeys(combinations(engines, 2), 0),
        exposed_copy_ns=0,
        concurrency_ns={},
    )
    running: Counter[str | None] = Counter()
    since: dict[object, int] = {}
    for here, there in pairwise(stamps):
        running.update(changes[here])
        facts = _count_piece(truth, {e: n for e, n in running.items() if n}, there - here)
        since = {fact: since.get(fact, here) for fact in facts}
        for fact, start in since.items():
            truth.longest_ns[fact] = max(truth.longest_ns.get(fact, 0), there - start)
    return truth


def _in_order(engines: Iterable[str | None]) -> list[str | None]:
    return sorted(engines, key=lambda engine: (engine is None, engine or ""))


def _count_piece(truth: DeviceTruth, running: Mapping[str | None, int], length: int) -> list[object]:
    """Add one piece to the figures and return what is true in it."""
    open_operations = sum(running.values())
    truth.concurrency_ns[open_operations] = truth.concurrency_ns.get(open_operations, 0) + length
    if not open_operations:
        truth.idle_ns += length
        return [open_operations, "idle"]
    truth.busy_ns += length
    facts: list[object] = [open_operations, "busy", *((engine,) for engine in running)]
    for engine in running:
        truth.engine_busy_ns[engine] += length
    for pair in combinations(_in_order(running), 2):
        truth.overlap_ns[pair] += length
        facts.append(pair)
    if "compute" not in running and any(engine in COPY_ENGINES for engine in running):
        truth.exposed_copy_ns += length
        facts.append("exposed")
    return facts


def measure_by_unions(intervals: Iterable[tuple[int, int, str | None]]) -> dict[str, Any]:
    """Return busy, engine busy, overlap and exposed copy time of `DeviceTruth` from lengths of unions."""
    rows = list(intervals)
    by_engine: dict[str | None, list[tuple[int, int]]] = {}
    for start, end, engine in rows:
        by_engine.setdefault(engine, []).append((start, end))
    busy = {engine: _union_length(own) for engine, own in by_engine.items()}
    pairs = combinations(_in_order(busy), 2)
    compute = by_engine.get("compute", [])
    copies = [row for engine in COPY_ENGINES for row in by_engine.get(engine, [])]
    overlaps = {(a, b): busy[a] + busy[b] - _union_length(by_engine[a] + by_engine[b]) for a, b in pairs}
    return {
        "busy_ns": _union_length([(start, end) for start, end, _ in rows]),
        "engine_busy_ns": busy,
        "overlap_ns": overlaps,
        "exposed_copy_ns": _union_length(copies + compute) - _union_length(compute),
    }


def _union_length(intervals: list[tuple[int, int]]) -> int:
    length, covered_to = 0, None
    for start, end in sorted(intervals):
        fresh = start if covered_to is None else max(start, covered_to)
        length += max(end - fresh, 0)
        covered_to = end if covered_to is None else max(end, covered_to)
    return length


@dataclass
class _Derived:
    """Counts the rows that a table has beyond the events of the file.

    A counter event makes one row for each of its numbers, and a call that records a CUDA event makes a row in
    `event_records` where a synchronization names the call and the file has no row of its own for it.
    """

    further_series: int = 0
    calls: dict[int, tuple[int, str]] = field(default_factory=dict)  # correlation -> its earliest call
    own_records: set[int] = field(default_factory=set)
    waited_for: set[int] = field(default_factory=set)

    def add(self, table: str, start: int, event: Mapping[str, Any]) -> None:
        """Take notice of one event."""
        args = _arguments(event)
        if table == "counters":
            self.further_series += _series(event) - 1
        elif table == "syncs":
            self.waited_for.add(args.get("wait_on_cuda_event_record_corr_id"))
        elif table == "event_records":
            self.own_records.add(args.get("correlation"))
        elif table == "api_calls" and args.get("correlation") is not None:
            call = (start, str(event["name"]))
            earliest = self.calls.setdefault(args["correlation"], call)
            if start < earliest[0]:
                self.calls[args["correlation"]] = call

    def count(self) -> Counter[str]:
        """Return the rows of each table; tables without any are left out."""
        starts = ("cudaEventRecord", "cuEventRecord", "hipEventRecord")
        recording = {number for number, (_, name) in self.calls.items() if name.startswith(starts)}
        records = len(recording & self.waited_for - self.own_records)
        return +Counter({"counters": self.further_series, "event_records": records})


def _arguments(event: Mapping[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}  # some files write null


def _series(event: Mapping[str, Any]) -> int:
    """Return how many numbers a counter event samples."""
    numbers = (v for v in _arguments(event).values() if isinstance(v, int | float | Decimal))
    return sum(1 for v in numbers if not isinstance(v, bool) and math.isfinite(v))


def read_file(path: Path) -> FileTruth:
    """Return the truth about a Kineto file, gzipped or not."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return read_text(raw.decode())


def read_text(text: str) -> FileTruth:
    """Return the truth about Kineto JSON text: an object with `traceEvents`, or a bare list of events."""
    truth = FileTruth()
    rows: dict[str, list[tuple[int, int, str]]] = {}
    ops: list[tuple[int, int, dict[str, Any]]] = []
    derived = _Derived()
    for key, value in _walk(text):
        if key == "distributedInfo":
            truth.rank = value.get("rank")
        elif key == "baseTimeNanoseconds":
            truth.base_ns = int(value)
        elif key is None:
            truth.events += 1
            table = _fate(value)
            truth.fates[table] += 1
            if table in {"metadata", "flow", "empty", "other", "no_series"}:
                continue
            start = nanoseconds(value["ts"])
            derived.add(table, start, value)
            end = start + nanoseconds(value.get("dur", 0))
            rows.setdefault(table, []).append((start, end, str(value.get("name", ""))))
            if table == "ops":
                ops.append((start, end, value))
    truth.derived = derived.count()
    if rows:
        truth.origin_ns = min(start for table in rows.values() for start, _, _ in table)
    origin = truth.origin_ns or 0
    truth.intervals = {
        name: sorted((a - origin, b - origin, n) for a, b, n in table) for name, table in rows.items()
    }
    truth.ops = [_operation(a - origin, b - origin, event) for a, b, event in ops]
    return truth


def _fate(event: Mapping[str, Any]) -> str:
    phase = event.get("ph")
    if phase == "X":
        return TABLE_OF_CATEGORY.get(event.get("cat", ""), "ranges")
    if phase == "C" and not _series(event):
        return "no_series"
    known = {
        "M": "metadata",
        "s": "flow",
        "t": "flow",
        "f": "flow",
        "i": "instants",
        "I": "instants",
        "C": "counters",
    }
    return "empty" if not event else known.get(str(phase), "other")


def _operation(start: int, end: int, event: Mapping[str, Any]) -> Op:
    args = event.get("args", {})
    pid = event.get("pid")
    # A device row's process is its device; rows of other accelerators say it nowhere else.
    device = args.get("device", pid if isinstance(pid, int) else None)
    engine = _engine(event["cat"].lower().removeprefix("gpu_"), event["name"])
    correlation = args.get("correlation")
    return Op(start, end, _known(device), _known(args.get("stream")), engine, event["name"], correlation)


def _known(number: Any) -> int | None:
    return None if number in UNSET else int(number)


def _engine(category: str, name: str) -> str | None:
    if category == "kernel":
        return "compute"
    if category == "memset":
        return "memset"
    if category == "memcpy":
        for words, engine in (
            ("HtoD", "copy_h2d"),
            ("DtoH", "copy_d2h"),
            ("DtoD", "copy_d2d"),
            ("PtoP", "copy_p2p"),
        ):
            if words in name:
                return engine
    return None


def _walk(text: str) -> Iterator[tuple[str | None, Any]]:
    """Yield (top-level key, value) for every key but the events, and (None, event) for every event."""
    decoder = json.JSONDecoder(parse_float=Decimal)
    at = _skip(text, 0)
    if text[at] == "[":
        yield from ((None, event) for event, _ in _items(decoder, text, at) if event is not _END)
        return
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if key == "traceEvents":
            for event, end in _items(decoder, text, at):
                at = end
                if event is not _END:
                    yield None, event
        else:
            value, at = decoder.raw_decode(text, at)
            yield key, value
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _items(decoder: json.JSONDecoder, text: str, at: int) -> Iterator[tuple[Any, int]]:
    """Yield (item, position after it) of the list at `at`, then (_END, position after the list)."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        item, at = decoder.raw_decode(text, at)
        yield item, at
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    yield _END, at + 1


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at
