"""CUPTI's callbacks as Python sees them: their numbers, the data that each gets, and who is called.

A callback runs in the middle of a CUDA call, on the thread that makes it, and waits for the interpreter's
lock. So only rare ones are on by default (graphs in the making); those of launches and copies are for
`--accesses`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

from overlane_collect._cupti import Cupti

__all__ = [
    "CUDA_INITIALIZED",
    "DRIVER",
    "NVTX",
    "RESOURCE",
    "RUNTIME",
    "ApiCall",
    "Callbacks",
    "GraphCall",
    "GraphChange",
    "graph_call",
]

DRIVER, RUNTIME, RESOURCE, NVTX = 1, 2, 3, 5
"""Domains: which part of CUDA calls back."""

CUDA_INITIALIZED = 5
"""Number of the resource callback that comes when CUDA has been initialized."""

_MOST_FAILURES = 10  # enough to say what is wrong


class ApiCall(ctypes.Structure):
    """What a callback of a driver or runtime call gets (`CUpti_CallbackData`)."""

    _fields_ = (
        ("site", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("parameters", ctypes.c_void_p),
        ("returned", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("context", ctypes.c_void_p),
        ("context_id", ctypes.c_uint32),
        ("data", ctypes.c_void_p),
        ("correlation_id", ctypes.c_uint32),
    )


class GraphCall(ctypes.Structure):
    """What a callback about graphs gets (`CUpti_GraphData`)."""

    _fields_ = (
        ("graph", ctypes.c_void_p),
        ("original_graph", ctypes.c_void_p),
        ("node", ctypes.c_void_p),
        ("original_node", ctypes.c_void_p),
        ("node_type", ctypes.c_int),
        ("dependency", ctypes.c_void_p),
        ("executable", ctypes.c_void_p),
    )


class _Resource(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
        ("descriptor", ctypes.c_void_p),
    )


class GraphChange:
    """Numbers of the callbacks about graphs."""

    NODE_CREATED = 13
    EDGE_CREATED = 15
    EDGE_REMOVED = 16
    NODE_CLONED = 20


class Callbacks:
    """Calls handlers when CUDA does something.

    Args:
        cupti: The client of CUPTI; subscribed here.
    """

    def __init__(self, cupti: Cupti) -> None:
        self._cupti = cupti
        self._handlers: dict[tuple[int, int], Callable[[int], None]] = {}
        self.failures: list[str] = []
        cupti.subscribe(self._called)

    def on(self, domain: int, numbers: Iterable[int], handler: Callable[[int], None]) -> None:
        """Call a handler from now on.

        Args:
            domain: `DRIVER`, `RUNTIME`, `RESOURCE` or `NVTX`.
            numbers: Which callbacks of it; one that the library does not know is left out.
            handler: Gets the address of the callback's data; must not raise.
        """
        for number in numbers:
            self._handlers[domain, number] = handler
            self._cupti.enable_callback(domain, number, enable=True)

    def off(self, domain: int, numbers: Iterable[int]) -> None:
        """Call no longer."""
        for number in numbers:
            if self._handlers.pop((domain, number), None) is not None:
                self._cupti.enable_callback(domain, number, enable=False)

    def _called(self, _user: Any, domain: int, number: int, data: int) -> None:
        handler = self._handlers.get((domain, number))
        if handler is None:
            return
        try:
            handler(data)
        except Exception as error:  # noqa: BLE001 - C code calls this: an exception must not get there
            if len(self.failures) < _MOST_FAILURES:
                self.failures.append(f"{type(error).__name__}: {error}")


def graph_call(data: int) -> GraphCall:
    """Return what a callback about graphs got."""
    return GraphCall.from_address(_Resource.from_address(data).descriptor)
