"""Traces written as text, one row a line, so that a test shows its input on the screen.

    stream 1 blocking                    stream, kind (none: not recorded)
    call 1 cudaLaunchKernel 0-10         correlation id, name, start-end
    op 1 s1 kernel 20-120                correlation id (-: none), stream, kind, start-end (end ?: unfinished)
    record 5 s1 @30 sync=9               correlation id, stream, time
    wait 6 s2 40-41 sync=9               stream wait: correlation id, stream, start-end
    sync 7 stream s1 50-130              host wait: correlation id, what for, stream (-: none), start-end
    overhead lazy_function_loading 5-9   kind, start-end
    range step 0-50                      name, start-end
    lacks syncs stream_kinds             capabilities that the file says it lacks

Streams of operations that no line describes are non-blocking, unless the file lacks `stream_kinds`. Further
words `column=value` set columns; `null` is null. Device 0, context 1, process 1 and thread 1 are meant where
nothing else is said, and copies are of engine `copy_h2d` from pinned memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from overlane.tables import table_from_columns
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.model import Capability, ClockDomain, Header
from overlane_collect.schema import TABLES

__all__ = ["blueprint", "trace_of"]

_SHORT = {
    "sync": "cuda_event_sync_id",
    "event": "cuda_event_id",
    "ctx": "context_id",
    "thread": "thread_id",
    "queued": "queued_ns",
    "device": "device_id",
    "partition": "partition_id",
    "on": "waits_on_stream_id",
    "by": "waits_on_correlation_id",
    "graph": "graph_id",
    "node": "graph_node_id",
}
_TABLES = {
    "op": "ops",
    "call": "api_calls",
    "record": "event_records",
    "wait": "syncs",
    "sync": "syncs",
    "overhead": "overheads",
    "range": "ranges",
    "stream": "streams",
    "partition": "partitions",
    "edge": "graph_edges",
    "alloc": "allocations",
    "free": "allocations",
    "gpu": "devices",
}


def blueprint(text: str, *, fit_error_ns: int = 0) -> Trace:
    """Return the trace that a text describes."""
    rows: dict[str, list[dict[str, Any]]] = {}
    lacks: list[str] = []
    for line in text.strip().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == "lacks":
            lacks += words[1:]
        elif words:
            table, row = _row(words)
            rows.setdefault(table, []).append(row)
    if "stream_kinds" not in lacks:
        _describe_streams(rows)
    return trace_of(rows, fit_error_ns=fit_error_ns, lacks=lacks)


def _describe_streams(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Add a row for each stream of an operation that has none."""
    names = ("rank", "device_id", "context_id", "stream_id")
    described = {row["stream_id"] for row in rows.get("streams", [])}
    found = {
        tuple(row.get(name) for name in names): None
        for row in rows.get("ops", [])
        if row["stream_id"] not in {None, *described}
    }
    for key in found:
        row = dict(zip(names, key, strict=True)) | {"stream_kind": "nonblocking"}
        rows.setdefault("streams", []).append(row)


def trace_of(
    rows: dict[str, list[dict[str, Any]]], *, fit_error_ns: int = 0, lacks: Sequence[str] = ()
) -> Trace:
    """Return a trace of rows as dictionaries; columns left out are null."""
    tables = {}
    for name, listed in rows.items():
        columns = {c.name: [row.get(c.name) for row in listed] for c in TABLES[name].columns}
        tables[name] = table_from_columns(name, columns)
    clocks = (ClockDomain(name="cupti", offset_ns=0, fit_error_ns=fit_error_ns),)
    proven = {name: Capability(proven=True, reason="t") for name in ("sync_ids", "host_calls", "all_kinds")}
    lacking = {name: Capability(proven=False, reason="not written") for name in lacks}
    header = Header(format="test", producer="test", clocks=clocks, capabilities=proven | lacking)
    return validate("blueprint", header, tables)


def _row(words: list[str]) -> tuple[str, dict[str, Any]]:
    kind, *rest = words
    plain = [word for word in rest if "=" not in word or word.startswith("=")]
    row: dict[str, Any] = {"device_id": 0, "context_id": 1, "process_id": 1, "thread_id": 1}
    table = _TABLES[kind]
    row |= _SHAPES[kind](plain)
    for word in rest:
        name, equals, value = word.partition("=")
        if equals and name:
            row[_SHORT.get(name, name)] = _value(value)
    names = {column.name for column in TABLES[table].columns}
    wrong = set(row) - names - {"device_id", "context_id", "process_id", "thread_id"}
    assert not wrong, f"{table} has no column {wrong}"
    return table, {name: value for name, value in row.items() if name in names}


def _value(text: str) -> Any:
    if text == "null":
        return None
    if "," in text:
        return [int(part) for part in text.split(",")]
    try:
        return int(text)
    except ValueError:
        return text


def _span(text: str) -> dict[str, Any]:
    start, _, end = text.partition("-")
    return {"start_ns": int(start), "end_ns": None if end == "?" else int(end)}


def _stream(text: str) -> int | None:
    return None if text == "-" else int(text.removeprefix("s"))


def _id(text: str) -> int | None:
    return None if text == "-" else int(text)


def _op(words: list[str]) -> dict[str, Any]:
    correlation, stream, kind, span = words
    row = {
        "correlation_id": _id(correlation),
        "stream_id": _stream(stream),
        "kind": kind,
        "name": kind,
    } | _span(span)
    if kind == "memcpy":
        row |= {"engine": "copy_h2d", "src_memory": "pinned", "dst_memory": "device"}
    return row | ({"engine": "compute"} if kind == "kernel" else {})


def _memory(words: list[str]) -> dict[str, Any]:
    correlation, stream, at, address = words
    return {
        "correlation_id": _id(correlation),
        "stream_id": _stream(stream),
        "at_ns": int(at[1:]),
        "address": int(address),
    }


_SHAPES = {
    "op": _op,
    "call": lambda w: {"correlation_id": _id(w[0]), "name": w[1], "api": "runtime"} | _span(w[2]),
    "record": lambda w: {"correlation_id": _id(w[0]), "stream_id": _stream(w[1]), "at_ns": int(w[2][1:])},
    "wait": lambda w: (
        {"correlation_id": _id(w[0]), "stream_id": _stream(w[1])}
        | {"sync_kind": "stream_wait_event"}
        | _span(w[2])
    ),
    "sync": lambda w: (
        {"correlation_id": _id(w[0]), "sync_kind": w[1], "stream_id": _stream(w[2])} | _span(w[3])
    ),
    "overhead": lambda w: {"kind": w[0]} | _span(w[1]),
    "range": lambda w: {"name": w[0], "track": "annotation"} | _span(w[1]),
    "stream": lambda w: {"stream_id": _stream(w[0]), "stream_kind": w[1] if len(w) > 1 else None},
    "partition": lambda w: {"context_id": int(w[0])},
    "gpu": lambda w: {"device_id": int(w[0])},
    "edge": lambda w: {"graph_id": int(w[0]), "from_node_id": int(w[1]), "to_node_id": int(w[2])},
    "alloc": lambda w: _memory(w) | {"freed": False},
    "free": lambda w: _memory(w) | {"freed": True},
}
