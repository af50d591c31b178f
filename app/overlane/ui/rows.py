"""Say in words what a trace holds of one row, and which rows it is connected with; pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from overlane.figures.palette import engine_label
from overlane.figures.units import (
    exact_ns,
    format_bytes,
    format_count,
    format_ns,
    format_rate,
    format_stamp,
    format_stamps,
)
from overlane.ui.columns import equal, row_array, true_rows
from overlane_collect.schema import TABLES, ColumnSpec

if TYPE_CHECKING:
    from overlane.trace import Trace

__all__ = [
    "Connection",
    "Fact",
    "column_facts",
    "connections",
    "headline_facts",
    "row_title",
    "unknown_columns",
]

SHOWN_OPERATIONS = 5
"""Operations of one call that are listed one by one; graph launches own hundreds, which are counted."""

_NOUNS = {
    "ops": "operation",
    "api_calls": "host call",
    "syncs": "synchronization",
    "ranges": "range",
    "instants": "instant",
    "counters": "sample",
    "overheads": "overhead",
    "blocks": "thread block",
    "event_records": "event record",
}


@dataclass(frozen=True)
class Fact:
    """One thing to say of a row.

    Attributes:
        label: What it is.
        text: The value for people.
        exact: The value digit by digit, or a sentence; shown on hover.
        column: Column of the trace contract that it comes from, empty when it is computed.
    """

    label: str
    text: str
    exact: str = ""
    column: str = ""


@dataclass(frozen=True)
class Connection:
    """A row that another row is connected with.

    Attributes:
        kind: How, as in `launched by` or `operation`.
        table: Table of the connected row.
        row: Its row id.
        text: Words for it.
        start_ns: Its start.
        end_ns: Its end; the start for rows without length or end.
        count: How many such rows there are; only the first few are given one by one.
    """

    kind: str
    table: str
    row: int
    text: str
    start_ns: int
    end_ns: int
    count: int = 1


def row_title(table: str, row_id: int) -> str:
    """Return the words for a row, as in `operation 12`."""
    return f"{_NOUNS.get(table, table)} {row_id}"


def interval_of(values: dict[str, Any]) -> tuple[int, int]:
    """Return start and end of a row; a row without an end, or with one stamp only, has no length."""
    start = values.get("start_ns")
    if start is None:
        start = values.get("at_ns") or 0
    end = values.get("end_ns")
    return start, start if end is None else end


def headline_facts(trace: Trace, table: str, row_id: int) -> list[Fact]:
    """Return what a row is in few facts: name, times, and for operations stream, size and throughput.

    Raises:
        KeyError: The contract has no such table.
        IndexError: The table has no such row.
    """
    values = trace.row(table, row_id)
    found = []
    if values.get("name") is not None:
        found.append(Fact("name", values["name"], values["name"], "name"))
    start, end = interval_of(values)
    if table == "ops":
        found.append(Fact("stream", _stream_words(trace, values), "the stream that it ran on", "stream_id"))
    if values.get("end_ns", start) is None:
        found.append(Fact("start", format_stamp(start), exact_ns(start), "start_ns"))
        found.append(Fact("end", "not finished when the recording ended", "", "end_ns"))
    elif "end_ns" in values:
        ends = f"{exact_ns(start)} → {exact_ns(end)}"
        found.append(Fact("start → end", format_stamps(start, end), ends, "start_ns"))
        found.append(Fact("duration", format_ns(end - start), exact_ns(end - start)))
    if table == "ops":
        found += _operation_facts(values, end - start)
    return found


def column_facts(trace: Trace, table: str, row_id: int) -> list[Fact]:
    """Return every column of a row that is known, in the order of the contract.

    Raises:
        KeyError: The contract has no such table.
        IndexError: The table has no such row.
    """
    values = trace.row(table, row_id)
    found = []
    for spec in TABLES[table].columns:
        if values[spec.name] is not None:
            text, exact = _in_words(spec, values[spec.name])
            label = spec.name.removesuffix("_ns").replace("_", " ")
            found.append(Fact(label, text, exact or spec.doc, spec.name))
    return found


def unknown_columns(trace: Trace, table: str, row_id: int) -> list[Fact]:
    """Return the columns that are null for this row, each with what null means there."""
    values = trace.row(table, row_id)
    return [
        Fact(spec.name.replace("_", " "), spec.null or "", spec.doc, spec.name)
        for spec in TABLES[table].columns
        if values[spec.name] is None
    ]


def _operation_facts(values: dict[str, Any], duration_ns: int) -> list[Fact]:
    found = []
    queued = values["queued_ns"]
    if queued is not None:
        ahead = values["start_ns"] - queued
        found.append(Fact("queued before", format_ns(ahead), f"{exact_ns(ahead)} from queued to start"))
    if values["grid"] and values["block"]:
        sizes = " × ".join(map(str, values["grid"])), " × ".join(map(str, values["block"]))
        found.append(Fact("grid, block", f"{sizes[0]} blocks of {sizes[1]} threads"))
    if values["bytes"] is not None:
        moved = format_bytes(values["bytes"])
        rate = f" at {format_rate(values['bytes'], duration_ns)}" if values["bytes"] and duration_ns else ""
        found.append(Fact("moved", moved + rate, f"{format_count(values['bytes'])} bytes by the duration"))
    kinds = [kind for kind in (values["src_memory"], values["dst_memory"]) if kind is not None]
    if kinds:
        found.append(Fact("memory", " → ".join(kinds)))
    return found


def _stream_words(trace: Trace, values: dict[str, Any]) -> str:
    if values["stream_id"] is None:
        return "not recorded"
    words = [str(values["stream_id"])]
    stream = _first_row(
        trace, "streams", {key: values[key] for key in ("rank", "device_id", "context_id", "stream_id")}
    )
    if stream is not None:
        row = trace.row("streams", stream)
        if row["name"]:
            words.append(row["name"])
        words.append(row["stream_kind"].replace("_", " ") if row["stream_kind"] else "kind not recorded")
        if row["priority"] is not None:
            words.append(f"priority {row['priority']}")
    if values["partition_id"] is not None:
        partition = trace.row("partitions", values["partition_id"])
        granted = f" ({partition['sm_granted']} SMs)" if partition["sm_granted"] else ""
        words.append(f"partition {partition['name'] or values['partition_id']}{granted}")
    return " · ".join(words)


def _in_words(spec: ColumnSpec, value: Any) -> tuple[str, str]:
    """Return the value for people and, where it differs, digit by digit."""
    if spec.unit == "ns":
        return format_stamp(value), exact_ns(value)
    if spec.unit.startswith("bytes"):
        return format_bytes(value), f"{format_count(value)} bytes"
    if isinstance(value, list):
        return " × ".join(str(x) for x in value), ""
    if isinstance(value, bool):
        return ("yes" if value else "no"), ""
    if spec.name == "engine":
        return engine_label(value), ""
    return str(value), ""


def _matches(trace: Trace, table: str, wanted: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the row ids whose columns equal these values; a null matches a null."""
    rows = trace.table(table)
    mask = None
    for name, value in wanted.items():
        column = rows[name]
        if column.null_count == len(column) or value is None:
            same = pc.is_null(column) if value is None else None
            if same is None:
                return np.zeros(0, np.int64)
        else:
            same = equal(column, value, if_null=False)
        mask = same if mask is None else pc.and_(mask, same)
    if mask is None:
        return np.zeros(0, np.int64)
    return true_rows(mask)


