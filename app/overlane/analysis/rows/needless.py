"""Waits that guarantee nothing as rows, with what each cost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Row, Rows, op_name

if TYPE_CHECKING:
    from overlane.analysis.study import Study
    from overlane.trace import Trace

__all__ = ["held_by_syncs", "redundant_counts", "redundant_rows", "redundant_words"]


def redundant_rows(study: Study) -> Rows:
    """Return the redundant waits whose call touches the window, in host order."""
    found, table = study.redundant_waits, study.trace.table("syncs")
    low, high = study.window or (0, study.trace.span_ns + 1)
    held = held_by_syncs(study) if len(found) else {}
    rows = []
    for place in range(len(found)):
        row = found.row(place)
        start, end, thread, stream = (
            table[name][row.sync_id].as_py() for name in ("start_ns", "end_ns", "thread_id", "stream_id")
        )
        if start < high and (end is None or end > low):
            rows.append(
                dataclasses.asdict(row)
                | {"start_ns": start, "end_ns": end, "held_ns": held.get(row.sync_id, 0)}
                | {"thread_id": thread, "stream_id": stream}
            )
    return rows


def redundant_words(trace: Trace, row: Row) -> Row:
    """Return a redundant wait as report and page show it: what it waits for, and what had told of that."""
    known = f"{row['known_table']} {row['known_row']}" if row["known_table"] else "its stream's order"
    return {
        "wait": f"{row['kind'].replace('_', ' ')} ({row['sync_id']})",
        "certainty": row["certainty"],
        "op": op_name(trace, row["op_id"]),
        "known": known,
        "call_ns": None if row["end_ns"] is None else row["end_ns"] - row["start_ns"],
    }


def held_by_syncs(study: Study) -> dict[int, int]:
    """Return what each row of `syncs` that is a barrier cost."""
    from overlane.analysis.dependencies import PROOF_TABLES  # noqa: PLC0415 - help must answer without it

    found, syncs = study.barriers, PROOF_TABLES.index("syncs")
    columns = found.proof_table.tolist(), found.proof_row.tolist(), found.lost_ns.tolist()
    return {row: lost for table, row, lost in zip(*columns, strict=True) if table == syncs}


def redundant_counts(study: Study) -> dict[str, Any]:
    """Return how many redundant waits are not listed, and of how many waits that cannot be told."""
    from overlane.analysis.redundant_waits import WAIT_KINDS  # noqa: PLC0415

    found = study.redundant_waits
    kinds = study.trace.table("syncs")["sync_kind"].to_pylist()
    waits = sum(kind in WAIT_KINDS for kind in kinds)
    return {
        "redundant_waits_left_out": found.left_out_count,
        "redundant_waits_unchecked": waits - int(found.is_checked.sum()),
    }
