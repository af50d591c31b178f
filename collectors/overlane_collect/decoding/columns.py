"""Columns of a table in the making, and how they become an Arrow table of the contract in canonical order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from overlane_collect.activities import UNSET
from overlane_collect.schema import TABLES, arrow_schema

__all__ = ["Column", "Draft", "constant", "draft_table", "ids", "integers", "labels", "stack", "texts"]

_TIMES_WITHOUT_ORIGIN = {"queued_ns", "submitted_ns", "device_ns"}  # may lie before the trace's origin


@dataclass
class Column:
    """Values of one column.

    Attributes:
        values: Integers of shape (n,) or (n, k), or codes into `words` (-1 is null).
        null: True where there is no value, shape (n,); None when there is one everywhere.
        words: Texts of the codes.
    """

    values: npt.NDArray[Any]
    null: npt.NDArray[np.bool_] | None = None
    words: Sequence[str] | None = None

    def take(self, rows: npt.NDArray[Any]) -> Column:
        """Return the column's values at positions, or where a mask is true."""
        return Column(self.values[rows], None if self.null is None else self.null[rows], self.words)

    def known(self) -> npt.NDArray[np.bool_]:
        """Return where there is a value."""
        if self.words is not None:
            return np.asarray(self.values >= 0)
        return np.ones(len(self.values), np.bool_) if self.null is None else ~self.null


Draft = dict[str, Column]
"""Columns of one table by name; times are still on the recorder's clock."""


def integers(values: npt.NDArray[Any], *, null: npt.NDArray[np.bool_] | None = None) -> Column:
    """Return a column of integers."""
    return Column(values.astype(np.int64), null)


def ids(records: npt.NDArray[Any], name: str, *, zero_is_null: bool = False) -> Column:
    """Return a column of ids of a field; null where CUPTI left it unset, or where the field is too new.

    Args:
        records: Structured array.
        name: Field, which need not be there.
        zero_is_null: Whether 0 means unknown too.
    """
    if name not in (records.dtype.names or ()):
        return Column(np.zeros(len(records), np.int64), np.ones(len(records), np.bool_))
    values = records[name]
    null = values == UNSET
    if zero_is_null:
        null = null | (values == 0)
    return Column(values.astype(np.int64), null)


def labels(values: npt.NDArray[Any], names: Mapping[int, str]) -> Column:
    """Return a column of texts for numbers; null for numbers without a text."""
    words = sorted(set(names.values()))
    found, inverse = np.unique(values, return_inverse=True)
    codes = [words.index(names[value]) if value in names else -1 for value in found.tolist()]
    return Column(np.asarray(codes, np.int32).reshape(-1)[inverse.reshape(-1)], None, words)


def texts(values: Sequence[str | None]) -> Column:
    """Return a column of texts."""
    words = sorted({value for value in values if value is not None})
    place = {word: code for code, word in enumerate(words)}
    return Column(np.asarray([-1 if v is None else place[v] for v in values], np.int32), None, words)


def constant(value: str | int | None, rows: int) -> Column:
    """Return a column that holds one value everywhere."""
    if isinstance(value, str):
        return Column(np.zeros(rows, np.int32), None, [value])
    if value is None:
        return Column(np.zeros(rows, np.int64), np.ones(rows, np.bool_))
    return Column(np.full(rows, value, np.int64))


def stack(drafts: Sequence[Draft], rows: Sequence[int]) -> Draft:
    """Put drafts of one table below each other; columns that a draft lacks are null there.

    Args:
        drafts: The parts.
        rows: Rows of each part.
    """
    names = list(dict.fromkeys(name for draft in drafts for name in draft))
    return {name: _stacked([draft.get(name) for draft in drafts], rows) for name in names}


def _stacked(parts: Sequence[Column | None], rows: Sequence[int]) -> Column:
    model = next(part for part in parts if part is not None)
    if model.words is not None:
        words = sorted({word for part in parts if part is not None for word in part.words or ()})
        place = {word: code for code, word in enumerate(words)}
        codes = [
            np.full(count, -1, np.int32)
            if part is None
            else np.asarray([*(place[word] for word in part.words or ()), -1], np.int32)[part.values]
            for part, count in zip(parts, rows, strict=True)
        ]
        return Column(np.concatenate(codes), None, words)
    shape = model.values.shape[1:]
    values = [
        np.zeros((count, *shape), np.int64) if part is None else part.values
        for part, count in zip(parts, rows, strict=True)
    ]
    known = [
        np.zeros(count, np.bool_) if part is None else part.known()
        for part, count in zip(parts, rows, strict=True)
    ]
    return Column(np.concatenate(values), ~np.concatenate(known))


def draft_table(name: str, draft: Draft, origin_ns: int) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return a table of the contract, and where its rows came from.

    Args:
        name: Table.
        draft: Its columns; those that are left out are null. Emptied, so that its memory goes.
        origin_ns: The trace's origin on the recorder's clock; subtracted from all times.

    Returns:
        The table in canonical order, and an int64 array, shape (n,): the draft's row of each.
    """
    spec = TABLES[name]
    rows = len(next(iter(draft.values())).values)
    order = _canonical_order(draft, spec.sort, rows)
    schema = arrow_schema(name)
    arrays = []
    for column, target in zip(spec.columns, schema, strict=True):
        part = draft.pop(column.name, None)
        if part is None:
            arrays.append(pa.nulls(rows, target.type))
            continue
        part = part.take(order)
        if column.unit == "ns" and column.dtype == "int64":
            part = Column(part.values - origin_ns, part.null)
        arrays.append(_array(part, target.type))
    return pa.Table.from_arrays(arrays, schema=schema), order


def _canonical_order(draft: Draft, sort: Sequence[str], rows: int) -> npt.NDArray[np.int64]:
    keys = []
    for key in reversed(sort):
        part = draft.get(key.removeprefix("-"))
        if part is None:
            continue
        if part.words is not None:
            values = part.values.astype(np.int64)
        else:
            values = np.where(part.known(), part.values, np.iinfo(np.int64).max)
        keys.append(-values if key.startswith("-") else values)
    return np.lexsort(keys) if keys else np.arange(rows)


def _array(part: Column, target: pa.DataType) -> pa.Array:
    null = ~part.known()
    mask = null if null.any() else None
    if part.words is not None:
        codes = pa.array(part.values, pa.int32(), mask=mask)
        return pa.DictionaryArray.from_arrays(codes, pa.array(list(part.words), pa.string()))
    if pa.types.is_list(target):
        width = part.values.shape[1]
        flat = pa.array(part.values[~null].reshape(-1), target.value_type)
        lengths = np.where(null, 0, width)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), pa.int32())
        return pa.ListArray.from_arrays(offsets, flat, type=target, mask=pa.array(null))
    if pa.types.is_boolean(target):
        return pa.array(part.values.astype(np.bool_), target, mask=mask)
    return pa.array(part.values, pa.int64(), mask=mask).cast(target)
