"""Every rule on a small simulated program that has the fault, and on one that differs just enough not to."""

import pytest

from overlane import open_trace
from overlane.analysis.advice import RULES
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
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Capability, Header
from overlane_collect.schema import TABLES
from unit.timeline.traces import make_trace

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
    "allocation_once": (
        (SHORT, Allocate("x", 900 * US), Launch("b", 50 * US)),
        (Allocate("x", 900 * US), SHORT, Launch("b", 50 * US)),
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


def test_every_call_of_a_turn_of_the_loop_allocates_there():
    two = times(4, Allocate("x"), Allocate("y"), Launch("a", 20 * US), Free("x"), Free("y"))
    (finding,) = found(play(*two), "allocation_in_loop")
    assert {name: count for count, name in (part.split() for part in said(finding, " stand"))} == {
        "cuMemAlloc_v2": "6", "cuMemFree_v2": "6",
    }  # fmt: skip


def said(finding, until):
    return finding.finding.partition(until)[0].split(", ")


@pytest.mark.parametrize("call", [Allocate("x", 200 * US), AllocateAsync("x", "b")])
def test_a_call_that_waits_for_nothing_does_not_synchronize(call):
    assert found(play(SHORT, call, Launch("b", 10 * US)), "implicit_sync") == []


def test_what_is_not_ordered_by_mistake_is_not_independent():
    reads = Copy("b", "d2h", duration_ns=50 * US, accesses=TO_HOST)
    turn = (KERNEL, HostWork(100 * US), reads, HostWork(100 * US))
    apart = (KERNEL, HostWork(100 * US), COPY, HostWork(100 * US))
    assert found(play(*times(3, *turn)), "copies_never_overlap") == []
    assert found(play(*times(3, *apart)), "copies_never_overlap") != []


def test_what_an_unrecorded_event_may_order_is_not_called_independent(samples):
    advice = Study(open_trace(samples["torch_train_pinned.json.gz"])).advice
    assert "copies_never_overlap" not in {each.rule for each in advice.findings}
    (reason,) = (each.reason for each in advice.not_checked if each.rule == "copies_never_overlap")
    assert "(missing: event_records)" in reason


def test_copies_between_which_the_host_does_other_things_are_not_too_short():
    short = Copy("a", bytes=1 << 12, duration_ns=1 * US)
    assert found(play(*times(20, short)), "launches_cost_more_than_work") != []
    assert found(play(*times(20, short, HostWork(80 * US))), "launches_cost_more_than_work") == []
    assert found(play(*times(20, short, HostWork(80 * US))), "late_launches") != []


def test_short_copies_of_pageable_memory_are_waited_for_rather_than_slow():
    def change(size):
        copy = Copy("a", "d2h", is_pageable=True, bytes=size, duration_ns=500 * US)
        return found(play(*times(3, copy, Launch("b", 50 * US))), "pageable_copies")[0].change

    assert "few bytes" in change(1 << 10)
    assert "pin_memory" in change(1 << 24)


def test_one_long_launch_call_is_a_first_launch(samples):
    (finding,) = found(open_trace(samples["graph-replay-graph.overlane"]), "late_launches")
    assert "one launch call" in finding.change


def test_one_long_gap_is_not_answered_with_a_graph():
    pauses = (20, 20, 900)
    turns = [each for pause in pauses for each in (Launch("a", 20 * US), HostWork(pause * US, "load"))]
    (one,) = found(play(*turns, Launch("a")), "late_launches")
    assert "this one gap" in one.change
    (many,) = found(play(*CASES["late_launches"][0]), "late_launches")
    assert "CUDA graph" in many.change


def op(start_ns, end_ns, **columns):
    kind = {"engine": "compute", "kind": "kernel", "device_id": 0, "context_id": 1, "stream_id": 7}
    return kind | {"start_ns": start_ns, "end_ns": end_ns} | columns


def call(start_ns, end_ns, correlation_id, name="cuLaunchKernel"):
    return {
        "name": name,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "correlation_id": correlation_id,
        "thread_id": 1,
    }


def collectives(*durations, bytes_=4096):
    at = [10_000 * place for place in range(len(durations))]
    ops = [
        op(start, start + length, name="ncclAllReduce") for start, length in zip(at, durations, strict=True)
    ]
    rows = [{"op_id": place, "bytes": bytes_, "group": "0"} for place in range(len(durations))]
    return make_trace(ops=ops, collectives=rows)


def test_a_collective_that_took_longer_than_the_fastest_of_its_kind_has_waited():
    (finding,) = found(collectives(1_000, 1_200, 6_000), "waiting_counted_as_work")
    assert finding.cost_ns == 5_000
    assert finding.evidence[0].row_ids == (2,)
    assert found(collectives(1_000, 1_200, 1_900), "waiting_counted_as_work") == []
    assert found(collectives(1_000, 6_000), "waiting_counted_as_work") == [], "two are no usual length"
    assert found(collectives(1_000, 1_200, 6_000, bytes_=None), "waiting_counted_as_work") == []


PARTS = [
    {"device_id": 0, "context_id": 1, "sm_granted": 132},
    {
        "device_id": 0,
        "context_id": 2,
        "parent_context_id": 1,
        "name": "small",
        "sm_granted": 32,
        "tpc_mask": "ff",
    },
    {
        "device_id": 0,
        "context_id": 3,
        "parent_context_id": 1,
        "name": "rest",
        "sm_granted": 100,
        "tpc_mask": "f00",
    },
]
DEVICES = [{"device_id": 0, "compute_capability": "9.0", "sm_count": 132}]


def partitioned(*grids, start=0, overlap=False):
    ops = [
        op(
            start + (0 if overlap else 100 * place),
            start + 90 + 100 * place,
            context_id=2,
            partition_id=1,
            grid=grid,
        )
        for place, grid in enumerate(grids)
    ]
    return make_trace(ops=ops, partitions=PARTS, devices=DEVICES)


def test_a_partition_larger_than_all_its_blocks_is_too_large():
    (finding,) = found(partitioned([4, 1, 1], [2, 2, 2]), "partition_too_large")
    assert finding.change == "Ask for 8 SMs."
    assert "at no time more than 8 blocks" in finding.finding
    (finding,) = found(partitioned([8, 1, 1], [9, 1, 1], overlap=True), "partition_too_large")
    assert finding.change == "Ask for 24 SMs."
    assert found(partitioned([25, 1, 1]), "partition_too_large") == []
    assert found(partitioned([4, 1, 1], None), "partition_too_large") == []


def left(kind):
    """Blocks of a green context that stay on its SMs, or that leave them."""
    sms = range(9 if kind == "left" else 8)
    parts = [PARTS[0], PARTS[1] | {"sm_granted": 8}]
    blocks = [{"op_id": 0, "sm_id": sm, "start_ns": 0, "end_ns": 90} for sm in sms]
    return make_trace(ops=[op(0, 90, partition_id=1, context_id=2)], partitions=parts, blocks=blocks)


def test_work_on_more_sms_than_granted_left_its_partition():
    (finding,) = found(left("left"), "left_its_partition")
    assert "ran on 9 SMs, 1 more than it was granted" in finding.finding
    assert {proof.table for proof in finding.evidence} == {"blocks", "ops"}
    assert found(left("stayed"), "left_its_partition") == []


def test_work_beside_an_exclusive_partition_is_a_leak_only_where_declared():
    ops = [op(0, 90, partition_id=1, context_id=2), op(5, 90, partition_id=0)]
    blocks = [{"op_id": which, "sm_id": 3, "start_ns": 10, "end_ns": 80} for which in (0, 1)]
    trace = make_trace(ops=ops, partitions=PARTS[:2], blocks=blocks)
    assert found(trace, "left_its_partition") == []
    (finding,) = found(trace, "left_its_partition", exclusive=["small"])
    assert "declared exclusive" in finding.finding


def shared_queue(channel):
    """Two kernels of two streams, of which the second starts when the first is over, with room beside it."""
    calls = [call(0, 5, 1), call(10, 15, 2)]
    ops = [
        op(20, 50_000, correlation_id=1, queued_ns=2, channel_id=4, grid=[1, 1, 1], block=[32, 1, 1]),
        op(50_010, 60_000, correlation_id=2, queued_ns=12, channel_id=channel, stream_id=9, grid=[1, 1, 1],
           block=[32, 1, 1]),
    ]  # fmt: skip
    kinds = [
        {"device_id": 0, "context_id": 1, "stream_id": stream, "stream_kind": "nonblocking"}
        for stream in {row["stream_id"] for row in ops}
    ]
    whole = {name: Capability(proven=True, reason="Made up.") for name in ("all_kinds", "syncs", "whole_run")}
    return make_trace(
        header=Header("test", capabilities=whole), ops=ops, api_calls=calls, streams=kinds, devices=DEVICES
    )


def test_streams_that_share_a_queue_with_one_that_is_busy_are_too_many():
    (finding,) = found(shared_queue(4), "streams_share_queues")
    assert "2 streams share 1 hardware queues" in finding.finding
    assert found(shared_queue(5), "streams_share_queues") == []


def timed(stream, reads=True):
    """Two events recorded around a kernel that is launched into stream 9."""
    calls = [call(0, 5, 1, "cudaEventRecord"), call(10, 15, 2), call(20, 25, 3, "cudaEventRecord")]
    calls += [call(90, 95, 4, "cudaEventElapsedTime")] if reads else []
    records = [
        {"device_id": 0, "context_id": 1, "stream_id": stream, "cuda_event_id": event, "at_ns": at,
         "correlation_id": correlation}
        for event, at, correlation in ((11, 0, 1), (12, 20, 3))
    ]  # fmt: skip
    tables = {"event_records": table_from_columns(
        "event_records", {name: [row[name] for row in records] for name in records[0]}
    )}  # fmt: skip
    trace = make_trace(ops=[op(30, 80, correlation_id=2, stream_id=9)], api_calls=calls)
    return validate("made", trace.header, {name: trace.table(name) for name in TABLES} | tables)


def test_events_around_work_of_another_stream_time_nothing():
    (finding,) = found(timed(stream=7), "timing_elsewhere")
    assert finding.is_about_results
    assert finding.evidence[0].row_ids == (0, 1)
    assert found(timed(stream=9), "timing_elsewhere") == []
    assert found(timed(stream=7, reads=False), "timing_elsewhere") == []


def test_what_cannot_be_proven_is_named_and_not_found():
    advice = Study(timed(stream=7, reads=False)).advice
    reasons = {item.rule: item.reason for item in advice.not_checked}
    assert reasons["timing_elsewhere"].startswith(
        "No call that reads the time between two events was recorded"
    )
    assert reasons["unordered_accesses"].endswith("(missing: buffer_accesses)")
    assert not set(reasons) & set(advice.checked)
    assert set(reasons) | set(advice.checked) == {rule.name for rule in RULES}


def test_the_words_of_the_header_decide_what_is_missing():
    header = Header("test", capabilities={"collectives": Capability(False, "the source was cut.")})
    reasons = {item.rule: item.reason for item in Study(make_trace(header=header)).advice.not_checked}
    assert reasons["waiting_counted_as_work"] == "The source was cut. (missing: collectives)"


def test_findings_come_with_results_first_and_then_by_cost(samples):
    advice = Study(open_trace(samples["stream-contract-missing-wait.overlane"])).advice
    assert advice.findings[0].rule == "unordered_accesses"
    costs = [each.cost_ns for each in advice.findings if not each.is_about_results]
    assert costs == sorted(costs, reverse=True)
    assert len(costs) > 1


def test_what_costs_less_than_a_thousandth_is_left_out(samples):
    study = Study(open_trace(samples["green-context-C.overlane"]))
    least = sum(device.window_ns for device in study.engines.devices) / 1000
    assert study.advice.left_out > 0
    assert all(each.cost_ns >= least or each.is_latency for each in study.advice.findings)


@pytest.mark.parametrize(
    ("sample", "first"),
    [
        ("vector-add-pageable", "pageable_copies"), ("default-stream-legacy", "legacy_default_stream"),
        ("launch-bound", "launches_cost_more_than_work"), ("sync-scope-device", "device_sync_in_loop"),
        ("stream-contract-missing-wait", "unordered_accesses"),
    ],
)  # fmt: skip
def test_each_sample_says_first_what_was_wrong_with_it(samples, sample, first):
    assert Study(open_trace(samples[f"{sample}.overlane"])).advice.findings[0].rule == first


@pytest.mark.parametrize(
    ("sample", "rule"),
    [
        ("default-stream-nonblocking", "legacy_default_stream"), ("default-stream-per-thread", "sms_full"),
        ("sync-scope-none", "device_sync_in_loop"), ("stream-contract-clean", "unordered_accesses"),
        ("alloc-in-loop-before", "allocation_in_loop"), ("alloc-in-loop-async", "allocation_in_loop"),
        ("vector-add-pinned", "pageable_copies"), ("green-context-A", "sms_full"),
        ("lazy-load-eager", "code_loading"), ("two-contexts", "sms_full"),
    ],
)  # fmt: skip
def test_a_sample_without_the_fault_has_no_such_finding(samples, sample, rule):
    assert found(open_trace(samples[f"{sample}.overlane"]), rule) == []
