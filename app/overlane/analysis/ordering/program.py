"""Reads the actions of a trace's host (`overlane.analysis.ordering.actions`) out of its tables.

Rules and their sources, beside those of `overlane.analysis.dependencies`:

* Which copies hold the host follows "API synchronization behavior" of the CUDA Runtime API: to the host, a
  copy returns when it is done if it is synchronous or the memory is pageable; from pinned memory, if it is
  synchronous; a pageable copy to the device may return when its data are staged, and copies within the
  device return at once.
* A synchronization covers what the host had issued before it: of a stream, of all streams of a context and
  of the green contexts made from it, or of a device (CUDA Driver API, cuCtxSynchronize; CUDA Runtime API,
  cudaDeviceSynchronize). A query orders only when it is known to have succeeded.
* Launches of one executable graph follow one another (CUDA C++ Programming Guide, CUDA graphs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from overlane.analysis.calls import CALL_CLASSES
from overlane.analysis.dependencies import DEPENDENCY_KINDS, PROOF_TABLES, Dependencies
from overlane.analysis.graphs import graph_launches
from overlane.analysis.keys import NULL, Codes, Ids, Lookup, dense, identities, known, words
from overlane.analysis.ordering import actions as act
from overlane.analysis.ordering.actions import ActionParts, Program, StreamFacts
from overlane.analysis.streams import StreamRow, Streams, number_streams
from overlane.analysis.synchronizing import SYNC_KINDS, synchronizations
from overlane.trace import Trace

__all__ = ["program"]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_BLOCKING_KINDS = ("legacy_default", "per_thread_default", "blocking")
_QUERIES = {"event_query": "event", "stream_query": "stream"}
_SYNCS, _ALLOCATIONS = PROOF_TABLES.index("syncs"), PROOF_TABLES.index("allocations")
_PROGRAMMATIC_EDGE = DEPENDENCY_KINDS.index("programmatic")
_ACTIONS = {"event": act.SYNC_EVENT, "stream": act.SYNC_STREAM}


def program(trace: Trace, deps: Dependencies) -> Program:
    """Return what the host of a trace did, in order.

    A call's place is its start. An operation without a recorded call stands at its queued stamp, else at its
    own start, which makes its stream's order a guess.

    Args:
        trace: Any trace.
        deps: Its dependencies.
    """
    return _Builder(trace, deps).build()


class _Builder:
    """Holds what the actions of several tables share while they are read."""

    def __init__(self, trace: Trace, deps: Dependencies) -> None:
        self._trace, self._deps, self._calls = trace, deps, deps.calls
        self._streams: Streams = number_streams(trace)
        self._rows = list(deps.streams)
        self._parts = ActionParts()
        self._records = len(deps.records.at_ns)
        self._threads = list(deps.calls.threads)
        self._items = 0
        self._scopes: list[Codes] = []
        self._scope_numbers: dict[tuple[int | None, ...], int] = {}
        self._proofs: list[tuple[Ids, Ids]] = []
        self._proof_count = 0

    def build(self) -> Program:
        op_item = self._operations()
        allocation_item = self._allocations()
        self._event_records()
        self._stream_waits()
        self._host_waits()
        self._queries()
        access_item = self._host_accesses()
        sizes = [len(scope) for scope in self._scopes]
        table, row = ([*parts] for parts in zip(*self._proofs, strict=True)) if self._proofs else ([], [])
        none = np.zeros(0, np.int64)
        return Program(
            streams=self._stream_facts(), threads=self._threads, actions=self._parts.sorted(),
            proof_table=np.concatenate([none, *table]), proof_row=np.concatenate([none, *row]),
            record_count=self._records,
            scope_starts=np.cumsum([0, *sizes]).astype(np.int32),
            scope_streams=np.concatenate([np.zeros(0, np.int32), *self._scopes]), item_count=self._items,
            op_item=op_item, staged_item=self._staged, access_item=access_item,
            allocation_item=allocation_item, stream_rows=tuple(self._rows),
        )  # fmt: skip

    def _call_threads(self, call: Ids) -> Codes:
        if not len(self._calls.thread):
            return np.full(len(call), -1, np.int32)
        return np.where(call >= 0, self._calls.thread[call], -1).astype(np.int32)

    def _stream_facts(self) -> StreamFacts:
        rows = self._rows
        legacy = np.full(len(rows), -1, np.int32)
        of_context = {
            (r.rank, r.device_id, r.context_id): number
            for number, r in enumerate(rows)
            if r.stream_kind == "legacy_default"
        }
        for number, r in enumerate(rows):
            if r.stream_kind in _BLOCKING_KINDS:
                legacy[number] = of_context.get((r.rank, r.device_id, r.context_id), -1)
        is_guessed = np.zeros(len(rows), np.bool_)
        is_guessed[self._deps.stream_key[self._deps.issue.is_ordered_by_start]] = True
        is_guessed[self._likely_streams] = True
        return StreamFacts(legacy, is_guessed, np.array([r.stream_id is None for r in rows], np.bool_))

    def _proof(self, table: Any, rows: Ids) -> Ids:
        """Return the numbers of new proofs, one per row."""
        first, self._proof_count = self._proof_count, self._proof_count + len(rows)
        self._proofs.append((np.broadcast_to(np.asarray(table, np.int64), rows.shape), rows))
        return np.arange(first, first + len(rows))

    def _new_records(self, count: int) -> Ids:
        first, self._records = self._records, self._records + count
        return np.arange(first, first + count)

    def _operations(self) -> Codes:
        issue, stream = self._deps.issue, self._deps.stream_key
        launches = graph_launches(self._trace, issue, stream.astype(np.int64))
        head = launches.head
        self._likely_streams = stream[head[launches.is_likely]]
        item = np.empty(len(stream), np.int32)
        item[head] = np.arange(len(head))
        if issue.is_node.any():
            nodes, items = self._nodes(issue.call, head)
            item[nodes] = items
        self._items = len(head)
        flags = np.where(self._holds_host(), act.HOST_WAITS, 0)
        early = np.flatnonzero((self._deps.kind == _PROGRAMMATIC_EDGE) & (self._deps.source >= 0))
        # Only kernels can let others start before they end.
        early = early[_is(self._trace.table("ops")["kind"], "kernel")[self._deps.source[early]]]
        flags[self._deps.op[early]] |= act.PROGRAMMATIC
        order = np.argsort(issue.start_ns[head], kind="stable")  # settles ties of one call
        rows = head[order]
        at, thread = issue.order_ns[rows], self._call_threads(issue.call[rows])
        proof = np.full(len(rows), -1, np.int64)
        holds = np.flatnonzero(flags[rows] & act.HOST_WAITS)
        proof[holds] = self._proof(PROOF_TABLES.index("ops"), rows[holds])
        self._parts.add(act.ITEM, at, stream[rows], thread, order, flags=flags[rows], row=proof)
        again = np.flatnonzero(launches.before >= 0)
        self._edge(head[launches.before[again]], head[again])
        self._stage()
        return item

    def _stage(self) -> None:
        """Add what the host reads for copies from pageable memory to the device, when it makes the call."""
        ops, issue = self._trace.table("ops"), self._deps.issue
        is_staged = _is(ops["src_memory"], "pageable") & _is(ops["engine"], "copy_h2d") & (issue.call >= 0)
        rows = np.flatnonzero(is_staged)
        self._staged = np.full(len(issue.call), -1, np.int32)
        self._staged[rows] = self._items + np.arange(len(rows))
        self._items += len(rows)
        thread = self._call_threads(issue.call[rows])
        self._parts.add(act.HOST, issue.order_ns[rows], -1, thread, self._staged[rows], place=act.BEFORE)

    def _nodes(self, call: Ids, head: Ids) -> tuple[Ids, Ids]:
        """Return the nodes of graph launches, and the item of each: that of its launch."""
        nodes = np.flatnonzero(self._deps.issue.is_node)
        ops = self._trace.table("ops")
        correlation = known(ops["correlation_id"])
        (by_call, _), (by_id, ids), (graph, graphs) = (
            dense(call),
            dense(correlation),
            dense(known(ops["graph_id"])),
        )
        key = (by_call * len(ids) + by_id) * len(graphs) + graph
        # A node that names neither call nor correlation id is a launch of its own.
        alone = (call < 0) & (correlation == NULL)
        key = np.where(alone, int(key.max()) + 1 + np.arange(len(key)), key)
        units = np.flatnonzero(self._deps.issue.is_node[head])
        return nodes, units[Lookup(key[head[units]]).rows(key[nodes])]

    def _edge(self, source: Ids, target: Ids) -> None:
        """Let operations wait for what stands in the stream of others up to those, as by an event."""
        issue, stream = self._deps.issue, self._deps.stream_key
        records = self._new_records(len(source))
        for kind, rows, place in ((act.RECORD, source, act.AFTER), (act.WAIT, target, act.BEFORE)):
            thread = self._call_threads(issue.call[rows])
            self._parts.add(kind, issue.order_ns[rows], stream[rows], thread, records, place=place)

    def _holds_host(self) -> Flags:
        """Tell which copies hold the calling thread until they are done."""
        ops, call = self._trace.table("ops"), self._deps.issue.call
        if not len(self._calls.kind):
            return np.zeros(len(call), np.bool_)
        is_sync = self._calls.kind[call] == CALL_CLASSES.index("copy_sync")
        from_pinned = _is(ops["src_memory"], "pinned") & is_sync & ~_is(ops["dst_memory"], "pinned")
        to_host = _is(ops["dst_memory"], "pageable") | (_is(ops["dst_memory"], "pinned") & is_sync)
        return np.asarray((to_host | from_pinned) & (call >= 0), np.bool_)

    def _event_records(self) -> None:
        records = self._deps.records
        call = self._of_correlation(records.correlation, self._trace.table("event_records"))
        single = np.flatnonzero((records.stream >= 0) & (records.at_ns != NULL))
        thread = self._call_threads(call)
        self._parts.add(
            act.RECORD, records.at_ns[single], records.stream[single], thread[single], single, place=act.AFTER
        )
        table = self._trace.table("event_records")
        wide = np.flatnonzero(known(table["stream_id"]) == NULL)
        wide = wide[records.at_ns[wide] != NULL]
        self._per_stream(
            act.RECORD, records.at_ns[wide], self._context_scopes(table, wide), thread[wide], wide
        )

    def _of_correlation(self, correlation: Ids, table: pa.Table) -> Ids:
        """Return the call of each record: those of event records first, the others by the id alone."""
        call = np.full(len(correlation), -1, np.int64)
        call[: len(table)] = self._calls.of_rows(table)
        rest = np.arange(len(table), len(correlation))
        call[rest] = Lookup(self._calls.correlation).rows(correlation[rest])
        return call

    def _per_stream(  # noqa: PLR0917 - one row of actions
        self, kind: int, at: Ids, scope: Ids, thread: Codes, ref: Ids, row: Any = None, flags: Any = None
    ) -> None:
        """Add one action for each stream of each row's scope: context-wide records and waits."""
        for place, number in enumerate(scope.tolist()):
            members = self._scopes[number]
            self._parts.add(
                kind, np.broadcast_to(at[place], members.shape), members, thread[place], ref[place],
                row=-1 if row is None else row[place], flags=0 if flags is None else flags[place],
                place=act.AFTER if kind == act.RECORD else act.AT,
            )  # fmt: skip

    def _scope(self, rank: int | None, device: int | None, context: int | None) -> int:
        """Number the streams of a context and its green contexts, or of a device; unknown ids match all."""
        key = (rank, device, context)
        if key not in self._scope_numbers:
            root = self._streams.root_of
            members = [
                number
                for number, r in enumerate(self._rows)
                if r.rank == rank
                and (device is None or r.device_id in {device, None})
                and (context is None or context in {r.context_id, root(rank, r.device_id, r.context_id)})
            ]
            self._scope_numbers[key] = len(self._scopes)
            self._scopes.append(np.array(members, np.int32))
        return self._scope_numbers[key]

    def _context_scopes(self, table: pa.Table, rows: Ids) -> Ids:
        return self._scopes_of(table, rows, np.ones(len(rows), np.bool_))

    def _scopes_of(self, table: pa.Table, rows: Ids, is_context: Flags) -> Ids:
        columns = [known(table[name])[rows] for name in ("rank", "device_id", "context_id")]
        columns[2] = np.where(is_context, columns[2], NULL)
        keys = np.stack(columns, axis=1) if len(rows) else np.zeros((0, 3), np.int64)
        found, inverse = np.unique(keys, axis=0, return_inverse=True)
        numbers = [self._scope(*(None if v == NULL else v for v in key)) for key in found.tolist()]
        return np.array(numbers, np.int64)[inverse.ravel()] if len(rows) else np.zeros(0, np.int64)

    def _stream_waits(self) -> None:
        waits, syncs = self._deps.waits, self._trace.table("syncs")
        call = Lookup(self._calls.correlation).rows(waits.correlation)
        is_sync = waits.table == _SYNCS
        call[is_sync] = self._calls.of_rows(syncs)[waits.row[is_sync]]
        thread, proof = self._call_threads(call), np.full(len(call), -1, np.int64)
        proof[is_sync] = self._proof(_SYNCS, waits.row[is_sync])
        flags = np.where(waits.is_likely == 1, act.LIKELY, 0)
        single = np.flatnonzero(waits.stream >= 0)
        for rows, place in ((single[is_sync[single]], act.AT), (single[~is_sync[single]], act.BEFORE)):
            self._parts.add(
                act.WAIT, waits.at_ns[rows], waits.stream[rows], thread[rows], waits.record[rows],
                flags=flags[rows], row=proof[rows], place=place,
            )  # fmt: skip
        wide = np.flatnonzero(is_sync & (waits.stream < 0))
        wide = wide[known(syncs["stream_id"])[waits.row[wide]] == NULL]
        scope = self._context_scopes(syncs, waits.row[wide])
        self._per_stream(
            act.WAIT, waits.at_ns[wide], scope, thread[wide], waits.record[wide], proof[wide], flags[wide]
        )

    def _host_waits(self) -> None:
        """Add the synchronizations of the host; those without a row cover what their call tells."""
        found, syncs = synchronizations(self._trace, self._calls, self._streams), self._trace.table("syncs")
        at = np.where(found.call >= 0, _taken(self._calls.start_ns, found.call), found.start_ns)
        proof = self._proof(found.table, found.row)
        record, is_likely = self._waited_records(found, at)
        is_told = found.table == _SYNCS
        for place, word in enumerate(SYNC_KINDS):
            rows = np.flatnonzero((found.kind == place) & found.has_succeeded)
            thread = found.thread[rows]
            if word == "event":
                self._parts.add(
                    act.SYNC_EVENT, at[rows], -1, thread, record[rows], row=proof[rows],
                    flags=np.where(is_likely[rows], act.LIKELY, 0),
                )  # fmt: skip
            elif word == "stream":
                rows = rows[found.stream[rows] >= 0]
                self._parts.add(
                    act.SYNC_STREAM, at[rows], found.stream[rows], found.thread[rows], -1, row=proof[rows]
                )
            else:
                told = rows[is_told[rows]]
                is_context = np.full(len(told), word == "context")
                scope = self._scopes_of(syncs, found.row[told], is_context)
                self._parts.add(act.SYNC_SCOPE, at[told], -1, found.thread[told], scope, row=proof[told])
                bare = rows[~is_told[rows]]
                scope = self._rank_scopes(found.row[bare])
                # Which device or context was current is not recorded: it is the only one, or a guess.
                flags = act.LIKELY if len(self._trace.table("devices")) > 1 else 0
                self._parts.add(
                    act.SYNC_SCOPE, at[bare], -1, found.thread[bare], scope, row=proof[bare], flags=flags
                )

    def _rank_scopes(self, calls: Ids) -> Ids:
        rank = known(self._trace.table("api_calls")["rank"])[calls]
        numbers = {r: self._scope(None if r == NULL else r, None, None) for r in np.unique(rank).tolist()}
        return np.array([numbers[r] for r in rank.tolist()], np.int64)

    def _queries(self) -> None:
        table = self._trace.table("syncs")
        kind, kinds = words(table["sync_kind"])
        succeeded = known(table["result"]) == 0
        call = self._calls.of_rows(table)
        at = np.where(call >= 0, _taken(self._calls.start_ns, call), known(table["start_ns"]))
        thread, stream = self._call_threads(call), self._streams.of_rows(table)
        for word, waits_for in _QUERIES.items():
            if word not in kinds:
                continue
            rows = np.flatnonzero((kind == kinds.index(word)) & succeeded)
            record, is_likely = self._records_of(rows, at[rows])
            fits = (record if waits_for == "event" else stream[rows]) >= 0
            flags = np.where(is_likely, act.LIKELY, 0)
            self._parts.add(
                _ACTIONS[waits_for], at[rows][fits], stream[rows][fits], thread[rows][fits], record[fits],
                flags=flags[fits], row=self._proof(_SYNCS, rows)[fits],
            )  # fmt: skip

    def _waited_records(self, found: Any, at: Ids) -> tuple[Ids, Flags]:
        """Return the record each host wait for an event names, -1 for none; and whether it is guessed."""
        record, is_likely = np.full(len(at), -1, np.int64), np.zeros(len(at), np.bool_)
        rows = np.flatnonzero((found.table == _SYNCS) & (found.kind == SYNC_KINDS.index("event")))
        record[rows], is_likely[rows] = self._records_of(found.row[rows], at[rows])
        return record, is_likely

    def _records_of(self, rows: Ids, at: Ids) -> tuple[Ids, Flags]:
        """Return the record of some rows of `syncs`, and whether it was found by event id and host order."""
        syncs, table = self._trace.table("syncs"), self._trace.table("event_records")
        count = len(table)
        rank = np.concatenate([known(table["rank"]), known(syncs["rank"])[rows]])

        def keys(column: str) -> Ids:
            both = np.concatenate([known(table[column]), known(syncs[column])[rows]])
            codes, found = dense(both)
            return np.where(both == NULL, NULL, dense(rank)[0] * (len(found) + 1) + codes)

        by_id = keys("cuda_event_sync_id")
        record = Lookup(by_id[:count]).rows(by_id[count:])
        named = known(syncs["waits_on_correlation_id"])[rows]
        of_events = np.where(self._deps.records.table == _ALLOCATIONS, NULL, self._deps.records.correlation)
        record = np.where(record >= 0, record, Lookup(of_events).rows(named))
        events = keys("cuda_event_id")
        rest = np.flatnonzero(
            (record < 0) & (by_id[count:] == NULL) & (named == NULL) & (events[count:] != NULL)
        )
        guessed = np.zeros(len(rows), np.bool_)
        record[rest] = _latest(
            events[:count], self._deps.records.at_ns[:count], events[count:][rest], at[rest]
        )
        guessed[rest] = True
        return record, guessed

    def _allocations(self) -> Codes:
        """Add allocations and frees, in their stream or by the host."""
        table = self._trace.table("allocations")
        at, call = known(table["at_ns"]), self._calls.of_rows(table)
        stream, thread = self._allocation_streams(table), self._call_threads(call)
        item = (self._items + np.arange(len(table))).astype(np.int32)
        self._items += len(table)
        ordered, host = np.flatnonzero(stream >= 0), np.flatnonzero(stream < 0)
        self._parts.add(
            act.ITEM, at[ordered], stream[ordered], thread[ordered], item[ordered], flags=act.MARK
        )
        self._parts.add(act.HOST, at[host], -1, thread[host], item[host])
        # Freeing waits for the device: seen of cuMemFree, cuMemFreeHost and cuMemHostUnregister.
        host = host[known(table["freed"].cast(pa.uint8()))[host] == 1]
        scope = self._scopes_of(table, host, np.zeros(len(host), np.bool_))
        self._parts.add(act.SYNC_SCOPE, at[host], -1, thread[host], scope, flags=act.LIKELY, place=act.BEFORE)
        return item

    def _allocation_streams(self, table: pa.Table) -> Ids:
        """Return the stream of each row; those that no operation, record or wait names are numbered here."""
        stream = self._streams.of_rows(table)
        codes, keys = identities(table, ("rank", "device_id", "context_id", "stream_id"))
        lacking = (stream < 0) & (known(table["stream_id"]) != NULL)
        for code in np.unique(codes[lacking]).tolist():
            rank, device, context, stream_id = keys[code]
            stream[lacking & (codes == code)] = len(self._rows)
            self._rows.append(StreamRow(rank, device, context, stream_id, None, None, None, None, None))
        return stream

    def _host_accesses(self) -> Codes:
        table = self._trace.table("accesses")
        item = np.full(len(table), -1, np.int32)
        rows = np.flatnonzero(known(table["op_id"]) == NULL)
        item[rows] = self._items + np.arange(len(rows))
        self._items += len(rows)
        named = {key[2]: number for number, key in reversed([*enumerate(self._threads)])}
        ids, found = dense(known(table["thread_id"])[rows])
        for thread in found.tolist():
            if thread != NULL and thread not in named:
                named[thread] = len(self._threads)
                self._threads.append((None, None, thread))
        numbers = np.array([-1 if t == NULL else named[t] for t in found.tolist()] or [-1], np.int32)
        self._parts.add(act.HOST, known(table["at_ns"])[rows], -1, numbers[ids], item[rows])
        return item


def _taken(values: Ids, rows: Ids) -> Ids:
    return values[rows] if len(values) else np.zeros(len(rows), np.int64)


def _is(column: pa.ChunkedArray, word: str) -> Flags:
    codes, found = words(column)
    return np.asarray(codes == found.index(word)) if word in found else np.zeros(len(codes), np.bool_)


def _latest(of: Ids, of_at: Ids, asked: Ids, asked_at: Ids) -> Ids:
    """Return the last row with the asked key that was made before the asked time, -1 for none."""
    usable = np.flatnonzero((of != NULL) & (of_at != NULL))
    order = usable[np.lexsort((of_at[usable], of[usable]))]
    found = np.full(len(asked), -1, np.int64)
    for place, (key, at) in enumerate(zip(asked.tolist(), asked_at.tolist(), strict=True)):
        low = np.searchsorted(of[order], key, "left")
        high = np.searchsorted(of[order], key, "right")
        last = low + np.searchsorted(of_at[order[low:high]], at, "left") - 1
        if last >= low:
            found[place] = order[last]
    return found
