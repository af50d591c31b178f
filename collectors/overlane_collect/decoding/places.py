"""Where work ran: devices, contexts as partitions, streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.activities import UNSET, Kind
from overlane_collect.decoding.columns import Column, Draft, ids, texts
from overlane_collect.decoding.frames import Gathered

__all__ = ["Contexts", "channels_by_context", "devices", "partitions", "rows_of", "streams"]

_STREAM_FLAGS = {1: "blocking", 2: "nonblocking", 3: "legacy_default"}
_SCOPES = {0: "device", 1: "green_context_balanced"}
_FIRST_USE = re.compile(
    r"cu(da)?(Launch|Memcpy|Memset|Event|StreamWait|StreamSync|StreamQuery|Malloc|MemAlloc)"
)
_OBJECT_STREAM = 5
_NO_STREAM_16 = 0xFFFF  # the null stream's id has 16 bits in the context record


class Contexts:
    """Contexts of one recording, by id.

    Args:
        gathered: The journal.
        seen: (context, device) pairs of operations, so that contexts older than the recording have a row too.
    """

    def __init__(self, gathered: Gathered, seen: Iterable[tuple[int, int]]) -> None:
        self.records: dict[int, Any] = {
            int(record["context_id"]): record for record in gathered.records(Kind.CONTEXT)
        }
        self.green: dict[int, Any] = {
            int(record["context_id"]): record for record in gathered.records(Kind.GREEN_CONTEXT)
        }
        self.device_of = {context: int(record["device_id"]) for context, record in self.records.items()}
        self.device_of |= {context: int(record["device_id"]) for context, record in self.green.items()}
        for context, device in seen:
            self.device_of.setdefault(context, device)
        order = sorted(self.device_of, key=lambda context: (self.device_of[context], context))
        self.row_of = {context: row for row, context in enumerate(order)}

    def is_green(self, context: int) -> bool | None:
        """Tell whether a context is a green one, None when its record is missing."""
        if context in self.green:
            return True
        record = self.records.get(context)
        return None if record is None else bool(record["is_green_context"])

    def parent_of(self, context: int) -> int | None:
        """Return the context that a green one was made from, None for others."""
        return _parent(self.records.get(context), self.green.get(context))

    def null_stream(self, context: int) -> int | None:
        """Return the id of the context's legacy default stream, None when unknown."""
        record = self.records.get(context)
        return (
            None
            if record is None or record["null_stream_id"] == _NO_STREAM_16
            else int(record["null_stream_id"])
        )


def _optional(values: list[int | None]) -> Column:
    null = np.asarray([value is None for value in values], np.bool_)
    return Column(np.asarray([value or 0 for value in values], np.int64), null)


def partitions(
    gathered: Gathered, contexts: Contexts, channels: dict[int, list[int]]
) -> tuple[Draft, list[list[int] | None]]:
    """Return the draft of `partitions`, one row per context, and the channels of each row.

    Args:
        gathered: The journal.
        contexts: All contexts.
        channels: Context to the channels that carried its work.
    """
    asked = {int(f["context_id"]): f for f in gathered.facts.get("partition", [])}
    sm_counts = {int(r["device_id"]): int(r["sm_count"]) for r in gathered.records(Kind.DEVICE)}
    order = sorted(contexts.row_of, key=contexts.row_of.__getitem__)
    rows: dict[str, list[Any]] = {
        name: []
        for name in ("parent", "name", "requested", "granted", "mask", "queue", "scope", "limit", "channels")
    }
    for context in order:
        record, green = contexts.records.get(context), contexts.green.get(context)
        rows["parent"].append(_parent(record, green))
        rows["name"].append(asked.get(context, {}).get("name"))
        rows["requested"].append(asked.get(context, {}).get("sm_requested"))
        rows["granted"].append(_granted(contexts, context, sm_counts))
        rows["mask"].append(None if green is None else _mask(green))
        queue = _known(green, "workqueue_resource_id")
        rows["queue"].append(queue)
        rows["scope"].append(None if queue is None else _SCOPES.get(_known(green, "workqueue_scope") or 0))
        rows["limit"].append(None if queue is None else _known(green, "workqueue_limit"))
        rows["channels"].append(channels.get(context) or None)
    draft = {
        "device_id": _optional([contexts.device_of[c] for c in order]),
        "context_id": _optional(list(order)),
        "parent_context_id": _optional(rows["parent"]),
        "name": texts(rows["name"]),
        "sm_requested": _optional(rows["requested"]),
        "sm_granted": _optional(rows["granted"]),
        "tpc_mask": texts(rows["mask"]),
        "workqueue_resource_id": _optional(rows["queue"]),
        "workqueue_scope": texts(rows["scope"]),
        "workqueue_limit": _optional(rows["limit"]),
    }
    return (draft if order else {}), rows["channels"]


def _granted(contexts: Contexts, context: int, sm_counts: dict[int, int]) -> int | None:
    """Return the SMs of a green context, or of the device when it is known not to be one."""
    if contexts.is_green(context) is None:
        return None
    if not contexts.is_green(context):
        return sm_counts.get(contexts.device_of[context])
    green = contexts.green.get(context)
    return int((contexts.records[context] if green is None else green)["sm_count"]) or None


def _parent(record: Any, green: Any) -> int | None:
    if green is not None:
        return int(green["parent_context_id"])
    if record is not None and record["is_green_context"]:
        return int(record["parent_context_id"])
    return None


