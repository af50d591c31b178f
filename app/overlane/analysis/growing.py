"""Room in arrays that compiled passes fill row by row."""

from __future__ import annotations

import numpy as np
from numba import njit

from overlane.analysis.keys import Ids

__all__ = ["with_room"]


@njit(cache=True, nogil=True)
def with_room(rows: Ids, used: int, more: int = 1) -> Ids:
    """Return an array with room for more rows behind those in use: the same, or a longer copy.

    To be called outside of the inner loop: an array that is replaced in it is counted at every access.

    Args:
        rows: int64, shape (room, columns).
        used: Rows in use.
        more: Rows to come.
    """
    if used + more <= len(rows):
        return rows
    longer = np.empty((2 * len(rows) + more, rows.shape[1]), np.int64)
    longer[:used] = rows[:used]
    return longer
