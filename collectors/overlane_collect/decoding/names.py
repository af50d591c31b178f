"""Readable names of kernels: what the C++ compiler made of them, undone."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import lru_cache
from typing import Any

__all__ = ["demangled"]

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")


@lru_cache(maxsize=1)
def _demangler() -> Any | None:
    for name in _LIBRARIES:
        try:
            function = getattr(ctypes.CDLL(name), "__cxa_demangle")
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        return function
    return None


def demangled(name: str) -> str:
    """Return the readable form of a mangled name; other names, and all without a C++ library, as they are.

    Example:
        >>> demangled("saxpy")
        'saxpy'
    """
    function = _demangler() if name.startswith("_Z") else None
    if function is None:
        return name
    status = ctypes.c_int()
    pointer = function(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not pointer:
        return name
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(pointer))
