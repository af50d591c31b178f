"""Dense numbers for identities of several columns, and joins by them.

Columns of a trace hold nulls everywhere; a null is a value of its own here, never equal to a known one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from overlane.tables import numbers

__all__ = [
    "NULL",
    "Bytes",
    "Codes",
    "Ids",
    "Lookup",
    "dense",
    "group_rows",
    "identities",
    "in_order",
    "known",
    "words",
]

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Codes: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

NULL = int(np.iinfo(np.int64).min)
"""Stands for null in int64 arrays of this package's analyses; no id and no time is that small."""

_SPARE = 4
"""A table of all ids in the range is used where it has at most so many places per row."""
_FEW = 1 << 16
_SHORT = 1 << 15


def known(column: pa.ChunkedArray, *, null: int = NULL) -> Ids:
    """Return a column of integers as int64, with a value that stands for null."""
    kind = np.iinfo(str(column.type))
    if null >= kind.min:
        return numbers(column, null=null).astype(np.int64, copy=False)
    low = int(kind.min)
    values = numbers(column, null=low).astype(np.int64, copy=False)
    return np.where(values == low, null, values) if column.null_count else values


def words(column: pa.ChunkedArray) -> tuple[Codes, list[str]]:
    """Return the code of each row of a text column, -1 for null, and the words."""
    column = column.unify_dictionaries() if column.num_chunks > 1 else column
    if not column.num_chunks:
        return np.zeros(0, np.int32), []
    codes = pa.chunked_array([chunk.indices for chunk in column.chunks])
    return numbers(codes, null=-1), column.chunk(0).dictionary.to_pylist()


def dense(values: Ids) -> tuple[Ids, Ids]:
    """Number the values from 0 in their order.

    Args:
        values: int64, shape (n,); `NULL` counts as the smallest.

    Returns:
        int64 array, shape (n,), the number of each value; int64 array of the values, ascending.

    Example:
        >>> dense(np.array([7, 3, 7]))
        (array([1, 0, 1]), array([3, 7]))
    """
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.zeros(len(values), np.int64), np.array([low])
    has_null = low == NULL
    if has_null:
        low = int(values[values != NULL].min()) - 1
        values = np.where(values == NULL, low, values)
    if high - low < _SPARE * len(values) + _FEW:
        seen = np.zeros(high - low + 1, np.bool_)
        seen[values - low] = True
        place = np.cumsum(seen) - 1
        found = np.flatnonzero(seen) + low
        codes = place[values - low]
    else:
        found, codes = np.unique(values, return_inverse=True)
    if has_null:
        found[0] = NULL
    return codes, found


def identities(table: pa.Table, names: Sequence[str]) -> tuple[Ids, list[tuple[int | None, ...]]]:
    """Number the distinct tuples of some columns.

    Args:
        table: Any table.
        names: Integer columns.

    Returns:
        int64 array, shape (rows,), the number of each row's tuple; the tuples, None for null.
    """
    codes = np.zeros(table.num_rows, np.int64)
    columns = [known(table[name]) for name in names]
    for values in columns:
        part, found = dense(values)
        codes = codes * max(len(found), 1) + part if len(found) > 1 else codes
        codes, _ = dense(codes)
    count = int(codes.max()) + 1 if len(codes) else 0
    first = np.zeros(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    lists = [values[first].tolist() for values in columns]
    tuples = list(zip(*lists, strict=True)) if count else []
    return codes, [tuple(None if value == NULL else value for value in key) for key in tuples]


class Lookup:
    """Finds the first row that has a key.

    Args:
        keys: int64, shape (rows,); `NULL` is never found.
    """

    def __init__(self, keys: Ids) -> None:
        rows = np.flatnonzero(keys != NULL)
        keys = keys[rows]
        self._low = int(keys.min()) if len(keys) else 0
        span = int(keys.max()) - self._low + 1 if len(keys) else 0
        self._is_table = span <= _SPARE * len(keys) + _FEW
        if self._is_table:
            self._rows = np.full(span + 1, -1, np.int64)  # one place more, for what is out of range
            self._rows[keys[::-1] - self._low] = rows[::-1]
            self._keys = keys
        else:
            order = np.argsort(keys, kind="stable")
            self._rows, self._keys = rows[order], keys[order]

    def rows(self, keys: Ids) -> Ids:
        """Return the first row of each key, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        if self._is_table:
            place = keys - self._low
            place = np.where((keys == NULL) | (place < 0) | (place >= len(self._rows) - 1), -1, place)
            return self._rows[place]
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._rows[place], -1)


def in_order(codes: Ids | Codes, count: int) -> Ids:
    """Return the rows in order of a code, those of one code in their own order.

    Args:
        codes: Numbers from -1 to below `count`.
        count: How many codes there are; few of them are sorted digit by digit, in a tenth of the time.
    """
    is_small = count <= np.iinfo(np.int16).max
    return np.argsort(codes.astype(np.int16) if is_small else codes, kind="stable")


def group_rows(groups: Ids, count: int) -> tuple[Ids, Ids]:
    """Return the rows of each group in their order: positions, and where each group begins (count + 1).

    Args:
        groups: Number of each row's group, from 0; -1 belongs to none.
        count: How many groups there are.
    """
    sizes = np.bincount(groups + 1, minlength=count + 1)
    # Numbers of 16 bits are sorted in one pass over the rows, others in many.
    small = groups.astype(np.int16) if count <= _SHORT else groups
    order = np.argsort(small, kind="stable")
    begins = np.zeros(count + 1, np.int64)
    np.cumsum(sizes[1:], out=begins[1:])
    return order[sizes[0] :], begins
