"""Find rows of Arrow tables without pandas.

Where Arrow meets a plain Python value or hands a mask to NumPy it imports pandas first: half a second at the
first click, and 40 MB. These functions hand it buffers instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Rows", "equal", "row_array", "true_rows"]

Rows = np.ndarray[Any, np.dtype[np.int64]]
"""Row ids: int64 array, shape (n,), rising."""


def _scalar(value: int, dtype: pa.DataType) -> pa.Scalar:
    if pa.types.is_boolean(dtype):
        content = bytes([value])
    else:
        content = value.to_bytes(dtype.byte_width, "little", signed=True)
    return pa.Array.from_buffers(dtype, 1, [None, pa.py_buffer(content)])[0]


def equal(column: pa.ChunkedArray, value: int, *, if_null: bool) -> pa.ChunkedArray:
    """Return where an integer column equals a value.

    Args:
        column: Any integer column.
        value: Within the column's range.
        if_null: What to say of rows where the column is null.
    """
    return pc.fill_null(pc.equal(column, _scalar(value, column.type)), _scalar(if_null, pa.bool_()))


def true_rows(mask: pa.ChunkedArray) -> Rows:
    """Return where a mask is true."""
    return np.from_dlpack(pc.indices_nonzero(mask)).astype(np.int64)


def row_array(rows: Rows) -> pa.Array:
    """Return row ids as an Arrow array, sharing their memory."""
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])
