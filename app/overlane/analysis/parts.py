"""Waits and idle time as one kind of columns: stretches of time with one cause each, cut to a window."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from overlane.analysis.causes import code_of
from overlane.analysis.work import Mask
from overlane.intervals import Times, union_length

__all__ = ["Parts"]


@dataclass(frozen=True)
class Parts:
    """Stretches of time with one cause each.

    Attributes:
        start_ns: int64, shape (parts,).
        end_ns: int64, shape (parts,).
        cause: Place of the cause in `CAUSES`.
        op: The operation that waited, or that came after the gap; -1 for none.
        owner: Number of the stream, partition or device that was idle; for waits of the stream.
        device: Number of the device as in `Work.device`, -1 for none.
        proof_table: Place in `proof_tables` of the table of the row that proves it.
        proof_row: Its row id, -1 for none.
        call_row: The host call during which the gap passed, -1 for none.
        range_row: The range in which the host was, -1 for none.
        is_below_fit_error: It compares two clocks closer than they are known to agree.
        proof_tables: Table names.
    """

    start_ns: Times
    end_ns: Times
    cause: np.ndarray[Any, Any]
    op: np.ndarray[Any, Any]
    owner: np.ndarray[Any, Any]
    device: np.ndarray[Any, Any]
    proof_table: np.ndarray[Any, Any]
    proof_row: np.ndarray[Any, Any]
    call_row: np.ndarray[Any, Any]
    range_row: np.ndarray[Any, Any]
    is_below_fit_error: Mask
    proof_tables: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.start_ns)

    @property
    def length_ns(self) -> Times:
        """How long each part is."""
        return self.end_ns - self.start_ns

    def of(self, *causes: str) -> Mask:
        """Tell which parts have one of these causes."""
        return np.isin(self.cause, [code_of(name) for name in causes])

    def proven_by(self, table: str, rows: np.ndarray[Any, Any]) -> Mask:
        """Tell which parts are proven by one of these rows of a table."""
        code = self.proof_tables.index(table)
        return np.asarray((self.proof_table == code) & np.isin(self.proof_row, rows))

    def during(self, calls: np.ndarray[Any, Any]) -> Mask:
        """Tell which parts passed during one of these host calls, or are proven by one."""
        return np.asarray(np.isin(self.call_row, calls) | self.proven_by("api_calls", calls))

    def proving_calls(self) -> np.ndarray[Any, Any]:
        """Return the host calls that prove parts, or during which they passed."""
        proven = self.proof_row[self.proof_table == self.proof_tables.index("api_calls")]
        calls = np.unique(np.concatenate([proven, self.call_row]))
        return np.asarray(calls[calls >= 0])

    def union_ns(self, which: np.ndarray[Any, Any]) -> int:
        """Return the length of the union of some parts."""
        return union_length((self.start_ns[which], self.end_ns[which]))

    def proof(self, part: int) -> tuple[str | None, int | None]:
        """Return table and row id of the row that proves a part, None where there is none."""
        table, row = self.proof_tables[int(self.proof_table[part])], int(self.proof_row[part])
        return (table, row) if table and row >= 0 else (None, None)

    def take(self, which: np.ndarray[Any, Any]) -> Parts:
        """Return some of the parts."""
        columns = {
            field.name: getattr(self, field.name)[which]
            for field in fields(self)
            if field.name != "proof_tables"
        }
        return replace(self, **columns)

    def within(self, window: tuple[int, int] | None) -> Parts:
        """Return the parts cut to a window, those without time in it left out."""
        if window is None:
            return self
        start, end = np.maximum(self.start_ns, window[0]), np.minimum(self.end_ns, window[1])
        cut = replace(self, start_ns=start, end_ns=end)
        return cut.take(np.flatnonzero(start < end))
