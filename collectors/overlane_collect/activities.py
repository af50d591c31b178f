"""The records of CUPTI's activity interface as data: kinds, layouts, and how a buffer is cut into records.

CUPTI only ever appends fields to a record, so one layout per kind serves every version: the length of the
records tells which of its fields are there. That length is asked from the loaded library, never assumed,
since the library that is loaded may be older than the Python package (its newest records would be garbage).

Nothing here needs CUPTI, so recorded bytes can be decoded and tested on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "LAYOUTS",
    "MAX_RECORD_BYTES",
    "UNSET",
    "Kind",
    "Layout",
    "RecordSizeError",
    "layout_dtype",
    "pack_records",
    "split_buffer",
]

UNSET = 0xFFFFFFFF
"""What CUPTI writes into 32-bit ids that it does not know."""

MAX_RECORD_BYTES = 4096
"""The longest record of CUPTI 13.4 has 304 bytes; a longer one is a misread buffer."""


class Kind:
    """Numbers of CUpti_ActivityKind that are recorded; they are part of CUPTI's binary interface."""

    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    DEVICE = 8
    CONTEXT = 9
    CONCURRENT_KERNEL = 10
    NAME = 11
    MARKER = 12
    OVERHEAD = 17
    MANAGED_MEMORY = 25
    MEMCPY2 = 22
    CUDA_EVENT = 36
    STREAM = 37
    SYNCHRONIZATION = 38
    EXTERNAL_CORRELATION = 39
    MEMORY2 = 49
    GRAPH_TRACE = 51
    GRAPH_HOST_NODE = 56
    CONTEXT_SWITCH = 57
    HOST_LAUNCH = 58
    GREEN_CONTEXT = 59


class RecordSizeError(ValueError):
    """A buffer does not hold what its records' lengths say."""


@dataclass(frozen=True)
class Layout:
    """Where the fields of one kind of record lie.

    Attributes:
        name: Name of the kind, as in `kernel`.
        fields: Field name to (NumPy format, offset in bytes).
        pointers: Fields that point to text and are replaced by string numbers while the text is there.
    """

    name: str
    fields: Mapping[str, tuple[str, int]]
    pointers: tuple[str, ...] = ()


def _fields(text: str) -> dict[str, tuple[str, int]]:
    """Parse `name:format@offset` items."""
    result = {}
    for item in text.split():
        name, rest = item.split(":")
        form, offset = rest.split("@")
        result[name] = (form, int(offset))
    return result


_PLACE = "device_id:u4@{} context_id:u4@{} stream_id:u4@{}"

