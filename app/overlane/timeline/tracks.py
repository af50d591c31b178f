"""Which lanes a trace has: the layers of `layers.LAYERS`, their groups and lanes in drawing order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from overlane.tables import numbers
from overlane.timeline.columns import factorize, of_rank
from overlane.timeline.groups import Groups
from overlane.timeline.index import Layer, union_layer
from overlane.timeline.lanes import Group, Lane, Tracks
from overlane.timeline.layers import ALL_WORK, LAYERS, LayerKind
from overlane.trace import Trace

__all__ = ["find_tracks"]

Array = npt.NDArray[Any]


def find_tracks(trace: Trace, rank: int | None) -> Tracks:
    """Return groups, lanes and layers of one rank of a trace; tracks without rows are left out."""
    groups = Groups(trace, rank)
    lanes: list[Lane] = []
    layers = [
        layer
        for kind in LAYERS
        if trace.table(kind.table).num_rows and (layer := _layer(kind, groups, lanes)) is not None
    ]
    return _in_drawing_order(groups, lanes, layers)


def _layer(kind: LayerKind, groups: Groups, lanes: list[Lane]) -> Layer | None:
    """Return one layer and append its lanes; None where no row is drawn."""
    trace = groups.trace
    rows = kind.rows(trace, trace.table(kind.table))
    codes, keys = factorize(rows, kind.key)
    chosen = of_rank(trace, groups.rank, rows["rank"])
    count = np.bincount(codes if chosen is None else codes[chosen], minlength=len(keys))
    number_of = np.full(len(keys), -1, np.int32)
    for code in sorted(np.flatnonzero(count).tolist(), key=lambda code: kind.order(keys[code])):
        lane = kind.describe(groups, *keys[code])
        if lane is not None:
            lane.layer, lane.key, lane.rows = kind.name, keys[code], int(count[code])
            number_of[code] = len(lanes)
            lanes.append(lane)
    if not (number_of >= 0).any():
        return None
    lane_of = number_of[codes]
    if chosen is not None:
        lane_of[~chosen] = -1
    start, end = _times(trace, kind.table)
    if kind.is_union:
        layer = union_layer(lane_of, start, end, kind.category(trace), len(lanes), name=kind.name)
    else:
        layer = Layer(kind.name, lane_of, start, end, kind.category(trace))
    return kind.finish(layer, trace, lanes)


def _times(trace: Trace, name: str) -> tuple[Array, Array]:
    """Return starts and ends; what never ended is drawn to the end of the trace."""
    table = trace.table(name)
    if "at_ns" in table.schema.names:
        at = trace.column(name, "at_ns")
        return at, at
    start = trace.column(name, "start_ns")
    end = table["end_ns"]
    if end.null_count:
        return start, np.maximum(numbers(end, null=trace.span_ns), start)
    return start, trace.column(name, "end_ns")


_KIND_ORDER = ("device", "host", "engines", "partition", "thread")


def _in_drawing_order(groups: Groups, lanes: list[Lane], layers: list[Layer]) -> Tracks:
    """Put groups and lanes in drawing order and renumber the layers' lanes."""
    rows: dict[str, int] = {}
    calls: dict[str, int] = {}
    for lane in lanes:
        rows[lane.group] = rows.get(lane.group, 0) + lane.rows
        if lane.table in {"api_calls", "syncs"}:
            calls[lane.group] = calls.get(lane.group, 0) + lane.rows
    asked = {group_id: at for at, group_id in enumerate(groups.found)}

    def place(group: Group) -> tuple[Any, ...]:
        # Threads that call the driver come first; the others by how much they recorded.
        busy = (-calls.get(group.id, 0), -rows.get(group.id, 0)) if group.kind == "thread" else (0, 0)
        number = group.id[1:] if group.kind == "device" else ""
        return (_KIND_ORDER.index(group.kind), *busy, number.zfill(9), group.collapsed, asked[group.id])

    children: dict[str | None, list[Group]] = {}
    for group in groups.found.values():
        children.setdefault(group.parent, []).append(group)
    ordered: list[Group] = []

    def visit(parent: str | None) -> None:
        for group in sorted(children.get(parent, []), key=place):
            ordered.append(group)
            visit(group.id)

    visit(None)
    position = {group.id: at for at, group in enumerate(ordered)}
    # Within a group lanes keep the order in which the layers made them.
    order = sorted(range(len(lanes)), key=lambda number: position[lanes[number].group])
    renumber = np.empty(len(order) + 1, np.int32)
    renumber[order] = np.arange(len(order))
    renumber[-1] = -1
    for layer in layers:
        layer.lane = renumber[layer.lane]
    drawn = [lanes[number] for number in order]
    overview = [at for at, lane in enumerate(drawn) if lane.layer == ALL_WORK]
    return Tracks(ordered, drawn, layers, overview)
