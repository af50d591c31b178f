"""From records to tables: scripted records with answers worked out by hand."""

import pytest

from overlane.validation import validate
from overlane_collect.activities import Kind
from overlane_collect.backends.fake import FakeBackend
from overlane_collect.decoding.host import _call_name
from overlane_collect.decoding.names import demangled
from overlane_collect.recorder import Recorder
from overlane_collect.writer import read_members

CONTEXT = (Kind.CONTEXT, [{"context_id": 1, "null_stream_id": 7}])
DEVICE = (Kind.DEVICE, [{"name": "GPU", "sm_count": 132, "capability_major": 9}])
LAUNCH, SYNCHRONIZE = 211, 131
UNSET = 0xFFFFFFFF


def call(start, end, correlation, cbid=LAUNCH, **more):
    return {
        "cbid": cbid,
        "start": start,
        "end": end,
        "process_id": 1,
        "thread_id": 2,
        "correlation_id": correlation,
        **more,
    }


def kernel(start, end, correlation, stream=7, context=1, **more):
    return {
        "start": start,
        "end": end,
        "correlation_id": correlation,
        "stream_id": stream,
        "context_id": context,
        "name": "work",
        **more,
    }


def recorded(tmp_path, *steps, facts=()):
    path = tmp_path / "a.overlane"
    recorder = Recorder(path, backend=FakeBackend([list(steps)]))
    recorder.start()
    for fact, values in facts:
        recorder.fact(fact, **values)
    recorder.close()
    header, tables = read_members(path)
    validate("a", header, tables)
    return header, tables


def rows(table, *names):
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_times_start_at_the_earliest_stamp_of_all_tables(tmp_path):
    _, tables = recorded(
        tmp_path,
        (Kind.RUNTIME, [call(1000, 1010, 1)]),
        (Kind.CONCURRENT_KERNEL, [kernel(1050, 1090, 1, queued=990, submitted=1030)]),
    )
    assert rows(tables["api_calls"], "name", "start_ns", "end_ns") == [("cudaLaunchKernel", 0, 10)]
    assert rows(tables["ops"], "queued_ns", "submitted_ns", "start_ns", "end_ns") == [(-10, 30, 50, 90)]


def test_unset_ids_and_stamps_are_null_never_a_magic_number(tmp_path):
    _, tables = recorded(
        tmp_path, (Kind.CONCURRENT_KERNEL, [kernel(5, 9, 0, stream=UNSET, channel_id=3, graph_id=UNSET)])
    )
    assert rows(
        tables["ops"],
        "stream_id",
        "correlation_id",
        "queued_ns",
        "channel_id",
        "graph_id",
        "cluster",
        "raw_name",
    ) == [(None,) * 7]


def test_a_graph_node_carries_no_launch_stamp_of_its_own(tmp_path):
    _, tables = recorded(
        tmp_path, (Kind.CONCURRENT_KERNEL, [kernel(50, 90, 1, queued=10, graph_node_id=8, graph_id=2)])
    )
    assert rows(tables["ops"], "queued_ns", "graph_id", "graph_node_id") == [(None, 2, 8)]


def test_impossible_stamps_are_left_out_and_counted(tmp_path):
    header, tables = recorded(
        tmp_path,
        (
            Kind.CONCURRENT_KERNEL,
            [kernel(0, 0, 1), kernel(90, 50, 2), kernel(100, 0, 3), kernel(100, 120, 4)],
        ),
    )
    assert rows(tables["ops"], "correlation_id", "end_ns") == [(4, 20), (3, None)]
    assert header.dropped == {"zero_stamps": 1, "reversed_stamps": 1}
    status = {check.check: (check.status, check.count) for check in header.integrity}
    assert status["impossible_stamps"] == ("failed", 2)
    assert status["unfinished_operations"] == ("warning", 1)
    assert header.source_events == tables["ops"].num_rows + sum(header.dropped.values())


