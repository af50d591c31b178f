"""Groups and lanes, the tree that the timeline draws, and their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from overlane.timeline.categories import CODES
from overlane.timeline.columns import Key
from overlane.timeline.index import Layer

__all__ = ["RANGE_KINDS", "Group", "Lane", "Tracks", "engine_order", "lane_order", "none_last"]

RANGE_KINDS = {
    "operator": ("operators", "operator"),
    "annotation": ("annotations", "annotation"),
    "device_annotation": ("annotations", "annotation"),
    "python": ("python", "python"),
    "profiler": ("profiler", "profiler"),
    "other": ("other ranges", "other"),
}
"""Label and category of each kind of range, in drawing order."""


@dataclass(frozen=True)
class Group:
    """Tracks shown together; groups nest.

    Attributes:
        id: Stable within one trace.
        parent: Group that holds it, None at the top.
        label: What to show.
        sublabel: Facts beside the label.
        kind: `device`, `engines`, `partition`, `host` or `thread`.
        collapsed: Folded at first.
    """

    id: str
    parent: str | None
    label: str
    kind: str
    sublabel: str = ""
    collapsed: bool = False


@dataclass
class Lane:
    """One track as it is drawn.

    Attributes:
        id: Stable within one trace.
        group: Group that holds it.
        label: What to show.
        kind: `engine`, `stream`, `calls`, `syncs`, `ranges`, `instants`, `counter` or `blocks`.
        table: Table of its rows.
        sublabel: Facts beside the label.
        rows: Rows that it draws.
        unit: Unit of a counter.
        max: Value that a counter's full height stands for.
        key: Values of the table's key columns, for tables whose rows are located by them.
    """

    id: str
    group: str
    label: str
    kind: str
    table: str
    sublabel: str = ""
    rows: int = 0
    unit: str | None = None
    max: float | None = None
    key: Key | None = None


@dataclass
class Tracks:
    """All tracks of one rank, lanes in drawing order, layers with final lane numbers."""

    groups: list[Group]
    lanes: list[Lane]
    layers: list[Layer]
    summary: list[int] = field(default_factory=list)


_LANE_ORDER = ("engine", "stream", "blocks", "calls", "syncs", "ranges", "instants", "counter")


def lane_order(lane: Lane) -> tuple[Any, ...]:
    """Return what lanes of one group are sorted by: kind, then kind of range or identity of stream."""
    kind = _LANE_ORDER.index(lane.kind)
    if lane.kind == "ranges":
        tracks = [*RANGE_KINDS]
        return (
            kind,
            len(tracks) if lane.key is None or lane.table != "ranges" else tracks.index(lane.key[0]),
        )
    if lane.kind == "stream" and lane.key is not None:
        return (kind, *none_last(lane.key))
    return (kind,)


def none_last(key: Key) -> tuple[Any, ...]:
    """Return what keys are sorted by when unknown parts come last."""
    return tuple((value is None, value if value is not None else 0) for value in key)


def engine_order(key: Key) -> tuple[Any, ...]:
    """Return what (device, engine) keys are sorted by: device, then the order of the engines."""
    return (*none_last(key[:1]), *(CODES.get(word or "", 99) for word in key[1:]))
