"""One table of a trace as one Parquet file, and back.

Made for size and speed at once (zstd level 1, one row group per 16 Mi rows): stamps and counting ids are
delta coded, text and repeating numbers are dictionary coded, triples such as a kernel's grid are text like
`128 1 1` (lists cost several times more), and columns that hold only nulls are left out, except for the first
one where there is no other: Parquet counts no rows without a column.
"""

from __future__ import annotations

import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from overlane_collect.errors import TraceFileError
from overlane_collect.schema import TABLES, ColumnSpec, arrow_schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = ["decode_table", "encode_table"]

ROW_GROUP_ROWS = (
    1 << 24
)  # one group for nearly every trace: text dictionaries are stored once and columns decode in parallel
MAX_ROWS = (1 << 31) - 1  # row ids travel as 32-bit numbers to the browser
DICTIONARY_LIMIT_BYTES = 1 << 30  # the writer's own limit of 1 MiB would store long name lists twice
_MAX_TRIPLES = 1 << 16  # distinct grids of any real trace are far fewer
_AXIS_BITS = 16  # CUDA's limit for y and z; x has 31 bits
_AXIS = (1 << _AXIS_BITS) - 1

# Numbers that climb or hardly repeat: the delta code halves their size and triples the speed of the default.
_COUNTING = frozenset(
    {
        "correlation_id", "external_id", "waits_on_correlation_id", "cuda_event_id", "cuda_event_sync_id",
        "row_id", "op_id", "address", "sequence", "nesting_level",
    },
)  # fmt: skip
_WIDTH_BYTES = {
    "bool": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "string": 4,
    "list<int32>": 4,
    "list<int64>": 4,
}


def encode_table(name: str, table: pa.Table) -> pa.Buffer:
    """Return the Parquet file of one table.

    Args:
        name: Table of the contract.
        table: Exactly the contract's columns and types, at least one row.

    Raises:
        TraceFileError: The table breaks the contract's columns or has too many rows.
    """
    import pyarrow as pa  # noqa: PLC0415 - importing this module must stay cheap in a recorded program
    import pyarrow.parquet as pq  # noqa: PLC0415

    if not table.schema.equals(arrow_schema(name)):
        raise TraceFileError(
            f"table {name} cannot be written: its columns are not those of the trace contract"
        )
    if table.num_rows > MAX_ROWS:
        raise TraceFileError(
            f"table {name} has {table.num_rows} rows; a trace file holds at most {MAX_ROWS}, record less"
        )
    fields: list[pa.Field] = []
    columns: list[pa.ChunkedArray | pa.Array] = []
    repeating: list[str] = []
    delta: dict[str, str] = {}
    contract = TABLES[name].columns
    specs = [spec for spec in contract if table[spec.name].null_count < table.num_rows] or [contract[0]]
    with ThreadPoolExecutor(2) as pool:  # a kernel's grid and block take a third of all time
        stored = list(pool.map(_stored_column, specs, [table[spec.name] for spec in specs]))
    for spec, values in zip(specs, stored, strict=True):
        fields.append(pa.field(spec.name, values.type, nullable=spec.null is not None))
        columns.append(values)
        leaf = f"{spec.name}.list.element" if pa.types.is_list(values.type) else spec.name
        if spec.dtype in {"int16", "int32", "int64"} and (spec.unit == "ns" or spec.name in _COUNTING):
            delta[leaf] = "DELTA_BINARY_PACKED"
        elif spec.dtype not in {"bool", "float64"}:
            repeating.append(leaf)
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(columns, schema=pa.schema(fields)),
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=repeating,
        column_encoding=delta or None,
        dictionary_pagesize_limit=DICTIONARY_LIMIT_BYTES,
        write_statistics=False,
        store_schema=False,
    )
    return sink.getvalue()


