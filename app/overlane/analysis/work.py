"""The operations of a trace as columns of numbers, for analyses that look at some of them from many sides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from overlane.intervals import Times, close_unfinished
from overlane.tables import numbers
from overlane.trace import Trace
from overlane_collect.schema import ENGINES

__all__ = ["COMPUTE", "COPIES", "Mask", "Work", "text_codes"]

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
COMPUTE = ENGINES.index("compute")
COPIES = tuple(code for code, name in enumerate(ENGINES) if name.startswith("copy_"))
_NULL = -(1 << 31)  # below every id; ids of 32 bits cannot hold less


def text_codes(column: pa.ChunkedArray) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Return the code of each row of a text column, -1 for null, and the words that the codes stand for."""
    if not column.num_chunks:
        return np.zeros(0, np.int32), []
    column = column.unify_dictionaries()
    codes = pa.chunked_array([chunk.indices for chunk in column.chunks])
    return numbers(codes, null=-1), column.chunk(0).dictionary.to_pylist()


@dataclass(frozen=True)
class Work:
    """The operations of a trace.

    Attributes:
        trace: The trace.
    """

    trace: Trace

    def __len__(self) -> int:
        """Return the number of operations."""
        return int(self.trace.table("ops").num_rows)

    def ids(self, column: str) -> np.ndarray[Any, Any]:
        """Return a column of ids or counts, null as the least number of 32 bits."""
        return numbers(self.trace.table("ops")[column], null=_NULL)

    def is_known(self, column: str) -> Mask:
        """Tell where a column of ids or counts is not null."""
        return np.asarray(self.ids(column) != _NULL)

    @cached_property
    def start(self) -> Times:
        """First nanosecond of each operation."""
        return numbers(self.trace.table("ops")["start_ns"])

    @cached_property
    def end(self) -> Times:
        """First nanosecond after each; unfinished ones run to the trace's last stamp."""
        column = self.trace.table("ops")["end_ns"]
        end = numbers(column, null=_NULL)
        return (
            close_unfinished(self.start, end, end == _NULL, self.trace.span_ns) if column.null_count else end
        )

    @cached_property
    def engine(self) -> np.ndarray[Any, Any]:
        """Place of each operation's engine in `ENGINES`, -1 where the source does not say."""
        codes, names = text_codes(self.trace.table("ops")["engine"])
        return np.asarray(np.array([*(ENGINES.index(name) for name in names), -1], np.int8)[codes])

    @cached_property
    def is_kernel(self) -> Mask:
        """Whether it computes."""
        return np.asarray(self.engine == COMPUTE)

    @cached_property
    def is_copy(self) -> Mask:
        """Whether it copies."""
        return np.isin(self.engine, COPIES)

    @cached_property
    def names(self) -> tuple[np.ndarray[Any, Any], list[str]]:
        """Code of each operation's name, and the names."""
        return text_codes(self.trace.table("ops")["name"])

    @cached_property
    def device(self) -> tuple[np.ndarray[Any, Any], list[tuple[int | None, int | None]]]:
        """Code of each operation's device, and rank and device id of each code."""
        pairs = np.stack([self.ids("rank").astype(np.int64), self.ids("device_id").astype(np.int64)])
        found, codes = np.unique(pairs, axis=1, return_inverse=True)
        known = [tuple(None if value == _NULL else int(value) for value in pair) for pair in found.T]
        return codes.reshape(-1), [(pair[0], pair[1]) for pair in known]

    @cached_property
    def stream(self) -> tuple[np.ndarray[Any, Any], list[tuple[int | None, ...]]]:
        """Code of each operation's stream, and rank, device, context and stream id of each code."""
        columns = [
            self.ids(name).astype(np.int64) for name in ("rank", "device_id", "context_id", "stream_id")
        ]
        found, codes = np.unique(np.stack(columns), axis=1, return_inverse=True)
        known = [tuple(None if value == _NULL else int(value) for value in row) for row in found.T]
        return codes.reshape(-1), known

    @cached_property
    def window(self) -> tuple[int, int]:
        """From the first start to the last end; (0, 0) without operations."""
        return (int(self.start.min()), int(self.end.max())) if len(self) else (0, 0)
