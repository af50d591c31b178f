"""Waits cut into parts: small traces, and the parts that the definition of causes makes of them."""

from __future__ import annotations

import numpy as np

from helpers.blueprint import blueprint, trace_of
from overlane.analysis.causes import CAUSES, code_of
from overlane.analysis.dependencies import PROOF_TABLES, dependencies
from overlane.analysis.waits import waits

GPU = "gpu 0 sm_count=2 compute_capability=9.0"


def cut(trace):
    return waits(trace, dependencies(trace))


def lines(found, op):
    """Return the parts of an operation: `start-end cause table row (+ also open)`."""
    result = []
    for k in np.flatnonzero(found.op == op):
        proof = f" {PROOF_TABLES[found.proof_table[k]]} {found.proof_row[k]}" if found.proof_table[k] else ""
        bits = [cause.name for n, cause in enumerate(CAUSES) if found.also_open[k] >> n & 1]
        also = f" + {' '.join(bits)}" if bits else ""
        result.append(f"{found.start_ns[k]}-{found.end_ns[k]} {CAUSES[found.cause[k]].name}{proof}{also}")
    return result


def parts(text, op):
    return lines(cut(blueprint(text)), op)


def test_ordering_comes_first_and_the_start_takes_the_rest():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-500
        op 2 s1 kernel 503-600
    """
    assert parts(text, 1) == ["20-500 stream_order ops 0", "500-503 launch_latency"]


def test_the_dependency_that_ends_last_is_the_cause_and_others_are_open_until_their_ends():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        call 4 cuLaunchKernel 40-50
        op 1 s1 kernel 15-500
        op 2 s2 kernel 25-300
        record 5 s1 @30 sync=1
        wait 3 s2 35-36 sync=1
        op 4 s2 kernel 501-600
    """
    assert parts(text, 2) == [
        "50-300 event_wait syncs 0 + stream_order",
        "300-500 event_wait syncs 0",
        "500-501 launch_latency",
    ]


def test_the_order_of_the_list_settles_ties():
    text = """
        stream 7 legacy_default
        stream 1 blocking
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        call 3 cuLaunchKernel 20-30
        op 1 s1 kernel 15-500
        op 2 s7 kernel 500-700
        op 3 s1 kernel 700-800
    """
    assert parts(text, 2) == [
        "30-500 legacy_default_stream ops 1 + stream_order",
        "500-700 legacy_default_stream ops 1",
    ]


def test_a_copy_waits_for_the_engine():
    text = """
        call 1 cuMemcpyHtoDAsync 0-10
        call 2 cuMemcpyHtoDAsync 10-20
        call 3 cuMemcpyDtoHAsync 20-30
        op 1 s1 memcpy 15-500
        op 3 s3 memcpy 31-700 engine=copy_d2h
        op 2 s2 memcpy 502-600
    """
    assert parts(text, 2) == ["20-500 copy_engine_busy ops 0", "500-502 launch_latency"]


def test_a_kernel_with_more_blocks_than_fit_leaves_no_room():
    text = f"""
        {GPU}
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-50000 grid=40,1,1 block=256,1,1 registers=32
        op 2 s2 kernel 50001-50100 grid=1,1,1 block=32,1,1
    """
    assert parts(text, 1) == ["20-50000 partition_busy ops 0", "50000-50001 launch_latency"]


def test_where_a_block_fits_beside_what_runs_the_wait_is_unknown():
    text = f"""
        {GPU}
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-50000 grid=8,1,1 block=256,1,1 registers=32
        op 2 s2 kernel 50001-50100 grid=1,1,1 block=32,1,1
    """
    assert parts(text, 1) == ["20-50001 unknown"]


