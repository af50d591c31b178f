"""What host calls do to the work of the device, told by their names, and who made them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from overlane.analysis.keys import NULL, Bytes, Ids, Lookup, dense, identities, known, words
from overlane.trace import Trace

__all__ = ["CALL_CLASSES", "Calls", "class_of", "host_calls"]

CALL_CLASSES = (
    "other",
    "launch",
    "copy",
    "copy_sync",
    "memset",
    "graph_launch",
    "event_record",
    "stream_wait",
    "event_sync",
    "stream_sync",
    "context_sync",
    "device_sync",
    "query",
    "allocation",
    "allocation_async",
    "free",
    "module_load",
    "implicit_sync",
    "host_function",
    "value_wait",
    "prefetch",
)
"""What a call does, as far as its name tells."""

# The first pattern that fits decides. Prefixes and suffixes (cu, cuda, hip; _v2, _ptsz) are cut off before.
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"GraphLaunch", "graph_launch"),
        (r"LaunchHostFunc|StreamAddCallback", "host_function"),
        (r"StreamWaitValue|StreamBatchMemOp", "value_wait"),
        (
            r"(Module|ExtModule)?Launch(Cooperative)?Kernel|Launch(Cooperative|Grid|ByPtr)?$|LaunchKernelEx",
            "launch",
        ),
        (r"MemcpyBatch|Memcpy.*Async", "copy"),
        (r"MemPrefetch", "prefetch"),
        (r"Memcpy(?!.*Symbol.*Address)", "copy_sync"),
        (r"Memset", "memset"),
        (r"EventRecord", "event_record"),
        (r"StreamWaitEvent", "stream_wait"),
        (r"EventSynchronize", "event_sync"),
        (r"StreamSynchronize", "stream_sync"),
        (r"(Ctx|Thread)Synchronize", "context_sync"),
        (r"DeviceSynchronize", "device_sync"),
        (r"(Event|Stream)Query", "query"),
        (r"(Mem)?(Alloc|Free|Malloc).*Async", "allocation_async"),
        (r"Module(Load|Unload)|Library(Load|Unload)|LinkComplete|FuncLoad|KernelGetFunction", "module_load"),
        (r"Mem(Free|Release|Unmap|AddressFree)|Free(Host|Array|Mipmapped)?|HostFree", "free"),
        (r"Mem(Alloc|HostAlloc|Create|Map$)|Malloc|Host(Alloc|Malloc)", "allocation"),
        (
            r"GreenCtxCreate|(Ctx|Device|Thread)SetLimit|DeviceReset|(Mem)?HostUnregister",
            "implicit_sync",
        ),
    )
)
_PREFIX = re.compile(r"^(cuda|cu|hip)(?=[A-Z])|(_v\d+)?(_pt[sd]z|_ptds|_spt)?$")


def class_of(name: str) -> str:
    """Return the class of a call by its name.

    Example:
        >>> class_of("cuMemcpyHtoDAsync_v2"), class_of("cudaFree"), class_of("cuCtxSetLimit")
        ('copy', 'free', 'implicit_sync')
    """
    if not _PREFIX.match(name):
        return "other"
    stem = _PREFIX.sub("", name)
    for pattern, word in _PATTERNS:
        if pattern.match(stem):
            return word
    return "other"


@dataclass(frozen=True)
class Calls:
    """The host calls of a trace.

    Attributes:
        kind: uint8, shape (calls,), place in `CALL_CLASSES`.
        start_ns: int64, shape (calls,).
        end_ns: int64, shape (calls,); calls that did not end are taken to run to the trace's last stamp.
        thread: int64, shape (calls,), number of the host thread, -1 where it is not known.
        threads: Rank, process and thread id of each number.
        correlation: int64, shape (calls,), `NULL` where not recorded.
        has_succeeded: bool, shape (calls,), false where the call returned an error.
    """

    kind: Bytes
    start_ns: Ids
    end_ns: Ids
    thread: Ids
    threads: list[tuple[int | None, ...]]
    correlation: Ids
    has_succeeded: np.ndarray[tuple[int], np.dtype[np.bool_]]
    _lookups: dict[str, tuple[Lookup, int, dict[tuple[int | None, ...], int], tuple[str, ...]]]

    def is_of(self, *names: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which calls are of one of these classes."""
        chosen = np.zeros(len(CALL_CLASSES), np.bool_)
        chosen[[CALL_CLASSES.index(name) for name in names]] = True
        return chosen[self.kind]

    def of_rows(self, table: pa.Table, *, starts_work: bool = False) -> Ids:
        """Return the call that the correlation id of each row names, -1 where there is none.

        Args:
            table: A table with `rank`, `process_id` and `correlation_id`.
            starts_work: Prefer calls that start device work where several share an id.
        """
        lookup, span, groups, names = self._lookups["starts" if starts_work else "any"]
        correlation = known(table["correlation_id"])
        codes, found = identities(table, names)
        group = np.array([groups.get(key, -1) for key in found] or [-1], np.int64)[codes]
        fits = (correlation != NULL) & (group >= 0) & (correlation >= 0) & (correlation < span)
        return lookup.rows(np.where(fits, group * span + correlation, NULL))


