"""What a workload itself declares: accesses to memory, and what its instrumented kernels logged per block."""

from __future__ import annotations

import numpy as np

from overlane_collect.decoding.columns import Column, Draft, constant, texts
from overlane_collect.decoding.frames import Gathered
from overlane_collect.decoding.lookup import Lookup
from overlane_collect.model import ClockDomain

__all__ = ["accesses", "blocks"]

_GLOBALTIMER_STEP_NS = 32  # resolution of %globaltimer on Hopper, added to the error of its fit


def accesses(gathered: Gathered, op_external: Column) -> tuple[Draft, int]:
    """Return the draft of `accesses`, and how many were declared for an operation that is not in the trace.

    Args:
        gathered: The journal, with facts `accesses` (columns external_id, address, bytes, mode) and
            `host_accesses` (columns thread_id, at, address, bytes, mode).
        op_external: External id of each row of `ops`.
    """
    lookup = Lookup(op_external.values, op_external.known())
    op, thread, at, address, length, mode = [], [], [], [], [], []
    lost = 0
    for fact in gathered.facts.get("accesses", []):
        rows = lookup.rows(np.asarray(fact["external_id"], np.int64)).tolist()
        for place, row in enumerate(rows):
            if row < 0:
                lost += 1
                continue
            op.append(row)
            thread.append(-1)
            at.append(-1)
            address.append(fact["address"][place])
            length.append(fact["bytes"][place])
            mode.append(fact["mode"][place])
    for fact in gathered.facts.get("host_accesses", []):
        op += [-1] * len(fact["at"])
        thread += fact["thread_id"]
        at += fact["at"]
        address += fact["address"]
        length += fact["bytes"]
        mode += fact["mode"]
    if not op:
        return {}, lost
    rows_, threads_, at_ = (np.asarray(values, np.int64) for values in (op, thread, at))
    return {
        "op_id": Column(rows_, rows_ < 0),
        "thread_id": Column(threads_, threads_ < 0),
        "at_ns": Column(at_, at_ < 0),
        "address": Column(np.asarray(address, np.int64)),
        "bytes": Column(np.asarray(length, np.int64)),
        "mode": texts(mode),
        "certainty": constant("declared", len(op)),
    }, lost


def blocks(
    gathered: Gathered, op_external: Column, op_start: Column, op_end: Column
) -> tuple[Draft, ClockDomain | None]:
    """Return the draft of `blocks`, and the clock that their stamps came from.

    The blocks' clock (`%globaltimer`) is fitted to the trace's by what must hold: every block lies inside its
    kernel. The middle of what all kernels allow is taken, half its width is the error.

    Args:
        gathered: The journal, with facts `blocks` (external_id; columns sm, start, end).
        op_external: External id of each row of `ops`.
        op_start: Start of each row.
        op_end: End of each row.
    """
    facts = gathered.facts.get("blocks", [])
    rows = Lookup(op_external.values, op_external.known()).rows(
        np.asarray([fact["external_id"] for fact in facts], np.int64)
    )
    kept = [(int(row), fact) for row, fact in zip(rows, facts, strict=True) if row >= 0 and fact["start"]]
    if not kept:
        return {}, None
    lowest = max(int(op_start.values[row]) - min(fact["start"]) for row, fact in kept)
    highest = min(int(op_end.values[row]) - max(fact["end"]) for row, fact in kept)
    offset = (lowest + highest) // 2
    error = (abs(highest - lowest) + 1) // 2 + _GLOBALTIMER_STEP_NS
    start = np.concatenate([np.asarray(fact["start"], np.int64) for _, fact in kept]) + offset
    end = np.concatenate([np.asarray(fact["end"], np.int64) for _, fact in kept]) + offset
    return {
        "op_id": Column(np.concatenate([np.full(len(fact["start"]), row, np.int64) for row, fact in kept])),
        "sm_id": Column(np.concatenate([np.asarray(fact["sm"], np.int64) for _, fact in kept])),
        "start_ns": Column(start),
        "end_ns": Column(end),
    }, ClockDomain("globaltimer", offset, error)
