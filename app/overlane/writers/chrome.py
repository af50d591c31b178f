"""Write Chrome trace JSON, which Perfetto, chrome://tracing and PyTorch's tools open.

The events are those of the PyTorch profiler: categories, argument names, flows from a call to the
operations that it started. Times are microseconds with three decimals, written from the integers, so no
nanosecond is lost. What the format has no place for (partitions, graph edges, accesses, blocks) is left
out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from overlane.trace import Trace
from overlane_collect.writer import replacing

__all__ = ["ChromeWriter"]

_BATCH_ROWS = 1 << 15
_OPS = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
_CALLS = {"runtime": "cuda_runtime", "driver": "cuda_driver"}
_RANGES = {
    "operator": "cpu_op",
    "annotation": "user_annotation",
    "device_annotation": "gpu_user_annotation",
    "python": "python_function",
    "profiler": "Trace",
}
_OP_ARGUMENTS = {
    "device_id": "device",
    "context_id": "context",
    "stream_id": "stream",
    "correlation_id": "correlation",
    "external_id": "External id",
    "engine": "engine",
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
_HOLE = re.compile(r'"(?:[^"\\]|\\.)*"|#')
_SCOPES = {"thread": "t", "process": "p", "global": "g"}


class ChromeWriter:
    """Writes one JSON object with `traceEvents`, gzipped when the name ends in .gz."""

    name = "chrome"
    description = "Chrome trace JSON for Perfetto and chrome://tracing, gzipped when the name ends in .gz."
    suffixes: tuple[str, ...] = (".json", ".json.gz")

    def write(self, trace: Trace, path: Path) -> None:
        """Write the file.

        Raises:
            OSError: The disk is full or not writable.
        """
        with replacing(path) as raw:
            if path.suffix == ".gz":
                from isal import igzip  # noqa: PLC0415 - needed for gzip only

                with igzip.IGzipFile(fileobj=raw, mode="wb", mtime=0) as packed:  # type: ignore[no-untyped-call]
                    _write(trace, packed)
            else:
                _write(trace, raw)


def _write(trace: Trace, file: IO[bytes] | Any) -> None:
    header = trace.header
    top: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ns", "traceName": trace.name}
    if header.origin_unix_ns is not None:
        top["baseTimeNanoseconds"] = header.origin_unix_ns
    if trace.ranks[0] is not None:
        top["distributedInfo"] = {"rank": trace.ranks[0], "world_size": header.world_size}
    devices = trace.table("devices").to_pylist()
    top["deviceProperties"] = [
        {
            "id": d["device_id"],
            "name": d["name"],
            "numSms": d["sm_count"],
            "totalGlobalMem": d["memory_bytes"],
        }
        for d in devices
    ]
    file.write(json.dumps(top, ensure_ascii=False).encode()[:-1] + b', "traceEvents": [\n')
    separator = ""
    for lines in _batches(_events(trace)):
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


def _events(trace: Trace) -> Iterator[str]:
    """Yield every event as the text of a JSON object."""
    places = _Places(trace)
    yield from places.metadata(trace)
    op = _with_arguments(trace, "ops", _OP_ARGUMENTS)
    started = set(trace.table("ops")["correlation_id"].unique().to_pylist()) - {None}
    seen: set[int] = set()
    call = _with_arguments(trace, "api_calls", _HOST_ARGUMENTS)
    for row in _rows(trace, "api_calls"):
        place = places.thread(row)
        yield _slice(row, _CALLS.get(row["api"], row["api"]), place, call(row))
        if row["correlation_id"] in started:
            seen.add(row["correlation_id"])
            yield _flow("s", row, place)
    for row in _rows(trace, "ops"):
        place = places.stream(row)
        yield _slice(row, _OPS.get(row["kind"], "gpu_op"), place, op(row))
        if row["correlation_id"] in seen:
            yield _flow("f", row, place)
    yield from _host_events(trace, places)


def _host_events(trace: Trace, places: _Places) -> Iterator[str]:
    arguments = _with_arguments(trace, "ranges", _RANGE_ARGUMENTS)
    for row in _rows(trace, "ranges"):
        is_projected = row["track"] == "device_annotation"
        place = places.stream(row) if is_projected else places.thread(row)
        yield _slice(row, _RANGES.get(row["track"], row["domain"] or "other"), place, arguments(row))
    arguments = _with_arguments(trace, "syncs", _SYNC_ARGUMENTS)
    for row in _rows(trace, "syncs"):
        yield _slice({**row, "name": row["sync_kind"]}, "cuda_sync", places.thread(row), arguments(row))
    arguments = _with_arguments(trace, "overheads", {})
    for row in _rows(trace, "overheads"):
        yield _slice({**row, "name": row["kind"]}, "overhead", places.thread(row), arguments(row))
    for row in _rows(trace, "instants"):
        scope = _SCOPES.get(row["scope"], "t")
        head = f'"ph": "i", "s": "{scope}", "cat": {_text(row["track"] or "instant")}'
        yield f'{{{head}, "name": {_text(row["name"])}, {places.thread(row)}, "ts": {_us(row["at_ns"])}}}'
    for row in _rows(trace, "counters"):
        value = json.dumps({row["unit"] or "value": row["value"]})
        head = f'"ph": "C", "name": {_text(row["track"])}, {places.thread({**row, "thread_id": None})}'
        yield f'{{{head}, "ts": {_us(row["at_ns"])}, "args": {value}}}'


def _rows(trace: Trace, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table with their ids, a batch at a time so that memory stays small."""
    table = trace.table(name)
    names = ["row_id", *table.schema.names]
    for first in range(0, table.num_rows, _BATCH_ROWS):
        batch = table.slice(first, _BATCH_ROWS)
        columns = [range(first, first + batch.num_rows), *(_values(column) for column in batch.columns)]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


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
        said = ""
        if upcoming is not None and upcoming[0] == row["row_id"]:
            said, upcoming = upcoming[1], next(more, None)
        # What the source said stands as it was, so a column does not say it again.
        own = [
            f'"{argument}": {_json(row[column])}'
            for column, argument in names.items()
            if row[column] is not None and f'"{argument}"' not in said
        ]
        members = ", ".join([*own, said] if said else own)
        return f', "args": {{{members}}}' if members else ""

    return arguments


