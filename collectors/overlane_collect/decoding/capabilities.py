"""What a recording can prove, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from overlane_collect.decoding.frames import Gathered
from overlane_collect.model import Capability

__all__ = ["capabilities"]

_MIN_SYNC_IDS = 120800  # cuda_event_sync_id came with CUPTI 12.8


def capabilities(gathered: Gathered, tables: Mapping[str, pa.Table]) -> dict[str, Capability]:
    """Return what the recording can prove.

    Args:
        gathered: The journal.
        tables: Finished tables.
    """
    own = _brackets if gathered.fact("brackets") else _records
    return {**own(gathered, tables), **_either(gathered, tables)}


def _either(gathered: Gathered, tables: Mapping[str, pa.Table]) -> dict[str, Capability]:
    """Return what does not depend on the backend."""
    pauses = len(gathered.facts.get("pause", []))
    left_out = gathered.fact("cupti").get("left_out", [])
    return {
        "buffer_accesses": _accesses(tables),
        "block_placement": _filled(
            tables,
            "blocks",
            "Instrumented kernels logged SM and time of each block.",
            "No kernel logged its blocks.",
        ),
        "whole_run": Capability(
            not pauses,
            f"Recording was paused {pauses} times; what happened meanwhile is not here."
            if pauses
            else "Recording was never paused.",
        ),
        "all_kinds": Capability(
            not left_out,
            f"Left out on request: {', '.join(left_out)}."
            if left_out
            else "No kind of record was left out on request.",
        ),
    }


def _accesses(tables: Mapping[str, pa.Table]) -> Capability:
    table = tables.get("accesses")
    found = set() if table is None else set(pc.unique(table["certainty"]).to_pylist())
    if "declared" in found:
        return Capability(True, "The workload declared its accesses.")
    if found:
        return Capability(
            False,
            "Accesses were inferred from the arguments of calls: copies and memsets in full, of kernels only "
            "the first word behind each pointer.",
        )
    return Capability(False, "Nobody declared which memory operations access.")


def _filled(tables: Mapping[str, pa.Table], name: str, yes: str, no: str) -> Capability:
    there = name in tables and tables[name].num_rows > 0
    return Capability(there, yes if there else no)


def _brackets(gathered: Gathered, tables: Mapping[str, pa.Table]) -> dict[str, Capability]:
    """Return what pairs of CUDA events prove."""
    fact = gathered.fact("brackets")
    del tables
    no = "Pairs of CUDA events do not tell."
    return {
        "device_times": Capability(
            False,
            "Starts and ends are brackets: an event before and one after each operation, so waiting for SMs "
            f"or a copy engine counts as its time (an empty bracket takes {fact['empty_ns']} ns, steps are "
            f"{fact['resolution_ns']} ns, host against device +-{fact['clock_error_ns']} ns).",
        ),
        "launch_times": Capability(False, no),
        "submission_times": Capability(False, no),
        "host_calls": Capability(True, "Calls that the workload made through Overlane were timed."),
        "sync_ids": Capability(True, "Event records and waits share an id."),
        "stream_kinds": Capability(True, "The workload made its streams itself."),
        "partitions": Capability(True, "The workload made its partitions itself."),
        "tpc_masks": Capability(False, no),
        "memory_kinds": Capability(True, "The workload made its memory itself."),
        "allocations": Capability(False, "Allocations are not logged by this backend."),
        "managed_memory": Capability(False, no),
        "graph_nodes": Capability(False, "A graph is bracketed as a whole."),
        "graph_edges": Capability(False, "Edges of graphs are not logged by this backend."),
    }


def _records(gathered: Gathered, tables: Mapping[str, pa.Table]) -> dict[str, Capability]:
    """Return what CUPTI's records prove."""
    cupti = gathered.fact("cupti")
    version, kinds = cupti.get("version", 0), set(cupti.get("kinds", []))
    refused = cupti.get("refused", {})

    def kind(name: str, what: str) -> Capability:
        if name in kinds:
            return Capability(True, f"{what} were recorded.")
        return Capability(
            False, f"{what} were not recorded{': ' + refused[name] if name in refused else ''}."
        )

    submitted = _has(tables, "submitted_ns")
    return {
        "device_times": Capability(True, "Starts and ends are stamps of the device."),
        "launch_times": _launch_times(gathered),
        "submission_times": Capability(
            submitted,
            "Kernels carry the time at which they were handed to the device."
            if submitted
            else "No kernel carries its submission (CUPTI 13.4 on a driver of CUDA 13.0 has none).",
        ),
        "host_calls": Capability(
            bool(cupti.get("calls", {}).get("runtime")),
            "Calls that start, order or hold device work were recorded.",
        ),
        "sync_ids": Capability(
            version >= _MIN_SYNC_IDS,
            "Event records and waits share an id."
            if version >= _MIN_SYNC_IDS
            else f"CUPTI {version} has no id that joins a wait to its record (12.8 has).",
        ),
        "stream_kinds": kind("stream", "Stream creations"),
        "partitions": kind("context", "Contexts"),
        "tpc_masks": kind("green_context", "Green contexts with their TPC masks"),
        "memory_kinds": kind("memcpy", "Memory kinds of copies"),
        "allocations": kind("memory", "Allocations and frees"),
        "managed_memory": _managed_memory(gathered),
        "graph_nodes": Capability(True, "Operations of graphs carry graph and node ids."),
        "graph_edges": _graph_edges(cupti, tables),
    }


def _launch_times(gathered: Gathered) -> Capability:
    cupti = gathered.fact("cupti")
    stamped = cupti.get("launch_stamps", True)
    late = bool(gathered.fact("run").get("late"))
    if stamped and "launch_stamps" not in cupti.get("refused", {}) and not late:
        return Capability(
            True, "Kernels carry the time of their launch; copies, memsets and nodes of graphs carry none."
        )
    if stamped:
        return Capability(
            False, "The recording began after CUDA had been initialized, so launch times are unknown."
        )
    return Capability(
        False,
        "The loaded libcupti is newer than the driver; launch times would hold all records back; "
        "install one that fits the driver, or record with --thorough.",
    )


def _managed_memory(gathered: Gathered) -> Capability:
    fact = gathered.fact("managed_memory")
    if not fact or fact["refused"]:
        reason = f": {fact['refused']}" if fact else ""
        return Capability(False, f"Moves and faults of managed memory were not counted{reason}.")
    return Capability(True, "Moves and faults of managed memory were counted.")


def _graph_edges(cupti: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Capability:
    if not cupti.get("graph_edges"):
        return Capability(False, "Edges of graphs were not recorded.")
    ran = _has(tables, "graph_node_id")
    if ran and not ("graph_edges" in tables and tables["graph_edges"].num_rows):
        return Capability(
            False, "No edges are known of the graphs that ran: made before the recording, or without any."
        )
    return Capability(True, "Edges of graphs were recorded as they were made, without their kinds.")


def _has(tables: Mapping[str, pa.Table], name: str) -> bool:
    """Tell whether an operation has a value in a column."""
    ops = tables.get("ops")
    return ops is not None and ops[name].null_count < ops.num_rows
