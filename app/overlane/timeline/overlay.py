"""Indexes that lie over a timeline: a choice of its slices, or further intervals, drawn on the same rows.

An overlay is a timeline of its own, answered by the same tiles. Its wire lanes are numbered by the timeline
under it, so that a client knows them without asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane.timeline.index import Layer
from overlane.timeline.lanes import Lane, Tracks
from overlane.timeline.timeline import Timeline, write_timeline
from overlane.trace import Trace

__all__ = ["chosen_slices", "write_overlay"]

Array = npt.NDArray[Any]


def chosen_slices(timeline: Timeline, chosen: Mapping[str, Array]) -> Layer:
    """Return the slices of a timeline whose rows are chosen, each on the wire lane that it is drawn on.

    Lanes of unions are left empty, since a run there is many rows.

    Args:
        timeline: The timeline under the overlay.
        chosen: Table to which of its rows are chosen, bool (rows,); a table left out has none.
    """
    lanes, starts, ends, categories, rows = [], [], [], [], []
    for wire, lane in enumerate(timeline.lane_of_wires()):
        mask = chosen.get(lane["table"])
        if mask is None or lane["is_union"]:
            continue
        start, end, category, row = timeline.stored(wire)
        kept = np.flatnonzero(mask[row])
        lanes.append(np.full(len(kept), wire, np.int32))
        starts.append(start[kept])
        ends.append(end[kept])
        categories.append(category[kept])
        rows.append(row[kept])

    def joined(parts: list[Array], dtype: Any) -> Array:
        return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)

    return Layer(
        "chosen", joined(lanes, np.int32), joined(starts, np.int64), joined(ends, np.int64),
        joined(categories, np.uint8), joined(rows, np.int64),
    )  # fmt: skip


def write_overlay(
    trace: Trace, rank: int | None, layers: Sequence[Layer], tables: Sequence[str], folder: Path
) -> None:
    """Write an overlay's index into an existing empty folder; `Timeline.open` opens it.

    Args:
        trace: Trace that the rows are of.
        rank: Rank of the timeline under it.
        layers: Intervals on numbered lanes. Those of one lane do not overlap, so that each lane is one wire
            lane of the same number.
        tables: Table of each lane's rows; its length is the number of lanes.
        folder: Where to write.

    Raises:
        ValueError: Intervals of one lane overlap.
        TraceUnreadableError: There are more lanes than the wire format can number.
    """
    lanes = [Lane(str(at), "", "", "stream", table, layer="") for at, table in enumerate(tables)]
    placement = write_timeline(trace, rank, Tracks([], lanes, list(layers)), folder)
    if (placement.sublanes > 1).any():
        wrong = int(np.argmax(placement.sublanes > 1))
        raise ValueError(f"intervals of lane {wrong} overlap; cut them first")
