"""Arrays of files that stay on the disk until they are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

__all__ = ["SMALL_BYTES", "load_array"]

SMALL_BYTES = 1 << 18
"""Files up to this size are read: every mapping keeps a file open, and a process may open some thousand."""


def load_array(path: Path, mode: Literal["r", "c"]) -> np.ndarray[Any, Any]:
    """Return the array of a `.npy` file: mapped when it is large, read when it is small.

    Args:
        path: File.
        mode: `r` for an array that cannot be written, `c` for one whose changes stay in memory.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds no plain array.
    """
    if path.stat().st_size > SMALL_BYTES:
        return np.asarray(np.load(path, mmap_mode=mode, allow_pickle=False))
    values = np.asarray(np.load(path, allow_pickle=False))
    values.flags.writeable = mode == "c"
    return values
