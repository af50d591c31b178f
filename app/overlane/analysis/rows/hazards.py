"""Hazards as rows, how many conflicts are not among them, and what ran around the two sides of one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Row, Rows, stream_name

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["hazard_counts", "hazard_rows", "hazard_sides"]

_MOST_NEIGHBOURS = 40
_ROOM_FRACTION = 0.15
_LEAST_ROOM_NS = 2_000


def hazard_rows(study: Study) -> Rows:
    """Return the hazards with an operation in the window, those that need their own fix first."""
    found = study.hazards
    return [{"hazard_id": int(at)} | dataclasses.asdict(found.row(int(at))) for at in study.hazard_places]


def hazard_counts(study: Study) -> dict[str, Any]:
    """Return how many conflicts are not listed, and how many accesses could not be checked."""
    found = study.hazards
    return {"hazards_left_out": found.left_out_count, "accesses_unchecked": found.unchecked_count}


def hazard_sides(study: Study, row: Row) -> dict[str, Any]:
    """Return what is needed to draw a hazard: its two sides, the missing edge, and what ran around them.

    Args:
        study: The analyses.
        row: A row of `hazard_rows`.

    Returns:
        `first` and `second`, and `missing_from` and `missing_to`, None where the edge is not between
        operations: each with `lane`, `name`, `start_ns`, `end_ns`, `engine` and `op_id`. `around`: such rows
        of the same streams.
    """
    first = _side(study, row["first_op_id"], row["first_table"], row["first_row"])
    second = _side(study, row["second_op_id"], row["second_table"], row["second_row"])
    edge = [None if op is None else _operation(study, op) for op in (row["missing_from"], row["missing_to"])]
    sides = [first, second, *(one for one in edge if one)]
    return {
        "first": first,
        "second": second,
        "missing_from": edge[0],
        "missing_to": edge[1],
        "around": _around(study, sides),
    }


def _side(study: Study, op_id: int | None, table: str, number: int) -> Row:
    if op_id is not None:
        return _operation(study, op_id)
    values = study.trace.row(table, number)
    at = int(values["at_ns"] or 0)
    thread = values.get("thread_id")
    if table == "allocations":
        lane, name = "allocations", "free"
    else:
        lane, name = "host" if thread is None else f"host thread {thread}", f"host {values['mode']}"
    return {"lane": lane, "name": name, "start_ns": at, "end_ns": at, "engine": None, "op_id": None}


def _operation(study: Study, op: int) -> Row:
    values = study.trace.row("ops", op)
    return {
        "lane": stream_name(study.trace, study.stream(int(study.dependencies.stream_key[op]))),
        "name": values["name"] or "operation",
        "start_ns": int(study.work.start[op]),
        "end_ns": int(study.work.end[op]),
        "engine": values["engine"],
        "op_id": op,
    }


def _around(study: Study, sides: Rows) -> Rows:
    """Return other operations of the same streams, those next to the sides first."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    ops = [side["op_id"] for side in sides if side["op_id"] is not None]
    if not ops:
        return []
    low, high = min(side["start_ns"] for side in sides), max(side["end_ns"] for side in sides)
    room = max(int((high - low) * _ROOM_FRACTION), _LEAST_ROOM_NS)
    start, end = study.work.start, study.work.end
    keys = study.dependencies.stream_key
    is_near = np.isin(keys, keys[ops]) & (start < high + room) & (end > low - room)
    is_near[ops] = False
    found = np.flatnonzero(is_near)
    away = np.minimum.reduce([np.abs(start[found] - start[op]) for op in ops])
    nearest = found[np.argsort(away, kind="stable")[:_MOST_NEIGHBOURS]]
    return [_operation(study, int(op)) for op in np.sort(nearest)]
