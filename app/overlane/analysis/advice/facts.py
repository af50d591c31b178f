"""What the rules look at: waits and idle time as parts with a cause, and the host calls that repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from overlane.analysis.advice.model import Evidence, evidence
from overlane.analysis.calls import Calls, host_calls
from overlane.analysis.parts import Parts
from overlane.analysis.work import Mask, Work, text_codes
from overlane.intervals import Intervals, clip, intersect, subtract, summed_length, union

if TYPE_CHECKING:
    from overlane.analysis.study import Study
    from overlane.trace import Trace

__all__ = ["LOOP_LEAST", "Choice", "Facts", "Lost"]

Choice: TypeAlias = Callable[[Parts], Mask]
"""Chooses parts."""
LOOP_LEAST = 3
"""A call is repeated from this many on: two may be set-up and tear-down."""


@dataclass(frozen=True)
class Lost:
    """Time that passed for one reason.

    Attributes:
        cost_ns: Union of all of it per device, devices added up.
        device_idle_ns: The part of it in which the device was idle.
        waits: Rows of the parts of waits.
        gaps: Rows of the parts of idle time of devices.
        stream_gaps: Parts of idle time of streams.
    """

    cost_ns: int
    device_idle_ns: int
    waits: np.ndarray[Any, Any]
    gaps: np.ndarray[Any, Any]
    stream_gaps: Parts


class Facts:
    """What the rules look at.

    Args:
        study: The analyses of the trace.
    """

    def __init__(self, study: Study) -> None:
        self.study = study
        self.trace: Trace = study.trace
        self.work = Work(study.trace)
        self.window = study.window or self.work.window

    @cached_property
    def calls(self) -> Calls:
        """The host calls by class and thread."""
        return host_calls(self.trace)

    @cached_property
    def call_names(self) -> tuple[np.ndarray[Any, Any], list[str]]:
        """Code of each call's name, and the names."""
        return text_codes(self.trace.table("api_calls")["name"])

    @cached_property
    def sync_call(self) -> np.ndarray[Any, Any]:
        """The call of each synchronization, -1 unknown."""
        return self.calls.of_rows(self.trace.table("syncs"))

    def held_in(self, parts: Parts, calls: np.ndarray[Any, Any]) -> Mask:
        """Tell which parts passed while the host was in one of these calls, or are proven by one."""
        syncs = np.flatnonzero(np.isin(self.sync_call, calls))
        return np.asarray(parts.during(calls) | parts.proven_by("syncs", syncs))

    @cached_property
    def issue_call(self) -> np.ndarray[Any, Any]:
        """The call that issued each operation, -1 unknown."""
        return np.asarray(self.study.dependencies.issue_call)

    @cached_property
    def waits(self) -> Parts:
        """The waits of all operations."""
        return self.study.wait_parts

    @cached_property
    def idle(self) -> Parts:
        """The idle time of the devices."""
        return self.study.idle_parts("device")

    @cached_property
    def stream_gaps(self) -> Parts:
        """The idle time of the streams."""
        return self.study.idle_parts("stream")

    @property
    def window_ns(self) -> int:
        """Length of the window."""
        return self.window[1] - self.window[0]

    def lost(
        self,
        *,
        waits: Mask | None = None,
        gaps: Choice | None = None,
        streams_too: bool = False,
        exposed: Mask | None = None,
    ) -> Lost:
        """Return the time of some parts.

        Args:
            waits: Which parts of `waits`.
            gaps: Which parts of idle time.
            streams_too: Idle time of single streams counts, not only that of whole devices.
            exposed: Operations whose time counts as well, as far as nothing computes beside them.
        """
        wait_rows = np.flatnonzero(waits) if waits is not None else np.zeros(0, np.int64)
        gap_rows = np.flatnonzero(gaps(self.idle)) if gaps is not None else np.zeros(0, np.int64)
        of_streams = self.stream_gaps.take(
            np.flatnonzero(gaps(self.stream_gaps))
            if gaps is not None and streams_too
            else np.zeros(0, np.int64)
        )
        cost = idle = 0
        for device in range(len(self.work.device[1])):
            here = self.work.device[0] == device
            at = self.idle.device == device
            empty = (self.idle.start_ns[at], self.idle.end_ns[at])
            spans = [
                _rows_of(self.idle, gap_rows[at[gap_rows]]),
                _rows_of(self.waits, wait_rows[self.waits.device[wait_rows] == device]),
            ]
            if exposed is not None:
                spans.append(subtract(self.busy(exposed & here), self.busy(self.work.is_kernel & here)))
            whole = _joined(spans)
            mine = of_streams.take(np.flatnonzero(of_streams.device == device))
            cost += summed_length(whole) + self._gained(mine, whole, empty)
            idle += summed_length(intersect(_joined([whole, _rows_of(mine)]), empty))
        return Lost(cost, idle, wait_rows, gap_rows, of_streams)

    def _gained(self, gaps: Parts, counted: Intervals, empty: Intervals) -> int:
        """Return what gaps of streams add to time that counts already.

        While the device does other work, a stream without its gap gains no more than it has work to do.
        """
        total = 0
        for stream in np.unique(gaps.owner):
            own = gaps.take(np.flatnonzero(gaps.owner == stream))
            left = subtract(subtract(_rows_of(own), counted), empty)
            ops = self.busy(np.asarray(self.study.dependencies.stream_key) == stream)
            total += min(summed_length(left), summed_length(ops))
        most = subtract(_rows_of(gaps), counted)
        unused = summed_length(intersect(most, empty))
        return unused + min(summed_length(subtract(most, empty)), total)

    def busy(self, which: Mask) -> Intervals:
        """Return the union of some operations inside the window."""
        return union(clip((self.work.start[which], self.work.end[which]), self.window))

    def in_window(self) -> Mask:
        """Tell which operations touch the window."""
        return np.asarray((self.work.start < self.window[1]) & (self.work.end > self.window[0]))

    def repeated(self, *classes: str, all_of_turn: bool = False) -> np.ndarray[Any, Any]:
        """Return the calls of some classes that a thread repeats between launches of device work.

        A call counts where the thread has issued work between it and the one before it, and issues work
        after it.
        Threads with fewer than `LOOP_LEAST` of them are left out, as are calls outside the window.

        Args:
            classes: Of `CALL_CLASSES`.
            all_of_turn: Calls that follow one another without work between them count too.
        """
        calls = self.calls
        chosen = calls.is_of(*classes) & (calls.thread >= 0)
        chosen &= (calls.start_ns < self.window[1]) & (calls.end_ns > self.window[0])
        launch = np.zeros(len(chosen), np.bool_)
        launch[self.issue_call[self.issue_call >= 0]] = True
        found = []
        for thread in np.unique(calls.thread[chosen]):
            rows = np.flatnonzero(chosen & (calls.thread == thread))
            launches = calls.start_ns[launch & (calls.thread == thread)]
            before = np.searchsorted(launches, calls.start_ns[rows], side="left")
            turn = np.concatenate([[-1], before[:-1]])
            is_within = (before > 0) & (before < len(launches))
            is_first = is_within & (before > turn)
            if is_first.sum() >= LOOP_LEAST:
                found.append(rows[is_within if all_of_turn else is_first])
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def synchronizing(self) -> np.ndarray[Any, Any]:
        """Return the calls that found work issued and not over, and at whose end all of it was over."""
        if not len(self.calls.start_ns):
            return np.zeros(0, np.int64)
        issued = np.where(self.issue_call >= 0, self.calls.start_ns[self.issue_call], self.work.start)
        order = np.argsort(issued, kind="stable")
        last = np.maximum.accumulate(np.concatenate([[-1], self.work.end[order]]))
        until = last[np.searchsorted(issued[order], self.calls.start_ns, side="left")]
        return np.flatnonzero((until > self.calls.start_ns) & (until <= self.calls.end_ns))

    def op_evidence(self, ops: np.ndarray[Any, Any], says: str) -> Evidence:
        """Return operations as evidence."""
        return evidence("ops", ops, self.work.start[ops], self.work.end[ops], says)

    def call_evidence(self, calls: np.ndarray[Any, Any], says: str) -> Evidence:
        """Return host calls as evidence, named by what they are."""
        return evidence("api_calls", calls, self.calls.start_ns[calls], self.calls.end_ns[calls], says)

    def most_called(self, calls: np.ndarray[Any, Any], *, limit: int = 3) -> str:
        """Return the names of some calls with how many there are, the most frequent first."""
        codes, names = self.call_names
        found, counts = np.unique(codes[calls], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:limit]
        return ", ".join(f"{counts[at]} {names[found[at]]}" for at in order)

    def held_evidence(self, lost: Lost) -> Iterable[Evidence]:
        """Yield the operations that waited and those that came after the gaps."""
        if len(lost.waits):
            parts = self.waits
            yield evidence(
                "ops", parts.op[lost.waits], parts.start_ns[lost.waits], parts.end_ns[lost.waits], "waited"
            )
        empty = lost.stream_gaps if len(lost.stream_gaps) else self.idle.take(lost.gaps)
        empty = empty.take(np.flatnonzero(empty.op >= 0))
        if len(empty):
            yield evidence("ops", empty.op, empty.start_ns, empty.end_ns, "came after the idle time")


def _rows_of(parts: Parts, rows: np.ndarray[Any, Any] | None = None) -> Intervals:
    return (parts.start_ns, parts.end_ns) if rows is None else (parts.start_ns[rows], parts.end_ns[rows])


def _joined(spans: list[Intervals]) -> Intervals:
    return union((np.concatenate([span[0] for span in spans]), np.concatenate([span[1] for span in spans])))