def _attributes(trace: Trace, table: str) -> Iterator[tuple[int, str]]:
    """Yield the attributes of a table: row id, and the members of the JSON object as text."""
    stored = trace.table("attributes")
    parts_of: dict[str, list[str]] = {}
    rows = stored.filter(pc.equal(stored["table"], table)).select(["row_id", "template", "integers"])
    for first in range(0, rows.num_rows, _BATCH_ROWS):
        batch = rows.slice(first, _BATCH_ROWS)
        for row_id, template, numbers in zip(*(_values(column) for column in batch.columns), strict=True):
            if template not in parts_of:
                parts_of[template] = _around_holes(template)
            parts = parts_of[template]
            text = parts[0] + "".join([f"{n}{part}" for n, part in zip(numbers, parts[1:], strict=True)])
            text = text.strip()
            yield row_id, text[1:-1].strip() if text.startswith("{") else f'"value": {text}'


def _around_holes(template: str) -> list[str]:
    """Split a template at its `#` signs outside of strings."""
    parts, at = [], 0
    for match in _HOLE.finditer(template):
        if match.group() == "#":
            parts.append(template[at : match.start()])
            at = match.end()
    return [*parts, template[at:]]


def _json(value: Any) -> str:
    return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False)


class _Places:
    """Process and thread numbers: a GPU is a process and its streams are threads, as in Kineto's files.

    Ranks of one trace get processes of their own.
    """

    def __init__(self, trace: Trace) -> None:
        self._ranks = {rank: number for number, rank in enumerate(trace.ranks)}

    def thread(self, row: dict[str, Any]) -> str:
        return f'"pid": {self._process(row, row["process_id"] or 0)}, "tid": {row["thread_id"] or 0}'

    def stream(self, row: dict[str, Any]) -> str:
        device = 0 if row["device_id"] is None else row["device_id"]
        return f'"pid": {self._process(row, device)}, "tid": {row["stream_id"] or 0}'

    def _process(self, row: dict[str, Any], number: int) -> int:
        rank = self._ranks.get(row["rank"], 0)
        return number + rank * 100_000_000 if rank else number  # beyond the process numbers of any system

    def metadata(self, trace: Trace) -> Iterator[str]:
        """Yield the names of processes and threads."""
        several = len(self._ranks) > 1
        for device in trace.table("devices").to_pylist():
            rank = f"rank {device['rank']} " if several else ""
            name = f"{rank}GPU {device['device_id']} {device['name'] or ''}".strip()
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


def _name(what: str, place: str, name: str) -> str:
    return f'{{"ph": "M", "name": "{what}_name", {place}, "args": {{"name": {_text(name)}}}}}'
