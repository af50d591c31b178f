"""The whole way from a journal's frames to header and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from overlane_collect.activities import Kind
from overlane_collect.decoding import counters, declared, graphs, host, inferred, places, ranges
from overlane_collect.decoding.columns import Column, Draft, constant, draft_table, stack, texts
from overlane_collect.decoding.frames import Gathered, gather
from overlane_collect.decoding.header import build_header
from overlane_collect.decoding.lookup import Lookup
from overlane_collect.decoding.ops import operations
from overlane_collect.journal import JournalReader
from overlane_collect.model import ClockDomain, Header

__all__ = ["Decoded", "decode_journal"]

_OWN_EXTERNAL = 3  # CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0: numbers of our own workloads come first
_JOINED = ("external_id", "correlation_id", "start_ns", "end_ns")
_WITHOUT_RANK = {"accesses", "blocks"}
_WITHOUT_PROCESS = {"accesses", "blocks", "streams", "partitions", "devices", "graph_edges"}


@dataclass(frozen=True)
class Decoded:
    """A trace ready to be written.

    Attributes:
        header: Provenance.
        tables: Tables of the contract.
        damage: What was wrong with the journal, or None.
    """

    header: Header
    tables: Mapping[str, pa.Table]
    damage: str | None


def decode_journal(reader: JournalReader) -> Decoded:
    """Return the trace of a journal; of a cut or damaged one what stands before the damage.

    Args:
        reader: The journal.
    """
    gathered = gather(reader)
    drafts, dropped = _drafts(gathered)
    origin = _origin(drafts)
    tables, lost, clocks = _finish(gathered, drafts, origin)
    gathered.facts["lost_accesses"] = [{"count": lost}]
    header = build_header(
        gathered, tables, origin_ns=origin, dropped=dropped, clocks=clocks, damage=reader.damage
    )
    return Decoded(header, tables, reader.damage)


def _drafts(gathered: Gathered) -> tuple[dict[str, Draft], dict[str, int]]:
    """Return the drafts of all tables that need no row ids of others, and the counts of dropped records."""
    ops, dropped = operations(gathered)
    calls, bad_calls = host.calls(gathered)
    call = host.Calls(calls)
    seen = _contexts_seen(ops)
    contexts = places.Contexts(gathered, seen)
    events = host.event_records(gathered, call, contexts.device_of)
    syncs, bad_syncs = host.synchronizations(gathered, call, events, contexts.device_of)
    overheads, bad_overheads = host.overheads(gathered)
    dropped["call_stamps"] = bad_calls
    dropped["sync_stamps"] = bad_syncs
    dropped["overhead_stamps"] = bad_overheads
    allocations, dropped["allocation_stamps"] = host.allocations(gathered)
    streams = places.streams(
        gathered, contexts, (ops, events, syncs), lambda correlation: call.get("name", correlation)
    )
    partitions, channels = places.partitions(gathered, contexts, places.channels_by_context(ops))
    if ops:
        ops["partition_id"] = places.rows_of(ops["context_id"].values, contexts.row_of)
        ops["external_id"] = _external(gathered, ops["correlation_id"])
        _set_priority(ops, streams)
    if partitions:
        partitions["channel_ids"] = Column(np.zeros((len(channels), 0), np.int64))
    drafts = {
        "ops": ops,
        "api_calls": calls,
        "syncs": syncs,
        "event_records": events,
        "streams": streams,
        "partitions": partitions,
        "devices": places.devices(gathered, sorted(set(contexts.device_of.values()))),
        "ranges": ranges.ranges(gathered),
        "instants": ranges.instants(gathered),
        "allocations": allocations,
        "overheads": overheads,
        "counters": counters.counters(gathered, contexts.device_of),
        "graph_edges": graphs.edges(gathered, ops),
    }
    drafts["threads"] = _threads(gathered, drafts)
    gathered.facts["channels"] = [{"channels": channels}]
    return {name: draft for name, draft in drafts.items() if draft}, dropped


def _contexts_seen(ops: Draft) -> list[tuple[int, int]]:
    if not ops:
        return []
    pairs = np.unique(np.stack([ops["context_id"].values, ops["device_id"].values], axis=1), axis=0)
    return [(int(context), int(device)) for context, device in pairs]


def _external(gathered: Gathered, correlation: Column) -> Column:
    """Return the number that a program pushed for each operation's call, our own numbers first."""
    records = gathered.records(Kind.EXTERNAL_CORRELATION)
    if not len(records):
        return constant(None, len(correlation.values))
    order = np.argsort(records["external_kind"] != _OWN_EXTERNAL, kind="stable")
    records = records[order]
    rows = np.where(correlation.known(), Lookup(records["correlation_id"]).rows(correlation.values), -1)
    return Column(records["external_id"].astype(np.int64)[np.maximum(rows, 0)], rows < 0)