def test_without_the_limits_of_the_device_nothing_is_said_of_room():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-50000 grid=40,1,1 block=256,1,1 registers=32
        op 2 s2 kernel 50001-50100 grid=1,1,1 block=32,1,1
    """
    assert parts(text, 1) == ["20-50001 unknown"]


def test_a_kernel_of_higher_priority_that_came_later_is_named_while_it_runs():
    text = f"""
        {GPU}
        stream 1 nonblocking priority=0
        stream 2 nonblocking priority=0
        stream 3 nonblocking priority=-5
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        call 3 cuLaunchKernel 20-30
        op 1 s1 kernel 15-50000 grid=40,1,1 block=256,1,1
        op 3 s3 kernel 50001-60000 grid=40,1,1 block=256,1,1
        op 2 s2 kernel 60002-70000 grid=40,1,1 block=256,1,1
    """
    assert parts(text, 2) == [
        "20-50000 partition_busy ops 0",
        "50000-50001 launch_latency",
        "50001-60000 priority ops 1 + partition_busy",
        "60000-60002 launch_latency",
    ]


def test_partitions_with_masks_of_their_own_do_not_fill_each_other():
    text = f"""
        {GPU}
        partition 1
        partition 2 parent_context_id=1
        partition 3 parent_context_id=1
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-50000 grid=400,1,1 block=256,1,1 ctx=2 partition=1
        op 2 s2 kernel 50001-50100 grid=1,1,1 block=32,1,1 ctx=3 partition=2
    """
    rows = {
        name: blueprint(text).table(name).to_pylist() for name in ("ops", "api_calls", "devices", "streams")
    }
    rows["partitions"] = [
        {"device_id": 0, "context_id": 1},
        {"device_id": 0, "context_id": 2, "parent_context_id": 1, "tpc_mask": "1"},
        {"device_id": 0, "context_id": 3, "parent_context_id": 1, "tpc_mask": "2"},
    ]
    rows["devices"][0]["sm_count"] = 4
    apart = trace_of(rows)
    assert [line.split()[1] for line in lines(cut(apart), 1)] == ["unknown"]
    rows["partitions"][2]["tpc_mask"] = "1"
    assert [line.split()[1] for line in lines(cut(trace_of(rows)), 1)] == ["partition_busy", "launch_latency"]


def test_a_blocking_copy_waits_while_its_own_call_stages():
    text = """
        call 1 cudaMemcpy 0-900
        op 1 s1 memcpy 700-800 src_memory=pageable
    """
    assert parts(text, 0) == ["0-700 blocking_copy api_calls 0"]


def test_work_of_another_context_is_a_context_switch():
    text = """
        partition 1
        partition 9
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-50000
        op 2 s2 kernel 50001-60000 ctx=9
    """
    assert parts(text, 1) == ["20-50000 context_switch ops 0", "50000-50001 launch_latency"]


def test_a_launch_behind_another_stream_in_the_same_queue():
    text = f"""
        {GPU}
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-50000 channel_id=3 grid=1,1,1 block=32,1,1
        op 2 s2 kernel 50001-60000 channel_id=3 grid=1,1,1 block=32,1,1
    """
    assert parts(text, 1) == ["20-50000 channel_shared ops 0", "50000-50001 launch_latency"]


def test_loading_by_another_thread_that_covers_the_wait_is_named():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuModuleLoadData 5-50000 thread=2
        op 1 s1 kernel 50010-60000
    """
    assert parts(text, 0) == [
        "10-30010 module_load api_calls 1",
        "30010-50000 launch_latency + module_load",
        "50000-50010 launch_latency",
    ]


