"""Why operations waited and streams were idle, as intervals on the lanes of a timeline.

The overlay has three kinds of lanes beside one another, so that a client knows their numbers: with n lanes
of the timeline and w wire lanes, waits are lanes `0..n`, gaps `n..2n`, and operations by their main cause
`2n..2n+w`. The critical path is an overlay of its own with the lanes `0..n`, since it depends on a window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from overlane.timeline.columns import factorize, of_rank
from overlane.timeline.index import Layer
from overlane.timeline.timeline import Timeline
from overlane.trace import Trace

__all__ = [
    "NO_WAIT",
    "by_cause_layer",
    "gap_layer",
    "lanes_of_rows",
    "main_causes",
    "path_layer",
    "wait_layer",
]

Array = npt.NDArray[Any]

NO_WAIT = 31
"""Category of an operation that did not wait or whose wait is not known; causes have lower codes."""


def lanes_of_rows(trace: Trace, timeline: Timeline, rank: int | None, table: str) -> Array:
    """Return the lane that each row of `ops` or `api_calls` is drawn on, int32 (rows,), -1 for none.

    Args:
        trace: The timeline's trace.
        timeline: One rank of it.
        rank: That rank.
        table: Which rows.
    """
    layer, columns = {
        "ops": ("streams", ("device_id", "context_id", "stream_id")),
        "api_calls": ("calls", ("process_id", "thread_id")),
    }[table]
    values = trace.table(table)
    codes, keys = factorize(values, columns)
    number = np.array([timeline.lane_number(layer, key) for key in keys] or [-1], np.int32)
    lanes = number[codes] if values.num_rows else np.zeros(0, np.int32)
    chosen = of_rank(trace, rank, values["rank"])
    if chosen is not None:
        lanes = np.where(chosen, lanes, np.int32(-1))
    return lanes


def _sorted(name: str, columns: tuple[Array, ...]) -> Layer:
    """Return a layer of the intervals that have a length and a lane, in order of start.

    Args:
        name: What the layer is called.
        columns: lane, start_ns, end_ns, category and row, each (n,).
    """
    lane, start, end, category, row = columns
    kept = np.flatnonzero((end > start) & (lane >= 0))
    order = kept[np.argsort(start[kept], kind="stable")]
    return Layer(
        name, lane[order].astype(np.int32), start[order].astype(np.int64), end[order].astype(np.int64),
        category[order].astype(np.uint8), row[order].astype(np.int64),
    )  # fmt: skip


def wait_layer(
    parts: tuple[Array, Array, Array, Array], op_start: Array, op_lane: Array, *, first_lane: int = 0
) -> Layer:
    """Return the waits of each stream as one row: at any time that of the next operation to start.

    Operations of a stream wait behind one another, issued in the order of their starts; drawn whole they
    would cover each other. So each one's wait is shown from the start of the operation before it.

    Args:
        parts: op, start_ns, end_ns and cause of the parts of all waits, each (n,).
        op_start: int64 (ops,), start of each operation.
        op_lane: int32 (ops,), its lane, -1 for none.
        first_lane: Number of the first lane.
    """
    op, start, end, cause = parts
    before = _start_before(op_start, op_lane)
    lane = np.where(op_lane[op] >= 0, op_lane[op] + first_lane, -1)
    return _sorted("waits", (lane, np.maximum(start, before[op]), np.minimum(end, op_start[op]), cause, op))


def _start_before(op_start: Array, op_lane: Array) -> Array:
    """Return the start of the operation before each on its lane, the least number for the first ones."""
    order = np.lexsort((np.arange(len(op_start)), op_start, op_lane))
    before = np.full(len(op_start), np.iinfo(np.int64).min, np.int64)
    follows = np.flatnonzero(op_lane[order[1:]] == op_lane[order[:-1]])
    before[order[follows + 1]] = op_start[order[follows]]
    return before


def gap_layer(parts: tuple[Array, Array, Array, Array], op_lane: Array, *, first_lane: int) -> Layer:
    """Return the parts of the gaps of streams, each on the lane of the operation after its gap.

    Args:
        parts: next operation (-1 for none), start_ns, end_ns and cause, each (n,).
        op_lane: int32 (ops,), lane of each operation, -1 for none.
        first_lane: Number of the first lane.
    """
    next_op, start, end, cause = parts
    known = next_op >= 0
    lane = np.full(len(next_op), -1, np.int64)
    lane[known] = op_lane[next_op[known]]
    lane[lane >= 0] += first_lane
    return _sorted("gaps", (lane, start, end, cause, np.maximum(next_op, 0)))


def path_layer(links: tuple[Array, Array, Array, Array], op_lane: Array, call_lane: Array) -> Layer:
    """Return the links of the critical path, each on the lane of its operation or host call.

    Args:
        links: op (-1 for a call), call (-1 for an operation), start_ns and end_ns, each (n,).
        op_lane: int32 (ops,), lane of each operation, -1 for none.
        call_lane: int32 (calls,), lane of each host call, -1 for none.
    """
    op, call, start, end = links
    lane = np.full(len(op), -1, np.int64)
    lane[op >= 0] = op_lane[op[op >= 0]]
    is_call = (op < 0) & (call >= 0)
    lane[is_call] = call_lane[call[is_call]]
    row = np.where(op >= 0, op, np.maximum(call, 0))
    return _sorted("path", (lane, start, end, np.zeros(len(op), np.uint8), row))


def main_causes(parts: tuple[Array, Array, Array, Array], ops: int) -> Array:
    """Return the cause of the longest part of each operation's wait, uint8 (ops,), `NO_WAIT` for none.

    Args:
        parts: op, start_ns, end_ns and cause of the parts of all waits, each (n,).
        ops: Number of operations.
    """
    op, start, end, cause = parts
    result = np.full(ops, NO_WAIT, np.uint8)
    kept = np.flatnonzero(end > start)
    # At equal lengths the cause that stands first in the list wins, so it is written last.
    order = kept[np.lexsort((-cause[kept].astype(np.int64), (end - start)[kept]))]
    result[op[order]] = cause[order]
    return result


def by_cause_layer(timeline: Timeline, cause_of_op: Array, *, first_lane: int) -> Layer:
    """Return the operations of all stream lanes with their main cause as category.

    Args:
        timeline: The timeline under the overlay.
        cause_of_op: uint8 (ops,), as of `main_causes`.
        first_lane: Number of the lane for the timeline's first wire lane.
    """
    lanes, starts, ends, rows = [], [], [], []
    for wire, lane in enumerate(timeline.lane_of_wires()):
        if lane["table"] != "ops" or lane["is_union"]:
            continue
        start, end, _, row = timeline.stored(wire)
        lanes.append(np.full(len(start), first_lane + wire, np.int32))
        starts.append(start)
        ends.append(end)
        rows.append(row)
    if not lanes:
        nothing = np.zeros(0, np.int64)
        return Layer(
            "by cause", nothing.astype(np.int32), nothing, nothing, nothing.astype(np.uint8), nothing
        )
    row = np.concatenate(rows)
    return Layer(
        "by cause", np.concatenate(lanes), np.concatenate(starts), np.concatenate(ends), cause_of_op[row], row
    )
