"""The timeline of one rank of a trace: lanes, viewport answers, search, neighbours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane.tables import numbers
from overlane.timeline import filling
from overlane.timeline.categories import CATEGORIES, CODES
from overlane.timeline.columns import of_rank
from overlane.timeline.filling import Output
from overlane.timeline.index import Extras, Placement, build_index, open_index
from overlane.timeline.lanes import Tracks
from overlane.timeline.layers import LAYERS, NAME_COLUMNS
from overlane.timeline.lending import Lender
from overlane.timeline.names import Names
from overlane.timeline.slices import LONG_NS, Slices
from overlane.timeline.tile import NO_NAME, Tile
from overlane.timeline.tracks import find_tracks
from overlane.trace import Trace

__all__ = ["FEWEST_ITEMS", "Timeline", "output_arrays", "write_timeline"]

Array = npt.NDArray[Any]

FEWEST_ITEMS = 20_000
"""A tile may always hold this many items, however few lanes and pixels were asked for."""

COLUMNS_PER_PIXEL = 0.94
"""Runs are gathered in columns a little wider than a pixel: the room that this leaves in the limit of lanes
* px items is for the long slices among them, so that few windows need a second pass."""

_TWO_THREADS_FROM = 200_000
"""Slices in the window from which a second thread pays."""

_ENDLESS = 1 << 62

_lender = Lender()
_pool = ThreadPoolExecutor(1, thread_name_prefix="overlane-tile")


class Timeline:
    """One rank of a trace, ready to be drawn; made by `open`, safe to use from several threads."""

    def __init__(
        self, trace: Trace, rank: int | None, meta: dict[str, Any], slices: Slices, extras: Extras
    ) -> None:
        self._trace = trace
        self._rank = rank
        self._meta = meta
        self._slices = slices
        self._extras = extras
        self._names = Names(trace)
        self._lanes: list[dict[str, Any]] = meta["lanes"]
        self._of_wire = np.repeat(np.arange(len(self._lanes)), [lane["sublanes"] for lane in self._lanes])
        tables = np.array([lane["table"] for lane in self._lanes], object)[self._of_wire]
        self._named_wires = {name: tables == name for name in self._names.tables if (tables == name).any()}
        self._by_key = {
            (lane["layer"], *key): at
            for at, (lane, key) in enumerate(zip(self._lanes, meta["keys"], strict=True))
            if key is not None
        }

    # ------------------------------------------------------------------ building

    @staticmethod
    def build(trace: Trace, rank: int | None, folder: Path) -> None:
        """Write the index of one rank into an existing empty folder.

        Raises:
            TraceUnreadableError: The trace has more tracks than can be numbered.
        """
        write_timeline(trace, rank, find_tracks(trace, rank), folder)

    @classmethod
    def open(cls, trace: Trace, rank: int | None, folder: Path) -> Timeline:
        """Open what `build` wrote for the same trace and rank.

        Raises:
            OSError: A file is missing.
            ValueError: A file is damaged.
        """
        meta = json.loads((folder / "timeline.json").read_text(encoding="utf-8"))
        slices, extras = open_index(folder)
        if sum(lane["sublanes"] for lane in meta["lanes"]) != len(slices.width):
            raise ValueError("timeline.json is damaged: its lanes are not those of the index")
        return cls(trace, rank, meta, slices, extras)

    # ------------------------------------------------------------------ drawing

    @property
    def wire_lanes(self) -> int:
        """Number of wire lanes."""
        return len(self._slices.width)

    def lane_of_wires(self) -> list[dict[str, Any]]:
        """Return for each wire lane its table and whether its slices are unions of rows."""
        unions = {kind.name for kind in LAYERS if kind.is_union}
        lanes = [{"table": lane["table"], "is_union": lane["layer"] in unions} for lane in self._lanes]
        return [lanes[at] for at in self._of_wire]

    def lane_number(self, layer: str, key: tuple[Any, ...]) -> int:
        """Return the place among the lanes of a layer's key, -1 where it has no lane here."""
        return self._by_key.get((layer, *key), -1)

    def stored(self, wire: int) -> tuple[Array, Array, Array, Array]:
        """Return start and end in ns, category and row of every slice of a wire lane, in order of start."""
        low, high = (int(v) for v in self._slices.lane_offset[wire : wire + 2])
        start = self._slices.start[low:high]
        duration = self._slices.duration[low:high].astype(np.int64)
        first, last = np.searchsorted(self._slices.long_at, [low, high])
        duration[self._slices.long_at[first:last] - low] = self._slices.long_duration[first:last]
        category = self._slices.category_of[wire][self._slices.place[low:high]]
        return start, start + duration, category, self._slices.row[low:high].astype(np.int64)

    def filled_wires(self) -> list[int]:
        """Return the wire lanes that have slices."""
        return [int(wire) for wire in np.flatnonzero(np.diff(self._slices.lane_offset))]

    def meta(self) -> dict[str, Any]:
        """Return groups, lanes and what else a client needs before its first tile, as plain JSON values."""
        return {key: value for key, value in self._meta.items() if key != "keys"}

    def tile(self, t0_ns: int, t1_ns: int, px: int, lanes: Sequence[int] | None = None) -> Tile:
        """Answer a viewport.

        Slices of a pixel or more come one by one; shorter ones as one run per pixel of their start (a run
        of one is that slice). At most max(20000, lanes * px) items: where more would be needed, runs get
        wider than a pixel.

        Args:
            t0_ns: Start of the window.
            t1_ns: End of the window, after its start.
            px: Width in pixels, at least 1.
            lanes: Wire lanes; None for all.

        Raises:
            ValueError: The window is empty, the width is not positive, or a lane does not exist.
        """
        if t1_ns <= t0_ns or px < 1:
            raise ValueError(f"a window needs t0 < t1 and a width of at least 1, not {t0_ns}, {t1_ns}, {px}")
        wires = np.arange(self.wire_lanes) if lanes is None else np.unique(np.asarray(lanes, np.int64))
        if len(wires) and not 0 <= wires[0] <= wires[-1] < self.wire_lanes:
            raise ValueError(f"there are {self.wire_lanes} wire lanes, asked for {wires[0]} to {wires[-1]}")
        t0, t1 = max(t0_ns, -_ENDLESS), min(t1_ns, _ENDLESS)
        low = np.empty(len(wires), np.int64)
        high = np.empty(len(wires), np.int64)
        filling.find_bounds(self._slices, wires, t0, t1, low, high)
        kept = high > low
        wires, low, high = wires[kept], low[kept], high[kept]
        limit = max(FEWEST_ITEMS, (len(kept)) * px)
        width = px
        while True:
            items = self._items(wires, low, high, t0=t0, window=t1 - t0, width=width)
            if len(items.start) <= limit or width <= 0:
                break
            width = min(width - 1, int(width * limit / len(items.start) * 0.97))
        return self._tile(items, t0_ns, t1_ns, px)

    def _items(self, wires: Array, low: Array, high: Array, *, t0: int, window: int, width: int) -> Output:
        """Return the items at one width in pixels; width 0 gathers each lane into one."""
        threshold = -(-window // width) if width else _ENDLESS
        scale = width * COLUMNS_PER_PIXEL / window
        room = np.cumsum(np.minimum(high - low, 3 * width + 6))
        if not len(room):
            return Output(*(values[:0] for values in output_arrays(0)))
        out = output_arrays(int(room[-1]) + 1)
        slices = int((high - low).sum())
        middle = int(np.searchsorted(room, room[-1] // 2)) + 1
        if slices < _TWO_THREADS_FROM or middle >= len(wires):
            n = filling.fill(self._slices, wires, low, high, t0, threshold, scale, _scratch(), out)
            return Output(*(values[:n] for values in out))
        halfway = int(room[middle - 1]) + 1
        other = _pool.submit(
            filling.fill, self._slices, wires[:middle], low[:middle], high[:middle], t0, threshold, scale,
            _scratch(), Output(*(values[:halfway] for values in out)),
        )  # fmt: skip
        n2 = filling.fill(
            self._slices, wires[middle:], low[middle:], high[middle:], t0, threshold, scale,
            _scratch(), Output(*(values[halfway:] for values in out)),
        )  # fmt: skip
        n1 = other.result()
        for values in out:
            values[n1 : n1 + n2] = values[halfway : halfway + n2]
        return Output(*(values[: n1 + n2] for values in out))

    def _tile(self, items: Output, t0_ns: int, t1_ns: int, px: int) -> Tile:
        extent, share, count, busy = _lender.columns(
            len(items.start), np.int64, np.float64, np.int64, np.uint8
        )
        np.subtract(items.end, items.start, out=extent)
        np.multiply(items.busy, 255.0, out=share)
        # A slice without length is drawn at full height, like any slice that stands alone.
        is_point = extent == 0
        extent[is_point] = 1
        np.ceil(np.divide(share, extent, out=share), out=share)
        np.clip(share, 1, 255, out=share)
        busy[...] = share
        busy[is_point] = 255
        busy[items.category == CODES["instant"]] = 255
        is_exact = bool((items.size == 1).all())
        count[...] = items.size
        self._apply_heights(items, busy)
        self._apply_weights(items, count)
        name = self._name_codes(items, count)
        return Tile(
            t0_ns, t1_ns, px, items.start, items.end, items.row, count, name, items.lane, items.busy, busy,
            items.category, self._names.as_json(name), is_exact,
        )  # fmt: skip

    def _apply_weights(self, items: Output, count: Array) -> None:
        """Count rows instead of slices on lanes whose slices stand for several."""
        if not len(self._extras.weight_sum):
            return
        at = self._extras.weight_at[items.lane]
        some = np.flatnonzero(at >= 0)
        if len(some):
            lane = items.lane[some]
            begin = at[some] + items.first[some] - self._slices.lane_offset[lane]
            count[some] = self._extras.weight_sum[begin + items.size[some]] - self._extras.weight_sum[begin]

    def _apply_heights(self, items: Output, busy: Array) -> None:
        """Give a counter's items the height of their largest sample."""
        if not len(self._extras.height):
            return
        at = self._extras.height_at[items.lane]
        some = np.flatnonzero(at >= 0)
        if len(some):
            lane = items.lane[some]
            begin = at[some] + items.first[some] - self._slices.lane_offset[lane]
            # Pairs (begin, end): the maxima between them stand at the even places.
            edges = np.stack([begin, begin + items.size[some]], axis=1).ravel()
            padded = np.append(self._extras.height, np.uint8(0))
            busy[some] = np.maximum.reduceat(padded, edges)[::2]

    def _name_codes(self, items: Output, count: Array) -> Array:
        (name,) = _lender.columns(len(count), np.uint32)
        name[...] = NO_NAME
        for table, is_named in self._named_wires.items():
            is_row = items.row < len(self._names.indices(table))  # not so in a damaged file
            chosen = np.flatnonzero((count == 1) & is_named[items.lane] & is_row)
            if len(chosen):
                name[chosen] = self._names.codes(table, items.row[chosen])
        return name

    # ------------------------------------------------------------------ finding

    def word(self, table: str, row: int) -> str | None:
        """Return the full name of a row, None where its table or the row has none."""
        return self._names.word(table, row)

    def locate(self, table: str, row_id: int) -> tuple[int, int, int] | None:
        """Return wire lane, start and end of a row, or None when it is not drawn on this timeline."""
        found = self._find(table, row_id)
        if found is None:
            return None
        wire, at = found
        start, end = self._row_times(table, row_id, at)
        return wire, start, end

    def neighbours(self, table: str, row_id: int) -> dict[str, int | None]:
        """Return the rows before and after a row on its track as `previous` and `next`, None where none is.

        Overlapping rows of a stream or of a thread's calls follow one another by start; nested ranges keep
        to their depth.
        """
        found = self._find(table, row_id)
        if found is None:
            return {"previous": None, "next": None}
        wire, at = found
        lane = self._lanes[self._of_wire[wire]]
        if lane["kind"] == "ranges":
            wires = [wire]
        else:
            wires = list(range(lane["first"], lane["first"] + lane["sublanes"]))
        own = self._place(wire, at)
        before: list[tuple[tuple[int, int, int], int]] = []
        after: list[tuple[tuple[int, int, int], int]] = []
        for each in wires:
            low, high = (int(v) for v in self._slices.lane_offset[each : each + 2])
            next_at = low + int(np.searchsorted(self._slices.start[low:high], own[0], side="left"))
            while next_at < high and self._place(each, next_at) <= own:
                next_at += 1
            last_at = next_at - 1
            while last_at >= low and self._place(each, last_at) >= own:
                last_at -= 1
            if next_at < high:
                after.append((self._place(each, next_at), int(self._slices.row[next_at])))
            if last_at >= low:
                before.append((self._place(each, last_at), int(self._slices.row[last_at])))
        return {"previous": max(before)[1] if before else None, "next": min(after)[1] if after else None}

    def _place(self, wire: int, at: int) -> tuple[int, int, int]:
        """Return what orders slices of one track: start, then sublane, then position in the lane."""
        return int(self._slices.start[at]), wire, at

    def _row_times(self, table: str, row_id: int, at: int) -> tuple[int, int]:
        start = int(self._slices.start[at])
        if int(self._slices.row[at]) == row_id:
            return start, self._end(at)
        values = self._trace.table(table)
        end = values["end_ns"][row_id].as_py()
        return values["start_ns"][row_id].as_py(), self._trace.span_ns if end is None else end

    def _end(self, at: int) -> int:
        duration = int(self._slices.duration[at])
        if duration == LONG_NS:
            duration = int(self._slices.long_duration[np.searchsorted(self._slices.long_at, at)])
        return int(self._slices.start[at]) + duration

    def _find(self, table: str, row_id: int) -> tuple[int, int] | None:
        """Return wire lane and position of a row's slice."""
        lane_at = self._lane_of(table, row_id)
        if lane_at is None:
            return None
        values = self._trace.table(table)
        start = values[self._start_column(table)][row_id].as_py()
        lane = self._lanes[lane_at]
        covering = None
        for wire in range(lane["first"], lane["first"] + lane["sublanes"]):
            low, high = (int(v) for v in self._slices.lane_offset[wire : wire + 2])
            starts = self._slices.start[low:high]
            first, last = (int(np.searchsorted(starts, start, side=side)) for side in ("left", "right"))
            rows = self._slices.row[low + first : low + last]
            same = np.flatnonzero(rows == row_id)
            if len(same):
                return wire, low + first + int(same[0])
            if last and self._end(low + last - 1) >= start:
                covering = (wire, low + last - 1)
        return covering  # the row is one of many in a union run

    def _start_column(self, table: str) -> str:
        return "start_ns" if "start_ns" in self._trace.table(table).schema.names else "at_ns"

    def _lane_of(self, table: str, row_id: int) -> int | None:
        kinds = [kind for kind in LAYERS if kind.table == table and not kind.is_union]
        if not kinds or not 0 <= row_id < self._trace.table(table).num_rows:
            return None
        row = kinds[0].rows(self._trace, self._trace.table(table).slice(row_id, 1))
        chosen = of_rank(self._trace, self._rank, row["rank"])
        if chosen is not None and not chosen[0]:
            return None
        keys = ((kind.name, *(row[column][0].as_py() for column in kind.key)) for kind in kinds)
        return next((self._by_key[key] for key in keys if key in self._by_key), None)

    def search(
        self, text: str, *, kinds: Sequence[str] | None = None, limit: int = 500, after_ns: int | None = None
    ) -> dict[str, Any]:
        """Find rows whose name holds a text, ignoring case.

        Args:
            text: What to look for; empty finds nothing.
            kinds: Tables to look in; None for all with names.
            limit: Most hits to return.
            after_ns: Return only hits that start later.

        Returns:
            `total` (all matching rows of the rank, whatever `limit` and `after_ns`) and `hits`, ordered by
            start, each with table, row, name, start_ns, end_ns and lane (wire lane).
        """
        total = 0
        found: list[tuple[int, str, int]] = []
        for table in NAME_COLUMNS:
            if not text or (kinds is not None and table not in kinds):
                continue
            rows = self._matching_rows(table, text)
            total += len(rows)
            starts = self._trace.column(table, self._start_column(table))
            if after_ns is not None:
                rows = rows[np.searchsorted(rows, np.searchsorted(starts, after_ns, side="right")) :]
            found.extend((int(starts[row]), table, int(row)) for row in rows[:limit])
        hits = []
        for start, table, row in sorted(found)[:limit]:
            place = self.locate(table, row)
            hits.append({
                "table": table, "row": row, "name": self._names.word(table, row), "start_ns": start,
                "end_ns": start if place is None else place[2], "lane": None if place is None else place[0],
            })  # fmt: skip
        return {"total": total, "hits": hits}

    def _matching_rows(self, table: str, text: str) -> Array:
        words = self._names.matching(table, text)
        if not words.any():
            return np.zeros(0, np.int64)
        is_hit = words[self._names.indices(table)]
        chosen = of_rank(self._trace, self._rank, self._trace.table(table)["rank"])
        if chosen is not None:
            is_hit &= chosen
        return np.flatnonzero(is_hit)


def write_timeline(trace: Trace, rank: int | None, tracks: Tracks, folder: Path) -> Placement:
    """Write the index of some tracks and what `Timeline.open` needs into an existing empty folder."""
    placement = build_index(tracks.layers, len(tracks.lanes), folder)
    meta = _meta(trace, rank, tracks, placement)
    (folder / "timeline.json").write_text(json.dumps(meta), encoding="utf-8")
    return placement


def _scratch() -> Array:
    return np.empty(filling.SCRATCH, np.int64)


def output_arrays(size: int) -> Output:
    """Return arrays for a query to write `size` items to, with the place to spare that it needs."""
    start, end, first, number, row, busy, lane, category = _lender.columns(
        size + 1, *[np.int64] * 6, np.uint16, np.uint8
    )
    return Output(start, end, first, number, row, busy, category, lane)


def _first_view(trace: Trace, rank: int | None) -> list[int]:
    """Return the window to show first: all, or the device's work where that is a small part of all.

    Setting up a device takes a hundred milliseconds and can be most of a short recording.
    """
    ops = trace.table("ops")
    whole = [0, trace.span_ns + 1]
    mask = of_rank(trace, rank, ops["rank"])
    start = numbers(ops["start_ns"]) if mask is None else numbers(ops["start_ns"])[mask]
    if not len(start):
        return whole
    end = numbers(ops["end_ns"], null=0)
    low, high = int(start[0]), max(int(start[-1]), int((end if mask is None else end[mask]).max()))
    margin = (high - low) // 50 + 1
    if (high - low) * 2 >= trace.span_ns:
        return whole
    return [max(0, low - margin), min(trace.span_ns + 1, high + margin)]


def _meta(trace: Trace, rank: int | None, tracks: Tracks, placement: Placement) -> dict[str, Any]:
    origin = trace.header.origin_unix_ns
    first, sublanes = placement.first.tolist(), placement.sublanes.tolist()
    return {
        "schema": 1,
        "trace": trace.name,
        "name": trace.name,
        "rank": rank,
        "ranks": list(trace.ranks),
        # Windows are half-open: with one nanosecond more, what happens at the last stamp is in view too.
        "span_ns": trace.span_ns + 1,
        "first_view": _first_view(trace, rank),
        "origin_unix_ns": None if origin is None else str(origin),
        "categories": list(CATEGORIES),
        "groups": [vars(group) for group in tracks.groups],
        "lanes": [
            {
                "id": lane.id, "group": lane.group, "label": lane.label, "sublabel": lane.sublabel,
                "kind": lane.kind, "layer": lane.layer, "table": lane.table, "first": first[at],
                "sublanes": sublanes[at], "rows": lane.rows, "unit": lane.unit, "max": lane.max,
            }
            for at, lane in enumerate(tracks.lanes)
        ],
        "minimap": [first[at] for at in tracks.summary],
        "device_work": any(lane.table == "ops" for lane in tracks.lanes),
        "slices": placement.slices,
        "index_bytes": placement.index_bytes,
        "keys": [lane.key for lane in tracks.lanes],
    }  # fmt: skip
