"""Rules on busy time that is no work: collectives that wait for other ranks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overlane.analysis.advice.facts import Facts
from overlane.analysis.advice.model import Finding, Rule
from overlane.figures.units import format_ns
from overlane.intervals import clip, union_length
from overlane.tables import numbers

__all__ = ["RULES"]

_LEAST = 3
"""Fewer calls of one kind and size have no usual length."""
_TIMES_LONGER = 2
"""A collective that takes this many times as long as the fastest of its kind has mostly waited."""


def _skewed(rule: Rule, facts: Facts) -> Iterator[Finding]:
    table = facts.trace.table("collectives")
    op = numbers(table["op_id"], null=-1)
    known = np.flatnonzero((op >= 0) & (op < len(facts.work)))
    known = known[facts.in_window()[op[known]]]
    texts = [table[name].to_pylist() for name in ("collective", "group", "dtype", "ranks")]
    size = numbers(table["bytes"], null=-1)
    groups: dict[tuple[object, ...], list[int]] = {}
    for row in known.tolist():
        device = int(facts.work.device[0][op[row]])
        groups.setdefault((device, int(size[row]), *(column[row] for column in texts)), []).append(
            int(op[row])
        )
    start, end, waited = [], [], []
    for (_, bytes_, *_rest), members in groups.items():
        ops = np.unique(np.array(members))
        if bytes_ == -1 or len(ops) < _LEAST:
            continue
        length = facts.work.end[ops] - facts.work.start[ops]
        fastest = length.min()
        slow = ops[length > _TIMES_LONGER * fastest]
        # What it took beyond the fastest is waiting, at its beginning: the transfer comes when all are there.
        start.append(facts.work.start[slow])
        end.append(facts.work.end[slow] - fastest)
        waited.append(slow)
    if not waited or not sum(map(len, waited)):
        return
    ops = np.concatenate(waited)
    cost = _per_device(facts, ops, np.concatenate(start), np.concatenate(end))
    if not cost:
        return
    yield rule.found(
        f"{len(ops)} of {len(known)} collectives took more than {_TIMES_LONGER} times as long as the "
        f"fastest of the same kind, size and group; for up to {format_ns(cost)} they waited inside the "
        "kernel for other ranks, and that time stands as busy time of the device.",
        "Compare the ranks of the same step: find the one that enters the collective last, and what its "
        "host or device did before. Do not read this device's busy time as work.",
        [facts.op_evidence(ops, "waited inside a collective")],
        cost_ns=cost,
    )


def _per_device(facts: Facts, ops: np.ndarray, start: np.ndarray, end: np.ndarray) -> int:
    device = facts.work.device[0][ops]
    return sum(
        union_length(clip((start[device == code], end[device == code]), facts.window))
        for code in np.unique(device)
    )


RULES = (
    Rule(
        "waiting_counted_as_work",
        "Waiting inside collectives is counted as work",
        ("collectives",),
        "NCCL User Guide, Collective operations (all ranks take part)",
        _skewed,
    ),
)
