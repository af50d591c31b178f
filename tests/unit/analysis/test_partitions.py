"""Partitions: what was granted, busy and overlap, and the line between shared SMs and leaks."""

import pytest

from overlane.analysis.partitions import PartitionOverlap, partitions
from unit.timeline.traces import make_trace

PRIMARY = {"device_id": 0, "context_id": 1, "sm_granted": 132}
GREEN = {"device_id": 0, "context_id": 2, "parent_context_id": 1, "name": "critical", "sm_requested": 5,
         "sm_granted": 8, "tpc_mask": "0f"}  # fmt: skip
REST = {"device_id": 0, "context_id": 3, "parent_context_id": 1, "name": "rest", "sm_requested": 124,
        "sm_granted": 124, "tpc_mask": "f0"}  # fmt: skip


def op(partition_id, start_ns, end_ns, engine="compute"):
    kind = "kernel" if engine == "compute" else "memcpy"
    return {"partition_id": partition_id, "device_id": 0, "context_id": partition_id + 1,
            "stream_id": 7 + partition_id, "start_ns": start_ns, "end_ns": end_ns, "engine": engine,
            "kind": kind}  # fmt: skip


def block(op_id, sm_id, start_ns, end_ns):
    return {"op_id": op_id, "sm_id": sm_id, "start_ns": start_ns, "end_ns": end_ns}


def test_a_trace_without_partitions_has_none():
    assert partitions(make_trace(ops=[op(0, 0, 5) | {"partition_id": None}])) == ()


def test_busy_time_and_overlap_are_of_unions():
    ops = [op(0, 0, 40, "copy_h2d"), op(1, 10, 30), op(1, 20, 50), op(2, 45, 70)]
    whole, green, rest = partitions(make_trace(ops=ops, partitions=[PRIMARY, GREEN, REST]))
    assert [(p.op_count, p.kernel_count, p.busy_ns, p.compute_ns) for p in (whole, green, rest)] == [
        (1, 0, 40, 0), (2, 2, 40, 40), (1, 1, 25, 25),
    ]  # fmt: skip
    assert green.overlap == (PartitionOverlap(0, 30, 0), PartitionOverlap(2, 5, 5))
    assert (green.sm_requested, green.sm_granted, green.window_ns) == (5, 8, 70)
    assert (whole.is_green, green.is_green) == (False, True)


def test_a_window_cuts_everything_to_it():
    ops = [op(1, 10, 30), op(2, 20, 60)]
    _, green, rest = partitions(make_trace(ops=ops, partitions=[PRIMARY, GREEN, REST]), window=(25, 40))
    assert (green.busy_ns, rest.busy_ns, green.overlap[-1].overlap_ns, green.window_ns) == (5, 15, 5, 15)
    _, green, rest = partitions(make_trace(ops=ops, partitions=[PRIMARY, GREEN, REST]), window=(90, 99))
    assert (green.op_count, green.busy_ns, rest.overlap) == (0, 0, ())


def test_kernels_of_the_primary_context_ran_beside_it_but_prove_no_sharing():
    ops = [op(0, 0, 40), op(1, 10, 30), op(2, 10, 30)]
    whole, green, _ = partitions(make_trace(ops=ops, partitions=[PRIMARY, GREEN, REST]))
    assert (green.beside_ns, green.shared_sms, green.leaks) == (20, (), ())
    assert whole.beside_ns == 0, "all SMs are the primary context's own"


def shared(exclusive=(), masks=("0f", "f0"), other=0, foreign_at=12):
    ops = [op(1, 10, 30), op(other, 0, 90)]
    rows = [PRIMARY, GREEN | {"tpc_mask": masks[0]}, REST | {"tpc_mask": masks[1]}]
    first = 0 if ops[0]["start_ns"] < ops[1]["start_ns"] else 1
    blocks = [block(first, 4, 10, 30), block(1 - first, 4, foreign_at, foreign_at + 8),
              block(1 - first, 9, foreign_at, foreign_at + 8)]  # fmt: skip
    return partitions(make_trace(ops=ops, partitions=rows, blocks=blocks), exclusive=exclusive)


def test_foreign_blocks_on_assigned_sms_are_shared_and_no_leak():
    _, green, rest = shared()
    assert green.leaks == ()
    (proof,) = green.shared_sms
    assert (proof.kind, proof.other_partition_id, proof.sm_ids, proof.block_count) == (
        "shared_sms",
        0,
        (4,),
        1,
    )
    assert (proof.start_ns, proof.end_ns, proof.occupied_ns) == (12, 20, 8)
    assert proof.op_ids == (0,)
    assert (green.sm_ids, green.placed_count) == ((4,), 1)
    assert rest.shared_sms == ()


def test_they_are_a_leak_where_the_user_declared_the_partition_exclusive():
    _, green, _ = shared(exclusive=["critical"])
    assert green.shared_sms == ()
    assert [leak.kind for leak in green.leaks] == ["exclusive_sms_used"]
    _, green, _ = shared(exclusive=["rest"])
    assert green.leaks == ()


def test_blocks_of_before_the_partition_worked_are_no_sharing():
    _, green, _ = shared(foreign_at=1)
    assert (green.shared_sms, green.leaks) == ((), ())


def test_green_contexts_with_common_sms_share_and_with_disjoint_masks_one_has_left_its_own():
    _, green, rest = shared(other=2, masks=("0f", "1f"))
    assert [each.kind for each in green.shared_sms] == ["shared_sms"]
    assert green.mask_shared_sms == 8
    _, green, rest = shared(other=2)
    assert green.mask_shared_sms == 0
    assert [each.kind for each in green.leaks] == ["either_outside"]
    assert [each.kind for each in rest.leaks] == ["either_outside"]


def test_blocks_on_more_sms_than_granted_are_a_leak():
    blocks = [block(0, sm, 0, 9) for sm in range(9)]
    _, green = partitions(make_trace(ops=[op(1, 0, 9)], partitions=[PRIMARY, GREEN], blocks=blocks))
    (leak,) = green.leaks
    assert (leak.kind, leak.sm_count, leak.sm_ids) == ("outside_its_sms", 1, tuple(range(9)))
    _, green = partitions(make_trace(ops=[op(1, 0, 9)], partitions=[PRIMARY, GREEN], blocks=blocks[:8]))
    assert green.leaks == ()


@pytest.mark.parametrize("mask", [None, "", "not a number"])
def test_a_mask_that_is_not_known_proves_nothing(mask):
    _, green, _ = shared(other=2, masks=("0f", mask))
    assert green.mask_shared_sms is None
    assert green.leaks == ()


def test_channels_are_shared_within_one_primary_context_only():
    rows = [PRIMARY | {"channel_ids": [1, 2]}, GREEN | {"channel_ids": [2, 3]},
            {"device_id": 0, "context_id": 9, "channel_ids": [1, 2, 3]}]  # fmt: skip
    found = partitions(make_trace(ops=[op(0, 0, 1)], partitions=rows))
    assert [part.shared_channels for part in found] == [(2,), (2,), ()]


def test_devices_are_kept_apart():
    other = GREEN | {"device_id": 1, "context_id": 5}
    ops = [op(0, 0, 10), op(1, 0, 10) | {"device_id": 1}]
    whole, green = partitions(make_trace(ops=ops, partitions=[PRIMARY, other]))
    assert (whole.overlap, green.overlap, green.beside_ns) == ((), (), 0)
