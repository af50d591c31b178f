"""What ran on the SMs of each device over time, and when that left no room for a waiting kernel.

SMs that the same partitions share are alike and counted together (an *area*): a kernel of a green context
runs in the areas of its mask, a kernel of the primary context in all of them. Usage is the least of any SM of
the area; a kernel with more blocks than fit takes all of its areas until its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from overlane.analysis.growing import with_room
from overlane.analysis.keys import NULL, Ids, known, words
from overlane.analysis.occupancy import SmLimits, kernel_needs, limits_of
from overlane.trace import Trace

__all__ = ["CLAIM", "Device", "claim_sms", "devices_of"]

CLAIM = ("op", "start_ns", "end_ns", "rank", "cause", "row")
"""Columns of a claim: that something taken held an operation; a lower rank goes first."""

_SMS_PER_TPC = 2
_THREADS, _BLOCKS, _REGISTERS, _SHARED, _FULL = range(5)
_NOBODY = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Device:
    """Kernels of one context and its green contexts on one device, in the order of their starts.

    Attributes:
        rows: int64, shape (kernels,), operations.
        needs: int64, shape (kernels, 4): threads, blocks (1), registers and shared bytes of one block.
        least: int64, shape (kernels,), blocks on the emptiest SM while it runs, -1 where it takes all.
        blocks: int64, shape (kernels,), blocks that must fit at once.
        areas: int64, shape (kernels,), bit set of the areas that it may use.
        sms: int64, shape (areas,), SMs of each area.
        limits: int64, shape (4,), what an SM holds.
    """

    rows: Ids
    needs: Ids
    least: Ids
    blocks: Ids
    areas: Ids
    sms: Ids
    limits: Ids


def devices_of(trace: Trace, group: Ids, identities: list[tuple[int | None, ...]]) -> list[Device]:
    """Return the kernels of every device whose limits are known.

    Args:
        trace: Trace.
        group: int64, shape (ops,), number of each operation's root context.
        identities: Rank, device and root context of each number.
    """
    ops = trace.table("ops")
    codes, kinds = words(ops["kind"])
    is_kernel = codes == (kinds.index("kernel") if "kernel" in kinds else -2)
    described = {(row["rank"], row["device_id"]): row for row in trace.table("devices").to_pylist()}
    found = []
    for number, (rank, device, root) in enumerate(identities):
        about = described.get((rank, device)) or described.get((None, device))
        limits = limits_of(about["compute_capability"]) if about else None
        rows = np.flatnonzero(is_kernel & (group == number))
        if about is None or limits is None or not about["sm_count"] or not len(rows):
            continue
        found.append(_device(trace, rows, limits, (rank, device, root, about["sm_count"])))
    return found


def _device(trace: Trace, rows: Ids, limits: SmLimits, place: tuple[int | None, ...]) -> Device:
    needs = kernel_needs(trace.table("ops"), rows)
    sms, areas_of = _areas(trace, place)
    context = known(trace.table("ops")["context_id"])[rows]
    areas = np.zeros(len(rows), np.int64)
    for value in np.unique(context):
        areas[context == value] = areas_of.get(None if value == NULL else int(value), 0)
    width = np.zeros(len(rows), np.int64)
    for area, count in enumerate(sms):
        width += np.where(areas >> area & 1, count, 0)
    fits = needs.blocks_per_sm(limits)
    is_known = (needs.blocks >= 0) & (fits > 0) & (width > 0)
    takes_all = is_known & (needs.blocks > fits * width)
    least = np.where(is_known, needs.blocks // np.maximum(width, 1), 0)
    codes, types = words(trace.table("ops")["launch_type"])
    whole = codes[rows] == (types.index("cooperative") if "cooperative" in types else -2)
    one = np.stack(
        [
            np.maximum(needs.threads, 0),
            (needs.threads >= 0).astype(np.int64),
            needs.registers,
            np.where(needs.threads >= 0, needs.shared_bytes + limits.reserved_bytes, 0),
        ],
        axis=1,
    )
    return Device(
        rows,
        one,
        np.where(takes_all, -1, least),
        np.where(whole & is_known, needs.blocks, needs.cluster),
        areas,
        np.array(sms, np.int64),
        np.array([limits.threads, limits.blocks, limits.registers, limits.shared_bytes], np.int64),
    )


def _areas(trace: Trace, place: tuple[int | None, ...]) -> tuple[list[int], dict[int | None, int]]:
    """Return the SMs of every area, and the areas of each context as a bit set.

    A green context without a recorded mask has unknown SMs: its kernels take room nowhere, nor wait for any.
    """
    rank, device, root, sm_count = place
    masks: dict[int, int] = {}
    unmasked: list[int] = []
    for row in trace.table("partitions").to_pylist():
        is_child = row["parent_context_id"] is not None and row["parent_context_id"] == root
        if not is_child or (row["rank"], row["device_id"]) != (rank, device):
            continue
        if row["tpc_mask"]:
            masks[row["context_id"]] = int(row["tpc_mask"], 16)
        else:
            unmasked.append(row["context_id"])
    signatures: dict[int, int] = {}
    contexts = list(masks)
    for tpc in range(int(sm_count or 0) // _SMS_PER_TPC):
        signature = sum(1 << k for k, context in enumerate(contexts) if masks[context] >> tpc & 1)
        signatures[signature] = signatures.get(signature, 0) + _SMS_PER_TPC
    parts = list(signatures.items())
    if not masks:
        parts = [(0, int(sm_count or 0))]
    everything = (1 << len(parts)) - 1
    areas: dict[int | None, int] = {root: everything}
    for k, context in enumerate(contexts):
        areas[context] = sum(1 << n for n, (signature, _) in enumerate(parts) if signature >> k & 1)
    areas.update(dict.fromkeys(unmasked, 0))
    return [count for _, count in parts], areas


def claim_sms(
    device: Device,
    times: tuple[Ids, Ids],
    window: tuple[Ids, Ids],
    priority: Ids,
    causes: tuple[int, int],
) -> Ids:
    """Return when kernels of a device had no room, and when one of higher priority was served first.

    Args:
        device: Kernels.
        times: Start and end of every operation.
        window: From when each operation waited for the device to when it started; empty ones are left out.
        priority: Priority of every operation, lower is more urgent, `NULL` where not known.
        causes: Codes of `partition_busy` and `priority`.

    Returns:
        int64 array, shape (claims, 6), columns as in `CLAIM`.
    """
    start, end = times[0][device.rows], times[1][device.rows]
    low, high = window[0][device.rows], window[1][device.rows]
    urgency = priority[device.rows]
    if not (low < high).any():
        return np.zeros((0, 6), np.int64)
    moments, usage, last = _sweep(
        start, end, np.argsort(end, kind="stable"), device.needs, device.least, device.areas, len(device.sms)
    )
    several = len(np.unique(urgency[urgency != NULL])) > 1
    claims = _claim(
        (moments, usage, last),
        (start, end, low, high),
        (device.needs, device.blocks, device.areas, device.sms, device.limits),
        (urgency, low),
        several,
    )
    claims[:, 0], claims[:, 5] = device.rows[claims[:, 0]], device.rows[claims[:, 5]]
    claims[:, 4] = np.where(claims[:, 3] == 0, causes[1], causes[0])
    return np.asarray(claims)


@njit(cache=True, nogil=True)
def _sweep(  # noqa: PLR0917
    start: Ids, end: Ids, by_end: Ids, needs: Ids, least: Ids, areas: Ids, count: int
) -> tuple[Ids, Any, Any]:
    """Return the moments at which usage changes, the usage of each area from then on, and who ends last."""
    kernels = len(start)
    moments = np.empty(2 * kernels, np.int64)
    usage = np.zeros((2 * kernels, count, 5), np.int32)
    last = np.full(2 * kernels, -1, np.int32)
    now = np.zeros((count, 5), np.int64)
    i, j, used, latest = 0, 0, 0, -1
    while j < kernels:
        is_start = i < kernels and start[i] < end[by_end[j]]
        kernel = i if is_start else by_end[j]
        at = start[i] if is_start else end[by_end[j]]
        if is_start and latest >= 0 and end[latest] <= at:
            latest = -1
        if is_start and (latest < 0 or end[i] >= end[latest]):
            latest = i
        # A kernel that ends before it is seen to start has no length, and takes nothing.
        sign = 1 if is_start else -1
        if end[kernel] > start[kernel]:
            for area in range(count):
                if areas[kernel] >> area & 1:
                    if least[kernel] < 0:
                        now[area, _FULL] += sign
                    else:
                        for k in range(4):
                            now[area, k] += sign * least[kernel] * needs[kernel, k]
        i += int(is_start)
        j += int(not is_start)
        if not (used and moments[used - 1] == at):
            used += 1
        moments[used - 1] = at
        last[used - 1] = latest if latest >= 0 and end[latest] > at else -1
        for area in range(count):
            for k in range(5):
                usage[used - 1, area, k] = min(now[area, k], _NOBODY)
    return moments[:used], usage[:used], last[:used]


@njit(cache=True, nogil=True)
def _has_room(  # noqa: PLR0917
    usage: Any, need: Ids, blocks: int, areas: int, sms: Ids, limits: Ids
) -> bool:
    room = 0
    for area in range(len(sms)):
        if not areas >> area & 1 or usage[area, _FULL]:
            continue
        held = blocks
        for k in range(4):
            if need[k] > 0:
                held = min(held, (limits[k] - usage[area, k]) // need[k])
        room += max(held, 0) * sms[area]
        if room >= blocks:
            return True
    return False


@njit(cache=True, nogil=True)
def _claim(
    sweep: tuple[Ids, Any, Any],
    times: tuple[Ids, Ids, Ids, Ids],
    demand: tuple[Ids, Ids, Ids, Ids, Ids],
    served: tuple[Ids, Ids],
    several: bool,
) -> Ids:
    """Walk over the moments of every wait; neighbouring moments without room are one claim."""
    moments, usage, last = sweep
    start, _, low, high = times
    needs, blocks, areas, sms, limits = demand
    claims = np.empty((64, 6), np.int64)
    used = 0
    for kernel in range(len(start)):
        if low[kernel] >= high[kernel] or areas[kernel] == 0 or needs[kernel, 0] == 0:
            continue
        first = used
        at = np.searchsorted(moments, low[kernel], "right") - 1
        at = max(at, 0)
        while at < len(moments) and moments[at] < high[kernel]:
            begin = max(moments[at], low[kernel])
            finish = moments[at + 1] if at + 1 < len(moments) else high[kernel]
            finish = min(finish, high[kernel])
            if begin < finish and not _has_room(
                usage[at], needs[kernel], blocks[kernel], areas[kernel], sms, limits
            ):
                if used > first and claims[used - 1, 2] == begin:
                    claims[used - 1, 2] = finish
                else:
                    claims = with_room(claims, used)
                    claims[used, 0], claims[used, 1], claims[used, 2] = kernel, begin, finish
                    claims[used, 3], claims[used, 4] = 1, 0
                    used += 1
                claims[used - 1, 5] = last[at] if last[at] >= 0 else kernel
            at += 1
        if several and used > first:
            claims, used = _served_first(claims, first, used, kernel, times, areas, served)
    return claims[:used]


@njit(cache=True, nogil=True)
def _served_first(  # noqa: PLR0917
    claims: Ids,
    first: int,
    used: int,
    kernel: int,
    times: tuple[Ids, Ids, Ids, Ids],
    areas: Ids,
    served: tuple[Ids, Ids],
) -> tuple[Ids, int]:
    """Add claims of kernels of higher priority that became eligible later and ran while there was no room."""
    start, end, low, high = times
    urgency, eligible = served
    until = used
    if urgency[kernel] == NULL:
        return claims, used
    for other in range(np.searchsorted(start, low[kernel], "left"), kernel):
        is_first = urgency[other] != NULL and urgency[other] < urgency[kernel]
        if not is_first or eligible[other] <= low[kernel] or not areas[other] & areas[kernel]:
            continue
        for k in range(first, until):
            begin, finish = max(claims[k, 1], start[other]), min(claims[k, 2], end[other], high[kernel])
            if begin < finish:
                claims = with_room(claims, used)
                claims[used, 0], claims[used, 1], claims[used, 2] = kernel, begin, finish
                claims[used, 3], claims[used, 4], claims[used, 5] = 0, 0, other
                used += 1
    return claims, used