LAYOUTS: dict[int, Layout] = {
    Kind.CONCURRENT_KERNEL: Layout(
        "kernel",
        _fields(
            "registers:u2@6 start:u8@16 end:u8@24 completed:u8@32 device_id:u4@40 context_id:u4@44 "
            "stream_id:u4@48 grid:3i4@52 block:3i4@64 static_shared:i4@76 dynamic_shared:i4@80 "
            "correlation_id:u4@92 name:u8@104 queued:u8@120 submitted:u8@128 launch_type:u1@136 "
            "graph_node_id:u8@144 graph_id:u4@156 channel_id:u4@168 channel_type:i4@172 cluster:3u4@176 "
            "priority:i4@216 execution_model:u4@224 source_graph_id:u4@232 source_graph_node_id:u8@240"
        ),
        ("name",),
    ),
    Kind.MEMCPY: Layout(
        "memcpy",
        _fields(
            "copy_kind:u1@4 src_kind:u1@5 dst_kind:u1@6 bytes:u8@8 start:u8@16 end:u8@24 device_id:u4@32 "
            "context_id:u4@36 stream_id:u4@40 correlation_id:u4@44 graph_node_id:u8@64 graph_id:u4@72 "
            "channel_id:u4@76 channel_type:i4@80"
        ),
    ),
    Kind.MEMCPY2: Layout(
        "memcpy_peer",
        _fields(
            "copy_kind:u1@4 src_kind:u1@5 dst_kind:u1@6 bytes:u8@8 start:u8@16 end:u8@24 device_id:u4@32 "
            "context_id:u4@36 stream_id:u4@40 correlation_id:u4@60 graph_node_id:u8@72 graph_id:u4@80 "
            "channel_id:u4@84 channel_type:i4@88"
        ),
    ),
    Kind.MEMSET: Layout(
        "memset",
        _fields(
            "bytes:u8@8 start:u8@16 end:u8@24 device_id:u4@32 context_id:u4@36 stream_id:u4@40 "
            "correlation_id:u4@44 memory_kind:u2@50 graph_node_id:u8@64 graph_id:u4@72 channel_id:u4@76 "
            "channel_type:i4@80"
        ),
    ),
    Kind.DRIVER: Layout(
        "driver_call",
        _fields(
            "cbid:u4@4 start:u8@8 end:u8@16 process_id:u4@24 thread_id:u4@28 correlation_id:u4@32 "
            "result:u4@36"
        ),
    ),
    Kind.RUNTIME: Layout(
        "runtime_call",
        _fields(
            "cbid:u4@4 start:u8@8 end:u8@16 process_id:u4@24 thread_id:u4@28 correlation_id:u4@32 "
            "result:u4@36"
        ),
    ),
    Kind.SYNCHRONIZATION: Layout(
        "synchronization",
        _fields(
            "type:i4@4 start:u8@8 end:u8@16 correlation_id:u4@24 context_id:u4@28 stream_id:u4@32 "
            "cuda_event_id:u4@36 cuda_event_sync_id:u8@40 result:u4@48"
        ),
    ),
    Kind.CUDA_EVENT: Layout(
        "cuda_event",
        _fields(
            "correlation_id:u4@4 context_id:u4@8 stream_id:u4@12 cuda_event_id:u4@16 device_id:u4@24 "
            "device_timestamp:u8@40 cuda_event_sync_id:u8@48"
        ),
    ),
    Kind.STREAM: Layout(
        "stream", _fields("context_id:u4@4 stream_id:u4@8 priority:i4@12 flag:i4@16 correlation_id:u4@20")
    ),
    Kind.CONTEXT: Layout(
        "context",
        _fields(
            "context_id:u4@4 device_id:u4@8 null_stream_id:u2@14 parent_context_id:u4@16 "
            "is_green_context:u1@20 sm_count:u2@22 process_id:u8@32"
        ),
    ),
    Kind.GREEN_CONTEXT: Layout(
        "green_context",
        _fields(
            "context_id:u4@4 parent_context_id:u4@8 device_id:u4@12 tpc_count:u4@16 sm_count:u2@20 "
            "tpc_mask_words:u1@22 tpc_mask:32u4@24 workqueue_resource_id:u8@152 workqueue_limit:u4@160 "
            "workqueue_scope:u4@164 channel_count:u4@168 channel_ids:32u4@176"
        ),
    ),
    Kind.DEVICE: Layout(
        "device",
        _fields(
            "memory_bytes:u8@16 copy_engine_count:u4@40 sm_count:u4@44 capability_major:u4@104 "
            "capability_minor:u4@108 device_id:u4@112 name:u8@136"
        ),
        ("name",),
    ),
    Kind.NAME: Layout("name", _fields("object_kind:i4@4 object:3u4@8 name:u8@24"), ("name",)),
    Kind.MARKER: Layout(
        "marker",
        _fields("flags:i4@4 timestamp:u8@8 id:u4@16 object_kind:i4@20 object:3u4@24 name:u8@40 domain:u8@48"),
        ("name", "domain"),
    ),
    Kind.OVERHEAD: Layout(
        "overhead",
        _fields(
            "overhead_kind:i4@4 object_kind:i4@8 object:3u4@12 start:u8@24 end:u8@32 correlation_id:u4@40 "
            "channel_id:u8@48"  # a pointer in CUPTI's record; the channel's number plus one once it is stored
        ),
    ),
    Kind.EXTERNAL_CORRELATION: Layout(
        "external_correlation", _fields("external_kind:i4@4 external_id:u8@8 correlation_id:u4@16")
    ),
    Kind.MEMORY2: Layout(
        "memory",
        _fields(
            "operation:i4@4 memory_kind:i4@8 correlation_id:u4@12 address:u8@16 bytes:u8@24 timestamp:u8@32 "
            "process_id:u4@48 device_id:u4@52 context_id:u4@56 stream_id:u4@60 is_async:u4@72"
        ),
    ),
    Kind.MANAGED_MEMORY: Layout(
        "managed_memory",
        _fields(
            "counter:i4@4 value:u8@8 start:u8@16 end:u8@24 address:u8@32 src_id:u4@40 dst_id:u4@44 "
            "stream_id:u4@48 process_id:u4@52 flags:u4@56"
        ),
    ),
    Kind.CONTEXT_SWITCH: Layout("context_switch", _fields("context_id:u4@4 timestamp:u8@8 operation:i4@16")),
    Kind.HOST_LAUNCH: Layout(
        "host_launch",
        _fields(
            "stream_id:u4@4 context_id:u4@8 device_id:u4@12 correlation_id:u4@16 process_id:u4@20 "
            "thread_id:u4@24 start:u8@32 end:u8@40"
        ),
    ),
    Kind.GRAPH_TRACE: Layout(
        "graph",
        _fields(
            "correlation_id:u4@4 start:u8@8 end:u8@16 device_id:u4@24 graph_id:u4@28 context_id:u4@32 "
            "stream_id:u4@36"
        ),
    ),
    Kind.GRAPH_HOST_NODE: Layout(
        "graph_host_node",
        _fields(
            "stream_id:u4@4 context_id:u4@8 device_id:u4@12 correlation_id:u4@16 graph_id:u4@20 "
            "graph_node_id:u8@24 process_id:u4@32 thread_id:u4@36 start:u8@40 end:u8@48"
        ),
    ),
}
"""Layout of every kind that is recorded, as in the header of CUPTI 13.4 (`cupti_activity.h`)."""