def _set_priority(ops: Draft, streams: Draft) -> None:
    """Give operations their stream's priority; their own records tell it only on request."""
    if not streams:
        return
    key = streams["context_id"].values << 32 | streams["stream_id"].values
    known = streams["priority"].known()
    rows = Lookup(key, known).rows(ops["context_id"].values << 32 | ops["stream_id"].values)
    ops["priority"] = Column(streams["priority"].values[np.maximum(rows, 0)], rows < 0)


def _threads(gathered: Gathered, drafts: Mapping[str, Draft]) -> Draft:
    """Return the draft of `threads`: all that calls, ranges or overheads name."""
    found: set[tuple[int, int]] = set()
    for name in ("api_calls", "ranges", "overheads"):
        draft = drafts.get(name)
        if draft:
            both = draft["process_id"].known() & draft["thread_id"].known()
            pairs = np.stack([draft["process_id"].values[both], draft["thread_id"].values[both]], axis=1)
            found |= {(int(p), int(t)) for p, t in np.unique(pairs, axis=0)}
    names: dict[int, str] = {}
    for fact in gathered.facts.get("threads", []):
        names |= {int(thread): name for thread, name in fact["names"].items()}
    order = sorted(found)
    if not order:
        return {}
    return {
        "process_id": Column(np.asarray([p for p, _ in order], np.int64)),
        "thread_id": Column(np.asarray([t for _, t in order], np.int64)),
        "process_name": texts([gathered.fact("run").get("process_name")] * len(order)),
        "name": texts([names.get(thread) for _, thread in order]),
    }


def _origin(drafts: Mapping[str, Draft]) -> int:
    """Return the earliest stamp of all tables, on the recorder's clock."""
    lowest = [
        int(draft[name].values[draft[name].known()].min())
        for draft in drafts.values()
        for name in ("start_ns", "at_ns")
        if name in draft and draft[name].known().any()
    ]
    return min(lowest, default=0)


def _finish(
    gathered: Gathered, drafts: dict[str, Draft], origin: int
) -> tuple[dict[str, pa.Table], int, tuple[ClockDomain, ...]]:
    """Return the tables in canonical order; those that refer to operations are made last."""
    run = gathered.fact("run")
    tables: dict[str, pa.Table] = {}
    order: dict[str, np.ndarray] = {}
    ops = dict(drafts.get("ops") or {name: Column(np.zeros(0, np.int64)) for name in _JOINED})
    ops = {name: ops[name] for name in _JOINED}
    allocations = dict(drafts.get("allocations", {}))
    for name in list(drafts):
        draft = drafts.pop(
            name
        )  # a million operations take a lot of memory: each draft goes as its table comes
        _identify(name, draft, run)
        tables[name], order[name] = draft_table(name, draft, origin)
    if "partitions" in tables:
        tables["partitions"] = _with_channels(tables["partitions"], gathered, order["partitions"])
    if "ops" in order:
        ops = {name: column.take(order["ops"]) for name, column in ops.items()}
    accesses, lost = declared.accesses(gathered, ops["external_id"])
    guessed, unplaced = inferred.inferred(gathered, ops["correlation_id"], allocations)
    parts = [part for part in (accesses, guessed) if part]
    if parts:
        accesses = stack(parts, [len(part["address"].values) for part in parts])
    gathered.facts["unplaced_arguments"] = [{"count": unplaced}]
    blocks, clock = declared.blocks(gathered, ops["external_id"], ops["start_ns"], ops["end_ns"])
    for name, draft in (("accesses", accesses), ("blocks", blocks)):
        if draft:
            tables[name], _ = draft_table(name, draft, origin)
    return tables, lost, () if clock is None else (clock,)


def _identify(name: str, draft: Draft, run: Mapping[str, object]) -> None:
    """Add rank and process to a table that has them, where its records do not."""
    rows = len(next(iter(draft.values())).values)
    if name not in _WITHOUT_RANK:
        draft.setdefault("rank", constant(run.get("rank"), rows))  # type: ignore[arg-type]
    if name not in _WITHOUT_PROCESS:
        process = constant(run.get("process_id"), rows)  # type: ignore[arg-type]
        draft.setdefault("process_id", process)
        if not draft["process_id"].known().any():
            draft["process_id"] = process


def _with_channels(table: pa.Table, gathered: Gathered, order: np.ndarray) -> pa.Table:
    channels = gathered.facts["channels"][0]["channels"]
    place = table.schema.get_field_index("channel_ids")
    values = pa.array([channels[row] for row in order], table.schema.field(place).type)
    return table.set_column(place, table.schema.field(place), values)
