"""Which calls of the driver hold the host until the device has finished, as measured on an H200 (driver 580).

The host was timed in each call while a 20 ms kernel ran on an unrelated stream. Stream-ordered calls and
copies follow from the rules of streams and are not in the table.
"""

from __future__ import annotations

__all__ = ["CALLS", "HOLDING", "LARGE_COPY_BYTES", "idle_cause"]

LARGE_COPY_BYTES = 64 << 10
"""Pageable copies to the device up to this size are staged at once, whatever the stream is at."""

_ALLOCATING = ("cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemFreeHost")
_LOADING = ("cuModuleLoadData", "cuModuleUnload")
HOLDING = frozenset(
    {
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuMemHostUnregister",
        "cuModuleLoadData",
        "cuModuleUnload",
        "cuGreenCtxCreate",
        "cuCtxSetLimit",
    }
)
"""Calls that return only when all work of the device, on whatever stream, has ended."""

CALLS = frozenset(
    {
        *HOLDING, *_ALLOCATING, "cuGreenCtxDestroy", "cuMemHostRegister_v2", "cuStreamCreateWithPriority",
        "cuStreamDestroy_v2", "cuEventCreate", "cuEventDestroy_v2", "cuMemGetInfo_v2",
    }
)  # fmt: skip
"""Calls that `ImplicitCall` may name."""


def idle_cause(name: str) -> str:
    """Return the cause of idle time while the issuing thread is in this call.

    Example:
        >>> idle_cause("cuMemFree_v2"), idle_cause("cuCtxSetLimit"), idle_cause("cuEventCreate")
        ('allocation', 'implicit_sync', 'late_launch')
    """
    if name in _ALLOCATING or name in {"cuMemAllocAsync", "cuMemFreeAsync"}:
        return "allocation"
    if name in _LOADING:
        return "module_load"
    return "implicit_sync" if name in HOLDING else "late_launch"
