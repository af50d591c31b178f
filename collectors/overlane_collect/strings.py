"""Text that records point to, numbered by content."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["NO_TEXT", "StringTable", "number_pointers"]

NO_TEXT = 0
"""Number of a null pointer."""


class StringTable:
    """Numbers texts from 1 on, in the order of their first use; safe to use from several threads."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._new: list[str] = []
        self._lock = threading.Lock()

    def number(self, text: str) -> int:
        """Return the number of a text, a new one when it was not met before."""
        found = self._numbers.get(text)
        if found is not None:
            return found
        with self._lock:
            found = self._numbers.get(text)
            if found is None:
                found = len(self._numbers) + 1
                self._new.append(text)
                self._numbers[text] = found
            return found

    def take_new(self) -> list[str]:
        """Return the texts that were numbered since the last call, in the order of their numbers."""
        with self._lock:
            new, self._new = self._new, []
            return new


def number_pointers(records: npt.NDArray[Any], field: str, strings: StringTable) -> None:
    """Replace the pointers of a field by the numbers of the texts that they point to, in place.

    Pointers are looked at anew in every buffer, since memory is reused once a module is unloaded.

    Args:
        records: Structured array in the process that made it.
        field: Field with addresses of zero-terminated texts.
        strings: Gives the numbers.
    """
    pointers, inverse = np.unique(records[field], return_inverse=True)
    numbers = [
        strings.number(ctypes.string_at(pointer).decode("utf-8", "replace")) if pointer else NO_TEXT
        for pointer in pointers.tolist()
    ]
    records[field] = np.asarray(numbers, np.uint64)[inverse]
