"""The tables that a full CUPTI recording of a simulated run would hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from overlane.simulate.commands import Call, Operation
from overlane.simulate.host import Host
from overlane.simulate.machine import Machine
from overlane.simulate.program import Access, Context, Copy, Launch, Memset, Program
from overlane.tables import empty_table, null_array, table_from_columns
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.model import Capability, ClockDomain, Header
from overlane_collect.schema import TABLES, arrow_schema

__all__ = ["FIRST_THREAD", "addresses", "partition_rows", "trace_of"]

PROCESS = 4242
FIRST_THREAD = 5000
_FIRST_ADDRESS = 0x7F00_0000_0000
_ALIGNMENT = 1 << 21
_INTERNAL_STREAM = 1000  # streams that the driver makes for the branches of graphs
_CAPABILITIES = (
    "all_kinds", "launch_times", "host_calls", "sync_ids", "stream_kinds", "partitions", "tpc_masks",
    "memory_kinds", "allocations", "buffer_accesses", "graph_nodes", "graph_edges",
)  # fmt: skip

Row = dict[str, Any]


def addresses(program: Program) -> dict[str, int]:
    """Return the first byte of each buffer."""
    found, at = {}, _FIRST_ADDRESS
    for buffer in program.buffers:
        found[buffer.name] = at
        at += -(-buffer.bytes // _ALIGNMENT) * _ALIGNMENT
    return found


def partition_rows(program: Program) -> dict[int, int]:
    """Return the row in `partitions` of each context."""
    order = sorted(program.contexts, key=lambda c: (c.device_id, c.context_id))
    return {context.context_id: row for row, context in enumerate(order)}


def name_streams(operations: Sequence[Operation]) -> dict[int, int]:
    """Give nodes of graphs streams as the driver does: a chain keeps its stream, a branch gets another.

    Returns:
        Streams that the driver made, with their context.
    """
    made: dict[int, int] = {}
    taken: dict[tuple[str, int], dict[int, int]] = {}
    nodes = sorted((o for o in operations if o.graph), key=lambda o: (o.graph or ("", 0, 0))[1:])
    for operation in nodes:
        name, launch, node = operation.graph or ("", 0, 0)
        streams = taken.setdefault((name, launch), {})
        before = [n.operation for n, rule in operation.command.needs if rule == "graph"]
        parents = [o.graph[2] for o in before if o is not None and o.graph is not None]
        free = [k for k in parents if k in streams]
        if free:
            operation.stream_id = streams.pop(free[0])
        elif node:
            operation.stream_id = _INTERNAL_STREAM + 50 * operation.command.stream.stream_id + node
            made[operation.stream_id] = operation.command.stream.spec.context_id
        streams[node] = operation.stream_id
    return made


def trace_of(
    program: Program, machine: Machine, host: Host, operations: Sequence[Operation], made: Mapping[int, int]
) -> Trace:
    """Return the validated trace of a run that has been played.

    Args:
        program: What was played.
        machine: Device side after the run.
        host: Host side after the run.
        operations: Operations in the order of their rows.
        made: Streams that the driver made for graphs, with their context.
    """
    contexts = {context.context_id: context for context in program.contexts}
    graphs = {graph.name: 1 + k for k, graph in enumerate(program.graphs)}
    events = {name: 1 + k for k, name in enumerate(dict.fromkeys(_event_names(host)))}
    partition_of = partition_rows(program)
    tables = {
        "ops": [_operation(o, contexts, partition_of, graphs) for o in operations],
        "api_calls": [_call(call) for call in host.calls],
        "syncs": _syncs(host, contexts, events),
        "event_records": _records(host, contexts, events),
        "streams": _streams(machine, made, contexts),
        "partitions": _partitions(program),
        "graph_edges": _edges(program, graphs),
        "devices": [
            {"device_id": d.device_id, "sm_count": d.sm_count, "copy_engine_count": 3, "name": "NVIDIA H200",
             "compute_capability": "9.0"}
            for d in program.devices
        ],
        "threads": [
            {"process_id": PROCESS, "thread_id": FIRST_THREAD + k} for k in range(len(program.threads))
        ],
        "ranges": [
            {"process_id": PROCESS, "thread_id": FIRST_THREAD + t, "track": "annotation", "name": name,
             "start_ns": start, "end_ns": end, "nesting_level": 0}
            for t, name, start, end in host.ranges
        ] + _host_functions(host, contexts),
        "accesses": _accesses(program, host, operations),
        "allocations": _allocations(program, host, contexts),
        "overheads": [
            {"process_id": PROCESS, "thread_id": FIRST_THREAD + t, "kind": kind, "of_recording": of_recording,
             "start_ns": start, "end_ns": end}
            for t, kind, of_recording, start, end in host.overheads
        ],
    }  # fmt: skip
    return validate(
        "simulated", _header(), {name: _table(name, rows) for name, rows in tables.items() if rows}
    )


def _table(name: str, rows: Sequence[Row]) -> pa.Table:
    used = {key for row in rows for key in row}
    return table_from_columns(
        name,
        {
            column.name: [row.get(column.name) for row in rows]
            if column.name in used
            else _unknown(name, column.name, len(rows))
            for column in TABLES[name].columns
        },
    )


@cache
def _unknown(table: str, column: str, length: int) -> pa.Array:
    """Return a column of nulls, made once: small tables spend most of their time on these."""
    return null_array(arrow_schema(table).field(column).type, length)


@cache
def _empty(name: str) -> pa.Table:
    return empty_table(name)


def _header() -> Header:
    return Header(
        format="simulated",
        producer="Overlane's simulator",
        synthetic=True,
        capabilities={
            name: Capability(True, "The simulator writes all that CUPTI can give.") for name in _CAPABILITIES
        },
        clocks=(ClockDomain("cupti", 0, 0),),
    )


def _event_names(host: Host) -> list[str]:
    return [name for _, name, _ in host.records] + [name for _, _, name, _ in host.waits if name]


def _operation(
    operation: Operation,
    contexts: Mapping[int, Context],
    partition_of: Mapping[int, int],
    graphs: Mapping[str, int],
) -> Row:
    work, stream = operation.work, operation.command.stream
    row: Row = {
        "process_id": PROCESS,
        "device_id": contexts[stream.spec.context_id].device_id,
        "context_id": stream.spec.context_id,
        "partition_id": partition_of[stream.spec.context_id],
        "stream_id": operation.stream_id,
        "engine": operation.engine,
        "start_ns": operation.start_ns,
        "end_ns": operation.end_ns,
        "correlation_id": operation.call.correlation,
        "priority": operation.priority,
        "channel_id": 1 + operation.stream_id if isinstance(work, Launch) else None,
    }
    if operation.graph is not None:
        row |= {
            "graph_id": graphs[operation.graph[0]],
            "graph_node_id": (graphs[operation.graph[0]] << 32) + operation.graph[2],
        }
    if isinstance(work, Launch):
        return row | _kernel(work) | ({} if operation.graph else {"queued_ns": operation.command.issued_ns})
    if isinstance(work, Memset):
        return row | {
            "kind": "memset",
            "name": "Memset (Device)",
            "bytes": work.bytes,
            "dst_memory": "device",
        }
    return row | _copy(work)


def _kernel(work: Launch) -> Row:
    return {
        "kind": "kernel",
        "name": work.name,
        "grid": [work.blocks, 1, 1],
        "block": [work.threads, 1, 1],
        "cluster": [work.cluster, 1, 1] if work.cluster > 1 else None,
        "registers": work.registers,
        "shared_bytes": work.shared_bytes,
        "launch_type": work.launch_type,
    }


def _copy(work: Copy) -> Row:
    host = "pageable" if work.is_pageable else "pinned"
    source = host if work.direction == "h2d" else "device"
    target = host if work.direction == "d2h" else "device"
    letters = {"h2d": "HtoD", "d2h": "DtoH", "d2d": "DtoD"}[work.direction]
    return {
        "kind": "memcpy",
        "name": f"Memcpy {letters} ({source.title()} -> {target.title()})",
        "bytes": work.bytes,
        "src_memory": source,
        "dst_memory": target,
    }


def _call(call: Call) -> Row:
    return {
        "process_id": PROCESS,
        "thread_id": FIRST_THREAD + call.thread,
        "api": "runtime" if call.name.startswith("cuda") else "driver",
        "name": call.name,
        "start_ns": call.start_ns,
        "end_ns": call.end_ns,
        "correlation_id": call.correlation,
        "result": call.result,
    }


def _host_functions(host: Host, contexts: Mapping[int, Context]) -> list[Row]:
    return [
        {
            "process_id": PROCESS,
            "track": "other",
            "name": "host function",
            "device_id": contexts[command.stream.spec.context_id].device_id,
            "stream_id": command.stream.stream_id,
            "correlation_id": call.correlation,
            "start_ns": (command.done_ns or 0) - command.duration_ns,
            "end_ns": command.done_ns,
        }
        for call, command in host.shown
        if command.kind == "host_function"
    ]


def _syncs(host: Host, contexts: Mapping[int, Context], events: Mapping[str, int]) -> list[Row]:
    ids = {id(command): 1 + k for k, (_, _, command) in enumerate(host.records)}
    recorded_by = {id(command): call.correlation for call, _, command in host.records}
    rows = []
    entries = [
        (call, "stream_wait_event", stream, None, name, record) for call, stream, name, record in host.waits
    ]
    for call, kind, stream, context, name, record in [*host.syncs, *entries]:
        context_id = context
        if context_id is None:
            owner = stream or (record.stream if record is not None else None)
            context_id = owner.spec.context_id if owner is not None else min(contexts)
        rows.append(
            {
                "sync_kind": kind,
                **{key: value for key, value in _call(call).items() if key not in {"api", "name"}},
                "device_id": contexts[context_id].device_id,
                "context_id": context_id,
                "stream_id": stream.stream_id if stream is not None else None,
                "waits_on_stream_id": record.stream.stream_id if record is not None else None,
                "waits_on_correlation_id": recorded_by[id(record)] if record is not None else None,
                "cuda_event_id": events.get(name),
                "cuda_event_sync_id": ids[id(record)] if record is not None else None,
            }
        )  # fmt: skip
    for call, command in host.shown:
        if command.kind == "value_wait":
            owned = command.stream.context
            rows.append(
                {
                    "sync_kind": "other",
                    **{key: value for key, value in _call(call).items() if key not in {"api", "name"}},
                    "end_ns": max(command.done_ns or 0, call.end_ns),
                    "device_id": owned.device_id,
                    "context_id": owned.context_id,
                    "stream_id": command.stream.stream_id,
                }
            )
    return rows


def _records(host: Host, contexts: Mapping[int, Context], events: Mapping[str, int]) -> list[Row]:
    return [
        {
            "cuda_event_id": events[name],
            "cuda_event_sync_id": 1 + k,
            "process_id": PROCESS,
            "thread_id": FIRST_THREAD + call.thread,
            "device_id": contexts[command.stream.spec.context_id].device_id,
            "context_id": command.stream.spec.context_id,
            "stream_id": command.stream.stream_id,
            "correlation_id": call.correlation,
            "at_ns": call.start_ns,
            "device_ns": command.done_ns,
        }
        for k, (call, name, command) in enumerate(host.records)
    ]


def _streams(machine: Machine, made: Mapping[int, int], contexts: Mapping[int, Context]) -> list[Row]:
    rows = [
        {
            "device_id": s.context.device_id,
            "context_id": s.spec.context_id,
            "stream_id": s.stream_id,
            "stream_kind": s.spec.kind,
            "priority": s.spec.priority,
            "name": s.spec.name,
        }
        for s in machine.streams.values()
    ]
    return rows + [
        {
            "device_id": contexts[context].device_id,
            "context_id": context,
            "stream_id": stream,
            "stream_kind": "nonblocking",
        }
        for stream, context in made.items()
    ]


def _partitions(program: Program) -> list[Row]:
    devices = {device.device_id: device for device in program.devices}
    rows = []
    for context in program.contexts:
        low, high = context.sms or (0, devices[context.device_id].sm_count)
        is_green = context.parent is not None
        mask = sum(1 << tpc for tpc in range(low // 2, -(-high // 2)))
        rows.append(
            {
                "device_id": context.device_id,
                "context_id": context.context_id,
                "parent_context_id": context.parent,
                "sm_requested": high - low if is_green else None,
                "sm_granted": high - low,
                "tpc_mask": f"{mask:x}" if is_green else None,
            }
        )
    return rows


def _edges(program: Program, graphs: Mapping[str, int]) -> list[Row]:
    return [
        {
            "graph_id": graphs[graph.name],
            "from_node_id": (graphs[graph.name] << 32) + before,
            "to_node_id": (graphs[graph.name] << 32) + number,
            "edge_kind": "full",
        }
        for graph in program.graphs
        for number, node in enumerate(graph.nodes)
        for before in node.after
    ]


def _accesses(program: Program, host: Host, operations: Sequence[Operation]) -> list[Row]:
    first = addresses(program)
    rows: list[Row] = [
        {"op_id": op_id, **_access(a, first)}
        for op_id, operation in enumerate(operations)
        for a in operation.work.accesses
    ]  # fmt: skip
    for point in host.points:
        if point.access is not None:
            row = {"thread_id": FIRST_THREAD + point.thread, "at_ns": point.at_ns}
            rows.append(row | _access(point.access, first))
    return rows


def _access(access: Access, first: Mapping[str, int]) -> Row:
    return {
        "address": first[access.buffer] + access.offset,
        "bytes": access.bytes,
        "mode": access.mode,
        "certainty": "declared",
    }


def _allocations(program: Program, host: Host, contexts: Mapping[int, Context]) -> list[Row]:
    first, sizes = addresses(program), {b.name: b.bytes for b in program.buffers}
    rows = []
    for call, buffer, is_free, device, stream in host.allocations:
        context = next(c for c in contexts.values() if c.device_id == device)
        if stream is not None:
            context = stream.context
        rows.append(
            {
                "process_id": PROCESS,
                "device_id": context.device_id,
                "context_id": context.context_id,
                "address": first[buffer],
                "bytes": sizes[buffer],
                "memory_kind": "device",
                "at_ns": call.start_ns,
                "freed": is_free,
                "stream_id": stream.stream_id if stream is not None else None,
                "correlation_id": call.correlation,
            }
        )
    return rows
