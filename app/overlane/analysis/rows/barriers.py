"""Barriers as rows: each with what it held, and sums by kind."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from overlane.analysis.rows.naming import Rows

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["barrier_rows", "barrier_sums"]


def barrier_rows(study: Study, *, most: int | None = None) -> Rows:
    """Return the barriers, the costliest first.

    Args:
        study: The analyses.
        most: Only so many, None for all.
    """
    found = study.barriers
    rows = []
    for place in range(len(found) if most is None else min(len(found), most)):
        row = dataclasses.asdict(found[place])
        streams = [study.stream(number) for number in row["streams_held"]]
        row["streams_held"] = [stream["stream_id"] for stream in streams]
        row["stream_rows"] = [stream["stream_row"] for stream in streams]
        row["ops_held"] = list(row["ops_held"])
        rows.append(row)
    return rows


def barrier_sums(study: Study) -> Rows:
    """Return what barriers cost by kind, the costliest first, those without cost left out."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    from overlane.analysis.barriers import BARRIER_KINDS  # noqa: PLC0415

    found = study.barriers
    is_costly = found.lost_ns > 0
    total = int(found.lost_ns.sum())
    kind_of_op = np.repeat(found.kind, np.diff(found.op_begins))
    is_held = np.repeat(is_costly, np.diff(found.op_begins))
    rows = []
    for kind in np.unique(found.kind[is_costly]).tolist():
        lost = int(found.lost_ns[found.kind == kind].sum())
        rows.append(
            {
                "kind": BARRIER_KINDS[kind],
                "count": int((is_costly & (found.kind == kind)).sum()),
                "lost_ns": lost,
                "fraction": lost / total,
                "op_count": len(np.unique(found.ops_held[is_held & (kind_of_op == kind)])),
            }
        )
    return sorted(rows, key=lambda row: -row["lost_ns"])
