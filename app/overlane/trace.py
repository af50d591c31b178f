"""The immutable bundle of validated tables that everything else works on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from overlane.tables import numbers
from overlane_collect.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from overlane_collect.model import Header

__all__ = ["Trace", "around_holes"]

_HOLE = re.compile(r'"(?:[^"\\]|\\.)*"|#')


def around_holes(template: str) -> list[str]:
    """Split the template of attributes at the `#` signs that stand for integers, those outside of strings.

    Example:
        >>> around_holes('{"a": #, "b": "#1"}')
        ['{"a": ', ', "b": "#1"}']
    """
    parts, at = [], 0
    for match in _HOLE.finditer(template):
        if match.group() == "#":
            parts.append(template[at : match.start()])
            at = match.end()
    return [*parts, template[at:]]


class Trace:
    """One run: a header and the tables of `overlane_collect.schema`, checked and never changed.

    Made by `overlane.validation.validate`; opened from a file by `overlane.open_trace`.

    Attributes:
        name: Name to show.
        header: Provenance, capabilities and integrity.
    """

    def __init__(self, name: str, header: Header, tables: Mapping[str, pa.Table]) -> None:
        self.name = name
        self.header = header
        self._tables = dict(tables)
        self._views: dict[str, pd.DataFrame] = {}

    def __repr__(self) -> str:
        return f"Trace({self.name!r}, {self._tables['ops'].num_rows} operations, span {self.span_ns} ns)"

    def table(self, name: str) -> pa.Table:
        """Return the Arrow table `name`, empty when the source has no such rows.

        Raises:
            KeyError: The contract has no such table.
        """
        return self._tables[name]

    def column(self, table: str, column: str) -> np.ndarray[Any, Any]:
        """Return a numeric column without nulls as a NumPy array, without copying where it is one chunk.

        Raises:
            ValueError: The column holds nulls or is not numeric.
        """
        values = self._tables[table][column]
        if values.null_count:
            raise ValueError(f"{table}.{column} holds nulls; use table({table!r})[{column!r}]")
        return numbers(values)

    def view(self, name: str) -> pd.DataFrame:
        """Return a pandas view of a table, indexed by row id; text is categorical and unknown is NA."""
        if name not in self._views:
            import pandas as pd  # noqa: PLC0415 - half a second that only callers of views pay

            frame = self._tables[name].to_pandas(types_mapper=_nullable_type)
            frame.index = pd.RangeIndex(len(frame), name=TABLES[name].row_id)
            self._views[name] = frame
        return self._views[name].copy(deep=False)

    @property
    def ops(self) -> pd.DataFrame:
        """Device operations (pandas view)."""
        return self.view("ops")

    @property
    def api_calls(self) -> pd.DataFrame:
        """Host calls (pandas view)."""
        return self.view("api_calls")

    @property
    def syncs(self) -> pd.DataFrame:
        """Synchronizations and queries (pandas view)."""
        return self.view("syncs")

    @property
    def ranges(self) -> pd.DataFrame:
        """Annotated intervals (pandas view)."""
        return self.view("ranges")

    def figure(self, window: tuple[int, int] | None = None) -> go.Figure:
        """Return the Gantt chart of a window as a Plotly figure, one lane per stream.

        Up to 2,000 operations are drawn one by one, more as the busy share of each stream. To look around in
        a whole trace, open it with `overlane serve`.

        Args:
            window: Start and end in ns from the trace's origin; None for all of it.

        Raises:
            OverlaneError: The window is empty.

        Example:
            >>> import overlane
            >>> overlane.open_trace("run.overlane").figure((0, 1_000_000)).show()  # doctest: +SKIP
        """
        from overlane.figures.gantt import gantt  # noqa: PLC0415 - Plotly takes a third of a second

        return gantt(self, window)

    @cached_property
    def span_ns(self) -> int:
        """Nanoseconds from the origin to the last known stamp of any table; 0 for a trace without rows."""
        last = 0
        for spec in TABLES.values():
            table = self._tables[spec.name]
            for column in ("start_ns", "end_ns", "at_ns"):
                if table.num_rows and column in table.schema.names:
                    highest = pa.compute.max(table[column]).as_py()
                    last = max(last, highest or 0)
        return last

    @cached_property
    def ranks(self) -> tuple[int | None, ...]:
        """Ranks that have rows, in order; `(None,)` when the source names none."""
        found: set[int | None] = set()
        for name in ("ops", "api_calls", "ranges", "syncs", "devices"):
            found.update(self._tables[name]["rank"].unique().to_pylist())
        return tuple(sorted(found, key=lambda r: (r is None, r or 0))) or (None,)

    def row(self, table: str, row_id: int) -> dict[str, Any]:
        """Return every column of one row as Python values.

        Raises:
            IndexError: The table has no such row.
        """
        values = self._tables[table]
        if not 0 <= row_id < values.num_rows:
            raise IndexError(f"{table} has {values.num_rows} rows, none is {row_id}")
        return {name: values[name][row_id].as_py() for name in values.schema.names}

    def attributes(self, table: str, row_id: int) -> dict[str, Any]:
        """Return what else the source said of one row, as it stood there; empty when nothing."""
        stored = self._tables["attributes"]
        codes, rows = self._attribute_keys
        if table not in codes:
            return {}
        low, high = codes[table]
        at = low + int(np.searchsorted(rows[low:high], row_id))
        if at >= high or rows[at] != row_id:
            return {}
        # Validation has counted the integers and seen that the whole is an object.
        first, *rest = around_holes(stored["template"][at].as_py())
        integers = stored["integers"][at].as_py()
        text = first + "".join(f"{value}{part}" for value, part in zip(integers, rest, strict=True))
        return dict(json.loads(text))

    @cached_property
    def _attribute_keys(self) -> tuple[dict[str, tuple[int, int]], np.ndarray[Any, Any]]:
        stored = self._tables["attributes"]
        if not stored.num_rows:
            return {}, np.zeros(0, np.int64)
        names = stored["table"].combine_chunks()
        names = names.chunk(0) if isinstance(names, pa.ChunkedArray) else names
        indices = numbers(names.indices)
        cuts = np.flatnonzero(np.diff(indices)) + 1
        starts = np.concatenate([[0], cuts])
        ends = np.concatenate([cuts, [len(indices)]])
        words = names.dictionary.to_pylist()
        spans = {words[indices[low]]: (int(low), int(high)) for low, high in zip(starts, ends, strict=True)}
        return spans, self.column("attributes", "row_id")


def _nullable_type(dtype: pa.DataType) -> Any:
    import pandas as pd  # noqa: PLC0415

    nullable = {
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    return nullable.get(dtype)
