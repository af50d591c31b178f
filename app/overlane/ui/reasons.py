"""Why operations waited and streams were idle, ready to be drawn: computed in the background, once per trace.

A page asks again until it is there; nothing waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlane.analysis.causes import CAUSES, code_of
from overlane.ui.rows import row_title

if TYPE_CHECKING:
    from overlane.analysis.barriers import Barriers
    from overlane.analysis.dependencies import Dependencies, Edge
    from overlane.analysis.idle import Idle
    from overlane.analysis.study import Study
    from overlane.analysis.waits import Waits
    from overlane.cache import OpenedTrace
    from overlane.timeline import Timeline
    from overlane.trace import Trace
    from overlane.ui.studies import Studies

__all__ = ["Reasons", "ReasonsStore", "barriers_json", "kept_version", "op_json", "reasons_json"]

Array = npt.NDArray[Any]

VERSION = 1
"""Changes with what the overlay of waits and gaps holds."""
EDGES_SHOWN = 16
"""Dependencies of one operation that are drawn; thousands can wait for one."""
OPS_NAMED = 6
"""Held operations of a barrier that are named."""

TITLES = {
    "legacy_default_stream": "legacy default stream",
    "event_wait": "event wait",
    "event_sync": "event synchronization",
    "stream_sync": "stream synchronization",
    "context_sync": "context synchronization",
    "device_sync": "device synchronization",
    "implicit_sync": "implicit synchronization",
    "allocation": "allocation",
    "module_load": "module load",
    "blocking_copy": "blocking copy",
}
"""Kind of a barrier to words for it."""


@dataclass(frozen=True)
class Reasons:
    """The causes of one rank of a trace.

    Attributes:
        trace: The trace.
        dependencies: What every operation depends on.
        waits: Why operations waited.
        idle: Why streams were idle.
        barriers: What held several streams.
        timeline: The timeline that they are drawn over.
        overlay: Waits, gaps and operations by cause, on numbered lanes.
        op_lane: int32 (ops,), lane of each operation, -1 for none.
        lane_ids: Id of each lane.
        lane_of_stream: Number of a stream in the analyses to its lane, -1 for none: int32.
    """

    trace: Trace
    dependencies: Dependencies
    waits: Waits
    idle: Idle
    barriers: Barriers
    timeline: Timeline
    overlay: Timeline
    op_lane: Array
    lane_ids: list[str]
    lane_of_stream: Array


def compute(opened: OpenedTrace, rank: int | None, study: Study) -> Reasons:
    """Compute the causes of one rank: seconds for a million operations, once per file, then kept.

    Args:
        opened: The trace.
        rank: Rank whose lanes are drawn.
        study: The study of the whole trace.
    """
    from overlane.timeline.reasons import lanes_of_rows  # noqa: PLC0415 - loads compiled code

    trace, timeline = opened.trace, opened.timeline(rank)
    deps = study.dependencies
    op_lane = lanes_of_rows(trace, timeline, rank, "ops")
    lane_of_stream = np.full(len(deps.streams) + 1, -1, np.int32)
    lane_of_stream[deps.stream_key] = op_lane
    return Reasons(
        trace=trace,
        dependencies=deps,
        waits=study.waits,
        idle=study.idle,
        barriers=study.barriers,
        timeline=timeline,
        overlay=_overlay(opened, rank, study, op_lane),
        op_lane=op_lane,
        lane_ids=[lane["id"] for lane in timeline.meta()["lanes"]],
        lane_of_stream=lane_of_stream,
    )


def kept_version(own: int) -> int:
    """Return the version of what is kept and made from the analyses; it rises with each of theirs."""
    from overlane.analysis.study import VERSIONS  # noqa: PLC0415 - loads compiled code

    return own + sum(version for version, _ in VERSIONS.values())


def _overlay(opened: OpenedTrace, rank: int | None, study: Study, op_lane: Array) -> Timeline:
    """Return waits, gaps and operations by cause, as they are kept with the trace."""
    from overlane.timeline.overlay import open_overlay  # noqa: PLC0415 - loads compiled code

    build = partial(_overlay_arrays, opened, rank, study, op_lane)
    arrays = opened.arrays(f"reasons of rank {rank}", kept_version(VERSION), build)
    return open_overlay(opened.trace, rank, arrays)


def _overlay_arrays(opened: OpenedTrace, rank: int | None, study: Study, op_lane: Array) -> dict[str, Array]:
    from overlane.timeline.overlay import overlay_arrays  # noqa: PLC0415 - loads compiled code
    from overlane.timeline.reasons import (  # noqa: PLC0415
        by_cause_layer,
        gap_layer,
        main_causes,
        wait_layer,
    )

    trace, timeline = opened.trace, opened.timeline(rank)
    lanes = len(timeline.meta()["lanes"])
    waits = study.waits
    parts = (waits.op, waits.start_ns, waits.end_ns, waits.cause)
    starts = trace.column("ops", "start_ns")
    layers = [
        wait_layer(parts, starts, op_lane),
        gap_layer(gaps_of_streams(study.idle), op_lane, first_lane=lanes),
        by_cause_layer(timeline, main_causes(parts, len(starts)), first_lane=2 * lanes),
    ]
    return overlay_arrays(trace, rank, layers, ["ops"] * (2 * lanes + timeline.wire_lanes))


def gaps_of_streams(idle: Idle) -> tuple[Array, Array, Array, Array]:
    """Return next operation, start, end and cause of the parts of the gaps of all streams."""
    from overlane.analysis.idle import SCOPES  # noqa: PLC0415 - loads compiled code

    of = idle.scope[idle.gap] == SCOPES.index("stream")
    return idle.next_op[idle.gap][of], idle.part_start_ns[of], idle.part_end_ns[of], idle.cause[of]


class ReasonsStore:
    """The causes of the traces that were asked for last; safe to use from several threads.

    Args:
        studies: The studies that they are made from.
    """

    def __init__(self, studies: Studies) -> None:
        self._studies = studies

    def get(self, opened: OpenedTrace, rank: int | None) -> Reasons | None:
        """Return the causes of one rank, None while they are computed in the background.

        Raises:
            OverlaneError: They could not be computed.
        """
        build = partial(compute, opened, rank)
        return self._studies.answer(opened, None, f"causes of rank {rank}", build, wait_s=0)


def ops_of_causes(reasons: Reasons, names: tuple[str, ...]) -> Array:
    """Return which operations waited for one of some causes: bool (ops,)."""
    waits = reasons.waits
    mask = np.zeros(len(waits.wait_ns), bool)
    is_one = np.isin(waits.cause, [code_of(name) for name in names]) & (waits.end_ns > waits.start_ns)
    mask[waits.op[is_one]] = True
    return mask


def idle_of_devices(reasons: Reasons, start_ns: int, end_ns: int) -> dict[tuple[Any, Any], dict[str, int]]:
    """Return the idle time of each device in a range by cause, in ns, the largest first.

    Gaps between operations are cut to the range; what lies before the first or after the last operation of
    the trace is no gap.

    Args:
        reasons: The causes.
        start_ns: Start of the range.
        end_ns: End of the range.

    Returns:
        Rank and device id to the name of each cause that has time to its ns.
    """
    from overlane.analysis.idle import SCOPES  # noqa: PLC0415 - loads compiled code

    idle = reasons.idle
    of = np.flatnonzero(idle.scope[idle.gap] == SCOPES.index("device"))
    length = np.minimum(idle.part_end_ns[of], end_ns) - np.maximum(idle.part_start_ns[of], start_ns)
    sums = np.zeros((len(idle.devices), len(CAUSES)), np.int64)
    np.add.at(sums, (idle.owner[idle.gap[of]], idle.cause[of]), np.maximum(length, 0))
    found = {}
    for device, row in zip(idle.devices, sums, strict=True):
        order = np.argsort(-row, kind="stable")
        found[device] = {CAUSES[code].name: int(row[code]) for code in order.tolist() if row[code]}
    return found


# ---------------------------------------------------------------------- as JSON


def reasons_json(reasons: Reasons) -> dict[str, Any]:
    """Return what a client needs before it draws causes: their names and what the trace cannot prove."""
    return {
        "schema": 1,
        "state": "ready",
        "causes": [
            {"name": cause.name, "title": cause.title, "sentence": cause.sentence} for cause in CAUSES
        ],
        "missing": missing(reasons),
    }


def missing(reasons: Reasons) -> list[str]:
    """Return sentences for what this trace cannot tell, and how to record it."""
    waits = reasons.waits
    found = []
    unknown = int((waits.wait_ns < 0).sum())
    if unknown and unknown == len(waits.wait_ns):
        found.append(
            "No operation says when it was issued, so no wait is drawn: record host calls together with the "
            "device's work."
        )
    elif unknown:
        found.append(f"{unknown} operations do not say when they were issued; they have no wait.")
    return found


def op_json(reasons: Reasons, op: int) -> dict[str, Any]:
    """Return the wait of one operation in parts, what it waited for, and what waited for it.

    Raises:
        IndexError: There is no such operation.
    """
    trace = reasons.trace
    if not 0 <= op < trace.table("ops").num_rows:
        raise IndexError(f"there is no operation {op}; the trace has {trace.table('ops').num_rows}")
    before = sorted(reasons.dependencies.of(op), key=lambda edge: -(edge.end_ns or 0))
    after = reasons.dependencies.successors(op)
    issued = int(reasons.dependencies.issued_ns[op])
    return {
        "schema": 1,
        "op": op,
        "issued_ns": None if issued < 0 else issued,
        "parts": parts_json(reasons, op),
        "waited_for": [edge_json(reasons, edge, edge.source) for edge in before[:EDGES_SHOWN]],
        "waited_for_count": len(before),
        "waiting": [edge_json(reasons, edge, edge.op) for edge in after[:EDGES_SHOWN]],
        "waiting_count": len(after),
    }


def parts_json(reasons: Reasons, op: int) -> list[dict[str, Any]]:
    """Return the parts of one operation's wait in order of time."""
    from overlane.analysis.dependencies import PROOF_TABLES  # noqa: PLC0415 - loads compiled code

    waits = reasons.waits
    low, high = (int(v) for v in np.searchsorted(waits.op, [op, op + 1]))
    found = []
    for at in range(low, high):
        bits = int(waits.also_open[at])
        cause = int(waits.cause[at])
        table, row = PROOF_TABLES[waits.proof_table[at]], int(waits.proof_row[at])
        found.append({
            "start_ns": int(waits.start_ns[at]),
            "end_ns": int(waits.end_ns[at]),
            "cause": cause,
            "name": CAUSES[cause].name,
            "title": CAUSES[cause].title,
            "proof_table": table if row >= 0 else None,
            "proof_row": row if row >= 0 else None,
            "also_open": [other.title for code, other in enumerate(CAUSES) if bits >> code & 1],
            "is_below_fit_error": bool(waits.is_below_fit_error[at]),
        })  # fmt: skip
    return found


