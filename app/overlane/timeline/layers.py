"""The list of layers: every table of intervals that the timeline draws, and how.

A further table (waits, gaps, barriers) is one more entry of `LAYERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from overlane.timeline.categories import CODES, engine_label
from overlane.timeline.columns import (
    Key,
    by_word,
    call_categories,
    engine_categories,
    none_last,
    one_category,
    operation_categories,
)
from overlane.timeline.groups import Groups
from overlane.timeline.index import Layer
from overlane.timeline.lanes import Group, Lane
from overlane.trace import Trace

__all__ = ["ALL_WORK", "LAYERS", "NAME_COLUMNS", "LayerKind"]

Array = npt.NDArray[Any]

ALL_WORK = "all work"
"""Layer of each device's whole work, which the minimap shows."""

RANGE_KINDS = {
    "operator": ("operators", "operator"),
    "annotation": ("annotations", "annotation"),
    "device_annotation": ("annotations", "annotation"),
    "python": ("python", "python"),
    "profiler": ("profiler", "profiler"),
    "other": ("other ranges", "other"),
}
"""Label and category of each kind of range, in drawing order."""

DEEP_TRACKS = frozenset({"python"})
"""Ranges that stack so deep that their group is collapsed at first."""


@dataclass(frozen=True)
class LayerKind:
    """How the rows of one table become a layer.

    Attributes:
        name: Of the layer.
        table: Its rows are drawn, from `start_ns` to `end_ns` or at `at_ns`.
        key: Columns that tell the lane of a row.
        describe: Makes the lane of a key from the groups and the key's values; None where this layer leaves
            the key's rows out.
        category: Returns the category of each row of the trace's table, uint8, or (1,) when all are alike.
        names: Column that names the slices, None for slices without names.
        order: What the keys are sorted by; lanes of one group are drawn layer by layer, then in this order.
        rows: Returns the rank and the key's columns of rows of the table; the table itself has them mostly.
        is_union: A slice is a union run of the rows of its lane, not a row.
        finish: Changes the layer at last: takes it, the trace and all lanes.
    """

    name: str
    table: str
    key: tuple[str, ...]
    describe: Callable[..., Lane | None]
    category: Callable[[Trace], Array]
    names: str | None = None
    order: Callable[[Key], tuple[Any, ...]] = none_last
    rows: Callable[[Trace, pa.Table], pa.Table] = lambda _trace, table: table
    is_union: bool = False
    finish: Callable[[Layer, Trace, list[Lane]], Layer] = lambda layer, _trace, _lanes: layer


# ---------------------------------------------------------------------- devices


def _all_work(groups: Groups, device: int | None) -> Lane:
    return Lane(f"u:{device}", groups.device(device), "all work", "engine", "ops", "any engine")


def _engine(groups: Groups, device: int | None, engine: str | None) -> Lane:
    parent = groups.device(device)
    group = groups.add(Group(f"{parent}/e", parent, "Engines", "engines"))
    return Lane(f"e:{device}:{engine}", group, engine_label(engine), "engine", "ops")


def _engine_order(key: Key) -> tuple[Any, ...]:
    return (*none_last(key[:1]), CODES.get(key[1] or "", 99))


def _stream(groups: Groups, device: int | None, context: int | None, stream: int | None) -> Lane:
    facts = groups.streams.get((device, context, stream), {})
    parts = [facts.get("name"), (facts.get("stream_kind") or "").replace("_", " ")]
    if facts.get("priority") is not None:
        parts.append(f"priority {facts['priority']}")
    label = "no stream recorded" if stream is None else f"stream {stream}"
    group = groups.partition(device, context, stream)
    sublabel = " · ".join(filter(None, parts))
    return Lane(f"s:{device}:{context}:{stream}", group, label, "stream", "ops", sublabel)


def _rows_of_blocks(trace: Trace, blocks: pa.Table) -> pa.Table:
    ops = trace.table("ops").select(["rank", "device_id"]).take(blocks["op_id"])
    return pa.table({"rank": ops["rank"], "device_id": ops["device_id"], "sm_id": blocks["sm_id"]})


def _blocks(groups: Groups, device: int | None, sm: int | None) -> Lane:
    parent = groups.device(device)
    group = groups.add(Group(f"{parent}/sm", parent, "Blocks per SM", "partition", collapsed=True))
    return Lane(f"b:{device}:{sm}", group, f"SM {sm}", "blocks", "blocks")


# ---------------------------------------------------------------------- ranges and the host


def _device_range(groups: Groups, track: str, device: int | None, stream: int | None) -> Lane | None:
    if track != "device_annotation":
        return None
    sublabel = "" if stream is None else f"stream {stream}"
    label, _ = RANGE_KINDS[track]
    return Lane(f"a:{device}:{stream}", groups.device(device), label, "ranges", "ranges", sublabel)


