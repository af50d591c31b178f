"""Columns that grow piece by piece in memory that is given back to the system as soon as it is let go of.

Many small arrays would stay in the allocator's pools after they are freed; anonymous mappings do not.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["Grown", "mapped"]

Array = np.ndarray[Any, Any]

_CHUNK_ROWS = 1 << 22
"""Pages that are never written take no memory, so a chunk may be larger than most files need."""


def mapped(length: int, dtype: Any) -> Array:
    """Return an array of zeros in a mapping of its own."""
    size = max(1, length * np.dtype(dtype).itemsize)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype, length)


class Grown:
    """A column under construction."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._chunks: list[Array] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: Array) -> None:
        """Copy values behind those that are there."""
        done = 0
        while done < values.size:
            inside = self._length % _CHUNK_ROWS
            if inside == 0:
                self._chunks.append(mapped(_CHUNK_ROWS, self._dtype))
            count = min(_CHUNK_ROWS - inside, values.size - done)
            self._chunks[-1][inside : inside + count] = values[done : done + count]
            self._length += count
            done += count

    def finish(self) -> Array:
        """Return all values as one array, and let go of each chunk once it is copied."""
        if len(self._chunks) == 1:
            return self._chunks.pop()[: self._length]
        joined = mapped(self._length, self._dtype)
        at = 0
        while self._chunks:
            chunk = self._chunks.pop(0)
            count = min(_CHUNK_ROWS, self._length - at)
            joined[at : at + count] = chunk[:count]
            at += count
        return joined
