# ruff: noqa: E501 - traces stand as text, one event a line
"""Each rule of the Kineto reader on a trace of a few lines, with the rows that must come out."""

import json
import math

import pytest


def test_a_kernel_fills_its_columns_and_keeps_the_rest(read, table, adds_up):
    trace = read("""{"baseTimeNanoseconds": 1000, "traceEvents": [
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 10, "ts": 1.5, "dur": 2,
       "args": {"External id": 3, "cbid": 211, "correlation": 57}},
      {"ph": "X", "cat": "kernel", "name": "k<1>", "pid": 0, "tid": 7, "ts": 5.0005, "dur": 8.000,
       "args": {"External id": 3, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": 57,
                "registers per thread": 18, "shared memory": 16, "blocks per SM": 62.060608, "grid": [8192, 2, 1],
                "block": [128, 1, 1], "est. achieved occupancy %": 100}}
    ]}""")
    op = trace.row("ops", 0)
    expected = {
        "process_id": 9, "device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute", "kind": "kernel",
        "name": "k<1>", "queued_ns": None, "start_ns": 3501, "end_ns": 11501, "correlation_id": 57, "external_id": 3,
        "registers": 18, "shared_bytes": 16, "grid": [8192, 2, 1], "block": [128, 1, 1], "bytes": None, "rank": None,
    }  # fmt: skip
    assert {key: op[key] for key in expected} == expected
    assert trace.attributes("ops", 0) == {"blocks per SM": 62.060608, "est. achieved occupancy %": 100}
    assert table(trace, "api_calls", "api", "thread_id", "start_ns", "end_ns", "correlation_id") == [
        ("runtime", 10, 0, 2000, 57)
    ]
    assert trace.attributes("api_calls", 0) == {"cbid": 211}
    assert trace.header.origin_unix_ns == 1000 + 1500
    adds_up(trace, 2)


@pytest.mark.parametrize(
    ("cat", "name", "expected"),
    [
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", ("memcpy", "copy_h2d", "pinned", "device")),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", ("memcpy", "copy_d2h", "device", "pageable")),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", ("memcpy", "copy_d2d", "device", "device")),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", ("memcpy", "copy_p2p", "device", "device")),
        ("gpu_memcpy", "Memcpy HtoD (Unknown -> Array)", ("memcpy", "copy_h2d", None, "array")),
        ("Memcpy", "Memcpy HtoD (Pageable -> Device)", ("memcpy", "copy_h2d", "pageable", "device")),
        ("gpu_memset", "Memset (Device)", ("memset", "memset", None, "device")),
        ("Memset", "Memset (Unknown)", ("memset", "memset", None, None)),
        ("Kernel", "k", ("kernel", "compute", None, None)),
    ],
)
def test_engines_and_memories_come_from_the_name(read, table, cat, name, expected):
    trace = read(
        [
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 0,
                "tid": 7,
                "ts": 1,
                "dur": 1,
                "args": {"device": 0, "bytes": 64},
            }
        ]
    )
    assert table(trace, "ops", "kind", "engine", "src_memory", "dst_memory") == [expected]
    assert trace.row("ops", 0)["bytes"] == 64


def test_a_copy_without_direction_in_its_name_takes_it_from_its_kind(read, table):
    event = {
        "ph": "X",
        "cat": "gpu_memcpy",
        "name": "CopyBuffer",
        "pid": 2,
        "tid": 0,
        "ts": 1,
        "dur": 1,
        "args": {"kind": "DtoH", "device": 2},
    }
    trace = read([event])
    assert table(trace, "ops", "engine", "device_id") == [("copy_d2h", 2)]
    assert trace.attributes("ops", 0) == {"kind": "DtoH"}


def test_unknown_ids_are_null(read, table):
    trace = read("""[
      {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1,
       "args": {"device": 0, "context": 4294967295, "stream": -1, "correlation": 4294967295, "queued": 0, "graph id": 0,
                "graph node id": 0, "External id": 0}}]""")
    names = (
        "context_id",
        "stream_id",
        "correlation_id",
        "queued_ns",
        "graph_id",
        "graph_node_id",
        "external_id",
    )
    assert table(trace, "ops", *names) == [(None,) * len(names)]


