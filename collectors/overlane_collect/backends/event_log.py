"""What the CUDA-event backend keeps of a workload: where it runs, what it calls, and what it starts."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from overlane_collect._cuda import DriverError, Gpu
from overlane_collect.activities import Kind
from overlane_collect.strings import StringTable

__all__ = ["Call", "CallLog", "Operation", "Places", "described"]

Row = dict[str, Any]

_LEGACY_HANDLES, _PER_THREAD_HANDLE = (0, 1), 2
_LEGACY_ID, _PER_THREAD_ID, _FIRST_ID = 7, 8, 13  # as CUPTI numbers them
_BLOCKING, _NON_BLOCKING, _LEGACY = 1, 2, 3
_MEMORY = {"pageable": 1, "pinned": 2, "device": 3, "managed": 5}
_UP, _DOWN, _WITHIN, _PEER = 1, 2, 8, 10
_OWN_EXTERNAL = 3
# Call to the type of its record, and the places of its stream and its event among the arguments.
_SYNCS = {
    "cuEventSynchronize": (1, None, 0),
    "cuStreamWaitEvent": (2, 0, 1),
    "cuStreamSynchronize": (3, 0, None),
    "cuCtxSynchronize": (4, None, None),
}
_COPIES = {"cuMemcpyHtoDAsync": _UP, "cuMemcpyDtoHAsync": _DOWN, "cuMemcpyDtoDAsync": _WITHIN}


class Operation(NamedTuple):
    """One operation of a workload.

    Attributes:
        kind: Number of the record's kind.
        stream: Handle of its stream.
        fields: What its record holds besides place and time.
        name: Name of a kernel.
        correlation: Number of the call.
        context: Context that was current.
    """

    kind: int
    stream: int
    fields: Row
    name: str = ""
    correlation: int = 0
    context: int = 0


def described(gpu: Gpu, name: str, arguments: Sequence[Any], what: str) -> Operation | None:
    """Return the operation that a call starts, None of one that is not known.

    Args:
        gpu: Device.
        name: The call.
        arguments: Its arguments.
        what: Name of a kernel.
    """
    if name in _COPIES:
        target, source, length, stream = arguments
        kinds = {"src_kind": _memory(gpu, source), "dst_kind": _memory(gpu, target)}
        return Operation(Kind.MEMCPY, int(stream), {"copy_kind": _COPIES[name], "bytes": length, **kinds})
    if name == "cuMemcpyPeerAsync":
        fields = {"copy_kind": _PEER, "bytes": arguments[4], "src_kind": 3, "dst_kind": 3}
        return Operation(Kind.MEMCPY, int(arguments[5]), fields)
    if name == "cuMemsetD8Async":
        target, _, length, stream = arguments
        return Operation(Kind.MEMSET, int(stream), {"bytes": length, "memory_kind": _memory(gpu, target)})
    if name in ("cuLaunchKernel", "cuLaunchCooperativeKernel"):
        shape = {"grid": tuple(arguments[1:4]), "block": tuple(arguments[4:7])}
        launch_type = int(name == "cuLaunchCooperativeKernel")
        fields = {**shape, "launch_type": launch_type, **_needs(gpu, arguments[0], arguments[7])}
        return Operation(Kind.CONCURRENT_KERNEL, int(arguments[8]), fields, what)
    if name == "cuLaunchKernelEx":
        config = arguments[0]
        shape = {
            part: tuple(int(getattr(config, f"{part}Dim{axis}")) for axis in "XYZ")
            for part in ("grid", "block")
        }
        fields = {**shape, **_needs(gpu, arguments[1], int(config.sharedMemBytes))}
        return Operation(Kind.CONCURRENT_KERNEL, int(config.hStream), fields, what)
    if name == "cuGraphLaunch":
        return Operation(Kind.GRAPH_TRACE, int(arguments[1]), {})
    return None


def _needs(gpu: Gpu, function: Any, dynamic: int) -> Row:
    """Return what a kernel needs of an SM."""
    attributes = gpu.driver.CUfunction_attribute
    observer, gpu.observer = gpu.observer, None  # a question of ours is no call of the workload
    try:
        registers = gpu.call("cuFuncGetAttribute", attributes.CU_FUNC_ATTRIBUTE_NUM_REGS, function)
        shared = gpu.call("cuFuncGetAttribute", attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
    except DriverError:
        return {}
    finally:
        gpu.observer = observer
    return {"registers": int(registers), "static_shared": int(shared), "dynamic_shared": dynamic}


def _memory(gpu: Gpu, address: int) -> int:
    for base, (length, kind) in gpu.host_kinds.items():
        if base <= address < base + length:
            return _MEMORY[kind]
    return _MEMORY["device"]


class Call(NamedTuple):
    """One driver call of a workload.

    Attributes:
        name: The call.
        arguments: Its arguments.
        began: When it began.
        ended: When it ended.
        result: What it returned.
        context: Context that was current.
        external: Number that marks what it starts.
        captured: Whether it only went into a graph.
    """

    name: str
    arguments: Sequence[Any]
    began: int
    ended: int
    result: int
    context: int
    external: int | None
    captured: bool


class Places:
    """Devices, contexts and streams by number."""

    ATTRIBUTES: ClassVar[Mapping[str, str]] = {
        "sm_count": "MULTIPROCESSOR_COUNT",
        "copy_engine_count": "ASYNC_ENGINE_COUNT",
        "capability_major": "COMPUTE_CAPABILITY_MAJOR",
        "capability_minor": "COMPUTE_CAPABILITY_MINOR",
    }
    per_thread_id = _PER_THREAD_ID

    def __init__(self) -> None:
        self._devices: dict[int, Row] = {}
        self._contexts: dict[int, Row] = {}
        self._streams: dict[int, Row] = {}

    def has_device(self, device: int) -> bool:
        """Tell whether a device is known."""
        return device in self._devices

    def sm_count(self, device: int) -> int:
        """Return a device's SMs."""
        return int(self._devices[device]["sm_count"])

    def device(self, device: int, name: str, memory_bytes: int, attributes: Row) -> None:
        """Note a device."""
        self._devices[device] = {
            "device_id": device,
            "name": name,
            "memory_bytes": memory_bytes,
            **attributes,
        }

    def context(self, device: int, handle: int, *, parent: int | None, sm_count: int) -> None:
        """Note a context; a green one has a parent."""
        self._contexts[handle] = {
            "context_id": len(self._contexts) + 1,
            "device_id": device,
            "null_stream_id": _LEGACY_ID,
            "is_green_context": int(parent is not None),
            "parent_context_id": 0 if parent is None else self.context_id(parent),
            "sm_count": sm_count,
            "process_id": os.getpid(),
        }

    def context_id(self, handle: int) -> int:
        """Return the number of a context."""
        return int(self._contexts[handle]["context_id"])

    def stream(self, handle: int, context: int, *, blocking: bool, priority: int) -> None:
        """Note a stream."""
        self._streams[handle] = {
            "context_id": self.context_id(context),
            "stream_id": _FIRST_ID + len(self._streams),
            "priority": priority,
            "flag": _BLOCKING if blocking else _NON_BLOCKING,
            "context": context,
        }

    def stream_id(self, handle: int) -> int:
        """Return the number of a stream."""
        if handle in _LEGACY_HANDLES:
            return _LEGACY_ID
        return _PER_THREAD_ID if handle == _PER_THREAD_HANDLE else int(self._streams[handle]["stream_id"])

    def place(self, stream: int, current: int) -> Row:
        """Return device, context and stream of what is done on a stream while a context is current."""
        context = self._streams[stream]["context"] if stream in self._streams else current
        record = self._contexts[context]
        return {
            "device_id": record["device_id"],
            "context_id": record["context_id"],
            "stream_id": self.stream_id(stream),
        }

    def rows(self, strings: StringTable) -> dict[int, list[Row]]:
        """Return the records of all of them."""
        named = [{**row, "name": strings.number(row["name"])} for row in self._devices.values()]
        streams = [{k: v for k, v in row.items() if k != "context"} for row in self._streams.values()]
        rows = {Kind.DEVICE: named, Kind.CONTEXT: list(self._contexts.values()), Kind.STREAM: streams}
        return {kind: found for kind, found in rows.items() if found}

    def operation_row(self, operation: Operation, strings: StringTable) -> tuple[int, Row]:
        """Return kind and record of an operation, without its times."""
        row = {**operation.fields, **self.place(operation.stream, operation.context)}
        if operation.name:
            row["name"] = strings.number(operation.name)
        return operation.kind, {**row, "correlation_id": operation.correlation}


