"""Build Arrow tables that keep the trace contract: types, missing columns as null, canonical order."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.errors import TraceInvalidError
from overlane_collect.schema import TABLES, arrow_schema

__all__ = ["empty_table", "null_array", "sort_order", "table_from_columns"]


def null_array(dtype: pa.DataType, length: int) -> pa.Array:
    """Return an array of nulls that takes no memory of its own (its buffers are never-touched zero pages)."""
    if pa.types.is_dictionary(dtype):
        return pa.DictionaryArray.from_arrays(
            null_array(dtype.index_type, length), pa.array([], dtype.value_type)
        )
    if length == 0 or not pa.types.is_primitive(dtype):
        return pa.nulls(length, dtype)
    zeros = pa.py_buffer(mmap.mmap(-1, max(length * 8, 1)))
    return pa.Array.from_buffers(dtype, length, [zeros, zeros], null_count=length)


def empty_table(name: str) -> pa.Table:
    """Return the table `name` without rows."""
    return arrow_schema(name).empty_table()


def _array(values: Any, dtype: pa.DataType, length: int) -> pa.Array:
    if values is None:
        return null_array(dtype, length)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype != object:
            values = pa.array(values)
        else:
            values = pa.array(list(values), dtype.value_type if pa.types.is_dictionary(dtype) else dtype)
    if values.type == dtype:
        return values
    if pa.types.is_dictionary(dtype) and not pa.types.is_dictionary(values.type):
        return values.cast(dtype.value_type).dictionary_encode().cast(dtype)
    return values.cast(dtype)


def sort_order(
    name: str, columns: Mapping[str, pa.Array | pa.ChunkedArray]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the permutation that brings rows into the table's canonical order.

    Args:
        name: Table whose `sort` decides; ties keep their order, null counts as the largest value.
        columns: The columns named by `sort`, equal lengths.

    Returns:
        int64 array, shape (rows,), positions in the given columns.
    """
    keys: list[np.ndarray[Any, Any]] = []
    for key in TABLES[name].sort:
        column = columns[key.removeprefix("-")]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type):
            _, ranks = np.unique(
                pc.fill_null(column, "").to_numpy(zero_copy_only=False).astype(str), return_inverse=True
            )
            column = pa.array(ranks.astype(np.int64), mask=np.asarray(pc.is_null(column)))
        values = column.cast(pa.int64())
        array = pc.fill_null(values, np.iinfo(np.int64).max).to_numpy(zero_copy_only=False)
        keys.append(-array if key.startswith("-") else array)
    return np.lexsort(keys[::-1]).astype(np.int64, copy=False)


def table_from_columns(name: str, columns: Mapping[str, Any], *, is_sorted: bool = False) -> pa.Table:
    """Build one table of the contract from any columns.

    Args:
        name: Table name.
        columns: Column name to NumPy array, Arrow array or list, equal lengths; columns left out become null.
        is_sorted: The rows are in canonical order already.

    Returns:
        Table with exactly the contract's columns, rows in canonical order.

    Raises:
        TraceInvalidError: A column is not in the contract, or lengths differ.
    """
    schema = arrow_schema(name)
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise TraceInvalidError(
            f"table {name} has no column {', '.join(sorted(unknown))}; known: {', '.join(schema.names)}"
        )
    lengths = {len(values) for values in columns.values() if values is not None}
    if len(lengths) > 1:
        raise TraceInvalidError(f"columns of table {name} differ in length: {sorted(lengths)}")
    length = lengths.pop() if lengths else 0
    arrays = [_array(columns.get(field.name), field.type, length) for field in schema]
    table = pa.Table.from_arrays(arrays, schema=schema)
    if is_sorted or length < 2:
        return table
    return table.take(
        pa.array(
            sort_order(
                name, {key.removeprefix("-"): table[key.removeprefix("-")] for key in TABLES[name].sort}
            )
        )
    )
