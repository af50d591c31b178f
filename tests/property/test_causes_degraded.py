"""A file that says less gives fewer causes, and never a wrong one."""

import itertools

import pytest

from overlane.analysis.causes import CAUSE_NAMES
from overlane.analysis.dependencies import dependencies
from overlane.analysis.waits import waits
from overlane.readers import open_trace
from overlane.samples import sample_paths
from overlane.simulate import run
from overlane.simulate.degrade import KINDS, without
from overlane.simulate.generate import random_program
from overlane_collect.schema import TABLES

PROGRAMS = 40


def parts_of(trace):
    """Parts by operation: start, end, cause, and all causes that were open."""
    found = waits(trace, dependencies(trace))
    by_op = {}
    for op, start, end, cause, bits in zip(
        *(c.tolist() for c in (found.op, found.start_ns, found.end_ns, found.cause, found.also_open)),
        strict=True,
    ):
        also = {name for code, name in enumerate(CAUSE_NAMES) if bits >> code & 1}
        by_op.setdefault(op, []).append((start, end, CAUSE_NAMES[cause], also | {CAUSE_NAMES[cause]}))
    return by_op


def invented(full, less):
    """Parts whose cause the full trace does not name at some instant of theirs."""
    wrong = []
    for op, parts in less.items():
        for start, end, cause, _ in parts:
            for low, high, _, open_causes in full.get(op, ()):
                if low < end and high > start and cause != "unknown" and not {cause, "unknown"} & open_causes:
                    wrong.append((op, max(low, start), min(high, end), cause, sorted(open_causes)))
    return wrong


@pytest.fixture(scope="module")
def simulated():
    traces = [run(random_program(seed)).trace for seed in range(PROGRAMS)]
    return [(trace, parts_of(trace)) for trace in traces]


@pytest.fixture(scope="module")
def recorded():
    paths = [path for path in sample_paths() if path.suffix == ".overlane"]
    assert len(paths) > 30
    traces = [open_trace(path) for path in paths]
    return [(trace, parts_of(trace)) for trace in traces]


@pytest.mark.parametrize("kind", KINDS)
def test_no_cause_is_invented(kind, simulated, recorded):
    for trace, full in itertools.chain(simulated, recorded):
        assert invented(full, parts_of(without(trace, kind))) == [], trace


def test_without_launch_times_there_are_no_waits(simulated, recorded):
    for trace, _ in itertools.chain(simulated, recorded):
        assert parts_of(without(trace, "launch times")) == {}


# Written from the schema, apart from what takes the rows out: columns of `ops` and others, and whole tables.
GONE = {
    "launch times": {"ops": {"queued_ns", "submitted_ns", "correlation_id"}},
    "queued stamps": {"ops": {"queued_ns", "submitted_ns"}},
    "sync ids": {
        "syncs": {"cuda_event_sync_id", "waits_on_correlation_id", "waits_on_stream_id"},
        "event_records": {"cuda_event_sync_id"},
    },
    "stream kinds": {"streams": {"stream_kind"}},
    "priorities": {"ops": {"priority"}, "streams": {"priority"}},
    "memory kinds": {"ops": {"src_memory", "dst_memory"}},
    "shapes": {"ops": {"grid", "block", "cluster", "registers", "shared_bytes"}},
    "graph nodes": {"ops": {"graph_id", "graph_node_id"}},
    "completion stamps of events": {"event_records": {"device_ns"}},
    "sync rows": {"syncs": None},
    "event records": {"event_records": None},
    "overheads": {"overheads": None},
    "graph edges": {"graph_edges": None},
    "allocations": {"allocations": None},
    "ranges": {"ranges": None},
    "stream rows": {"streams": None},
    "host calls": {"api_calls": None},
    "partitions": {"ops": {"partition_id"}, "partitions": None},
}


def holds(trace, kind):
    """Whether the trace has something of each table that the kind names."""
    return all(
        trace.table(name).num_rows
        if columns is None
        else any(trace.table(name)[column].null_count < trace.table(name).num_rows for column in columns)
        for name, columns in GONE[kind].items()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_out_is_gone_and_nothing_else(kind, simulated, recorded):
    trace = next(trace for trace, _ in itertools.chain(simulated, recorded) if holds(trace, kind))
    less = without(trace, kind)
    for name in TABLES:
        before, after = trace.table(name), less.table(name)
        columns = GONE[kind].get(name, set())
        if columns is None:
            assert after.num_rows == 0
            continue
        assert after.num_rows == before.num_rows
        for column in before.schema.names:
            if column in columns:
                assert after[column].null_count == after.num_rows, column
            else:
                assert after[column].equals(before[column]), (name, column)


def test_an_unknown_kind_is_refused(simulated):
    with pytest.raises(KeyError):
        without(simulated[0][0], "colours")


def test_an_invented_cause_is_noticed():
    full = {0: [(0, 10, "event_wait", {"event_wait"})]}
    assert invented(full, {0: [(4, 20, "launch_latency", {"launch_latency"})]}) == [
        (0, 4, 10, "launch_latency", ["event_wait"])
    ]
    assert invented(full, {0: [(0, 10, "unknown", {"unknown"})]}) == []
