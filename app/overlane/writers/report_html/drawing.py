"""What the timeline of a report page shows: lanes, rectangles, waits, gaps and barriers as JSON values.

The page has no trace to ask, so all that it can show is chosen here, within a budget of rectangles.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlane.analysis.causes import CAUSES
from overlane.figures.palette import CAUSE_COLOURS, COLOURS
from overlane.timeline.categories import CATEGORIES, ENGINE_LABELS
from overlane.writers.report_html.merging import Rectangles, joined, merge

if TYPE_CHECKING:
    from overlane.analysis.study import Study
    from overlane.timeline import Timeline

__all__ = ["MOST_REASONS", "MOST_SLICES", "Drawing", "drawing"]

Array = npt.NDArray[Any]
MOST_SLICES = {"operations": 20_000, "thread blocks": 6_000, "host work": 16_000}
"""Rectangles of each sort of work, all together about as many as a canvas paints in one frame. Each sort has
its own share, so that thousands of blocks do not make the operations coarser."""
MOST_REASONS = 8_000
"""Rectangles each for waits and for gaps."""
MOST_BARRIERS = 300
"""Barriers drawn, the costliest first."""
MOST_LANES = 400
"""Lanes drawn; those of later ranks, threads and SMs are left out."""
_SORTS = {"ops": "operations", "blocks": "thread blocks"}
_NAME_LETTERS = 200
_ALL_LETTERS = 1_000_000
_FEWEST_LETTERS = 24
_LEFT_OUT = {"counter", "instants"}  # neither has a length to draw
_MARGIN = 50
"""One part in this many of the window is shown before and after it."""


@dataclass(frozen=True)
class Drawing:
    """What a page draws.

    Attributes:
        values: As JSON.
        slices: Slices in the window.
        rectangles: Rectangles that stand for them.
    """

    values: dict[str, Any]
    slices: int
    rectangles: int


@dataclass
class _Canvas:
    """Lanes and slices as they are gathered over the ranks of a trace.

    Attributes:
        groups: JSON of the groups.
        lanes: JSON of the lanes.
        work: Slices of each sort of work, their lane being the number of a row of the canvas.
        waits: Slices of waits, their lane being a lane's number.
        gaps: Slices of gaps, the same.
        tables: Table of each row of the canvas.
        timelines: Timeline of each row of the canvas.
        lane_of_stream: Lane of each stream of the analyses, -1 for none.
    """

    groups: list[dict[str, Any]]
    lanes: list[dict[str, Any]]
    work: dict[str, list[Any]]
    waits: list[Any]
    gaps: list[Any]
    tables: list[str]
    timelines: list[Timeline]
    lane_of_stream: Array


def drawing(study: Study, window: tuple[int, int]) -> Drawing:
    """Return what to draw of a window.

    Args:
        study: The analyses.
        window: Start and end in ns.
    """
    margin = (window[1] - window[0]) // _MARGIN + 1
    view = (window[0] - margin, window[1] + margin)
    nothing = np.full(len(study.dependencies.streams) + 1, -1, np.int64)
    canvas = _Canvas([], [], {sort: [] for sort in MOST_SLICES}, [], [], [], [], nothing)
    for rank in study.trace.ranks:
        # Mapped files stay readable once the folder is gone.
        with tempfile.TemporaryDirectory(prefix="overlane-") as folder:
            _add_rank(canvas, study, rank, Path(folder))
    slices = {sort: joined(parts, view) for sort, parts in canvas.work.items()}
    merged = {sort: merge(found, MOST_SLICES[sort]) for sort, found in slices.items()}
    waits, gaps = (merge(joined(parts, view), MOST_REASONS) for parts in (canvas.waits, canvas.gaps))
    work = _together(list(merged.values()))
    names, name = _names(canvas, work)
    values = {
        "window": list(window),
        "view": list(view),
        "resolution_ns": {sort: found.resolution_ns for sort, found in merged.items()},
        "categories": [
            {"label": ENGINE_LABELS.get(word, word.replace("_", " ")), "colours": COLOURS[word]}
            for word in CATEGORIES
        ],
        "causes": [
            {"label": cause.title, "sentence": cause.sentence, "colours": CAUSE_COLOURS[cause.name]}
            for cause in CAUSES
        ],
        "groups": canvas.groups,
        "lanes": canvas.lanes,
        "names": names,
        "slices": _columns(work, len(canvas.tables)) | {"name": name},
        "waits": _columns(waits, len(canvas.lanes)),
        "gaps": _columns(gaps, len(canvas.lanes)),
        "wait_parts": _wait_parts(study, merged["operations"]),
        "barriers": _barriers(study, canvas.lane_of_stream, view),
    }
    return Drawing(values, sum(len(found) for found in slices.values()), len(work))


def _add_rank(canvas: _Canvas, study: Study, rank: int | None, folder: Path) -> None:
    from overlane.timeline import Timeline  # noqa: PLC0415 - loads compiled code
    from overlane.timeline.reasons import lanes_of_rows  # noqa: PLC0415

    Timeline.build(study.trace, rank, folder)
    timeline = Timeline.open(study.trace, rank, folder)
    meta = timeline.meta()
    number_of = _add_lanes(canvas, meta, timeline)
    for number, lane in enumerate(meta["lanes"]):
        if number_of[number] < 0:
            continue
        place = canvas.work[_SORTS.get(lane["table"], "host work")]
        row = canvas.lanes[number_of[number]]["first"]
        for sublane in range(lane["sublanes"]):
            start, end, category, rows = timeline.stored(lane["first"] + sublane)
            place.append((np.full(len(start), row + sublane), start, end, category, rows))
    op_lane = lanes_of_rows(study.trace, timeline, rank, "ops")
    drawn = np.where(op_lane >= 0, number_of[op_lane], -1)
    mine = np.flatnonzero(drawn >= 0)
    canvas.lane_of_stream[study.dependencies.stream_key[mine]] = drawn[mine]
    _add_reasons(canvas, study, drawn)


def _add_lanes(canvas: _Canvas, meta: dict[str, Any], timeline: Timeline) -> Array:
    """Append the groups and lanes of one rank; return the number of each of its lanes, -1 for left out."""
    base = len(canvas.groups)
    place = {group["id"]: base + at for at, group in enumerate(meta["groups"])}
    canvas.groups += [
        {
            "label": group["label"],
            "sublabel": group["sublabel"],
            "parent": -1 if group["parent"] is None else place[group["parent"]],
            "collapsed": group["collapsed"],
        }
        for group in meta["groups"]
    ]
    number_of = np.full(len(meta["lanes"]) + 1, -1, np.int64)
    unions = timeline.lane_of_wires()
    for at, lane in enumerate(meta["lanes"]):
        if lane["kind"] in _LEFT_OUT or len(canvas.lanes) >= MOST_LANES or not lane["sublanes"]:
            continue
        number_of[at] = len(canvas.lanes)
        canvas.lanes.append(
            {key: lane[key] for key in ("label", "sublabel", "kind", "table", "sublanes")}
            | {
                "group": place[lane["group"]],
                "first": len(canvas.tables),
                "union": bool(unions[lane["first"]]["is_union"]),
            }
        )
        canvas.tables += [lane["table"]] * lane["sublanes"]
        canvas.timelines += [timeline] * lane["sublanes"]
    return number_of


def _add_reasons(canvas: _Canvas, study: Study, op_lane: Array) -> None:
    """Append waits and gaps of the streams of one rank."""
    from overlane.timeline.reasons import gap_layer, wait_layer  # noqa: PLC0415 - loads compiled code

    waits, gaps = study.waits, study.idle_parts("stream")
    layers = (
        wait_layer(
            (waits.op, waits.start_ns, waits.end_ns, waits.cause),
            study.trace.column("ops", "start_ns"),
            op_lane.astype(np.int32),
        ),
        gap_layer((gaps.op, gaps.start_ns, gaps.end_ns, gaps.cause), op_lane.astype(np.int32), first_lane=0),
    )
    for place, layer in zip((canvas.waits, canvas.gaps), layers, strict=True):
        rows = np.arange(len(layer.lane)) if layer.row is None else layer.row
        place.append((layer.lane, layer.start, layer.end, layer.category, rows))


def _together(sets: list[Rectangles]) -> Rectangles:
    """Return several sets of rectangles as one, in order of lane and start."""
    keys = ("lane", "start", "end", "category", "row", "count", "busy")
    columns = [np.concatenate([getattr(found, key) for found in sets]) for key in keys]
    order = np.lexsort((columns[1], columns[0]))
    lane, start, end, category, row, count, busy = (column[order] for column in columns)
    return Rectangles(lane, start, end, category, row, count, busy)


def _columns(found: Rectangles, lanes: int) -> dict[str, list[int]]:
    """Return rectangles as JSON columns: starts and rows as differences, which need fewer digits."""
    offset = np.searchsorted(found.lane, np.arange(lanes + 1))
    several = np.flatnonzero(found.count > 1)
    return {
        "offset": offset.tolist(),
        "start": np.diff(found.start, prepend=0).tolist(),
        "length": (found.end - found.start).tolist(),
        "category": found.category.tolist(),
        "row": np.diff(found.row, prepend=0).tolist(),
        "several": several.tolist(),
        "count": found.count[several].tolist(),
        "busy": found.busy[several].tolist(),
    }


def _names(canvas: _Canvas, found: Rectangles) -> tuple[list[str], list[int]]:
    """Return the different names of rectangles, cut to what a page has room for, and each one's place."""
    words: dict[str, int] = {}
    places = []
    for lane, row in zip(found.lane.tolist(), found.row.tolist(), strict=True):
        table = canvas.tables[lane]
        word = canvas.timelines[lane].word(table, row) or f"{table} {row}"
        places.append(words.setdefault(word, len(words)))
    room = min(_NAME_LETTERS, max(_ALL_LETTERS // max(len(words), 1), _FEWEST_LETTERS))
    return [word if len(word) <= room else word[: room - 1] + "…" for word in words], places


def _wait_parts(study: Study, ops: Rectangles) -> dict[str, list[int]]:
    """Return for operations that stand alone how long they waited for each cause."""
    alone = np.zeros(len(study.work) + 1, np.bool_)
    alone[ops.row[ops.count == 1]] = True
    waits = study.waits
    mine = np.flatnonzero(alone[waits.op])
    key = waits.op[mine].astype(np.int64) * len(CAUSES) + waits.cause[mine]
    different, of = np.unique(key, return_inverse=True)
    lengths = np.zeros(len(different), np.int64)
    np.add.at(lengths, of, (waits.end_ns - waits.start_ns)[mine])
    return {
        "op": (different // len(CAUSES)).tolist(),
        "cause": (different % len(CAUSES)).tolist(),
        "ns": lengths.tolist(),
    }


def _barriers(study: Study, lane_of_stream: Array, view: tuple[int, int]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for place in range(len(study.barriers)):
        if len(found) >= MOST_BARRIERS:
            break
        barrier = study.barriers[place]
        lanes = sorted({int(lane_of_stream[stream]) for stream in barrier.streams_held} - {-1})
        if barrier.lost_ns and lanes and barrier.start_ns < view[1] and barrier.end_ns > view[0]:
            found.append(
                {
                    "kind": barrier.kind.replace("_", " "),
                    "start": barrier.start_ns,
                    "end": barrier.end_ns,
                    "lost": barrier.lost_ns,
                    "critical": barrier.critical_ns,
                    "lanes": lanes,
                    "ops": len(barrier.ops_held),
                }
            )
    return found