class CallLog:
    """Calls of a workload, with what they synchronize and record."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.last = 0
        self._numbers: dict[str, int] = {}
        self._calls: list[Row] = []
        self._external: list[Row] = []
        self._syncs: list[tuple[Row, int | None, int]] = []
        self._records: list[tuple[Row, int, int]] = []
        self._events: dict[int, int] = {}
        self._latest: dict[int, int] = {}  # event to the number of its latest record

    @staticmethod
    def stream_of(name: str, arguments: Sequence[Any]) -> int | None:
        """Return the stream that a call records into or lets wait, None of other calls."""
        if name == "cuEventRecord":
            return int(arguments[1])
        return int(arguments[0]) if name == "cuStreamWaitEvent" else None

    def add(self, call: Call) -> None:
        """Note a call."""
        self.last += 1
        number = self._numbers.setdefault(call.name, len(self._numbers) + 1)
        self.names[number] = call.name
        times = {"start": call.began, "end": call.ended, "correlation_id": self.last, "result": call.result}
        thread = {"process_id": os.getpid(), "thread_id": threading.get_native_id()}
        self._calls.append({"cbid": number, **times, **thread})
        if call.external is not None:
            self._external.append(
                {"external_kind": _OWN_EXTERNAL, "external_id": call.external, "correlation_id": self.last}
            )
        if call.captured:
            return
        if call.name == "cuEventRecord":
            event = self._event(call.arguments[0])
            self._latest[event] = self.last
            row = {"correlation_id": self.last, "cuda_event_id": event, "cuda_event_sync_id": self.last}
            self._records.append((row, int(call.arguments[1]), call.context))
        elif call.name in _SYNCS:
            kind, stream_place, event_place = _SYNCS[call.name]
            row = {"type": kind, **times}
            if event_place is not None:
                event = self._event(call.arguments[event_place])
                row |= {"cuda_event_id": event, "cuda_event_sync_id": self._latest.get(event, 0)}
            stream = None if stream_place is None else int(call.arguments[stream_place])
            self._syncs.append((row, stream, call.context))

    def rows(self, places: Places) -> dict[int, list[Row]]:
        """Return the records of all of them."""
        unset = 0xFFFFFFFF
        syncs = []
        for row, stream, context in self._syncs:
            where = places.place(1 if stream is None else stream, context)
            del where["device_id"]
            syncs.append({**where, **({"stream_id": unset} if stream is None else {}), **row})
        records = [{**places.place(stream, context), **row} for row, stream, context in self._records]
        rows = {
            Kind.DRIVER: self._calls,
            Kind.EXTERNAL_CORRELATION: self._external,
            Kind.SYNCHRONIZATION: syncs,
            Kind.CUDA_EVENT: records,
        }
        return {kind: found for kind, found in rows.items() if found}

    def _event(self, handle: Any) -> int:
        return self._events.setdefault(int(handle), len(self._events) + 1)
