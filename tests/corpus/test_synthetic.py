"""The synthetic sample: made by its script, true to CUDA's rules, and measured on paper."""

from __future__ import annotations

import importlib.util
from itertools import combinations, pairwise, product

import pytest

from helpers.oracle import measure
from helpers.truth import assert_device, assert_lanes, assert_round_trip
from overlane.analysis.engines import engine_report
from overlane.readers import open_trace
from overlane_collect.schema import TABLES
from overlane_collect.writer import read_members

US = 1000


@pytest.fixture(scope="module")
def path(samples):
    return samples["synthetic_barriers.overlane"]


@pytest.fixture(scope="module")
def trace(path):
    return open_trace(path)


@pytest.fixture(scope="module")
def ops(trace):
    return trace.table("ops").to_pylist()


def test_the_script_makes_the_committed_file(path, tmp_path):
    spec = importlib.util.spec_from_file_location("make_synthetic", path.with_name("make_synthetic.py"))
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.make(tmp_path / "again.overlane")
    header, tables = read_members(tmp_path / "again.overlane")
    committed_header, committed = read_members(path)
    assert header == committed_header
    assert set(tables) == set(committed)
    for name, table in tables.items():
        assert table.equals(committed[name]), name


def test_it_is_labelled_synthetic(trace):
    assert trace.header.synthetic
    assert trace.header.capabilities["stream_kinds"].proven
    assert trace.header.capabilities["sync_ids"].proven
    assert trace.header.capabilities["partitions"].proven


# Worked on paper, scene by scene, in microseconds; starts and ends of the operations follow from the rules in
# the script (a launch takes 5, the device starts 2 after the last dependency).
#
# pipeline, from 100, four chunks, 23 of the host each
#   upload      105-305   307-507   509-709    711-911
#   kernel      307-557   559-809   811-1061  1063-1313
#   download    559-659   811-911  1063-1163  1315-1415     idle 305-307, 1061-1063, 1313-1315
# legacy default stream, from 2000
#   a          2005-2605, 2809-3109     b      2010-2410    per-thread 2015-2315, 2809-2909
#   background 2020-3520, 3522-3622     legacy 2607-2807    idle 3520-3522
# synchronized after every kernel, from 4000: five kernels of 80, 138 apart
# queries, from 5000: kernel 5005-5305, memset 5307-5327
# partition, from 6000: bulk 6005-6505 and four more of 500 with 2 between; critical kernels of 20, every 100
#   from 6105; those at 6505, 7005, 7505 and 8005 cover the gaps of the bulk
# pageable copies, from 9000: kernel 9005-9205, down 9207-9357, up 9365-9465, on the device 9473-9513,
#   memset 9478-9488
BUSY_US = 1304 + 1615 + 400 + 320 + 2508 + 490
ENGINE_BUSY_US = {
    "compute": 1000 + 1615 + 400 + 300 + 2508 + 200,
    "copy_h2d": 800 + 100,
    "copy_d2h": 400 + 150,
    "copy_d2d": 40,
    "memset": 20 + 10,
}
WORK_US = ENGINE_BUSY_US | {"compute": 1000 + 3500 + 400 + 300 + 2900 + 200}
OVERLAP_US = {
    (
        "compute",
        "copy_h2d",
    ): 596,  # 200 + 48 with the first kernel, 150 + 98 with the second, 100 with the third
    ("compute", "copy_d2h"): 300,
    ("copy_d2h", "copy_h2d"): 200,
    ("copy_d2d", "memset"): 10,
}
EXPOSED_US = (200 + 2 + 2 + 100) + (150 + 100 + 40)
CONCURRENCY_US = {
    0: 9408 - BUSY_US,
    1: 608 + 520 + 400 + 320 + 2116 + 480,
    2: 496 + 600 + 392 + 10,
    3: 200 + 200,
    4: 295,
}


def figures_on_paper():
    engines = sorted(ENGINE_BUSY_US)
    figures = measure([(0, 1, engine) for engine in engines])
    figures.longest_ns = {}
    figures.window = (105 * US, 9513 * US)
    figures.busy_ns = BUSY_US * US
    figures.idle_ns = (9408 - BUSY_US) * US
    figures.engine_busy_ns = {engine: us * US for engine, us in ENGINE_BUSY_US.items()}
    figures.engine_work_ns = {engine: us * US for engine, us in WORK_US.items()}
    figures.engine_ops = {"compute": 44, "copy_h2d": 5, "copy_d2h": 5, "copy_d2d": 1, "memset": 2}
    figures.overlap_ns = {pair: OVERLAP_US.get(pair, 0) * US for pair in combinations(engines, 2)}
    figures.exposed_copy_ns = EXPOSED_US * US
    figures.concurrency_ns = {level: us * US for level, us in CONCURRENCY_US.items()}
    return figures


def test_oracle_equals_paper(ops):
    assert measure((row["start_ns"], row["end_ns"], row["engine"]) for row in ops) == figures_on_paper()


def test_engine_report_equals_paper(trace):
    (device,) = engine_report(trace).devices
    assert (device.rank, device.device_id) == (None, 0)
    assert_device(device, figures_on_paper())


def by_stream(ops):
    streams = {}
    for row in sorted(
        ops, key=lambda row: row["correlation_id"]
    ):  # correlation ids count in the host's order
        streams.setdefault(row["stream_id"], []).append(row)
    return streams