def test_synchronizations_join_their_call(read, table, adds_up):
    trace = read("""{"traceEvents": [
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 5, "tid": 6, "ts": 1, "dur": 1, "args": {"correlation": 40}},
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamWaitEvent", "pid": 5, "tid": 6, "ts": 3, "dur": 1, "args": {"correlation": 41}},
      {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 20, "ts": 3.2, "dur": 0.5,
       "args": {"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 40,
                "wait_on_cuda_event_id": 1, "stream": 20, "correlation": 41, "device": 0, "context": 1}},
      {"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": -1, "ts": 9, "dur": 2,
       "args": {"cuda_sync_kind": "Context Sync", "stream": 4294967295, "correlation": 99, "device": 0, "context": 1}},
      {"ph": "X", "cat": "cuda_sync", "name": "Event Sync", "pid": 0, "tid": 1, "ts": 12, "dur": 2,
       "args": {"cuda_sync_kind": "Event Sync", "wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1,
                "wait_on_cuda_event_id": 7777, "stream": -1, "correlation": 300, "device": 0, "context": 0}}]}""")
    assert table(
        trace, "syncs", "sync_kind", "process_id", "thread_id", "stream_id", "waits_on_stream_id", "waits_on_correlation_id",
        "cuda_event_id", "start_ns", "end_ns", "correlation_id",
    ) == [
        ("stream_wait_event", 5, 6, 20, 7, 40, 1, 2200, 2700, 41),
        ("context", 5, None, None, None, None, None, 8000, 10000, 99),
        ("event", 5, None, None, None, None, 7777, 11000, 13000, 300),
    ]  # fmt: skip
    # the record is derived from its call, which stays a call
    assert table(
        trace,
        "event_records",
        "cuda_event_id",
        "stream_id",
        "device_id",
        "context_id",
        "thread_id",
        "correlation_id",
        "at_ns",
    ) == [(1, 7, 0, 1, 6, 40, 0)]
    assert trace.table("api_calls").num_rows == 2
    assert trace.header.extra["derived_rows"] == {"event_records": 1}
    assert {(s, d) for s, d in table(trace, "streams", "stream_id", "device_id")} == {(20, 0), (7, 0)}
    assert trace.header.capabilities["event_records"].proven
    adds_up(trace, 5, derived=1)


def test_a_record_that_two_waits_name_is_one_row(read, table):
    wait = """{"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 20, "ts": %d, "dur": 1,
       "args": {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 40, "wait_on_cuda_event_id": 1, "stream": %d, "correlation": %d}}"""
    trace = read(
        '[{"ph": "X", "cat": "cuda_driver", "name": "cuEventRecord", "pid": 5, "tid": 6, "ts": 1, "dur": 1, "args": {"correlation": 40}},'
        + wait % (3, 20, 41)
        + ","
        + wait % (4, 21, 42)
        + "]"
    )
    assert table(trace, "event_records", "stream_id", "at_ns") == [(7, 0)]


def test_event_rows_of_the_file_are_used_as_they_are(read, table, adds_up):
    trace = read("""[
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 5, "tid": 6, "ts": 1, "dur": 1, "args": {"correlation": 40}},
      {"ph": "X", "cat": "cuda_event", "name": "cudaEvent", "pid": 0, "tid": 7, "ts": 2, "dur": 0,
       "args": {"event_id": 3, "stream": 7, "correlation": 40, "device": 0, "context": 1}},
      {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": 20, "ts": 3, "dur": 1,
       "args": {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 40, "wait_on_cuda_event_id": 3, "stream": 20, "correlation": 41}}]""")
    assert table(trace, "event_records", "cuda_event_id", "stream_id", "thread_id", "at_ns") == [(3, 7, 6, 0)]
    assert "event_records" not in trace.header.extra["derived_rows"]
    adds_up(trace, 3)


@pytest.mark.parametrize(
    ("cat", "name", "api"),
    [
        ("cuda_runtime", "cudaMalloc", "runtime"),
        ("cuda_runtime", "hipLaunchKernel", "runtime"),
        ("cuda_runtime", "cuLaunchKernel", "driver"),
        ("cuda_driver", "cuLaunchKernelEx", "driver"),
        ("Runtime", "cudaMemcpy", "runtime"),
        ("mtia_runtime", "runFunction", "other"),
    ],
)
def test_the_api_of_a_call(read, table, cat, name, api):
    trace = read(
        [
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 1,
                "tid": 2,
                "ts": 1,
                "dur": 1,
                "args": {"correlation": "12"},
            }
        ]
    )
    assert table(trace, "api_calls", "api", "name", "correlation_id") == [(api, name, 12)]


