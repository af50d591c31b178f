"""Redundant waits: small programs by hand, and all programs against taking edges out of an explicit graph."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

import overlane
from helpers.blueprint import blueprint
from helpers.happens import STREAMS, Act, programs, trace_of, truth_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.order import happens_before
from overlane.analysis.redundant_waits import redundant_waits
from overlane.analysis.rows.needless import redundant_counts, redundant_rows
from overlane.analysis.study import Study

WAITS = ("wait", "event_sync", "stream_sync", "context_sync", "device_sync")
KINDS = (*["op"] * 5, *["record"] * 5, *["wait"] * 7, "programmatic", "stream_query", *WAITS)
DENSE = programs(20, least=10, kinds=KINDS, few=True) | programs()
TELLING = (*WAITS[1:], "stream_query", "host", "copy_back")


def redundant(trace):
    deps = dependencies(trace)
    return redundant_waits(trace, deps, happens_before(trace, deps))


def of_acts(acts):
    """Return the redundant waits of a program, and the waits that could be told to be that."""
    trace, _, _ = trace_of(acts)
    found = redundant(trace)
    act_of = [ns // 10 for ns in trace.table("syncs")["start_ns"].to_pylist()]
    checked = {act_of[row] for row in np.flatnonzero(found.is_checked)}
    return [act_of[row] for row in found.sync.tolist()], checked


@settings(max_examples=300, deadline=None)
@given(DENSE)
def test_all_that_are_found_can_go_together(acts):
    found, checked = of_acts(acts)
    assert set(found) <= checked
    threads = {act.thread for act in acts}
    # What comes at the end of each stream and thread is ordered as before too.
    last = {act.stream: act.thread for act in acts if act.kind in {"op", "programmatic", "copy_back", "wait"}}
    ends = [Act("op", thread, stream) for stream, thread in last.items()]
    ends = [Act("host", thread) for thread in threads] + ends
    full, rest = truth_of(acts + ends), truth_of(acts + ends, gone=found)
    for a in full.begin:
        for b in full.begin:
            assert full.before(a, b) == rest.before(a, b), (a, b)


def orders(truth, own):
    """Return which items and returns come before which items, records, returns and ends of streams."""
    sources = [truth.end[i] for i in sorted(truth.end)] + [truth.done[i] for i in own]
    targets = [truth.begin[i] for i in sorted(truth.begin)] + [
        truth.records[i] for i in sorted(truth.records)
    ]
    targets += [truth.done[i] for i in own] + [truth.ends[k] for k in range(len(STREAMS))]
    return truth.reach[np.ix_(sources, targets)]


def is_seen(acts, i):
    """Tell whether a synchronization looks at a stream between a wait and what follows it there."""
    for act in acts[i + 1 :]:
        if act.kind in {"op", "programmatic", "copy_back", "record", "wait"} and act.stream == acts[i].stream:
            return False
        if act.kind in {"stream_sync", "context_sync", "device_sync", "stream_query"}:
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(DENSE)
def test_no_other_wait_can_go_too(acts):
    found, checked = of_acts(acts)
    own = [i for i, act in enumerate(acts) if act.kind in TELLING]
    left = truth_of(acts, mute=found)
    for i in checked.difference(found):
        if acts[i].kind == "wait" and is_seen(acts, i):
            continue
        less = truth_of(acts, mute={*found, i})
        assert not np.array_equal(orders(left, own), orders(less, own)), i


def names(acts):
    return of_acts(acts)[0]


OP, RECORD, WAIT = Act("op", 0, 3), Act("record", 0, 3, 1), Act("wait", 0, 4, 1)
NEXT = Act("op", 0, 4)


def test_of_two_equal_waits_the_later_one_is_named():
    assert names([OP, RECORD, WAIT, NEXT, WAIT, NEXT]) == [4]


def test_a_wait_for_an_earlier_record_is_implied_by_that_for_a_later_one():
    later = [Act("record", 0, 3, 2), Act("wait", 0, 4, 2)]
    assert names([OP, RECORD, OP, later[0], WAIT, later[1], NEXT]) == [4]
    assert names([OP, RECORD, OP, later[0], later[1], WAIT, NEXT]) == [5]
    # With work of the stream between them the first one orders that work.
    assert names([OP, RECORD, OP, later[0], WAIT, NEXT, later[1], NEXT]) == []


def test_a_wait_of_the_stream_for_itself_is_implied_by_its_order():
    assert names([OP, RECORD, Act("wait", 0, 3, 1), OP]) == [2]


def test_a_wait_before_a_programmatic_launch_holds_it_back():
    assert names([OP, RECORD, Act("wait", 0, 3, 1), Act("programmatic", 0, 3)]) == []


def test_what_the_host_has_waited_for_need_not_be_waited_for_by_streams():
    acts = [OP, RECORD, Act("stream_sync", 0, 3), WAIT, NEXT, Act("event_sync", 0, 3, 1)]
    assert names(acts) == [3, 5]


def test_a_wait_that_hands_on_what_another_thread_knew_stays():
    acts = [OP, RECORD, Act("event_sync", 0, 3, 1), WAIT, Act("op", 1, 4)]
    assert names(acts) == []


def test_what_hidden_work_may_hold_is_not_called_redundant():
    text = """
        call 1 cudaLaunchKernel 0-5
        op 1 s1 kernel 10-100
        call 2 cudaStreamSynchronize 6-105
        sync 2 stream s1 6-105
        {}
        call 4 cudaStreamSynchronize 120-125
        sync 4 stream s1 120-125
    """
    assert redundant(blueprint(text.format(""))).sync.tolist() == [1]
    hidden = redundant(blueprint(text.format("call 3 cudaLaunchHostFunc 110-115")))
    assert hidden.sync.tolist() == []
    assert hidden.is_checked.tolist() == [True, False]


def test_the_final_synchronization_of_a_workload_follows_one_that_covers_it(samples):
    trace = overlane.open_trace(samples["sync-scope-device.overlane"])
    found = redundant(trace)
    rows = [found.row(place) for place in range(len(found))]
    assert [(row.sync_id, row.known_table, row.known_row) for row in rows] == [
        (13, "syncs", 12),
        (14, "syncs", 12),
    ]
    assert {row.certainty for row in rows} == {"certain"}


def test_rows_say_what_the_wait_cost_and_keep_to_the_window():
    text = """
        call 1 cudaLaunchKernel 0-5
        op 1 s1 kernel 10-100
        call 2 cudaStreamSynchronize 6-105
        sync 2 stream s1 6-105
        call 3 cudaStreamSynchronize 120-125
        sync 3 stream s1 120-125
    """
    (row,) = redundant_rows(Study(blueprint(text)))
    assert (row["start_ns"], row["end_ns"], row["held_ns"], row["op_id"]) == (120, 125, 0, 0)
    assert redundant_rows(Study(blueprint(text), window=(0, 120))) == []
    unknown = redundant_counts(Study(blueprint(text.replace("cudaLaunchKernel", "cudaLaunchHostFunc"))))
    assert unknown == {"redundant_waits_left_out": 0, "redundant_waits_unchecked": 2}
