"""The closed list of causes of waits and idle gaps, and their codes in columns of parts.

`docs/causes.md` defines each cause; analyses name no others.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CAUSES", "CAUSE_NAMES", "Cause", "code_of"]


@dataclass(frozen=True)
class Cause:
    """One reason why an operation waited or a stream, partition or device was idle.

    Attributes:
        name: Identifier in tables, JSON and code.
        title: What people read.
        explains: `wait` (between issue and start), `idle` (before the next operation was issued) or `both`.
        sentence: What it means, as a sentence without the subject "the operation".
    """

    name: str
    title: str
    explains: str
    sentence: str


CAUSES = (
    Cause("stream_order", "stream order", "wait", "An earlier operation of its own stream was running."),
    Cause("event_wait", "event wait", "wait", "Its stream had to wait for an event of another stream."),
    Cause(
        "legacy_default_stream",
        "legacy default stream",
        "wait",
        "Work on the legacy default stream and on a blocking stream of the same context excludes each other.",
    ),
    Cause(
        "graph_order", "graph order", "wait", "An earlier node or launch of the same CUDA graph was running."
    ),
    Cause("host_function", "host function", "wait", "A host function enqueued in its stream was running."),
    Cause("value_wait", "value wait", "wait", "Its stream waited for a value in memory."),
    Cause(
        "blocking_copy",
        "blocking copy",
        "both",
        "A pageable or synchronous copy was staged by the host, or held the thread that issues the work.",
    ),
    Cause("copy_engine_busy", "copy engine busy", "wait", "A copy of another stream used the same engine."),
    Cause(
        "partition_busy",
        "partition busy",
        "wait",
        "The SMs that it may use had no room for one of its blocks.",
    ),
    Cause("priority", "priority", "wait", "A kernel of higher priority was served first."),
    Cause(
        "channel_shared",
        "shared channel",
        "wait",
        "An unrelated stream was ahead in the same hardware queue.",
    ),
    Cause("context_switch", "context switch", "wait", "The device ran the work of another context."),
    Cause("module_load", "module load", "both", "Code was being loaded onto the device."),
    Cause(
        "implicit_sync",
        "implicit synchronization",
        "both",
        "A call that synchronizes implicitly held the work.",
    ),
    Cause(
        "launch_latency",
        "launch latency",
        "wait",
        "The time this device needs to start work that nothing holds.",
    ),
    Cause("profiler_overhead", "profiler overhead", "both", "The recording itself took the time."),
    Cause(
        "host_sync", "host synchronization", "idle", "The thread that issues the work waited for the device."
    ),
    Cause(
        "allocation",
        "allocation",
        "both",
        "A call that allocates or frees memory held the thread or the work.",
    ),
    Cause(
        "launch_queue_full",
        "launch queue full",
        "idle",
        "The launch call waited for a free entry in the queue.",
    ),
    Cause(
        "late_launch", "late launch", "idle", "The host was doing something else and had not issued the work."
    ),
    Cause("unknown", "unknown", "both", "The trace does not hold the rows that would tell."),
)
"""All causes. The order settles ties; a cause's place is its code in columns of parts."""

CAUSE_NAMES = tuple(cause.name for cause in CAUSES)
_CODES = {name: code for code, name in enumerate(CAUSE_NAMES)}


def code_of(name: str) -> int:
    """Return the code of a cause: its place in `CAUSES`.

    Raises:
        KeyError: No cause has that name.

    Example:
        >>> CAUSE_NAMES[code_of("event_wait")]
        'event_wait'
    """
    return _CODES[name]
