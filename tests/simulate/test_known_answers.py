"""One small program for each cause, whose answer can be reckoned by hand.

A launch takes 4,000 ns, of which 1,000 are left when the work has been queued; a mark in a stream 1,000; a
kernel starts 1,500 ns, a copy 1,200 ns after all that it needs; a synchronization returns 2,000 ns after the
end that it waited for. The first launch of a thread is queued at 3,000 and starts at 4,500. Both the truth
and the analysis have to give the expected parts, as causes with their lengths in ns.
"""

import pyarrow as pa
import pytest

from overlane.analysis.causes import CAUSE_NAMES, CAUSES
from overlane.analysis.dependencies import dependencies
from overlane.analysis.idle import SCOPES, idle
from overlane.analysis.waits import waits
from overlane.simulate import (
    Buffer,
    Context,
    Copy,
    Costs,
    Free,
    Graph,
    GraphLaunch,
    HostFunction,
    HostWork,
    ImplicitCall,
    Launch,
    Node,
    Program,
    Record,
    Recording,
    Release,
    Stream,
    StreamSync,
    Thread,
    ValueWait,
    WaitEvent,
    run,
)  # fmt: skip
from overlane.tables import array_of, empty_table
from overlane.validation import validate
from overlane_collect.schema import TABLES

LONG = 60_000
FULL = {"blocks": 8, "threads": 1024}  # takes all threads of the four SMs
STREAMS = (
    Stream("s"), Stream("t"), Stream("urgent", priority=-5), Stream("legacy", "legacy_default"),
    Stream("blocking", "blocking"), Stream("other", context_id=2),
)  # fmt: skip
CONTEXTS = (Context(1), Context(2))
GRAPHS = (Graph("g", (Node(Launch("", LONG)),)),)


def program(*statements, beside=(), **more):
    threads = (Thread(statements), *([Thread(beside)] if beside else []))
    buffers = (Buffer("b"),)
    return Program(threads, STREAMS, contexts=CONTEXTS, graphs=GRAPHS, buffers=buffers, **more)


FLAGGED = (ValueWait("s", "flag"), Record("e", "s"), Launch("s"))

WAITS = {  # what is done, and the wait of the operation that starts last
    "launch_latency": (program(Launch("s")), [("launch_latency", 1_500)]),
    "stream_order": (
        program(Launch("s", LONG), Launch("s")),  # queued at 7,000, the first ends at 64,500
        [("stream_order", 57_500), ("launch_latency", 1_500)],
    ),
    "event_wait": (
        program(Launch("t", LONG), Record("e", "t"), WaitEvent("s", "e"), Launch("s")),  # queued at 9,000
        [("event_wait", 55_500), ("launch_latency", 1_500)],
    ),
    "legacy_default_stream": (
        program(Launch("blocking", LONG), Launch("legacy")),
        [("legacy_default_stream", 57_500), ("launch_latency", 1_500)],
    ),
    "graph_order": (  # the only node, whose earlier launch runs from 4,500 to 64,500
        program(GraphLaunch("g", "s"), GraphLaunch("g", "t")),
        [("graph_order", 56_500), ("launch_latency", 1_500)],
    ),
    "host_function": (  # queued at 750, and over at 60,750, which the record behind it shows
        program(HostFunction("s", LONG), Record("e", "s"), Launch("s")),
        [("host_function", 55_750), ("launch_latency", 1_500)],
    ),
    "value_wait": (
        program(*FLAGGED, beside=(HostWork(LONG), Release("flag"))),  # set at 60,000
        [("value_wait", 55_000), ("launch_latency", 1_500)],
    ),
    "blocking_copy": (  # from the start of its call: queued at 3,000, then 1,200 and staging of 3,000
        program(Copy("s", is_pageable=True)),
        [("blocking_copy", 7_200)],
    ),
    "copy_engine_busy": (
        program(Copy("t", duration_ns=LONG), Copy("s")),  # issued at 8,000, the engine is free at 64,200
        [("copy_engine_busy", 56_200)],
    ),
    "partition_busy": (program(Launch("t", LONG, **FULL), Launch("s")), [("partition_busy", 57_500)]),
    "priority": (  # the urgent one is issued last and served first
        program(Launch("t", LONG, **FULL), Launch("s", **FULL), Launch("urgent", 10_000, **FULL)),
        [("partition_busy", 57_500), ("priority", 10_000)],
    ),
    "context_switch": (program(Launch("other", LONG), Launch("s")), [("context_switch", 57_500)]),
    "module_load": (  # its call loads for 70,000, so it is queued at 77,000; the other one ends at 124,500
        program(Launch("t", 2 * LONG), Launch("s", loads_code=True)),
        [("module_load", 47_500), ("launch_latency", 1_500)],
    ),
}  # fmt: skip

