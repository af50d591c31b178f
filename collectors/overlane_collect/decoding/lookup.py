"""Joins by number: from correlation ids and the like to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Lookup"]


class Lookup:
    """Finds the first row of each key.

    Args:
        keys: Keys, shape (n,); rows with `usable` false are never found.
        usable: Mask, shape (n,).
    """

    def __init__(self, keys: npt.NDArray[Any], usable: npt.NDArray[np.bool_] | None = None) -> None:
        rows = np.arange(len(keys)) if usable is None else np.flatnonzero(usable)
        self._keys, first = np.unique(np.asarray(keys)[rows].astype(np.int64), return_index=True)
        self._rows = rows[first]

    def rows(self, keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the row of each key, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        wanted = np.asarray(keys).astype(np.int64)
        place = np.searchsorted(self._keys, wanted).clip(0, len(self._keys) - 1)
        return np.where(self._keys[place] == wanted, self._rows[place], -1)
