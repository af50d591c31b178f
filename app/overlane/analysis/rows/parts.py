"""Groups of parts of waits and gaps, and the longest part of one as evidence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Row

if TYPE_CHECKING:
    import numpy as np

    from overlane.analysis.parts import Parts

__all__ = ["groups", "longest_part"]


def groups(codes: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the places of each code, in the order of the codes."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    order = np.argsort(codes, kind="stable")
    yield from (rows for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(rows))


def longest_part(parts: Parts, which: np.ndarray[Any, Any]) -> Row:
    """Return the longest of some parts with the rows that prove it."""
    part = int(which[parts.length_ns[which].argmax()])
    table, row = parts.proof(part)
    return {
        "start_ns": int(parts.start_ns[part]),
        "end_ns": int(parts.end_ns[part]),
        "op_id": _known(parts.op[part]),
        "proof_table": table,
        "proof_row": row,
        "call_id": _known(parts.call_row[part]),
        "range_id": _known(parts.range_row[part]),
    }


def _known(row: Any) -> int | None:
    return None if row < 0 else int(row)
