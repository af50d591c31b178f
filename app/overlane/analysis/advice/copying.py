"""Rules on copies: memory that makes them block, and copies that never run beside compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overlane.analysis.advice.facts import Facts
from overlane.analysis.advice.model import Finding, NotChecked, Rule
from overlane.analysis.causes import CAUSES
from overlane.analysis.proof import why_unproven
from overlane.analysis.work import COPIES, Mask, text_codes
from overlane.figures.units import format_bytes, format_ns
from overlane.intervals import intersect, subtract, summed_length
from overlane.tables import numbers
from overlane_collect.schema import ENGINES

__all__ = ["RULES"]

_HIDDEN_SHARE = 0.01
"""Copies and compute that overlap for less than this share of the shorter of the two never overlap."""
_LITTLE_BYTES = 1 << 16
"""Copies shorter than this, on average, cost the wait for them rather than the transfer."""
_PINNED = (
    "Allocate the host side as pinned memory (cudaMallocHost, cudaHostRegister, pin_memory=True in PyTorch's "
    "DataLoader) and copy with cudaMemcpyAsync on a stream of its own."
)
_FEW_BYTES = (
    "They move few bytes, so waiting for them is what costs: gather results on the device and read them "
    "with one copy behind the work, into pinned memory with cudaMemcpyAsync where more work follows."
)
_MOST_PAIRS = 10_000
"""Pairs whose accesses are compared; they come one by one."""
_CROSSING = tuple(ENGINES.index(name) for name in ("copy_h2d", "copy_d2h"))


def _pageable(rule: Rule, facts: Facts) -> Iterator[Finding]:
    is_pageable = np.zeros(len(facts.work), np.bool_)
    for column in ("src_memory", "dst_memory"):
        codes, names = text_codes(facts.trace.table("ops")[column])
        if "pageable" in names:
            is_pageable |= codes == names.index("pageable")
    is_pageable &= np.isin(facts.work.engine, COPIES)
    calls = facts.issue_call[is_pageable]
    calls = np.unique(calls[calls >= 0])
    copies = np.flatnonzero(is_pageable & facts.in_window())
    lost = facts.lost(
        waits=facts.waits.of("blocking_copy") & is_pageable[facts.waits.op],
        gaps=lambda parts: (
            parts.of("blocking_copy")
            & (parts.during(calls) | parts.proven_by("ops", np.flatnonzero(is_pageable)))
        ),
        streams_too=True,
        exposed=is_pageable,
    )
    if not len(lost.waits) and not len(lost.gaps) and not len(lost.stream_gaps):
        return
    copies = np.union1d(copies, facts.waits.op[lost.waits])  # one may wait in the window and start after it
    issued = facts.issue_call[copies]
    asynchronous = int(facts.calls.is_of("copy")[issued[issued >= 0]].sum())
    moved = int(numbers(facts.trace.table("ops")["bytes"], null=0)[copies].sum())
    is_little = moved < _LITTLE_BYTES * len(copies)
    busy = summed_length(facts.busy(is_pageable))
    yield rule.found(
        f"{len(copies)} copies read or write pageable memory, {asynchronous} of them by asynchronous calls. "
        "The driver stages them through a buffer of its own, which holds the calling thread"
        f"{'' if is_little else ' and slows the copy'}: {format_bytes(moved)} took {format_ns(busy)}.",
        _FEW_BYTES if is_little else _PINNED,
        [facts.op_evidence(copies, "copy pageable memory"), *facts.held_evidence(lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _never_overlap(rule: Rule, facts: Facts) -> Iterator[Finding | NotChecked]:
    work = facts.work
    stated = facts.trace.header.capabilities.get("event_records")
    if stated is not None and not stated.proven:
        # What an event orders would look independent.
        yield NotChecked(rule.name, str(why_unproven(facts.trace, "event_records")))
        return
    for device, (_, device_id) in enumerate(work.device[1]):
        here = facts.in_window() & (work.device[0] == device)
        copies, kernels = here & np.isin(work.engine, _CROSSING), here & work.is_kernel
        if not copies.any() or not kernels.any():
            continue
        copying, computing = facts.busy(copies), facts.busy(kernels)
        least = min(summed_length(copying), summed_length(computing))
        if summed_length(intersect(copying, computing)) > _HIDDEN_SHARE * least:
            continue
        pairs = _independent(facts, copies, kernels)
        if not len(pairs):
            continue
        free_copies, free_kernels = _mask(len(work), pairs[:, 0]), _mask(len(work), pairs[:, 1])
        exposed = subtract(facts.busy(free_copies), computing)
        # These copies, hidden behind whatever computes.
        cost = min(summed_length(exposed), summed_length(computing))
        if not cost:
            continue
        yield rule.found(
            f"On device {device_id}, {len(np.unique(pairs[:, 0]))} copies and the kernels beside them are "
            "independent of one another, but no copy ran while a kernel did: "
            f"{format_ns(summed_length(exposed))} of copying stands alone."
            f"{_held_by(facts, free_copies | free_kernels)}",
            "Issue the copy of the next chunk before the kernel of this one, from pinned memory, on a "
            "stream of its own that is not the legacy default stream; let only an event order a kernel "
            "behind its input.",
            [
                facts.op_evidence(np.unique(pairs[:, 0]), "copies without compute beside them"),
                facts.op_evidence(np.unique(pairs[:, 1]), "kernels that could run at the same time"),
            ],
            cost_ns=cost,
        )


def _independent(facts: Facts, copies: Mask, kernels: Mask) -> np.ndarray[Any, Any]:
    """Return pairs of a copy and the kernel that started next to it, before or after, that could run at once.

    They could where nothing orders them, or where they are neighbours among all operations (so that no third
    one carries data from one to the other). Where accesses are declared, no written byte may be in common:
    what is unordered by mistake is not independent.
    """
    work, order = facts.work, facts.study.order
    kernel_rows = np.flatnonzero(kernels)  # in order of their starts
    copy_rows = np.flatnonzero(copies)
    place = np.searchsorted(work.start[kernel_rows], work.start[copy_rows])
    accesses = _Accesses(facts)
    found = []
    for step in (-1, 0):
        at = place + step
        fits = (at >= 0) & (at < len(kernel_rows))
        pair = np.stack([copy_rows[fits], kernel_rows[at[fits]]], axis=1)
        is_free = ~(order.before(pair[:, 0], pair[:, 1]) | order.before(pair[:, 1], pair[:, 0]))
        is_next = np.abs(pair[:, 0] - pair[:, 1]) == 1
        for row in np.flatnonzero(is_free | is_next)[:_MOST_PAIRS].tolist():
            is_free[row] = accesses.are_apart(*pair[row], by_default=bool(is_free[row]))
        found.append(pair[is_free])
    return np.concatenate(found)


class _Accesses:
    """The declared accesses of each operation."""

    def __init__(self, facts: Facts) -> None:
        table = facts.trace.table("accesses")
        op = numbers(table["op_id"], null=-1)
        self._begins = np.searchsorted(np.where(op < 0, len(facts.work), op), np.arange(len(facts.work) + 1))
        self._low = numbers(table["address"])
        self._high = self._low + numbers(table["bytes"])
        modes, names = text_codes(table["mode"])
        self._writes = modes == names.index("write") if "write" in names else modes < -1

    def are_apart(self, a: int, b: int, *, by_default: bool) -> bool:
        """Tell whether neither writes a byte that the other touches.

        Args:
            a: An operation.
            b: Another one.
            by_default: The answer where one of them does not declare what it touches.
        """
        first, second = (slice(self._begins[op], self._begins[op + 1]) for op in (a, b))
        if not len(self._low[first]) or not len(self._low[second]):
            return by_default
        meet = (self._low[first][:, None] < self._high[second]) & (
            self._low[second] < self._high[first][:, None]
        )
        return not bool((meet & (self._writes[first][:, None] | self._writes[second])).any())


def _held_by(facts: Facts, ops: Mask) -> str:
    """Say what held these operations longest."""
    parts = facts.waits
    mine = ops[parts.op]
    if not mine.any():
        return ""
    length = parts.end_ns[mine] - parts.start_ns[mine]
    most = np.bincount(parts.cause[mine], weights=length, minlength=len(CAUSES))
    cause = CAUSES[int(most.argmax())]
    return f" What held these operations longest is {cause.title}." if most.max() else ""


def _mask(count: int, rows: np.ndarray[Any, Any]) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask


RULES = (
    Rule(
        "pageable_copies",
        "Copies of pageable memory hold the host",
        ("memory_kinds", "launch_times"),
        "CUDA Runtime API, API synchronization behavior, Memcpy; CUDA C++ Best Practices Guide, Pinned "
        "memory",
        _pageable,
    ),
    Rule(
        "copies_never_overlap",
        "Copies never run beside compute although independent",
        ("launch_times",),
        "CUDA C++ Best Practices Guide, Asynchronous and overlapping transfers with computation",
        _never_overlap,
    ),
)
