"""Check tables against the trace contract; every reader ends here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.errors import TraceInvalidError
from overlane.tables import empty_table, numbers
from overlane.trace import Trace
from overlane_collect.model import Header
from overlane_collect.schema import TABLES, TableSpec, arrow_schema

__all__ = ["validate"]


def validate(name: str, header: Header, tables: Mapping[str, pa.Table]) -> Trace:
    """Return the trace made of these tables, or refuse them.

    Checked: tables and columns of the contract and no others, dtypes, null rules, enumerations,
    `end_ns >= start_ns`, no negative time, canonical order, row references (`partition_id`, `op_id`) within
    their tables.

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
        _check_reference(table_name, checked[table_name][column], checked[target].num_rows)
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


def _check_reference(table: str, column: pa.ChunkedArray, rows: int) -> None:
    if column.null_count == len(column):
        return
    ends = pc.min_max(column).as_py()
    if ends["min"] < 0 or ends["max"] >= rows:
        raise TraceInvalidError(
            f"table {table}: a row id of column {ends} lies outside its table of {rows} rows"
        )
