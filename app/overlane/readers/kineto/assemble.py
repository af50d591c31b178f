"""Turn what was scanned into a validated trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.errors import TraceUnreadableError
from overlane.readers.kineto import header as heads
from overlane.readers.kineto.attributes import attributes_table
from overlane.readers.kineto.details import (
    collectives_table,
    counters_table,
    devices_table,
    streams_table,
    threads_table,
)
from overlane.readers.kineto.envelope import Envelope
from overlane.readers.kineto.integrity import integrity_checks
from overlane.readers.kineto.keys import Class
from overlane.readers.kineto.parallel import Scanned
from overlane.readers.kineto.rows import Rows
from overlane.readers.kineto.settle import Settled, Target, settle
from overlane.readers.kineto.tables import TableBuilder
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.model import ClockDomain, Header

__all__ = ["assemble"]

_REASONS = {
    "empty": "empty object",
    "flows": "flow arrow",
    "metadata": "metadata",
    "untimed": "no time stamp",
    "mistimed": "impossible time stamp",
    "other_phase": "unknown phase without a duration",
    "not_object": "not an object",
}


def assemble(path: Path, scanned: Scanned) -> Trace:
    """Build all tables and the header, and validate them.

    Raises:
        TraceUnreadableError: The events are not those of PyTorch's profiler.
    """
    envelope, counts = scanned.envelope, scanned.counts
    rows = Rows(scanned)
    settled = settle(rows)
    _refuse_foreign(path, rows, settled, envelope)
    rank, world = heads.rank_and_world(envelope)
    builder = TableBuilder(rows, settled, rank)
    tables: dict[str, pa.Table] = {}
    tables["ops"] = builder.ops()
    tables["api_calls"] = builder.calls()
    tables["syncs"] = builder.syncs()
    tables["event_records"] = builder.event_records()
    tables["instants"] = builder.instants()
    tables["overheads"] = builder.overheads()
    samples = np.flatnonzero(settled.target == Target.COUNTERS)
    tables["counters"], more_series, without_series = counters_table(rows, samples, settled.origin_ns, rank)
    tables["collectives"] = collectives_table(rows, builder.sources["ops"])
    properties = envelope.members.get("deviceProperties") or envelope.members.get("computeProperties")
    tables["devices"] = devices_table(properties, _devices_seen(tables), rank)
    tables["streams"] = streams_table(tables, rank)
    hosts = np.isin(settled.target, (Target.CALLS, Target.RANGES, Target.INSTANTS)) & (
        rows.kind != Class.DEVICE_ANNOTATION
    )
    tables["threads"] = threads_table(rows, hosts, rank)
    listed = set(devices_table(properties, [], rank)["device_id"].to_pylist())
    checks = integrity_checks(
        rows, settled, tables, builder.sources["ops"], builder.sources["api_calls"],
        counts=counts, listed=listed,
    )  # fmt: skip
    tables["ranges"] = builder.ranges()
    rows.drop_wide()
    rows.drop("category", "name", "thread", "kind", "has_wide")
    tables["attributes"] = attributes_table(rows, iter(sorted(builder.sources.items())))
    dropped = (
        {reason: counts[name] for name, reason in _REASONS.items()}
        | settled.dropped
        | {"counter without a numeric series": without_series}
    )
    derived = builder.derived | {"counters": more_series}
    header = Header(
        format="kineto",
        producer=heads.producer(envelope, has_known_category=settled.has_known_category),
        origin_unix_ns=heads.base_ns(envelope, settled.origin_ns),
        driver_version=heads.version_text(envelope, "cuda_driver_version", "hip_driver_version"),
        runtime_version=heads.version_text(envelope, "cuda_runtime_version", "hip_runtime_version"),
        world_size=world,
        dropped={reason: count for reason, count in dropped.items() if count},
        source_events=counts["events"],
        capabilities=heads.capabilities(tables, checks),
        integrity=(*checks, heads.not_understood(envelope)),
        clocks=(ClockDomain("host"), ClockDomain("cupti")),
        extra=heads.further(envelope)
        | {"derived_rows": {name: count for name, count in derived.items() if count}},
    )
    return validate(_name(path), header, tables)


def _name(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".json", ".trace", ".pt"):
        name = name.removesuffix(suffix)
    return name or path.name


def _devices_seen(tables: dict[str, pa.Table]) -> list[int]:
    seen: set[int] = set()
    for name in ("ops", "syncs", "event_records"):
        seen.update(
            device for device in pc.unique(tables[name]["device_id"]).to_pylist() if device is not None
        )
    return sorted(seen)


def _refuse_foreign(path: Path, rows: Rows, settled: Settled, envelope: Envelope) -> None:
    """Refuse Chrome traces of other programs: none of their events has a category of PyTorch's profiler."""
    if settled.has_known_category or not settled.intervals or heads.says_profiler(envelope):
        return
    if envelope.members.get("displayTimeUnit") == "ns" and isinstance(envelope.members.get("metadata"), dict):
        what = "it looks like a trace of JAX or TensorFlow (xprof), whose events have no categories"
    elif envelope.is_list and bool(np.all(rows.category < 0)):
        what = "it looks like a trace of RPD (rocprof), a list of events without categories"
    else:
        what = "none of its events has a category of PyTorch's profiler"
    raise TraceUnreadableError(
        f"{path.name} is a Chrome trace, but not of PyTorch's profiler: {what}; "
        "record the program with PyTorch's profiler (export_chrome_trace) or with overlane"
    )
