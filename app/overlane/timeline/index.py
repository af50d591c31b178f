"""The stored index: layers of intervals become wire lanes of non-overlapping slices with summaries.

One folder holds one `.npy` file per array of `slices.Slices`, mapped into memory when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from overlane.errors import TraceUnreadableError
from overlane.mapping import load_array
from overlane.timeline import building, storing
from overlane.timeline.categories import CATEGORY_LIMIT
from overlane.timeline.slices import LONG_NS, Slices

__all__ = [
    "INDEX_ARRAYS",
    "MAX_WIRE_LANES",
    "Extras",
    "Layer",
    "Placement",
    "build_index",
    "index_of",
    "open_index",
    "union_layer",
]

Array = npt.NDArray[Any]
T = TypeVar("T")

_SAMPLE = 1 << 16
"""Rows that are looked at to share work between two threads."""

MAX_WIRE_LANES = 65_535
"""The wire format holds lane numbers in 16 bits."""

MAX_SUBLANES = 256
"""Sublanes of one lane; what still overlaps is drawn as union runs on one more, so a lane stays a lane."""

_EXTRA_ARRAYS = ("weight_at", "weight_sum", "height_at", "height")
INDEX_ARRAYS = (*Slices._fields, *_EXTRA_ARRAYS)
"""Names of the arrays of an index."""

_NO_ORDER = np.zeros(0, np.int64)
_NO_ROWS = np.zeros(0, np.int64)


@dataclass
class Layer:
    """Intervals of one table, with the lane that each is drawn on.

    Attributes:
        name: What the layer is called.
        lane: int32 (n,), number among all lanes of the index, or -1 for a row that is not drawn.
        start: int64 (n,), ns, sorted (within each lane is enough when the lane has no overlaps).
        end: int64 (n,), ns, not before `start`.
        category: uint8 (n,), or (1,) when all are alike.
        row: int64 (n,), row ids; empty for 0..n.
        weight: int64 (n,), how many rows one slice stands for; None for 1.
        height: uint8 (n,), height of a counter's slice; None for other layers.
    """

    name: str
    lane: Array
    start: Array
    end: Array
    category: Array
    row: Array = field(default_factory=lambda: _NO_ROWS)
    weight: Array | None = None
    height: Array | None = None

    def __post_init__(self) -> None:
        # Numba compiles anew for every mix of read-only and writable arrays; Arrow's are read-only.
        for name in ("start", "end", "category", "row"):
            setattr(self, name, read_only(getattr(self, name)))


def read_only(values: Array) -> Array:
    """Return a view that cannot be written through."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class Placement:
    """Where lanes went.

    Attributes:
        first: int64 (lanes,), first wire lane of each lane.
        sublanes: int64 (lanes,).
        slices: Number of stored slices.
        index_bytes: Bytes of all arrays.
    """

    first: Array
    sublanes: Array
    slices: int
    index_bytes: int


@dataclass(frozen=True)
class Extras:
    """Arrays that only some wire lanes have.

    Attributes:
        weight_at: int64 (w,), where a lane's running number of rows begins in `weight_sum`, or -1.
        weight_sum: int64, for each such lane its slices' weights summed up, with a leading 0.
        height_at: int64 (w,), where a lane's heights begin, or -1.
        height: uint8, one per slice of such lanes.
    """

    weight_at: Array
    weight_sum: Array
    height_at: Array
    height: Array


@dataclass
class _Placed:
    layer: Layer
    order: Array
    sub: Array
    longs: int


def _tie_order(start: Array, end: Array) -> Array:
    """Return the order with longer intervals first at equal starts, empty when they stand so already."""
    tied = start[1:] == start[:-1]
    if not np.any(tied & (end[1:] > end[:-1])):
        return _NO_ORDER
    member = np.zeros(len(start), bool)
    member[1:] = tied
    member[:-1] |= tied
    rows = np.flatnonzero(member)
    order = np.arange(len(start))
    order[rows] = rows[np.lexsort((-end[rows], start[rows]))]
    return order


