"""Groups and lanes, the tree that the timeline draws."""

from __future__ import annotations

from dataclasses import dataclass, field

from overlane.timeline.columns import Key
from overlane.timeline.index import Layer

__all__ = ["Group", "Lane", "Tracks"]


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
        tpcs: The TPCs of its device that a partition was given, by logical number; empty where not known.
        tpc_count: TPCs of its device, 0 where not known.
    """

    id: str
    parent: str | None
    label: str
    kind: str
    sublabel: str = ""
    collapsed: bool = False
    tpcs: tuple[int, ...] = ()
    tpc_count: int = 0


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
        layer: Name of its layer.
        key: Values of the layer's key columns.
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
    layer: str = ""
    key: Key | None = None


@dataclass
class Tracks:
    """All tracks of one rank, lanes in drawing order, layers with final lane numbers."""

    groups: list[Group]
    lanes: list[Lane]
    layers: list[Layer]
    summary: list[int] = field(default_factory=list)
