"""Check tables against the trace contract; every reader ends here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.errors import TraceInvalidError
from overlane.tables import empty_table, numbers
from overlane.trace import Trace, around_holes
from overlane_collect.model import Header
from overlane_collect.schema import TABLES, TableSpec, arrow_schema

__all__ = ["validate"]


def validate(name: str, header: Header, tables: Mapping[str, pa.Table]) -> Trace:
    """Return the trace made of these tables, or refuse them.

    Checked: tables and columns of the contract and no others, dtypes, null rules, enumerations,
    `end_ns >= start_ns`, no negative time, canonical order, row references (`partition_id`, `op_id`) within
    their tables, attributes that name a row and make a JSON object.

    Args:
        name: Name to show for the trace.
        header: Provenance.
        tables: Tables by name; tables that are left out are empty.

    Raises:
        TraceInvalidError: Names the table, the column, the first bad row and the rule.
    """
    unknown = set(tables) - set(TABLES)
    if unknown:
        raise TraceInvalidError(
            f"no table is called {', '.join(sorted(unknown))}; known: {', '.join(TABLES)}"
        )
    checked = {}
    for spec in TABLES.values():
        table = tables.get(spec.name)
        checked[spec.name] = empty_table(spec.name) if table is None else _checked(spec, table)
    for table_name, column, target in (
        ("ops", "partition_id", "partitions"),
        ("accesses", "op_id", "ops"),
        ("blocks", "op_id", "ops"),
        ("collectives", "op_id", "ops"),
    ):
        _check_reference(table_name, checked[table_name], column, checked[target])
    _check_attributes(checked)
    return Trace(name, header, checked)


def _checked(spec: TableSpec, table: pa.Table) -> pa.Table:
    schema = arrow_schema(spec.name)
    if table.schema.names != schema.names:
        missing = [n for n in schema.names if n not in table.schema.names]
        extra = [n for n in table.schema.names if n not in schema.names]
        raise TraceInvalidError(
            f"table {spec.name}: columns are not the contract's: missing {missing}, unknown {extra}, or order"
        )
    for column, field in zip(spec.columns, schema, strict=True):
        values = table[column.name]
        if values.type != field.type:
            raise TraceInvalidError(
                f"table {spec.name}: column {column.name} is {values.type}, not {field.type}"
            )
        if column.null is None and values.null_count:
            raise TraceInvalidError(
                f"table {spec.name}: column {column.name} is never null, row {_first(pc.is_null(values))} is"
            )
        if column.dtype == "string" and "|" in column.unit:
            _check_enumeration(spec, column.name, column.unit.split("|"), values)
    if table.num_rows:
        _check_times(spec, table)
        _check_order(spec, table)
    return table.cast(schema)


def _first(mask: pa.ChunkedArray | pa.Array | np.ndarray[Any, Any]) -> int:
    return int(np.flatnonzero(np.asarray(mask))[0])


def _check_enumeration(spec: TableSpec, column: str, allowed: list[str], values: pa.ChunkedArray) -> None:
    for chunk in values.chunks:
        bad = set(chunk.dictionary.to_pylist()) - set(allowed)
        if bad:
            used = set(pc.unique(chunk).to_pylist()) & bad
            if used:
                raise TraceInvalidError(
                    f"table {spec.name}: column {column} holds {sorted(used)}; allowed: {', '.join(allowed)}"
                )


def _check_times(spec: TableSpec, table: pa.Table) -> None:
    for column in spec.columns:
        if column.unit == "ns" and table[column.name].null_count < table.num_rows:
            lowest = pc.min(table[column.name]).as_py()
            if lowest < 0 and column.name not in {"queued_ns", "submitted_ns", "device_ns"}:
                raise TraceInvalidError(
                    f"table {spec.name}: column {column.name} holds {lowest}; times start at the earliest, 0"
                )
    if "start_ns" in table.schema.names:
        backwards = pc.less(table["end_ns"], table["start_ns"])  # null where the end is unknown
        if pc.any(backwards).as_py():
            row = _first(pc.fill_null(backwards, False))
            raise TraceInvalidError(f"table {spec.name}: row {row} ends before it starts")


def _check_order(spec: TableSpec, table: pa.Table) -> None:
    if spec.sort[0] not in {"start_ns", "at_ns"}:
        return  # small tables whose order is by identity; ids are positions all the same
    falls = np.zeros(table.num_rows - 1, np.bool_)
    ties = np.ones(table.num_rows - 1, np.bool_)
    for key in spec.sort:
        values = numbers(table[key.removeprefix("-")], null=np.iinfo(np.int64).max)
        before, after = (values[1:], values[:-1]) if key.startswith("-") else (values[:-1], values[1:])
        falls |= ties & (after < before)
        ties &= after == before
    if falls.any():
        raise TraceInvalidError(
            f"table {spec.name}: row {_first(falls) + 1} is not in canonical order ({', '.join(spec.sort)})"
        )


def _check_reference(name: str, table: pa.Table, column: str, target: pa.Table) -> None:
    values = table[column]
    if values.null_count == len(values):
        return
    ends = pc.min_max(values).as_py()
    for value in (ends["min"], ends["max"]):
        if not 0 <= value < target.num_rows:
            row = _first(numbers(values, null=-1 if value >= 0 else 0) == value)
            raise TraceInvalidError(
                f"table {name}: column {column} holds {value} in row {row}, which lies outside its table of "
                f"{target.num_rows} rows"
            )


def _check_attributes(tables: Mapping[str, pa.Table]) -> None:
    """Check what `Trace.attributes` and the writers rely on: rows that exist, each once, and JSON objects.

    The templates are looked at once each; per row only numbers are compared.
    """
    holes: dict[str, int] = {}
    first, last = 0, ("", -1)
    for batch in tables["attributes"].to_batches():
        if not batch.num_rows:
            continue
        last = _check_owners(batch, tables, first, last)
        template, integers = batch.column("template"), batch.column("integers")
        codes, words = _codes(template)
        for code in np.flatnonzero(np.bincount(codes, minlength=len(words))).tolist():
            if words[code] not in holes:
                holes[words[code]] = _hole_count(words[code])
        if integers.flatten().null_count:
            raise TraceInvalidError("table attributes: column integers holds null; an integer is never null")
        wanted = np.array([holes.get(word, 0) for word in words], np.int64)[codes]
        if (wanted < 0).any():
            raise TraceInvalidError(
                "table attributes: column template is no JSON object with # for integers in row "
                f"{first + _first(wanted < 0)}"
            )
        given = np.diff(np.frombuffer(integers.buffers()[1], np.int32)[integers.offset :][: len(codes) + 1])
        if (given != wanted).any():
            row = _first(given != wanted)
            raise TraceInvalidError(
                f"table attributes: row {first + row} has {given[row]} integers and its template has "
                f"{wanted[row]} places for them"
            )
        first += batch.num_rows


def _check_owners(
    batch: pa.RecordBatch, tables: Mapping[str, pa.Table], first: int, last: tuple[str, int]
) -> tuple[str, int]:
    """Check the rows that attributes belong to, in canonical order; return the last one.

    Args:
        batch: Rows of `attributes`.
        tables: All tables.
        first: Position of the batch's first row.
        last: Table and row id before it.
    """
    codes, words = _codes(batch.column("table"))
    rows = numbers(batch.column("row_id"))
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for low, high in itertools.pairwise(cuts):
        name = words[codes[low]]
        if name not in tables:
            raise TraceInvalidError(
                f"table attributes: column table holds {name!r} in row {first + low}; "
                f"known: {', '.join(tables)}"
            )
        part = rows[low:high]
        outside = (part < 0) | (part >= tables[name].num_rows)
        if outside.any():
            row = _first(outside)
            raise TraceInvalidError(
                f"table attributes: column row_id holds {part[row]} in row {first + low + row}, which lies "
                f"outside {name} of {tables[name].num_rows} rows"
            )
        falls = np.diff(part) <= 0
        if (name, int(part[0])) <= last or falls.any():
            row = low + (_first(falls) + 1 if falls.any() else 0)
            raise TraceInvalidError(
                f"table attributes: row {first + row} is not in canonical order (table, row_id), each once"
            )
        last = name, int(part[-1])
    return last


def _codes(column: pa.DictionaryArray) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Return the codes of a column without nulls, and its words."""
    return numbers(column.indices), column.dictionary.to_pylist()


def _hole_count(template: str) -> int:
    """Return how many integers a template wants, -1 when it makes no JSON object."""
    try:
        # A word that stands for a whole value and joins with nothing beside it.
        if not isinstance(json.loads(template.replace("#", "null")), dict):
            return -1
    except (ValueError, RecursionError):
        return -1
    if "\\" in template:
        return len(around_holes(template)) - 1
    return sum(part.count("#") for part in template.split('"')[::2])  # the odd parts are strings
