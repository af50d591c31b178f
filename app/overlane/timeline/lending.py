"""Memory for answers that is used again.

An answer touches some ten megabytes for a few milliseconds. Taken from the system each time, their pages cost
as much as the answer itself.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Lender"]


class Lender:
    """Lends blocks of memory; a block comes back when the last array in it is gone.

    Safe to use from several threads.

    Args:
        kept: Blocks that are kept for the next ones; more are given back to the system.
        largest_bytes: Blocks above this are never kept.
    """

    def __init__(self, kept: int = 4, largest_bytes: int = 1 << 26) -> None:
        self._free: list[npt.NDArray[np.uint8]] = []
        self._kept = kept
        self._largest_bytes = largest_bytes

    def lend(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return uint8 (size_bytes,) with any values."""
        if size_bytes == 0:
            return np.empty(0, np.uint8)
        try:
            block = self._free.pop()
        except IndexError:
            block = np.empty(0, np.uint8)
        if len(block) < size_bytes:
            block = np.empty(size_bytes + size_bytes // 4, np.uint8)
        # Views of `lent` refer to it, not to `block`, since its base is no array: it lives as long as they.
        lent = np.frombuffer(block.data, np.uint8, size_bytes)
        weakref.finalize(lent, self._take_back, block).atexit = False
        return lent

    def columns(self, size: int, *dtypes: Any) -> list[npt.NDArray[Any]]:
        """Return one array of shape (size,) for each type, with any values; wider types come first."""
        widths = [np.dtype(dtype).itemsize for dtype in dtypes]
        block = self.lend(size * sum(widths))
        found = []
        at = 0
        for dtype, width in zip(dtypes, widths, strict=True):
            found.append(block[at : at + size * width].view(dtype))
            at += size * width
        return found

    def _take_back(self, block: npt.NDArray[np.uint8]) -> None:
        if len(self._free) < self._kept and len(block) <= self._largest_bytes:
            self._free.append(block)
