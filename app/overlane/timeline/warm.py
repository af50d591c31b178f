"""Load the compiled loops ahead of the first answer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from overlane.timeline import filling
from overlane.timeline.index import Layer, build_index, open_index, union_layer
from overlane.timeline.timeline import output_arrays

__all__ = ["warm_up"]


def warm_up() -> None:
    """Build and ask a tiny index, so that every compiled loop is loaded, or compiled after an install.

    A server calls it in a thread while it starts: loading takes a quarter of a second, compiling four.

    Example:
        >>> warm_up()
    """
    at = np.arange(64, dtype=np.int64)
    category = np.zeros(64, np.uint8)
    lane = np.zeros(64, np.int32)
    with tempfile.TemporaryDirectory(prefix="overlane-") as name:
        runs = union_layer(lane, at, at, category, 1, name="runs")
        runs.lane = runs.lane + np.int32(1)
        build_index([Layer("slices", lane, at, at, category), runs], 2, Path(name))
        slices, _ = open_index(Path(name))
        wires = np.arange(2)
        low, high = np.empty(2, np.int64), np.empty(2, np.int64)
        filling.find_bounds(slices, wires, 0, 10, low, high)
        filling.fill(
            slices, wires, low, high, 0, 1, 1.0, np.empty(filling.SCRATCH, np.int64), output_arrays(128)
        )
