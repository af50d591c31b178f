"""The scanned rows as whole columns, with all ids in one string table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from overlane.readers.kineto.compiled import pool_offsets, unpack
from overlane.readers.kineto.keys import Class, Column, Wide
from overlane.readers.kineto.parallel import Scanned
from overlane.readers.kineto.strings import StringTable, decode_name, merge_tables
from overlane.readers.kineto.text import MISSING
from overlane.tables import array_of, null_array

__all__ = ["UNSET_IDS", "Rows", "arrow", "dictionary", "distinct", "order_by", "unknown_ids"]

Array = np.ndarray[Any, Any]

_CODES = (Column.CATEGORY, Column.NAME, Column.THREAD, Column.TEMPLATE)
_WIDE_CODES = (Wide.SYNC_KIND, Wide.COPY_KIND)
_METADATA = ord("M")
_TABLE_SIZE = 1 << 22
UNSET_IDS = (-1, 4294967295)
"""How writers say that there is no id."""


class Rows:
    """Columns over all kept events, in the order of the file.

    Attributes:
        ts, dur: int64 ns; `dur` MISSING where unknown, the scope's letter for instants.
        phase: uint8 letter.
        kind: uint8, a `keys.Class`.
        has_wide: bool.
        category, name, thread, template: int32 string ids, -1 for none.
        correlation, external: int64, MISSING where unknown.
        pool: uint8, packed integers of the templates.
        offsets: int64, where each row's integers start in the pool.
        strings: The string table of all ids.
    """

    def __init__(self, scanned: Scanned) -> None:
        self.strings: StringTable = scanned.tables[0]
        self._maps = [None, *(merge_tables(self.strings, other) for other in scanned.tables[1:])]
        del scanned.tables[1:]
        what = scanned.columns[Column.WHAT].finish()
        self.phase: Array = (what & 0xFF).astype(np.uint8)
        self.kind: Array = ((what >> 8) & 0xFF).astype(np.uint8)
        self.has_wide: Array = (what >> 16) != 0
        del what
        codes = [self._mapped(scanned.columns[column].finish(), scanned.stretches) for column in _CODES]
        self.category, self.name, self.thread, self.template = codes
        self.ts = scanned.columns[Column.TS].finish()
        self.dur = scanned.columns[Column.DUR].finish()
        self.correlation = scanned.columns[Column.CORRELATION].finish()
        self.external = scanned.columns[Column.EXTERNAL].finish()
        self._wide: dict[Wide, Array] = {}
        for column in list(scanned.wide):
            values = scanned.wide.pop(column).finish()
            self._wide[column] = (
                self._mapped(values, scanned.wide_stretches) if column in _WIDE_CODES else values
            )
        self._wide_row: Array | None = None
        self.pool: Array = scanned.pool.finish()
        self.offsets: Array = pool_offsets(self.pool, self.integer_counts())

    def __len__(self) -> int:
        return int(self.template.size)

    def _mapped(self, codes: Array, stretches: list[tuple[int, int]]) -> Array:
        """Turn the ids of each worker's table into those of the one table, in place."""
        at = 0
        for worker, count in stretches:
            mapping = self._maps[worker]
            if mapping is not None and count:
                part = codes[at : at + count]
                part[:] = np.where(part >= 0, mapping.take(np.maximum(part, 0)), part)
            at += count
        return codes

    def integer_counts(self, rows: Array | None = None) -> Array:
        """Return how many integers were cut out of each row's template, of all rows without `rows`."""
        codes = self.template if rows is None else self.template.take(rows)
        phase = self.phase if rows is None else self.phase.take(rows)
        of_template = np.zeros(len(self.strings) + 1, np.int32)  # the last, spare place is that of -1
        of_template[:-1] = self.strings.info[: len(self.strings), 4]
        return np.where(phase == _METADATA, np.int32(0), of_template.take(codes))

    def integers(self, rows: Array) -> tuple[Array, Array]:
        """Return the integers of the rows' templates, one row after the other, and how many each row has."""
        counts = self.integer_counts(rows)
        values = np.empty(int(counts.sum()), np.int64)
        self.unpack(rows, counts, values)
        return values, counts

    def unpack(self, rows: Array, counts: Array, values: Array) -> None:
        """Write the integers of the rows' templates to `values`; `counts` says how many each row has."""
        unpack(self.pool, self.offsets.take(rows), counts, values)

    def wide(self, column: Wide, rows: Array) -> Array | None:
        """Return a wide column for some rows, MISSING where unknown; None where none of them has it."""
        values = self._wide.get(column)
        has = self.has_wide.take(rows)
        if values is None or not has.any():
            return None
        if self._wide_row is None:
            self._wide_row = np.cumsum(self.has_wide, dtype=np.int32) - 1
        return np.where(has, values.take(np.where(has, self._wide_row.take(rows), 0)), MISSING)

    def drop_wide(self) -> None:
        """Let go of the wide columns; from now on they have no values."""
        self._wide = {}
        self._wide_row = None

    def drop(self, *columns: str) -> None:
        """Let go of columns that nobody takes any more."""
        for column in columns:
            setattr(self, column, np.zeros(0, np.int64))

    def rows_of(self, *kinds: Class) -> Array:
        """Return a mask of the rows of some classes."""
        chosen = np.zeros(256, bool)
        chosen[list(kinds)] = True
        return chosen[self.kind]

    def text(self, code: int) -> str:
        """Return a name; empty for the id -1."""
        return decode_name(self.strings.content(code)) if code >= 0 else ""

    def used_codes(self, codes: Array) -> Array:
        """Return the distinct string ids among `codes`, ascending, -1 left out."""
        used = np.zeros(len(self.strings) + 1, bool)
        used[codes] = True  # -1 marks the last, spare place
        return np.flatnonzero(used[:-1])

    def threads(self, codes: Array) -> tuple[Array, Array]:
        """Return process and thread ids of thread codes, MISSING where not given, -1 or 4294967295."""
        process = np.full(len(self.strings) + 1, MISSING, np.int64)
        thread = np.full(len(self.strings) + 1, MISSING, np.int64)
        used = self.used_codes(codes)
        if used.size:
            pairs = np.frombuffer(b"".join(self.strings.contents(used)), np.int64).reshape(-1, 2)
            pairs = np.where((pairs == UNSET_IDS[0]) | (pairs == UNSET_IDS[1]), MISSING, pairs)
            process[used], thread[used] = pairs.T
        return process.take(codes), thread.take(codes)


