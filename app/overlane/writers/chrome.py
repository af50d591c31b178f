"""Write Chrome trace JSON, which Perfetto, chrome://tracing and PyTorch's tools open.

The events are those of the PyTorch profiler: categories, argument names, flows from a call to the
operations that it started. Times are microseconds with three decimals, written from the integers, so no
nanosecond is lost. What the format has no place for (partitions, graph edges, accesses, blocks) is left
out. What is written is read back as what it was: unknown ids as unknown, operations as operations, ranges as
ranges, with the same times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from overlane.errors import OverlaneError
from overlane.readers.kineto.keys import CATEGORIES
from overlane.strict import strict_text
from overlane.trace import Trace, around_holes
from overlane_collect.writer import replacing

__all__ = ["ChromeWriter"]

_BATCH_ROWS = 1 << 15
_OPS = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_OTHER_OP = "gpu_op"
_CALLS = {"runtime": "cuda_runtime", "driver": "cuda_driver", "other": "privateuse1_runtime"}
_RANGES = {
    "operator": "cpu_op",
    "annotation": "user_annotation",
    "device_annotation": "gpu_user_annotation",
    "python": "python_function",
    "profiler": "Trace",
}
_PLAIN = "cpu_instant_event"
"""With a duration it is a range to readers whatever its arguments are, which an unknown category is not."""
_COPIES = {"copy_h2d": "HtoD", "copy_d2h": "DtoH", "copy_d2d": "DtoD", "copy_p2p": "PtoP"}
_SYNCS = {
    "event": "Event Sync",
    "stream": "Stream Sync",
    "context": "Context Sync",
    "device": "Device Sync",
    "stream_wait_event": "Stream Wait Event",
    "event_query": "Event Query",
    "stream_query": "Stream Query",
    "other": "Other",
}
_OP_ARGUMENTS = {
    "device_id": "device",
    "context_id": "context",
    "stream_id": "stream",
    "correlation_id": "correlation",
    "external_id": "External id",
    "engine": "engine",
    "copy_kind": "kind",
    "bytes": "bytes",
    "src_memory": "src_memory",
    "dst_memory": "dst_memory",
    "priority": "priority",
    "channel_id": "channel",
    "channel_type": "channel_type",
    "graph_id": "graph id",
    "graph_node_id": "graph node id",
    "grid": "grid",
    "block": "block",
    "cluster": "cluster",
    "registers": "registers per thread",
    "shared_bytes": "shared memory",
    "launch_type": "launch_type",
}
_SYNC_ARGUMENTS = {
    "sync_kind": "sync_kind",
    "device_id": "device",
    "context_id": "context",
    "stream_id": "stream",
    "correlation_id": "correlation",
    "waits_on_stream_id": "wait_on_stream",
    "waits_on_correlation_id": "wait_on_cuda_event_record_corr_id",
    "cuda_event_id": "wait_on_cuda_event_id",
    "cuda_event_sync_id": "wait_on_cuda_event_sync_id",
}
_HOST_ARGUMENTS = {"correlation_id": "correlation", "external_id": "External id"}
_RANGE_ARGUMENTS = {**_HOST_ARGUMENTS, "device_id": "device", "stream_id": "stream"}
_SCOPES = {"thread": "t", "process": "p", "global": "g"}
_STAMPS = ("start_ns", "end_ns", "at_ns")
_REACH_NS = 1 << 61
"""Readers take stamps below this (73 years) and drop others."""
_SPAN_NS = 1 << 59
"""Readers take durations, and stamps before zero, below this (18 years)."""
_RANK_STRIDE = 100_000_000  # beyond the process numbers of any system
_UNKNOWN_ID = -1


class ChromeWriter:
    """Writes one JSON object with `traceEvents`, gzipped when the name ends in .gz."""

    name = "chrome"
    description = "Chrome trace JSON for Perfetto and chrome://tracing, gzipped when the name ends in .gz."
    suffixes: tuple[str, ...] = (".json", ".json.gz")

    def write(self, trace: Trace, path: Path) -> None:
        """Write the file.

        Raises:
            OverlaneError: The times reach further than the format can say.
            OSError: The disk is full or not writable.
        """
        shift_ns = _shift_ns(trace)
        with replacing(path) as raw:
            if path.suffix == ".gz":
                from isal import igzip  # noqa: PLC0415 - needed for gzip only

                with igzip.IGzipFile(fileobj=raw, mode="wb", mtime=0) as packed:  # type: ignore[no-untyped-call]
                    _write(trace, packed, shift_ns)
            else:
                _write(trace, raw, shift_ns)


def _shift_ns(trace: Trace) -> int:
    """Return what to take from every stamp, so that all lie within the reach of readers; 0 where they do.

    Raises:
        OverlaneError: They cannot.
    """
    if trace.span_ns < _SPAN_NS:
        return 0
    latest_ns = longest_ns = 0
    for name in ("ops", "api_calls", "ranges", "syncs", "overheads", "instants", "counters"):
        table = trace.table(name)
        has_length = "start_ns" in table.schema.names
        latest_ns = max(latest_ns, pc.max(table["start_ns" if has_length else "at_ns"]).as_py() or 0)
        if has_length:
            durations = pc.subtract(table["end_ns"], table["start_ns"])
            longest_ns = max(longest_ns, pc.max(durations).as_py() or 0)
    shift_ns = max(latest_ns - _REACH_NS + 1, 0)
    if shift_ns >= _SPAN_NS or longest_ns >= _SPAN_NS:
        raise OverlaneError(
            f"the trace reaches over {trace.span_ns} ns, further than readers of Chrome JSON follow; "
            "convert it to another format"
        )
    return shift_ns


def _write(trace: Trace, file: IO[bytes] | Any, shift_ns: int) -> None:
    header = trace.header
    top: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ns", "traceName": trace.name}
    if header.origin_unix_ns is not None:
        top["baseTimeNanoseconds"] = header.origin_unix_ns + shift_ns
    if trace.ranks[0] is not None:
        top["distributedInfo"] = {"rank": trace.ranks[0], "world_size": header.world_size}
    places = _Places(trace)
    top["deviceProperties"] = [
        {
            "id": places.device(d),
            "name": d["name"],
            "numSms": d["sm_count"],
            "totalGlobalMem": d["memory_bytes"],
        }
        for d in trace.table("devices").to_pylist()
    ]
    # The name of a file may hold bytes that are no text; they stay escaped.
    head = json.dumps(top, ensure_ascii=False).encode(errors="backslashreplace")
    file.write(head[:-1] + b', "traceEvents": [\n')
    separator = ""
    for lines in _batches(_events(trace, shift_ns)):
        file.write((separator + ",\n".join(lines)).encode())
        separator = ",\n"
    file.write(b"\n]}\n")


def _batches(lines: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _events(trace: Trace, shift_ns: int) -> Iterator[str]:
    """Yield every event as the text of a JSON object."""
    places = _Places(trace)
    yield from places.metadata(trace)
    op = _with_arguments(trace, "ops", _OP_ARGUMENTS)
    started = set(trace.table("ops")["correlation_id"].unique().to_pylist()) - {None}
    seen: set[int] = set()
    call = _with_arguments(trace, "api_calls", _HOST_ARGUMENTS)
    for row in _rows(trace, "api_calls", shift_ns):
        place = places.thread(row)
        yield _slice(row, _CALLS[row["api"]], place, call(row))
        if row["correlation_id"] in started:
            seen.add(row["correlation_id"])
            yield _flow("s", row, place)
    for row in _rows(trace, "ops", shift_ns):
        place = places.stream(row)
        row["copy_kind"] = _COPIES.get(row["engine"]) if row["kind"] == "memcpy" else None
        row["device_id"] = places.device(row)
        yield _slice(row, _OPS.get(row["kind"], _OTHER_OP), place, op(row))
        if row["correlation_id"] in seen:
            yield _flow("f", row, place)
    yield from _host_events(trace, places, shift_ns)


def _host_events(trace: Trace, places: _Places, shift_ns: int) -> Iterator[str]:
    arguments = _with_arguments(trace, "ranges", _RANGE_ARGUMENTS)
    for row in _rows(trace, "ranges", shift_ns):
        is_projected = row["track"] == "device_annotation"
        place = places.stream(row) if is_projected else places.thread(row)
        row["device_id"] = places.device(row)
        yield _slice(row, *_range(row, place, arguments(row)))
    arguments = _with_arguments(trace, "syncs", _SYNC_ARGUMENTS)
    for row in _rows(trace, "syncs", shift_ns):
        row["name"], row["device_id"] = _SYNCS[row["sync_kind"]], places.device(row)
        yield _slice(row, "cuda_sync", places.thread(row), arguments(row))
    arguments = _with_arguments(trace, "overheads", {})
    for row in _rows(trace, "overheads", shift_ns):
        yield _slice({**row, "name": row["kind"]}, "overhead", places.thread(row), arguments(row))
    for row in _rows(trace, "instants", shift_ns):
        scope = _SCOPES.get(row["scope"], "t")
        head = f'"ph": "i", "s": "{scope}", "cat": {_text(row["track"] or "instant")}'
        yield f'{{{head}, "name": {_text(row["name"])}, {places.thread(row)}, "ts": {_us(row["at_ns"])}}}'
    for row in _rows(trace, "counters", shift_ns):
        value = json.dumps({row["unit"] or "value": row["value"] if math.isfinite(row["value"]) else None})
        head = f'"ph": "C", "name": {_text(row["track"])}, {places.thread({**row, "thread_id": None})}'
        yield f'{{{head}, "ts": {_us(row["at_ns"])}, "args": {value}}}'


def _range(row: dict[str, Any], place: str, arguments: str) -> tuple[str, str, str]:
    """Return category, place and arguments of a range.

    A range of no known track keeps its source's category, unless readers would take it for something else by
    that: for an operation, say, or for device work when its arguments name a device.
    """
    domain = row["domain"]
    category = _RANGES.get(row["track"])
    if category is None:
        category = domain or "other"
        if category in CATEGORIES or '"device"' in arguments or '"stream"' in arguments:
            category = _PLAIN
    if domain not in {None, category} and '"domain"' not in arguments:
        said = f"{arguments[:-1]}, " if arguments else ', "args": {'
        arguments = f'{said}"domain": {_text(domain)}}}'
    return category, place, arguments


def _rows(trace: Trace, name: str, shift_ns: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with their ids and shifted stamps, in batches so that memory stays small."""
    table = trace.table(name)
    names = ["row_id", *table.schema.names]
    for first in range(0, table.num_rows, _BATCH_ROWS):
        batch = table.slice(first, _BATCH_ROWS)
        columns = [range(first, first + batch.num_rows), *(_values(column) for column in batch.columns)]
        for values in zip(*columns, strict=True):
            row = dict(zip(names, values, strict=True))
            if shift_ns:
                row |= {k: row[k] - shift_ns for k in _STAMPS if row.get(k) is not None}
            yield row


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values; text goes through its few words, all-null columns through nothing."""
    if column.null_count == len(column):
        return [None] * len(column)
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = []
    for chunk in column.chunks:
        words = [*chunk.dictionary.to_pylist(), None]  # a null code takes the last place
        values += [words[code] for code in pc.fill_null(chunk.indices, len(words) - 1).to_pylist()]
    return values


def _us(ns: int) -> str:
    """Write nanoseconds as microseconds, exactly."""
    sign, rest = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{rest // 1000}.{rest % 1000:03d}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _slice(row: dict[str, Any], category: str, place: str, arguments: str) -> str:
    """Return one interval; without a known end it is a begin alone, which viewers show as unfinished."""
    end = row["end_ns"]
    phase = '"B"' if end is None else f'"X", "dur": {_us(end - row["start_ns"])}'
    head = f'"ph": {phase}, "cat": {_text(category)}, "name": {_text(row["name"])}, {place}'
    return f'{{{head}, "ts": {_us(row["start_ns"])}{arguments}}}'


def _flow(phase: str, row: dict[str, Any], place: str) -> str:
    bind = ', "bp": "e"' if phase == "f" else ""
    head = f'"ph": "{phase}", "id": {row["correlation_id"]}, "cat": "ac2g", "name": "ac2g", {place}'
    return f'{{{head}, "ts": {_us(row["start_ns"])}{bind}}}'


def _with_arguments(trace: Trace, table: str, names: dict[str, str]) -> Callable[[dict[str, Any]], str]:
    """Return a function from a row to the text of its arguments: columns, then what else the source said.

    The function must be called with the rows in their order.
    """
    more = _attributes(trace, table)
    upcoming = next(more, None)

    def arguments(row: dict[str, Any]) -> str:
        nonlocal upcoming
        said, keys = "", frozenset[str]()
        if upcoming is not None and upcoming[0] == row["row_id"]:
            (_, said, keys), upcoming = upcoming, next(more, None)
        # What the source said stands as it was, so a column does not say it again.
        own = [
            f'"{argument}": {_json(row[column])}'
            for column, argument in names.items()
            if row[column] is not None and argument not in keys
        ]
        members = ", ".join([*own, said] if said else own)
        return f', "args": {{{members}}}' if members else ""

    return arguments


def _attributes(trace: Trace, table: str) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Yield the attributes of a table: row id, the members of the JSON object as text, and their names."""
    stored = trace.table("attributes")
    known: dict[str, tuple[list[str], frozenset[str]]] = {}
    rows = stored.filter(pc.equal(stored["table"], table)).select(["row_id", "template", "integers"])
    for first in range(0, rows.num_rows, _BATCH_ROWS):
        batch = rows.slice(first, _BATCH_ROWS)
        for row_id, template, numbers in zip(*(_values(column) for column in batch.columns), strict=True):
            if template not in known:
                parts = around_holes(strict_text(template))
                known[template] = parts, frozenset(json.loads("0".join(parts)))
            parts, keys = known[template]
            text = parts[0] + "".join([f"{n}{part}" for n, part in zip(numbers, parts[1:], strict=True)])
            yield row_id, text.strip()[1:-1].strip(), keys