def layout_dtype(kind: int, record_bytes: int) -> np.dtype[np.void]:
    """Return the structured dtype of records of one kind and length; fields beyond the length are left out.

    Args:
        kind: A number of `Kind`.
        record_bytes: Length of one record in the library that wrote it.

    Raises:
        KeyError: The kind is not recorded.
    """
    names, formats, offsets = ["kind"], ["<i4"], [0]
    for name, (form, offset) in LAYOUTS[kind].fields.items():
        field = np.dtype(form)
        if offset + field.itemsize <= record_bytes:
            names.append(name)
            formats.append(form)
            offsets.append(offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": record_bytes})


def pack_records(
    kind: int, rows: Sequence[dict[str, Any]], record_bytes: int | None = None
) -> npt.NDArray[Any]:
    """Return records as CUPTI lays them out; fields that a row leaves out are 0.

    Args:
        kind: Number of the kind.
        rows: Field to value.
        record_bytes: Length of a record; by default that of CUPTI 13.4.
    """
    fields = LAYOUTS[kind].fields.values()
    full = max(offset + np.dtype(form).itemsize for form, offset in fields)
    dtype = layout_dtype(kind, record_bytes or (full + 7) // 8 * 8)
    records = np.zeros(len(rows), dtype)
    records["kind"] = kind
    for place, row in enumerate(rows):
        for name, value in row.items():
            records[name][place] = value
    return records


def split_buffer(
    words: npt.NDArray[np.uint64],
    sizes: dict[int, int],
    ask: Callable[[int], int],
) -> dict[int, npt.NDArray[Any]]:
    """Cut one buffer into its records, one array per kind.

    Args:
        words: The valid part of the buffer as 8-byte words, shape (n,); records start at word borders.
        sizes: Length in bytes of the records of each kind; kinds met for the first time are added.
        ask: Returns the length of the record at a byte offset; called once per kind.

    Returns:
        Kind to a structured array of its records in the order of the buffer. Kinds without a layout are
        arrays of words, shape (records, words).

    Raises:
        RecordSizeError: A length is impossible, or the records do not fill the buffer.
    """
    kinds = words.view(np.int32).data  # indexing it is several times quicker than an array
    steps = {kind: size >> 2 for kind, size in sizes.items()}
    places: dict[int, list[int]] = {}
    position, end = 0, len(kinds)
    while position < end:  # a step takes a quarter of a microsecond, and holds the interpreter's lock
        kind = kinds[position]  # the first 4 bytes of a record
        try:
            places[kind].append(position)
        except KeyError:
            places[kind] = [position]
            if kind not in steps:
                size = ask(position << 2)
                if size <= 0 or size % 8 or size > MAX_RECORD_BYTES:
                    raise RecordSizeError(f"records of kind {kind} would be {size} bytes long") from None
                sizes[kind], steps[kind] = size, size >> 2
        position += steps[kind]
    if position != end:
        raise RecordSizeError(f"the records end at byte {position << 2} of {end << 2}")
    result: dict[int, npt.NDArray[Any]] = {}
    for kind, starts in places.items():
        rows = words[(np.asarray(starts) >> 1)[:, None] + np.arange(sizes[kind] >> 3)]
        result[kind] = rows.view(layout_dtype(kind, sizes[kind]))[:, 0] if kind in LAYOUTS else rows
    return result
