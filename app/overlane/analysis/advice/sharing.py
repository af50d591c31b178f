"""Rules on who shares what: SMs, partitions, hardware queues, contexts, streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from overlane.analysis.advice.facts import Facts, Lost
from overlane.analysis.advice.model import Evidence, Finding, NotChecked, Rule, evidence
from overlane.analysis.partitions import PartitionUse
from overlane.analysis.work import Mask
from overlane.figures.units import format_ns
from overlane.tables import numbers

__all__ = ["RULES"]

_SHORT = 10
"""A kernel that waits this many times as long as it runs is one whose latency suffers."""


def _urgent(facts: Facts) -> Mask:
    """Tell which kernels are more urgent than another kernel of their device."""
    work = facts.work
    known = work.is_kernel & work.is_known("priority")
    priority = work.ids("priority")
    urgent = np.zeros(len(work), np.bool_)
    for device in range(len(work.device[1])):
        here = known & (work.device[0] == device)
        if here.any():
            urgent |= here & (priority < priority[here].max())
    return urgent


def _waited(facts: Facts, which: Mask) -> Lost:
    """Return the time for which some kernels found no room on the SMs."""
    parts = facts.waits
    return facts.lost(waits=_is_crowded(facts) & which[parts.op])


def _ran_meanwhile(facts: Facts, lost: Lost) -> list[Evidence]:
    parts = facts.waits
    rows = lost.waits[parts.proof_table[lost.waits] == parts.proof_tables.index("ops")]
    blockers = np.unique(parts.proof_row[rows])
    blockers = blockers[blockers >= 0]
    return [facts.op_evidence(blockers, "had the SMs")] if len(blockers) else []


def _priority(rule: Rule, facts: Facts) -> Iterator[Finding]:
    lost = _waited(facts, _urgent(facts))
    if not lost.cost_ns:
        return
    ops = np.unique(facts.waits.op[lost.waits])
    yield rule.found(
        f"{len(ops)} kernels of a more urgent stream waited {format_ns(lost.cost_ns)} for SMs that were "
        "full. A priority only decides who gets the next block's room; it takes nothing away from what "
        "runs.",
        "Give the urgent stream SMs of its own (a green context), or cut the other kernels into shorter "
        "ones.",
        [facts.op_evidence(ops, "urgent, and waited"), *_ran_meanwhile(facts, lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _full(rule: Rule, facts: Facts) -> Iterator[Finding]:
    # Where the SMs are full the device does its work; waiting matters to kernels that would be over soon.
    waited = np.bincount(
        facts.waits.op, weights=facts.waits.length_ns * _is_crowded(facts), minlength=len(facts.work)
    )
    short = waited > _SHORT * np.maximum(facts.work.end - facts.work.start, 1)
    lost = _waited(facts, ~_urgent(facts) & short)
    if not lost.cost_ns:
        return
    ops = np.unique(facts.waits.op[lost.waits])
    yield rule.found(
        f"{len(ops)} kernels were ready but waited more than {_SHORT} times as long as they then ran, "
        f"{format_ns(lost.cost_ns)} in all, because kernels of other streams had filled the SMs that they "
        "may use.",
        "Where their latency matters, give their stream a higher priority, and SMs of its own (a green "
        "context) where that is not enough; where only throughput matters, leave it.",
        [facts.op_evidence(ops, "waited for room"), *_ran_meanwhile(facts, lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _is_crowded(facts: Facts) -> Mask:
    return facts.waits.of("partition_busy", "priority")


def _granularity(facts: Facts, part: PartitionUse) -> tuple[int, int]:
    """Return the least number of SMs of a partition and its step, by compute capability (CUDA Driver API)."""
    for row in facts.trace.table("devices").to_pylist():
        if (row["rank"], row["device_id"]) == (part.rank, part.device_id) and row["compute_capability"]:
            major = int(row["compute_capability"].split(".")[0])
            return {6: (1, 1), 7: (2, 2), 8: (4, 2)}.get(major, (8, 8))
    return 8, 8


def _most_blocks(facts: Facts, rows: np.ndarray[Any, Any]) -> int | None:
    """Return the most blocks of kernels that ran at once; None where a grid is not known."""
    column = facts.trace.table("ops")["grid"]
    grids = [column[int(row)].as_py() for row in rows]
    if any(grid is None or len(grid) != 3 for grid in grids):
        return None
    blocks = np.array([int(np.prod(grid)) for grid in grids], np.int64)
    work = facts.work
    at = np.concatenate([work.start[rows], work.end[rows]])
    change = np.concatenate([blocks, -blocks])
    order = np.lexsort((change, at))  # of one instant, ends before starts
    return int(np.cumsum(change[order]).max(initial=0))


def _too_large(rule: Rule, facts: Facts) -> Iterator[Finding | NotChecked]:
    for part in facts.study.partitions:
        if not part.is_green or part.sm_granted is None or not part.kernel_count:
            continue
        name = part.name or f"partition {part.partition_id}"
        mine = facts.work.ids("partition_id") == part.partition_id
        kernels = np.flatnonzero(mine & facts.work.is_kernel & facts.in_window())
        blocks = _most_blocks(facts, kernels)
        if blocks is None:
            yield NotChecked(
                rule.name, f"Kernels of {name} do not carry their number of blocks (missing: grids)."
            )
            continue
        least, step = _granularity(facts, part)
        needed = max(least, -(-blocks // step) * step)
        if needed >= part.sm_granted:
            continue
        others = facts.work.is_kernel & ~mine
        lost = _waited(facts, others)
        waited = (
            f"meanwhile other kernels waited {format_ns(lost.cost_ns)} for SMs"
            if lost.cost_ns
            else "no other kernel waited for SMs here, so a smaller one costs nothing and leaves room"
        )
        yield rule.found(
            f"{name} has {part.sm_granted} SMs, but at no time more than {blocks} blocks to run, which "
            f"occupy at most {min(blocks, part.sm_granted)} of them; {waited}.",
            f"Ask for {needed} SMs.",
            [
                evidence("partitions", [part.partition_id], *facts.window, "larger than its work needs"),
                facts.op_evidence(kernels, "its kernels"),
            ],
            cost_ns=lost.cost_ns,
            device_idle_ns=lost.device_idle_ns,
        )


def _left(rule: Rule, facts: Facts) -> Iterator[Finding]:
    for part in facts.study.partitions:
        for leak in part.leaks:
            name = part.name or f"partition {part.partition_id}"
            other = f"partition {leak.other_partition_id}"
            seen, more = len(leak.sm_ids), leak.sm_count
            what = {
                "outside_its_sms": f"Work of {name} ran on {seen} SMs, {more} more than it was granted",
                "exclusive_sms_used": f"Work of {other} ran on {more} SMs of {name}, declared exclusive",
                "either_outside": f"Work of {name} and of {other}, with disjoint masks, ran on {more} SMs",
            }[leak.kind]
            yield rule.found(
                f"{what}: {leak.block_count} blocks, {format_ns(leak.occupied_ns)}.",
                "Look for streams made in another context than the work's (libraries make their own), and "
                "keep the primary context idle while the partition has to be alone.",
                [
                    evidence(
                        "blocks", leak.block_rows, leak.start_ns, leak.end_ns, "on SMs that are not their own"
                    ),
                    evidence("ops", leak.op_ids, leak.start_ns, leak.end_ns, "their kernels"),
                ],
            )


def _contexts(rule: Rule, facts: Facts) -> Iterator[Finding]:
    lost = facts.lost(waits=facts.waits.of("context_switch"))
    if not lost.cost_ns:
        return
    ops = np.unique(facts.waits.op[lost.waits])
    contexts = len(np.unique(facts.work.ids("context_id")[facts.in_window()]))
    yield rule.found(
        f"{len(ops)} operations waited {format_ns(lost.cost_ns)} while the device ran another context: "
        f"{contexts} contexts take turns, they do not share.",
        "Put the work into streams of one context, or let the processes share one through MPS.",
        [facts.op_evidence(ops, "waited for their context's turn"), *_ran_meanwhile(facts, lost)],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _many_streams(rule: Rule, facts: Facts) -> Iterator[Finding]:
    lost = facts.lost(waits=facts.waits.of("channel_shared"))
    if not lost.cost_ns:
        return
    ops = np.unique(facts.waits.op[lost.waits])
    streams = len(np.unique(facts.work.stream[0][facts.in_window()]))
    channel = numbers(facts.trace.table("ops")["channel_id"], null=-1)[facts.in_window()]
    yield rule.found(
        f"{streams} streams share {len(np.unique(channel[channel >= 0]))} hardware queues: {len(ops)} "
        f"operations waited {format_ns(lost.cost_ns)} behind an unrelated stream in the same queue.",
        "Use fewer streams than queues, or raise CUDA_DEVICE_MAX_CONNECTIONS (up to 32).",
        [facts.op_evidence(ops, "waited in a shared queue")],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


def _host_function(rule: Rule, facts: Facts) -> Iterator[Finding | NotChecked]:
    lost = facts.lost(waits=facts.waits.of("host_function"))
    if not lost.cost_ns:
        calls = int(facts.calls.is_of("host_function").sum())
        if calls:
            yield NotChecked(
                rule.name,
                f"{calls} host functions were put into streams, but no row tells when they were over.",
            )
        return
    ops = np.unique(facts.waits.op[lost.waits])
    yield rule.found(
        f"{len(ops)} operations waited {format_ns(lost.cost_ns)} for a host function that stood before them "
        "in their stream.",
        "Keep host functions short, or let a thread of your own wait for an event and do the work, with "
        "the stream free to go on.",
        [facts.op_evidence(ops, "waited for a host function")],
        cost_ns=lost.cost_ns,
        device_idle_ns=lost.device_idle_ns,
    )


RULES = (
    Rule(
        "priority_cannot_help",
        "A priority cannot help where the SMs are full",
        ("launch_times", "priorities"),
        "CUDA C++ Programming Guide, Stream priorities; Green contexts",
        _priority,
        is_latency=True,
    ),
    Rule(
        "sms_full",
        "Short kernels wait for room on the SMs",
        ("launch_times", "grids"),
        "CUDA C++ Programming Guide, Concurrent kernel execution",
        _full,
        is_latency=True,
    ),
    Rule(
        "partition_too_large",
        "A partition is larger than its work needs",
        ("partitions",),
        "CUDA Driver API, Green contexts; CUPTI green context records",
        _too_large,
        is_latency=True,
    ),
    Rule(
        "left_its_partition",
        "Work ran outside its partition",
        ("partitions", "block_placement"),
        "CUDA Driver API, Green contexts",
        _left,
        is_about_results=True,
    ),
    Rule(
        "contexts_take_turns",
        "Contexts take turns on the device",
        ("launch_times",),
        "CUDA C++ Best Practices Guide, Multiple contexts; Multi-Process Service",
        _contexts,
    ),
    Rule(
        "streams_share_queues",
        "Too many streams for the hardware queues",
        ("launch_times", "channels"),
        "CUDA C++ Programming Guide, CUDA environment variables (CUDA_DEVICE_MAX_CONNECTIONS); CUPTI "
        "channel ids",
        _many_streams,
    ),
    Rule(
        "host_function_holds_stream",
        "A host function holds a stream",
        ("launch_times",),
        "CUDA C++ Programming Guide, Host functions (callbacks)",
        _host_function,
    ),
)
