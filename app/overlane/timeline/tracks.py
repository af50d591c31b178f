"""Which lanes a trace has: groups, lanes, and for each table the lane and category of every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from overlane.figures.palette import engine_label
from overlane.tables import numbers
from overlane.timeline.categories import CODES
from overlane.timeline.columns import (
    KEY_COLUMNS,
    Key,
    by_word,
    call_categories,
    engine_categories,
    factorize,
    lane_key,
    one_category,
    operation_categories,
)
from overlane.timeline.index import Layer, union_layer
from overlane.timeline.lanes import RANGE_KINDS, Group, Lane, Tracks, engine_order, lane_order, none_last
from overlane.trace import Trace

__all__ = ["find_tracks"]

Array = npt.NDArray[Any]

_NO_RANK = np.iinfo(np.int32).min  # no rank is negative

DEEP_TRACKS = frozenset({"python"})
"""Ranges that stack so deep that their group is collapsed at first."""


def find_tracks(trace: Trace, rank: int | None) -> Tracks:
    """Return groups, lanes and layers of one rank of a trace; tracks without rows are left out."""
    builder = _Builder(trace, rank)
    builder.devices()
    builder.host()
    return builder.finish()


class _Builder:
    def __init__(self, trace: Trace, rank: int | None) -> None:
        self.trace = trace
        self.rank = rank
        self.groups: dict[str, Group] = {}
        self.lanes: list[Lane] = []
        self.layers: list[Layer] = []
        self.summary: list[Lane] = []

    # ------------------------------------------------------------------ shared

    def selected(self, name: str) -> Array | None:
        """Return which rows are of this rank, or None for all; rows without rank go to the first rank."""
        return self._of_rank(self.trace.table(name)["rank"])

    def _of_rank(self, column: pa.ChunkedArray) -> Array | None:
        ranks = self.trace.ranks
        takes_null = self.rank is None or (None not in ranks and self.rank == ranks[0])
        if column.null_count == len(column):
            return None if takes_null else np.zeros(len(column), bool)
        if self.rank is None:
            return np.asarray(numbers(column, null=_NO_RANK) == _NO_RANK)
        mine = numbers(column, null=_NO_RANK)
        mask = (mine == self.rank) | (takes_null & (mine == _NO_RANK))
        return None if mask.all() else mask

    def times(self, name: str) -> tuple[Array, Array]:
        """Return starts and ends; what never ended is drawn to the end of the trace."""
        table = self.trace.table(name)
        start = self.trace.column(name, "start_ns")
        end = table["end_ns"]
        if end.null_count:
            return start, np.maximum(numbers(end, null=self.trace.span_ns), start)
        return start, self.trace.column(name, "end_ns")

    def group(self, group: Group) -> str:
        self.groups.setdefault(group.id, group)
        return group.id

    def keyed(self, name: str, make: Callable[[Key], Lane | None]) -> tuple[Array, list[Key]]:
        """Number the rows of a table by lane; `make` describes the lane of a key.

        Returns:
            int32 lane numbers, shape (rows,), -1 where the row is not drawn, and the keys with rows of this
            rank.
        """
        table = self.trace.table(name)
        codes, raw = factorize(table, KEY_COLUMNS[name])
        chosen = self.selected(name)
        rows = np.bincount(codes if chosen is None else codes[chosen], minlength=len(raw))
        numbers = np.full(len(raw), -1, np.int32)
        by_key: dict[Key, int] = {}
        for code, values in enumerate(raw):
            key = lane_key(name, values)
            if not rows[code]:
                continue
            if key not in by_key:
                lane = make(key)
                if lane is None:
                    continue
                lane.key = key
                by_key[key] = len(self.lanes)
                self.lanes.append(lane)
            numbers[code] = by_key[key]
            self.lanes[by_key[key]].rows += int(rows[code])
        lane_of = numbers[codes] if len(raw) else codes
        if chosen is not None:
            lane_of = np.where(chosen, lane_of, np.int32(-1))
        return lane_of.astype(np.int32, copy=False), list(by_key)

    # ------------------------------------------------------------------ devices

    def devices(self) -> None:
        """Add everything that belongs to a GPU."""
        if self.trace.table("ops").num_rows:
            self._operations()
        self._blocks()

    def _device(self, device: int | None) -> str:
        if f"d{device}" in self.groups:
            return f"d{device}"
        rows = self.trace.table("devices").to_pylist()
        mine = [row for row in rows if row["device_id"] == device and row["rank"] in {self.rank, None}]
        facts: dict[str, Any] = mine[0] if mine else {}
        name = "Device not recorded" if device is None else f"GPU {device}"
        label = " · ".join(filter(None, [name, facts.get("name")]))
        parts = []
        if facts.get("sm_count"):
            parts.append(f"{facts['sm_count']} SMs")
        if facts.get("compute_capability"):
            parts.append(f"compute capability {facts['compute_capability']}")
        if facts.get("memory_bytes"):
            parts.append(f"{facts['memory_bytes'] / 2**30:.0f} GiB")
        return self.group(Group(f"d{device}", None, label, "device", " · ".join(parts)))

    def _operations(self) -> None:
        trace = self.trace
        table = trace.table("ops")
        start, end = self.times("ops")
        category = operation_categories(trace)
        chosen = self.selected("ops")

        # Engines: union runs of each device, then of each (device, engine); the first serves the minimap.
        for columns, kind in ((("device_id",), "u"), (("device_id", "engine"), "e")):
            codes, keys = factorize(table, columns)
            if chosen is not None:
                codes = np.where(chosen, codes, np.int32(-1)).astype(np.int32)
            engine_category = engine_categories(table)
            runs = union_layer(codes, start, end, engine_category, len(keys))
            numbers = np.full(len(keys), -1, np.int32)
            work = np.bincount(codes[codes >= 0], minlength=len(keys))
            for code in sorted(range(len(keys)), key=lambda c: engine_order(keys[c])):
                if work[code]:
                    numbers[code] = len(self.lanes)
                    self.lanes.append(self._engine_lane(kind, keys[code], int(work[code])))
            runs.lane = numbers[runs.lane]
            self.layers.append(runs)

        describe = self._stream_describer()
        lane, _ = self.keyed("ops", describe)
        self.layers.append(Layer(lane, start, end, category))

    def _engine_lane(self, kind: str, key: Key, rows: int) -> Lane:
        device = self._device(key[0])
        if kind == "u":
            lane = Lane(f"u:{key[0]}", device, "all work", "engine", "ops", "any engine", rows)
            self.summary.append(lane)
            return lane
        group = self.group(Group(f"{device}/e", device, "Engines", "engines"))
        return Lane(f"e:{key[0]}:{key[1]}", group, engine_label(key[1]), "engine", "ops", "", rows)

    def _stream_describer(self) -> Callable[[Key], Lane]:
        trace = self.trace
        streams = {
            (row["device_id"], row["context_id"], row["stream_id"]): row
            for row in trace.table("streams").to_pylist()
            if row["rank"] in {self.rank, None}
        }
        partitions = trace.table("partitions").to_pylist()
        by_context = {
            (p["device_id"], p["context_id"]): at
            for at, p in enumerate(partitions)
            if p["rank"] in {self.rank, None}
        }
        _, keys = factorize(trace.table("ops"), ("device_id", "context_id", "stream_id", "partition_id"))
        known = {key[:3]: key[3] for key in keys if key[3] is not None}
        contexts: dict[Any, set[Any]] = {}
        for key in keys:
            contexts.setdefault(key[0], set()).add(key[1])

        def describe(key: Key) -> Lane:
            device, context, stream = key
            parent = self._device(device)
            partition = known.get(key, by_context.get((device, context)))
            if partition is not None:
                group = self.group(_partition_group(parent, partition, partitions[partition]))
            elif len(contexts[device]) > 1:
                which = "no context recorded" if context is None else f"context {context}"
                name = f"Streams · {which}"
                group = self.group(Group(f"{parent}/c{context}", parent, name, "partition"))
            else:
                group = self.group(Group(f"{parent}/p", parent, "Streams", "partition"))
            facts: dict[str, Any] = streams.get(key, {})
            parts = [(facts.get("stream_kind") or "").replace("_", " ")]
            if facts.get("priority") is not None:
                parts.append(f"priority {facts['priority']}")
            if facts.get("name"):
                parts.insert(0, facts["name"])
            label = "no stream recorded" if stream is None else f"stream {stream}"
            return Lane(
                f"s:{device}:{context}:{stream}",
                group,
                label,
                "stream",
                "ops",
                " · ".join(filter(None, parts)),
            )

        return describe

    def _blocks(self) -> None:
        table = self.trace.table("blocks")
        if not table.num_rows:
            return
        ops = self.trace.table("ops").select(["rank", "device_id"]).take(table["op_id"])
        joined = pa.table({"device_id": ops["device_id"], "sm_id": table["sm_id"]})
        codes, keys = factorize(joined, ("device_id", "sm_id"))
        chosen = self._of_rank(ops["rank"])
        if chosen is not None:
            codes = np.where(chosen, codes, np.int32(-1)).astype(np.int32)
        rows = np.bincount(codes[codes >= 0], minlength=len(keys))
        numbers = np.full(len(keys), -1, np.int32)
        for code in sorted(range(len(keys)), key=lambda c: none_last(keys[c])):
            if rows[code]:
                device, sm = keys[code]
                parent = self._device(device)
                group = self.group(
                    Group(f"{parent}/sm", parent, "Blocks per SM", "partition", collapsed=True)
                )
                numbers[code] = len(self.lanes)
                self.lanes.append(
                    Lane(
                        f"b:{device}:{sm}",
                        group,
                        f"SM {sm}",
                        "blocks",
                        "blocks",
                        "",
                        int(rows[code]),
                        key=keys[code],
                    )
                )
        lane = np.where(codes >= 0, numbers[codes], np.int32(-1)).astype(np.int32)
        start, end = self.times("blocks")
        self.layers.append(Layer(lane, start, end, one_category("compute")))

    # ------------------------------------------------------------------ host

    def host(self) -> None:
        """Add what belongs to a host thread, and what is drawn beside devices but is no device work."""
        self._device_ranges_and_host_ranges()
        for table, prefix, label, kind, category in (
            ("api_calls", "c", "calls", "calls", None),
            ("syncs", "y", "synchronizations", "syncs", "sync"),
            ("overheads", "o", "overheads", "ranges", "overhead"),
        ):
            if not self.trace.table(table).num_rows:
                continue

            def describe(
                key: Key, table: str = table, prefix: str = prefix, label: str = label, kind: str = kind
            ) -> Lane:
                return Lane(f"{prefix}:{key[0]}:{key[1]}", self._thread(*key), label, kind, table)

            lane, _ = self.keyed(table, describe)
            categories = one_category(category) if category else call_categories(self.trace)
            self.layers.append(Layer(lane, *self.times(table), categories))
        self._instants()
        self._counters()

    def _process(self, process: int | None) -> tuple[str, list[dict[str, Any]]]:
        rows = [r for r in self.trace.table("threads").to_pylist()
                if r["process_id"] == process and r["rank"] in {self.rank, None}]  # fmt: skip
        name = next((r["process_name"] for r in rows if r["process_name"]), None)
        label = "process not recorded" if process is None else f"process {process}"
        return self.group(Group(f"h:{process}", None, " · ".join(filter(None, [name, label])), "host")), rows

    def _thread(self, process: int | None, thread: int | None) -> str:
        group_id = f"t:{process}:{thread}"
        if group_id in self.groups:
            return group_id
        parent, rows = self._process(process)
        thread_name = next((r["name"] for r in rows if r["thread_id"] == thread and r["name"]), None)
        number = "no thread recorded" if thread is None else f"thread {thread}"
        if thread_name and str(thread) in thread_name:
            label = thread_name
        else:
            label = " · ".join(filter(None, [thread_name, number]))
        return self.group(Group(group_id, parent, label, "thread"))

    def _device_ranges_and_host_ranges(self) -> None:
        if not self.trace.table("ranges").num_rows:
            return

        def describe(key: Key) -> Lane:
            track, process, thread, device, stream = key
            label, _ = RANGE_KINDS[track]
            if track == "device_annotation":
                sublabel = "" if stream is None else f"stream {stream}"
                return Lane(f"a:{device}:{stream}", self._device(device), label, "ranges", "ranges", sublabel)
            group = self._thread(process, thread)
            if track in DEEP_TRACKS:
                group = self.group(Group(f"{group}/{track}", group, label, "thread", collapsed=True))
            return Lane(f"r:{track}:{process}:{thread}", group, label, "ranges", "ranges")

        lane, _ = self.keyed("ranges", describe)
        category = by_word(self.trace.table("ranges")["track"], lambda word: CODES[RANGE_KINDS[word][1]])
        self.layers.append(Layer(lane, *self.times("ranges"), category))

    def _instants(self) -> None:
        if not self.trace.table("instants").num_rows:
            return

        def describe(key: Key) -> Lane:
            return Lane(f"i:{key[0]}:{key[1]}", self._thread(*key), "instants", "instants", "instants")

        lane, _ = self.keyed("instants", describe)
        at = self.trace.column("instants", "at_ns")
        self.layers.append(Layer(lane, at, at, one_category("instant")))

    def _counters(self) -> None:
        table = self.trace.table("counters")
        if not table.num_rows:
            return
        at = self.trace.column("counters", "at_ns")
        value = self.trace.column("counters", "value")

        def describe(key: Key) -> Lane:
            process, device, track = key
            group = self._device(device) if device is not None else self._process(process)[0]
            return Lane(f"n:{process}:{device}:{track}", group, track, "counter", "counters")

        lane, _ = self.keyed("counters", describe)
        # Rows are sorted by (track, at); a sample holds until the next one of its lane.
        order = np.lexsort((at, lane))
        end = np.full(len(at), self.trace.span_ns, np.int64)
        follows = lane[order[1:]] == lane[order[:-1]]
        end[order[:-1][follows]] = at[order[1:][follows]]
        height = np.zeros(len(at), np.uint8)
        units = table["unit"]
        for number in np.unique(lane[lane >= 0]).tolist():
            mine = lane == number
            finite = value[mine][np.isfinite(value[mine])]
            top = float(finite.max(initial=0.0))
            self.lanes[number].max = top
            self.lanes[number].unit = units[int(np.argmax(mine))].as_py()
            if top > 0:
                share = np.nan_to_num(np.clip(value[mine] / top, 0, 1))
                height[mine] = np.ceil(share * 255).astype(np.uint8)
        self.layers.append(
            Layer(
                lane[order],
                at[order],
                np.maximum(end[order], at[order]),
                one_category("counter"),
                order,
                None,
                height[order],
            )
        )

    # ------------------------------------------------------------------ order

    def finish(self) -> Tracks:
        """Put groups and lanes in drawing order and renumber the layers' lanes."""
        rows: dict[str, int] = {}
        calls: dict[str, int] = {}
        for lane in self.lanes:
            rows[lane.group] = rows.get(lane.group, 0) + lane.rows
            if lane.table in {"api_calls", "syncs"}:
                calls[lane.group] = calls.get(lane.group, 0) + lane.rows
        rank = {"device": 0, "host": 1, "engines": 2, "partition": 3, "thread": 4}
        found = list(self.groups)

        def place(group: Group) -> tuple[Any, ...]:
            # Threads that call the driver come first; the others by how much they recorded.
            busy = (-calls.get(group.id, 0), -rows.get(group.id, 0)) if group.kind == "thread" else (0, 0)
            number = group.id[1:] if group.kind == "device" else ""
            return (rank[group.kind], *busy, number.zfill(9), group.collapsed, found.index(group.id))

        children: dict[str | None, list[Group]] = {}
        for group in self.groups.values():
            children.setdefault(group.parent, []).append(group)
        ordered: list[Group] = []

        def visit(parent: str | None) -> None:
            for group in sorted(children.get(parent, []), key=place):
                ordered.append(group)
                visit(group.id)

        visit(None)
        position = {group.id: at for at, group in enumerate(ordered)}
        numbers = sorted(
            range(len(self.lanes)),
            key=lambda n: (position[self.lanes[n].group], lane_order(self.lanes[n]), n),
        )
        renumber = np.empty(len(numbers) + 1, np.int32)
        renumber[numbers] = np.arange(len(numbers))
        renumber[-1] = -1
        for layer in self.layers:
            layer.lane = renumber[layer.lane]
        lanes = [self.lanes[n] for n in numbers]
        return Tracks(ordered, lanes, self.layers, [lanes.index(lane) for lane in self.summary])


def _partition_group(parent: str, partition: int, facts: dict[str, Any]) -> Group:
    count = facts["sm_granted"] or facts["sm_requested"]
    is_green = facts["parent_context_id"] is not None
    name = f"Green context {facts['context_id']}" if is_green else "Whole device"
    label = " · ".join(filter(None, [name, f"{count} SMs" if count else None]))
    return Group(f"{parent}/p{partition}", parent, label, "partition", facts["name"] or "")
