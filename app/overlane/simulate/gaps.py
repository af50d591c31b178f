"""Why each stream, partition and device was idle: the next operation's wait, and before it its thread."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

from overlane.simulate.commands import Operation
from overlane.simulate.host import Host
from overlane.simulate.truth import IdlePart, WaitPart

__all__ = ["idle_parts"]

# Which of several reasons at one moment counts, the first of them.
_PRECEDENCE = (
    "host_sync", "allocation", "module_load", "implicit_sync", "blocking_copy", "launch_queue_full",
    "profiler_overhead",
)  # fmt: skip


def idle_parts(
    operations: Sequence[Operation],
    waits: Sequence[Sequence[WaitPart]],
    issued_ns: Sequence[int],
    host: Host,
    partition_of: dict[int, int],
) -> list[IdlePart]:
    """Return the parts of all gaps.

    Args:
        operations: In the order of their rows.
        waits: Parts of each operation's wait.
        issued_ns: Issue of each operation.
        host: Threads after the run.
        partition_of: Context to row in `partitions`.
    """
    groups: dict[tuple[str, Hashable], list[int]] = {}
    for op_id, operation in enumerate(operations):
        context = operation.command.stream.context
        owners: tuple[tuple[str, Hashable], ...] = (
            ("stream", (context.context_id, operation.stream_id)),
            ("partition", partition_of[context.context_id]),
            ("device", context.device_id),
        )
        for scope, owner in owners:
            groups.setdefault((scope, owner), []).append(op_id)
    threads = _threads(host)
    found = []
    for (scope, owner), members in groups.items():
        last = operations[members[0]].end_ns
        for op_id in members[1:]:
            operation = operations[op_id]
            if operation.start_ns > last:
                found += [
                    IdlePart(scope, owner, a, b, cause, op_id, may_be)
                    for a, b, cause, may_be in _gap(
                        last, operation, waits[op_id], issued_ns[op_id], threads[operation.call.thread]
                    )
                ]
            last = max(last, operation.end_ns)
    return found


def _threads(host: Host) -> list[list[tuple[int, int, str]]]:
    """Return per thread what held it: start, end, cause."""
    held: list[list[tuple[int, int, str]]] = [[] for _ in host.program.threads]
    for call in host.calls:
        if call.holds != "late_launch":
            held[call.thread].append((call.start_ns, call.end_ns, call.holds))
        if call.queue_full is not None:
            held[call.thread].append((*call.queue_full, "launch_queue_full"))
    for thread, _, of_recording, start, end in host.overheads:
        if of_recording:
            held[thread].append((start, end, "profiler_overhead"))
    return held


def _gap(
    low: int, after: Operation, wait: Iterable[WaitPart], issued: int, held: Sequence[tuple[int, int, str]]
) -> list[tuple[int, int, str, frozenset[str]]]:
    high = min(max(issued, low), after.start_ns)
    spans = [(s, e, c) for s, e, c in held if s < high and e > low]
    cuts = sorted({low, high, *(t for s, e, _ in spans for t in (s, e) if low < t < high)})
    found: list[tuple[int, int, str, frozenset[str]]] = []
    for a, b in pairwise(cuts):
        reasons = {c for s, e, c in spans if s <= a and b <= e}
        cause = next((c for c in _PRECEDENCE if c in reasons), "late_launch")
        found.append((a, b, cause, frozenset({cause})))
    for part in wait:
        a, b = max(part.start_ns, low), min(part.end_ns, after.start_ns)
        if a < b:
            found.append((a, b, part.cause, part.may_be))
    return found
