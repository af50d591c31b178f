"""Every rule on a small simulated program that has the fault, and on one that differs just enough not to."""

import pytest

from overlane.analysis.study import Study
from overlane.simulate import (
    Access,
    Allocate,
    AllocateAsync,
    Buffer,
    Context,
    Copy,
    Device,
    DeviceSync,
    EventSync,
    Free,
    FreeAsync,
    HostAccess,
    HostFunction,
    HostWork,
    ImplicitCall,
    Launch,
    Program,
    Record,
    Recording,
    Stream,
    StreamSync,
    Thread,
    WaitEvent,
    run,
)

US = 1_000
STREAMS = (
    Stream("legacy", "legacy_default"), Stream("a"), Stream("b"), Stream("blocking", "blocking"),
    Stream("urgent", priority=-5), Stream("other context", context_id=3),
    Stream("green", context_id=2),
)  # fmt: skip
CONTEXTS = (Context(1), Context(2, parent=1, sms=(0, 8)), Context(3))
BUFFERS = (Buffer("x"), Buffer("y"), Buffer("h", memory="pinned"))


def play(*statements):
    return run(Program((Thread(statements),), STREAMS, (Device(sm_count=16),), CONTEXTS, BUFFERS)).trace


def found(trace, rule, **kwargs):
    return [each for each in Study(trace, **kwargs).advice.findings if each.rule == rule]


def times(count, *statements):
    return statements * count


FULL = 16 * 8  # blocks of 256 threads that fill the device
SHORT = Launch("a", 100 * US)
KERNEL = Launch("a", 50 * US, accesses=(Access("x", "write"),))
COPY = Copy("b", duration_ns=50 * US, accesses=(Access("y", "write"),))
LONG = Launch("a", 100 * US, blocks=FULL)
WRITE = (Access("x", "write"),)
READ = (Access("x", "read"),)
TO_HOST = (Access("x", "read"), Access("h", "write"))

CASES = {
    "pageable_copies": (
        times(3, Copy("a", is_pageable=True, bytes=1 << 24, duration_ns=500 * US), Launch("b", 50 * US)),
        times(3, Copy("a", bytes=1 << 24, duration_ns=500 * US), Launch("b", 50 * US)),
    ),
    "legacy_default_stream": (
        (Launch("blocking", 50 * US), Launch("legacy", 50 * US), Launch("blocking", 50 * US)),
        (Launch("a", 50 * US), Launch("legacy", 50 * US), Launch("a", 50 * US)),
    ),
    "device_sync_in_loop": (
        (*times(4, Launch("a", 50 * US), DeviceSync(), HostWork(20 * US)), Launch("a")),
        (*times(4, Launch("a", 50 * US)), DeviceSync(), Launch("a")),
    ),
    "host_waits_in_loop": (
        (*times(4, Launch("a", 50 * US), Record("e", "a"), EventSync("e"), HostWork(20 * US)), Launch("a")),
        (*times(4, Launch("a", 50 * US)), Record("e", "a"), EventSync("e"), Launch("a")),
    ),
    "allocation_in_loop": (
        times(4, Allocate("x"), Launch("a", 50 * US), Free("x"), Launch("a", 50 * US)),
        times(4, AllocateAsync("x", "a"), Launch("a", 50 * US), FreeAsync("x", "a"), Launch("a", 50 * US)),
    ),
    "copies_never_overlap": (
        (*times(3, KERNEL, StreamSync("a"), COPY, StreamSync("b")), KERNEL),
        (*times(3, KERNEL, COPY, StreamSync("a"), StreamSync("b")), KERNEL),
    ),
    "launches_cost_more_than_work": (
        times(20, Launch("a", 1 * US)),
        times(20, Launch("a", 50 * US)),
    ),
    "late_launches": (
        times(4, Launch("a", 20 * US), HostWork(100 * US, "load batch")),
        times(4, Launch("a", 20 * US)),
    ),
    "recording_cost": (
        times(4, Launch("a", 20 * US), Recording(90 * US)),
        times(4, Launch("a", 20 * US), HostWork(90 * US)),
    ),
    "code_loading": (
        (SHORT, ImplicitCall("cuModuleLoadData"), Launch("b", 10 * US)),
        (SHORT, Launch("b", 10 * US)),
    ),
    "implicit_sync": (
        (LONG, ImplicitCall("cuGreenCtxCreate"), Launch("b", 10 * US)),
        (LONG, ImplicitCall("cuStreamCreateWithPriority"), Launch("b", 10 * US)),
    ),
    "priority_cannot_help": (
        (LONG, Launch("urgent", 10 * US)),
        (Launch("a", 100 * US, blocks=4), Launch("urgent", 10 * US)),
    ),
    "sms_full": (
        (LONG, Launch("b", 2 * US)),
        (Launch("a", 100 * US, blocks=4), Launch("b", 2 * US)),
    ),
    "contexts_take_turns": (
        (LONG, Launch("other context", 50 * US)),
        (LONG, Launch("b", 50 * US)),
    ),
    "host_function_holds_stream": (
        (Launch("a"), HostFunction("a", 50 * US), Record("e", "a"), Launch("a")),
        (Launch("a"), HostFunction("b", 50 * US), Record("e", "a"), Launch("a")),
    ),
    "unordered_accesses": (
        (Launch("a", 50 * US, accesses=WRITE), Launch("b", accesses=READ)),
        (Launch("a", 50 * US, accesses=WRITE), Record("e", "a"), WaitEvent("b", "e"),
         Launch("b", accesses=READ)),
    ),
    "host_reads_too_early": (
        (Copy("a", "d2h", accesses=TO_HOST), HostAccess(Access("h", "read"))),
        (Copy("a", "d2h", accesses=TO_HOST), StreamSync("a"), HostAccess(Access("h", "read"))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_its_fault_and_nothing_without_it(rule):
    faulty, clean = CASES[rule]
    trace = play(*faulty)
    (finding, *_) = found(trace, rule)
    assert finding.evidence
    for proof in finding.evidence:
        assert proof.count >= len(proof.row_ids) >= 1
        assert all(0 <= row < trace.table(proof.table).num_rows for row in proof.row_ids)
        assert proof.start_ns <= proof.end_ns
    assert finding.change.endswith(".")
    assert (finding.cost_ns > 0) != finding.is_about_results or rule == "recording_cost"
    assert 0 <= finding.device_idle_ns <= finding.cost_ns <= trace.span_ns
    assert found(play(*clean), rule) == []
