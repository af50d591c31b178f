"""Search, locate and neighbours, against plain loops over the tables."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from overlane.timeline import names as names_module
from overlane.timeline import timeline as timeline_module
from overlane.timeline.names import short_name
from unit.timeline.traces import lane, make_trace, open_timeline

OP = {"device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute"}


@pytest.fixture(scope="module")
def busy():
    rng = np.random.default_rng(6)
    words = ["gemm_kernel", "Reduce_Kernel", "copy", None]
    ops = [
        {**OP, "start_ns": int(s), "end_ns": int(s) + int(rng.integers(0, 60)),
         "name": words[int(rng.integers(3))], "stream_id": int(rng.integers(3))}
        for s in rng.integers(0, 20_000, 900)
    ]  # fmt: skip
    calls = [
        {"process_id": 1, "thread_id": 2, "start_ns": at, "end_ns": at + 3, "name": "cudaLaunchKernel"}
        for at in range(0, 900, 9)
    ]
    ranges = [
        {
            "process_id": 1,
            "thread_id": 2,
            "start_ns": at,
            "end_ns": at + 50 - at % 50,
            "track": "python",
            "name": "f",
        }
        for at in range(0, 500, 10)
    ]
    return make_trace(ops=ops, api_calls=calls, ranges=ranges)


def test_every_row_is_located_where_it_is_drawn(busy):
    timeline = open_timeline(busy)
    for table, column in (("ops", "stream_id"), ("api_calls", "thread_id"), ("ranges", "thread_id")):
        for row_id, row in enumerate(busy.table(table).to_pylist()):
            wire, start, end = timeline.locate(table, row_id)
            assert (start, end) == (row["start_ns"], row["end_ns"])
            prefix = {"ops": "s:0:1:", "api_calls": "c:1:", "ranges": "r:python:1:"}[table]
            here = lane(timeline, f"{prefix}{row[column]}")
            assert here["first"] <= wire < here["first"] + here["sublanes"]
            tile = timeline.tile(start, end + 1, 100_000, [wire])
            assert row_id in tile.row[tile.count == 1]


def test_neighbours_on_a_stream_follow_the_starts(busy):
    timeline = open_timeline(busy)
    rows = busy.table("ops").to_pylist()
    for stream in range(3):
        mine = [i for i, row in enumerate(rows) if row["stream_id"] == stream]
        walked = [mine[0]]
        first = min(mine, key=lambda i: (rows[i]["start_ns"], -rows[i]["end_ns"], i))
        walked = [first]
        while (following := timeline.neighbours("ops", walked[-1])["next"]) is not None:
            assert timeline.neighbours("ops", following)["previous"] == walked[-1]
            walked.append(following)
        assert sorted(walked) == mine
        starts = [rows[i]["start_ns"] for i in walked]
        assert starts == sorted(starts)


def test_neighbours_of_nested_ranges_keep_to_their_depth():
    host = {"process_id": 1, "thread_id": 2, "track": "operator"}
    trace = make_trace(ranges=[
        {**host, "start_ns": 0, "end_ns": 100, "name": "outer"},
        {**host, "start_ns": 10, "end_ns": 20, "name": "a"},
        {**host, "start_ns": 30, "end_ns": 40, "name": "b"},
        {**host, "start_ns": 100, "end_ns": 110, "name": "outer again"},
    ])  # fmt: skip
    timeline = open_timeline(trace)
    assert timeline.neighbours("ranges", 0) == {"previous": None, "next": 3}
    assert timeline.neighbours("ranges", 1) == {"previous": None, "next": 2}


def test_what_is_not_there_is_not_found(busy):
    timeline = open_timeline(busy)
    for table, row in (("ops", 10**6), ("ops", -1), ("devices", 0), ("syncs", 0)):
        assert timeline.locate(table, row) is None
        assert timeline.neighbours(table, row) == {"previous": None, "next": None}


@pytest.mark.parametrize("text", ["kernel", "KERNEL", "gemm", "cuda", "f", ".*", "", "nothing"])
def test_search_finds_what_a_loop_finds(busy, text):
    expected = [
        (row["start_ns"], table, i, row["name"])
        for table in ("ops", "api_calls", "ranges")
        for i, row in enumerate(busy.table(table).to_pylist())
        if text and text.lower() in row["name"].lower()
    ]
    timeline = open_timeline(busy)
    found = timeline.search(text, limit=50)
    assert found["total"] == len(expected)
    got = [(hit["start_ns"], hit["table"], hit["row"], hit["name"]) for hit in found["hits"]]
    assert got == sorted(expected)[:50]
    for hit in found["hits"]:
        assert timeline.locate(hit["table"], hit["row"]) == (hit["lane"], hit["start_ns"], hit["end_ns"])


def test_search_goes_on_after_a_time_and_keeps_to_kinds(busy):
    timeline = open_timeline(busy)
    whole = timeline.search("kernel", limit=10**6)["hits"]
    later = timeline.search("kernel", after_ns=450, limit=3)
    assert later["total"] == len(whole)
    assert later["hits"] == [hit for hit in whole if hit["start_ns"] > 450][:3]
    calls = timeline.search("kernel", kinds=["api_calls"])
    assert calls["total"] == 100
    assert {hit["table"] for hit in calls["hits"]} == {"api_calls"}


def test_names_of_exact_slices_come_with_the_tile(busy):
    timeline = open_timeline(busy)
    tile = timeline.tile(0, 20_000, 100_000)
    words = __import__("json").loads(tile.names)
    rows = {table: busy.table(table).to_pylist() for table in ("ops", "api_calls", "ranges")}
    tables = {
        each["first"] + k: each["table"] for each in timeline.meta()["lanes"] for k in range(each["sublanes"])
    }
    named = 0
    for wire, row, count, code in zip(tile.lane, tile.row, tile.count, tile.name, strict=True):
        if count == 1:
            assert words[str(code)] == rows[tables[int(wire)]][int(row)]["name"]
            named += 1
        else:
            assert code == 0xFFFFFFFF
    assert named > 900


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("void gemm<128, float>(float const*, int)", "gemm"),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 7>(cublasGemvParams<int>)",
            "kernel",
        ),
        ("at::native::(anonymous namespace)::scan<float>(int)", "scan"),
        ("Memset (Device)", "Memset"),
        ("ampere_sgemm_32x128_tn", "ampere_sgemm_32x128_tn"),
        ("void ns::Op::operator()(int)", "operator()"),
        ("void at::map<1, copy(Base&)::{lambda()#3}::operator()() const::{lambda(int)#1}>(int)", "map"),
        ("void ns::apply<auto (*)(int) -> float>(int)", "apply"),
        ("", ""),
        ("<>", "<>"),
    ],
)
def test_short_names(full, short):
    assert short_name(full) == short


def test_examples_in_the_docstrings_hold():
    for module in (names_module, timeline_module):
        assert doctest.testmod(module).failed == 0
