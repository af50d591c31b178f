"""Random small traces: each nanosecond has the cause of the oracle; and what missing rows may change."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.blueprint import trace_of
from helpers.causes_oracle import Oracle
from overlane.analysis.causes import CAUSE_NAMES, CAUSES
from overlane.analysis.dependencies import dependencies
from overlane.analysis.idle import SCOPES, idle
from overlane.analysis.waits import waits
from overlane.readers import open_trace
from overlane.samples import sample_paths
from overlane.tables import null_array
from overlane.trace import Trace
from overlane_collect.schema import TABLES

PLACE = {"device_id": 0, "context_id": 1, "process_id": 1}
KINDS = ["legacy_default", "blocking", "per_thread_default", "nonblocking", "nonblocking"]
CALLS = {
    "kernel": "cuLaunchKernel",
    "memcpy": "cuMemcpyHtoDAsync",
    "pageable": "cuMemcpyHtoDAsync",
    "record": "cuEventRecord",
    "wait": "cuStreamWaitEvent",
    "malloc": "cudaMalloc",
    "load": "cuModuleLoadData",
    "limit": "cuCtxSetLimit",
    "sync": "cudaStreamSynchronize",
}
STEPS = [
    "kernel",
    "kernel",
    "memcpy",
    "pageable",
    "record",
    "wait",
    "malloc",
    "load",
    "limit",
    "sync",
    "think",
]


@st.composite
def programs(draw):
    """Return a trace of one thread that issues work to some streams; the device runs it by CUDA's rules."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(STEPS),
                st.integers(0, 4),
                st.integers(1, 9),
                st.integers(0, 30),
                st.integers(0, 6),
            ),
            min_size=1,
            max_size=14,
        )
    )
    rows = {name: [] for name in ("ops", "api_calls", "syncs", "event_records")}
    rows["streams"] = [PLACE | {"stream_id": n, "stream_kind": kind} for n, kind in enumerate(KINDS)]
    now, at_work = 0, 0
    for number, (what, stream, length, work, slack) in enumerate(steps, 1):
        call = PLACE | {"thread_id": 1, "api": "driver", "start_ns": now, "end_ns": now + length}
        call["correlation_id"] = number
        own = {"stream_id": stream, "correlation_id": number}
        if what in CALLS:
            rows["api_calls"].append(call | {"name": CALLS[what]})
        if what in {"kernel", "memcpy", "pageable"}:
            # Starts are any: the rules of causes must hold for each, not only for what a device would do.
            start = now + slack + draw(st.sampled_from([0, 0, at_work]))
            op = PLACE | own | {"kind": "kernel", "name": what, "start_ns": start, "end_ns": start + work}
            if what == "kernel":
                op["queued_ns"] = draw(st.sampled_from([None, now + length // 2]))
            else:
                memory = "pinned" if what == "memcpy" else "pageable"
                op |= {"kind": "memcpy", "engine": "copy_h2d", "src_memory": memory, "dst_memory": "device"}
            rows["ops"].append(op)
            at_work = max(at_work, start + work - now)
        elif what == "record":
            rows["event_records"].append(
                PLACE | own | {"thread_id": 1, "at_ns": now, "cuda_event_sync_id": number}
            )
        elif what == "wait":
            made = [row["cuda_event_sync_id"] for row in rows["event_records"]]
            wanted = made[work % len(made)] if made else None  # none: never recorded
            rows["syncs"].append(
                call | own | {"sync_kind": "stream_wait_event", "cuda_event_sync_id": wanted}
            )
        at_work = max(at_work - length - 1, 0)
        now += length + 1
    for row in rows["syncs"]:
        row.pop("api", None)
    return trace_of({name: listed for name, listed in rows.items() if listed})


@settings(max_examples=150, deadline=None)
@given(programs())
def test_every_nanosecond_has_the_cause_of_the_oracle(trace):
    oracle = Oracle(trace)
    deps = dependencies(trace)
    found = waits(trace, deps)
    for op in range(len(oracle.ops)):
        assert deps.issued_ns[op] == oracle.issued(op)
        covered = set()
        for k in np.flatnonzero(found.op == op):
            for at in range(found.start_ns[k], found.end_ns[k]):
                assert CAUSES[found.cause[k]].name in oracle.wait_causes(op, at), (op, at)
                covered.add(at)
        assert covered == set(range(oracle.issued(op), oracle.ops[op]["start_ns"]))


@settings(max_examples=80, deadline=None)
@given(programs())
def test_every_idle_nanosecond_has_the_cause_of_the_oracle(trace):
    oracle = Oracle(trace)
    deps = dependencies(trace)
    found = idle(trace, deps, waits(trace, deps))
    for k, gap in enumerate(found.gap):
        following = int(found.next_op[gap])
        for at in range(found.part_start_ns[k], found.part_end_ns[k]):
            assert CAUSES[found.cause[k]].name in oracle.idle_cause(following, at), (following, at)
    for scope, key in enumerate(("stream_id", None, "device_id")):
        if key is None:
            continue
        for owner in {row[key] for row in oracle.ops}:
            mine = [row for row in oracle.ops if row[key] == owner]
            low, high = min(row["start_ns"] for row in mine), max(row["start_ns"] for row in mine)
            busy = {t for row in mine for t in range(row["start_ns"], row["end_ns"])}
            gaps = {
                t
                for g in np.flatnonzero(found.scope == scope)
                if oracle.ops[int(found.next_op[g])][key] == owner
                for t in range(found.start_ns[g], found.end_ns[g])
            }
            assert gaps == set(range(low, high)) - busy
    assert SCOPES[1] == "partition"


def without(trace, table=None, **columns):
    """Return a trace without a table, or with some columns null."""
    tables = {}
    for name in TABLES:
        rows = trace.table(name)
        if name == table:
            rows = rows.slice(0, 0)
        for column in columns.get(name, ()):
            place = rows.schema.get_field_index(column)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, null_array(field.type, rows.num_rows))
        tables[name] = rows
    return Trace(trace.name, trace.header, tables)


REMOVED = {
    "synchronizations": {"table": "syncs"},
    "event records": {"table": "event_records"},
    "kinds of streams": {"streams": ["stream_kind"]},
    "sync ids": {"syncs": ["cuda_event_sync_id"], "event_records": ["cuda_event_sync_id"]},
    "memory kinds": {"ops": ["src_memory", "dst_memory"]},
    "sizes of kernels": {"ops": ["grid", "block"]},
    "devices": {"table": "devices"},
    "overheads": {"table": "overheads"},
    "partitions": {"table": "partitions"},
    "completion stamps": {"event_records": ["device_ns"]},
    "queued stamps": {"ops": ["queued_ns"]},
    "priorities": {"ops": ["priority"], "streams": ["priority"]},
    "allocations": {"table": "allocations"},
    "ranges": {"table": "ranges"},
}


PER_SAMPLE = len(REMOVED) if os.environ.get("OVERLANE_REMOVALS") == "all" else 3


def removals(place):
    """Return what is removed from the sample at a place in their list: a few, so that all have their turn."""
    names = list(REMOVED)
    return [names[(PER_SAMPLE * place + k) % len(names)] for k in range(PER_SAMPLE)]


def invented(whole, part):
    """Return stretches of which `part` names a cause that `whole` knows not to have been open there."""
    begins = np.searchsorted(whole.op, np.arange(len(whole.wait_ns) + 1))
    found = []
    for op, start, end, code in zip(part.op, part.start_ns, part.end_ns, part.cause, strict=True):
        if CAUSES[code].name == "unknown":
            continue
        for k in range(begins[op], begins[op + 1]):
            low, high = max(whole.start_ns[k], start), min(whole.end_ns[k], end)
            told = int(whole.also_open[k]) | 1 << int(whole.cause[k])
            if low < high and CAUSES[whole.cause[k]].name != "unknown" and not told >> int(code) & 1:
                found.append((int(op), int(low), int(high), CAUSES[code].name, CAUSES[whole.cause[k]].name))
    return found


@pytest.mark.parametrize(("place", "path"), list(enumerate(sample_paths())), ids=str)
def test_fewer_rows_give_fewer_causes_and_never_wrong_ones(place, path):
    """A few kinds of rows for each sample; all of them where `OVERLANE_REMOVALS` is `all`."""
    trace = open_trace(path)
    whole = waits(trace, dependencies(trace))
    for removed in removals(place):
        less = without(trace, **REMOVED[removed])
        assert invented(whole, waits(less, dependencies(less))) == [], removed


def test_an_invented_cause_is_noticed():
    trace = open_trace(next(path for path in sample_paths() if path.stem == "default-stream-legacy"))
    whole = waits(trace, dependencies(trace))
    held = whole.cause == CAUSE_NAMES.index("legacy_default_stream")
    assert held.any()
    named = replace(whole, cause=np.where(held, CAUSE_NAMES.index("launch_latency"), whole.cause))
    assert len(invented(whole, named)) == held.sum()


@pytest.mark.parametrize("path", [p for p in sample_paths() if p.suffix == ".overlane"], ids=lambda p: p.stem)
def test_without_launch_times_there_are_no_waits(path):
    # Nodes of graphs are issued by the device, at the end of their predecessors.
    trace = without(without(open_trace(path), table="graph_edges"), table="api_calls", ops=["queued_ns"])
    deps = dependencies(trace)
    assert len(waits(trace, deps).op) == 0
