"""Hazards: the planted mistakes of recorded runs by name, and all programs against comparing every byte."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

import overlane
from helpers.blueprint import blueprint
from helpers.happens import Act, programs, trace_of, truth_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.hazards import hazards
from overlane.analysis.order import happens_before
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Header
from overlane_collect.schema import TABLES


def hazards_of(trace):
    found = hazards(trace, happens_before(trace, dependencies(trace)))
    return [found.row(place) for place in range(len(found))]


def bytes_of(act, is_write):
    return {
        at
        for address, length, write in act.touches
        if write == is_write
        for at in range(address, address + length)
    }


def expected(acts):
    """Return the kind and the bytes of every unordered pair with a conflict, by looking at every byte."""
    truth, found = truth_of(acts), {}
    for b, second in enumerate(acts):
        for a, first in enumerate(acts[:b]):
            if a not in truth.begin or b not in truth.begin or truth.before(a, b):
                continue
            raw = bytes_of(first, True) & bytes_of(second, False)
            war = bytes_of(first, False) & bytes_of(second, True)
            waw = bytes_of(first, True) & bytes_of(second, True)
            between = [k for k in range(a + 1, b) if k in truth.begin and truth.before(k, b)]
            hidden = set().union(*(bytes_of(acts[k], True) for k in between))
            if raw | war | waw:
                kind = "RAW" if raw - hidden else "WAR" if war else "WAW" if waw else "RAW"
                found[a, b] = kind, min(raw | war | waw)
    return found


@settings(max_examples=300, deadline=None)
@given(programs(most=16))
def test_hazards_are_all_unordered_pairs_that_touch_the_same_bytes(acts):
    trace, op_of, _ = trace_of(acts)
    act_of_op = {op: i for i, op in op_of.items()}
    at = trace.table("accesses")["at_ns"].to_pylist()
    found = {}
    for row in hazards_of(trace):
        ends = []
        for op, access in ((row.first_op_id, row.first_row), (row.second_op_id, row.second_row)):
            ends.append(act_of_op[op] if op is not None else at[access] // 10)
        assert tuple(ends) not in found, "reported twice"
        found[tuple(ends)] = row.kind, row.address
    assert found == expected(acts)


PLANTED = {
    "clean": set(),
    "missing-wait": {"RAW"},
    "early-record": {"RAW"},
    "wrong-event": {"RAW"},
    "early-reuse": {"WAR"},
    "host-overwrite": {"WAR"},
    "early-free": {"use_after_free"},
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_mistakes_are_reported_though_the_values_came_out_right(samples, fault):
    trace = overlane.open_trace(samples[f"stream-contract-{fault}.overlane"])
    rows = hazards_of(trace)
    own = [row for row in rows if row.implied_by is None]
    assert {row.kind for row in own} == PLANTED[fault]
    assert {row.certainty for row in rows} <= {"proven"}
    names = trace.ops["name"]
    ends = Counter(
        tuple("" if op is None else names[op] for op in (row.first_op_id, row.second_op_id)) for row in own
    )
    up, down = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
    assert (
        ends
        == {
            "clean": {},
            "missing-wait": {("twice", "plus_one"): 12},
            "early-record": {("twice", "plus_one"): 12},
            "wrong-event": {("twice", "plus_one"): 12},
            "early-reuse": {(down, up): 8},
            "host-overwrite": {(up, ""): 12},
            "early-free": {(down, ""): 4},
        }[fault]
    )
    for row in own:
        assert row.fix.startswith("Record an event in stream ")
        assert f"after operation {row.first_op_id} " in row.fix
    if fault == "early-reuse":
        assert "let stream 13 (producer) wait for it (cudaStreamWaitEvent) before operation" in own[0].fix
    if fault == "host-overwrite":
        assert "(cudaEventSynchronize) before it writes the memory" in own[0].fix


def test_no_other_sample_has_a_hazard_that_is_proven(samples):
    others = [path for name, path in samples.items() if not name.startswith("stream-contract")]
    assert len(others) > 40
    found = {path.name: hazards_of(overlane.open_trace(path)) for path in others}
    # Whether a programmatic launch waits before it touches the memory (this one does) is in no row.
    inside = found.pop("programmatic-launch-programmatic.overlane")
    assert {(row.certainty, row.second_op_id - row.first_op_id) for row in inside} == {("possible", 1)}
    assert not any(found.values())


WRITE, READ = ((0, 4, True),), ((0, 4, False),)


def test_one_thread_alone_proves_and_work_of_two_threads_is_possible():
    one = [Act("op", stream=4, touches=WRITE), Act("op", stream=5, touches=READ)]
    two = [Act("op", stream=4, touches=WRITE), Act("op", thread=1, stream=5, touches=READ)]
    assert [(row.kind, row.certainty) for row in hazards_of(trace_of(one)[0])] == [("RAW", "proven")]
    assert [(row.kind, row.certainty) for row in hazards_of(trace_of(two)[0])] == [("RAW", "possible")]


def test_another_thread_that_waited_in_between_makes_it_possible():
    acts = [
        Act("op", stream=4, touches=WRITE),
        Act("device_sync", thread=1),
        Act("op", stream=5, touches=READ),
    ]
    assert [row.certainty for row in hazards_of(trace_of(acts)[0])] == ["possible"]


def test_very_many_hazards_are_listed_in_part_and_the_rest_is_counted():
    acts = [Act("op", stream=4 + place % 2, touches=WRITE) for place in range(400)]
    trace = trace_of(acts)[0]
    found = hazards(trace, happens_before(trace, dependencies(trace)))
    assert len(found) + found.left_out_count == 200 * 200
    assert found.left_out_count > 0


def test_what_a_pageable_copy_reads_it_has_read_when_its_call_returns():
    text = """
        call 1 cudaLaunchKernel 0-5
        op 1 s1 kernel 10-100
        call 2 cudaMemcpyAsync 6-8
        op 2 s2 memcpy 20-30
    """
    made = blueprint(text)
    tables = {name: made.table(name) for name in TABLES}
    ops = tables["ops"].to_pydict() | {
        "src_memory": [None, "pageable"], "dst_memory": [None, "device"], "engine": ["compute", "copy_h2d"],
    }  # fmt: skip
    tables["ops"] = table_from_columns("ops", ops)
    columns = {
        "op_id": [0, 1, None], "thread_id": [None, None, 1], "at_ns": [None, None, 50], "address": [64] * 3,
        "bytes": [4] * 3, "mode": ["write", "read", "write"], "certainty": ["declared"] * 3,
    }  # fmt: skip
    thread = tables["api_calls"]["thread_id"][0].as_py()
    columns["thread_id"][2] = thread
    tables["accesses"] = table_from_columns("accesses", columns)
    rows = hazards_of(validate("made", Header("made"), tables))
    # The host's write comes after the copy's read, but neither comes after the kernel.
    assert [(row.kind, row.first_op_id, row.second_op_id) for row in rows] == [
        ("RAW", 0, 1),
        ("WAW", 0, None),
    ]


def test_what_an_operation_writes_itself_hides_no_hazard():
    write, read = (0, 1, True), (0, 1, False)
    for before, own, kind in (
        ((write,), (write, read), "RAW"),
        ((write,), (read, write), "RAW"),
        ((read,), (read, write), "WAR"),
        ((read,), (write, read), "WAR"),
    ):
        acts = [Act("op"), Act("op", touches=before), Act("programmatic", touches=own)]
        found = [row.kind for row in hazards_of(trace_of(acts)[0])]
        assert found == [kind] == [each for each, _ in expected(acts).values()]
