"""Why each operation waited: what the machine knew of it while it played, cut into parts.

The ordering part comes first: until the last of all that the operation needed has ended. Marks in streams
(records, waits, ends of graphs, allocations) take no time, so what they stand for is looked through to the
work behind them; the rule by which the operation meets the mark names the cause. Then the device: the
reasons that engines and SMs gave while it played.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from overlane.analysis.causes import CAUSE_NAMES
from overlane.simulate.commands import Call, Command, Operation
from overlane.simulate.program import Copy, Launch
from overlane.simulate.truth import WaitPart

__all__ = ["Explainer"]

_CAUSE = {
    "stream": "stream_order",
    "programmatic": "stream_order",
    "event": "event_wait",
    "legacy": "legacy_default_stream",
    "graph": "graph_order",
    "module": "module_load",
}
_LEFT = frozenset({"unknown", "profiler_overhead", "module_load", "implicit_sync", "allocation"})
"""What a stretch that neither an order nor the device explains may be called: rows of the host cover it."""
_NAMELESS = {"cuLaunchHostFunc": "host_function", "cuStreamWaitValue32_v2": "value_wait"}
_RANK = {name: place for place, name in enumerate(CAUSE_NAMES)}
_DEVICE_CAUSES = frozenset(
    {"launch_latency", "partition_busy", "priority", "copy_engine_busy", "context_switch", "unknown"}
)

Hold = tuple[int, str, Command]
"""End, cause, and the command that ended then."""


class Explainer:
    """Parts of the waits of one run.

    Args:
        operations: All operations, in the order of their rows.
        engines: Copies by device and direction, in the order in which they ran.
        capacity: Threads, blocks, registers and shared bytes of one SM, by device.
        calls: All calls in order of start.
        commands: All commands in order of issue.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        engines: dict[tuple[int, str], list[Operation]],
        capacity: dict[int, tuple[int, int, int, int]],
        calls: Sequence[Call],
        commands: Sequence[Command],
    ) -> None:
        self._operations = operations
        self._engines = engines
        self._capacity = capacity
        told = {id(command.shown_by) for command in commands if command.is_told}
        nameless = [call for call in calls if call.name in _NAMELESS and id(call) not in told]
        self._nameless = [(call.start_ns, _NAMELESS[call.name]) for call in nameless]
        self._since = _calls_before(operations) if self._nameless else {}
        self._needed = _needed(commands)

    def issued_ns(self, operation: Operation) -> int:
        """Return when the wait of an operation begins, as the rows show it."""
        call = operation.call
        if any(rule == "graph" for _, rule in operation.command.needs):
            return max(need.done_ns or 0 for need, _ in operation.command.needs)
        if operation.is_blocking:
            return call.start_ns
        if isinstance(operation.work, Launch) and operation.graph is None:
            return operation.command.issued_ns
        return min(call.end_ns, operation.start_ns)

    def holds(self, operation: Operation, issued_ns: int) -> list[Hold]:
        """Return what an operation needed and what had not ended when it was issued."""
        found: list[Hold] = []
        seen: set[tuple[int, str]] = set()
        stack = list(operation.command.needs)
        while stack:
            need, rule = stack.pop()
            if need.done_ns is None or need.done_ns <= issued_ns or (id(need), rule) in seen:
                continue
            seen.add((id(need), rule))
            if need.kind in {"operation", "trigger"}:
                found.append((need.done_ns, _CAUSE[rule], need))
                continue
            if need.kind in {"host_function", "value_wait"}:
                found.append((need.done_ns, need.kind if rule == "stream" else _CAUSE[rule], need))
            stack += [(n, r if rule == "stream" else rule) for n, r in need.needs]
        return found

    def parts(self, op_id: int, operation: Operation) -> list[WaitPart]:
        """Return the parts of one operation's wait, in order of time."""
        issued, start = self.issued_ns(operation), operation.start_ns
        if start <= issued:
            return []
        holds = self.holds(operation, issued)
        eligible = min(max((end for end, _, _ in holds), default=issued), start)
        is_hidden = self._is_hidden(operation)
        found: list[tuple[int, int, str, frozenset[str], frozenset[str]]] = []
        sure: dict[int, frozenset[str]] = {}
        if eligible > issued:
            cause, own = min(holds, key=lambda h: (-h[0], _RANK[h[1]]))[1], self._own(holds)
            cuts = sorted({issued, eligible, *(end for end, _, _ in holds if end < eligible)})
            for low, high in pairwise(cuts):
                others = frozenset(c for end, c, _ in holds if end > low) - {cause}
                found.append((low, high, cause, others, frozenset({cause})))
                sure[low] = frozenset(c for end, c, h in own if end > low) - {cause}
        found += self._device(operation, eligible, start)
        if is_hidden:
            staging = {"blocking_copy"} if operation.is_blocking else set()
            open_causes = (
                _DEVICE_CAUSES
                | staging
                | {c for _, c, _ in holds}
                | {"host_function", "value_wait", "stream_order"}
            )
            found = [(a, b, c, o, m | open_causes) for a, b, c, o, m in found]
        elif may_hold := self._may_hold(operation):
            # What stands in its own stream behind the operation before it cannot have held it sooner.
            behind = max((end for end, cause, _ in holds if cause == "stream_order"), default=issued)
            # Such a thing on the legacy default stream holds others by that stream's rule.
            open_causes = may_hold | {"unknown", "legacy_default_stream"}
            found = [(a, b, c, o, m | open_causes if a >= behind else m) for a, b, c, o, m in found]
        return [WaitPart(op_id, a, b, c, o, m, sure.get(a, frozenset())) for a, b, c, o, m in found if a < b]

    def _own(self, holds: Sequence[Hold]) -> list[Hold]:
        """Return what no other of these comes after anyway; of one thing met by two rules, the first rule."""
        behind = 0
        for _, _, command in holds:
            behind |= self._needed.get(command.number, 0)
        first: dict[int, Hold] = {}
        for hold in sorted(holds, key=lambda h: _RANK[h[1]]):
            first.setdefault(id(hold[2]), hold)
        return [h for h in first.values() if h[2].number < 0 or not behind >> h[2].number & 1]

    def _device(
        self, operation: Operation, low: int, high: int
    ) -> list[tuple[int, int, str, frozenset[str], frozenset[str]]]:
        """Return the parts after the ordering, in which only the device could hold the operation."""
        if low >= high:
            return []
        nothing: frozenset[str] = frozenset()
        if isinstance(operation.work, Copy):
            spans = self._copy_spans(operation, low, high)
            left = frozenset({"launch_latency", "unknown"})  # not right before the start
            return [
                (a, b, c, nothing, left if c == "launch_latency" and b < high else frozenset({c}))
                for a, b, c in spans
            ]
        if not isinstance(operation.work, Launch):
            return [(low, high, "launch_latency", nothing, frozenset({"launch_latency"}))]
        moments = [*operation.states, (high, "")]
        found = []
        for (a, state), (b, _) in pairwise(moments):
            first, last = max(a, low), min(b, high)
            for c, d, may_be in self._open(operation, first, last, state, is_last=last == high):
                cause = state or "launch_latency"
                others = frozenset({"partition_busy"}) if cause == "priority" else nothing
                found.append((c, d, cause, others, may_be | {cause}))
        return found

    def _copy_spans(self, operation: Operation, low: int, high: int) -> list[tuple[int, int, str]]:
        """Return the engine's other copies, the operation's own staging, and what is left."""
        call_end = operation.call.end_ns
        key = (operation.device_id, operation.engine)
        busy = [(o.start_ns, o.end_ns) for o in self._engines.get(key, []) if o is not operation]
        edges = {low, high, *(t for span in busy for t in span), call_end}
        cuts = sorted(t for t in edges if low <= t <= high)
        spans = []
        for a, b in pairwise(cuts):
            if any(s <= a and b <= e for s, e in busy):
                cause = "copy_engine_busy"
            else:
                is_staging = operation.is_blocking and b <= call_end
                cause = "blocking_copy" if is_staging else "launch_latency"
            spans.append((a, b, cause))
        return spans

    def _open(
        self, operation: Operation, low: int, high: int, state: str, *, is_last: bool
    ) -> list[tuple[int, int, frozenset[str]]]:
        """Cut a stretch where kernels start or end, with the causes that the rows leave open."""
        if low >= high:
            return []
        device = operation.device_id
        beside = [
            o
            for o in self._operations
            if isinstance(o.work, Launch)
            and o is not operation
            and o.device_id == device
            and o.start_ns < high
            and o.end_ns > low
            and o.sms[0] < operation.sms[1]
            and operation.sms[0] < o.sms[1]
        ]
        edges = {low, high, *(t for o in beside for t in (o.start_ns, o.end_ns))}
        cuts = sorted(t for t in edges if low <= t <= high)
        pieces = []
        for a, b in pairwise(cuts):
            running = [o for o in beside if o.start_ns <= a and b <= o.end_ns]
            may_be: frozenset[str] = frozenset()
            if state:
                may_be = self._why_full(operation, running, state)
            elif self._may_be_full(operation, running):
                may_be = frozenset({"partition_busy", "priority", "unknown"})
            elif not is_last:
                may_be = _LEFT  # room that was gone again when it arrived
            pieces.append((a, b, may_be))
        return pieces

    def _why_full(self, mine: Operation, running: list[Operation], state: str) -> frozenset[str]:
        """Return what else the rows leave open while there was no room: they do not say where blocks lie."""
        if state == "context_switch":
            return frozenset()
        may_be = set()
        if not any(self._fills(other, mine) for other in running):
            may_be |= {"unknown", "launch_latency"}
        if any(o.priority < mine.priority and o.eligible_ns > mine.eligible_ns for o in running):
            may_be |= {"priority"} if state == "partition_busy" else set()
        if any(o.priority < mine.priority and (self._is_hidden(o) or self._may_hold(o)) for o in running):
            may_be |= {"priority", "partition_busy"}  # which of the two was eligible first is not shown
        if any(
            o.priority < mine.priority
            and (o.eligible_ns > mine.eligible_ns) != (self._shown_ns(o) > self._shown_ns(mine))
            for o in running
        ):
            may_be |= {"priority", "partition_busy"}  # a stamp of a call stands for that of the queue
        return frozenset(may_be)

    def _shown_ns(self, operation: Operation) -> int:
        """Return when an operation became eligible as far as rows show it."""
        return max(operation.eligible_ns, self.issued_ns(operation))

    def _is_hidden(self, operation: Operation) -> bool:
        """Whether rows do not show when a kernel became eligible: behind a host function, flag or trigger."""
        issued = self.issued_ns(operation)
        holds = self.holds(operation, issued)
        held = any(
            h.kind in {"host_function", "value_wait"} and (cause == "module_load" or not h.is_told)
            for _, cause, h in holds
        )
        # That loading waits for what another device was still to do, over a mark, was never measured.
        held |= any(
            c == "module_load" and h.stream.context.device_id != operation.device_id for _, c, h in holds
        )
        return held or _is_triggered_unseen(operation, issued)

    def _may_hold(self, operation: Operation) -> frozenset[str]:
        """Return what may have stood before it in its stream: the calls name neither stream nor end."""
        since, until = self._since.get(operation.number, -1), operation.call.start_ns
        return frozenset(cause for start, cause in self._nameless if since < start < until)

    def _per_sm(self, work: Launch, device: int) -> int:
        """Return how many blocks of a kernel one SM holds when it holds nothing else."""
        need = work.need
        return min(has // n for has, n in zip(self._capacity[device], need, strict=True) if n)

    def _fills(self, other: Operation, mine: Operation) -> bool:
        """Whether a running kernel leaves no room on any SM of this one, wherever its blocks lie."""
        device = other.device_id
        if other.sms[0] > mine.sms[0] or other.sms[1] < mine.sms[1]:
            return False
        most = self._per_sm(other.kernel, device)
        if other.kernel.blocks < most * (other.sms[1] - other.sms[0]):
            return False
        rest = [h - most * n for h, n in zip(self._capacity[device], other.kernel.need, strict=True)]
        return any(h < n for h, n in zip(rest, mine.kernel.need, strict=True))

    def _may_be_full(self, mine: Operation, running: list[Operation]) -> bool:
        """Whether the blocks of running kernels could lie so that no SM has room for this one."""
        sms = mine.sms[1] - mine.sms[0]
        blocks = sum(o.kernel.blocks for o in running)
        unit = mine.kernel.unit
        return blocks + unit > sms


def _needed(commands: Sequence[Command]) -> dict[int, int]:
    """Return, by number, the bit set of all commands that one comes after."""
    found: dict[int, int] = {}
    for command in commands:
        found[command.number] = 0
        for need, _ in command.needs:
            if need.number >= 0:
                found[command.number] |= found[need.number] | 1 << need.number
    return found


def _calls_before(operations: Sequence[Operation]) -> dict[int, int]:
    """Return, by number, the start of the call that issued the operation before it in its stream."""
    found: dict[int, int] = {}
    last: dict[int, Operation] = {}
    for operation in sorted(operations, key=lambda o: o.number):
        stream, call = operation.command.stream.stream_id, operation.call
        before = last.get(stream)
        if before is not None and before.call is call:  # nodes of one graph launch
            found[operation.number] = found.get(before.number, -1)
        elif before is not None:
            found[operation.number] = before.call.start_ns
        last[stream] = operation
    return found


def _is_triggered_unseen(operation: Operation, issued_ns: int) -> bool:
    """Whether a trigger, which no row shows, let it start before the kernel in front of it had ended."""
    behind = operation.behind
    if behind is None or behind.operation is None or behind.operation.trigger is None:
        return False
    triggered, ended = behind.operation.trigger.done_ns or 0, behind.operation.end_ns
    return triggered < ended and ended > issued_ns
