"""Build Arrow tables that keep the trace contract: types, missing columns as null, canonical order.

`pa.array`, `pa.scalar` (so any compute function given a Python value) and `to_numpy` import pandas where it
is installed: a quarter of a second and 25 MB. So arrays are built from and read as buffers here.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from overlane.errors import TraceInvalidError
from overlane_collect.schema import TABLES, arrow_schema

__all__ = ["array_of", "empty_table", "null_array", "numbers", "sort_order", "table_from_columns"]


def null_array(dtype: pa.DataType, length: int) -> pa.Array:
    """Return an array of nulls that takes no memory of its own (its buffers are never-touched zero pages)."""
    if pa.types.is_dictionary(dtype):
        indices, values = null_array(dtype.index_type, length), pa.nulls(0, dtype.value_type)
        return pa.DictionaryArray.from_arrays(indices, values, safe=False)  # a check would touch each page
    if length == 0 or not (pa.types.is_primitive(dtype) or pa.types.is_list(dtype)):
        return pa.nulls(length, dtype)
    zeros = pa.py_buffer(mmap.mmap(-1, (length + 1) * 8))
    children = [pa.nulls(0, dtype.value_type)] if pa.types.is_list(dtype) else None
    return pa.Array.from_buffers(dtype, length, [zeros, zeros], null_count=length, children=children)


def empty_table(name: str) -> pa.Table:
    """Return the table `name` without rows."""
    schema = arrow_schema(name)
    return pa.Table.from_arrays([null_array(field.type, 0) for field in schema], schema=schema)


def numbers(column: pa.Array | pa.ChunkedArray, *, null: int | None = None) -> np.ndarray[Any, Any]:
    """Return an integer or float column as a NumPy array, uncopied where it is one chunk without nulls.

    Args:
        column: Numeric column.
        null: Value that stands for null.

    Raises:
        ValueError: It holds nulls and no value stands for them.
    """
    if column.null_count and null is None:
        raise ValueError("a column with nulls has no NumPy form; say which value stands for null")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = str(column.type).replace("double", "float64")
    parts = []
    for chunk in chunks:
        if chunk.null_count == len(chunk):  # its buffers may be missing
            parts.append(np.full(len(chunk), 0 if null is None else null, kind))
            continue
        valid, data = chunk.buffers()
        span = slice(chunk.offset, chunk.offset + len(chunk))
        values = np.frombuffer(data, kind)[span]
        if chunk.null_count:
            known = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[span].view(np.bool_)
            values = np.where(known, values, np.array(null, kind))
        parts.append(values)
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, kind)


def array_of(values: Sequence[Any] | np.ndarray[Any, Any], dtype: pa.DataType) -> pa.Array:
    """Return an Arrow array of Python or NumPy values, None for null.

    Args:
        values: Values of the type; for lists, sequences of them.
        dtype: A type of the trace contract, or text.

    Raises:
        OverflowError, TypeError, ValueError: A value does not fit.
    """
    length = len(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        known: Sequence[bool] | None = None
        plain: Any = values
    else:
        known = [value is not None for value in values]
        plain = [value for value in values if value is not None]
    valid = None if known is None or all(known) else pa.py_buffer(np.packbits(known, bitorder="little"))
    if pa.types.is_dictionary(dtype):
        codes: dict[Any, int] = {}
        indices = [None if value is None else codes.setdefault(value, len(codes)) for value in values]
        return pa.DictionaryArray.from_arrays(
            array_of(indices, dtype.index_type), array_of(list(codes), dtype.value_type)
        )
    if pa.types.is_string(dtype) or pa.types.is_list(dtype):
        parts: list[Any] = [value.encode() if pa.types.is_string(dtype) else list(value) for value in plain]
        lengths = np.zeros(length + 1, np.int32)
        lengths[1:][slice(None) if known is None else np.array(known, bool)] = [len(part) for part in parts]
        offsets = pa.py_buffer(np.cumsum(lengths, dtype=np.int32))
        if pa.types.is_string(dtype):
            return pa.Array.from_buffers(dtype, length, [valid, offsets, pa.py_buffer(b"".join(parts))])
        inner = array_of([item for part in parts for item in part], dtype.value_type)
        return pa.Array.from_buffers(dtype, length, [valid, offsets], children=[inner])
    kind = "bool" if pa.types.is_boolean(dtype) else str(dtype).replace("double", "float64")
    content = np.zeros(length, kind)
    content[slice(None) if known is None else np.array(known, bool)] = plain
    data = np.packbits(content, bitorder="little") if pa.types.is_boolean(dtype) else content
    return pa.Array.from_buffers(dtype, length, [valid, pa.py_buffer(data)])


def _array(values: Any, dtype: pa.DataType, length: int) -> pa.Array:
    if values is None:
        return null_array(dtype, length)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        return array_of(values, dtype)
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
            words = column.to_pylist()
            ranks = {word: k for k, word in enumerate(sorted({word for word in words if word is not None}))}
            column = array_of([None if word is None else ranks[word] for word in words], pa.int64())
        array = numbers(column.cast(pa.int64()), null=np.iinfo(np.int64).max)
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
    keys = {key.removeprefix("-"): table[key.removeprefix("-")] for key in TABLES[name].sort}
    return table.take(array_of(sort_order(name, keys), pa.int64()))