def test_a_launch_that_loads_code_waits_for_what_runs():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-60
        overhead lazy_function_loading 20-50
        op 1 s1 kernel 15-50000
        op 2 s2 kernel 50002-60000
    """
    assert parts(text, 1) == ["60-50000 module_load overheads 0", "50000-50002 launch_latency"]


def test_a_host_function_whose_stream_is_not_named_explains_what_nothing_else_does():
    text = f"""
        {GPU}
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchHostFunc 10-20
        call 3 cuLaunchKernel 20-30
        call 4 cuLaunchKernel 30-40
        op 1 s1 kernel 15-100 grid=1,1,1 block=32,1,1
        op 4 s2 kernel 42-60 grid=1,1,1 block=32,1,1
        op 3 s1 kernel 500000-600000
    """
    assert parts(text, 2) == [
        "30-100 host_function api_calls 1 + stream_order",
        "100-480000 host_function api_calls 1",
        "480000-500000 unknown",
    ]
    assert parts(text, 1) == ["40-42 launch_latency"]


def test_a_prefetch_has_no_row_of_the_device_and_is_earlier_work_of_the_stream():
    text = f"""
        {GPU}
        call 1 cuMemPrefetchAsync_v2 0-20
        call 2 cuLaunchKernel 20-30
        op 2 s1 kernel 100000-110000
    """
    assert parts(text, 0) == ["30-80000 stream_order api_calls 0", "80000-100000 unknown"]


def test_a_value_wait_with_an_unknown_end_leaves_the_rest_open():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuStreamWaitValue32 10-20
        sync 2 other s1 10-20
        call 3 cuLaunchKernel 20-30
        op 1 s1 kernel 15-100
        op 3 s1 kernel 500-600
    """
    assert parts(text, 1) == [
        "30-100 stream_order ops 0 + value_wait",
        "100-500 unknown + value_wait",
    ]


def test_the_launch_latency_is_measured_where_eight_starts_tell_it():
    calls = "\n".join(f"call {n} cuLaunchKernel {n * 1000}-{n * 1000 + 10}" for n in range(1, 10))
    ops = "\n".join(f"op {n} s{n} kernel {n * 1000 + 15}-{n * 1000 + 20}" for n in range(1, 9))
    late = "op 9 s9 kernel 9800-9900"
    # Nine starts: the 95th percentile is the longest of them, 790 ns.
    assert parts(f"{calls}\n{ops}\n{late}", 8) == ["9010-9800 launch_latency"]
    calls = "\n".join(f"call {n} cuLaunchKernel {n * 1000}-{n * 1000 + 10}" for n in range(1, 60))
    many = "\n".join(f"op {n} s{n} kernel {n * 1000 + 15}-{n * 1000 + 20}" for n in range(10, 60))
    assert parts(f"{calls}\n{ops}\n{late}\n{many}", 8) == ["9010-9795 unknown", "9795-9800 launch_latency"]


def test_without_an_issue_there_is_no_wait():
    found = cut(blueprint("op - s1 kernel 10-20\nop - s1 kernel 30-40"))
    assert len(found.op) == 0
    assert found.wait_ns.tolist() == [-1, -1]


def test_parts_below_the_fit_error_of_the_clock_are_marked():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 10-20
        op 1 s1 kernel 15-500
        op 2 s1 kernel 503-600
    """
    trace = blueprint(text, fit_error_ns=10)
    found = waits(trace, dependencies(trace))
    assert found.is_below_fit_error.tolist() == [True, False, False]


def test_distributions_take_waits_that_were_measured():
    calls = "\n".join(f"call {n} cuLaunchKernel {n * 1000}-{n * 1000 + 10}" for n in range(1, 11))
    ops = "\n".join(f"op {n} s1 kernel {n * 1000 + 10 + n}-{n * 1000 + 100}" for n in range(1, 11))
    found = cut(blueprint(f"{calls}\n{ops}"))
    (stream,) = found.distribution("stream")
    assert (stream.count, stream.total_ns, stream.max_ns) == (10, 55, 10)
    assert (stream.p50_ns, stream.p90_ns, stream.p99_ns, stream.p999_ns) == (5, 9, 10, 10)
    assert [(q.key, q.total_ns) for q in found.distribution("cause")] == [("launch_latency", 55)]
    assert [q.key for q in found.distribution("name")] == ["kernel"]
    assert [q.key for q in found.distribution("partition")] == [None]


def test_causes_are_places_in_the_list():
    assert CAUSES[code_of("value_wait")].name == "value_wait"