def distinct(values: Array) -> tuple[Array, Array]:
    """Return the distinct values of an integer array, ascending, and for each element the index of its own.

    As `np.unique` does, without sorting where the values lie close together.
    """
    if not values.size:
        return values, np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= _TABLE_SIZE:
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    places = (values - low).astype(np.int32)
    used = np.zeros(high - low + 1, bool)
    used[places] = True
    found = np.flatnonzero(used)
    rank = np.zeros(used.size, np.int32)
    rank[found] = np.arange(found.size, dtype=np.int32)
    return found + low, rank.take(places)


def unknown_ids(values: Array | None) -> Array | None:
    """Turn the ways to write "no id" (-1, 4294967295) into MISSING."""
    if values is None:
        return None
    return np.where((values == UNSET_IDS[0]) | (values == UNSET_IDS[1]), MISSING, values)


def arrow(values: Array | None, dtype: pa.DataType, length: int, missing: Any = MISSING) -> pa.Array:
    """Return an Arrow array, sharing memory where the type allows; `missing` becomes null.

    Args:
        values: Integer array, or None for all null.
        dtype: Arrow type of a fixed width.
        length: Number of rows.
        missing: Value that stands for null; None when there is none.
    """
    if values is None:
        return null_array(dtype, length)
    known = None
    nulls = 0
    if missing is not None:
        mask = values != missing
        nulls = length - int(np.count_nonzero(mask))
        if nulls == length:
            return null_array(dtype, length)
        if nulls:
            known = pa.py_buffer(np.packbits(mask, bitorder="little"))
            values = np.where(mask, values, 0)
    exact = np.ascontiguousarray(values, dtype=str(dtype))
    return pa.Array.from_buffers(dtype, length, [known, pa.py_buffer(exact)], null_count=nulls)


def dictionary(codes: Array, words: list[str | None]) -> pa.DictionaryArray:
    """Return a dictionary array of `words[code]`; equal words share an entry, unused ones are left out.

    Args:
        codes: Integer array, -1 for null.
        words: Text of each code, None for null; only those in use are read.
    """
    used = np.zeros(len(words) + 1, bool)
    used[codes] = True  # -1 marks the last, spare place
    mapping = np.full(len(words) + 1, -1, np.int32)
    entries: dict[str, int] = {}
    for code in np.flatnonzero(used[:-1]).tolist():
        word = words[code]
        if word is not None:
            mapping[code] = entries.setdefault(word, len(entries))
    indices = mapping.take(codes)
    return pa.DictionaryArray.from_arrays(
        arrow(indices, pa.int32(), len(indices), missing=-1), array_of(list(entries), pa.string())
    )


def order_by(start: Array, then: Array) -> Array:
    """Return the stable permutation that sorts by `start`, equal ones by `then`.

    Real files are nearly sorted and seldom tie, so only the ties are sorted by both.
    """
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        tied = np.zeros(start.size, bool)
        tied[1:] = same
        tied[:-1] |= same
        rows = order[tied]
        order[tied] = rows[np.lexsort((then[rows], start[rows]))]
    return order
