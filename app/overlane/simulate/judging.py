"""Hold what the analyses found in a simulated trace against the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from overlane.analysis.causes import CAUSE_NAMES
from overlane.analysis.dependencies import Dependencies
from overlane.analysis.hazards import Hazards
from overlane.analysis.idle import SCOPES, Idle
from overlane.analysis.order import CERTAIN, Order
from overlane.analysis.waits import Waits
from overlane.simulate.calls import HOLDING
from overlane.simulate.commands import Operation
from overlane.simulate.program import Copy, Launch
from overlane.simulate.rows import FIRST_THREAD
from overlane.simulate.running import Simulated
from overlane.simulate.scoring import Stretch, stretches

__all__ = ["judge_also_open", "judge_hazards", "judge_idle", "judge_order", "judge_waits", "maker_of_access"]

_TURNED = {"RAW": "WAR", "WAR": "RAW", "WAW": "WAW", "use_after_free": "use_after_free"}


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


def judge_also_open(simulated: Simulated, waits: Waits) -> list[tuple[str, int, int, str]]:
    """Return the causes that are listed as also open and were not, or were and are not listed.

    Looked at are parts whose cause the rows determine.

    Returns:
        `wrong` or `missing`, the operation, the instant, and the cause.
    """
    true = defaultdict(list)
    for part in simulated.truth.waits:
        true[part.op_id].append(part)
    columns = (waits.op, waits.start_ns, waits.end_ns, waits.cause, waits.also_open)
    found = []
    for op, start, end, cause, bits in zip(*(column.tolist() for column in columns), strict=True):
        listed = {name for code, name in enumerate(CAUSE_NAMES) if bits >> code & 1}
        parts = [p for p in true[op] if p.start_ns < end and p.end_ns > start]
        if any(len(part.may_be) > 1 for part in parts):
            continue
        taken = set(_taken(simulated, simulated.operations[op], start, end)) if listed else set()
        for part in parts:
            at = max(start, part.start_ns)
            found += [("wrong", op, at, name) for name in sorted(listed - part.also_open - taken)]
            named = listed | {CAUSE_NAMES[cause]}
            found += [("missing", op, at, name) for name in sorted(part.also_needed - named)]
    return found


def _taken(simulated: Simulated, operation: Operation, start: int, end: int) -> Iterator[str]:
    """Yield what was taken of the device, or of the time, for one operation at some time of an interval."""
    work, machine = operation.work, simulated.machine
    beside = [
        o
        for o in simulated.operations
        if o is not operation and o.device_id == operation.device_id and o.start_ns < end and o.end_ns > start
    ]
    overheads = simulated.host.overheads
    for _, _, of_recording, low, high in overheads:  # rows of the host, which cover it
        if low < end and high > start:
            yield "profiler_overhead" if of_recording else "module_load"
    for call in simulated.host.calls:
        if call.name in HOLDING and call.start_ns < end and call.end_ns > start:
            yield call.holds
    if isinstance(work, Copy):
        if any(o.engine == operation.engine for o in beside):
            yield "copy_engine_busy"
        if operation.is_blocking and operation.call.start_ns < end and operation.call.end_ns > start:
            yield "blocking_copy"
    if not isinstance(work, Launch):
        return
    kernels = [o for o in beside if isinstance(o.work, Launch)]
    if any(o.family != operation.family for o in kernels):
        yield "context_switch"
    moments = [start, *(at for at, *_ in machine.admitted)]
    for other in (operation, *kernels):
        # A kernel with more blocks than fit counts as leaving no room until its end.
        low, high = (start, end) if other is operation else (other.start_ns, other.end_ns)
        if not all(machine.had_room(other, at) for at in moments if low <= at < high):
            yield "partition_busy"
            if any(o.priority < operation.priority for o in kernels):
                yield "priority"


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


def judge_hazards(simulated: Simulated, hazards: Hazards) -> list[tuple[Any, ...]]:
    """Return the hazards on which the analysis and the truth differ.

    Returns:
        `missing` (no hazard of a pair was found), or `wrong` (a kind that the pair does not have, or a pair
        that is ordered), with the kind, and who made both accesses.
    """
    found: dict[tuple[Any, Any], set[str]] = defaultdict(set)
    for place in range(len(hazards)):
        hazard = hazards.row(place)
        first = _maker(simulated, hazard.first_op_id, hazard.first_table, hazard.first_row)
        second = _maker(simulated, hazard.second_op_id, hazard.second_table, hazard.second_row)
        kind = hazard.kind if first < second else _TURNED[hazard.kind]
        found[min(first, second), max(first, second)].add(kind)
    needed = {(h.first, h.second) for h in simulated.truth.certain_hazards}
    allowed: dict[tuple[Any, Any], set[str]] = defaultdict(set)
    for true in simulated.truth.hazards:
        allowed[true.first, true.second].add(true.kind)
    missing: list[tuple[Any, ...]] = [("missing", "", *pair) for pair in sorted(needed - set(found))]
    return missing + [
        ("wrong", kind, *pair)
        for pair, kinds in sorted(found.items())
        for kind in sorted(kinds - allowed[pair])
    ]


def _maker(simulated: Simulated, op_id: int | None, table: str, row: int) -> tuple[Any, ...]:
    if op_id is not None:
        return "op", op_id
    (values,) = simulated.trace.table(table)[row : row + 1].to_pylist()
    return ("free", values["correlation_id"]) if table == "allocations" else maker_of_access(values)


def maker_of_access(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return who made an access of a trace, as in `overlane.simulate.truth.Hazard`.

    Args:
        row: Row of `accesses`.
    """
    if row["op_id"] is not None:
        return "op", row["op_id"]
    return "host", row["thread_id"] - FIRST_THREAD, row["at_ns"], row["address"], row["mode"]
