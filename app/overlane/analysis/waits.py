"""Every wait cut into parts with one cause each, and the row that proves it.

`docs/causes.md` defines the causes. First comes what the rules of CUDA order, then what had been taken of the
device, then what the start of any operation takes; the rest is `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.causes import CAUSE_NAMES, code_of
from overlane.analysis.dependencies import DEPENDENCY_KINDS, PROOF_TABLES, Dependencies
from overlane.analysis.keys import NULL, Bytes, Codes, Ids, dense, known, words
from overlane.analysis.missing import MISSING, OF_ORDER, missing_rows
from overlane.analysis.resources import RANKS, Resources, covering_claims
from overlane.analysis.wait_parts import MOST_LATENCY_NS, Edges, cut_waits
from overlane.trace import Trace

__all__ = ["Quantiles", "Waits", "launch_latency_ns", "waits"]

_CAUSE_OF_KIND = {
    "stream": "stream_order",
    "programmatic": "stream_order",
    "event": "event_wait",
    "legacy": "legacy_default_stream",
    "graph": "graph_order",
    "allocation": "stream_order",
    "host_function": "host_function",
    "value_wait": "value_wait",
    "module": "module_load",
}
_FEWEST = 8
"""So many starts tell how long one takes."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]
BitSets = np.ndarray[Any, np.dtype[np.uint32]]


@dataclass(frozen=True)
class Quantiles:
    """How long waits were in one group.

    Attributes:
        key: What the group has in common: number of a stream, partition id, name or cause.
        count: Waits; for causes, operations that waited for it.
        total_ns: All of them added up.
        p50_ns: Half are no longer.
        p90_ns: Nine of ten are no longer.
        p99_ns: 99 of a hundred are no longer.
        p999_ns: 999 of a thousand are no longer.
        max_ns: The longest.
    """

    key: int | str | None
    count: int
    total_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True)
