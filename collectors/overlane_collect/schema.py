"""The trace contract: every table and column, with dtype, unit, null rule and one sentence.

Readers fill these tables, `overlane.validation.validate` checks them, the reference page is generated from them.
The module imports nothing heavy, so that the collectors can use it inside a recorded program.

Conventions that hold for every table:

* Times are int64 nanoseconds relative to the trace's origin (the earliest stamp); intervals are half-open
  `[start_ns, end_ns)`.
* Unknown is null, never 0, -1 or 4294967295. A column whose null rule is `None` is never null.
* A row's id is its position in the table's canonical sort (`TableSpec.sort`, ties in the order of the source). The id is not
  stored; `TableSpec.row_id` is what views, links and answers call it.
* A stream is `(rank, device_id, context_id, stream_id)`; the same number on two devices is two streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ENGINES",
    "OP_KINDS",
    "SCHEMA_VERSION",
    "TABLES",
    "ColumnSpec",
    "Dtype",
    "TableSpec",
    "arrow_schema",
]

SCHEMA_VERSION = 1
"""Version of the tables and of the `.overlane` file; readers of the file refuse any other."""

Dtype = Literal["bool", "int16", "int32", "int64", "float64", "string", "list<int32>", "list<int64>"]
"""Logical types. `string` is stored as dictionary<int32, string>, since traces repeat their names."""

ENGINES = ("compute", "copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p", "memset")
"""Classes of device work (not pieces of hardware: CUPTI names no copy engine)."""

OP_KINDS = ("kernel", "memcpy", "memset", "graph", "other")
"""What an operation is: `graph` is a graph launch recorded as one block, `other` a device interval of no known kind."""


@dataclass(frozen=True)
class ColumnSpec:
    """One column of a table.

    Attributes:
        name: Column name; units are part of it (`_ns`, `_bytes`, `_fraction`).
        dtype: Logical type.
        unit: Unit of the values, or the set of values of an enumeration; empty for plain text and flags.
        null: What null means, or None when the column is never null.
        doc: One sentence.
    """

    name: str
    dtype: Dtype
    unit: str
    null: str | None
    doc: str


@dataclass(frozen=True)
class TableSpec:
    """One table of a trace.

    Attributes:
        name: Table name, also the name of its member in a `.overlane` file.
        doc: What one row is.
        row_id: What the position of a row is called in views, links and answers.
        sort: Columns of the canonical sort (`-` for descending); null counts as the largest value, ties keep the source's order.
        columns: All columns, in order.
    """

    name: str
    doc: str
    row_id: str
    sort: tuple[str, ...]
    columns: tuple[ColumnSpec, ...]

    def column(self, name: str) -> ColumnSpec:
        """Return the column called `name`.

        Raises:
            KeyError: The table has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


# The contract reads as a table, one column a line.
# fmt: off
_START = ColumnSpec("start_ns", "int64", "ns", None, "First nanosecond of the interval.")
_END = ColumnSpec("end_ns", "int64", "ns", "not finished when the recording ended", "First nanosecond after the interval.")
_AT = ColumnSpec("at_ns", "int64", "ns", None, "When it happened.")
_RANK = ColumnSpec("rank", "int32", "", "the source names no rank", "Rank of the process in a distributed job.")
_PROCESS = ColumnSpec("process_id", "int64", "", "not recorded", "Operating-system id of the process.")
_THREAD = ColumnSpec("thread_id", "int64", "", "not recorded, or not a host thread", "Id of the host thread as the source numbers it.")
_DEVICE = ColumnSpec("device_id", "int32", "", "not recorded", "GPU as the source numbers it.")
_CONTEXT = ColumnSpec("context_id", "int64", "", "not recorded", "CUDA context.")
_STREAM = ColumnSpec("stream_id", "int64", "", "not recorded, or of no single stream", "Stream within its context.")
_CORRELATION = ColumnSpec(
    "correlation_id", "int64", "", "not recorded, or started by no recorded call",
    "Joins a host call to the device work that it started; one id can own hundreds of operations.",
)
_EXTERNAL = ColumnSpec(
    "external_id", "int64", "", "no framework pushed one", "Correlation id that a framework pushed: joins operations and calls to framework operators.",
)
_NAME = ColumnSpec("name", "string", "", None, "Readable (demangled) name.")

# fmt: on


def _c(name: str, dtype: Dtype, unit: str, null: str | None, doc: str) -> ColumnSpec:
    return ColumnSpec(name, dtype, unit, null, doc)


