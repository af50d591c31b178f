"""The simulator does what was measured on an H200 (driver 580)."""

import pytest

from overlane.simulate import (
    Buffer,
    Context,
    Copy,
    Costs,
    Device,
    EventSync,
    Free,
    HostFunction,
    ImplicitCall,
    Launch,
    Memset,
    Program,
    Record,
    Stream,
    StreamSync,
    Thread,
    WaitEvent,
    run,
)  # fmt: skip

MS = 1_000_000
DEVICE = Device(sm_count=132)
CONTEXTS = (Context(1), Context(2, parent=1, sms=(0, 8)))
KINDS = ("legacy", "per-thread", "blocking", "another blocking", "non-blocking", "green")
STREAMS = (
    Stream("legacy", "legacy_default"),
    Stream("per-thread", "per_thread_default"),
    Stream("blocking", "blocking"),
    Stream("another blocking", "blocking"),
    Stream("non-blocking", "nonblocking"),
    Stream("green", "nonblocking", context_id=2),
    Stream("third", "nonblocking"),
)
WAITED = {  # the measured table, a row a line: W only after the first had ended
    "legacy": "sWWW..",
    "per-thread": "Ws....",
    "blocking": "W.s...",
    "non-blocking": "....s.",
    "green": ".....s",
}


def play(*statements, buffers=(), costs=None):
    program = Program((Thread(statements),), STREAMS, (DEVICE,), CONTEXTS, buffers, costs=costs or Costs())
    return run(program)


def kernel(stream, ns=5 * MS, **kwargs):
    return Launch(stream, ns, threads=1, **kwargs)


def by_issue(played):
    return sorted(played.operations, key=lambda operation: operation.number)


@pytest.mark.parametrize("first", WAITED)
@pytest.mark.parametrize("second", KINDS)
def test_the_first_table(first, second):
    a, b = by_issue(play(kernel(first), kernel(second)))
    has_waited = b.start_ns >= a.end_ns
    assert has_waited == (WAITED[first][KINDS.index(second)] in "sW")


def test_the_default_stream_experiment():
    """Two streams, the legacy one, the first again: 20.4 ms with blocking streams, else 14.2 ms."""
    ns = 6_800_000
    blocking = by_issue(
        play(*(kernel(s, ns) for s in ("blocking", "another blocking", "legacy", "blocking")))
    )
    assert blocking[2].start_ns - blocking[2].command.issued_ns == pytest.approx(6.67 * MS, rel=0.03)
    assert blocking[3].start_ns >= blocking[2].end_ns
    assert blocking[3].end_ns == pytest.approx(20.4 * MS, rel=0.01)
    free = by_issue(play(*(kernel(s, ns) for s in ("non-blocking", "third", "legacy", "non-blocking"))))
    assert free[3].end_ns == pytest.approx(13.6 * MS, rel=0.05)
    assert free[2].start_ns < free[0].end_ns


def test_a_wait_on_a_never_recorded_event_does_not_wait():
    a, b = by_issue(play(kernel("non-blocking"), WaitEvent("third", "e"), kernel("third")))
    assert b.start_ns < a.end_ns


def test_a_wait_keeps_to_the_record_that_was_there():
    a, b, c = by_issue(
        play(
            kernel("non-blocking", MS), Record("e", "non-blocking"), WaitEvent("third", "e"),
            kernel("non-blocking"), Record("e", "non-blocking"), kernel("third"),
        )
    )  # fmt: skip
    assert a.end_ns <= c.start_ns < b.end_ns


@pytest.mark.parametrize("stream", ["blocking", "non-blocking"])
def test_the_host_blocks_behind_1021_launches(stream):
    played = play(*(kernel(stream, 20 * MS if k == 0 else 1_000) for k in range(1_023)))
    full = [call for call in played.host.calls if call.queue_full is not None]
    assert len(played.operations) == 1_023
    assert [played.host.calls.index(call) for call in full] == [1_022]  # one runs, 1,021 are queued
    assert full[0].queue_full[1] >= by_issue(played)[0].end_ns