class Waits:
    """Parts of waits, in order of operation, then time; those of an operation add up to its wait.

    Attributes:
        op: int32, shape (parts,), operation that waited.
        start_ns: int64, first nanosecond.
        end_ns: int64, first nanosecond after it.
        cause: uint8, place in `overlane.analysis.causes.CAUSES`.
        proof_table: uint8, place in `overlane.analysis.dependencies.PROOF_TABLES`.
        proof_row: int64, row there, -1 for none.
        also_open: uint32, bit set of the codes of other causes that were open as well.
        is_below_fit_error: bool, shorter than the clock's fit error, and from a stamp of the host to one of
            the device.
        wait_ns: int64, shape (ops,), whole wait of each operation, -1 where its issue is not known.
        missing: int32, shape (ops,), bit set of places in `overlane.analysis.missing.MISSING`: what the file
            lacks to tell what held the operation after all that is known to order it.
    """

    op: Codes
    start_ns: Ids
    end_ns: Ids
    cause: Bytes
    proof_table: Bytes
    proof_row: Ids
    also_open: BitSets
    is_below_fit_error: Flags
    wait_ns: Ids
    missing: Codes
    _keys: dict[str, tuple[Ids, list[int | str | None]]]

    def distribution(self, by: str) -> list[Quantiles]:
        """Return how long waits were, by group, the longest in all first.

        Args:
            by: `stream`, `partition`, `name` or `cause`.

        Raises:
            KeyError: There is no such grouping.
        """
        if by == "cause":
            code = self.cause.astype(np.int64) * (len(self.wait_ns) + 1) + self.op
            number, found = dense(code)
            totals = np.zeros(len(found), np.int64)
            np.add.at(totals, number, self.end_ns - self.start_ns)
            return _quantiles(found // (len(self.wait_ns) + 1), totals, list(CAUSE_NAMES))
        groups, names = self._keys[by]
        is_known = self.wait_ns >= 0
        return _quantiles(groups[is_known], self.wait_ns[is_known], names)

    def untold_ns(self) -> dict[str, int]:
        """Return how much of the waiting is unknown for want of each capability; those without are left out.

        Where several are missing the time counts for each.
        """
        parts = self.cause == code_of("unknown")
        lacks, length = self.missing[self.op[parts]], (self.end_ns - self.start_ns)[parts]
        sums = {name: int(length[lacks >> bit & 1 == 1].sum()) for bit, name in enumerate(MISSING)}
        return {name: total for name, total in sums.items() if total}


def _quantiles(groups: Ids, values: Ids, names: list[int | str | None] | list[str]) -> list[Quantiles]:
    if not len(groups):
        return []
    order = np.lexsort((values, groups))
    groups, values = groups[order], values[order]
    cuts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    found = []
    for low, high in zip(cuts, [*cuts[1:], len(groups)], strict=True):
        part = values[low:high]
        # The nearest rank: a wait that was measured, never one between two of them.
        ranks = [part[max(-(-len(part) * share // 1000) - 1, 0)] for share in (500, 900, 990, 999)]
        found.append(
            Quantiles(
                names[int(groups[low])],
                len(part),
                int(part.sum()),
                int(ranks[0]),
                int(ranks[1]),
                int(ranks[2]),
                int(ranks[3]),
                int(part[-1]),
            )
        )
    return sorted(found, key=lambda q: -q.total_ns)


def waits(trace: Trace, deps: Dependencies) -> Waits:
    """Cut the wait of every operation into parts.

    Args:
        trace: Any trace; without the issue of an operation it has no parts.
        deps: Its dependencies.

    Example:
        >>> import overlane
        >>> from overlane.analysis.dependencies import dependencies
        >>> from overlane.analysis.waits import waits
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> waits(trace, dependencies(trace)).distribution(by="cause")  # doctest: +SKIP
    """
    start = deps.issue.start_ns
    issued = deps.issued_ns
    is_known = (issued >= 0) & (issued < start)
    # The device's own part begins where everything that is known to end has ended.
    ordered = _ordered_until(deps)
    low = np.where(is_known, np.minimum(np.maximum(ordered, issued), start), start)
    device = Resources(trace, deps)
    claims = device.claims((low, start))
    missing = missing_rows(trace, deps, device.unjudged(low))
    sure = _sure_from(trace, deps, missing, low)
    staging = _staging(deps, low)
    doubtful = np.flatnonzero((deps.candidates.call >= 0) | (sure > low))
    floor = launch_latency_ns(trace, deps, low, np.concatenate([claims[:, 0], staging[:, 0], doubtful]))
    hold = _holds(deps, claims, (low, start, floor))
    if (hold >= 0).any():
        hold[(sure > low) | device.unjudged(start - floor)] = -1
    low = np.where(hold >= 0, start - floor, low)
    covering = covering_claims(trace, deps, (low, start), floor)
    claims = np.concatenate([claims, staging, covering])
    claims = claims[np.argsort(claims[:, 0], kind="stable")]
    begins = np.searchsorted(claims[:, 0], np.arange(len(start) + 1))
    causes = np.array([code_of(_CAUSE_OF_KIND[k]) if k in _CAUSE_OF_KIND else -1 for k in DEPENDENCY_KINDS])
    parts = cut_waits(
        (np.where(is_known, issued, start), low, start, floor, np.where(hold >= 0, start, sure)),
        Edges(deps.begins, causes[deps.kind], deps.end_ns, deps.proof_table, deps.proof_row),
        (hold, causes[np.maximum(deps.candidates.kind, 0)]),
        (begins, claims),
        (code_of("launch_latency"), code_of("unknown"), RANKS["launch_latency"]),
    )
    op = parts.op
    ordering = np.flatnonzero(parts.start < low[op])
    also = device.taken_as_well((op[ordering].astype(np.int64), parts.start[ordering], parts.end[ordering]))
    also &= ~(np.int64(1) << parts.cause[ordering])
    parts.bits[ordering] |= also.astype(np.uint32)
    error = max((clock.fit_error_ns or 0 for clock in trace.header.clocks), default=0)
    is_below = (parts.end - parts.start < error) & (parts.start == issued[op])
    is_below &= deps.issue.is_host_stamp[op]
    return Waits(
        *parts,
        is_below,
        np.where(issued >= 0, np.maximum(start - issued, 0), -1),
        missing,
        _groupings(trace, deps),
    )


def _ordered_until(deps: Dependencies) -> Ids:
    """Return the latest known end of what orders each operation."""
    until = np.full(len(deps.issued_ns), -1)
    orders = deps.kind != DEPENDENCY_KINDS.index("host")
    np.maximum.at(until, deps.op[orders], deps.end_ns[orders])
    return until


def _sure_from(trace: Trace, deps: Dependencies, missing: Codes, low: Ids) -> Ids:
    """Return from when on nothing unrecorded can have held each operation: its start where that is not known.

    The submission of an operation is stamped when all that orders it has ended.
    """
    start = deps.issue.start_ns
    is_open = missing > 0
    orders = (deps.kind != DEPENDENCY_KINDS.index("host")) & (deps.end_ns < 0)
    is_open[deps.op[orders]] = True
    submitted = known(trace.table("ops")["submitted_ns"])
    has_proof = (submitted != NULL) & (missing & ~OF_ORDER == 0)
    until = np.where(has_proof, np.clip(submitted, low, start), start)
    return np.where(is_open, until, low)


def _holds(deps: Dependencies, claims: Ids, times: tuple[Ids, Ids, Ids]) -> Ids:
    """Return the call of the host function or value wait that held each operation, -1 for none.

    A call that names no stream stands before an operation if nothing that is recorded explains the wait to
    its
    end: neither an order, nor what was taken of the device.
    """
    low, start, floor = times
    hold = np.where(low < start - floor, deps.candidates.call, -1)
    explained = claims[claims[:, 2] >= (start - floor)[claims[:, 0]], 0]
    hold[explained] = -1
    hold[deps.issue.is_blocking_copy] = -1
    return hold


def _staging(deps: Dependencies, low: Ids) -> Ids:
    """Return the claims of blocking copies on themselves: their own calls were staging the data."""
    start, call = deps.issue.start_ns, deps.issue_call
    rows = np.flatnonzero(deps.issue.is_blocking_copy & (low < start))
    end = np.minimum(deps.calls.end_ns[call[rows]], start[rows])
    rows, end = rows[end > low[rows]], end[end > low[rows]]
    count = len(rows)
    columns = (
        rows,
        low[rows],
        end,
        np.full(count, RANKS["blocking_copy"]),
        np.full(count, code_of("blocking_copy")),
        call[rows],
        np.full(count, PROOF_TABLES.index("api_calls")),
    )
    return np.stack(columns, axis=1).astype(np.int64)


def launch_latency_ns(trace: Trace, deps: Dependencies, low: Ids, held: Ids) -> Ids:
    """Return the most that the start of each operation takes when nothing holds it, from the trace itself.

    Args:
        trace: Trace.
        deps: Its dependencies.
        low: int64, shape (ops,), from when on each operation waited for the device.
        held: int64, operations that something held after that.

    Returns:
        int64 array, shape (ops,): the 95th percentile over the operations of its device and class, of at
        least eight that nothing held, and never more than 20 microseconds.
    """
    ops = trace.table("ops")
    start = deps.issue.start_ns
    rank, _ = dense(known(ops["rank"]))
    device, devices = dense(known(ops["device_id"]))
    codes, kinds = words(ops["kind"])
    group = (rank * max(len(devices), 1) + device) * (len(kinds) + 1) + codes + 1
    is_free = deps.issued_ns >= 0
    is_free[held] = False
    floor = np.full(len(start), MOST_LATENCY_NS)
    for number in np.unique(group):
        members = group == number
        values = (start - low)[members & is_free]
        if len(values) >= _FEWEST:
            place = max(-(-len(values) * 95 // 100) - 1, 0)
            floor[members] = min(int(np.partition(values, place)[place]), MOST_LATENCY_NS)
    return floor


def _groupings(trace: Trace, deps: Dependencies) -> dict[str, tuple[Ids, list[int | str | None]]]:
    """Return the groups of operations, and what each group is called."""
    ops = trace.table("ops")
    names, found = words(ops["name"])
    partition, partitions = dense(known(ops["partition_id"]))
    return {
        "stream": (deps.stream_key.astype(np.int64), list(range(len(deps.streams)))),
        "partition": (partition, [None if value == NULL else int(value) for value in partitions]),
        "name": (names.astype(np.int64), list(found)),
    }