def edge_json(reasons: Reasons, edge: Edge, other: int | None) -> dict[str, Any]:
    """Return one dependency with the operation at its other end, None where that is a host call."""
    found: dict[str, Any] = {
        "op": other,
        "kind": edge.kind,
        "certainty": edge.certainty,
        "proof_table": edge.proof_table or None,
        "proof_row": edge.proof_row if edge.proof_row >= 0 else None,
        "name": "",
        "lane": None,
        "start_ns": None,
        "end_ns": edge.end_ns,
    }
    if other is None:
        return found
    place = reasons.timeline.locate("ops", other)
    if place is not None:
        found["lane"], found["start_ns"], found["end_ns"] = place
    found["name"] = reasons.timeline.word("ops", other) or row_title("ops", other)
    return found


def barriers_json(reasons: Reasons, t0_ns: int, t1_ns: int, *, limit: int) -> dict[str, Any]:
    """Return the costliest barriers that held a stream in a window.

    Args:
        reasons: The causes.
        t0_ns: Start of the window.
        t1_ns: End of the window.
        limit: Most barriers to return.
    """
    barriers = reasons.barriers
    held = np.diff(barriers.stream_begins) > 0
    places = np.flatnonzero(held & (barriers.start_ns < t1_ns) & (barriers.end_ns > t0_ns))
    found = [barrier_json(reasons, int(place)) for place in places[:limit]]
    return {
        "schema": 1,
        "total": len(places),
        "barriers": [barrier for barrier in found if barrier["lanes"]],
    }