def test_operations_of_a_stream_follow_one_another(ops):
    for rows in by_stream(ops).values():
        for before, after in pairwise(rows):
            assert after["start_ns"] >= before["end_ns"]


def test_legacy_stream_and_blocking_streams_wait_for_each_other(trace, ops):
    kinds = {row["stream_id"]: row["stream_kind"] for row in trace.table("streams").to_pylist()}
    assert set(kinds.values()) == {"legacy_default", "per_thread_default", "blocking", "nonblocking"}
    ordered = [row for row in ops if kinds[row["stream_id"]] != "nonblocking"]
    pairs = [
        (first, second)
        for first, second in product(ordered, ordered)
        if "legacy_default" in (kinds[first["stream_id"]], kinds[second["stream_id"]])
        and first["correlation_id"] < second["correlation_id"]
    ]
    assert len(pairs) > 50
    assert all(second["start_ns"] >= first["end_ns"] for first, second in pairs)
    background = [row for row in ops if row["name"] == "background(int)"]
    reduce = next(row for row in ops if row["name"] == "reduce(double*)")
    assert background[0]["start_ns"] < reduce["start_ns"] < background[0]["end_ns"]  # exempt: non-blocking


def test_stream_waits_hold_what_they_should(trace, ops):
    records = {row["cuda_event_sync_id"]: row for row in trace.table("event_records").to_pylist()}
    waits = [row for row in trace.table("syncs").to_pylist() if row["sync_kind"] == "stream_wait_event"]
    assert len(waits) == 8
    for wait in waits:
        record = records[wait["cuda_event_sync_id"]]
        assert record["cuda_event_id"] == wait["cuda_event_id"]
        assert record["correlation_id"] == wait["waits_on_correlation_id"] < wait["correlation_id"]
        assert record["stream_id"] == wait["waits_on_stream_id"]
        held = [
            row
            for row in ops
            if row["stream_id"] == wait["stream_id"] and row["correlation_id"] > wait["correlation_id"]
        ]
        before = [
            row
            for row in ops
            if row["stream_id"] == record["stream_id"] and row["correlation_id"] < record["correlation_id"]
        ]
        assert record["device_ns"] == max(row["end_ns"] for row in before)
        assert all(row["start_ns"] >= record["device_ns"] for row in held)
    reused = [row["cuda_event_id"] for row in records.values()]
    assert len(set(reused)) < len(reused)  # event ids are used again; only sync ids tell the records apart


def test_host_waits_until_the_work_is_done(trace, ops):
    kinds = [row["sync_kind"] for row in trace.table("syncs").to_pylist()]
    for kind in ("device", "context", "stream", "event", "event_query", "stream_query"):
        assert kind in kinds
    for sync in trace.table("syncs").to_pylist():
        issued = [row for row in ops if row["correlation_id"] < sync["correlation_id"]]
        if sync["sync_kind"] == "device":
            awaited = issued
        elif sync["sync_kind"] == "stream":
            awaited = [row for row in issued if row["stream_id"] == sync["stream_id"]]
        elif sync["sync_kind"] == "context":
            awaited = [row for row in issued if row["context_id"] == sync["context_id"]]
        else:
            continue
        assert sync["end_ns"] >= max(row["end_ns"] for row in awaited)


def test_queries_answer_what_was_true_then(trace, ops):
    queries = [row for row in trace.table("syncs").to_pylist() if row["sync_kind"].endswith("query")]
    assert sorted(row["result"] for row in queries) == [0, 0, 600, 600]
    kernel = next(row for row in ops if row["name"] == "probe(int*)")
    for query in queries:
        assert (query["result"] == 0) == (query["start_ns"] >= kernel["end_ns"])


def test_calls_stamps_and_partitions(trace, ops):
    calls = {row["correlation_id"]: row for row in trace.table("api_calls").to_pylist()}
    partitions = trace.table("partitions").to_pylist()
    assert [row["sm_granted"] for row in partitions] == [132, 16]
    assert partitions[1]["sm_requested"] == 10
    assert partitions[1]["parent_context_id"] == partitions[0]["context_id"]
    previous_end = 0
    for call in sorted(calls.values(), key=lambda row: row["start_ns"]):
        assert call["start_ns"] >= previous_end  # one thread
        previous_end = call["end_ns"]
    for row in ops:
        assert calls[row["correlation_id"]]["start_ns"] < row["start_ns"]
        assert partitions[row["partition_id"]]["context_id"] == row["context_id"]
        if row["kind"] == "kernel":
            assert calls[row["correlation_id"]]["start_ns"] <= row["queued_ns"] <= row["submitted_ns"]
            assert row["submitted_ns"] <= row["start_ns"]
        else:
            assert row["queued_ns"] is None
        if "pageable" in (row["src_memory"], row["dst_memory"]):
            assert calls[row["correlation_id"]]["end_ns"] >= row["end_ns"]


def test_the_tables_that_it_should_fill(trace):
    filled = {name for name in TABLES if trace.table(name).num_rows}
    assert filled == {
        "ops", "api_calls", "syncs", "event_records", "streams", "partitions", "devices", "threads", "ranges",
        "counters", "instants",
    }  # fmt: skip
    assert trace.table("instants").num_rows == 1
    assert trace.span_ns == 10_000 * US


def test_lanes_and_round_trip(trace, tmp_path):
    assert_lanes(trace, tmp_path)
    assert_round_trip(trace, tmp_path / "again.overlane")