_STARTS = ("launch", "copy", "copy_sync", "memset", "graph_launch")


def host_calls(trace: Trace) -> Calls:
    """Return the host calls of a trace with their classes, threads and correlation ids."""
    table = trace.table("api_calls")
    codes, names = words(table["name"])
    kinds = np.array([CALL_CLASSES.index(class_of(name)) for name in names] or [0], np.uint8)
    kind = kinds[codes] if len(codes) else np.zeros(0, np.uint8)
    start = known(table["start_ns"])
    end = known(table["end_ns"])
    end = np.where(end == NULL, np.maximum(start, trace.span_ns), end)
    numbered, threads = identities(table, ("rank", "process_id", "thread_id"))
    is_known = np.array([key[2] is not None for key in threads] or [False], np.bool_)
    thread = np.where(is_known[numbered], numbered, -1) if len(numbered) else numbered
    correlation = known(table["correlation_id"])
    result = known(table["result"])
    keyed = _groups(trace, table)
    return Calls(
        kind,
        start,
        end,
        thread,
        threads,
        correlation,
        (result == NULL) | (result == 0),
        {
            "any": _lookup(table, correlation, keyed, np.ones(len(kind), np.bool_)),
            "starts": _lookup(
                table, correlation, keyed, np.isin(kind, [CALL_CLASSES.index(name) for name in _STARTS])
            ),
        },
    )


def _groups(trace: Trace, table: pa.Table) -> tuple[str, ...]:
    """Return what makes a correlation id unique: the process where operations name it too, else the rank."""
    ops = trace.table("ops")
    if ops["process_id"].null_count or table["process_id"].null_count:
        return ("rank",)
    _, of_ops = identities(ops, ("rank", "process_id"))
    _, of_calls = identities(table, ("rank", "process_id"))
    return ("rank", "process_id") if set(of_ops) <= set(of_calls) else ("rank",)


def _lookup(
    table: pa.Table,
    correlation: Ids,
    names: tuple[str, ...],
    preferred: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[Lookup, int, dict[tuple[int | None, ...], int], tuple[str, ...]]:
    codes, found = identities(table, names)
    span = int(correlation.max(initial=0)) + 1
    keys = np.where(correlation == NULL, NULL, codes * span + correlation)
    if not preferred.all():
        # Where a preferred call has the id, the others do not answer for it.
        numbered, _ = dense(keys)
        has = np.zeros(int(numbered.max(initial=0)) + 1, np.bool_)
        has[numbered[preferred]] = True
        keys = np.where(has[numbered] & ~preferred, NULL, keys) if len(keys) else keys
    return Lookup(keys), span, {key: code for code, key in enumerate(found)}, names