def test_ranges_go_to_their_tracks(read, table, adds_up):
    cats = ["cpu_op", "Operator", "user_annotation", "python_function", "Trace", "odd"]
    events = [
        {"ph": "X", "cat": c, "name": c, "pid": 1, "tid": 2, "ts": k, "dur": 1, "args": {"External id": 5}}
        for k, c in enumerate(cats)
    ]
    events.append(
        {"ph": "X", "cat": "gpu_user_annotation", "name": "g", "pid": 3, "tid": 7, "ts": 9, "dur": 1}
    )
    events.append({"ph": "X", "name": "bare", "pid": "Spans", "tid": "", "ts": 10, "dur": 1})
    trace = read(events)
    assert table(
        trace,
        "ranges",
        "name",
        "track",
        "domain",
        "process_id",
        "thread_id",
        "device_id",
        "stream_id",
        "external_id",
    ) == [
        ("cpu_op", "operator", None, 1, 2, None, None, 5),
        ("Operator", "operator", None, 1, 2, None, None, 5),
        ("user_annotation", "annotation", None, 1, 2, None, None, 5),
        ("python_function", "python", None, 1, 2, None, None, 5),
        ("Trace", "profiler", None, 1, 2, None, None, 5),
        ("odd", "other", "odd", 1, 2, None, None, 5),
        ("g", "device_annotation", None, 1, None, 3, 7, None),
        ("bare", "other", None, None, None, None, None, None),
    ]
    adds_up(trace, len(events))


def test_nesting_is_told_per_track_and_thread(read, table):
    def op(name, ts, dur, tid=1, cat="cpu_op"):
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}

    trace = read([op("b", 2, 3), op("a", 0, 10), op("c", 3, 1), op("touching", 5, 2), op("other thread", 4, 50, 2), op("d", 20, 5),
                  op("e", 22, 9), op("f", 23, 1), op("note", 1, 1, cat="user_annotation"), op("zero", 4, 0)])  # fmt: skip
    assert dict(table(trace, "ranges", "name", "nesting_level")) == {
        "a": 0, "note": 0, "b": 1, "c": 2, "zero": 2, "other thread": 0, "touching": 1, "d": None, "e": None, "f": 2,
    }  # fmt: skip


def test_work_of_other_accelerators_is_kept_as_other_operations(read, table, adds_up):
    events = [
        {
            "ph": "X",
            "cat": "mtia_ccp_events",
            "name": "dma",
            "pid": 9,
            "tid": 801,
            "ts": 1,
            "dur": 1,
            "args": {"size": 16},
        },
        {
            "ph": "X",
            "cat": "mtia_ccp_events",
            "name": "f",
            "pid": 9,
            "tid": 408,
            "ts": 2,
            "dur": 1,
            "args": {"stream": 102, "correlation": 4},
        },
        {
            "ph": "X",
            "cat": "npu_work",
            "name": "g",
            "pid": 1,
            "tid": 3,
            "ts": 3,
            "dur": 1,
            "args": {"stream": 3, "device": 1},
        },
        {"ph": "X", "cat": "npu_work", "name": "h", "pid": 1, "tid": 3, "ts": 4, "dur": 1},
    ]
    trace = read(events)
    assert table(trace, "ops", "name", "kind", "engine", "device_id", "stream_id") == [
        ("dma", "other", None, 9, None), ("f", "other", None, 9, 102), ("g", "other", None, 1, 3), ("h", "other", None, 1, None),
    ]  # fmt: skip
    adds_up(trace, 4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Activity Buffer Request", True),
        ("Buffer Flush", True),
        ("Instrumentation", True),
        ("Resource", True),
        ("Command Buffer Full", False),
        ("Lazy Function Loading", False),
        ("Runtime Triggered Module Loading", False),
        ("Something else", None),
    ],
)
def test_overheads_are_classed(read, table, name, expected):
    trace = read([{"ph": "X", "cat": "overhead", "name": name, "pid": -1, "tid": 0, "ts": 1, "dur": 2}])
    assert table(trace, "overheads", "kind", "of_recording", "process_id", "thread_id", "end_ns") == [
        (name, expected, None, None, 2000)
    ]