def barrier_json(reasons: Reasons, place: int) -> dict[str, Any]:
    """Return one barrier: what it is, what it held, and on which lanes.

    Args:
        reasons: The causes.
        place: Its rank by cost, 0 is the costliest.
    """
    barrier = reasons.barriers[place]
    lanes = reasons.lane_of_stream[list(barrier.streams_held)]
    timeline = reasons.timeline
    ops = [
        {"row": int(op), "name": timeline.word("ops", int(op)) or ""} for op in barrier.ops_held[:OPS_NAMED]
    ]
    name = timeline.word(barrier.proof_table, barrier.proof_row)
    return {
        "rank": place,
        "kind": barrier.kind,
        "title": TITLES[barrier.kind],
        "start_ns": barrier.start_ns,
        "end_ns": barrier.end_ns,
        "lost_ns": barrier.lost_ns,
        "lanes": [reasons.lane_ids[lane] for lane in lanes.tolist() if lane >= 0],
        "streams_held": len(barrier.streams_held),
        "ops_held": len(barrier.ops_held),
        "ops": ops,
        "proof_table": barrier.proof_table,
        "proof_row": barrier.proof_row,
        "proof": " ".join(filter(None, [row_title(barrier.proof_table, barrier.proof_row), name])),
        "critical_ns": barrier.critical_ns,
    }