# fmt: off
_TABLES = (
    TableSpec(
        "ops", "One device operation: kernel, copy, memset or graph launch block.", "op_id", ("start_ns", "end_ns"),
        (
            _RANK, _PROCESS, _DEVICE, _CONTEXT,
            _c("partition_id", "int64", "", "the resources of the stream are not known", "Row id in `partitions` of the SMs that it may use."),
            _STREAM,
            _c("engine", "string", "|".join(ENGINES), "the source does not say", "Class of work."),
            _c("kind", "string", "|".join(OP_KINDS), None, "What the operation is."),
            _NAME,
            _c("raw_name", "string", "", "the same as `name`", "Name as recorded, mangled where the source mangles."),
            _c("queued_ns", "int64", "ns", "not recorded (copies and memsets have none)", "When the host queued it."),
            _c("submitted_ns", "int64", "ns", "not recorded", "When its dependencies were met and it was submitted to the device."),
            _START, _END, _CORRELATION, _EXTERNAL,
            _c("bytes", "int64", "bytes", "no copy or memset, or not recorded", "Bytes moved or set."),
            _c("src_memory", "string", "", "no copy, or not recorded", "Memory kind copied from (pageable, pinned, device, managed, array)."),
            _c("dst_memory", "string", "", "no copy or memset, or not recorded", "Memory kind written to."),
            _c("priority", "int32", "", "not recorded", "Stream priority in effect, lower is more urgent."),
            _c("channel_id", "int64", "", "not recorded", "Hardware queue that carried it."),
            _c("channel_type", "string", "", "not recorded", "Type of that queue (compute, asynchronous copy)."),
            _c("graph_id", "int64", "", "not part of a graph, or not recorded", "Executable graph that it belongs to."),
            _c("graph_node_id", "int64", "", "not part of a graph, or not recorded", "Node of that graph."),
            _c("grid", "list<int32>", "blocks (x, y, z)", "not a kernel, or not recorded", "Grid dimensions."),
            _c("block", "list<int32>", "threads (x, y, z)", "not a kernel, or not recorded", "Block dimensions."),
            _c("cluster", "list<int32>", "blocks (x, y, z)", "no cluster, or not recorded", "Cluster dimensions."),
            _c("registers", "int32", "registers per thread", "not a kernel, or not recorded", "Registers of one thread."),
            _c("shared_bytes", "int64", "bytes per block", "not a kernel, or not recorded", "Static and dynamic shared memory of one block."),
            _c("launch_type", "string", "regular|cooperative|programmatic", "not a kernel, or not recorded", "How the kernel was launched."),
        ),
    ),
    TableSpec(
        "api_calls", "One host call of the driver or runtime API.", "call_id", ("start_ns", "end_ns"),
        (
            _RANK, _PROCESS, _THREAD,
            _c("api", "string", "runtime|driver|other", None, "Which API the call belongs to."),
            _NAME, _START, _END, _CORRELATION, _EXTERNAL,
            _c("result", "int32", "CUresult or cudaError_t", "not recorded", "What the call returned; 0 is success."),
        ),
    ),
    TableSpec(
        "syncs", "One synchronization or query: the host waits for an event, stream, context or device, or asks; or a stream is told "
        "to wait. The times are the host call's, for stream waits too.", "sync_id", ("start_ns", "end_ns"),
        (
            _c("sync_kind", "string", "event|stream|context|device|stream_wait_event|event_query|stream_query|other", None, "What was waited for or asked."),
            _RANK, _PROCESS, _THREAD, _DEVICE, _CONTEXT, _STREAM,
            _c("waits_on_stream_id", "int64", "", "not recorded", "Stream whose record is waited for."),
            _c("waits_on_correlation_id", "int64", "", "not recorded", "Correlation id of the call that recorded the event."),
            _c("cuda_event_id", "int64", "", "no event", "CUDA event; ids are reused."),
            _c("cuda_event_sync_id", "int64", "", "not recorded (before CUPTI 12.8)", "Shared by one event record and the waits on it."),
            _START, _END, _CORRELATION,
            _c("result", "int32", "CUresult or cudaError_t", "not recorded", "What the call returned; only success orders anything."),
        ),
    ),
    TableSpec(
        "event_records", "One CUDA event recorded into a stream.", "record_id", ("at_ns",),
        (
            _c("cuda_event_id", "int64", "", "not recorded", "CUDA event; ids are reused."),
            _c("cuda_event_sync_id", "int64", "", "not recorded (before CUPTI 12.8)", "Shared by one event record and the waits on it."),
            _RANK, _PROCESS, _THREAD, _DEVICE, _CONTEXT, _STREAM, _CORRELATION,
            _c("at_ns", "int64", "ns", "the recording call was not recorded", "Start of the host call that recorded it."),
            _c("device_ns", "int64", "ns", "not recorded", "When the event completed on the device."),
        ),
    ),
    TableSpec(
        "streams", "One stream.", "stream_row", ("rank", "device_id", "context_id", "stream_id"),
        (
            _RANK, _DEVICE, _CONTEXT,
            _c("stream_id", "int64", "", "the work names no stream", "Stream within its context."),
            _c("stream_kind", "string", "legacy_default|per_thread_default|blocking|nonblocking", "not recorded", "How it orders with the legacy default stream."),
            _c("priority", "int32", "", "not recorded", "Priority, lower is more urgent."),
            _c("name", "string", "", "unnamed", "Name given by the program."),
        ),
    ),
    TableSpec(
        "partitions", "The resources behind one green context, or the whole device.", "partition_id", ("rank", "device_id", "context_id"),
        (
            _RANK, _DEVICE, _CONTEXT,
            _c("parent_context_id", "int64", "", "not a green context", "Primary context that it was made from."),
            _c("name", "string", "", "unnamed", "Name given by the program."),
            _c("sm_requested", "int32", "SMs", "not recorded", "SMs asked for."),
            _c("sm_granted", "int32", "SMs", "not recorded", "SMs granted (the device rounds)."),
            _c("tpc_mask", "string", "hexadecimal", "not recorded", "Logical TPC mask."),
            _c("workqueue_resource_id", "int64", "", "not recorded", "Workqueue resource."),
            _c("workqueue_scope", "string", "", "not recorded", "Sharing scope of the workqueue."),
            _c("workqueue_limit", "int32", "", "not recorded", "Concurrency limit of the workqueue."),
            _c("channel_ids", "list<int64>", "", "not recorded", "Hardware queues seen carrying its work."),
        ),
    ),
    TableSpec(
        "graph_edges", "One edge between two nodes of an executable graph.", "edge_id", ("graph_id", "from_node_id", "to_node_id"),
        (
            _RANK,
            _c("graph_id", "int64", "", None, "Executable graph."),
            _c("from_node_id", "int64", "", None, "Node that comes first."),
            _c("to_node_id", "int64", "", None, "Node that depends on it."),
            _c("edge_kind", "string", "full|programmatic", "not recorded", "What the edge orders."),
        ),
    ),
    TableSpec(
        "devices", "One GPU.", "device_row", ("rank", "device_id"),
        (
            _RANK,
            _c("device_id", "int32", "", "the work names no device", "GPU as the source numbers it."),
            _c("name", "string", "", "not recorded", "Product name."),
            _c("sm_count", "int32", "SMs", "not recorded", "Streaming multiprocessors."),
            _c("copy_engine_count", "int32", "", "not recorded", "Asynchronous engines."),
            _c("compute_capability", "string", "", "not recorded", "Major and minor, as in 9.0."),
            _c("memory_bytes", "int64", "bytes", "not recorded", "Device memory."),
        ),
    ),
    TableSpec(
        "threads", "One host thread, or track that the source names like one.", "thread_row", ("rank", "process_id", "thread_id"),
        (
            _RANK, _PROCESS, _THREAD,
            _c("process_name", "string", "", "not recorded", "Name of the process."),
            _c("name", "string", "", "not recorded", "Name of the thread."),
        ),
    ),
    TableSpec(
        "ranges", "One annotated interval on the host or its projection on the device (NVTX, profiler steps, framework operators, "
        "Python functions). Projections repeat device time and are never counted as busy.", "range_id", ("start_ns", "-end_ns"),
        (
            _RANK, _PROCESS, _THREAD,
            _c("track", "string", "operator|annotation|device_annotation|python|profiler|other", None, "What kind of range it is; ranges of one kind and thread share a track."),
            _DEVICE, _STREAM, _NAME,
            _c("domain", "string", "", "no domain, or not recorded", "NVTX domain or the source's category."),
            _START, _END,
            _c("nesting_level", "int16", "", "overlaps another range without nesting, or is not finished", "How deep the range lies in its track, 0 outermost."),
            _CORRELATION, _EXTERNAL,
        ),
    ),
    TableSpec(
        "instants", "One named point on a track.", "instant_id", ("at_ns",),
        (
            _RANK, _PROCESS, _THREAD,
            _c("track", "string", "", "not recorded", "Category of the point as the source gives it."),
            _NAME, _AT,
            _c("scope", "string", "thread|process|global", "not recorded", "What the point belongs to."),
        ),
    ),
    TableSpec(
        "accesses", "One declared or inferred access to memory by an operation or by the host.", "access_id", ("op_id", "at_ns", "address"),
        (
            _c("op_id", "int64", "", "an access by the host", "Operation that accesses."),
            _THREAD,
            _c("at_ns", "int64", "ns", "an access by an operation", "When the host accessed."),
            _c("address", "int64", "bytes", None, "First byte."),
            _c("bytes", "int64", "bytes", None, "Length."),
            _c("mode", "string", "read|write", None, "Direction."),
            _c("certainty", "string", "declared|inferred", None, "How it is known."),
        ),
    ),
    TableSpec(
        "allocations", "One allocation or free.", "allocation_id", ("at_ns",),
        (
            _RANK, _PROCESS, _DEVICE, _CONTEXT,
            _c("address", "int64", "bytes", None, "First byte."),
            _c("bytes", "int64", "bytes", "not recorded", "Length."),
            _c("memory_kind", "string", "", "not recorded", "Kind of memory."),
            _AT,
            _c("freed", "bool", "", None, "True for a free, false for an allocation."),
            _STREAM, _CORRELATION,
        ),
    ),
    TableSpec(
        "blocks", "One thread block of an instrumented kernel.", "block_row", ("start_ns", "end_ns"),
        (
            _c("op_id", "int64", "", None, "Kernel that it belongs to."),
            _c("sm_id", "int32", "", None, "SM that it ran on."),
            _START, _END,
        ),
    ),
    TableSpec(
        "counters", "One sample of a counter.", "sample_id", ("track", "at_ns"),
        (
            _RANK, _PROCESS, _DEVICE,
            _c("track", "string", "", None, "Name of the counter and of its series."),
            _AT,
            _c("value", "float64", "see `unit`", None, "Value from this moment on."),
            _c("unit", "string", "", "not recorded", "Unit of the value."),
        ),
    ),
    TableSpec(
        "collectives", "One collective call as its library describes it.", "collective_id", ("op_id",),
        (
            _c("op_id", "int64", "", "its operation is not in the trace", "Operation that carries it out."),
            _c("collective", "string", "", None, "Name of the collective, as in allreduce."),
            _c("group", "string", "", "not recorded", "Process group."),
            _c("sequence", "int64", "", "not recorded", "Number of the call within its group."),
            _c("bytes", "int64", "bytes", "not recorded, or the size of the data type is not known", "Bytes of the input message."),
            _c("dtype", "string", "", "not recorded", "Data type as the source names it."),
            _c("ranks", "string", "", "not recorded", "Ranks that take part, as the source writes them."),
        ),
    ),
    TableSpec(
        "attributes", "Anything else that a source says of one row, kept as it is (shapes, occupancy, stacks).", "attribute_id", ("table", "row_id"),
        (
            _c("table", "string", "", None, "Table of the row."),
            _c("row_id", "int64", "", None, "Row id in that table."),
            _c("template", "string", "JSON", None, "JSON object in which every plain integer value is written as `#`; repeated shapes share one template."),
            _c("integers", "list<int64>", "", None, "The integers of the template, in order."),
        ),
    ),
    TableSpec(
        "overheads", "One overhead interval as CUPTI classes it.", "overhead_id", ("start_ns", "end_ns"),
        (
            _RANK, _PROCESS, _THREAD,
            _c("kind", "string", "", None, "Overhead as the source names it."),
            _c("of_recording", "bool", "", "the source does not tell", "True when recording caused it, false when the application did."),
            _c("channel_id", "int64", "", "not recorded", "Hardware queue that was full."),
            _START, _END,
        ),
    ),
)
# fmt: on

TABLES: dict[str, TableSpec] = {table.name: table for table in _TABLES}
"""All tables by name, in the order of the reference page."""


def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table; `string` columns are dictionary<int32, string>.

    Args:
        table: Name of a table in `TABLES`.

    Raises:
        KeyError: There is no such table.
    """
    import pyarrow as pa  # noqa: PLC0415 - importing this module must stay cheap in a recorded program

    types = {
        "bool": pa.bool_(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.dictionary(pa.int32(), pa.string()),
        "list<int32>": pa.list_(pa.int32()),
        "list<int64>": pa.list_(pa.int64()),
    }
    return pa.schema(
        [pa.field(c.name, types[c.dtype], nullable=c.null is not None) for c in TABLES[table].columns]
    )
