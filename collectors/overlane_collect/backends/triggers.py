"""What a program does that may start and stop a recording: NVTX ranges, and the profiler's calls."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from overlane_collect._callbacks import DRIVER, NVTX, RUNTIME, ApiCall, Callbacks

__all__ = ["watch_profiler_calls", "watch_ranges"]

_ENTER, _EXIT = 0, 1
_PROFILER_START = {DRIVER: (308,), RUNTIME: (171,)}  # cuProfilerStart, cudaProfilerStart
_PROFILER_STOP = {DRIVER: (309,), RUNTIME: (172,)}

_ASCII, _WIDE, _REGISTERED = 1, 2, 3
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_PUSHED_PLAIN, _PUSHED, _PUSHED_IN_DOMAIN = (
    8,
    10,
    33,
)  # nvtxRangePushA, nvtxRangePushEx, nvtxDomainRangePushEx
_STARTED_PLAIN, _STARTED, _STARTED_IN_DOMAIN = 4, 6, 31  # nvtxRangeStartA, ...
_POPPED, _POPPED_IN_DOMAIN = 11, 34
_ENDED, _ENDED_IN_DOMAIN = 7, 32
_NEW_TEXT = 39  # nvtxDomainRegisterStringA
_IN_DOMAIN = {_PUSHED_IN_DOMAIN, _STARTED_IN_DOMAIN, _POPPED_IN_DOMAIN, _ENDED_IN_DOMAIN}
_BEGINS = {_PUSHED_PLAIN, _PUSHED, _PUSHED_IN_DOMAIN, _STARTED_PLAIN, _STARTED, _STARTED_IN_DOMAIN}
_WATCHED = (*_BEGINS, _POPPED, _POPPED_IN_DOMAIN, _ENDED, _ENDED_IN_DOMAIN, _NEW_TEXT)


class _Nvtx(ctypes.Structure):
    """What a callback of an NVTX call gets (`CUpti_NvtxData`)."""

    _fields_ = (("name", ctypes.c_char_p), ("parameters", ctypes.c_void_p), ("returned", ctypes.c_void_p))


class _Attributes(ctypes.Structure):
    """NVTX's event attributes, up to the message."""

    _fields_ = (
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("category", ctypes.c_uint32),
        ("color_type", ctypes.c_int32),
        ("color", ctypes.c_uint32),
        ("payload_type", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("payload", ctypes.c_uint64),
        ("message_type", ctypes.c_int32),
        ("message", ctypes.c_void_p),
    )


def watch_profiler_calls(callbacks: Callbacks, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Call `begin` when the program has started the profiler, and `end` before it stops it.

    Args:
        callbacks: Where to register.
        begin: After cuProfilerStart or cudaProfilerStart.
        end: Before cuProfilerStop or cudaProfilerStop.
    """

    def started(data: int) -> None:
        if ApiCall.from_address(data).site == _EXIT:
            begin()

    def stopping(data: int) -> None:
        if ApiCall.from_address(data).site == _ENTER:
            end()

    for domain in (DRIVER, RUNTIME):
        callbacks.on(domain, _PROFILER_START[domain], started)
        callbacks.on(domain, _PROFILER_STOP[domain], stopping)


def watch_ranges(callbacks: Callbacks, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Call `begin` when an NVTX range of a name begins in any domain, and `end` when it ends.

    Args:
        callbacks: Where to register.
        name: Name of the range.
        begin: At its begin.
        end: At its end.
    """
    ranges = _Ranges(name)

    def handler(number: int) -> Callable[[int], None]:
        def called(data: int) -> None:
            change = ranges.change(number, _Nvtx.from_address(data))
            if change is not None:
                (begin if change else end)()

        return called

    for number in _WATCHED:
        callbacks.on(NVTX, (number,), handler(number))


class _Ranges:
    """Which open ranges have the name.

    Args:
        name: Name to look for.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._texts: dict[int, str] = {}  # by the handle of a registered string
        self._pushed: dict[tuple[int, int], list[bool]] = {}  # by thread and domain: has it the name?
        self._started: set[int] = set()

    def change(self, number: int, call: _Nvtx) -> bool | None:
        """Return True when a range of the name begins, False when one ends, else None."""
        address = call.parameters
        domain = ctypes.c_uint64.from_address(address).value if number in _IN_DOMAIN else 0
        core = address + (_POINTER_BYTES if number in _IN_DOMAIN else 0)
        returned = ctypes.c_uint64.from_address(call.returned).value if call.returned else 0
        if number == _NEW_TEXT:
            text = ctypes.c_char_p.from_address(address + _POINTER_BYTES).value or b""
            self._texts[returned] = text.decode(errors="replace")
            return None
        if number in _BEGINS:
            named = self._text(number, core) == self._name
            if number in (_PUSHED_PLAIN, _PUSHED, _PUSHED_IN_DOMAIN):
                self._pushed.setdefault((threading.get_ident(), domain), []).append(named)
            elif named:
                self._started.add(returned)
            return True if named else None
        if number in (_POPPED, _POPPED_IN_DOMAIN):
            stack = self._pushed.get((threading.get_ident(), domain))
            return False if stack and stack.pop() else None
        started = ctypes.c_uint64.from_address(core).value
        if started in self._started:
            self._started.discard(started)
            return False
        return None

    def _text(self, number: int, core: int) -> str | None:
        if number in (_PUSHED_PLAIN, _STARTED_PLAIN):
            return (ctypes.c_char_p.from_address(core).value or b"").decode(errors="replace")
        pointer = ctypes.c_void_p.from_address(core).value
        attributes = _Attributes.from_address(pointer) if pointer else None
        if attributes is None or not attributes.message:
            return None
        if attributes.message_type == _ASCII:
            return ctypes.string_at(attributes.message).decode(errors="replace")
        if attributes.message_type == _WIDE:
            return ctypes.wstring_at(attributes.message)
        return self._texts.get(attributes.message)