def test_copies_say_engine_and_memory(tmp_path):
    base = {"end": 20, "context_id": 1, "stream_id": 7, "bytes": 64}
    _, tables = recorded(
        tmp_path,
        (
            Kind.MEMCPY,
            [
                {**base, "start": 1, "copy_kind": 1, "src_kind": 1, "dst_kind": 3},
                {**base, "start": 2, "copy_kind": 2, "src_kind": 3, "dst_kind": 2},
                {**base, "start": 3, "copy_kind": 8, "src_kind": 3, "dst_kind": 3},
            ],
        ),
        (Kind.MEMCPY2, [{**base, "start": 4, "copy_kind": 10, "src_kind": 3, "dst_kind": 3}]),
        (Kind.MEMSET, [{**base, "start": 5, "memory_kind": 3}]),
    )
    assert rows(tables["ops"], "name", "engine", "src_memory", "dst_memory", "bytes") == [
        ("Memcpy HtoD (Pageable -> Device)", "copy_h2d", "pageable", "device", 64),
        ("Memcpy DtoH (Device -> Pinned)", "copy_d2h", "device", "pinned", 64),
        ("Memcpy DtoD (Device -> Device)", "copy_d2d", "device", "device", 64),
        ("Memcpy PtoP (Device -> Device)", "copy_p2p", "device", "device", 64),
        ("Memset (Device)", "memset", None, "device", 64),
    ]


def test_a_wait_is_joined_to_its_record_by_the_sync_id_not_by_the_event(tmp_path):
    _, tables = recorded(
        tmp_path,
        CONTEXT,
        (Kind.RUNTIME, [call(10, 12, 1), call(20, 22, 2), call(30, 32, 3, cbid=SYNCHRONIZE)]),
        (
            Kind.CUDA_EVENT,
            [
                {
                    "cuda_event_id": 4,
                    "cuda_event_sync_id": 100,
                    "stream_id": 8,
                    "context_id": 1,
                    "correlation_id": 1,
                },
                {
                    "cuda_event_id": 4,
                    "cuda_event_sync_id": 101,
                    "stream_id": 9,
                    "context_id": 1,
                    "correlation_id": 2,
                },
            ],
        ),
        (
            Kind.SYNCHRONIZATION,
            [
                {
                    "type": 2,
                    "start": 30,
                    "end": 31,
                    "stream_id": 7,
                    "context_id": 1,
                    "cuda_event_id": 4,
                    "cuda_event_sync_id": 100,
                    "correlation_id": 3,
                }
            ],
        ),
    )
    names = (
        "sync_kind",
        "stream_id",
        "waits_on_stream_id",
        "waits_on_correlation_id",
        "thread_id",
        "device_id",
    )
    assert rows(tables["syncs"], *names) == [("stream_wait_event", 7, 8, 1, 2, 0)]
    assert rows(tables["event_records"], "stream_id", "at_ns") == [(8, 0), (9, 10)]


def test_what_the_call_was_tells_a_query_from_a_wait(tmp_path):
    sync = {"context_id": 1, "stream_id": 7, "cuda_event_id": UNSET}
    calls = {1: "cudaStreamQuery_v3020", 2: "cudaDeviceSynchronize_v3020", 3: "cudaStreamSynchronize_v3020"}
    _, tables = recorded(
        tmp_path,
        (Kind.RUNTIME, [call(n * 10, n * 10 + 5, n, cbid=n, result=600 if n == 1 else 0) for n in (1, 2, 3)]),
        (
            Kind.SYNCHRONIZATION,
            [
                {**sync, "type": 3, "start": 10, "end": 15, "correlation_id": 1, "result": 600},
                {**sync, "type": 4, "start": 20, "end": 25, "correlation_id": 2, "stream_id": UNSET},
                {**sync, "type": 3, "start": 30, "end": 35, "correlation_id": 3},
            ],
        ),
        facts=[("cupti", {"version": 130401, "kinds": [], "refused": {}, "calls": {"runtime": calls}})],
    )
    assert rows(tables["syncs"], "sync_kind", "stream_id", "result") == [
        ("stream_query", 7, 600),
        ("device", None, 0),
        ("stream", 7, 0),
    ]


