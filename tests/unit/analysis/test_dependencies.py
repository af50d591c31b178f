"""Edges between operations: small traces, and the edges that CUDA's rules make of them."""

from __future__ import annotations

import pytest

from helpers.blueprint import blueprint, trace_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.replay import COLUMNS


def edges(text, *kinds):
    """Return edges as text: `op<-source kind certainty`, `op<-` where the source is a call."""
    found = dependencies(blueprint(text))
    lines = []
    for op in range(len(found.issued_ns)):
        for edge in found.of(op):
            if edge.kind in kinds or not kinds:
                source = "" if edge.source is None else edge.source
                doubt = "" if edge.certainty == "certain" else "?"
                lines.append(f"{op}<-{source} {edge.kind}{doubt}")
    return lines


LAUNCHES = "\n".join(f"call {n} cudaLaunchKernel {10 * n}-{10 * n + 5}" for n in range(1, 9))


def test_stream_order_is_that_of_the_calls():
    text = """
        op 2 s1 kernel 100-200
        op 1 s1 kernel 100-150
        op 3 s2 kernel 100-300
        op 4 s1 kernel 300-400
    """
    # Sorted by start and end: 1 is operation 0, 2 operation 1, 3 operation 2.
    assert edges(LAUNCHES + text) == ["1<-0 stream", "3<-1 stream"]


def test_without_calls_the_order_is_that_of_the_starts_and_only_likely():
    assert edges("op - s1 kernel 0-10\nop - s1 kernel 10-20\nop - - kernel 30-40") == ["1<-0 stream?"]


def test_an_event_wait_joins_the_record_by_sync_id_though_the_event_was_recorded_again():
    text = """
        op 1 s1 kernel 100-200
        record 2 s1 @20 event=7 sync=1
        op 3 s1 kernel 200-300
        record 4 s1 @40 event=7 sync=2
        wait 5 s2 50-51 event=7 sync=1
        op 6 s2 kernel 200-210
    """
    assert edges(LAUNCHES + text, "event") == ["1<-0 event"]


def test_without_sync_ids_the_latest_earlier_record_of_the_event_is_likely():
    text = """
        op 1 s1 kernel 100-200
        record 2 s1 @20 event=7
        op 3 s1 kernel 200-300
        wait 4 s2 40-41 event=7
        record 5 s1 @50 event=7
        op 6 s2 kernel 200-210
    """
    assert edges(LAUNCHES + text, "event") == ["1<-0 event?"]


def test_a_wait_that_names_the_recording_call_needs_no_record_rows():
    text = """
        call 20 cudaEventRecord 15-16
        op 1 s1 kernel 100-200
        op 2 s1 kernel 200-300
        wait 4 s2 40-41 on=1 by=20
        op 6 s2 kernel 200-210
    """
    assert edges(LAUNCHES + text, "event") == ["1<-0 event"]


@pytest.mark.parametrize("wait", ["event=8", "event=7 sync=1 result=400", "event=null"])
def test_an_event_never_recorded_and_a_failed_wait_order_nothing(wait):
    text = f"""
        op 1 s1 kernel 100-200
        record 2 s1 @20 event=7 sync=1
        wait 4 s2 40-41 {wait}
        op 6 s2 kernel 150-210
    """
    assert edges(LAUNCHES + text, "event") == []


def test_a_wait_whose_record_the_file_lacks_holds_until_nobody_knows_when():
    text = """
        op 1 s1 kernel 100-200
        wait 4 s2 40-41 event=8 sync=3
        op 6 s2 kernel 150-210
    """
    found = dependencies(blueprint(LAUNCHES + text))
    edge = found.of(1)[0]
    assert (edge.source, edge.kind, edge.proof_table, edge.end_ns) == (None, "event", "syncs", None)
    assert found.eligible_ns[1] == -1


def test_a_wait_passes_through_streams_without_work():
    text = """
        op 1 s1 kernel 100-200
        record 2 s1 @20 sync=1
        wait 3 s2 30-31 sync=1
        record 4 s2 @40 sync=2
        wait 5 s3 50-51 sync=2
        op 6 s3 kernel 200-210
    """
    assert edges(LAUNCHES + text, "event") == ["1<-0 event"]


def test_the_legacy_default_stream_and_blocking_streams_wait_for_each_other():
    text = """
        stream 7 legacy_default
        stream 8 per_thread_default
        stream 1 blocking
        stream 2 nonblocking
        op 1 s1 kernel 100-200
        op 2 s8 kernel 100-250
        op 3 s2 kernel 100-900
        op 4 s7 kernel 250-300
        op 5 s1 kernel 300-400
        op 6 s2 kernel 900-950
        op 7 s7 kernel 400-500
    """
    assert edges(LAUNCHES + text, "legacy") == ["3<-0 legacy", "3<-1 legacy", "4<-3 legacy", "5<-4 legacy"]
    # operation 5 is number 7, which started before number 6


def test_a_record_on_the_legacy_stream_is_a_barrier_too():
    text = """
        stream 7 legacy_default
        stream 1 blocking
        stream 2 blocking
        op 1 s1 kernel 100-200
        record 2 s7 @20 sync=1
        op 3 s2 kernel 200-300
    """
    assert edges(LAUNCHES + text) == ["1<-0 legacy"]


