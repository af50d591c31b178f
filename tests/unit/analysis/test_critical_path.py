"""The critical path: small traces by hand, and slack against moving every operation forward in time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlane
from helpers.blueprint import blueprint
from helpers.happens import programs, trace_of
from overlane.analysis.critical_path import PATH_KINDS, critical_path
from overlane.analysis.dependencies import dependencies
from overlane.errors import OverlaneError


def path_of(trace, window=None):
    return critical_path(trace, dependencies(trace), window)


def links(path):
    rows = zip(
        path.op.tolist(), path.call.tolist(), path.start_ns.tolist(), path.end_ns.tolist(), strict=True
    )
    return [
        f"{PATH_KINDS[kind]} {op if op >= 0 else call} {start}-{end}"
        for (op, call, start, end), kind in zip(rows, path.kind, strict=True)
    ]


def test_the_chain_goes_over_streams_and_through_the_host():
    text = """
        call 1 cudaLaunchKernel 0-5
        op 1 s1 kernel 10-100
        call 2 cudaEventRecord 6-7
        record 2 s1 @6 event=1 sync=1
        call 3 cudaStreamWaitEvent 8-9
        wait 3 s2 8-9 event=1 sync=1
        call 4 cudaLaunchKernel 11-12
        op 4 s2 kernel 110-150
        call 5 cudaLaunchKernel 13-14
        op 5 s3 kernel 20-90
        call 6 cudaDeviceSynchronize 20-155
        call 7 cudaLaunchKernel 160-170
        op 7 s1 kernel 200-300
    """
    path = path_of(blueprint(text))
    assert links(path) == [
        "operation 0 10-100",
        "device_wait 2 100-110",
        "operation 2 110-150",
        "call 5 150-155",
        "host 6 155-160",
        "call 6 160-170",
        "launch 3 170-200",
        "operation 3 200-300",
    ]
    # The third one may grow from 90 to 150, when the synchronization waits for it; the others not at all.
    assert path.slack_ns.tolist() == [0, 60, 0, 0]


def test_a_window_cuts_both_ends():
    text = """
        call 1 cudaLaunchKernel 0-5
        op 1 s1 kernel 10-100
        call 2 cudaLaunchKernel 6-8
        op 2 s1 kernel 110-200
    """
    path = path_of(blueprint(text), (50, 150))
    assert links(path) == ["operation 0 50-100", "device_wait 1 100-110", "operation 1 110-150"]


def test_an_empty_window_has_no_path():
    trace = blueprint("op - s1 kernel 10-20")
    assert len(path_of(trace, (0, 5))) == 0
    assert len(path_of(blueprint(""))) == 0
    with pytest.raises(OverlaneError, match="ends before it starts"):
        path_of(trace, (5, 0))


@settings(max_examples=100, deadline=None)
@given(programs(), st.tuples(st.integers(0, 1500), st.integers(0, 1500)) | st.none())
def test_links_are_without_gaps_and_add_up_to_the_makespan(acts, window):
    window = window and (min(window), max(window))
    path = path_of(trace_of(acts)[0], window)
    total = int((path.end_ns - path.start_ns).sum())
    assert total == path.window[1] - path.window[0]
    assert (path.start_ns < path.end_ns).all()
    assert (path.start_ns[1:] == path.end_ns[:-1]).all()


@pytest.mark.parametrize(
    "name",
    [
        "sync-scope-event",
        "vector-add-pinned",
        "vector-add-pageable",
        "green-context-B",
        "default-stream-legacy",
    ],
)
def test_samples_add_up_and_what_is_on_the_path_may_not_grow(samples, name):
    trace = overlane.open_trace(samples[f"{name}.overlane"])
    path = path_of(trace)
    ops = trace.ops
    assert (path.end_ns - path.start_ns).sum() == ops["end_ns"].max() - ops["start_ns"].min()
    on_path = path.op[path.kind == PATH_KINDS.index("operation")]
    assert path.slack_ns[on_path].max() == 0