HELD, FREE = "held", "free"
# Call while a 20 ms kernel runs on a non-blocking stream, and whether the host is held until that kernel's
# end; a kernel issued afterwards on a third stream then comes after it.
IMPLICIT = [
    (Free("buffer"), HELD),
    (ImplicitCall("cuMemFreeHost"), HELD),
    (ImplicitCall("cuMemHostUnregister"), HELD),
    (ImplicitCall("cuModuleLoadData"), HELD),
    (ImplicitCall("cuModuleUnload"), HELD),
    (ImplicitCall("cuGreenCtxCreate"), HELD),
    (ImplicitCall("cuCtxSetLimit"), HELD),
    (ImplicitCall("cuGreenCtxDestroy"), FREE),
    (ImplicitCall("cuMemAlloc_v2", duration_ns=400_000), FREE),
    (ImplicitCall("cuMemHostAlloc", duration_ns=10 * MS), FREE),
    (ImplicitCall("cuMemHostRegister_v2", duration_ns=700_000), FREE),
    (ImplicitCall("cuStreamCreateWithPriority"), FREE),
    (ImplicitCall("cuStreamDestroy_v2"), FREE),
    (ImplicitCall("cuEventCreate"), FREE),
    (ImplicitCall("cuEventDestroy_v2"), FREE),
    (ImplicitCall("cuMemGetInfo_v2"), FREE),
    (Record("e", "legacy"), FREE),
    (Memset("third"), FREE),
    (Copy("legacy", "d2d", is_async=False), FREE),
    (Memset("legacy"), FREE),
    (Copy("third", "h2d", 1_700_000, 16 << 20, is_pageable=True), FREE),
    (Copy("third", "d2h", 2_500_000, 16 << 20, is_pageable=True), FREE),
    (Copy("third", "h2d", 300_000, 16 << 20), FREE),
    (Copy("legacy", "h2d", 10_000, 4096, is_pageable=True, is_async=False), FREE),
    (Copy("legacy", "d2h", 10_000, 4096, is_pageable=True, is_async=False), FREE),
    (Copy("non-blocking", "h2d", 1_700_000, 16 << 20, is_pageable=True), HELD),
    (Copy("non-blocking", "h2d", 2_000, 16 << 10, is_pageable=True), FREE),
    (Copy("non-blocking", "d2h", 2_000, 16 << 10, is_pageable=True), HELD),
]


@pytest.mark.parametrize(("call", "held"), IMPLICIT, ids=lambda value: getattr(value, "name", None))
def test_what_a_call_holds_beside_an_unrelated_kernel(call, held):
    played = play(kernel("non-blocking", 20 * MS), call, kernel("green", MS), buffers=(Buffer("buffer"),))
    long = next(o for o in played.operations if o.end_ns - o.start_ns == 20 * MS)
    later = next(o for o in played.operations if o.command.stream.spec.name == "green")
    made = played.host.calls[1]
    assert (made.end_ns >= long.end_ns) == (held == HELD)
    assert (later.start_ns >= long.end_ns) == (held == HELD)


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_a_synchronous_copy_beside_a_blocking_stream_holds_the_host(direction):
    copy = Copy("legacy", direction, 10_000, 4096, is_pageable=True, is_async=False)
    played = play(kernel("blocking", 20 * MS), copy, kernel("third", MS))
    long, _, later = by_issue(played)
    assert played.host.calls[1].end_ns >= long.end_ns
    assert later.start_ns >= long.end_ns


def test_lazy_loading_holds_the_kernel_and_not_the_host():
    played = play(kernel("non-blocking", 20 * MS), kernel("third", MS, loads_code=True))
    long, later = by_issue(played)
    assert played.host.calls[1].end_ns - played.host.calls[1].start_ns < 100_000
    assert later.start_ns >= long.end_ns
    assert [part.cause for part in played.truth.waits if part.op_id == 1] == [
        "module_load", "launch_latency",
    ]  # fmt: skip


def test_priority_does_not_preempt_and_partitions_do_not_need_it():
    """A critical kernel behind bulk kernels: with SMs of its own none, with priority one wave, else all."""
    bulk = [Launch("bulk", 20_000, blocks=132 * 8 * 4, threads=256) for _ in range(4)]
    waits = {}
    for name, critical, contexts, bulk_context in (
        ("partition", Stream("critical", context_id=2), (*CONTEXTS, Context(3, parent=1, sms=(8, 132))), 3),
        ("priority", Stream("critical", priority=-5), (Context(1),), 1),
        ("neither", Stream("critical"), (Context(1),), 1),
    ):  # fmt: skip
        streams = (critical, Stream("bulk", context_id=bulk_context))
        program = Program((Thread((*bulk, Launch("critical", 2_000))),), streams, (DEVICE,), contexts)
        played = run(program)
        operation = next(o for o in played.operations if o.command.stream.spec.name == "critical")
        waits[name] = operation.start_ns - operation.command.issued_ns
    assert waits["partition"] == Costs().kernel_ns
    assert waits["partition"] < waits["priority"] <= 20_000 + Costs().kernel_ns
    assert waits["neither"] > 3 * 20_000


def test_a_stream_that_the_host_function_holds():
    played = play(
        HostFunction("third", 600_000), kernel("third", MS), StreamSync("third"), EventSync("never")
    )
    part = played.truth.waits[0]
    assert (part.cause, part.end_ns) == ("host_function", 600_000 + 750)