# What is done between two launches into stream `s`, whose first kernel runs from 8,500 to 9,500 beside one of
# stream `t` until 64,500, and the gap of stream `s`. The second launch takes 3,000 to be queued.
LAUNCHED = [("late_launch", 3_000), ("launch_latency", 1_500)]
IDLE = {
    "late_launch": ((HostWork(LONG),), [("late_launch", 61_500), ("launch_latency", 1_500)]),
    "host_sync": ((StreamSync("t"),), [("host_sync", 57_000), *LAUNCHED]),
    "allocation": ((Free("b"),), [("allocation", 57_000), *LAUNCHED]),
    "module_load": ((ImplicitCall("cuModuleLoadData"),), [("module_load", 57_000), *LAUNCHED]),
    "implicit_sync": ((ImplicitCall("cuCtxSetLimit"),), [("implicit_sync", 57_000), *LAUNCHED]),
    "blocking_copy": (  # starts at 65,700, once the kernel has ended, and takes 50,000
        (Copy("t", "d2h", 50_000, is_pageable=True),),
        [("blocking_copy", 111_200), *LAUNCHED],
    ),
    "profiler_overhead": ((Recording(LONG),), [("profiler_overhead", 58_500), *LAUNCHED]),
    "launch_queue_full": (  # two of these wait behind the kernel of `t`, the third until it has ended
        (Launch("t"), Launch("t"), Launch("t")),
        [("late_launch", 6_500), ("launch_queue_full", 50_000), ("late_launch", 7_000), LAUNCHED[1]],
    ),
}


def merged(parts):
    """Return cause and length of parts, those of one cause behind one another as one."""
    found = []
    for cause, length in parts:
        before = found.pop()[1] if found and found[-1][0] == cause else 0
        found.append((cause, before + length))
    return found


def waits_of(trace, op_id):
    found = waits(trace, dependencies(trace))
    return merged(
        (CAUSE_NAMES[found.cause[k]], int(found.end_ns[k] - found.start_ns[k]))
        for k in range(len(found.op))
        if found.op[k] == op_id
    )


def gaps_of(trace, name):
    deps = dependencies(trace)
    found = idle(trace, deps, waits(trace, deps))
    return merged(
        (CAUSE_NAMES[found.cause[k]], int(found.part_end_ns[k] - found.part_start_ns[k]))
        for k, gap in enumerate(found.gap.tolist())
        if SCOPES[found.scope[gap]] == "stream" and deps.streams[found.owner[gap]].name == name
    )


@pytest.mark.parametrize("cause", WAITS)
def test_a_wait(cause):
    what, expected = WAITS[cause]
    played = run(what)
    last = len(played.operations) - 1
    parts = [(p.cause, p.end_ns - p.start_ns) for p in played.truth.waits if p.op_id == last]
    assert merged(parts) == expected
    assert waits_of(played.trace, last) == expected
    assert cause in dict(expected)


@pytest.mark.parametrize("cause", IDLE)
def test_a_gap(cause):
    between, expected = IDLE[cause]
    costs = Costs(queue_depth=2) if cause == "launch_queue_full" else Costs()
    played = run(program(Launch("t", LONG), Launch("s", 1_000), *between, Launch("s"), costs=costs))
    stream = played.machine.streams["s"].stream_id
    parts = [
        (p.cause, p.end_ns - p.start_ns)
        for p in played.truth.idle
        if p.scope == "stream" and p.owner[1] == stream
    ]
    assert merged(parts) == expected
    assert gaps_of(played.trace, "s") == expected
    assert cause in dict(expected)


def held_by_nothing_recorded(channels):
    """A kernel that starts when an event would have let it, in a recording in which there is none."""
    trace = run(WAITS["event_wait"][0]).trace
    tables = {name: trace.table(name) for name in TABLES} | {
        name: empty_table(name) for name in ("syncs", "event_records")
    }
    calls, ops = tables["api_calls"], tables["ops"]
    is_launch = array_of([name == "cuLaunchKernel" for name in calls["name"].to_pylist()], pa.bool_())
    tables["api_calls"] = calls.filter(is_launch)
    column = ops.schema.get_field_index("channel_id")
    tables["ops"] = ops.set_column(column, ops.field(column), array_of(channels, ops.field(column).type))
    return validate(trace.name, trace.header, tables)


def test_what_a_hardware_queue_holds():
    """The simulator has none, so a program of another kind gives the instants."""
    assert waits_of(held_by_nothing_recorded([3, 3]), 1) == [
        ("channel_shared", 55_500),
        ("launch_latency", 1_500),
    ]


def test_what_nothing_tells_is_unknown():
    assert waits_of(held_by_nothing_recorded([3, 4]), 1) == [("unknown", 57_000)]


def test_every_cause_has_its_program():
    assert {*WAITS, *IDLE, "channel_shared", "unknown"} == {cause.name for cause in CAUSES}
