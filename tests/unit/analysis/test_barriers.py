"""Barriers: whom each held, for how long, in which order."""

from __future__ import annotations

from helpers.blueprint import blueprint
from overlane.analysis.barriers import barriers
from overlane.analysis.dependencies import dependencies
from overlane.analysis.idle import idle
from overlane.analysis.waits import waits


def found_in(text):
    trace = blueprint(text)
    deps = dependencies(trace)
    cut = waits(trace, deps)
    found = barriers(trace, deps, cut, idle(trace, deps, cut))
    return [found[place] for place in range(len(found))]


def test_the_legacy_stream_holds_blocking_streams_and_its_own():
    text = """
        stream 7 legacy_default
        stream 1 blocking
        stream 2 blocking
        stream 3 nonblocking
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        call 3 cuLaunchKernel 20-30
        call 4 cuLaunchKernel 30-40
        call 5 cuLaunchKernel 40-50
        op 1 s1 kernel 12-100
        op 2 s7 kernel 100-200
        op 3 s1 kernel 200-300
        op 4 s2 kernel 200-300
        op 5 s3 kernel 60-70
    """
    (barrier,) = found_in(text)
    assert (barrier.kind, barrier.proof_table, barrier.proof_row) == ("legacy_default_stream", "ops", 2)
    # Its own wait for stream 1, then streams 1 and 2 for it: 80 + 170 + 160.
    assert (barrier.start_ns, barrier.end_ns, barrier.lost_ns) == (20, 200, 410)
    assert barrier.streams_held == (0, 1, 3)
    assert barrier.ops_held == (2, 3, 4)


def test_a_synchronization_costs_the_gaps_of_the_streams_that_its_thread_feeds():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        call 3 cuCtxSynchronize 30-500
        sync 3 context - 31-499
        call 4 cuLaunchKernel 510-520
        call 5 cuLaunchKernel 520-530
        op 1 s1 kernel 12-100
        op 2 s2 kernel 22-490
        op 4 s1 kernel 522-600
        op 5 s2 kernel 532-600
    """
    (barrier,) = found_in(text)
    assert (barrier.kind, barrier.start_ns, barrier.end_ns) == ("context_sync", 100, 500)
    assert barrier.lost_ns == 400 + 10
    assert barrier.streams_held == (0, 1)
    assert barrier.ops_held == (2, 3)


def test_a_synchronization_that_held_nothing_has_the_span_of_its_call():
    text = """
        call 1 cuLaunchKernel 0-10
        sync 3 device - 31-499
        op 1 s1 kernel 12-100
    """
    (barrier,) = found_in(text)
    assert (barrier.kind, barrier.start_ns, barrier.end_ns, barrier.lost_ns) == ("device_sync", 31, 499, 0)
    assert barrier.streams_held == barrier.ops_held == ()


def test_the_costliest_comes_first():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cudaMalloc 110-200
        call 3 cuLaunchKernel 210-220
        call 4 cudaFree 300-800
        call 5 cuLaunchKernel 810-820
        op 1 s1 kernel 12-100
        op 3 s1 kernel 222-290
        op 5 s1 kernel 822-900
    """
    assert [(b.kind, b.proof_row, b.lost_ns) for b in found_in(text)] == [
        ("allocation", 3, 500),
        ("allocation", 1, 90),
    ]


def test_time_in_one_stream_counts_once():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        call 4 cuLaunchKernel 40-50
        op 1 s1 kernel 15-500
        record 5 s1 @11 sync=1
        wait 3 s2 35-36 sync=1
        op 2 s2 kernel 25-30
        op 4 s2 kernel 501-600
    """
    (barrier,) = found_in(text)
    # The wait of operation 4 and the gap before it are the same time.
    assert (barrier.kind, barrier.lost_ns, barrier.ops_held) == ("event_wait", 450, (2,))


def test_an_empty_trace_has_none():
    assert found_in("") == []