def test_instants_keep_scope_and_members(read, table, adds_up):
    trace = read("""[
      {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 2, "ts": 3.5,
       "args": {"Bytes": -512, "Addr": 140046054457344, "finished": true, "stream": 5}},
      {"name": "Iteration Start", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace", "ts": 1},
      {"name": "I", "ph": "I", "s": "p", "pid": 1, "tid": 2, "ts": 2}, {"name": "none", "ph": "i", "pid": 1, "tid": 2, "ts": 4}]""")
    assert table(trace, "instants", "name", "scope", "track", "at_ns", "process_id", "thread_id") == [
        ("Iteration Start", "global", None, 0, None, None),
        ("I", "process", None, 1000, 1, 2),
        ("[memory]", "thread", "cpu_instant_event", 2500, 1, 2),
        ("none", None, None, 3000, 1, 2),
    ]
    assert trace.attributes("instants", 2) == {
        "Bytes": -512,
        "Addr": 140046054457344,
        "finished": True,
        "stream": 5,
    }
    adds_up(trace, 4)


def test_counters_give_one_row_per_series(read, table, adds_up):
    trace = read("""[
      {"ph": "C", "name": "memory", "pid": 1, "tid": 0, "ts": 2, "args": {"allocated": 5, "reserved": 7.25}},
      {"ph": "C", "name": "clock", "pid": 1, "tid": 0, "ts": 1, "args": {"clock": 1980}},
      {"ph": "C", "name": "nothing", "pid": 1, "tid": 0, "ts": 1, "args": {"text": "x"}}]""")
    assert table(trace, "counters", "track", "at_ns", "value") == [
        ("clock", 0, 1980.0), ("memory: allocated", 1000, 5.0), ("memory: reserved", 1000, 7.25),
    ]  # fmt: skip
    assert trace.header.extra["derived_rows"] == {"counters": 1}
    assert trace.header.dropped == {"counter without a numeric series": 1}
    adds_up(trace, 3, derived=1)


def test_begins_and_ends_are_paired_per_thread(read, table, adds_up):
    trace = read("""[
      {"ph": "B", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 1, "args": {"a": 1}},
      {"ph": "B", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 2},
      {"ph": "B", "cat": "cpu_op", "name": "never ends", "pid": 1, "tid": 2, "ts": 2},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 3, "args": {"b": 2, "c": "x"}},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 5, "args": {"d": 300}},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 6}]""")
    assert table(trace, "ranges", "name", "start_ns", "end_ns", "nesting_level") == [
        ("outer", 0, 4000, 0), ("never ends", 1000, None, None), ("inner", 1000, 2000, 1),
    ]  # fmt: skip
    assert trace.attributes("ranges", 0) == {"a": 1, "d": 300}
    assert trace.attributes("ranges", 2) == {"b": 2, "c": "x"}
    assert trace.header.dropped == {"end of a range whose begin is kept": 2, "end without a begin": 1}
    adds_up(trace, 6)


def test_what_is_left_out_is_counted(read, adds_up):
    trace = read("""[{}, 17, "text", null, [1, 2],
      {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}},
      {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"},
      {"ph": "f", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g", "bp": "e"},
      {"ph": "t", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"},
      {"ph": "X", "cat": "cpu_op", "name": "no time", "pid": 1, "tid": 1, "dur": 1},
      {"ph": "X", "cat": "cpu_op", "name": "odd time", "pid": 1, "tid": 1, "ts": "soon", "dur": 1},
      {"ph": "b", "cat": "x", "name": "asynchronous", "pid": 1, "tid": 1, "ts": 1, "id": 4},
      {"ph": "?", "cat": "cpu_op", "name": "unknown", "pid": 1, "tid": 1, "ts": 1, "dur": 2},
      {}]""")
    assert trace.header.dropped == {
        "empty object": 2, "not an object": 4, "metadata": 1, "flow arrow": 3, "no time stamp": 1, "impossible time stamp": 1, "unknown phase without a duration": 1,
    }  # fmt: skip
    assert trace.table("ranges")["track"].to_pylist() == ["other"]
    adds_up(trace, 14)