def test_streams_say_how_they_order_with_the_default_stream(tmp_path):
    """A per-thread default stream is recorded as a blocking one, made by its first use."""
    made = {"context_id": 1, "flag": 1}
    names = {1: "cudaStreamCreate_v3020", 2: "cudaLaunchKernel_v7000"}
    _, tables = recorded(
        tmp_path,
        CONTEXT,
        (Kind.RUNTIME, [call(1, 2, 1, cbid=1), call(3, 4, 2, cbid=2)]),
        (
            Kind.STREAM,
            [
                {**made, "stream_id": 8, "correlation_id": 1, "priority": -2},
                {**made, "stream_id": 9, "correlation_id": 2},
                {**made, "stream_id": 10, "correlation_id": 1, "flag": 2},
                {**made, "stream_id": 11, "correlation_id": 1},
            ],
        ),
        (Kind.CONCURRENT_KERNEL, [kernel(10 + s, 20 + s, s, stream=s) for s in (7, 8, 9, 10, 12)]),
        facts=[("cupti", {"version": 130401, "kinds": [], "refused": {}, "calls": {"runtime": names}})],
    )
    assert rows(tables["streams"], "stream_id", "stream_kind", "priority") == [
        (7, "legacy_default", None),
        (8, "blocking", -2),
        (9, "per_thread_default", 0),
        (10, "nonblocking", 0),
        (12, None, None),  # older than the recording; 11 had no work
    ]


def test_partitions_are_contexts_and_operations_point_to_them(tmp_path):
    mask = [0] * 32
    mask[0], mask[1] = 0x3600, 0x1
    _, tables = recorded(
        tmp_path,
        DEVICE,
        CONTEXT,
        (
            Kind.GREEN_CONTEXT,
            [
                {
                    "context_id": 2,
                    "parent_context_id": 1,
                    "sm_count": 8,
                    "tpc_mask_words": 8,
                    "tpc_mask": mask,
                }
            ],
        ),
        (Kind.STREAM, [{"context_id": 1, "stream_id": 18, "flag": 2, "priority": -5}]),
        (
            Kind.CONCURRENT_KERNEL,
            [
                kernel(10, 20, 1, channel_id=0, channel_type=1),
                kernel(11, 20, 2, stream=18, context=2, channel_id=5, channel_type=1),
            ],
        ),
        facts=[("partition", {"context_id": 2, "name": "critical", "sm_requested": 6})],
    )
    names = (
        "context_id",
        "parent_context_id",
        "name",
        "sm_requested",
        "sm_granted",
        "tpc_mask",
        "channel_ids",
    )
    assert rows(tables["partitions"], *names) == [
        (1, None, None, None, 132, None, [0]),
        (2, 1, "critical", 6, 8, "100003600", [5]),
    ]
    assert rows(tables["ops"], "partition_id") == [(0,), (1,)]
    assert rows(tables["streams"], "context_id", "stream_kind") == [(1, "legacy_default"), (2, "nonblocking")]


def test_marks_become_nested_ranges_and_our_own_mirror_is_left_out(tmp_path):
    mark = {"object_kind": 2, "object": (1, 2, 0), "domain": "app"}
    _, tables = recorded(
        tmp_path,
        (
            Kind.MARKER,
            [
                {**mark, "flags": 2, "id": 1, "timestamp": 10, "name": "outer"},
                {**mark, "flags": 2, "id": 2, "timestamp": 12, "name": "inner"},
                {**mark, "flags": 4, "id": 2, "timestamp": 15},
                {**mark, "flags": 1, "id": 3, "timestamp": 16, "name": "point"},
                {**mark, "flags": 4, "id": 1, "timestamp": 20},
                {**mark, "flags": 2, "id": 4, "timestamp": 30, "name": "open"},
                {**mark, "flags": 2, "id": 5, "timestamp": 31, "name": "ours", "domain": "overlane"},
                {**mark, "flags": 4, "id": 5, "timestamp": 32, "domain": "overlane"},
            ],
        ),
    )
    assert rows(tables["ranges"], "name", "start_ns", "end_ns", "nesting_level", "domain") == [
        ("outer", 0, 10, 0, "app"),
        ("inner", 2, 5, 1, "app"),
        ("open", 20, None, None, "app"),
    ]
    assert rows(tables["instants"], "name", "at_ns") == [("point", 6)]


