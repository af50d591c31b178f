"""What the reader knows by name: categories of events, their members, and where each member's value goes."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

__all__ = ["CATEGORIES", "TOP_MEMBERS", "Act", "Class", "Column", "Wide", "key_table"]


class Class(IntEnum):
    """What an event is, told by its category."""

    OTHER = 0
    """A category that is not known, or none."""
    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    DEVICE = 4
    """Work of an accelerator that is no CUDA or HIP device."""
    RUNTIME = 5
    DRIVER = 6
    CALL = 7
    """A host call of another accelerator's API."""
    SYNC = 8
    RECORD = 9
    OPERATOR = 10
    ANNOTATION = 11
    DEVICE_ANNOTATION = 12
    PYTHON = 13
    PROFILER = 14
    OVERHEAD = 15
    PLAIN = 16
    """Instants and counters: no member has a column of its own."""


CATEGORIES: dict[str, Class] = {
    "cpu_op": Class.OPERATOR,
    "Operator": Class.OPERATOR,
    "kernel": Class.KERNEL,
    "Kernel": Class.KERNEL,
    "gpu_memcpy": Class.MEMCPY,
    "Memcpy": Class.MEMCPY,
    "gpu_memset": Class.MEMSET,
    "Memset": Class.MEMSET,
    "cuda_runtime": Class.RUNTIME,
    "hip_runtime": Class.RUNTIME,
    "Runtime": Class.RUNTIME,
    "cuda_driver": Class.DRIVER,
    "hip_driver": Class.DRIVER,
    "cuda_sync": Class.SYNC,
    "cuda_event": Class.RECORD,
    "user_annotation": Class.ANNOTATION,
    "nvtx": Class.ANNOTATION,
    "NVTX": Class.ANNOTATION,
    "gpu_user_annotation": Class.DEVICE_ANNOTATION,
    "python_function": Class.PYTHON,
    "Trace": Class.PROFILER,
    "overhead": Class.OVERHEAD,
    "cpu_instant_event": Class.PLAIN,
    "mtia_ccp_events": Class.DEVICE,
    "mtia_workloadd": Class.DEVICE,
    "hpu_op": Class.DEVICE,
    "gpu_op": Class.DEVICE,  # Overlane's own export, for operations that are neither kernel, copy nor memset
    "mtia_runtime": Class.CALL,
    "xpu_runtime": Class.CALL,
    "glow_runtime": Class.CALL,
    "privateuse1_runtime": Class.CALL,
    "privateuse1_driver": Class.CALL,
}


class Column(IntEnum):
    """Columns of the scanner's rows, one row per event that is kept."""

    TS = 0
    DUR = 1
    """Duration; for an instant, the letter of its scope."""
    WHAT = 2
    """Phase letter, class << 8, 1 << 16 when a wide row belongs to it."""
    CATEGORY = 3
    NAME = 4
    THREAD = 5
    CORRELATION = 6
    EXTERNAL = 7
    TEMPLATE = 8
    """String id of the other members, integers cut out, -1 without any; for metadata, of its text."""


class Wide(IntEnum):
    """Columns of the wide rows, one per event that names a device, a stream or a launch."""

    DEVICE = 0
    CONTEXT = 1
    STREAM = 2
    BYTES = 3
    QUEUED = 4
    REGISTERS = 5
    SHARED = 6
    PRIORITY = 7
    CHANNEL = 8
    CHANNEL_TYPE = 9
    GRAPH = 10
    GRAPH_NODE = 11
    WAITS_STREAM = 12
    WAITS_CORRELATION = 13
    EVENT = 14
    EVENT_SYNC = 15
    SYNC_KIND = 16
    COPY_KIND = 17
    GRID_X = 18
    GRID_Y = 19
    GRID_Z = 20
    BLOCK_X = 21
    BLOCK_Y = 22
    BLOCK_Z = 23


class Act(IntEnum):
    """What the scanner does with a known member."""

    NONE = 0
    PHASE = 1
    CATEGORY = 2
    NAME = 3
    PROCESS = 4
    THREAD = 5
    TS = 6
    DUR = 7
    ARGS = 8
    SCOPE = 9
    CORRELATION = 10
    EXTERNAL = 11
    META = 12
    NUMBER = 13
    """An integer for a wide column."""
    NUMBER_KEPT = 14
    """The same, and it stays among the other members too, where it is not zero."""
    TEXT_KEPT = 15
    """A text for a wide column that stays among the other members too."""
    TRIPLE = 16
    """Three integers for a wide column and the two behind it."""


_TOP = {
    "ph": Act.PHASE, "cat": Act.CATEGORY, "name": Act.NAME, "pid": Act.PROCESS, "tid": Act.THREAD,
    "ts": Act.TS, "dur": Act.DUR, "args": Act.ARGS, "s": Act.SCOPE,
}  # fmt: skip