def test_a_missing_duration_leaves_the_end_unknown_and_an_impossible_one_counts_no_time(read, table):
    trace = read("""[
      {"ph": "X", "cat": "kernel", "name": "missing", "pid": 0, "tid": 1, "ts": 1},
      {"ph": "X", "cat": "kernel", "name": "null", "pid": 0, "tid": 1, "ts": 2, "dur": null},
      {"ph": "X", "cat": "kernel", "name": "negative", "pid": 0, "tid": 1, "ts": 3, "dur": -5},
      {"ph": "X", "cat": "kernel", "name": "text", "pid": 0, "tid": 1, "ts": 4, "dur": "long"},
      {"ph": "X", "cat": "kernel", "name": "huge", "pid": 0, "tid": 1, "ts": 5, "dur": 1e300},
      {"ph": "X", "cat": "kernel", "name": "good", "pid": 0, "tid": 1, "ts": 6, "dur": 2}]""")
    assert dict(table(trace, "ops", "name", "end_ns")) == {
        "missing": None, "null": None, "negative": 2000, "text": 3000, "huge": 4000, "good": 7000,
    }  # fmt: skip
    checks = {c.check: (c.status, c.count) for c in trace.header.integrity}
    assert checks["impossible_durations"] == ("failed", 3)
    assert checks["unfinished"] == ("warning", 2)


def test_names_of_threads_and_processes(read, table):
    trace = read("""[
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "pid": 1, "tid": 2, "ts": 1, "dur": 1},
      {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 0, "stream": 7}},
      {"name": "process_name", "ph": "M", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python3"}},
      {"name": "thread_name", "ph": "M", "ts": 0, "pid": 1, "tid": 2, "args": {"name": "thread 2 (\\"main\\")"}},
      {"name": "thread_name", "ph": "M", "ts": 0, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
      {"name": "process_sort_index", "ph": "M", "ts": 0, "pid": 1, "tid": 0, "args": {"sort_index": 4}}]""")
    assert table(trace, "threads", "process_id", "thread_id", "process_name", "name") == [
        (1, 2, "python3", 'thread 2 ("main")')
    ]
    assert trace.header.dropped == {"metadata": 4}
    assert trace.table("ops")["start_ns"].to_pylist() == [0]  # metadata at 0 does not move the origin


def test_devices_of_list_and_of_events(read, table):
    trace = read("""{"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "computeMajor": 9,
        "computeMinor": 0, "numSms": 132}], "distributedInfo": {"rank": 3, "world_size": 8}, "cuda_driver_version": 13000,
        "cuda_runtime_version": 12090, "traceEvents": [
      {"ph": "X", "cat": "kernel", "name": "k", "pid": 9, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 9, "stream": 7}}]}""")
    assert table(trace, "devices", "rank", "device_id", "name", "sm_count", "compute_capability", "memory_bytes") == [
        (3, 0, "NVIDIA H200", 132, "9.0", 150109880320), (3, 9, None, None, None, None),
    ]  # fmt: skip
    header = trace.header
    assert (header.world_size, header.driver_version, header.runtime_version) == (8, "13.0", "12.9")
    assert trace.ranks == (3,)
    assert {c.check: c.count for c in header.integrity}["devices_not_listed"] == 1


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ('"hip_driver_version": 60443483, "hip_runtime_version": 70051831', ("6.4.43483", "7.0.51831")),
        ('"hip_driver_version": 6, "hip_runtime_version": "6.4.1-a187"', ("6", "6.4.1-a187")),
        ('"cuda_driver_version": 12, "cuda_runtime_version": true', ("12", None)),
    ],
)
def test_versions_are_written_as_their_vendors_write_them(read, members, expected):
    header = read('{"traceEvents": [], ' + members + "}").header
    assert (header.driver_version, header.runtime_version) == expected


def test_private_members_stay_out_of_the_header(read):
    trace = read("""{"host_name": "h1", "username": "u1", "environment": {"TOKEN": "s"}, "schemaVersion": 1, "traceName": "/home/u1/x",
      "traceEvents": []}""")
    text = json.dumps(trace.header.to_json())
    assert not any(word in text for word in ("h1", "u1", "TOKEN"))
    assert trace.header.extra["schemaVersion"] == 1


