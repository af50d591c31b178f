"""How long the kernels of critical streams waited for room, against the same kernels elsewhere.

A stream is *critical* where it has been given something for itself: it belongs to a green context, or its
priority is more urgent than that of another stream of the same device that ran kernels. The wait looked at is
from the instant at which everything that the kernel depends on had ended (`eligible_ns`) to its start: what
its order asked for is not counted.

Percentiles are observed waits (nearest rank), so each names the operation that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from overlane.analysis.work import Mask, Work
from overlane.intervals import Times, union
from overlane.trace import Trace

__all__ = ["Distribution", "Isolation", "distribution", "isolation"]

QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)


class Eligible(Protocol):
    """What is needed of the dependencies.

    Attributes:
        eligible_ns: int64, shape (operations,): when the last thing that it depends on ended; -1 unknown.
    """

    @property
    def eligible_ns(self) -> Times: ...


@dataclass(frozen=True)
class Distribution:
    """Waits of a set of operations.

    Attributes:
        count: Operations.
        p50_ns: Half of them waited no longer.
        p90_ns: 90 % of them.
        p99_ns: 99 % of them.
        p999_ns: 99.9 % of them.
        max_ns: The longest wait.
        max_op_id: The operation that had it.
    """

    count: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    max_op_id: int


@dataclass(frozen=True)
class Isolation:
    """One kernel of one critical stream.

    Attributes:
        rank: Rank of the stream.
        device_id: Its device.
        context_id: Its context.
        stream_id: Its id.
        partition_id: Its partition, None when not known.
        priority: Its priority, None when not known.
        kernel: Name of the kernel.
        alone: Waits of those beside which no kernel of another stream of the device ran when they became
            eligible and when they started; None without any.
        beside: Waits of the others.
        elsewhere: Waits of the same kernel on streams of the device that are not critical.
        unknown_count: Its operations on this stream whose wait is not known.
    """

    rank: int | None
    device_id: int | None
    context_id: int | None
    stream_id: int | None
    partition_id: int | None
    priority: int | None
    kernel: str
    alone: Distribution | None
    beside: Distribution | None
    elsewhere: Distribution | None
    unknown_count: int


def distribution(waits_ns: Times, op_ids: np.ndarray[Any, Any]) -> Distribution | None:
    """Return the distribution of some waits; None of none.

    Args:
        waits_ns: int64 array, shape (n,).
        op_ids: Their operations, shape (n,).

    Example:
        >>> distribution(np.array([5, 1, 9]), np.array([10, 11, 12]))
        Distribution(count=3, p50_ns=5, p90_ns=9, p99_ns=9, p999_ns=9, max_ns=9, max_op_id=12)
    """
    if not len(waits_ns):
        return None
    order = np.argsort(waits_ns, kind="stable")
    ranked = waits_ns[order]
    # The small term takes back what multiplying in floating point may add to a whole number.
    at = [max(int(np.ceil(q * len(ranked) - 1e-9)) - 1, 0) for q in QUANTILES]
    p50, p90, p99, p999, longest = (int(ranked[place]) for place in at)
    return Distribution(len(ranked), p50, p90, p99, p999, longest, int(op_ids[order[-1]]))


def isolation(
    trace: Trace, deps: Eligible, *, window: tuple[int, int] | None = None
) -> tuple[Isolation, ...]:
    """Tell how the kernels of critical streams were isolated, those with the longest waits first.

    Args:
        trace: The trace.
        deps: Its dependencies.
        window: Kernels that start in it count; None for all.
    """
    work = Work(trace)
    if not len(work):
        return ()
    is_counted = np.array(work.is_kernel)
    if window is not None:
        is_counted &= (work.start >= window[0]) & (work.start < window[1])
    stream, identities = work.stream
    is_critical = _critical(work, len(identities))
    waits = _Waits(work, np.asarray(deps.eligible_ns), is_counted, is_critical[stream])
    found = []
    for code in np.flatnonzero(is_critical):
        names = np.unique(work.names[0][is_counted & (stream == code)])
        found += [_one(work, waits, int(code), int(name)) for name in names]
    return tuple(sorted(found, key=_worst, reverse=True))


def _critical(work: Work, count: int) -> Mask:
    """Tell which streams have something for themselves."""
    stream = work.stream[0]
    rows = work.trace.table("partitions")["parent_context_id"].to_pylist()
    is_green = np.array([*(parent is not None for parent in rows), False])
    partition = work.ids("partition_id")
    critical = np.zeros(count, np.bool_)
    critical[stream[is_green[np.where((partition >= 0) & (partition < len(rows)), partition, len(rows))]]] = (
        True
    )
    ranked = work.is_kernel & work.is_known("priority")
    priority = work.ids("priority")
    for device in range(len(work.device[1])):
        rows_here = ranked & (work.device[0] == device)
        if rows_here.any():
            critical[stream[rows_here & (priority < priority[rows_here].max())]] = True
    return critical


class _Waits:
    """Waits for room of all kernels, and whether they became eligible beside others."""

    def __init__(self, work: Work, eligible: Times, is_counted: Mask, is_critical: Mask) -> None:
        self.is_known = is_counted & (eligible >= 0)
        self.is_counted = is_counted
        self.is_critical = is_critical
        self.eligible = eligible
        self.wait = np.maximum(work.start - eligible, 0)

    def of(self, which: Mask) -> Distribution | None:
        rows = np.flatnonzero(which & self.is_known)
        return distribution(self.wait[rows], rows)


def _one(work: Work, waits: _Waits, code: int, name: int) -> Isolation:
    stream, identities = work.stream
    here = waits.is_counted & (stream == code) & (work.names[0] == name)
    first = int(np.flatnonzero(here)[0])
    is_device = work.device[0] == work.device[0][first]
    others = work.is_kernel & is_device & (stream != code)
    busy = union((work.start[others], work.end[others]))
    beside = here & (_is_open(waits.eligible, busy) | _is_open(work.start, busy))
    elsewhere = waits.is_counted & is_device & ~waits.is_critical & (work.names[0] == name)
    row = work.trace.row("ops", first)
    rank, device_id, context_id, stream_id = identities[code]
    return Isolation(
        rank,
        device_id,
        context_id,
        stream_id,
        row["partition_id"],
        row["priority"],
        work.names[1][name],
        alone=waits.of(here & ~beside),
        beside=waits.of(beside),
        elsewhere=waits.of(elsewhere),
        unknown_count=int((here & ~waits.is_known).sum()),
    )


def _is_open(at: Times, busy: tuple[Times, Times]) -> Mask:
    """Tell at which instants one of these disjoint intervals is open."""
    place = np.searchsorted(busy[0], at, side="right") - 1
    if not len(busy[0]):
        return np.zeros(len(at), np.bool_)
    return np.asarray((place >= 0) & (at < busy[1][place]))


def _worst(each: Isolation) -> int:
    return max((part.max_ns for part in (each.alone, each.beside) if part is not None), default=-1)
