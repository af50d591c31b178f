"""The header of a Kineto trace: provenance, what the file can prove, what was left out."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from overlane.readers.kineto.envelope import BASE_KEYS, Envelope
from overlane.strict import strict
from overlane_collect.model import Capability, IntegrityCheck

__all__ = [
    "base_ns",
    "capabilities",
    "further",
    "not_understood",
    "producer",
    "rank_and_world",
    "says_profiler",
    "version_text",
]

_NONE = (None, "", -1, "-1")
"""How writers say that there is no such number."""
_NAMES, _NAME_LETTERS = 5, 40
"""How many names of a file are repeated, and how much of each."""
_OWN_MEMBERS = (
    "schemaVersion", "deviceProperties", "computeProperties", "distributedInfo", "trace_id",
    *BASE_KEYS,
)  # fmt: skip
_SHOWN = (
    "schemaVersion", "trace_id", "cupti_version", "roctracer_version", "with_flops", "with_modules",
    "with_stack", "record_shapes", "profile_memory", "displayTimeUnit",
)  # fmt: skip
_CUDA_MAJOR = 1_000
_HIP_MAJOR, _HIP_MINOR = 10_000_000, 100_000
"""What versions are counted in; below CUDA's minor stands one digit, below HIP's the build number."""
_DISTRIBUTED = ("backend", "pg_count", "pg_config", "nccl_version")
_EPOCH_NS = 10**18
"""Stamps from 2001 on are taken for wall-clock times of their own; relative ones stay below for 31 years."""


def _integer(value: Any) -> int | None:
    """Return a whole number of less than 62 bits, be it written as number or as text, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        exact = Decimal(value)
    except InvalidOperation:
        return None
    if not exact.is_finite() or abs(exact) >= 2**62 or exact % 1:
        return None
    return int(exact)


def _distributed(envelope: Envelope) -> dict[str, Any]:
    info = envelope.members.get("distributedInfo")
    return info if isinstance(info, dict) else {}


def rank_and_world(envelope: Envelope) -> tuple[int | None, int | None]:
    """Return rank and world size of `distributedInfo`, None where it does not say."""
    info = _distributed(envelope)
    rank, world = _integer(info.get("rank")), _integer(info.get("world_size"))
    return (rank if rank is not None and 0 <= rank < 2**31 else None), world


def not_understood(envelope: Envelope) -> IntegrityCheck:
    """Return whether the top level has a value that is no origin, rank or JSON at all."""
    members, info = envelope.members, _distributed(envelope)
    said = [(key, members.get(key), _integer(members.get(key))) for key in BASE_KEYS]
    rank, world = rank_and_world(envelope)
    said += [("rank", info.get("rank"), rank), ("world_size", info.get("world_size"), world)]
    found = [key for key, value, known in said if known is None and value not in _NONE]
    if not isinstance(members.get("distributedInfo", {}), dict):
        found.append("distributedInfo")
    found += [key[:_NAME_LETTERS] for key in envelope.unreadable]
    shown = ", ".join(found[:_NAMES]) + (" ..." if len(found) > _NAMES else "")
    words = f"values of the file's header are not understood and taken for unknown: {shown}"
    fine = "all values of the file's header are understood"
    return IntegrityCheck("header_values", "warning" if found else "ok", len(found), words if found else fine)


def base_ns(envelope: Envelope, origin_ns: int) -> int | None:
    """Return the wall-clock time of the trace's origin, None when the file has relative times only.

    Args:
        envelope: Top level of the file.
        origin_ns: Earliest stamp as the file gives it.
    """
    if origin_ns >= _EPOCH_NS:
        return origin_ns
    for key in BASE_KEYS:
        base = _integer(envelope.members.get(key))
        if base is not None:
            return base + origin_ns
    return None


def version_text(envelope: Envelope, *keys: str) -> str | None:
    """Return a version of CUDA or HIP as text: 13000 is 13.0, 60443483 is 6.4.43483; others as they are."""
    for key in keys:
        value = envelope.members.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            if key.startswith("cuda_") and value >= _CUDA_MAJOR:
                return f"{value // _CUDA_MAJOR}.{value % _CUDA_MAJOR // 10}"
            if key.startswith("hip_") and value >= _HIP_MAJOR:
                minor, patch = divmod(value % _HIP_MAJOR, _HIP_MINOR)
                return f"{value // _HIP_MAJOR}.{minor}.{patch}"
            return str(value)
        if isinstance(value, str):
            return value
    return None


