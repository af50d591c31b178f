"""Annotated ranges, marks, and host functions that ran for a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.activities import Kind
from overlane_collect.annotate import NVTX_DOMAIN
from overlane_collect.decoding.columns import Column, Draft, constant, ids, integers, stack, texts
from overlane_collect.decoding.frames import Gathered

__all__ = ["instants", "ranges"]

_INSTANTANEOUS, _START, _END = 1, 2, 4  # CUPTI_ACTIVITY_FLAG_MARKER_*
_OBJECT_THREAD = 2
_HOST_FUNCTION = "host function"


def ranges(gathered: Gathered) -> Draft:
    """Return the draft of `ranges`: the recorder's own annotations, NVTX ranges, host functions."""
    parts = [_annotated(gathered), _nvtx(gathered), *_host_functions(gathered)]
    parts = [part for part in parts if part]
    if not parts:
        return {}
    draft = stack(parts, [len(part["start_ns"].values) for part in parts])
    draft["nesting_level"] = _nesting(draft)
    return draft


def _annotated(gathered: Gathered) -> Draft:
    facts = gathered.facts.get("ranges", [])
    names: list[str] = [name for fact in facts for name in fact["name"]]
    if not names:
        return {}
    ends = [end for fact in facts for end in fact["end"]]
    return {
        "process_id": Column(np.asarray([f["process_id"] for f in facts for _ in f["name"]], np.int64)),
        "thread_id": Column(np.asarray([t for f in facts for t in f["thread_id"]], np.int64)),
        "track": constant("annotation", len(names)),
        "name": texts(names),
        "start_ns": Column(np.asarray([s for f in facts for s in f["start"]], np.int64)),
        "end_ns": Column(
            np.asarray([end or 0 for end in ends], np.int64),
            np.asarray([end is None for end in ends], np.bool_),
        ),
    }


def _nvtx(gathered: Gathered) -> Draft:
    """Join the start and end marks of NVTX ranges by their id; an end without a start is left out."""
    records = _foreign(gathered)
    if not len(records):
        return {}
    starts = records[(records["flags"] & _START) != 0]
    ends = records[(records["flags"] & _END) != 0]
    if not len(starts):
        return {}
    order = np.argsort(ends["id"], kind="stable")
    place = np.searchsorted(ends["id"][order], starts["id"])
    found = np.zeros(len(starts), np.bool_)
    finish = np.zeros(len(starts), np.int64)
    inside = place < len(ends)
    candidates = order[place[inside]]
    match = ends["id"][candidates] == starts["id"][inside]
    found[np.flatnonzero(inside)[match]] = True
    finish[np.flatnonzero(inside)[match]] = ends["timestamp"][candidates[match]].astype(np.int64)
    thread = starts["object_kind"] == _OBJECT_THREAD
    return {
        "process_id": integers(starts["object"][:, 0], null=~thread),
        "thread_id": integers(starts["object"][:, 1], null=~thread),
        "track": constant("annotation", len(starts)),
        "name": texts([gathered.texts[n] or "(unnamed)" for n in starts["name"].tolist()]),
        "domain": texts([gathered.texts[n] or None for n in starts["domain"].tolist()]),
        "start_ns": integers(starts["timestamp"]),
        "end_ns": Column(finish, ~found),
    }


def _foreign(gathered: Gathered) -> npt.NDArray[Any]:
    """Return the marks that are not our own mirrored annotations."""
    records = gathered.records(Kind.MARKER)
    if not len(records) or NVTX_DOMAIN not in gathered.texts:
        return records
    own = gathered.texts.index(NVTX_DOMAIN)
    ours = records["id"][records["domain"] == own]
    return records[~np.isin(records["id"], ours)]


def instants(gathered: Gathered) -> Draft:
    """Return the draft of `instants`: NVTX marks."""
    records = _foreign(gathered)
    records = records[(records["flags"] & _INSTANTANEOUS) != 0] if len(records) else records
    if not len(records):
        return {}
    thread = records["object_kind"] == _OBJECT_THREAD
    return {
        "process_id": integers(records["object"][:, 0], null=~thread),
        "thread_id": integers(records["object"][:, 1], null=~thread),
        "track": texts([gathered.texts[n] or None for n in records["domain"].tolist()]),
        "name": texts([gathered.texts[n] or "(unnamed)" for n in records["name"].tolist()]),
        "at_ns": integers(records["timestamp"]),
        "scope": constant("thread", len(records)),
    }


def _host_functions(gathered: Gathered) -> list[Draft]:
    parts = []
    for kind in (Kind.HOST_LAUNCH, Kind.GRAPH_HOST_NODE):
        records = gathered.records(kind)
        records = (
            records[(records["start"] != 0) & (records["end"] >= records["start"])]
            if len(records)
            else records
        )
        if len(records):
            parts.append(
                {
                    "process_id": integers(records["process_id"]),
                    "thread_id": integers(records["thread_id"]),
                    "track": constant("other", len(records)),
                    "device_id": ids(records, "device_id"),
                    "stream_id": ids(records, "stream_id"),
                    "name": constant(_HOST_FUNCTION, len(records)),
                    "start_ns": integers(records["start"]),
                    "end_ns": integers(records["end"]),
                    "correlation_id": ids(records, "correlation_id", zero_is_null=True),
                }
            )
    return parts


def _nesting(draft: Draft) -> Column:
    """Return how deep each range lies in its track; null where it crosses another or is not finished."""
    start, end = draft["start_ns"].values, draft["end_ns"].values
    finished = draft["end_ns"].known()
    thread = draft["thread_id"]
    track = np.stack([draft["track"].values, np.where(thread.known(), thread.values, -1)], axis=1)
    _, group = np.unique(track, axis=0, return_inverse=True)
    level = np.zeros(len(start), np.int64)
    null = ~finished
    order = np.lexsort((-end, start, group.reshape(-1)))
    stack_of_ends: list[int] = []
    current = -1
    for row in order.tolist():
        if group.reshape(-1)[row] != current:
            current, stack_of_ends = group.reshape(-1)[row], []
        if null[row]:
            continue
        while stack_of_ends and stack_of_ends[-1] <= start[row]:
            stack_of_ends.pop()
        if stack_of_ends and end[row] > stack_of_ends[-1]:
            null[row] = True
            continue
        level[row] = len(stack_of_ends)
        stack_of_ends.append(int(end[row]))
    return Column(level, null)
