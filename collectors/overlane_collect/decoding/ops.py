"""Device operations: kernels, copies and memsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.activities import Kind
from overlane_collect.decoding.columns import Column, Draft, constant, ids, integers, labels, stack, texts
from overlane_collect.decoding.frames import Gathered
from overlane_collect.decoding.names import demangled

__all__ = ["Stamped", "keep_stamped", "operations"]

MEMORY_KINDS = {
    1: "pageable",
    2: "pinned",
    3: "device",
    4: "array",
    5: "managed",
    6: "device",  # static device memory
    7: "managed",  # static managed memory
}
_MEMORY_WORDS = {1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device", 7: "Managed"}
_COPY_ENGINES = {
    1: "copy_h2d",
    2: "copy_d2h",
    3: "copy_h2d",
    4: "copy_d2h",
    5: "copy_d2d",
    6: "copy_d2d",
    7: "copy_d2d",
    8: "copy_d2d",
    10: "copy_p2p",
}
_COPY_WORDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_CHANNEL_TYPES = {1: "compute", 2: "asynchronous copy"}
_LAUNCH_TYPES = {0: "regular", 1: "cooperative", 2: "cooperative"}


@dataclass(frozen=True)
class Stamped:
    """Records whose stamps can be used, and how many could not.

    Attributes:
        records: The usable ones.
        zero: Records without a start, lost by a device buffer that ran out.
        backwards: Records that end before they start.
    """

    records: npt.NDArray[Any]
    zero: int
    backwards: int


def keep_stamped(records: npt.NDArray[Any]) -> Stamped:
    """Take out records with impossible stamps; an end of 0 means that it had not finished."""
    if not len(records):
        return Stamped(records, 0, 0)
    zero = records["start"] == 0
    backwards = ~zero & (records["end"] != 0) & (records["end"] < records["start"])
    bad = zero | backwards
    return Stamped(records[~bad] if bad.any() else records, int(zero.sum()), int(backwards.sum()))


def operations(gathered: Gathered) -> tuple[Draft, dict[str, int]]:
    """Return the draft of `ops`, and how many records were left out by reason."""
    makers = {
        Kind.CONCURRENT_KERNEL: _kernels,
        Kind.MEMCPY: _copies,
        Kind.MEMCPY2: _copies,
        Kind.MEMSET: _memsets,
        Kind.GRAPH_TRACE: _graphs,
    }
    drafts, rows = [], []
    dropped = {"zero_stamps": 0, "reversed_stamps": 0}
    for kind, maker in makers.items():
        stamped = keep_stamped(gathered.records(kind))
        dropped["zero_stamps"] += stamped.zero
        dropped["reversed_stamps"] += stamped.backwards
        if len(stamped.records):
            drafts.append({**_shared(stamped.records), **maker(stamped.records, gathered.texts)})
            rows.append(len(stamped.records))
        del stamped
        gathered.forget(kind)
    return (stack(drafts, rows) if drafts else {}), dropped


def _shared(records: npt.NDArray[Any]) -> Draft:
    """Return the columns that all operations have."""
    channel = ids(records, "channel_id")
    kinds = ids(records, "channel_type", zero_is_null=True)
    known = channel.known() & kinds.known()
    return {
        "device_id": ids(records, "device_id"),
        "context_id": ids(records, "context_id"),
        "stream_id": ids(records, "stream_id"),
        "start_ns": integers(records["start"]),
        "end_ns": integers(records["end"], null=records["end"] == 0),
        "correlation_id": ids(records, "correlation_id", zero_is_null=True),
        "channel_id": Column(channel.values, ~known),
        "channel_type": labels(np.where(known, kinds.values, 0), _CHANNEL_TYPES),
        "graph_id": ids(records, "graph_id", zero_is_null=True),
        "graph_node_id": ids(records, "graph_node_id", zero_is_null=True),
    }


def _kernels(records: npt.NDArray[Any], all_texts: list[str]) -> Draft:
    rows = len(records)
    numbers, inverse = np.unique(records["name"], return_inverse=True)
    raw = [all_texts[number] or "(unnamed kernel)" for number in numbers.tolist()]
    readable = [demangled(name) for name in raw]
    names = texts(readable)
    raws = texts([r if r != d else None for r, d in zip(raw, readable, strict=True)])
    cluster = records["cluster"].astype(np.int64)
    return {
        "engine": constant("compute", rows),
        "kind": constant("kernel", rows),
        "name": names.take(inverse),
        "raw_name": raws.take(inverse),
        "queued_ns": _launch_stamp(records, "queued"),
        "submitted_ns": _launch_stamp(records, "submitted"),
        "grid": Column(records["grid"].astype(np.int64)),
        "block": Column(records["block"].astype(np.int64)),
        "cluster": Column(cluster, cluster.max(axis=1) <= 1),
        "registers": integers(records["registers"]),
        "shared_bytes": integers(
            records["static_shared"].astype(np.int64) + records["dynamic_shared"].astype(np.int64)
        ),
        "launch_type": labels(records["launch_type"], _LAUNCH_TYPES),
    }


def _launch_stamp(records: npt.NDArray[Any], name: str) -> Column:
    """Return a stamp of the launch; nodes of graphs carry that of an earlier, unrelated launch instead."""
    stamp = ids(records, name, zero_is_null=True)
    return Column(stamp.values, ~stamp.known() | (records["graph_node_id"] != 0))


def _copies(records: npt.NDArray[Any], _texts: list[str]) -> Draft:
    code = (
        (records["copy_kind"].astype(np.int64) << 16)
        | (records["src_kind"].astype(np.int64) << 8)
        | records["dst_kind"]
    )
    found, inverse = np.unique(code, return_inverse=True)
    names = texts([_copy_name(value >> 16, (value >> 8) & 0xFF, value & 0xFF) for value in found.tolist()])
    return {
        "engine": labels(records["copy_kind"], _COPY_ENGINES),
        "kind": constant("memcpy", len(records)),
        "name": names.take(inverse),
        "bytes": integers(records["bytes"]),
        "src_memory": labels(records["src_kind"], MEMORY_KINDS),
        "dst_memory": labels(records["dst_kind"], MEMORY_KINDS),
    }


def _copy_name(kind: int, source: int, target: int) -> str:
    """Return the name that PyTorch's profiler gives too, so that traces of both can be compared."""
    return (
        f"Memcpy {_COPY_WORDS.get(kind, 'unknown')} "
        f"({_MEMORY_WORDS.get(source, 'Unknown')} -> {_MEMORY_WORDS.get(target, 'Unknown')})"
    )


def _graphs(records: npt.NDArray[Any], _texts: list[str]) -> Draft:
    return {"kind": constant("graph", len(records)), "name": constant("graph", len(records))}


def _memsets(records: npt.NDArray[Any], _texts: list[str]) -> Draft:
    memory = labels(records["memory_kind"], _MEMORY_WORDS)
    words = [f"Memset ({word})" for word in memory.words or ()]
    unknown = len(words)
    return {
        "engine": constant("memset", len(records)),
        "kind": constant("memset", len(records)),
        "name": Column(
            np.where(memory.values < 0, unknown, memory.values), None, [*words, "Memset (Unknown)"]
        ),
        "bytes": integers(records["bytes"]),
        "dst_memory": labels(records["memory_kind"], MEMORY_KINDS),
    }
