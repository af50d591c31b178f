"""What the pages say of a whole trace: devices, streams, counts, what it can prove, what is suspect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.ui.columns import equal, row_array
from overlane_collect.schema import TABLES

if TYPE_CHECKING:
    from overlane.trace import Trace
    from overlane_collect.model import Capability, IntegrityCheck

__all__ = ["StreamFacts", "TraceFacts", "stream_facts", "trace_facts"]

_STREAM_KEYS = ("rank", "device_id", "context_id", "stream_id")


@dataclass(frozen=True)
class TraceFacts:
    """A trace in a few numbers and words.

    Attributes:
        format: Format of the source.
        producer: Program that wrote it.
        devices: Names of the GPUs, each once, with how many there are of it.
        driver: CUDA driver version, empty when not recorded.
        ranks: Ranks with rows.
        stream_count: Streams.
        partition_count: Partitions.
        op_count: Device operations.
        engine_counts: Engine (None where the source does not say) to its operations.
        row_counts: Table to its rows, tables with rows only.
        span_ns: From the first to the last stamp.
        is_synthetic: Made up, not recorded.
        capabilities: What the file can prove, by name.
        integrity: What is suspect.
    """

    format: str
    producer: str
    devices: tuple[tuple[str, int], ...]
    driver: str
    ranks: tuple[int | None, ...]
    stream_count: int
    partition_count: int
    op_count: int
    engine_counts: dict[str | None, int]
    row_counts: dict[str, int]
    span_ns: int
    is_synthetic: bool
    capabilities: dict[str, Capability]
    integrity: tuple[IntegrityCheck, ...]

    @property
    def device_words(self) -> str:
        """The devices in words, as in `2 × NVIDIA H200`."""
        if not self.devices:
            return "no GPU recorded"
        return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in self.devices)

    @property
    def suspect(self) -> tuple[IntegrityCheck, ...]:
        """The integrity checks that are not ok."""
        return tuple(check for check in self.integrity if check.status != "ok")

    @property
    def proven(self) -> tuple[str, ...]:
        """Names of what the file can prove."""
        return tuple(name for name, item in self.capabilities.items() if item.proven)


@dataclass(frozen=True)
class StreamFacts:
    """One stream of the trace, by what ran on it.

    Attributes:
        rank: Rank, or None.
        device_id: Device, or None.
        context_id: Context, or None.
        stream_id: Stream, or None for work that names no stream.
        op_count: Operations.
        first_op: Row id of its first operation.
        start_ns: Start of the first operation.
        end_ns: Last known end.
    """

    rank: int | None
    device_id: int | None
    context_id: int | None
    stream_id: int | None
    op_count: int
    first_op: int
    start_ns: int
    end_ns: int


def _value_counts(column: pa.ChunkedArray) -> dict[Any, int]:
    counted = pc.value_counts(column)
    return {item["values"]: item["counts"] for item in counted.to_pylist()}


def trace_facts(trace: Trace) -> TraceFacts:
    """Return the facts of a trace; reads a few columns once."""
    header = trace.header
    devices = _value_counts(trace.table("devices")["name"])
    rows = {name: trace.table(name).num_rows for name in TABLES}
    return TraceFacts(
        format=header.format,
        producer=header.producer,
        devices=tuple((name or "GPU of unknown name", count) for name, count in devices.items()),
        driver=header.driver_version or "",
        ranks=trace.ranks,
        stream_count=rows["streams"],
        partition_count=rows["partitions"],
        op_count=rows["ops"],
        engine_counts=_value_counts(trace.table("ops")["engine"]),
        row_counts={name: count for name, count in rows.items() if count},
        span_ns=trace.span_ns,
        is_synthetic=header.synthetic,
        capabilities=dict(header.capabilities),
        integrity=header.integrity,
    )


def stream_facts(trace: Trace, rank: int | None) -> list[StreamFacts]:
    """Return the streams of one rank that have operations, in the order of device, context and stream."""
    ops = trace.table("ops")
    if not ops.num_rows:
        return []
    rows = row_array(np.arange(ops.num_rows))
    columns = [*(ops[key] for key in _STREAM_KEYS), ops["start_ns"], ops["end_ns"], rows]
    numbered = pa.table(columns, names=[*_STREAM_KEYS, "start_ns", "end_ns", "row"])
    if rank is not None:
        numbered = numbered.filter(equal(numbered["rank"], rank, if_null=False))
    grouped = numbered.group_by(list(_STREAM_KEYS)).aggregate(
        [("row", "count"), ("row", "min"), ("start_ns", "min"), ("start_ns", "max"), ("end_ns", "max")]
    )
    found = [
        StreamFacts(
            rank=item["rank"],
            device_id=item["device_id"],
            context_id=item["context_id"],
            stream_id=item["stream_id"],
            op_count=item["row_count"],
            first_op=item["row_min"],
            start_ns=item["start_ns_min"],
            end_ns=max(item["start_ns_max"], item["end_ns_max"] or 0),
        )
        for item in grouped.to_pylist()
    ]
    return sorted(
        found, key=lambda s: tuple((x is None, x or 0) for x in (s.device_id, s.context_id, s.stream_id))
    )
