"""What a simulated program is: devices, contexts, streams, buffers, graphs, and host threads that issue work.

A program is data, so that it can be generated, shrunk and printed. `overlane.simulate.checking` says what
is wrong with one. All durations are whole nanoseconds of at least 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "Access",
    "Allocate",
    "AllocateAsync",
    "Buffer",
    "Context",
    "ContextSync",
    "Copy",
    "Costs",
    "Device",
    "DeviceSync",
    "EventQuery",
    "EventSync",
    "Free",
    "FreeAsync",
    "Graph",
    "GraphLaunch",
    "HostAccess",
    "HostFunction",
    "HostWork",
    "ImplicitCall",
    "Launch",
    "Memset",
    "Node",
    "Program",
    "Record",
    "Recording",
    "Release",
    "Statement",
    "Stream",
    "StreamQuery",
    "StreamSync",
    "Thread",
    "ValueWait",
    "WaitEvent",
]


@dataclass(frozen=True)
class Device:
    """One GPU with one copy engine a direction.

    Attributes:
        device_id: Number of the device.
        sm_count: Streaming multiprocessors.
        threads, blocks, registers, shared_bytes: What one SM can hold at a time.
        fills: Which SM with room gets a block, which no row shows: `emptiest` or `fullest`.
    """

    device_id: int = 0
    sm_count: int = 4
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 233472
    fills: str = "emptiest"


@dataclass(frozen=True)
class Context:
    """A context of a device: the primary one, a green one with SMs of its own, or another full one.

    Attributes:
        context_id: Number of the context.
        device_id: Device that it belongs to.
        parent: Context that a green context was made from; None for a full context.
        sms: First and one past the last SM of a green context; None for all of the device.
    """

    context_id: int = 1
    device_id: int = 0
    parent: int | None = None
    sms: tuple[int, int] | None = None


@dataclass(frozen=True)
class Stream:
    """One stream.

    Attributes:
        name: Name by which statements mean it.
        kind: `legacy_default`, `per_thread_default`, `blocking` or `nonblocking`.
        context_id: Context that it belongs to.
        priority: Lower is more urgent.
    """

    name: str
    kind: str = "nonblocking"
    context_id: int = 1
    priority: int = 0


@dataclass(frozen=True)
class Buffer:
    """A piece of memory.

    Attributes:
        name: Name by which accesses mean it.
        bytes: Length.
        memory: `device`, `pinned` or `pageable`.
    """

    name: str
    bytes: int = 4096
    memory: str = "device"


@dataclass(frozen=True)
class Access:
    """A declared access to `[offset, offset + bytes)` of a buffer; `mode` is `read` or `write`."""

    buffer: str
    mode: str
    offset: int = 0
    bytes: int = 4096


@dataclass(frozen=True)
class Launch:
    """A kernel launch (cuLaunchKernel).

    Attributes:
        stream: Stream.
        block_ns: Run time of each block.
        blocks: Blocks of the grid.
        threads: Threads of a block.
        registers: Registers of a thread.
        shared_bytes: Shared memory of a block.
        cluster: Blocks that must be admitted together.
        launch_type: `regular`, `cooperative` (the whole grid is admitted together) or `programmatic` (behind
            anything but a kernel of its stream an ordinary launch).
        trigger_ns: When, after its start, it lets a programmatic launch behind it start; None for at its end.
        loads_code: It is the first launch of a function, whose code is loaded lazily.
        name: Name of the kernel.
        accesses: Declared accesses.
    """

    stream: str
    block_ns: int = 10_000
    blocks: int = 1
    threads: int = 256
    registers: int = 32
    shared_bytes: int = 0
    cluster: int = 1
    launch_type: str = "regular"
    trigger_ns: int | None = None
    loads_code: bool = False
    name: str = "kernel"
    accesses: tuple[Access, ...] = ()

    @property
    def need(self) -> tuple[int, int, int, int]:
        """Threads, blocks, registers and shared bytes of one block."""
        return self.threads, 1, self.registers * self.threads, self.shared_bytes

    @property
    def unit(self) -> int:
        """How many blocks must start together."""
        return self.blocks if self.launch_type == "cooperative" else self.cluster


@dataclass(frozen=True)
class Copy:
    """A copy of memory.

    Attributes:
        stream: Stream; for a synchronous copy the legacy default stream of its context.
        direction: `h2d`, `d2h` or `d2d`.
        duration_ns: Time on the copy engine.
        bytes: Bytes moved.
        is_pageable: The host side is pageable memory.
        is_async: The call is an asynchronous one.
        accesses: Declared accesses.
    """

    stream: str
    direction: str = "h2d"
    duration_ns: int = 10_000
    bytes: int = 1 << 20
    is_pageable: bool = False
    is_async: bool = True
    accesses: tuple[Access, ...] = ()


@dataclass(frozen=True)
class Memset:
    """A memset of device memory (cuMemsetD8Async)."""

    stream: str
    duration_ns: int = 2_000
    bytes: int = 4096
    accesses: tuple[Access, ...] = ()


@dataclass(frozen=True)
class Record:
    """Record an event into a stream."""

    event: str
    stream: str


@dataclass(frozen=True)
class WaitEvent:
    """Tell a stream to wait for the record that the event has now; without one nothing is waited for."""

    stream: str
    event: str


@dataclass(frozen=True)
class EventSync:
    """Hold the host thread until the event's record of now has completed."""

    event: str


