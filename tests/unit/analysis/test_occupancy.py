"""How many blocks an SM holds: limits of the programming guide against known kernels."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.blueprint import blueprint
from overlane.analysis.occupancy import kernel_needs, limits_of


def held(text, capability="9.0"):
    ops = blueprint(text).table("ops")
    return kernel_needs(ops, np.arange(ops.num_rows)).blocks_per_sm(limits_of(capability)).tolist()


@pytest.mark.parametrize(
    ("kernel", "blocks"),
    [
        ("block=256,1,1 registers=32", 8),  # 2048 threads
        ("block=32,1,1 registers=16", 32),  # 32 blocks
        ("block=1024,1,1 registers=64", 1),  # 65,536 registers
        ("block=128,1,1 registers=255", 2),  # 32 x 255 rounds to 8,192 registers of a warp
        ("block=128,1,1 registers=32 shared_bytes=102400", 2),  # 228 KiB with one of each block reserved
        ("block=33,1,1 registers=32", 32),  # threads come in warps
        ("block=1024,1,1 registers=null", 2),  # what is not recorded takes nothing
    ],
)
def test_the_scarcest_resource_decides(kernel, blocks):
    assert held(f"op - s1 kernel 0-10 grid=1,1,1 {kernel}") == [blocks]


def test_older_devices_hold_less():
    kernel = "op - s1 kernel 0-10 grid=1,1,1 block=1024,1,1 registers=16"
    assert [held(kernel, capability) for capability in ("7.5", "8.6", "9.0")] == [[1], [1], [2]]


def test_sizes_that_are_not_recorded_are_not_known():
    ops = blueprint("op - s1 kernel 0-10\nop - s1 memcpy 20-30\nop - s1 kernel 40-50 grid=3,2,1").table("ops")
    needs = kernel_needs(ops, np.arange(3))
    assert needs.blocks.tolist() == [-1, -1, 6]
    assert needs.blocks_per_sm(limits_of("9.0")).tolist() == [-1, -1, -1]
    assert needs.cluster.tolist() == [1, 1, 1]


@pytest.mark.parametrize("capability", [None, "1.0", "99.0"])
def test_unknown_devices_have_no_limits(capability):
    assert limits_of(capability) is None
