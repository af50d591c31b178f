"""From a table's columns to keys and categories of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from overlane.tables import null_array, numbers
from overlane.timeline.categories import CODES
from overlane.trace import Trace

__all__ = [
    "Key",
    "by_word",
    "call_categories",
    "engine_categories",
    "factorize",
    "none_last",
    "of_rank",
    "one_category",
    "one_chunk",
    "operation_categories",
]

Array = npt.NDArray[Any]
Key = tuple[Any, ...]

COLLECTIVE_MARKS = ("nccl", "rccl", "mscclkernel", "oneccl")
"""Parts of the lower-case names of kernels that carry out collectives."""

_NO_RANK = np.iinfo(np.int32).min  # no rank is negative


def of_rank(trace: Trace, rank: int | None, column: pa.ChunkedArray) -> Array | None:
    """Return which rows are of a rank, bool (rows,), or None for all.

    Rows without rank go to the first rank of a trace whose operations and calls all name one.

    Args:
        trace: Trace that the rows are of.
        rank: One of its ranks.
        column: The rows' ranks.
    """
    takes_null = rank is None or (None not in trace.ranks and rank == trace.ranks[0])
    if column.null_count == len(column):
        return None if takes_null else np.zeros(len(column), bool)
    named = numbers(column, null=_NO_RANK)
    mask = named == (_NO_RANK if rank is None else rank)
    if takes_null:
        mask |= named == _NO_RANK
    return None if mask.all() else mask


def none_last(key: Key) -> tuple[Any, ...]:
    """Return what keys are sorted by when unknown parts come last."""
    return tuple((value is None, value if value is not None else 0) for value in key)


def factorize(table: pa.Table, columns: Iterable[str]) -> tuple[Array, list[Key]]:
    """Number the distinct value tuples of some columns.

    Returns:
        int32 codes of shape (rows,) and the tuples by code, None for null; tuples in order of the columns'
        first values.
    """
    length = table.num_rows
    combined = np.zeros(length, np.int64)
    words: list[list[Any]] = []
    for name in columns:
        codes, values = _codes(table[name], length)
        words.append(values)
        if len(values) > 1:  # where there is one value, all codes are 0
            combined = combined * len(values) + codes
    size = int(np.prod([max(len(w), 1) for w in words], dtype=np.float64))
    if size <= 1 << 20:
        found = np.flatnonzero(np.bincount(combined, minlength=1))
        lookup = np.zeros(size, np.int32)
        lookup[found] = np.arange(len(found))
        codes32 = lookup[combined]
    else:
        found, inverse = np.unique(combined, return_inverse=True)
        codes32 = inverse.astype(np.int32)
    keys = []
    for code in found.tolist():
        parts = []
        for values in reversed(words):
            code, at = divmod(code, max(len(values), 1))  # noqa: PLW2901 - peeling digits off
            parts.append(values[at] if values else None)
        keys.append(tuple(reversed(parts)))
    return codes32, keys if length else []


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, uncopied where it is one chunk already."""
    if column.num_chunks == 0:
        return null_array(column.type, 0)
    if column.num_chunks == 1:
        return column.chunk(0)
    values = column.combine_chunks()
    return values.chunk(0) if isinstance(values, pa.ChunkedArray) else values


def _codes(column: pa.ChunkedArray, length: int) -> tuple[Array, list[Any]]:
    if column.null_count == length:
        return np.zeros(length, np.int64), [None]
    values = one_chunk(column)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode(null_encoding="encode")
        return numbers(values.indices).astype(np.int64), values.dictionary.to_pylist()
    words = values.dictionary.to_pylist()
    codes = numbers(values.indices, null=len(words)).astype(np.int64)
    return codes, [*words, None] if values.null_count else words


def one_category(category: str) -> Array:
    """Return the categories of a layer whose slices are all alike."""
    return np.array([CODES[category]], np.uint8)


def by_word(column: pa.ChunkedArray, code: Callable[[Any], int]) -> Array:
    """Return a code for each row of a text column, uint8; `code` is asked once per word, None for null."""
    codes, words = _codes(column, len(column))
    lookup = np.array([code(word) for word in words] or [0], np.uint8)
    return lookup[codes]


def engine_categories(ops: pa.Table) -> Array:
    """Return the category of each operation by its engine alone, uint8 of shape (rows,)."""
    return by_word(ops["engine"], lambda word: CODES.get(word or "", 0))


def operation_categories(trace: Trace) -> Array:
    """Return the category of each operation: its engine, or `collective` where it carries out one."""
    ops = trace.table("ops")
    category = engine_categories(ops)
    is_collective = by_word(
        ops["name"], lambda word: any(mark in (word or "").lower() for mark in COLLECTIVE_MARKS)
    )
    category[(is_collective > 0) & (category == CODES["compute"])] = CODES["collective"]
    named = trace.table("collectives")["op_id"].drop_null()
    category[numbers(named)] = CODES["collective"]
    return category


def call_categories(trace: Trace) -> Array:
    """Return the category of each host call, uint8 of shape (rows,)."""
    words = {"runtime": "runtime_call", "driver": "driver_call"}
    return by_word(trace.table("api_calls")["api"], lambda word: CODES[words.get(word, "other")])
