"""How much work one operation is, and how much of an SM it can fill: bytes, threads, resident warps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overlane.analysis.keys import NULL, Ids, known
from overlane.analysis.occupancy import kernel_needs, limits_of
from overlane.analysis.operations import triple_products
from overlane.trace import Trace

__all__ = ["Sizes", "resident_fractions", "sizes"]


@dataclass(frozen=True)
class Sizes:
    """The work of each operation of a trace.

    Attributes:
        bytes: Bytes moved or set, -1 where not recorded; int64, shape (operations,).
        threads: Threads of the launch, -1 where not recorded.
    """

    bytes: Ids
    threads: Ids


def sizes(trace: Trace) -> Sizes:
    """Return how much work each operation of a trace is."""
    ops = trace.table("ops")
    moved = known(ops["bytes"])
    blocks, threads = triple_products(ops["grid"]), triple_products(ops["block"])
    is_known = (blocks != NULL) & (threads != NULL)
    return Sizes(
        np.where(moved == NULL, -1, moved), np.where(is_known, blocks * np.where(is_known, threads, 0), -1)
    )


def resident_fractions(trace: Trace, rows: Sequence[int]) -> list[float | None]:
    """Return which share of an SM's warps the blocks of each kernel fill, as far as its grid has blocks.

    Args:
        trace: Any trace.
        rows: Row ids in `ops` of kernels.

    Returns:
        Share, 0..1, for each row; None where the device or the kernel's block is not recorded.
    """
    devices = {(row["rank"], row["device_id"]): row for row in trace.table("devices").to_pylist()}
    ops = trace.table("ops")
    needs = kernel_needs(ops, np.array(rows, np.int64))
    found: list[float | None] = []
    for place, row in enumerate(rows):
        device = devices.get((ops["rank"][row].as_py(), ops["device_id"][row].as_py()))
        limits = limits_of(device["compute_capability"]) if device else None
        if limits is None or not device or not device["sm_count"] or needs.threads[place] < 0:
            found.append(None)
            continue
        held = int(needs.blocks_per_sm(limits)[place])
        of_grid = -(-int(needs.blocks[place]) // device["sm_count"]) if needs.blocks[place] >= 0 else held
        found.append(min(min(held, of_grid) * int(needs.threads[place]) / limits.threads, 1.0))
    return found