def decode_table(name: str, data: bytes, *, rows: int) -> pa.Table:
    """Return the table that `encode_table` was given.

    Args:
        name: Table of the contract.
        data: The Parquet file.
        rows: How many rows it must have.

    Raises:
        TraceFileError: It holds other rows or columns than the contract's, cannot be decoded, or would not
            fit into memory.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    spec = TABLES[name]
    schema = arrow_schema(name)
    try:
        metadata = pq.read_metadata(pa.py_buffer(data))
        _check_size(name, metadata, rows)
        paths = {metadata.schema.column(i).path for i in range(metadata.num_columns)}
        text = [c.name for c in spec.columns if c.dtype in {"string", "list<int32>"} and c.name in paths]
        with pq.ParquetFile(pa.py_buffer(data), metadata=metadata, read_dictionary=text) as file:
            stored = file.read(use_threads=True)
        stored = stored.unify_dictionaries().combine_chunks()
        nulls = _NullColumns(rows)
        columns = [
            _contract_column(column, schema.field(column.name).type, stored, nulls) for column in spec.columns
        ]
        for column in columns:
            _check_text(column)
        unknown = sorted(set(stored.schema.names) - set(schema.names))
        if unknown:
            raise TraceFileError(f"table {name} has unknown columns {unknown}")
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TraceFileError(f"table {name} cannot be decoded ({error})") from error


def _stored_column(spec: ColumnSpec, column: pa.ChunkedArray) -> Any:
    """Return the Parquet column of a contract column: itself, or text for lists of three items."""
    import pyarrow.compute as pc  # noqa: PLC0415

    if spec.dtype != "list<int32>":
        return column
    lengths = pc.min_max(pc.list_value_length(column)).as_py()
    if (lengths["min"], lengths["max"]) != (3, 3):
        return column
    triples = _one_array(column)
    items = triples.flatten()  # of the known rows only
    text = None if items.null_count else _as_text(triples, _numbers(items).reshape(-1, 3))
    return column if text is None else text


def _as_text(triples: pa.ListArray, values: np.ndarray[Any, np.dtype[np.int32]]) -> Any:
    """Return a list column of three items per row as text like `128 1 1`, or None where it does not fit.

    Args:
        triples: The column.
        values: Items of its known rows, shape (known rows, 3).
    """
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    if values.min() < 0 or values[:, 1:].max() > _AXIS:
        return None
    keys = values[:, 0].astype(np.int64)
    for axis in (1, 2):
        keys <<= _AXIS_BITS
        keys |= values[:, axis]
    encoded = pa.Array.from_buffers(pa.int64(), len(keys), [None, pa.py_buffer(keys)]).dictionary_encode()
    if len(encoded.dictionary) > _MAX_TRIPLES:
        return None
    known = encoded.dictionary.to_pylist()
    words = [f"{k >> 2 * _AXIS_BITS} {k >> _AXIS_BITS & _AXIS} {k & _AXIS}" for k in known]
    codes, bitmap = _numbers(encoded.indices), None
    if triples.null_count:
        is_known = _is_known(triples)
        bitmap = pa.py_buffer(np.packbits(is_known, bitorder="little"))
        spread = np.zeros(len(triples), np.int32)
        spread[is_known] = codes
        codes = spread
    buffers = [bitmap, pa.py_buffer(codes)]
    indices = pa.Array.from_buffers(pa.int32(), len(triples), buffers, triples.null_count)
    return pa.DictionaryArray.from_arrays(indices, _text_array(words))


def _from_text(text: pa.ChunkedArray, dtype: pa.DataType) -> pa.Array:
    """Return the list column that `_as_text` was given.

    Raises:
        ValueError: A text is not three whole numbers.
        OverflowError: A number is larger than 32 bits.
    """
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    column = _one_array(text)
    words = [[int(number) for number in word.split()] for word in column.dictionary.to_pylist()]
    if any(len(word) != 3 for word in words):
        raise ValueError("a triple has not three numbers")
    rows, nulls, is_known = len(column), column.null_count, _is_known(column)
    kept = np.array(words, np.int32).reshape(-1, 3)[_numbers(column.indices)[is_known]].reshape(-1)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(is_known * np.int32(3), out=offsets[1:])
    items = pa.Array.from_buffers(dtype.value_type, len(kept), [None, pa.py_buffer(kept)])
    bitmap = pa.py_buffer(np.packbits(is_known, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(dtype, rows, [bitmap, pa.py_buffer(offsets)], nulls, 0, [items])


# The last four work on Arrow's buffers: to_numpy() and pa.array() import pandas where it is installed.


def _text_array(words: list[str]) -> pa.Array:
    """Return ASCII words as an Arrow array."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    offsets = np.cumsum([0, *(len(word) for word in words)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer("".join(words).encode())]
    return pa.Array.from_buffers(pa.string(), len(words), buffers)