@dataclass(frozen=True)
class StreamSync:
    """Hold the host thread until all that the stream holds now has completed."""

    stream: str


@dataclass(frozen=True)
class ContextSync:
    """Hold the host thread until all that the context, and its green contexts, hold now has completed."""

    context_id: int = 1


@dataclass(frozen=True)
class DeviceSync:
    """Hold the host thread until all that the device holds now has completed."""

    device_id: int = 0


@dataclass(frozen=True)
class EventQuery:
    """Ask whether the event's record of now has completed."""

    event: str


@dataclass(frozen=True)
class StreamQuery:
    """Ask whether all that the stream holds now has completed."""

    stream: str


@dataclass(frozen=True)
class HostFunction:
    """Enqueue a function of the host into a stream, which it holds for its duration.

    Attributes:
        stream: Stream.
        duration_ns: Run time of the function.
        is_shown: A range tells in which stream it stood and when it ran, as some recorders write it.
    """

    stream: str
    duration_ns: int = 5_000
    is_shown: bool = False


@dataclass(frozen=True)
class ValueWait:
    """Let a stream wait until a flag in memory has been released.

    Attributes:
        stream: Stream.
        flag: Name by which `Release` means it.
        is_shown: A synchronization of kind `other` tells which stream it held and until when.
    """

    stream: str
    flag: str
    is_shown: bool = False


@dataclass(frozen=True)
class Release:
    """Set a flag in memory from the host; no row of a trace shows it."""

    flag: str


@dataclass(frozen=True)
class Allocate:
    """Allocate memory (cuMemAlloc); waits for nothing."""

    buffer: str
    duration_ns: int = 40_000


@dataclass(frozen=True)
class Free:
    """Free memory (cuMemFree): the host is held until the device has finished all it holds."""

    buffer: str
    device_id: int = 0


@dataclass(frozen=True)
class AllocateAsync:
    """Allocate memory in stream order."""

    buffer: str
    stream: str


@dataclass(frozen=True)
class FreeAsync:
    """Free memory in stream order."""

    buffer: str
    stream: str


@dataclass(frozen=True)
class ImplicitCall:
    """A call of the driver that puts nothing into a stream, such as cuModuleLoadData or cuStreamCreate.

    Whether it holds the host until the device has finished is looked up in the measured table
    (`overlane.simulate.calls`).

    Attributes:
        name: Name of the driver's function, one of the table's.
        device_id: Device of the calling thread's context.
        duration_ns: Time of its own.
    """

    name: str
    device_id: int = 0
    duration_ns: int = 3_000


@dataclass(frozen=True)
class HostWork:
    """Compute on the host, under a named range when a name is given."""

    duration_ns: int = 10_000
    name: str | None = None


@dataclass(frozen=True)
class Recording:
    """Time that the recording takes from the host thread; an overhead row shows it."""

    duration_ns: int = 10_000


@dataclass(frozen=True)
class HostAccess:
    """An access of the host thread to memory."""

    access: Access


@dataclass(frozen=True)
class Node:
    """A node of a graph: a kernel, copy or memset, whose stream is ignored, and what it depends on."""

    work: Launch | Copy | Memset
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Graph:
    """An executable graph; nodes are numbered from 0 and depend on earlier numbers."""

    name: str
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class GraphLaunch:
    """Launch a graph into a stream."""

    graph: str
    stream: str


Statement = (
    Launch | Copy | Memset | Record | WaitEvent | EventSync | StreamSync | ContextSync | DeviceSync
    | EventQuery | StreamQuery | HostFunction | ValueWait | Release | Allocate | Free | AllocateAsync
    | FreeAsync | ImplicitCall | HostWork | Recording | HostAccess | GraphLaunch
)  # fmt: skip


@dataclass(frozen=True)
class Thread:
    """A host thread: its statements, and when it begins."""

    statements: tuple[Statement, ...]
    begins_ns: int = 0


@dataclass(frozen=True)
class Costs:
    """What calls and starts cost, in ns.

    Attributes:
        launch_ns: A launch, copy or memset call; a quarter of it is left when the work has been queued.
        mark_ns: A record, wait, query, free or allocation in stream order, host function or value wait call.
        return_ns: From the end of what a synchronization waited for to its return.
        kernel_ns, copy_ns, memset_ns: Launch latency, from the end of all that an operation depends on to its
            start.
        staging_ns: Staging of a small pageable copy, or of the first piece of a large one, by its own call.
        lazy_ns: Loading the code of one function.
        queue_depth: Launches that a stream takes before the host is held.
    """

    launch_ns: int = 4_000
    mark_ns: int = 1_000
    return_ns: int = 2_000
    kernel_ns: int = 1_500
    copy_ns: int = 1_200
    memset_ns: int = 1_300
    staging_ns: int = 3_000
    lazy_ns: int = 70_000
    queue_depth: int = 1_021


@dataclass(frozen=True)
class Program:
    """All that a simulation needs."""

    threads: tuple[Thread, ...]
    streams: tuple[Stream, ...]
    devices: tuple[Device, ...] = (Device(),)
    contexts: tuple[Context, ...] = (Context(),)
    buffers: tuple[Buffer, ...] = ()
    graphs: tuple[Graph, ...] = ()
    costs: Costs = field(default_factory=Costs)