_OPS = (Class.KERNEL, Class.MEMCPY, Class.MEMSET, Class.DEVICE)
_STREAMED = (*_OPS, Class.SYNC, Class.RECORD, Class.OTHER)
_RANGES = (
    Class.OPERATOR,
    Class.ANNOTATION,
    Class.DEVICE_ANNOTATION,
    Class.PYTHON,
    Class.PROFILER,
    Class.OTHER,
)
_CALLS = (Class.RUNTIME, Class.DRIVER, Class.CALL)

_ARGS: tuple[tuple[str, Act, int, tuple[Class, ...]], ...] = (
    ("correlation", Act.CORRELATION, 0, (*_STREAMED, *_CALLS, *_RANGES)),
    ("External id", Act.EXTERNAL, 0, (*_OPS, *_CALLS, *_RANGES)),
    ("external id", Act.EXTERNAL, 0, (*_OPS, *_CALLS, *_RANGES)),
    ("device", Act.NUMBER, Wide.DEVICE, (*_STREAMED, Class.DEVICE_ANNOTATION)),
    ("inDevice", Act.NUMBER, Wide.DEVICE, _OPS),
    ("context", Act.NUMBER, Wide.CONTEXT, (*_OPS, Class.SYNC, Class.RECORD)),
    ("inContext", Act.NUMBER, Wide.CONTEXT, _OPS),
    ("stream", Act.NUMBER, Wide.STREAM, (*_STREAMED, Class.DEVICE_ANNOTATION)),
    ("bytes", Act.NUMBER, Wide.BYTES, _OPS),
    ("queued", Act.NUMBER_KEPT, Wide.QUEUED, _OPS),
    ("registers per thread", Act.NUMBER, Wide.REGISTERS, _OPS),
    ("shared memory", Act.NUMBER, Wide.SHARED, _OPS),
    ("priority", Act.NUMBER, Wide.PRIORITY, _OPS),
    ("channel", Act.NUMBER, Wide.CHANNEL, _OPS),
    ("channel_type", Act.NUMBER_KEPT, Wide.CHANNEL_TYPE, _OPS),
    ("graph id", Act.NUMBER, Wide.GRAPH, _OPS),
    ("graph node id", Act.NUMBER, Wide.GRAPH_NODE, _OPS),
    ("grid", Act.TRIPLE, Wide.GRID_X, _OPS),
    ("block", Act.TRIPLE, Wide.BLOCK_X, _OPS),
    ("kind", Act.TEXT_KEPT, Wide.COPY_KIND, _OPS),
    ("wait_on_stream", Act.NUMBER, Wide.WAITS_STREAM, (Class.SYNC,)),
    ("wait_on_cuda_event_record_corr_id", Act.NUMBER, Wide.WAITS_CORRELATION, (Class.SYNC,)),
    ("wait_on_cuda_event_id", Act.NUMBER, Wide.EVENT, (Class.SYNC,)),
    ("cuda_event_id", Act.NUMBER, Wide.EVENT, (Class.SYNC, Class.RECORD)),
    ("event_id", Act.NUMBER, Wide.EVENT, (Class.SYNC, Class.RECORD)),
    ("wait_on_cuda_event_sync_id", Act.NUMBER, Wide.EVENT_SYNC, (Class.SYNC,)),
    ("cuda_event_sync_id", Act.NUMBER, Wide.EVENT_SYNC, (Class.SYNC, Class.RECORD)),
    ("cuda_sync_kind", Act.TEXT_KEPT, Wide.SYNC_KIND, (Class.SYNC,)),
)  # fmt: skip

_META = ("name", "labels")
TOP_MEMBERS = frozenset(name.encode() for name in _TOP)
"""Names of an event's members that the scanner knows."""
SLOTS = 256
KEY_WORDS = 5
"""Known names are at most 40 bytes long."""
ARGS_SCOPE = 1 << 8
META_SCOPE = 2 << 8
_MIX = 0x9E3779B97F4A7C15


def key_table() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the hash table of known members.

    Returns:
        int64 array, shape (257, 9): length of the name plus its scope (0 where the slot is empty), action,
        wide column, classes that have the column (bits), then the name's bytes as five little-endian words,
        zero behind its end. The last row is room for looks of 32 bytes that begin in the one before.
    """
    table = np.zeros((SLOTS + 1, 4 + KEY_WORDS), np.int64)
    entries: list[tuple[str, int, Act, int, int]] = [(name, 0, act, 0, -1) for name, act in _TOP.items()]
    for name, act, column, classes in _ARGS:
        entries.append((name, ARGS_SCOPE, act, column, sum(1 << c for c in set(classes))))
    entries += [(name, META_SCOPE, Act.META, 0, -1) for name in _META]
    for name, scope, act, column, mask in entries:
        words = np.frombuffer(name.encode().ljust(8 * KEY_WORDS, b"\0"), np.int64)
        slot = (((int(words[0]) ^ (len(name) + scope)) * _MIX) & (2**64 - 1)) >> 56
        while table[slot, 0]:
            slot = (slot + 1) % SLOTS
        table[slot, :4] = len(name) + scope, act, column, mask
        table[slot, 4:] = words
    return table
