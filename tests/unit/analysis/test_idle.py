"""Gaps cut into parts: what the issuing thread did before the next issue, and what held it after."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.blueprint import blueprint
from overlane.analysis.causes import CAUSES
from overlane.analysis.dependencies import PROOF_TABLES, dependencies
from overlane.analysis.idle import SCOPES, idle
from overlane.analysis.waits import waits
from overlane.errors import OverlaneError

LAUNCHES = """
    call 1 cuLaunchKernel 0-10
    call 9 cuLaunchKernel 900-910
    op 1 s1 kernel 12-100
    op 9 s1 kernel 915-1000
"""


def cut(text, window=None):
    trace = blueprint(text)
    deps = dependencies(trace)
    return idle(trace, deps, waits(trace, deps), window=window)


def parts(text, scope="stream", window=None):
    """Return the parts of all gaps of a scope: `owner start-end cause table row`."""
    found = cut(text, window)
    result = []
    for k in np.flatnonzero(found.scope[found.gap] == SCOPES.index(scope)):
        owner = found.owner[found.gap[k]]
        proof = f" {PROOF_TABLES[found.proof_table[k]]} {found.proof_row[k]}" if found.proof_table[k] else ""
        name = CAUSES[found.cause[k]].name
        result.append(f"{owner} {found.part_start_ns[k]}-{found.part_end_ns[k]} {name}{proof}")
    return result


def test_a_gap_before_the_issue_is_late_and_its_own_call_is_a_part():
    assert parts(LAUNCHES) == [
        "0 100-900 late_launch",
        "0 900-910 late_launch api_calls 1",
        "0 910-915 launch_latency",
    ]


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ("sync 5 stream s1 300-400", "host_sync syncs 0"),
        ("call 5 cudaDeviceSynchronize 300-400", "host_sync api_calls 1"),
        ("call 5 cudaMalloc 300-400", "allocation api_calls 1"),
        ("call 5 cuModuleLoadData 300-400", "module_load api_calls 1"),
        ("call 5 cuCtxSetLimit 300-400", "implicit_sync api_calls 1"),
        ("overhead cupti_buffer_flush 300-400 of_recording=1", "profiler_overhead overheads 0"),
    ],
)
def test_what_the_issuing_thread_did_is_the_cause(row, cause):
    if row.startswith("sync"):
        row = "call 5 cudaStreamSynchronize 300-400\n" + row
    assert f"0 300-400 {cause}" in parts(f"{LAUNCHES}\n{row}")


def test_a_query_is_no_synchronization():
    assert "0 100-900 late_launch" in parts(LAUNCHES + "\ncall 5 cudaStreamQuery 300-310")


def test_what_another_thread_did_is_not():
    assert "0 100-900 late_launch" in parts(LAUNCHES + "\ncall 5 cudaMalloc 300-400 thread=2")


def test_a_full_command_buffer_counts_inside_launches():
    text = """
        call 1 cuLaunchKernel 0-10
        call 9 cuLaunchKernel 300-910
        overhead command_buffer_full 200-800
        op 1 s1 kernel 12-100
        op 9 s1 kernel 915-1000
    """
    assert parts(text) == [
        "0 100-300 late_launch",
        "0 300-800 launch_queue_full overheads 0",
        "0 800-910 late_launch api_calls 1",
        "0 910-915 launch_latency",
    ]


def test_a_thread_in_a_blocking_copy_is_held_by_it():
    text = (
        LAUNCHES + "\ncall 5 cudaMemcpy 200-500\nop 5 s2 memcpy 300-450 src_memory=pageable engine=copy_h2d"
    )
    assert "0 200-500 blocking_copy api_calls 1" in parts(text)


def test_ranges_say_where_a_late_thread_was():
    assert parts(LAUNCHES + "\nrange step 50-950")[0] == "0 100-900 late_launch ranges 0"


def test_a_wait_cuts_the_gap_from_the_issue_on():
    text = """
        call 1 cuLaunchKernel 0-10
        call 2 cuLaunchKernel 20-30
        op 1 s1 kernel 12-800
        record 5 s1 @15 sync=1
        wait 3 s2 16-17 sync=1
        call 4 cuLaunchKernel 40-60
        op 2 s3 kernel 35-50
        op 4 s2 kernel 802-900
        call 6 cuLaunchKernel 2-5
        op 6 s2 kernel 6-20
    """
    assert parts(text)[:3] == [
        "1 20-40 late_launch",
        "1 40-60 late_launch api_calls 3",
        "1 60-800 event_wait syncs 0",
    ]


def test_without_a_launch_call_the_gap_is_unknown():
    assert parts("op - s1 kernel 0-10\nop - s1 kernel 30-40") == ["0 10-30 unknown"]


def test_overlapping_operations_leave_no_gap():
    assert parts("op - s1 kernel 0-100\nop - s1 kernel 10-20\nop - s1 kernel 100-110") == []


def test_devices_and_partitions_are_idle_when_nothing_of_theirs_runs():
    text = """
        partition 1
        op - s1 kernel 0-10 partition=0
        op - s2 kernel 5-30 partition=0
        op - s1 kernel 40-50 partition=0
        op - s3 kernel 45-60
        op - s3 kernel 90-95
    """
    assert parts(text, "partition") == ["0 30-40 unknown"]
    assert parts(text, "device") == ["0 30-40 unknown", "0 60-90 unknown"]


def test_a_window_cuts_and_adds_its_edges():
    text = "op - s1 kernel 10-20\nop - s1 kernel 40-50\nop - s1 kernel 70-80"
    assert parts(text, "device", (0, 60)) == [
        "0 0-10 unknown",
        "0 20-40 unknown",
        "0 50-60 late_launch",
    ]
    assert parts(text, "device", (45, 100)) == ["0 50-70 unknown", "0 80-100 late_launch"]


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(OverlaneError, match="ends before it starts"):
        cut(LAUNCHES, (10, 5))


def test_parts_add_up():
    found = cut(LAUNCHES + "\nsync 5 stream s1 300-400\ncall 6 cudaMalloc 350-500")
    lengths = np.zeros(len(found.start_ns), np.int64)
    np.add.at(lengths, found.gap, found.part_end_ns - found.part_start_ns)
    assert lengths.tolist() == (found.end_ns - found.start_ns).tolist()
    assert sum(found.totals("device")[0].values()) == 815


def test_an_empty_trace_is_not_idle():
    assert len(cut("").start_ns) == 0
