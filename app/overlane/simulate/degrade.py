"""Take one kind of rows or columns out of a trace, as a source that does not record it would."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from overlane.tables import empty_table, null_array
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.model import Capability
from overlane_collect.schema import TABLES, arrow_schema

__all__ = ["KINDS", "without"]

# What to blank: columns by table, or all of a table; and the capabilities that go with it.
_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "launch times": {"ops": ("queued_ns", "submitted_ns", "correlation_id")},
    "queued stamps": {"ops": ("queued_ns", "submitted_ns")},
    "sync ids": {
        "syncs": ("cuda_event_sync_id", "waits_on_correlation_id", "waits_on_stream_id"),
        "event_records": ("cuda_event_sync_id",),
    },
    "stream kinds": {"streams": ("stream_kind",)},
    "priorities": {"ops": ("priority",), "streams": ("priority",)},
    "memory kinds": {"ops": ("src_memory", "dst_memory")},
    "shapes": {"ops": ("grid", "block", "cluster", "registers", "shared_bytes")},
    "graph nodes": {"ops": ("graph_id", "graph_node_id")},
    "completion stamps of events": {"event_records": ("device_ns",)},
}
_TABLES: dict[str, tuple[str, ...]] = {
    "sync rows": ("syncs",),
    "event records": ("event_records",),
    "overheads": ("overheads",),
    "graph edges": ("graph_edges",),
    "allocations": ("allocations",),
    "ranges": ("ranges",),
    "stream rows": ("streams",),
    "host calls": ("api_calls",),
}
# A file without these rows or columns does not claim to have them, either.
_CAPABILITIES: dict[str, tuple[str, ...]] = {
    "launch times": ("launch_times",),
    "queued stamps": ("launch_times",),
    "sync ids": ("sync_ids",),
    "stream kinds": ("stream_kinds",),
    "priorities": ("priorities",),
    "memory kinds": ("memory_kinds",),
    "shapes": ("grids",),
    "graph nodes": ("graph_nodes",),
    "sync rows": ("syncs", "sync_ids"),
    "event records": ("event_records", "sync_ids"),
    "overheads": ("all_kinds",),
    "graph edges": ("graph_edges",),
    "allocations": ("allocations",),
    "ranges": ("ranges",),
    "stream rows": ("stream_kinds", "priorities"),
    "host calls": ("host_calls", "launch_times"),
    "partitions": ("partitions", "tpc_masks"),
}

KINDS = (*_COLUMNS, *_TABLES, "partitions")
"""What can be taken out."""


def without(trace: Trace, kind: str) -> Trace:
    """Return the trace without one kind of rows or columns.

    Args:
        trace: Any trace.
        kind: One of `KINDS`. The header no longer says that the trace can prove what rests on it.

    Raises:
        KeyError: There is no such kind.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    tables = {name: trace.table(name) for name in TABLES}
    for name in _TABLES.get(kind, ()):
        tables[name] = empty_table(name)
    for name, columns in _COLUMNS.get(kind, {}).items():
        tables[name] = _blanked(tables[name], name, columns)
    if kind == "partitions":
        tables["ops"] = _blanked(tables["ops"], "ops", ("partition_id",))
        tables["partitions"] = empty_table("partitions")
    gone = dict.fromkeys(_CAPABILITIES.get(kind, ()), Capability(False, f"The {kind} were taken out."))
    known = {**trace.header.capabilities, **gone}
    return validate(trace.name, replace(trace.header, capabilities=known), tables)


def _blanked(table: pa.Table, name: str, columns: tuple[str, ...]) -> pa.Table:
    schema = arrow_schema(name)
    for column in columns:
        nulls = null_array(schema.field(column).type, table.num_rows)
        table = table.set_column(schema.get_field_index(column), schema.field(column), nulls)
    return table