def test_declared_accesses_and_blocks_find_their_operation(tmp_path):
    _, tables = recorded(
        tmp_path,
        (Kind.CONCURRENT_KERNEL, [kernel(1000, 2000, 5), kernel(500, 900, 4)]),
        (Kind.EXTERNAL_CORRELATION, [{"external_kind": 3, "external_id": 77, "correlation_id": 5}]),
        facts=[
            (
                "accesses",
                {"external_id": [77, 99], "address": [256, 1], "bytes": [4, 1], "mode": ["write", "read"]},
            ),
            (
                "host_accesses",
                {"thread_id": [2], "at": [600], "address": [64], "bytes": [8], "mode": ["read"]},
            ),
            ("blocks", {"external_id": 77, "sm": [3, 4], "start": [10, 20], "end": [900, 990]}),
        ],
    )
    assert rows(tables["accesses"], "op_id", "at_ns", "address", "mode", "certainty") == [
        (1, None, 256, "write", "declared"),
        (None, 100, 64, "read", "declared"),
    ]
    # The blocks span 980 ns of a kernel of 1000: they lie in its middle, give or take 10.
    assert rows(tables["blocks"], "op_id", "sm_id", "start_ns", "end_ns") == [
        (1, 3, 510, 1400),
        (1, 4, 520, 1490),
    ]


def test_the_fit_of_the_blocks_clock_is_in_the_header(tmp_path):
    header, _ = recorded(
        tmp_path,
        (Kind.CONCURRENT_KERNEL, [kernel(1000, 2000, 5)]),
        (Kind.EXTERNAL_CORRELATION, [{"external_kind": 3, "external_id": 77, "correlation_id": 5}]),
        facts=[("blocks", {"external_id": 77, "sm": [3], "start": [10], "end": [990]})],
    )
    clock = {clock.name: clock for clock in header.clocks}["globaltimer"]
    assert (clock.offset_ns, clock.fit_error_ns) == (0, 10 + 32)


def test_a_full_command_buffer_names_its_channel_and_is_not_ours(tmp_path):
    _, tables = recorded(
        tmp_path,
        (
            Kind.OVERHEAD,
            [
                {
                    "overhead_kind": 6 << 16,
                    "start": 1,
                    "end": 5,
                    "channel_id": 4,
                    "object_kind": 2,
                    "object": (1, 2, 0),
                },
                {"overhead_kind": 7 << 16, "start": 6, "end": 7},
                {"overhead_kind": 0, "start": 8, "end": 9},
            ],
        ),
    )
    assert rows(tables["overheads"], "kind", "of_recording", "channel_id", "thread_id") == [
        ("command_buffer_full", False, 3, 2),
        ("activity_buffer_request", True, None, None),
        ("unknown", None, None, None),
    ]


@pytest.mark.parametrize(
    ("recorded_name", "name"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel_ptsz"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cuInit", "cuInit"),
    ],
)
def test_only_the_version_that_cupti_adds_is_cut_from_a_call(recorded_name, name):
    assert _call_name(recorded_name) == name


def test_mangled_names_become_readable_and_others_stay():
    assert demangled("_Z5saxpyfPf") in {"saxpy(float, float*)", "_Z5saxpyfPf"}
    assert demangled("triton_poi_fused_0") == "triton_poi_fused_0"
    assert demangled("_Znonsense!") == "_Znonsense!"
