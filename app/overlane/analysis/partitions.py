"""What each partition of a device was given, what it did with it, and who else was on its SMs.

Definitions:

* A *partition* is a row of the table `partitions`: a green context, or a whole device (its primary or any
  other context without a parent). Its operations are those whose `partition_id` names it.
* *Busy* is the union of all its operations inside the window, *compute* the union of its kernels. The
  *overlap* of two partitions of a device is the intersection of their unions.
* SMs of a green context are assigned, not reserved. Kernels of others that ran on them between its first
  and its last operation are *shared SMs*, and a *leak* only where the user declared the partition
  exclusive. Work of a partition on SMs that are not its own is always a leak.
* Only the table `blocks` proves on which SM a kernel ran. The SMs of a green context are those on which its
  own blocks ran; when they are more than it was granted, some of them are not its own, and when blocks of
  two green contexts with disjoint TPC masks ran on one SM, one of the two has left its own.
* Without blocks there is neither sharing nor a leak, but `beside_ns`: how long kernels of others that may
  use these SMs (contexts of the same device without a partition, green contexts whose masks overlap or are
  not known) ran at the same time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from overlane.analysis.work import Work
from overlane.intervals import Intervals, clip, intersect, summed_length, union, union_length
from overlane.tables import numbers
from overlane.trace import Trace

__all__ = ["VERSION", "ForeignBlocks", "PartitionOverlap", "PartitionUse", "partitions"]

VERSION = 1
SHOWN_ROWS = 20
"""So many row ids stand for all of them as evidence."""


@dataclass(frozen=True)
class PartitionOverlap:
    """How long another partition of the same device was busy at the same time.

    Attributes:
        partition_id: The other one.
        overlap_ns: Intersection of the unions of all operations.
        compute_ns: Intersection of the unions of the kernels.
    """

    partition_id: int
    overlap_ns: int
    compute_ns: int


@dataclass(frozen=True)
class ForeignBlocks:
    """Thread blocks that ran where another partition's SMs are, or away from their own.

    Attributes:
        kind: `shared_sms` (others on its SMs), `exclusive_sms_used` (the same, where the user declared it
            exclusive), `outside_its_sms` (its own blocks on more SMs than it was granted) or `either_outside`
            (its blocks and those of a green context with a disjoint TPC mask on the same SM).
        other_partition_id: The other partition, None for `outside_its_sms`.
        sm_ids: SMs concerned; for `outside_its_sms` all on which it was seen.
        sm_count: At least so many SMs were not its own (or were shared).
        block_count: Foreign blocks; for `outside_its_sms` its own.
        block_rows: Ids of the first of them in `blocks`.
        op_ids: Ids of the first of their operations.
        start_ns: First start of these blocks.
        end_ns: Last end of them.
        occupied_ns: Length of the union of these blocks.
    """

    kind: str
    other_partition_id: int | None
    sm_ids: tuple[int, ...]
    sm_count: int
    block_count: int
    block_rows: tuple[int, ...]
    op_ids: tuple[int, ...]
    start_ns: int
    end_ns: int
    occupied_ns: int


@dataclass(frozen=True)
class PartitionUse:
    """One partition.

    Attributes:
        partition_id: Row id in `partitions`.
        rank: Rank, None when not named.
        device_id: Device, None when not known.
        context_id: Context, None when not known.
        name: Name given by the program.
        is_green: It is a green context.
        is_exclusive: The user declared that no other work may run on its SMs.
        sm_requested: SMs asked for, None when not recorded.
        sm_granted: SMs granted, None when not recorded.
        tpc_mask: Logical TPC mask as recorded.
        workqueue_resource_id: Workqueue, None when not recorded.
        workqueue_scope: Its sharing scope.
        workqueue_limit: Its concurrency limit.
        op_count: Operations that touch the window.
        kernel_count: Kernels among them.
        placed_count: Kernels among them whose blocks were recorded.
        window_ns: Length of the window.
        busy_ns: Union of its operations.
        compute_ns: Union of its kernels.
        beside_ns: How long of its compute time kernels of others that may use its SMs ran too; 0 for a whole
            device.
        overlap: Other partitions of its device with operations in the window.
        sm_ids: SMs on which its blocks were seen, empty without recorded blocks.
        mask_shared_sms: SMs that its TPC mask has in common with other green contexts, None when not known.
        shared_channels: Channels that carried its work and that of another partition of the same primary
            context.
        shared_sms: Proven foreign work on its SMs that is no leak.
        leaks: Proven leaks.
    """

    partition_id: int
    rank: int | None
    device_id: int | None
    context_id: int | None
    name: str | None
    is_green: bool
    is_exclusive: bool
    sm_requested: int | None
    sm_granted: int | None
    tpc_mask: str | None
    workqueue_resource_id: int | None
    workqueue_scope: str | None
    workqueue_limit: int | None
    op_count: int
    kernel_count: int
    placed_count: int
    window_ns: int
    busy_ns: int
    compute_ns: int
    beside_ns: int
    overlap: tuple[PartitionOverlap, ...]
    sm_ids: tuple[int, ...]
    mask_shared_sms: int | None
    shared_channels: tuple[int, ...]
    shared_sms: tuple[ForeignBlocks, ...]
    leaks: tuple[ForeignBlocks, ...]


def partitions(
    trace: Trace, *, window: tuple[int, int] | None = None, exclusive: Collection[str] = ()
) -> tuple[PartitionUse, ...]:
    """Measure every partition of a trace, in the order of the table.

    Args:
        trace: Any trace; one without partitions gives nothing.
        window: Start and end in ns; by default from the first start to the last end of all operations.
        exclusive: Names of the partitions that the user declares exclusive.

    Example:
        >>> import overlane
        >>> from overlane.analysis.partitions import partitions
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> [(part.sm_requested, part.sm_granted) for part in partitions(trace)]  # doctest: +SKIP
    """
    rows = trace.table("partitions").to_pylist()
    if not rows:
        return ()
    shares = _Shares(trace, window)
    blocks = _Blocks(trace, shares)
    return tuple(_use(row, rows, shares, blocks, frozenset(exclusive)) for row in range(len(rows)))


class _Shares:
    """The intervals of each partition inside the window.

    Args:
        trace: The trace.
        window: As for `partitions`.
    """

    def __init__(self, trace: Trace, window: tuple[int, int] | None) -> None:
        work = Work(trace)
        self.start, self.end = work.start, work.end
        self.partition = work.ids("partition_id")
        self.is_compute = work.is_kernel
        self.window = work.window if window is None else window
        self._unions: dict[tuple[int, bool], Intervals] = {}

    def touches(self, partition_id: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Tell which operations belong to a partition and touch the window."""
        low, high = self.window
        return np.asarray((self.partition == partition_id) & (self.start < high) & (self.end >= low))

    def span(self, partition_id: int) -> tuple[int, int]:
        """Return the first start and the last end of a partition's operations, (0, 0) without any."""
        which = self.partition == partition_id
        if not which.any():
            return 0, 0
        return int(self.start[which].min()), int(self.end[which].max())

    def union(self, partition_id: int, *, compute: bool) -> Intervals:
        """Return when a partition was busy, or computed."""
        key = (partition_id, compute)
        if key not in self._unions:
            which = self.partition == partition_id
            which &= self.is_compute if compute else True
            self._unions[key] = union(clip((self.start[which], self.end[which]), self.window))
        return self._unions[key]


