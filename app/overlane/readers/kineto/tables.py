"""Build the tables of operations, calls, synchronizations, ranges and the like, from settled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from overlane.readers.kineto.compiled import nesting_levels
from overlane.readers.kineto.keys import Class, Wide
from overlane.readers.kineto.names import (
    api_of,
    engine_of,
    is_event_record,
    memories_of,
    of_recording,
    sync_kind_of,
    words_by_code,
)
from overlane.readers.kineto.rows import Rows, arrow, dictionary, distinct, order_by, unknown_ids
from overlane.readers.kineto.settle import Settled, Target
from overlane.readers.kineto.text import MISSING
from overlane.tables import array_of, null_array, table_from_columns

__all__ = ["TableBuilder"]

Array = np.ndarray[Any, Any]

_LAST = np.iinfo(np.int64).max
_HOUR_NS = 3_600_000_000_000
_TRACKS = {
    Class.OPERATOR: "operator",
    Class.ANNOTATION: "annotation",
    Class.DEVICE_ANNOTATION: "device_annotation",
    Class.PYTHON: "python",
    Class.PROFILER: "profiler",
}
_KINDS = {Class.KERNEL: "kernel", Class.MEMCPY: "memcpy", Class.MEMSET: "memset"}
_CHANNEL_TYPES = {1: "compute", 2: "asynchronous copy"}
_SCOPES = {ord("t"): "thread", ord("p"): "process", ord("g"): "global"}


class TableBuilder:
    """Builds tables one after the other; each method returns the table and keeps the source rows of its rows.

    Attributes:
        sources: Table name to the source row of each of its rows, for the attributes.
        derived: Table name to the number of its rows that are no event of their own.
    """

    def __init__(self, rows: Rows, settled: Settled, rank: int | None) -> None:
        self.rows = rows
        self.settled = settled
        self.rank = rank
        self.origin = settled.origin_ns
        self.sources: dict[str, Array] = {}
        self.derived: dict[str, int] = {}
        self.host_process = self._host_process()

    def _host_process(self) -> int:
        """Return the one process that makes calls (or runs operators), MISSING for several or none."""
        for kinds in ((Class.RUNTIME, Class.DRIVER, Class.CALL), (Class.OPERATOR,)):
            codes = self.rows.used_codes(
                self.rows.thread[self.rows.rows_of(*kinds) & (self.settled.target != Target.METADATA)]
            )
            processes = np.unique(self.rows.threads(codes)[0]) if codes.size else codes
            if processes.size == 1 and processes[0] >= 0:
                return int(processes[0])
            if processes.size:
                return MISSING
        return MISSING

    def _chosen(self, target: Target) -> Array:
        return np.flatnonzero(self.settled.target == target)

    def _sorted(self, name: str, chosen: Array, *, longest_first: bool = False) -> tuple[Array, Array, Array]:
        """Sort rows canonically; return them with starts and ends (MISSING: unknown) from the origin on."""
        start = self.rows.ts[chosen]
        dur = self.rows.dur[chosen]
        unknown = -_LAST if longest_first else _LAST  # an unfinished range counts as the longest
        order = order_by(start, np.where(dur == MISSING, unknown, -dur if longest_first else dur))
        chosen, start, dur = chosen[order], start[order], dur[order]
        start -= self.origin
        end = np.where(dur == MISSING, MISSING, start + dur)
        self.sources[name] = chosen.astype(np.int32)
        return chosen, start, end

    def _common(self, count: int) -> dict[str, Any]:
        rank = None if self.rank is None else np.full(count, self.rank, np.int32)
        return {"rank": arrow(rank, pa.int32(), count, missing=None)}

    def _hosts(self, chosen: Array) -> tuple[Array, Array]:
        """Return process and thread of host rows; a thread of no known process is none."""
        process, thread = self.rows.threads(self.rows.thread[chosen])
        thread[process == MISSING] = MISSING
        return process, thread

    def _names(self, codes: Array) -> pa.DictionaryArray:
        """Return names; an event without one is called by the empty text."""
        words = words_by_code(self.rows, codes)
        if (codes < 0).any():
            codes = np.where(codes < 0, len(words), codes)
            words.append("")
        return dictionary(codes, words)

    def _span(self, start: Array, end: Array) -> dict[str, Any]:
        return {
            "start_ns": arrow(start, pa.int64(), start.size, missing=None),
            "end_ns": arrow(end, pa.int64(), end.size),
        }

    def _number(
        self,
        column: Wide,
        chosen: Array,
        dtype: pa.DataType,
        *,
        is_id: bool = False,
        zero_is_unknown: bool = False,
    ) -> pa.Array:
        values = self.rows.wide(column, chosen)
        if is_id:
            values = unknown_ids(values)
        if values is not None and zero_is_unknown:
            values = np.where(values == 0, MISSING, values)
        if values is not None and dtype == pa.int32():
            values = np.where(np.abs(values) > np.iinfo(np.int32).max, MISSING, values)
        return arrow(values, dtype, chosen.size)

    def _triples(self, first: Wide, chosen: Array) -> pa.Array:
        """Return a list column of three int32 where all are known and fit."""
        axes = [self.rows.wide(Wide(first + k), chosen) for k in range(3)]
        if any(axis is None for axis in axes):
            return null_array(pa.list_(pa.int32()), chosen.size)
        values = np.stack([a for a in axes if a is not None], axis=1)
        known = (np.abs(values) <= np.iinfo(np.int32).max).all(axis=1) & (values != MISSING).all(axis=1)
        offsets = np.zeros(chosen.size + 1, np.int32)
        np.cumsum(known * 3, out=offsets[1:])
        flat = values[known].astype(np.int32).ravel()
        return pa.ListArray.from_arrays(
            arrow(offsets, pa.int32(), offsets.size, missing=None),
            arrow(flat, pa.int32(), flat.size, missing=None),
            mask=arrow_mask(~known),
        )

    def ops(self) -> pa.Table:
        """Build `ops`."""
        rows = self.rows
        chosen, start, end = self._sorted("ops", self._chosen(Target.OPS))
        count = chosen.size
        kind = rows.kind[chosen]
        name = rows.name[chosen]
        engine, source_memory, target_memory = self._copies(chosen)
        process, thread = rows.threads(rows.thread[chosen])
        device = rows.wide(Wide.DEVICE, chosen)
        # Kineto draws device work under the device's number as process and the stream's as thread; what other
        # accelerators draw under is no stream.
        device = np.where(device == MISSING, process, device) if device is not None else process
        stream = rows.wide(Wide.STREAM, chosen)
        stream = np.full(count, MISSING) if stream is None else stream
        stream = np.where((stream == MISSING) & (kind != Class.DEVICE), thread, stream)
        kinds: list[str | None] = ["other"] * 256
        for known, word in _KINDS.items():
            kinds[known] = word
        columns = self._common(count) | {
            "process_id": arrow(np.full(count, self.host_process, np.int64), pa.int64(), count),
            "device_id": arrow(_fitting(unknown_ids(device)), pa.int32(), count),
            "context_id": self._number(Wide.CONTEXT, chosen, pa.int64(), is_id=True),
            "stream_id": arrow(unknown_ids(stream), pa.int64(), count),
            "engine": engine,
            "kind": dictionary(kind, kinds),
            "name": self._names(name),
            "queued_ns": self._queued(chosen, start),
            "correlation_id": arrow(unknown_ids(rows.correlation[chosen]), pa.int64(), count),
            "external_id": self._external(chosen),
            "bytes": self._number(Wide.BYTES, chosen, pa.int64()),
            "src_memory": source_memory,
            "dst_memory": target_memory,
            "priority": self._number(Wide.PRIORITY, chosen, pa.int32()),
            "channel_id": self._number(Wide.CHANNEL, chosen, pa.int64(), is_id=True),
            "channel_type": self._channel_types(chosen),
            "graph_id": self._number(Wide.GRAPH, chosen, pa.int64(), is_id=True, zero_is_unknown=True),
            "graph_node_id": self._number(
                Wide.GRAPH_NODE, chosen, pa.int64(), is_id=True, zero_is_unknown=True
            ),
            "grid": self._triples(Wide.GRID_X, chosen),
            "block": self._triples(Wide.BLOCK_X, chosen),
            "registers": self._number(Wide.REGISTERS, chosen, pa.int32()),
            "shared_bytes": self._number(Wide.SHARED, chosen, pa.int64()),
        }
        return table_from_columns("ops", columns | self._span(start, end), is_sorted=True)

    def _external(self, chosen: Array) -> pa.Array:
        values = self.rows.external[chosen]
        values[values == 0] = MISSING
        return arrow(unknown_ids(values), pa.int64(), chosen.size)

    def _copies(self, chosen: Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return engine, source and target memory, decided once per kind, name and copy kind."""
        rows = self.rows
        copy_kind = rows.wide(Wide.COPY_KIND, chosen)
        extra = (
            np.full(chosen.size, -1, np.int64)
            if copy_kind is None
            else np.where(copy_kind == MISSING, -1, copy_kind)
        )
        kind = rows.kind[chosen].astype(np.int64)
        is_copy = (kind == Class.MEMCPY) | (kind == Class.MEMSET)
        key = (
            np.where(is_copy, ((rows.name[chosen].astype(np.int64) + 1) << 36) | ((extra + 1) << 8), 0) | kind
        )
        found, codes = distinct(key)
        words: list[tuple[str | None, str | None, str | None]] = []
        for value in found.tolist():
            known = Class(value & 0xFF)
            name = rows.text((value >> 36) - 1)
            copy = rows.text(((value >> 8) & 0xFFFFFFF) - 1)
            if known == Class.KERNEL:
                words.append(("compute", None, None))
            elif known == Class.MEMSET:
                words.append(("memset", None, memories_of(name)[1]))
            elif known == Class.MEMCPY:
                words.append((engine_of(name, copy), *memories_of(name)))
            else:
                words.append((None, None, None))
        return tuple(dictionary(codes, [w[k] for w in words]) for k in range(3))

    def _queued(self, chosen: Array, start: Array) -> pa.Array:
        """Return queued stamps that lie within an hour before the start, read as ns or us; 0 is unknown."""
        values = self.rows.wide(Wide.QUEUED, chosen)
        if values is None:
            return null_array(pa.int64(), chosen.size)
        result = np.full(chosen.size, MISSING, np.int64)
        for factor in (1, 1000):
            near = np.abs(values) < (1 << 61) // factor
            stamp = np.where(near, values, 0) * factor - self.origin
            fits = near & (values > 0) & (stamp <= start) & (stamp > start - _HOUR_NS)
            result[fits] = stamp[fits]
        return arrow(result, pa.int64(), chosen.size)

    def _channel_types(self, chosen: Array) -> pa.Array:
        values = self.rows.wide(Wide.CHANNEL_TYPE, chosen)
        if values is None:
            return null_array(pa.dictionary(pa.int32(), pa.string()), chosen.size)
        codes = np.where((values > 0) & (values <= max(_CHANNEL_TYPES)), values, 0)
        return dictionary(codes, [None, *(_CHANNEL_TYPES[k] for k in sorted(_CHANNEL_TYPES))])

    def calls(self) -> pa.Table:
        """Build `api_calls`."""
        rows = self.rows
        chosen, start, end = self._sorted("api_calls", self._chosen(Target.CALLS))
        process, thread = self._hosts(chosen)
        key = ((rows.name[chosen].astype(np.int64) + 1) << 8) | rows.kind[chosen]
        found, codes = distinct(key)
        apis: list[str | None] = [
            api_of(rows.text((value >> 8) - 1), Class(value & 0xFF)) for value in found.tolist()
        ]
        columns = self._common(chosen.size) | {
            "process_id": arrow(process, pa.int64(), chosen.size),
            "thread_id": arrow(thread, pa.int64(), chosen.size),
            "api": dictionary(codes, apis),
            "name": self._names(rows.name[chosen]),
            "correlation_id": arrow(unknown_ids(rows.correlation[chosen]), pa.int64(), chosen.size),
            "external_id": self._external(chosen),
        }
        return table_from_columns("api_calls", columns | self._span(start, end), is_sorted=True)

    def _calls_by_correlation(self, wanted: Array) -> Array:
        """Return for each correlation id the source row of the first call that has it, -1 for none."""
        calls = self.sources["api_calls"]
        ids = self.rows.correlation[calls]
        mask = np.isin(ids, wanted[wanted != MISSING])
        calls, ids = calls[mask], ids[mask]
        order = np.argsort(ids, kind="stable")
        calls, ids = calls[order], ids[order]
        if not ids.size:
            return np.full(wanted.size, -1, np.int64)
        at = np.minimum(np.searchsorted(ids, wanted), ids.size - 1)
        return np.where(ids[at] == wanted, calls[at], -1)

    def syncs(self) -> pa.Table:
        """Build `syncs`; process and thread are those of the call with the same correlation id."""
        rows = self.rows
        chosen, start, end = self._sorted("syncs", self._chosen(Target.SYNCS))
        call = self._calls_by_correlation(rows.correlation[chosen])
        process, thread = self._hosts(np.maximum(call, 0))
        stated = rows.wide(Wide.SYNC_KIND, chosen)
        code = rows.name[chosen].astype(np.int64)
        if stated is not None:
            code = np.where(stated == MISSING, code, stated)
        words = [None if word is None else sync_kind_of(word) for word in words_by_code(rows, code)]
        code = np.where(code < 0, len(words), code)
        words.append("other")
        count = chosen.size
        columns = self._common(count) | {
            "sync_kind": dictionary(code, words),
            "process_id": arrow(np.where(call < 0, self.host_process, process), pa.int64(), count),
            "thread_id": arrow(np.where(call < 0, MISSING, thread), pa.int64(), count),
            "device_id": self._number(Wide.DEVICE, chosen, pa.int32(), is_id=True),
            "context_id": self._number(Wide.CONTEXT, chosen, pa.int64(), is_id=True),
            "stream_id": self._number(Wide.STREAM, chosen, pa.int64(), is_id=True),
            "waits_on_stream_id": self._number(Wide.WAITS_STREAM, chosen, pa.int64(), is_id=True),
            "waits_on_correlation_id": self._number(Wide.WAITS_CORRELATION, chosen, pa.int64(), is_id=True),
            "cuda_event_id": self._number(Wide.EVENT, chosen, pa.int64(), is_id=True),
            "cuda_event_sync_id": self._number(Wide.EVENT_SYNC, chosen, pa.int64(), is_id=True),
            "correlation_id": arrow(unknown_ids(rows.correlation[chosen]), pa.int64(), count),
        }
        return table_from_columns("syncs", columns | self._span(start, end), is_sorted=True)

    def event_records(self) -> pa.Table:
        """Build `event_records`: the file's own rows, and one derived row per recording call that waits name.

        A derived row takes stream, device, context and event from the wait (the first that names the call)
        and its moment from the call. It is no event of the file: the call is counted in `api_calls`. Where
        the file has a row of its own for the same correlation id, none is derived.
        """
        rows = self.rows
        own = self._chosen(Target.RECORDS)
        syncs = self.sources["syncs"]
        named = unknown_ids(rows.wide(Wide.WAITS_CORRELATION, syncs))
        waits = np.zeros(0, np.int64)
        records = np.zeros(0, np.int64)
        if named is not None:
            calls = self._calls_by_correlation(named)
            words = words_by_code(rows, rows.name[calls[calls >= 0]])
            recording = np.array(
                [c >= 0 and is_event_record(words[rows.name[c]] or "") for c in calls.tolist()], bool
            )
            recording &= ~np.isin(named, rows.correlation[own])
            _, firsts = np.unique(calls[recording], return_index=True)
            waits = syncs[np.flatnonzero(recording)[firsts]]
            records = calls[np.flatnonzero(recording)[firsts]]
        own_call = self._calls_by_correlation(rows.correlation[own])
        source = np.concatenate([own, waits])  # where device, context and event stand
        moment = np.concatenate([np.where(own_call >= 0, own_call, own), records])
        is_own = np.arange(source.size) < own.size
        order = np.argsort(rows.ts[moment], kind="stable")
        source, moment, is_own = source[order], moment[order], is_own[order]
        count = source.size
        has_call = (~is_own) | np.isin(source, own[own_call >= 0])
        process, thread = self._hosts(moment)
        stream = rows.wide(Wide.STREAM, source)
        waited = rows.wide(Wide.WAITS_STREAM, source)
        if waited is not None and stream is not None:
            stream = np.where(is_own, stream, waited)
        elif stream is not None:
            stream = np.where(is_own, stream, MISSING)
        self.sources["event_records"] = np.where(is_own, source, -1).astype(np.int32)
        self.derived["event_records"] = int(count - own.size)
        columns = self._common(count) | {
            "cuda_event_id": self._number(Wide.EVENT, source, pa.int64(), is_id=True),
            "cuda_event_sync_id": self._number(Wide.EVENT_SYNC, source, pa.int64(), is_id=True),
            "process_id": arrow(np.where(has_call, process, self.host_process), pa.int64(), count),
            "thread_id": arrow(np.where(has_call, thread, MISSING), pa.int64(), count),
            "device_id": self._number(Wide.DEVICE, source, pa.int32(), is_id=True),
            "context_id": self._number(Wide.CONTEXT, source, pa.int64(), is_id=True),
            "stream_id": arrow(unknown_ids(stream), pa.int64(), count),
            "correlation_id": arrow(
                unknown_ids(np.where(is_own, rows.correlation[source], rows.correlation[moment])),
                pa.int64(),
                count,
            ),
            "at_ns": arrow(rows.ts[moment] - self.origin, pa.int64(), count, missing=None),
        }
        return table_from_columns("event_records", columns, is_sorted=True)

    def ranges(self) -> pa.Table:
        """Build `ranges`; the columns of the rows are let go of as they are taken, so it comes last."""
        rows = self.rows
        chosen, start, end = self._sorted("ranges", self._chosen(Target.RANGES), longest_first=True)
        rows.drop("ts", "dur")
        count = chosen.size
        kind = rows.kind[chosen]
        lanes = rows.thread[chosen] * np.int32(len(_TRACKS) + 1)
        tracks: list[str | None] = ["other"] * 256
        for place, (known, word) in enumerate(_TRACKS.items(), 1):
            tracks[known] = word
            lanes[kind == known] += place
        levels = nesting_levels(lanes, len(rows.strings) * (len(_TRACKS) + 1), start, end)
        del lanes
        columns = self._common(count) | self._span(start, end)
        del start, end
        columns["nesting_level"] = arrow(levels, pa.int16(), count, missing=-1)
        columns["track"] = dictionary(kind, tracks)
        columns["name"] = self._names(rows.name[chosen])
        columns["external_id"] = self._external(chosen)
        columns["correlation_id"] = arrow(unknown_ids(rows.correlation[chosen]), pa.int64(), count)
        rows.drop("external", "correlation")
        is_other = (kind == Class.OTHER) | (kind == Class.PLAIN)
        if is_other.any():
            domain = np.where(is_other, rows.category[chosen], -1)
            columns["domain"] = dictionary(domain, words_by_code(rows, domain))
        columns |= self._places(chosen, np.flatnonzero(kind == Class.DEVICE_ANNOTATION))
        return table_from_columns("ranges", columns, is_sorted=True)

    def _places(self, chosen: Array, on_device: Array) -> dict[str, pa.Array]:
        """Return host and device ids of ranges.

        Kineto draws device annotations (at the positions `on_device`) under the device as process and the
        stream as thread.
        """
        process, thread = self._hosts(chosen)
        device, stream = (unknown_ids(self.rows.wide(c, chosen)) for c in (Wide.DEVICE, Wide.STREAM))
        if on_device.size:
            device = np.full(chosen.size, MISSING) if device is None else device
            stream = np.full(chosen.size, MISSING) if stream is None else stream
            for own, drawn in ((device, process), (stream, thread)):
                own[on_device] = np.where(own[on_device] == MISSING, drawn[on_device], own[on_device])
            process[on_device] = self.host_process
            thread[on_device] = MISSING
        return {
            "process_id": arrow(process, pa.int64(), chosen.size),
            "thread_id": arrow(thread, pa.int64(), chosen.size),
            "device_id": arrow(_fitting(device), pa.int32(), chosen.size),
            "stream_id": arrow(stream, pa.int64(), chosen.size),
        }

    def instants(self) -> pa.Table:
        """Build `instants`."""
        rows = self.rows
        chosen = self._chosen(Target.INSTANTS)
        chosen = chosen[np.argsort(rows.ts[chosen], kind="stable")]
        self.sources["instants"] = chosen.astype(np.int32)
        process, thread = self._hosts(chosen)
        letters: list[str | None] = [_SCOPES.get(k) for k in range(256)]
        columns = self._common(chosen.size) | {
            "process_id": arrow(process, pa.int64(), chosen.size),
            "thread_id": arrow(thread, pa.int64(), chosen.size),
            "track": dictionary(rows.category[chosen], words_by_code(rows, rows.category[chosen])),
            "name": self._names(rows.name[chosen]),
            "at_ns": arrow(rows.ts[chosen] - self.origin, pa.int64(), chosen.size, missing=None),
            "scope": dictionary(rows.dur[chosen] & 0xFF, letters),
        }
        return table_from_columns("instants", columns, is_sorted=True)

    def overheads(self) -> pa.Table:
        """Build `overheads`."""
        rows = self.rows
        chosen, start, end = self._sorted("overheads", self._chosen(Target.OVERHEADS))
        process, thread = self._hosts(chosen)
        name = rows.name[chosen]
        words = words_by_code(rows, name)
        causes = [None if word is None else of_recording(word) for word in words]
        columns = self._common(chosen.size) | {
            "process_id": arrow(process, pa.int64(), chosen.size),
            "thread_id": arrow(thread, pa.int64(), chosen.size),
            "kind": self._names(name),
            "of_recording": array_of(
                [causes[code] if code >= 0 else None for code in name.tolist()], pa.bool_()
            ),
        }
        return table_from_columns("overheads", columns | self._span(start, end), is_sorted=True)


def _fitting(values: Array | None) -> Array | None:
    """Return values with those that do not fit into 32 bits as MISSING."""
    if values is None:
        return None
    return np.where(np.abs(values) > np.iinfo(np.int32).max, MISSING, values)


def arrow_mask(mask: Array) -> pa.Array:
    """Return a bool array as an Arrow array."""
    return pa.Array.from_buffers(
        pa.bool_(), mask.size, [None, pa.py_buffer(np.packbits(mask, bitorder="little"))]
    )
