"""Hold what the analyses found in a simulated trace against the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from overlane.analysis.causes import CAUSE_NAMES
from overlane.analysis.dependencies import Dependencies
from overlane.analysis.hazards import Hazards
from overlane.analysis.idle import SCOPES, Idle
from overlane.analysis.order import CERTAIN, Order
from overlane.analysis.waits import Waits
from overlane.simulate.running import Simulated
from overlane.simulate.scoring import Stretch, stretches

__all__ = ["judge_hazards", "judge_idle", "judge_order", "judge_waits"]

_TURNED = {"RAW": "WAR", "WAR": "RAW", "WAW": "WAW"}


def judge_waits(simulated: Simulated, waits: Waits) -> list[Stretch]:
    """Return the waits cut where the truth or the analysis cuts them; the subject is the operation."""
    true = [(p.op_id, p.start_ns, p.end_ns, p.cause, p.may_be) for p in simulated.truth.waits]
    columns = (waits.op, waits.start_ns, waits.end_ns, waits.cause)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return stretches(true, [(op, start, end, CAUSE_NAMES[cause]) for op, start, end, cause in rows])


def judge_idle(simulated: Simulated, deps: Dependencies, idle: Idle) -> list[Stretch]:
    """Return the gaps cut where the truth or the analysis cuts them; the subject is scope and owner."""
    true = [((p.scope, p.owner), p.start_ns, p.end_ns, p.cause, p.may_be) for p in simulated.truth.idle]
    found = []
    for k, gap in enumerate(idle.gap.tolist()):
        scope, place = SCOPES[idle.scope[gap]], int(idle.owner[gap])
        owner: Hashable = place
        if scope == "stream":
            owner = deps.streams[place].context_id, deps.streams[place].stream_id
        elif scope == "device":
            owner = idle.devices[place][1]
        start, end = int(idle.part_start_ns[k]), int(idle.part_end_ns[k])
        found.append(((scope, owner), start, end, CAUSE_NAMES[idle.cause[k]]))
    return stretches(true, found)


def judge_order(simulated: Simulated, order: Order) -> list[tuple[str, int, int]]:
    """Return the pairs of operations on which the analysis and the truth differ.

    Returns:
        `missing` (a documented rule that the rows show orders the pair, and it was not found), `wrong`
        (nothing orders it) or `unproven` (found as certain, although no documented rule orders it), with both
        operations.
    """
    count = len(simulated.operations)
    first, second = np.meshgrid(np.arange(count), np.arange(count), indexing="ij")
    truth, may_be = simulated.truth.happens_before, simulated.truth.may_happen_before
    found = np.asarray(order.before(first.ravel(), second.ravel())).reshape(count, count)
    certainty = np.asarray(order.certainty(first.ravel(), second.ravel())).reshape(count, count)
    differ = (
        ("missing", truth & ~found),
        ("wrong", found & ~(truth | may_be)),
        ("unproven", (certainty == CERTAIN) & ~truth),
    )
    return [
        (what, int(a), int(b))
        for what, mask in differ
        for a, b in zip(*np.nonzero(mask), strict=True)
    ]  # fmt: skip


def judge_hazards(simulated: Simulated, hazards: Hazards) -> list[tuple[str, str, int, int]]:
    """Return the hazards between operations on which the analysis and the truth differ.

    Returns:
        `missing` (no hazard of a pair was found), or `wrong` (a kind that the pair does not have, or a pair
        that is ordered), with the kind, and both operations in order of their rows.
    """
    found: dict[tuple[int, int], set[str]] = defaultdict(set)
    for place in range(len(hazards)):
        hazard = hazards.row(place)
        a, b = hazard.first_op_id, hazard.second_op_id
        if a is not None and b is not None and hazard.kind in _TURNED:
            found[min(a, b), max(a, b)].add(hazard.kind if a < b else _TURNED[hazard.kind])
    needed = {(h.first_op, h.second_op) for h in simulated.truth.certain_hazards}
    allowed: dict[tuple[int, int], set[str]] = defaultdict(set)
    for true in simulated.truth.hazards:
        allowed[true.first_op, true.second_op].add(true.kind)
    missing = [("missing", "", *pair) for pair in sorted(needed - set(found))]
    return missing + [
        ("wrong", kind, *pair)
        for pair, kinds in sorted(found.items())
        for kind in sorted(kinds - allowed[pair])
    ]