def says_profiler(envelope: Envelope) -> bool:
    """Tell whether the top level has a member that PyTorch's profiler writes."""
    return any(key in envelope.members for key in _OWN_MEMBERS)


def producer(envelope: Envelope, *, has_known_category: bool) -> str:
    """Return who wrote the file as far as members or categories of events say; empty where they do not."""
    members = envelope.members
    for key, name in (("cupti_version", "CUPTI"), ("roctracer_version", "roctracer")):
        if key in members:
            return f"PyTorch profiler (Kineto, {name} {members[key]})"
    return "PyTorch profiler (Kineto)" if has_known_category or says_profiler(envelope) else ""


def further(envelope: Envelope) -> dict[str, Any]:
    """Return what else the top level says; environment, host and user names stay out."""
    kept = {key: envelope.members[key] for key in _SHOWN if key in envelope.members}
    info = envelope.members.get("distributedInfo")
    if isinstance(info, dict):
        kept["distributed"] = {key: info[key] for key in _DISTRIBUTED if key in info}
    return dict(strict(kept))  # a trace file holds strict JSON


def _known(table: pa.Table, column: str) -> int:
    return int(table.num_rows - table[column].null_count)


def _said(condition: int, proven: str, otherwise: str) -> Capability:
    return Capability(bool(condition), proven if condition else otherwise)


def _launched(ops: pa.Table, checks: Iterable[IntegrityCheck]) -> int:
    """Return how many operations have a recorded call, which an id alone does not say."""
    return int(ops.num_rows) - sum(c.count for c in checks if c.check == "operations_without_launch")


def capabilities(tables: dict[str, pa.Table], checks: Iterable[IntegrityCheck]) -> dict[str, Capability]:
    """Return what the tables can prove, each with its reason; `checks` are those of the same tables."""
    ops, calls, syncs, records = tables["ops"], tables["api_calls"], tables["syncs"], tables["event_records"]
    copies = any("memcpy" in chunk.dictionary.to_pylist() for chunk in ops["kind"].chunks)
    return {
        "launch_times": _said(
            _launched(ops, checks),
            "operations carry correlation ids of recorded calls",
            "no recorded call and operation share a correlation id"
            if calls.num_rows
            else "the file holds no calls",
        ),
        "queue_times": _said(
            _known(ops, "queued_ns"),
            "kernels carry queued stamps",
            "Kineto writes queued stamps as 0 unless latency stamps were enabled",
        ),
        "sync_ids": _said(
            _known(syncs, "cuda_event_sync_id"),
            "waits carry the id that they share with their record",
            "PyTorch's profiler does not write the id that a record and its waits share",
        ),
        "syncs": _said(
            syncs.num_rows,
            "synchronizations were recorded",
            "no cuda_sync rows; PyTorch's profiler writes them only when enable_cuda_sync_events is set",
        ),
        "event_records": _said(
            records.num_rows,
            "records of CUDA events are known from their own rows or from the waits that name them",
            "no wait names the call that recorded its event, and the file has no cuda_event rows",
        ),
        "stream_kinds": Capability(
            False, "PyTorch's profiler does not write whether a stream is blocking or a default stream"
        ),
        "partitions": Capability(False, "PyTorch's profiler does not write green contexts"),
        "memory_kinds": _said(
            _known(ops, "src_memory") if copies else 0,
            "copies say from and to which kind of memory they go",
            "the copies do not say their memory kinds" if copies else "the file holds no copies",
        ),
        "buffer_accesses": Capability(
            False, "PyTorch's profiler does not write which memory an operation reads or writes"
        ),
        "graph_nodes": _said(
            _known(ops, "graph_node_id"),
            "operations of graphs carry graph and node ids",
            "no operation carries a graph node id",
        ),
        "graph_edges": Capability(False, "PyTorch's profiler does not write the edges of CUDA graphs"),
        "device_timestamps": Capability(
            False, "PyTorch's profiler does not write when an event completed on the device"
        ),
        "priorities": _said(
            _known(ops, "priority"),
            "operations carry their stream's priority",
            "no operation carries a priority",
        ),
        "collectives": _said(
            tables["collectives"].num_rows,
            "collective kernels carry the description that their library gave",
            "no operation describes a collective",
        ),
        "results": Capability(False, "PyTorch's profiler does not write what a call returned"),
    }
