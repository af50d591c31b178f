"""Which lanes a trace gets, in which order, under which groups."""

from __future__ import annotations

import pytest

from overlane.errors import TraceUnreadableError
from overlane.timeline import CATEGORIES, encode_tile
from unit.timeline.oracle import decode
from unit.timeline.traces import lane, make_trace, open_timeline, tree

OP = {"rank": 0, "process_id": 1, "device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute"}


def test_a_device_with_its_engines_and_streams():
    trace = make_trace(
        devices=[{"rank": 0, "device_id": 0, "name": "NVIDIA H200", "sm_count": 132}],
        streams=[
            {
                "rank": 0,
                "device_id": 0,
                "context_id": 1,
                "stream_id": 7,
                "stream_kind": "nonblocking",
                "priority": -5,
            }
        ],
        ops=[
            {**OP, "start_ns": 0, "end_ns": 10},
            {**OP, "start_ns": 4, "end_ns": 12, "stream_id": 20},
            {**OP, "start_ns": 20, "end_ns": 30, "engine": "copy_h2d", "stream_id": 20},
            {**OP, "start_ns": 40, "end_ns": 41, "stream_id": None},
        ],
    )
    timeline = open_timeline(trace, 0)
    assert tree(timeline) == [
        "Rank 0 · GPU 0 · NVIDIA H200 / all work (4)",
        "Rank 0 · GPU 0 · NVIDIA H200 / Engines / compute (3)",
        "Rank 0 · GPU 0 · NVIDIA H200 / Engines / copy H2D (1)",
        "Rank 0 · GPU 0 · NVIDIA H200 / Streams / stream 7 (1)",
        "Rank 0 · GPU 0 · NVIDIA H200 / Streams / stream 20 (2)",
        "Rank 0 · GPU 0 · NVIDIA H200 / Streams / no stream recorded (1)",
    ]
    assert lane(timeline, "s:0:1:7")["sublabel"] == "nonblocking · priority -5"
    meta = timeline.meta()
    assert meta["device_work"] is True
    assert meta["minimap"] == [lane(timeline, "u:0")["first"]]
    assert meta["groups"][0]["sublabel"] == "132 SMs"
    tile = timeline.tile(0, 100, 1_000, [lane(timeline, "e:0:compute")["first"]])
    assert list(zip(tile.start_ns, tile.end_ns, tile.row, tile.count, tile.busy, strict=True)) == [
        (0, 12, 0, 2, 255),
        (40, 41, 3, 1, 255),
    ]


def test_the_device_s_work_is_shown_first_where_the_host_s_would_hide_it():
    call = {"api": "driver", "name": "cuDevicePrimaryCtxRetain", "start_ns": 0, "end_ns": 9_000}
    late = [
        {**OP, "rank": 0, "start_ns": 9_400, "end_ns": 9_900},
        {**OP, "rank": 0, "start_ns": 9_600, "end_ns": None},
    ]
    first = open_timeline(make_trace(ops=late, api_calls=[{**call, "rank": 0}]), 0).meta()["first_view"]
    assert first == [9_400 - 11, 9_901]

    early = [{**OP, "rank": 0, "start_ns": 4_000, "end_ns": 8_600}]
    assert open_timeline(make_trace(ops=early, api_calls=[{**call, "rank": 0}]), 0).meta()["first_view"] == [
        0,
        9_001,
    ]
    assert open_timeline(make_trace(api_calls=[call]), None).meta()["first_view"] == [0, 9_001]


def test_collectives_keep_their_category_on_streams_only():
    trace = make_trace(
        ops=[
            {**OP, "start_ns": 0, "end_ns": 10, "name": "ncclDevKernel_AllReduce_Sum_bf16_RING"},
            {**OP, "start_ns": 20, "end_ns": 30, "name": "some_kernel"},
            {**OP, "start_ns": 40, "end_ns": 50, "name": "gemm"},
        ],
        collectives=[{"op_id": 1}],
    )
    timeline = open_timeline(trace, 0)
    on_stream = timeline.tile(0, 100, 1_000, [lane(timeline, "s:0:1:7")["first"]])
    assert [CATEGORIES[c] for c in on_stream.category] == ["collective", "collective", "compute"]
    on_engine = timeline.tile(0, 100, 1_000, [lane(timeline, "e:0:compute")["first"]])
    assert {CATEGORIES[c] for c in on_engine.category} == {"compute"}


