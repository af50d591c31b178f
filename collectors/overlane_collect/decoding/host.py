"""What the host did: calls, synchronizations, event records, allocations, overheads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.activities import Kind
from overlane_collect.decoding.columns import Column, Draft, constant, ids, integers, labels, stack, texts
from overlane_collect.decoding.frames import Gathered
from overlane_collect.decoding.lookup import Lookup
from overlane_collect.decoding.ops import MEMORY_KINDS, keep_stamped

__all__ = ["Calls", "allocations", "calls", "event_records", "overheads", "synchronizations"]

_SYNC_KINDS = {1: "event", 2: "stream_wait_event", 3: "stream", 4: "context"}
_OVERHEADS = {
    0: ("unknown", None),
    1: ("driver_compiler", False),
    1 << 16: ("cupti_buffer_flush", True),
    2 << 16: ("cupti_instrumentation", True),
    3 << 16: ("cupti_resource", True),
    4 << 16: ("runtime_triggered_module_loading", False),
    5 << 16: ("lazy_function_loading", False),
    6 << 16: ("command_buffer_full", False),
    7 << 16: ("activity_buffer_request", True),
    8 << 16: ("uvm_activity_init", True),
}
_OBJECT_PROCESS, _OBJECT_THREAD = 1, 2


def calls(gathered: Gathered) -> tuple[Draft, int]:
    """Return the draft of `api_calls`, and how many records had impossible stamps."""
    drafts, rows, bad = [], [], 0
    numbers = gathered.fact("cupti").get("calls", {})
    for kind, api in ((Kind.RUNTIME, "runtime"), (Kind.DRIVER, "driver")):
        stamped = keep_stamped(gathered.records(kind))
        bad += stamped.zero + stamped.backwards
        records = stamped.records
        if not len(records):
            continue
        names = {int(number): _call_name(name) for number, name in numbers.get(api, {}).items()}
        found, inverse = np.unique(records["cbid"], return_inverse=True)
        words = texts([names.get(number, f"{api} call {number}") for number in found.tolist()])
        drafts.append(
            {
                "process_id": integers(records["process_id"]),
                "thread_id": integers(records["thread_id"]),
                "api": constant(api, len(records)),
                "name": words.take(inverse),
                "start_ns": integers(records["start"]),
                "end_ns": integers(records["end"], null=records["end"] == 0),
                "correlation_id": ids(records, "correlation_id", zero_is_null=True),
                "result": integers(records["result"]),
            }
        )
        rows.append(len(records))
        del stamped, records
        gathered.forget(kind)
    return (stack(drafts, rows) if drafts else {}), bad


def _call_name(name: str) -> str:
    """Return the call's name without the version that CUPTI adds: cudaLaunchKernel_v7000, cuMemAlloc_v2."""
    stem, _, last = name.rpartition("_")
    return stem if stem and last[:1] == "v" and last[1:].isdigit() and len(last) > 4 else name