def _known(record: Any, name: str) -> int | None:
    """Return a field of a green context; None when it is too new for the library, unset or 0."""
    if record is None or name not in record.dtype.names:
        return None
    value = int(record[name])
    return None if value in (0, UNSET) else value


def _mask(green: Any) -> str | None:
    words = int(green["tpc_mask_words"])
    value = sum(int(word) << (32 * place) for place, word in enumerate(green["tpc_mask"][:words]))
    return f"{value:x}" if value else None


def devices(gathered: Gathered, seen: Iterable[int]) -> Draft:
    """Return the draft of `devices`: those that work ran on, or all visible ones without any work.

    Args:
        gathered: The journal.
        seen: Devices that operations and contexts name.
    """
    records = {int(record["device_id"]): record for record in gathered.records(Kind.DEVICE)}
    order = sorted(set(seen) or set(records))
    if not order:
        return {}
    found = [records.get(device) for device in order]

    def column(name: str) -> Column:
        return _optional([None if record is None else int(record[name]) for record in found])

    return {
        "device_id": _optional(list(order)),
        "name": texts([None if r is None else gathered.texts[int(r["name"])] or None for r in found]),
        "sm_count": column("sm_count"),
        "copy_engine_count": column("copy_engine_count"),
        "compute_capability": texts(
            [None if r is None else f"{r['capability_major']}.{r['capability_minor']}" for r in found]
        ),
        "memory_bytes": column("memory_bytes"),
    }


def streams(
    gathered: Gathered, contexts: Contexts, used: Sequence[Draft], call_of: Callable[[Column], Column]
) -> Draft:
    """Return the draft of `streams`: those that something was done on.

    Args:
        gathered: The journal.
        contexts: All contexts.
        used: Drafts with context and stream ids: operations, event records, synchronizations.
        call_of: Gives the names of the calls that correlation ids belong to.
    """
    known = _made(gathered, call_of)
    for context in contexts.records:
        null = contexts.null_stream(context)
        if null is not None:
            known.setdefault((context, null), {})["kind"] = "legacy_default"
    for fact in gathered.facts.get("per_thread_stream", []):
        known.setdefault((fact["context_id"], fact["stream_id"]), {})["kind"] = "per_thread_default"
    order = sorted({key for draft in used for key in _pairs(draft)})
    if not order:
        return {}
    # A green context's streams are recorded as made in its parent, but work on them names the green context.
    found = [known.get(key) or known.get((contexts.parent_of(key[0]), key[1]), {}) for key in order]
    names = _stream_names(gathered)
    return {
        "device_id": _optional([contexts.device_of.get(context) for context, _ in order]),
        "context_id": _optional([context for context, _ in order]),
        "stream_id": _optional([stream for _, stream in order]),
        "stream_kind": texts([stream.get("kind") for stream in found]),
        "priority": _optional([stream.get("priority") for stream in found]),
        "name": texts([names.get(key) for key in order]),
    }


def _made(
    gathered: Gathered, call_of: Callable[[Column], Column]
) -> dict[tuple[int | None, int], dict[str, Any]]:
    """Return what the records of made streams say.

    No flag tells a per-thread default stream: it is recorded as a blocking one. But it is made by the first
    use, so the call that made it is no call that makes streams or contexts.
    """
    records = gathered.records(Kind.STREAM)
    calls = call_of(ids(records, "correlation_id", zero_is_null=True))
    words = calls.words or ()
    result: dict[tuple[int | None, int], dict[str, Any]] = {}
    for record, code in zip(records, calls.values.tolist(), strict=True):
        kind = _STREAM_FLAGS.get(int(record["flag"]) & 0xFFFF)
        maker = words[code] if words and code >= 0 else ""
        if kind == "blocking" and _FIRST_USE.match(maker):
            kind = "per_thread_default"
        key = (int(record["context_id"]), int(record["stream_id"]))
        result[key] = {"kind": kind, "priority": int(record["priority"])}
    return result


def _pairs(draft: Draft) -> list[tuple[int, int]]:
    if "stream_id" not in draft:
        return []
    both = draft["context_id"].known() & draft["stream_id"].known()
    keys = np.unique(
        np.stack([draft["context_id"].values[both], draft["stream_id"].values[both]], axis=1), axis=0
    )
    return [(int(context), int(stream)) for context, stream in keys]


def _stream_names(gathered: Gathered) -> dict[tuple[int, int], str]:
    names: dict[tuple[int, int], str] = {}
    for record in gathered.records(Kind.NAME):
        if record["object_kind"] == _OBJECT_STREAM:
            _, context, stream = (int(value) for value in record["object"])
            names[context, stream] = gathered.texts[int(record["name"])]
    for fact in gathered.facts.get("stream", []):
        names[fact["context_id"], fact["stream_id"]] = fact["name"]
    return names


def channels_by_context(ops: Draft) -> dict[int, list[int]]:
    """Return the hardware queues that carried each context's work."""
    if "channel_id" not in ops:
        return {}
    rows = ops["channel_id"].known() & ops["context_id"].known()
    pairs = np.unique(
        np.stack([ops["context_id"].values[rows], ops["channel_id"].values[rows]], axis=1), axis=0
    )
    result: dict[int, list[int]] = {}
    for context, channel in pairs.tolist():
        result.setdefault(context, []).append(channel)
    return result


def rows_of(values: npt.NDArray[Any], rows: dict[int, int]) -> Column:
    """Return the partition's row of each context id; null where there is none."""
    found, inverse = np.unique(values, return_inverse=True)
    picked = np.asarray([rows.get(int(value), -1) for value in found], np.int64)[inverse]
    return Column(picked, picked < 0)
