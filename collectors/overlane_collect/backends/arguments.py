"""What calls are given: memory that copies and memsets name, and pointers among the arguments of kernels.

For recorded programs, which declare nothing. Each launch and copy calls back into Python, which costs it some
microseconds, so this is on only with `--accesses`. Whether a value is a pointer at all is found out when the
journal is decoded, where the live allocations are known. The runtime's calls are seen too: it makes the
driver's, which carry the same number.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from overlane_collect._callbacks import DRIVER, ApiCall, Callbacks
from overlane_collect._cupti import Cupti
from overlane_collect.backends.base import Sink

__all__ = ["ArgumentWatch", "moves", "pointer_values"]

_ENTER = 0
_WORD = 8
_MOST_PARAMETERS = 512
_LEAST_ADDRESS, _MOST_ADDRESS = 1 << 16, 1 << 56
_BUFFER_POINTER = 1  # CU_LAUNCH_PARAM_BUFFER_POINTER


class _Move(NamedTuple):
    """Where the arguments of a call lie, in words of 8 bytes; -1 where there is none."""

    target: int
    source: int
    length: int
    unit: int


_COPY, _PEER = _Move(0, 1, 2, 1), _Move(0, 2, 4, 1)
_MOVES = {
    r"cuMemcpy(HtoD|DtoH|DtoD)?(Async)?": _COPY,
    r"cuMemcpyPeer(Async)?": _PEER,
    r"cuMemsetD8(Async)?": _Move(0, -1, 2, 1),
    r"cuMemsetD16(Async)?": _Move(0, -1, 2, 2),
    r"cuMemsetD32(Async)?": _Move(0, -1, 2, 4),
}
_SUFFIX = r"(_v2|_v3|_v\d{4,5})?(_ptds|_ptsz)?$"
_LAUNCHES = {
    r"cuLaunchKernel": (0, 6, 7),  # words of the function, the parameters, the packed parameters
    r"cuLaunchCooperativeKernel": (0, 6, -1),
    r"cuLaunchKernelEx": (1, 2, 3),
}


def moves(name: str, parameters: int) -> list[tuple[str, int, int]]:
    """Return mode, address and bytes of the accesses of a copy or memset.

    Args:
        name: Call as CUPTI names it.
        parameters: Address of its arguments.
    """
    move = next((m for pattern, m in _MOVES.items() if re.match(pattern + _SUFFIX, name)), None)
    if move is None:
        return []
    words = (ctypes.c_uint64 * (move.length + 1)).from_address(parameters)
    length = words[move.length] * move.unit
    found = [("write", words[move.target], length)]
    if move.source >= 0:
        found.append(("read", words[move.source], length))
    return found if length else []


def pointer_values(parameters: int, packed: int, sizes: list[tuple[int, int]]) -> list[int]:
    """Return the values among a kernel's parameters that could be addresses.

    Structures that are passed by value are looked through word by word: PyTorch's kernels get their tensors
    so.

    Args:
        parameters: Address of the array of pointers to the parameters, 0 without.
        packed: Address of the list that names one buffer with all parameters, 0 without.
        sizes: Offset in the buffer and bytes of each parameter.
    """
    buffer = 0 if parameters or not packed else _packed_buffer(packed)
    found = []
    for place, (offset, size) in enumerate(sizes):
        where = ctypes.c_uint64.from_address(parameters + place * _WORD).value if parameters else 0
        where = where or (buffer + offset if buffer else 0)
        if where and size >= _WORD:
            words = (ctypes.c_uint64 * (size // _WORD)).from_address(where)
            found += [value for value in words if _LEAST_ADDRESS <= value < _MOST_ADDRESS]
    return found


def _packed_buffer(packed: int) -> int:
    """Return the buffer that a list of launch parameters names, 0 without one."""
    for place in range(0, 16, 2):
        item = ctypes.c_uint64.from_address(packed + place * _WORD).value
        if item == _BUFFER_POINTER:
            return int(ctypes.c_uint64.from_address(packed + (place + 1) * _WORD).value)
        if item == 0:
            break
    return 0


class ArgumentWatch:
    """Logs what calls are given.

    Args:
        cupti: Gives the time and the numbers of calls.
        callbacks: Where to register.
    """

    def __init__(self, cupti: Cupti, callbacks: Callbacks) -> None:
        self._clock = cupti.timestamp
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._sizes: dict[int, list[tuple[int, int]]] = {}
        self._rows: list[tuple[int, int, str, int, int]] = []
        for number, name in cupti.call_names("driver").items():
            launch = next((w for p, w in _LAUNCHES.items() if re.match(p + _SUFFIX, name)), None)
            if launch is not None:
                callbacks.on(DRIVER, (number,), self._launch(launch))
            elif any(re.match(pattern + _SUFFIX, name) for pattern in _MOVES):
                callbacks.on(DRIVER, (number,), self._move(name))

    def give(self, sink: Sink) -> None:
        """Give the sink what was logged since the last time."""
        rows, self._rows = self._rows, []
        if rows:
            names = ("correlation_id", "at", "mode", "address", "bytes")
            columns = zip(*rows, strict=True)
            sink.fact("arguments", **{n: list(c) for n, c in zip(names, columns, strict=True)})

    def _move(self, name: str) -> Callable[[int], None]:
        def called(data: int) -> None:
            call = ApiCall.from_address(data)
            if call.site == _ENTER:
                for access in moves(name, call.parameters):
                    self._rows.append((call.correlation_id, self._clock(), *access))

        return called

    def _launch(self, words: tuple[int, int, int]) -> Callable[[int], None]:
        function_word, parameters_word, packed_word = words

        def called(data: int) -> None:
            call = ApiCall.from_address(data)
            if call.site != _ENTER:
                return
            given = (ctypes.c_uint64 * (max(words) + 1)).from_address(call.parameters)
            sizes = self._sizes_of(given[function_word])
            packed = given[packed_word] if packed_word >= 0 else 0
            at = self._clock()
            for value in pointer_values(given[parameters_word], packed, sizes):
                self._rows.append((call.correlation_id, at, "unknown", value, 0))

        return called

    def _sizes_of(self, function: int) -> list[tuple[int, int]]:
        """Return offset and bytes of each parameter; asked once."""
        known = self._sizes.get(function)
        if known is None:
            known = self._sizes[function] = _parameter_sizes(self._driver, function)
        return known


def _parameter_sizes(driver: Any, function: int) -> list[tuple[int, int]]:
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    for name in ("cuFuncGetParamInfo", "cuKernelGetParamInfo"):  # the runtime launches by either handle
        ask = getattr(driver, name, None)  # older drivers have neither
        found: list[tuple[int, int]] = []
        while ask is not None and len(found) < _MOST_PARAMETERS:
            place = ctypes.c_size_t(len(found))
            if ask(ctypes.c_void_p(function), place, ctypes.byref(offset), ctypes.byref(size)) != 0:
                break
            found.append((int(offset.value), int(size.value)))
        if found:
            return found
    return []