def _one_array(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _numbers(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the int32 values of an array, shape (n,); those of null rows mean nothing."""
    import numpy as np  # noqa: PLC0415

    data = array.buffers()[1]
    if data is None:
        return np.zeros(len(array), np.int32)
    return np.frombuffer(data, np.int32)[array.offset : array.offset + len(array)]


def _is_known(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which rows are not null, shape (n,)."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    flags = pc.cast(array.is_valid(), pa.uint8())
    return np.frombuffer(flags.buffers()[1], np.uint8)[flags.offset : flags.offset + len(array)].astype(bool)


def _contract_column(spec: ColumnSpec, dtype: pa.DataType, stored: pa.Table, nulls: _NullColumns) -> Any:
    """Return one contract column from the Parquet column that `_stored_column` made of it."""
    import pyarrow as pa  # noqa: PLC0415

    if spec.name not in stored.schema.names:
        if spec.null is None:
            raise TraceFileError(f"column {spec.name} is missing")
        return nulls.column(dtype)
    values = stored[spec.name]
    if spec.dtype == "list<int32>" and pa.types.is_dictionary(values.type):
        return _from_text(values, dtype)
    return values if values.type == dtype else values.cast(dtype)


def _check_text(column: Any) -> None:
    """Refuse words that are no UTF-8, which Arrow would hand out only when somebody asks for one.

    Raises:
        ValueError: There is one.
    """
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(column.type):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            chunk.dictionary.validate(full=True)


class _NullColumns:
    """All-null columns of one length that share one buffer of never-touched zero pages."""

    def __init__(self, rows: int) -> None:
        import pyarrow as pa  # noqa: PLC0415

        length = max(rows + 1, 1) * 8
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self._zeros = pa.py_buffer(mmap.mmap(-1, length, **private))
        self._rows = rows

    def column(self, dtype: pa.DataType) -> pa.Array:
        import pyarrow as pa  # noqa: PLC0415

        if pa.types.is_dictionary(dtype):
            return pa.DictionaryArray.from_arrays(
                self.column(dtype.index_type), pa.nulls(0, dtype.value_type)
            )
        children = [pa.nulls(0, dtype.value_type)] if pa.types.is_list(dtype) else None
        return pa.Array.from_buffers(
            dtype, self._rows, [self._zeros, self._zeros][: dtype.num_buffers], self._rows, 0, children
        )


def _check_size(name: str, metadata: Any, rows: int) -> None:
    """Refuse a table whose decoded columns would not fit into this machine's memory, before decoding any."""
    stored_rows = metadata.num_rows if metadata.num_columns else rows  # files once left out every column
    if stored_rows != rows or rows > MAX_ROWS:
        raise TraceFileError(f"table {name} holds {metadata.num_rows} rows where {rows} are announced")
    if metadata.num_columns > len(TABLES[name].columns):
        raise TraceFileError(f"table {name} has {metadata.num_columns} columns, more than the contract has")
    needed = rows * sum(_WIDTH_BYTES[c.dtype] for c in TABLES[name].columns)
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            needed += max(chunk.num_values * 4, chunk.total_uncompressed_size)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise TraceFileError(
            f"table {name} would need {needed / 1e9:.1f} GB of memory and this machine has "
            f"{memory / 1e9:.1f} GB; open it on a larger machine",
        )