def test_without_stream_kinds_nothing_is_said_of_the_legacy_stream():
    text = "op 1 s1 kernel 100-200\nop 2 s7 kernel 200-300\nstream 7\nstream 1"
    assert edges(LAUNCHES + "\n" + text, "legacy") == []


def test_graph_nodes_follow_the_edges_of_their_graph_and_not_their_streams():
    text = """
        call 11 cudaGraphLaunch 10-20
        call 12 cudaGraphLaunch 30-40
        edge 5 100 101
        edge 5 100 102
        op 11 s1 kernel 50-60 graph=5 node=100
        op 11 s1 kernel 60-80 graph=5 node=101
        op 11 s9 kernel 70-90 graph=5 node=102
        op 12 s1 kernel 95-99 graph=5 node=100
    """
    assert edges(text) == ["1<-0 graph", "2<-0 graph", "3<-2 stream?", "3<-2 graph"]


def test_without_graph_edges_only_the_launches_are_ordered():
    text = """
        call 11 cudaGraphLaunch 10-20
        call 12 cudaLaunchKernel 30-40
        op 11 s1 kernel 50-60 graph=5 node=100
        op 11 s1 kernel 60-80 graph=5 node=101
        op 12 s1 kernel 80-99
    """
    assert edges(text) == ["2<-1 stream"]


def test_a_programmatic_launch_has_a_kind_of_its_own():
    text = "op 1 s1 kernel 100-200\nop 2 s1 kernel 150-250 launch_type=programmatic"
    assert edges(LAUNCHES + "\n" + text) == ["1<-0 programmatic"]


def test_memory_handed_from_stream_to_stream_orders_them():
    text = """
        op 1 s1 kernel 100-200
        free 2 s1 @20 4096
        alloc 3 s2 @30 4096
        op 4 s2 kernel 200-300
    """
    assert edges(LAUNCHES + text) == ["1<-0 allocation"]


def test_the_first_operation_after_a_host_wait_names_the_wait():
    text = """
        op 1 s1 kernel 20-30
        sync 2 stream s1 21-35
        op 4 s1 kernel 50-60
        op 5 s2 kernel 60-70
    """
    assert edges(LAUNCHES + text, "host") == ["1<- host"]


def test_a_host_function_stands_before_the_next_operation():
    text = """
        call 20 cudaLaunchHostFunc 15-16
        op 1 s1 kernel 20-30
        range other 0-1
        op 3 s1 kernel 90-99
    """
    named = blueprint_with_host_function(text)
    assert [(e.kind, e.source, e.end_ns) for e in named.of(1)] == [
        ("stream", 0, 30),
        ("host_function", None, 80),
    ]


def blueprint_with_host_function(text):
    trace = blueprint(LAUNCHES + text)
    rows = {name: trace.table(name).to_pylist() for name in ("ops", "api_calls")}
    rows["ranges"] = [
        {"track": "other", "name": "host function", "stream_id": 1, "device_id": 0, "process_id": 1}
        | {"start_ns": 30, "end_ns": 80, "correlation_id": 20}
    ]
    return dependencies(trace_of(rows))


def test_a_record_behind_a_value_wait_tells_when_it_let_go():
    text = """
        call 20 cuStreamWaitValue32 15-16
        sync 20 other s1 15-16
        record 2 s1 @20 sync=1 device_ns=300
        op 3 s1 kernel 302-400
    """
    found = dependencies(blueprint(LAUNCHES + text))
    assert [(e.kind, e.proof_table, e.end_ns) for e in found.of(0)] == [("value_wait", "syncs", 300)]
    assert found.eligible_ns.tolist() == [300]


def test_the_issue_of_each_kind_of_operation():
    text = """
        call 9 cudaMemcpy 200-290
        op 1 s1 kernel 100-110 queued=12
        op 2 s1 kernel 120-130
        op 3 s1 memcpy 32-140
        op 9 s1 memcpy 250-280
        op 4 s1 memcpy 300-310 src_memory=pageable
        op - s1 kernel 400-410
    """
    found = dependencies(blueprint(LAUNCHES + text))
    assert found.issued_ns.tolist() == [32, 12, 25, 200, 40, -1]


def test_streams_of_green_contexts_are_known_by_their_parents():
    text = """
        partition 1
        partition 2 parent_context_id=1
        op 1 s3 kernel 100-200 ctx=2
        record 2 s3 @20 sync=1 ctx=1
        wait 3 s4 30-31 sync=1
        op 4 s4 kernel 200-300
    """
    found = dependencies(blueprint(LAUNCHES + text))
    assert [edge.kind for edge in found.of(1)] == ["event"]
    assert [(row.context_id, row.stream_id) for row in found.streams] == [(1, 4), (2, 3)]


def test_successors_are_the_edges_the_other_way():
    found = dependencies(blueprint(LAUNCHES + "\nop 1 s1 kernel 100-200\nop 2 s1 kernel 200-300"))
    assert found.successors(0) == found.of(1)
    assert found.successors(1) == []


def test_an_empty_trace_has_no_edges():
    found = dependencies(blueprint(""))
    assert len(found.op) == len(found.issued_ns) == 0
    assert COLUMNS[0] == "op"