class _Blocks:
    """The recorded thread blocks inside the window, with the partition of their operation."""

    def __init__(self, trace: Trace, shares: _Shares) -> None:
        table = trace.table("blocks")
        self.op = numbers(table["op_id"])
        self.sm = numbers(table["sm_id"])
        self.start = numbers(table["start_ns"])
        end = numbers(table["end_ns"], null=-1)
        self.end = np.where(end < 0, self.start, end)
        is_known = (self.op >= 0) & (self.op < len(shares.partition))
        is_known &= (self.start < shares.window[1]) & (self.end > shares.window[0])
        self.partition = np.full(len(self.op), -1, np.int64)
        self.partition[is_known] = shares.partition[self.op[is_known]]

    def sms(self, partition_id: int) -> np.ndarray[Any, Any]:
        """Return the SMs on which blocks of a partition ran."""
        return np.unique(self.sm[self.partition == partition_id])

    def foreign(
        self, kind: str, which: np.ndarray[Any, Any], *, other: int | None, sm_count: int | None = None
    ) -> ForeignBlocks:
        """Return these blocks as evidence."""
        rows = np.flatnonzero(which)
        sms = np.unique(self.sm[rows])
        return ForeignBlocks(
            kind,
            other,
            tuple(sms.tolist()),
            len(sms) if sm_count is None else sm_count,
            len(rows),
            tuple(rows[:SHOWN_ROWS].tolist()),
            tuple(np.unique(self.op[rows])[:SHOWN_ROWS].tolist()),
            int(self.start[rows].min()),
            int(self.end[rows].max()),
            union_length((self.start[rows], self.end[rows])),
        )