def test_a_collective_is_described(read, table):
    trace = read("""[
      {"ph": "X", "cat": "kernel", "name": "first", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 0, "stream": 7}},
      {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 20, "ts": 2, "dur": 5,
       "args": {"device": 0, "stream": 20, "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 2,
                "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": 77}}]""")
    assert table(
        trace, "collectives", "op_id", "collective", "group", "sequence", "bytes", "dtype", "ranks"
    ) == [(1, "allreduce", "0", 77, 2048, "BFloat16", "[0, 1]")]
    assert trace.attributes("ops", 1)["Out msg nelems"] == 1024


def test_one_launch_can_own_many_operations(read, table):
    kernels = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{10 + k},"dur":1,"args":{{"device":0,"stream":7,"correlation":5}}}}'
        for k in range(500)
    )
    trace = read(
        '[{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":5}},'
        + kernels
        + "]"
    )
    assert trace.table("ops").num_rows == 500
    assert {c.check: c.count for c in trace.header.integrity}["operations_without_launch"] == 0


def test_integrity_names_what_is_suspect(read):
    def kernel(ts, dur, stream=7):
        return {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "pid": 0,
            "tid": stream,
            "ts": ts,
            "dur": dur,
            "args": {"device": 0, "stream": stream},
        }

    step = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "ProfilerStep#1",
        "pid": 1,
        "tid": 1,
        "ts": 2000,
        "dur": 10,
    }
    trace = read(
        [
            *(kernel(k, 0.5) for k in range(12)),
            kernel(20, 500),
            kernel(21, 1, 8),
            kernel(22, 1),
            kernel(30, 0, 9),
            step,
        ]
    )
    found = {c.check: c.count for c in trace.header.integrity if c.status != "ok"}
    assert found == {
        "operations_without_launch": 16, "same_stream_overlaps": 1, "zero_length_operations": 1, "giant_operation": 1,
        "whole_microseconds": 1, "devices_not_listed": 1, "steps_without_device_work": 1,
    }  # fmt: skip


def test_a_trace_without_device_work_opens_and_says_so(read):
    trace = read([{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 1, "dur": 1}])
    assert {c.check: c.status for c in trace.header.integrity}["no_device_work"] == "warning"
    assert read('{"schemaVersion": 1, "traceEvents": []}').span_ns == 0


def test_odd_values_of_members_survive(read):
    trace = read(
        rb"""[{"ph":"X","cat":"kernel","name":"a\u00e9 \"q\" C:\Users\pc \u0041 """
        b"\xff\x01\t"
        rb"""","pid":0,"tid":7,"ts":1,"dur":1,
      "args":{"inf":inf,"-inf":-inf,"nan":NaN,"Infinity":Infinity,"bare":N/A,"text":"N/A # \u0001 \d","big":123456789012345678901,
      "list":[1,[2,{"x":nan}],"#"],"float":1.50,"true":true,"null":null,"zero":-0,"neg":-7,"stream":7.5,"raw":"tab	and """
        b"\xfe"
        rb"""" }}]"""
    )
    assert trace.row("ops", 0)["name"] == 'aé "q" C:\\Users\\pc A \ufffd\x01\t'
    found = trace.attributes("ops", 0)
    assert math.isnan(found.pop("nan"))
    assert found == {
        "inf": "inf", "-inf": "-inf", "Infinity": math.inf, "bare": "N/A", "text": "N/A # \x01 \\d", "big": 123456789012345678901,
        "list": [1, [2, {"x": "nan"}], "#"], "float": 1.5, "true": True, "null": None, "zero": 0, "neg": -7, "stream": 7.5,
        "raw": "tab\tand \ufffd",
    }  # fmt: skip


def test_members_may_stand_in_any_order(read, table):
    trace = read("""[{"args": {"stream": 7, "device": 0, "odd": 5, "correlation": 9}, "dur": 2, "ts": 1, "tid": 7, "pid": 0, "name": "k",
      "cat": "kernel", "ph": "X", "extra": [1]}]""")
    assert table(trace, "ops", "stream_id", "correlation_id", "end_ns", "name") == [(7, 9, 2000, "k")]
    assert trace.attributes("ops", 0) == {"extra": [1], "odd": 5}