def test_streams_stand_under_their_partition_or_context():
    trace = make_trace(
        partitions=[
            {"rank": 0, "device_id": 0, "context_id": 1, "sm_granted": 132},
            {"rank": 0, "device_id": 0, "context_id": 2, "parent_context_id": 1, "sm_granted": 8},
        ],
        ops=[
            {**OP, "start_ns": 0, "end_ns": 1, "context_id": 1},
            {**OP, "start_ns": 2, "end_ns": 3, "context_id": 2},
            {**OP, "start_ns": 4, "end_ns": 5, "context_id": 3},
        ],
    )
    streams = [line for line in tree(open_timeline(trace, 0)) if "stream" in line]
    assert streams == [
        "Rank 0 · GPU 0 / Whole device · 132 SMs / stream 7 (1)",
        "Rank 0 · GPU 0 / Green context 2 · 8 SMs / stream 7 (1)",
        "Rank 0 · GPU 0 / Streams · context 3 / stream 7 (1)",
    ]


def test_the_same_stream_number_on_two_devices_is_two_lanes():
    trace = make_trace(
        ops=[{**OP, "start_ns": 0, "end_ns": 1}, {**OP, "start_ns": 0, "end_ns": 1, "device_id": 1}]
    )
    assert [line for line in tree(open_timeline(trace, 0)) if "stream 7" in line] == [
        "Rank 0 · GPU 0 / Streams / stream 7 (1)",
        "Rank 0 · GPU 1 / Streams / stream 7 (1)",
    ]


def test_host_threads_with_everything_they_did():
    host = {"rank": 0, "process_id": 479, "thread_id": 480}
    trace = make_trace(
        threads=[
            {**host, "process_name": "python3", "name": "main"},
            {**host, "thread_id": 9, "name": "thread 9 (loader)"},
        ],
        api_calls=[
            {**host, "start_ns": 0, "end_ns": 9},
            {**host, "start_ns": 10, "end_ns": 12, "api": "driver"},
        ],
        syncs=[{**host, "start_ns": 3, "end_ns": 8}],
        ranges=[
            {**host, "start_ns": 0, "end_ns": 90, "track": "python", "name": "main.py"},
            {**host, "start_ns": 10, "end_ns": 20, "track": "python", "name": "inner"},
            {**host, "start_ns": 0, "end_ns": 50, "track": "operator", "name": "aten::mm"},
            {**host, "start_ns": 0, "end_ns": 50, "track": "annotation"},
            {
                **host,
                "start_ns": 0,
                "end_ns": 50,
                "track": "device_annotation",
                "device_id": 0,
                "stream_id": 7,
            },
            {**host, "thread_id": 9, "start_ns": 0, "end_ns": 5, "track": "other"},
        ],
        instants=[{**host, "at_ns": 5}],
        overheads=[{**host, "start_ns": 1, "end_ns": 2}],
        counters=[
            {"rank": 0, "process_id": 479, "track": "memory", "at_ns": at, "value": float(at), "unit": "MB"}
            for at in (0, 10, 20)
        ],
    )
    timeline = open_timeline(trace, 0)
    assert tree(timeline) == [
        "Rank 0 · GPU 0 / annotations (1)",
        "Rank 0 · python3 · process 479 / memory (3)",
        "Rank 0 · python3 · process 479 / main · thread 480 / calls (2)",
        "Rank 0 · python3 · process 479 / main · thread 480 / synchronizations (1)",
        "Rank 0 · python3 · process 479 / main · thread 480 / operators (1)",
        "Rank 0 · python3 · process 479 / main · thread 480 / annotations (1)",
        "Rank 0 · python3 · process 479 / main · thread 480 / overheads (1)",
        "Rank 0 · python3 · process 479 / main · thread 480 / instants (1)",
        "Rank 0 · python3 · process 479 / main · thread 480 / python / python (2)",
        "Rank 0 · python3 · process 479 / thread 9 (loader) / other ranges (1)",
    ]
    meta = timeline.meta()
    assert meta["device_work"] is False
    assert [group["label"] for group in meta["groups"] if group["collapsed"]] == ["python"]
    assert lane(timeline, "r:python:479:480")["sublanes"] == 2
    tile = timeline.tile(0, 100, 1_000, [lane(timeline, "c:479:480")["first"]])
    assert [CATEGORIES[c] for c in tile.category] == ["runtime_call", "driver_call"]