def _use(
    at: int, rows: list[dict[str, Any]], shares: _Shares, blocks: _Blocks, exclusive: frozenset[str]
) -> PartitionUse:
    row = rows[at]
    touching = shares.touches(at)
    siblings = [other for other in range(len(rows)) if other != at and _same_device(row, rows[other])]
    is_green = row["parent_context_id"] is not None
    is_exclusive = row["name"] in exclusive
    placed = np.unique(blocks.op[blocks.partition == at])
    found = (
        _foreign(at, rows, siblings, blocks, span=shares.span(at), is_exclusive=is_exclusive)
        if is_green
        else []
    )
    own = set(row["channel_ids"] or ())
    # Contexts that are not of one family number their channels each for itself.
    family = [rows[other] for other in siblings if _family(rows[other]) == _family(row)]
    taken = {channel for other in family for channel in other["channel_ids"] or ()}
    return PartitionUse(
        partition_id=at,
        rank=row["rank"],
        device_id=row["device_id"],
        context_id=row["context_id"],
        name=row["name"],
        is_green=is_green,
        is_exclusive=is_exclusive,
        sm_requested=row["sm_requested"],
        sm_granted=row["sm_granted"],
        tpc_mask=row["tpc_mask"],
        workqueue_resource_id=row["workqueue_resource_id"],
        workqueue_scope=row["workqueue_scope"],
        workqueue_limit=row["workqueue_limit"],
        op_count=int(touching.sum()),
        kernel_count=int((touching & shares.is_compute).sum()),
        placed_count=int(touching[placed].sum()),
        window_ns=shares.window[1] - shares.window[0],
        busy_ns=summed_length(shares.union(at, compute=False)),
        compute_ns=summed_length(shares.union(at, compute=True)),
        beside_ns=_beside(at, rows, siblings, shares) if is_green else 0,
        overlap=tuple(_overlap(at, other, shares) for other in siblings if shares.touches(other).any()),
        sm_ids=tuple(blocks.sms(at).tolist()),
        mask_shared_sms=_mask_shared(at, rows, siblings) if is_green else None,
        shared_channels=tuple(sorted(own & taken)),
        shared_sms=tuple(each for each in found if each.kind == "shared_sms"),
        leaks=tuple(each for each in found if each.kind != "shared_sms"),
    )


def _same_device(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return (a["rank"], a["device_id"]) == (b["rank"], b["device_id"])


def _family(row: dict[str, Any]) -> int | None:
    """Return the primary context of a green context, else the context itself."""
    parent: int | None = row["parent_context_id"]
    context: int | None = row["context_id"]
    return context if parent is None else parent


def _overlap(a: int, b: int, shares: _Shares) -> PartitionOverlap:
    whole, compute = (
        summed_length(intersect(shares.union(a, compute=flag), shares.union(b, compute=flag)))
        for flag in (False, True)
    )
    return PartitionOverlap(b, whole, compute)


def _beside(at: int, rows: list[dict[str, Any]], siblings: list[int], shares: _Shares) -> int:
    """Return how long kernels of others that may use these SMs ran during this partition's kernels."""
    may = [shares.union(other, compute=True) for other in siblings if _may_share(rows[at], rows[other])]
    if not may:
        return 0
    others = (np.concatenate([each[0] for each in may]), np.concatenate([each[1] for each in may]))
    return summed_length(intersect(shares.union(at, compute=True), others))


def _may_share(row: dict[str, Any], other: dict[str, Any]) -> bool:
    return other["parent_context_id"] is None or not _are_disjoint(row, other)


def _are_disjoint(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Tell whether two green contexts surely have no SM in common."""
    first, second = _mask(a), _mask(b)
    return first is not None and second is not None and not first & second


def _mask(row: dict[str, Any]) -> int | None:
    try:
        return int(row["tpc_mask"], 16) if row["tpc_mask"] else None
    except ValueError:
        return None


def _mask_shared(at: int, rows: list[dict[str, Any]], siblings: list[int]) -> int | None:
    """Return how many SMs the masks of other green contexts cover too; None where a mask is not known."""
    mask, granted = _mask(rows[at]), rows[at]["sm_granted"]
    others = [_mask(rows[other]) for other in siblings if rows[other]["parent_context_id"] is not None]
    if not mask or granted is None or None in others:
        return None
    covered: int = 0
    for other in others:
        covered |= other or 0
    return int(granted) * (mask & covered).bit_count() // mask.bit_count()


def _foreign(
    at: int,
    rows: list[dict[str, Any]],
    siblings: list[int],
    blocks: _Blocks,
    *,
    span: tuple[int, int],
    is_exclusive: bool,
) -> list[ForeignBlocks]:
    """Return the blocks of others on this green context's SMs, and its own away from them."""
    sms = blocks.sms(at)
    granted = rows[at]["sm_granted"]
    found = []
    if granted is not None and len(sms) > granted:
        own = blocks.partition == at
        found.append(blocks.foreign("outside_its_sms", own, other=None, sm_count=len(sms) - granted))
    for other in siblings:
        which = (blocks.partition == other) & np.isin(blocks.sm, sms)
        which &= (blocks.start < span[1]) & (blocks.end > span[0])
        if not which.any():
            continue
        is_apart = rows[other]["parent_context_id"] is not None and _are_disjoint(rows[at], rows[other])
        shared = "exclusive_sms_used" if is_exclusive else "shared_sms"
        found.append(blocks.foreign("either_outside" if is_apart else shared, which, other=other))
    return found
