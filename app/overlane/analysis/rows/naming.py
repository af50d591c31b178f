"""What rows of a trace are called in text: streams, partitions, operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlane.trace import Trace

__all__ = ["Row", "Rows", "cut", "device_name", "op_name", "partition_name", "row_name", "stream_name"]

Row = dict[str, Any]
Rows = list[Row]

_WIDTH = 40
_DEFAULTS = {"legacy_default": "default", "per_thread_default": "per-thread default"}


def cut(name: str, width: int = _WIDTH) -> str:
    """Return a name that fits, its middle left out where it does not: kernels differ at both ends."""
    if len(name) <= width:
        return name
    return f"{name[: width // 2 - 2]}...{name[-(width - width // 2 - 1) :]}"


def device_name(row: Row) -> str:
    """Return what a row's device is called."""
    rank = "" if row["rank"] is None else f"rank {row['rank']} "
    return f"{rank}{'-' if row['device_id'] is None else row['device_id']}"


def stream_name(trace: Trace, row: Row) -> str:
    """Return what a row's stream is called: name, and number, with its context where there are several."""
    rank = "" if row["rank"] is None else f"rank {row['rank']} "
    streams = trace.table("streams")
    contexts = len(set(streams["context_id"].to_pylist()))
    number = "-" if row["stream_id"] is None else str(row["stream_id"])
    if contexts > 1 and row["context_id"] is not None:
        number = f"{row['context_id']}/{number}"
    known = row.get("stream_row")
    if known is None:
        known = _stream_row(trace, row)
    name = None if known is None else streams["name"][known].as_py()
    kind = None if known is None else streams["stream_kind"][known].as_py()
    title = name or _DEFAULTS.get(kind or "", "stream")
    return f"{rank}{cut(title)} {number}"


def _stream_row(trace: Trace, row: Row) -> int | None:
    keys = ("rank", "device_id", "context_id", "stream_id")
    wanted = tuple(row[key] for key in keys)
    rows = trace.table("streams").select(keys).to_pylist()
    return next((at for at, each in enumerate(rows) if tuple(each[key] for key in keys) == wanted), None)


def partition_name(trace: Trace, partition_id: int | None) -> str:
    """Return what a partition is called: its name or what it is, and its row."""
    if partition_id is None:
        return "-"
    row = trace.row("partitions", partition_id)
    kind = "whole device" if row["parent_context_id"] is None else "green context"
    return f"{row['name'] or kind} ({partition_id})"


def op_name(trace: Trace, op_id: int | None) -> str:
    """Return what an operation is called: its name and its id."""
    if op_id is None:
        return "-"
    return f"{cut(trace.table('ops')['name'][op_id].as_py())} ({op_id})"


def row_name(trace: Trace, table: str, row: int, width: int = _WIDTH) -> str:
    """Return the name of a row of any table; empty where the table has none."""
    columns = trace.table(table)
    names = columns["name"] if "name" in columns.schema.names else None
    return "" if names is None else cut(names[row].as_py() or "", width)
