"""Indexes that lie over a timeline: a choice of its slices, or further intervals, drawn on the same rows.

An overlay is a timeline of its own, answered by the same tiles. Its wire lanes are numbered by the timeline
under it, so that a client knows them without asking.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane.mapping import load_array
from overlane.timeline.index import INDEX_ARRAYS, Layer, index_of, read_only
from overlane.timeline.lanes import Lane, Tracks
from overlane.timeline.timeline import Timeline, write_timeline
from overlane.trace import Trace

__all__ = ["chosen_slices", "open_overlay", "overlay_arrays"]

Array = npt.NDArray[Any]

_META, _META_FILE = "meta", "timeline.json"


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


def overlay_arrays(
    trace: Trace, rank: int | None, layers: Sequence[Layer], tables: Sequence[str]
) -> dict[str, Array]:
    """Return the arrays of an overlay's index, which `open_overlay` takes.

    Args:
        trace: Trace that the rows are of.
        rank: Rank of the timeline under it.
        layers: Intervals on numbered lanes. Those of one lane do not overlap, so that each lane is one wire
            lane of the same number.
        tables: Table of each lane's rows; its length is the number of lanes.

    Raises:
        ValueError: Intervals of one lane overlap.
        TraceUnreadableError: There are more lanes than the wire format can number.
    """
    lanes = [Lane(str(at), "", "", "stream", table, layer="") for at, table in enumerate(tables)]
    # Mapped files stay readable once the folder is gone.
    with tempfile.TemporaryDirectory(prefix="overlane-") as name:
        folder = Path(name)
        placement = write_timeline(trace, rank, Tracks([], lanes, list(layers)), folder)
        if (placement.sublanes > 1).any():
            wrong = int(np.argmax(placement.sublanes > 1))
            raise ValueError(f"intervals of lane {wrong} overlap; cut them first")
        arrays = {name: load_array(folder / f"{name}.npy", "r") for name in INDEX_ARRAYS}
        arrays[_META] = np.frombuffer((folder / _META_FILE).read_bytes(), np.uint8)
    return arrays


def open_overlay(trace: Trace, rank: int | None, arrays: Mapping[str, Array]) -> Timeline:
    """Return an overlay as a timeline.

    Args:
        trace: Trace that the rows are of.
        rank: Rank of the timeline under it.
        arrays: As `overlay_arrays` returned them, or stored and loaded.

    Raises:
        ValueError: They are damaged.
        KeyError: One is missing.
    """
    meta = json.loads(bytes(arrays[_META]))
    slices, extras = index_of({name: read_only(arrays[name]) for name in INDEX_ARRAYS})
    if len(meta["lanes"]) != len(slices.width):
        raise ValueError("an overlay is damaged: its lanes are not those of its index")
    return Timeline(trace, rank, meta, slices, extras)