def test_counters_are_drawn_as_heights_of_the_largest_sample():
    values = [0.0, 50.0, 100.0, 25.0, -3.0]
    trace = make_trace(
        counters=[
            {"track": "power", "at_ns": at * 100, "value": v, "unit": "W"} for at, v in enumerate(values)
        ],
        ops=[{**OP, "rank": None, "start_ns": 0, "end_ns": 1_000}],
    )
    timeline = open_timeline(trace, None)
    power = lane(timeline, "n:None:None:power")
    assert (power["max"], power["unit"], power["kind"]) == (100.0, "W", "counter")
    tile = timeline.tile(0, 1_000, 1_000, [power["first"]])
    assert list(zip(tile.start_ns, tile.end_ns, tile.busy, strict=True)) == [
        (0, 100, 0), (100, 200, 128), (200, 300, 255), (300, 400, 64), (400, 1_000, 0)
    ]  # fmt: skip
    merged = timeline.tile(0, 100_000, 10, [power["first"]])
    assert (merged.busy.tolist(), merged.count.tolist()) == ([255], [5])


def test_instants_have_no_length_and_full_height():
    trace = make_trace(instants=[{"at_ns": at} for at in (5, 5, 6, 900)])
    timeline = open_timeline(trace)
    tile = timeline.tile(0, 1_000, 10)
    assert tile.count.tolist() == [3, 1]
    assert tile.busy.tolist() == [255, 255]
    assert (tile.start_ns[1], tile.end_ns[1]) == (900, 900)


def test_blocks_have_a_lane_per_sm():
    trace = make_trace(
        ops=[{**OP, "start_ns": 0, "end_ns": 100}],
        blocks=[{"op_id": 0, "sm_id": sm, "start_ns": 0, "end_ns": 50} for sm in (3, 3, 1)],
    )
    timeline = open_timeline(trace, 0)
    assert tree(timeline)[-2:] == [
        "Rank 0 · GPU 0 / Blocks per SM / SM 1 (1)",
        "Rank 0 · GPU 0 / Blocks per SM / SM 3 (2)",
    ]
    assert lane(timeline, "b:0:3")["sublanes"] == 2
    assert timeline.locate("blocks", 1)[1:] == (0, 50)


def test_ranks_are_apart_and_rows_without_rank_go_to_the_first():
    trace = make_trace(
        ops=[{**OP, "start_ns": 0, "end_ns": 1}, {**OP, "rank": 1, "start_ns": 5, "end_ns": 7}],
        instants=[{"at_ns": 3}],
    )
    first, second = open_timeline(trace, 0), open_timeline(trace, 1)
    assert first.meta()["ranks"] == [0, 1]
    assert [each["rows"] for each in first.meta()["lanes"]] == [1, 1, 1, 1]
    assert [each["table"] for each in second.meta()["lanes"]] == ["ops", "ops", "ops"]
    assert first.locate("ops", 1) is None
    assert second.locate("ops", 1)[1:] == (5, 7)
    assert (first.search("mark")["total"], second.search("mark")["total"]) == (1, 0)


def test_a_trace_without_rows_has_no_lanes():
    timeline = open_timeline(make_trace())
    assert timeline.meta()["lanes"] == []
    assert timeline.meta()["device_work"] is False
    assert decode(encode_tile(timeline.tile(0, 100, 10)))["names"] == {}


def test_more_overlaps_than_sublanes_become_union_runs():
    trace = make_trace(ops=[{**OP, "start_ns": at, "end_ns": 10_000} for at in range(300)])
    timeline = open_timeline(trace, 0)
    stream = lane(timeline, "s:0:1:7")
    assert stream["sublanes"] == 257
    tile = timeline.tile(0, 10_000, 20_000, range(stream["first"], stream["first"] + 257))
    assert tile.count.sum() == 300
    assert (tile.start_ns[-1], tile.end_ns[-1], tile.count[-1]) == (256, 10_000, 44)
    assert timeline.locate("ops", 299) == (stream["first"] + 256, 299, 10_000)


@pytest.mark.parametrize("streams", [40_000, 65_532])
def test_as_many_lanes_as_the_wire_can_number(streams):
    trace = make_trace(ops=[{**OP, "stream_id": n, "start_ns": n, "end_ns": n + 5} for n in range(streams)])
    timeline = open_timeline(trace, 0)
    tile = timeline.tile(0, streams + 5, 1)
    assert timeline.wire_lanes == streams + 2
    assert tile.lane.max() == streams + 1
    assert tile.count.sum() == 3 * streams


def test_more_lanes_than_the_wire_can_number_are_refused():
    trace = make_trace(ops=[{**OP, "stream_id": n, "start_ns": n, "end_ns": n + 5} for n in range(65_534)])
    with pytest.raises(TraceUnreadableError, match=r"65536 tracks.*65535"):
        open_timeline(trace, 0)
