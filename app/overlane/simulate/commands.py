"""What streams hold: commands, the operations among them, and the calls that put them there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from overlane.simulate.program import Context, Copy, Launch, Memset, Stream

__all__ = ["Call", "Command", "Gate", "Operation", "StreamState"]


class Gate:
    """Something that happens at one moment and that others wait for.

    Attributes:
        done_ns: When it happened, None before.
        followers: Commands that count it among what they wait for.
        sleepers: Called with the moment when it happens (host threads).
    """

    __slots__ = ("done_ns", "followers", "sleepers")

    def __init__(self) -> None:
        self.done_ns: int | None = None
        self.followers: list[Command] = []
        self.sleepers: list[Any] = []


class Command(Gate):
    """One entry of a stream.

    Attributes:
        number: Order of issue over all streams.
        kind: `operation`, `host_function`, `value_wait`, `trigger`, or what takes no time: `allocation` and
            `mark` (records, waits, beginnings and ends of graphs).
        stream: Stream that holds it.
        issued_ns: When it was queued.
        needs: What it waits for, each with the rule: stream, programmatic, event, legacy, graph or module.
        left: How many of them have not happened.
        operation: The operation that it is, if any.
        duration_ns: Run time of a host function.
        flag: Flag of a value wait.
        shown_by: Call by which rows tell the stream of a host function or value wait.
    """

    __slots__ = (
        "duration_ns", "flag", "issued_ns", "kind", "left", "needs", "number", "operation", "shown_by",
        "stream",
    )  # fmt: skip

    def __init__(self, number: int, kind: str, stream: StreamState, issued_ns: int) -> None:
        super().__init__()
        self.number = number
        self.kind = kind
        self.stream = stream
        self.issued_ns = issued_ns
        self.needs: list[tuple[Command, str]] = []
        self.left = 0
        self.operation: Operation | None = None
        self.duration_ns = 0
        self.flag = ""
        self.shown_by: Call | None = None

    @property
    def is_told(self) -> bool:
        """Whether rows tell the end too; of a value wait that let go within its call they do not."""
        call = self.shown_by
        return call is not None and (self.kind == "host_function" or (self.done_ns or 0) > call.end_ns)


@dataclass(eq=False)
class StreamState:
    """A stream while it runs: the command put into it last, and how many operations have not started."""

    spec: Stream
    stream_id: int
    context: Context
    last: Command | None = None
    waiting: int = 0
    room: Gate = field(default_factory=Gate)


@dataclass(eq=False)
class Call:
    """One host call; `end_ns` is -1 while it runs, `holds` the cause of idle time that it makes."""

    thread: int
    name: str
    start_ns: int
    correlation: int
    holds: str
    end_ns: int = -1
    result: int = 0
    queue_full: tuple[int, int] | None = None


@dataclass(eq=False)
class Operation:
    """One operation and what the machine knows of it.

    Attributes:
        number: Order of issue.
        work: Statement that it comes from.
        command: Its place in the stream.
        call: Call that issued it.
        stream_id: Stream that rows name (nodes of graphs may run on others).
        sms: First and one past the last SM that it may use.
        eligible_ns: When all that it needs had happened.
        arrived_ns: When the device could start it, the launch latency later.
        started: Happens at its start.
        start_ns, end_ns: When it ran.
        states: Moments at which its reason to wait for the device changed, with the reason: a cause, or empty
            when room was there.
        left: Blocks not admitted yet.
        running: Blocks that run, by SM.
        trigger: When a programmatic launch behind it may start.
        behind: What a programmatic launch was launched behind; it ends no earlier.
        graph: Name, launch number and node of a graph.
        staging_ns: What its call still prepares, on the host, once nothing else holds the operation.
    """

    number: int
    work: Launch | Copy | Memset
    command: Command
    call: Call
    stream_id: int
    sms: tuple[int, int]
    eligible_ns: int = -1
    arrived_ns: int = -1
    started: Gate = field(default_factory=Gate)
    start_ns: int = -1
    end_ns: int = -1
    states: list[tuple[int, str]] = field(default_factory=list)
    left: int = 0
    running: dict[int, int] = field(default_factory=dict)
    trigger: Command | None = None
    behind: Command | None = None
    graph: tuple[str, int, int] | None = None
    staging_ns: int = 0

    @property
    def engine(self) -> str:
        """Class of work, as in the table of operations."""
        if isinstance(self.work, Launch):
            return "compute"
        return "memset" if isinstance(self.work, Memset) else f"copy_{self.work.direction}"

    @property
    def kernel(self) -> Launch:
        """Its work where it is known to be a kernel."""
        return cast("Launch", self.work)

    @property
    def device_id(self) -> int:
        """Device that it runs on."""
        return self.command.stream.context.device_id

    @property
    def family(self) -> int:
        """The full context that it runs in or that its green context was made from."""
        context = self.command.stream.context
        return context.context_id if context.parent is None else context.parent

    @property
    def priority(self) -> int:
        """Priority of its stream; lower is more urgent."""
        return self.command.stream.spec.priority

    @property
    def is_blocking(self) -> bool:
        """Whether it is a blocking copy: pageable, or synchronous between host and device."""
        work = self.work
        return isinstance(work, Copy) and work.direction != "d2d" and (work.is_pageable or not work.is_async)