def _place(layers: Sequence[Layer], lanes: int) -> tuple[list[_Placed], Array, int]:
    """Assign sublanes; returns the layers, slices per (lane, sublane) and the limit of sublanes."""
    # With more lanes than half of the numbers, every lane is one row of union runs: there is no room for a
    # second.
    limit = min(MAX_SUBLANES, MAX_WIRE_LANES // max(lanes, 1) - 1)
    counts = np.zeros((lanes, limit + 1), np.int64)
    ends = np.zeros((lanes, limit), np.int64)
    used = np.zeros(lanes, np.int64)
    placed = []
    for layer in layers:
        order = _tie_order(layer.start, layer.end)
        sub = np.zeros(len(layer.start), np.uint16)
        arguments = (read_only(layer.lane), layer.start, layer.end, order, sub, counts, ends, used)
        longs = _in_two(partial(building.assign_sublanes, *arguments), _estimated_offsets(layer.lane, lanes))
        placed.append(_Placed(layer, order, sub, sum(longs)))
    return placed, counts, limit


def _merged(placed: _Placed, limit: int, lanes: int) -> Layer | None:
    """Return the union runs of what found no sublane, or None when everything did."""
    layer = placed.layer
    rows = np.flatnonzero((placed.sub == limit) & (layer.lane >= 0))
    if not len(rows):
        return None
    category = layer.category[rows] if len(layer.category) > 1 else layer.category
    runs = union_layer(layer.lane[rows], layer.start[rows], layer.end[rows], category, lanes, name=layer.name)
    if layer.weight is not None and runs.weight is not None:
        # Members of a run stand together once both are ordered by lane.
        members = layer.weight[rows[np.argsort(layer.lane[rows], kind="stable")]]
        total = np.concatenate([[0], np.cumsum(members)])
        by_lane = np.argsort(runs.lane, kind="stable")
        until = np.cumsum(runs.weight[by_lane])
        runs.weight[by_lane] = total[until] - total[until - runs.weight[by_lane]]
    runs.row = read_only(layer.row[rows[runs.row]] if len(layer.row) else rows[runs.row])
    if layer.height is not None:
        runs.height = np.full(len(runs.row), 255, np.uint8)
    return runs


def union_layer(key: Array, start: Array, end: Array, category: Array, keys: int, *, name: str) -> Layer:
    """Return the layer of union runs of each key, each run with its first row and its number of rows.

    Args:
        key: int32 (n,), below `keys`, -1 to leave a row out.
        start: int64 (n,), ns, sorted.
        end: int64 (n,), ns.
        category: uint8 (n,), or (1,) when all are alike.
        keys: Number of keys; they become the lanes.
        name: What the layer is called.
    """
    size = len(key)
    category = category if len(category) == size else np.full(size, category[0], np.uint8)
    out = [np.empty(size, dtype) for dtype in (np.int32, np.int64, np.int64, np.int64, np.int64, np.uint8)]
    state = np.zeros((keys, building.STATE), np.int64)
    arguments = [*map(read_only, (key, start, end, category)), state, *out]
    n = building.union_runs(*arguments)
    lane, run_start, run_end, row, count, kind = (array[:n].copy() for array in out)
    return Layer(name, lane, run_start, run_end, kind, row, count)


def build_index(layers: Sequence[Layer], lanes: int, folder: Path) -> Placement:
    """Build the index of some layers into a folder.

    Args:
        layers: Intervals; each lane belongs to one layer.
        lanes: Number of lanes; wire lanes are numbered in their order.
        folder: Existing empty folder.

    Returns:
        Where each lane went.

    Raises:
        TraceUnreadableError: There are more lanes than the wire format can number.
    """
    if lanes > MAX_WIRE_LANES:
        raise TraceUnreadableError(
            f"the trace has {lanes} tracks, the timeline can number {MAX_WIRE_LANES}; "
            "cut the recording to fewer streams or threads"
        )
    placed, counts, limit = _place(layers, lanes)
    has_merged = counts[:, limit].any()  # rarely: a look at every row is saved
    merged = [(_merged(item, limit, lanes) if has_merged else None, item) for item in placed]
    for runs, _ in merged:
        if runs is not None:
            counts[:, limit] -= counts[:, limit] * np.isin(np.arange(lanes), runs.lane)
            counts[:, limit] += np.bincount(runs.lane, minlength=lanes)
    sublanes = np.maximum((counts > 0).cumsum(axis=1).max(axis=1, initial=0), 1)
    first = np.concatenate([[0], np.cumsum(sublanes)]).astype(np.int64)
    wires = int(first[-1])
    lane_offset = np.zeros(wires + 1, np.int64)
    np.cumsum(counts[np.arange(limit + 1)[None, :] < sublanes[:, None]], out=lane_offset[1:])
    total = int(lane_offset[-1])
    longs = sum(item.longs for item in placed) + sum(
        int(np.count_nonzero(runs.end - runs.start >= LONG_NS)) for runs, _ in merged if runs is not None
    )

    writer = _Writer(folder, total, longs, lane_offset)
    for (runs, item), layer in zip(merged, layers, strict=True):
        writer.add(layer, item.sub, item.order, first[:-1], limit)
        if runs is not None:
            writer.add(runs, np.full(len(runs.lane), limit, np.uint16), _NO_ORDER, first[:-1], limit + 1)
    size = writer.finish()
    return Placement(first[:-1], sublanes, total, size)


class _Writer:
    """Fills the arrays of one index."""

    def __init__(self, folder: Path, total: int, longs: int, lane_offset: Array) -> None:
        self.folder = folder
        wires = len(lane_offset) - 1
        self.cursor = lane_offset[:-1].copy()
        self.longs = 0
        self.present = np.zeros((wires, CATEGORY_LIMIT), np.uint8)
        self.weight_of: list[tuple[Array, Array]] = []
        self.height_of: list[tuple[Array, Array]] = []
        self.slices = Slices(
            start=storing.create(folder, "start", (total,), np.int64),
            duration=storing.create(folder, "duration", (total,), np.uint32),
            row=storing.create(folder, "row", (total,), np.uint32),
            place=storing.create(folder, "place", (total,), np.uint8),
            long_at=np.zeros(longs, np.int64),
            long_duration=np.zeros(longs, np.int64),
            lane_offset=lane_offset,
            node_offset=np.zeros(wires + 1, np.int64),
            category_of=np.zeros((wires, CATEGORY_LIMIT), np.uint8),
            width=np.zeros(wires, np.int64),
            nodes=np.zeros(0, np.int64),
        )

    def add(self, layer: Layer, sub: Array, order: Array, first: Array, merged: int) -> None:
        """Write one layer; rows on sublane `merged` are left out."""
        before = self.cursor.copy()

        def scatter(lane_from: int, lane_to: int) -> tuple[Array, Array]:
            at, duration = (np.empty_like(self.slices.long_at) for _ in range(2))
            longs = building.scatter(
                read_only(layer.lane), sub, layer.start, layer.end, layer.category, layer.row, order, first,
                self.cursor, self.slices._replace(long_at=at, long_duration=duration), self.present, merged,
                lane_from, lane_to,
            )  # fmt: skip
            return at[:longs], duration[:longs]

        for at, duration in _in_two(scatter, _estimated_offsets(layer.lane, len(first))):
            until = self.longs + len(at)
            self.slices.long_at[self.longs : until] = at
            self.slices.long_duration[self.longs : until] = duration
            self.longs = until
        for values, target in ((layer.weight, self.weight_of), (layer.height, self.height_of)):
            if values is None:
                continue
            # These layers are small and rare, so their places are found a second time in NumPy.
            at = order if len(order) else np.arange(len(layer.lane))
            at = at[(layer.lane[at] >= 0) & (sub[at] != merged)]
            wire = first[layer.lane[at]] + sub[at]
            by_wire = np.argsort(wire, kind="stable")
            within = np.arange(len(at)) - np.searchsorted(wire[by_wire], wire[by_wire])
            target.append((before[wire[by_wire]] + within, values[at[by_wire]]))

    def finish(self) -> int:
        """Sort the side table, build the summary trees, store the rest; returns the bytes of all arrays."""
        by_place = np.argsort(self.slices.long_at)
        present = self.present > 0
        width = present.sum(axis=1)
        place_of = np.where(present, present.cumsum(axis=1) - 1, 0).astype(np.uint8)
        category_of = np.zeros_like(place_of)
        wire, kind = np.nonzero(present)
        category_of[wire, place_of[wire, kind]] = kind
        node_offset = storing.node_offsets(self.slices.lane_offset, width)
        slices = self.slices._replace(
            long_at=self.slices.long_at[by_place],
            long_duration=self.slices.long_duration[by_place],
            node_offset=node_offset,
            category_of=category_of,
            width=width.astype(np.int64),
            nodes=storing.create(self.folder, "nodes", (int(node_offset[-1]),), np.int64),
        )
        _in_two(lambda a, b: building.build_nodes(slices, place_of, a, b), slices.lane_offset)
        extras = self._extras()
        stored = slices._asdict() | vars(extras)
        for name, values in stored.items():
            if name not in {"start", "duration", "row", "place", "nodes"}:
                storing.save(self.folder, name, values)
        return sum(values.nbytes for values in stored.values())

    def _extras(self) -> Extras:
        offsets = self.slices.lane_offset
        wires = len(offsets) - 1
        result: dict[str, Array] = {}
        for name, parts, lead in (("weight", self.weight_of, 1), ("height", self.height_of, 0)):
            where = np.full(wires, -1, np.int64)
            places = np.concatenate([p for p, _ in parts]) if parts else np.zeros(0, np.int64)
            values = np.concatenate([v for _, v in parts]) if parts else np.zeros(0, np.int64)
            order = np.argsort(places)
            places, values = places[order], values[order]
            chosen = np.unique(np.searchsorted(offsets, places, side="right") - 1)
            at = 0
            pieces = []
            for wire in chosen:
                low, high = np.searchsorted(places, [offsets[wire], offsets[wire + 1]])
                where[wire] = at
                piece = values[low:high]
                pieces.append(np.concatenate([[0], np.cumsum(piece)]) if lead else piece)
                at += len(pieces[-1])
            dtype = np.int64 if lead else np.uint8
            result[name] = (np.concatenate(pieces) if pieces else np.zeros(0)).astype(dtype)
            result[f"{name}_at"] = where
        return Extras(result["weight_at"], result["weight"], result["height_at"], result["height"])


def _estimated_offsets(lane: Array, lanes: int) -> Array:
    """Return how many rows stand on lanes before each lane, int64 (lanes + 1,), told by a sample."""
    step = len(lane) // _SAMPLE + 1
    sample = lane[::step]
    return np.concatenate([[0], np.cumsum(np.bincount(sample[sample >= 0], minlength=lanes) * step)])


def _in_two(work: Callable[[int, int], T], offsets: Array) -> list[T]:
    """Run `work(lane_from, lane_to)` over all lanes in two threads with about half of the slices each."""
    lanes = len(offsets) - 1
    middle = int(np.searchsorted(offsets, offsets[-1] // 2))
    if offsets[-1] < 1_000_000 or not 0 < middle < lanes:
        return [work(0, lanes)]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(work, 0, middle)
        return [work(middle, lanes), other.result()]


def open_index(folder: Path) -> tuple[Slices, Extras]:
    """Map a stored index into memory, read-only.

    Raises:
        OSError: A file is missing.
        ValueError: A file is not an array, or the arrays do not fit together.
    """
    return index_of({name: load_array(folder / f"{name}.npy", "r") for name in INDEX_ARRAYS})


def index_of(arrays: Mapping[str, Array]) -> tuple[Slices, Extras]:
    """Return an index of its arrays, which must not be writable.

    Raises:
        ValueError: They do not fit together.
    """
    slices = Slices(*(arrays[name] for name in Slices._fields))
    extras = Extras(*(arrays[name] for name in _EXTRA_ARRAYS))
    storing.check(slices, extras)
    return slices, extras
