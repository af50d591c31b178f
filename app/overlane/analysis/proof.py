"""What a trace cannot prove, and why: the sentence for sections without rows and for advice not given."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from overlane.trace import Trace

__all__ = ["CAPABILITIES", "why_unproven"]


@dataclass(frozen=True)
class _Need:
    """What a kind of statement rests on.

    Attributes:
        table: Table that must have rows.
        column: Column of it that must not be null throughout; None for any row.
        absent: The sentence for a file that says nothing about it and has none.
    """

    table: str
    column: str | None
    absent: str


CAPABILITIES: dict[str, _Need] = {
    "launch_times": _Need(
        "api_calls", "correlation_id", "No operation can be joined to the call that started it."
    ),
    "host_calls": _Need("api_calls", None, "No host call was recorded."),
    "syncs": _Need("syncs", None, "The trace holds no synchronization or stream wait."),
    "event_records": _Need("event_records", None, "The trace holds no event record."),
    "stream_kinds": _Need(
        "streams", "stream_kind", "No stream says how it orders with the legacy default stream."
    ),
    "memory_kinds": _Need("ops", "src_memory", "No copy says what kind of memory it reads or writes."),
    "buffer_accesses": _Need(
        "accesses", None, "The trace does not say what memory its operations read and write."
    ),
    "priorities": _Need("ops", "priority", "No operation carries a priority."),
    "partitions": _Need("partitions", None, "The trace does not say which SMs its operations may use."),
    "tpc_masks": _Need("partitions", "tpc_mask", "No partition says which SMs it was given."),
    "block_placement": _Need("blocks", None, "No kernel logged on which SM its blocks ran."),
    "grids": _Need("ops", "grid", "No kernel carries its number of blocks."),
    "channels": _Need("ops", "channel_id", "No operation names its hardware queue."),
    "collectives": _Need("collectives", None, "No operation says that it carries out a collective."),
    "recording_cost": _Need("overheads", None, "The trace does not say what recording cost."),
}
"""Capabilities by name, as headers name them where a producer knows of them."""


def why_unproven(trace: Trace, *names: str) -> str | None:
    """Return why a trace cannot prove what rests on these capabilities; None where it can.

    The trace's own word counts; where it says nothing, the rows do.

    Args:
        trace: The trace.
        names: Names in `CAPABILITIES`.

    Returns:
        A sentence that names the first missing one.
    """
    for name in names:
        need = CAPABILITIES[name]
        stated = trace.header.capabilities.get(name)
        if stated is not None and stated.proven:
            continue
        reason = need.absent if stated is None or not stated.reason else _sentence(stated.reason)
        if stated is not None or not _has(trace, need):
            return f"{reason} (missing: {name})"
    return None


def _has(trace: Trace, need: _Need) -> bool:
    table = trace.table(need.table)
    if need.column is None:
        return bool(table.num_rows)
    column = table[need.column]
    return bool(pc.count(column).as_py())


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