class Calls:
    """Host calls by correlation id.

    Args:
        draft: Draft of `api_calls`.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        column = draft.get("correlation_id")
        self._lookup = (
            Lookup(np.zeros(0, np.int64)) if column is None else Lookup(column.values, column.known())
        )

    def get(self, name: str, correlation: Column) -> Column:
        """Return a column of the calls that these correlation ids belong to; null without a call."""
        rows = np.where(correlation.known(), self._lookup.rows(correlation.values), -1)
        if name not in self._draft:
            return constant(None, len(rows))
        found = self._draft[name].take(np.maximum(rows, 0)) if len(self._draft[name].values) else None
        if found is None:
            return constant(None, len(rows))
        if found.words is not None:
            return Column(np.where(rows < 0, -1, found.values), None, found.words)
        return Column(found.values, (rows < 0) | ~found.known())


def synchronizations(
    gathered: Gathered, call: Calls, events: Draft, devices: dict[int, int]
) -> tuple[Draft, int]:
    """Return the draft of `syncs`, and how many records had impossible stamps.

    Args:
        gathered: The journal.
        call: Host calls.
        events: Draft of `event_records`.
        devices: Context to device.
    """
    stamped = keep_stamped(gathered.records(Kind.SYNCHRONIZATION))
    records = stamped.records
    if not len(records):
        return {}, stamped.zero + stamped.backwards
    correlation = ids(records, "correlation_id", zero_is_null=True)
    context = ids(records, "context_id")
    sync_id = ids(records, "cuda_event_sync_id", zero_is_null=True)
    has_event = np.isin(records["type"], (1, 2))
    if "cuda_event_sync_id" in events:
        column = events["cuda_event_sync_id"]
        rows = np.where(sync_id.known(), Lookup(column.values, column.known()).rows(sync_id.values), -1)
        recorded = {name: _picked(events[name], rows) for name in ("stream_id", "correlation_id")}
    else:
        recorded = {name: constant(None, len(records)) for name in ("stream_id", "correlation_id")}
    event = ids(records, "cuda_event_id")
    return {
        "sync_kind": _sync_kinds(records, call.get("name", correlation)),
        "process_id": call.get("process_id", correlation),
        "thread_id": call.get("thread_id", correlation),
        "device_id": _devices_of(context, devices),
        "context_id": context,
        "stream_id": ids(records, "stream_id"),
        "waits_on_stream_id": recorded["stream_id"],
        "waits_on_correlation_id": recorded["correlation_id"],
        "cuda_event_id": Column(event.values, ~(event.known() & has_event)),
        "cuda_event_sync_id": Column(sync_id.values, ~(sync_id.known() & has_event)),
        "start_ns": integers(records["start"]),
        "end_ns": integers(records["end"], null=records["end"] == 0),
        "correlation_id": correlation,
        "result": ids(records, "result"),
    }, stamped.zero + stamped.backwards


def _sync_kinds(records: npt.NDArray[Any], names: Column) -> Column:
    """Return what was waited for or asked. The call tells a device from a context, a query from a wait."""
    words = [
        "event",
        "stream_wait_event",
        "stream",
        "context",
        "device",
        "event_query",
        "stream_query",
        "other",
    ]
    codes = np.full(len(records), words.index("other"), np.int32)
    for number, word in _SYNC_KINDS.items():
        codes[records["type"] == number] = words.index(word)
    for code, name in enumerate(names.words or ()):
        for part, word in (
            ("DeviceSynchronize", "device"),
            ("EventQuery", "event_query"),
            ("StreamQuery", "stream_query"),
        ):
            if part in name:
                codes[names.values == code] = words.index(word)
    return Column(codes, None, words)


def _picked(column: Column, rows: npt.NDArray[np.int64]) -> Column:
    found = column.take(np.maximum(rows, 0)) if len(column.values) else constant(None, len(rows))
    return Column(found.values, (rows < 0) | ~found.known())


def _devices_of(context: Column, devices: dict[int, int]) -> Column:
    found, inverse = np.unique(context.values, return_inverse=True)
    values = np.asarray([devices.get(int(value), -1) for value in found], np.int64)[inverse]
    return Column(values, (values < 0) | ~context.known())


def event_records(gathered: Gathered, call: Calls, devices: dict[int, int]) -> Draft:
    """Return the draft of `event_records`.

    Args:
        gathered: The journal.
        call: Host calls.
        devices: Context to device.
    """
    records = gathered.records(Kind.CUDA_EVENT)
    if not len(records):
        return {}
    correlation = ids(records, "correlation_id", zero_is_null=True)
    context = ids(records, "context_id")
    return {
        "cuda_event_id": ids(records, "cuda_event_id"),
        "cuda_event_sync_id": ids(records, "cuda_event_sync_id", zero_is_null=True),
        "process_id": call.get("process_id", correlation),
        "thread_id": call.get("thread_id", correlation),
        "device_id": _devices_of(context, devices),
        "context_id": context,
        "stream_id": ids(records, "stream_id"),
        "correlation_id": correlation,
        "at_ns": call.get("start_ns", correlation),
        "device_ns": ids(records, "device_timestamp", zero_is_null=True),
    }


def allocations(gathered: Gathered) -> tuple[Draft, int]:
    """Return the draft of `allocations`, and how many records had no stamp."""
    everything = gathered.records(Kind.MEMORY2)
    records = everything[everything["timestamp"] != 0]
    bad = len(everything) - len(records)
    if not len(records):
        return {}, bad
    return {
        "process_id": integers(records["process_id"]),
        "device_id": ids(records, "device_id"),
        "context_id": ids(records, "context_id", zero_is_null=True),
        "address": integers(records["address"].view(np.int64)),
        "bytes": integers(records["bytes"], null=records["bytes"] == 0),
        "memory_kind": labels(records["memory_kind"], MEMORY_KINDS),
        "at_ns": integers(records["timestamp"]),
        "freed": integers(records["operation"] == 2),  # CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
        "stream_id": integers(records["stream_id"], null=records["is_async"] == 0),
        "correlation_id": ids(records, "correlation_id", zero_is_null=True),
    }, bad


def overheads(gathered: Gathered) -> tuple[Draft, int]:
    """Return the draft of `overheads`, and how many records had impossible stamps."""
    stamped = keep_stamped(gathered.records(Kind.OVERHEAD))
    records = stamped.records
    if not len(records):
        return {}, stamped.zero + stamped.backwards
    kind = records["overhead_kind"]
    caused = np.asarray([_OVERHEADS.get(k, ("", None))[1] is True for k in kind.tolist()])
    unsaid = np.asarray([_OVERHEADS.get(k, ("", None))[1] is None for k in kind.tolist()])
    by_thread = records["object_kind"] == _OBJECT_THREAD
    has_process = by_thread | (records["object_kind"] == _OBJECT_PROCESS)
    channel = ids(records, "channel_id", zero_is_null=True)
    names = {number: name for number, (name, _) in _OVERHEADS.items()}
    names |= {int(k): f"kind {k}" for k in np.unique(kind) if int(k) not in names}
    return {
        "process_id": integers(records["object"][:, 0], null=~has_process),
        "thread_id": integers(records["object"][:, 1], null=~by_thread),
        "kind": labels(kind, names),
        "of_recording": Column(caused.astype(np.int64), unsaid),
        "channel_id": Column(channel.values - 1, ~channel.known()),
        "start_ns": integers(records["start"]),
        "end_ns": integers(records["end"], null=records["end"] == 0),
    }, stamped.zero + stamped.backwards