def _first_row(trace: Trace, table: str, wanted: dict[str, Any]) -> int | None:
    found = _matches(trace, table, wanted)
    return int(found[0]) if len(found) else None


def _joined(
    trace: Trace, table: str, column: str, values: dict[str, Any]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the rows of a table that share an id with a row of the same rank and process."""
    if not values.get(column):
        return np.zeros(0, np.int64)
    found = _matches(trace, table, {column: values[column]})
    # Ids are only unique within a process; where a source does not name it, the id alone has to do.
    for key in ("rank", "process_id"):
        if values.get(key) is not None and len(found) and key in trace.table(table).schema.names:
            taken = trace.table(table)[key].take(row_array(found))
            found = found[true_rows(equal(taken, values[key], if_null=True))]
    return found


def _connection(trace: Trace, kind: str, table: str, row_id: int, count: int = 1) -> Connection:
    values = trace.row(table, row_id)
    start, end = interval_of(values)
    name = values.get("name") or values.get("sync_kind") or row_title(table, row_id)
    return Connection(kind, table, row_id, str(name), start, end, count)


def connections(trace: Trace, table: str, row_id: int) -> list[Connection]:
    """Return the rows that this row is connected with by ids of the source.

    An operation leads to the call that launched it and to the framework operator around it; a call or
    synchronization leads to its operations, the first few one by one with their count; an operator leads to
    the operations that carry its external id.

    Raises:
        KeyError: The contract has no such table.
        IndexError: The table has no such row.
    """
    values = trace.row(table, row_id)
    found: list[Connection] = []
    if table == "ops":
        calls = _joined(trace, "api_calls", "correlation_id", values)
        found += [_connection(trace, "launched by", "api_calls", int(x)) for x in calls[:1]]
    if table in {"ops", "api_calls"}:
        found += [_connection(trace, "operator", "ranges", int(x)) for x in _operators(trace, values)]
    if table in {"api_calls", "syncs"}:
        found += _operations(trace, _joined(trace, "ops", "correlation_id", values))
    if table in {"api_calls", "ops", "event_records"}:
        syncs = _joined(trace, "syncs", "correlation_id", values)
        found += [_connection(trace, "synchronization", "syncs", int(x)) for x in syncs[:1]]
    if table == "syncs":
        calls = _joined(trace, "api_calls", "correlation_id", values)
        found += [_connection(trace, "host call", "api_calls", int(x)) for x in calls[:1]]
    if table == "ranges":
        found += _operations(trace, _joined(trace, "ops", "external_id", values))
    if table == "blocks":
        found.append(_connection(trace, "kernel", "ops", values["op_id"]))
    return found


def _operations(trace: Trace, rows: np.ndarray[Any, np.dtype[np.int64]]) -> list[Connection]:
    return [_connection(trace, "operation", "ops", int(x), len(rows)) for x in rows[:SHOWN_OPERATIONS]]


def _operators(trace: Trace, values: dict[str, Any]) -> list[int]:
    """Return the framework operator whose external id this row carries: the innermost where several do."""
    rows = _joined(trace, "ranges", "external_id", values)
    return [int(x) for x in rows[-1:]]