def _json(value: Any) -> str:
    return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False)


class _Places:
    """Process and thread numbers: a GPU is a process and its streams are threads, as in Kineto's files.

    Unknown is -1, which readers take for unknown. The format knows one rank a file, so further ranks of a
    trace get processes and devices of their own: the devices of two ranks never become one.
    """

    def __init__(self, trace: Trace) -> None:
        self._ranks = {rank: number for number, rank in enumerate(trace.ranks)}
        # The number of a device has 32 bits.
        self._device_stride = min(_RANK_STRIDE, (1 << 31) // len(self._ranks))

    def thread(self, row: dict[str, Any]) -> str:
        process = _moved(row["process_id"], self._rank(row) * _RANK_STRIDE)
        return f'"pid": {_id(process)}, "tid": {_id(row["thread_id"])}'

    def stream(self, row: dict[str, Any]) -> str:
        return f'"pid": {_id(self.device(row))}, "tid": {_id(row["stream_id"])}'

    def device(self, row: dict[str, Any]) -> int | None:
        """Return the number of a row's device in the file."""
        return _moved(row["device_id"], self._rank(row) * self._device_stride)

    def _rank(self, row: dict[str, Any]) -> int:
        return self._ranks.get(row["rank"], 0)

    def metadata(self, trace: Trace) -> Iterator[str]:
        """Yield the names of processes and threads."""
        several = len(self._ranks) > 1
        for device in trace.table("devices").to_pylist():
            rank = f"rank {device['rank']} " if several else ""
            number = "of no number" if device["device_id"] is None else device["device_id"]
            name = f"{rank}GPU {number} {device['name'] or ''}".strip()
            yield _name("process", self.stream({**device, "stream_id": 0}), name)
        for stream in trace.table("streams").to_pylist():
            kind = f" ({stream['stream_kind']})" if stream["stream_kind"] else ""
            name = stream["name"] or f"stream {stream['stream_id']}{kind}"
            yield _name("thread", self.stream(stream), name)
        for thread in trace.table("threads").to_pylist():
            if thread["process_name"]:
                yield _name("process", self.thread(thread), thread["process_name"])
            if thread["name"]:
                yield _name("thread", self.thread(thread), thread["name"])


def _moved(number: int | None, by: int) -> int | None:
    return None if number is None else number + by


def _id(number: int | None) -> int:
    return _UNKNOWN_ID if number is None else number


def _name(what: str, place: str, name: str) -> str:
    return f'{{"ph": "M", "name": "{what}_name", {place}, "args": {{"name": {_text(name)}}}}}'