def _host_range(groups: Groups, track: str, process: int | None, thread: int | None) -> Lane | None:
    if track == "device_annotation":
        return None
    label, _ = RANGE_KINDS[track]
    group = groups.thread(process, thread)
    if track in DEEP_TRACKS:
        group = groups.add(Group(f"{group}/{track}", group, label, "thread", collapsed=True))
    return Lane(f"r:{track}:{process}:{thread}", group, label, "ranges", "ranges")


def _range_order(key: Key) -> tuple[Any, ...]:
    return ([*RANGE_KINDS].index(key[0]), *none_last(key[1:]))


def _range_categories(trace: Trace) -> Array:
    return by_word(trace.table("ranges")["track"], lambda word: CODES[RANGE_KINDS[word][1]])


def _of_thread(prefix: str, label: str, kind: str, table: str) -> Callable[..., Lane]:
    """Return what describes the one lane that a table has on each thread."""

    def describe(groups: Groups, process: int | None, thread: int | None) -> Lane:
        return Lane(f"{prefix}:{process}:{thread}", groups.thread(process, thread), label, kind, table)

    return describe


def _counter(groups: Groups, process: int | None, device: int | None, track: str) -> Lane:
    group = groups.process(process) if device is None else groups.device(device)
    return Lane(f"n:{process}:{device}:{track}", group, track, "counter", "counters")


def _counter_heights(layer: Layer, trace: Trace, lanes: list[Lane]) -> Layer:
    """Draw each sample from its time to the next one of its lane, as high as its value."""
    at, lane = layer.start, layer.lane
    value = trace.column("counters", "value")
    order = np.lexsort((at, lane))
    end = np.full(len(at), trace.span_ns, np.int64)
    follows = lane[order[1:]] == lane[order[:-1]]
    end[order[:-1][follows]] = at[order[1:][follows]]
    height = np.zeros(len(at), np.uint8)
    units = trace.table("counters")["unit"]
    for number in np.unique(lane[lane >= 0]).tolist():
        mine = lane == number
        top = float(value[mine][np.isfinite(value[mine])].max(initial=0.0))
        lanes[number].max = top
        lanes[number].unit = units[int(np.argmax(mine))].as_py()
        if top > 0:
            height[mine] = np.ceil(np.nan_to_num(np.clip(value[mine] / top, 0, 1)) * 255).astype(np.uint8)
    return Layer(
        layer.name, lane[order], at[order], np.maximum(end[order], at[order]), layer.category,
        row=order, height=height[order],
    )  # fmt: skip


# ---------------------------------------------------------------------- the list


def _all(category: str) -> Callable[[Trace], Array]:
    return lambda _trace: one_category(category)


def _engine_categories(trace: Trace) -> Array:
    return engine_categories(trace.table("ops"))


_THREAD = ("process_id", "thread_id")

LAYERS: tuple[LayerKind, ...] = (
    LayerKind(ALL_WORK, "ops", ("device_id",), _all_work, _engine_categories, "name", is_union=True),
    LayerKind(
        "engines", "ops", ("device_id", "engine"), _engine, _engine_categories, "name",
        order=_engine_order, is_union=True,
    ),
    LayerKind(
        "streams", "ops", ("device_id", "context_id", "stream_id"), _stream, operation_categories, "name"
    ),
    LayerKind(
        "blocks", "blocks", ("device_id", "sm_id"), _blocks, _all("compute"), rows=_rows_of_blocks
    ),
    LayerKind(
        "device annotations", "ranges", ("track", "device_id", "stream_id"), _device_range,
        _all("annotation"), "name",
    ),
    LayerKind(
        "calls", "api_calls", _THREAD, _of_thread("c", "calls", "calls", "api_calls"), call_categories, "name"
    ),
    LayerKind(
        "synchronizations", "syncs", _THREAD, _of_thread("y", "synchronizations", "syncs", "syncs"),
        _all("sync"), "sync_kind",
    ),
    LayerKind(
        "ranges", "ranges", ("track", *_THREAD), _host_range, _range_categories, "name", order=_range_order
    ),
    LayerKind(
        "overheads", "overheads", _THREAD, _of_thread("o", "overheads", "ranges", "overheads"),
        _all("overhead"), "kind",
    ),
    LayerKind(
        "instants", "instants", _THREAD, _of_thread("i", "instants", "instants", "instants"),
        _all("instant"), "name",
    ),
    LayerKind(
        "counters", "counters", ("process_id", "device_id", "track"), _counter, _all("counter"),
        finish=_counter_heights,
    ),
)  # fmt: skip
"""All layers, in drawing order within a group."""

NAME_COLUMNS = {kind.table: kind.names for kind in LAYERS if kind.names is not None}
"""Column that names a row of each table whose slices have names."""
