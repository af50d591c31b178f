"""Small tables: collectives and counters out of the further members, and devices, streams and threads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from overlane.readers.kineto.attributes import Hole, members
from overlane.readers.kineto.rows import Rows, distinct
from overlane.readers.kineto.text import MISSING
from overlane.tables import numbers, table_from_columns

__all__ = [
    "collectives_table",
    "counters_table",
    "devices_table",
    "distinct_rows",
    "streams_table",
    "threads_table",
]

Array = np.ndarray[Any, Any]

_COLLECTIVE = "Collective name"
_DTYPE_BYTES = {
    "double": 8, "float64": 8, "long": 8, "int64": 8,
    "float": 4, "float32": 4, "int": 4, "int32": 4,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "int16": 2,
    "byte": 1, "uint8": 1, "char": 1, "int8": 1, "bool": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip


def _members_of(rows: Rows, chosen: Array) -> Iterator[dict[str, Any]]:
    """Yield the further members of the given rows; each template is parsed once."""
    integers, counts = rows.integers(chosen)
    numbers_left = iter(integers.tolist())
    known: dict[int, dict[str, Any]] = {-1: {}}
    for code, count in zip(rows.template[chosen].tolist(), counts.tolist(), strict=True):
        if code not in known:
            known[code] = members(rows, code)
        values = [next(numbers_left) for _ in range(count)]
        yield {
            key: values[value.index] if isinstance(value, Hole) else value
            for key, value in known[code].items()
        }


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    return value if isinstance(value, int) and -(2**63) < value < 2**63 else None


def _text(value: Any) -> str | None:
    """Return a text without half a surrogate pair, which JSON may say and UTF-8 may not."""
    return None if value is None else str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def collectives_table(rows: Rows, ops: Array) -> pa.Table:
    """Build `collectives` from the members that NCCL and RCCL kernels carry.

    Args:
        rows: The rows.
        ops: Source row of each operation, in canonical order.
    """
    used = rows.used_codes(rows.template[ops])
    key = f'"{_COLLECTIVE}"'.encode()
    having = [
        code for code, raw in zip(used.tolist(), rows.strings.contents(used), strict=True) if key in raw
    ]
    chosen = np.flatnonzero(np.isin(rows.template[ops], having))
    columns: dict[str, list[Any]] = {
        name: [] for name in ("op_id", "collective", "group", "sequence", "bytes", "dtype", "ranks")
    }
    for op, found in zip(chosen.tolist(), _members_of(rows, ops[chosen]), strict=True):
        name = _text(found.get(_COLLECTIVE))
        if name is None:
            continue
        dtype = _text(found.get("dtype"))
        elements = _integer(found.get("In msg nelems"))
        size = _DTYPE_BYTES.get((dtype or "").lower())
        columns["op_id"].append(op)
        columns["collective"].append(name)
        columns["group"].append(_text(found.get("Process Group Name")))
        columns["sequence"].append(_integer(found.get("Seq")))
        columns["bytes"].append(
            elements * size if elements is not None and size and 0 <= elements < 2**58 else None
        )
        columns["dtype"].append(dtype)
        columns["ranks"].append(_text(found.get("Process Group Ranks", found.get("Group Ranks"))))
    return table_from_columns("collectives", columns)


def _is_finite(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def counters_table(rows: Rows, chosen: Array, origin: int, rank: int | None) -> tuple[pa.Table, int, int]:
    """Build `counters`: one row per numeric series of a counter event.

    Returns:
        Table, rows beyond the first of their event, and events without a numeric series (in no row).
    """
    process, _ = rows.threads(rows.thread[chosen])
    samples: list[tuple[str, int, int | None, float]] = []
    extra = empty = 0
    for row, owner, found in zip(chosen.tolist(), process.tolist(), _members_of(rows, chosen), strict=True):
        name = rows.text(int(rows.name[row]))
        series = {key: value for key, value in found.items() if _is_finite(value)}
        if not series:
            empty += 1
            continue
        extra += len(series) - 1
        at = int(rows.ts[row]) - origin
        for key, value in series.items():
            track = name if len(series) == 1 and key in {"value", name} else f"{name}: {key}"
            samples.append((track, at, None if owner == MISSING else owner, float(value)))
    columns = {
        "rank": [rank] * len(samples),
        "process_id": [s[2] for s in samples],
        "track": [s[0] for s in samples],
        "at_ns": [s[1] for s in samples],
        "value": [s[3] for s in samples],
    }
    return table_from_columns("counters", columns), extra, empty


def devices_table(properties: Any, seen: list[int], rank: int | None) -> pa.Table:
    """Build `devices` from the file's list and the devices that operations name.

    Args:
        properties: `deviceProperties` (or `computeProperties`) as parsed; anything but a list of objects is
            passed over.
        seen: Devices of operations and synchronizations.
        rank: Rank of the file.
    """
    listed: dict[int, dict[str, Any]] = {}
    for item in properties if isinstance(properties, list) else []:
        device = _integer(item.get("id")) if isinstance(item, dict) else None
        if device is not None and abs(device) < 2**31:
            listed.setdefault(device, item)
    rows = [(device, listed.get(device, {})) for device in sorted({*listed, *seen})]

    def small(item: dict[str, Any], *keys: str) -> int | None:
        for key in keys:
            value = _integer(item.get(key))
            if value is not None and abs(value) < 2**31:
                return value
        return None

    def capability(item: dict[str, Any]) -> str | None:
        major, minor = _integer(item.get("computeMajor")), _integer(item.get("computeMinor"))
        return None if major is None or minor is None else f"{major}.{minor}"

    columns = {
        "rank": [rank] * len(rows),
        "device_id": [device for device, _ in rows],
        "name": [_text(item.get("name")) for _, item in rows],
        "sm_count": [small(item, "numSms", "multiProcessorCount") for _, item in rows],
        "compute_capability": [capability(item) for _, item in rows],
        "memory_bytes": [_integer(item.get("totalGlobalMem")) for _, item in rows],
    }
    return table_from_columns("devices", columns)


def distinct_rows(table: pa.Table, names: tuple[str, ...]) -> tuple[list[tuple[int | None, ...]], Array]:
    """Return the distinct combinations of some integer columns, and for each row the index of its own.

    Args:
        table: Any table.
        names: Columns of it.
    """
    codes = np.zeros(table.num_rows, np.int64)
    combinations: list[tuple[int | None, ...]] = [()] if table.num_rows else []
    for name in names:
        values = numbers(table[name].cast(pa.int64()), null=MISSING)
        if values.size and values.min() == values.max():
            found, inverse = values[:1], np.zeros(values.size, np.int64)
        else:
            found, inverse = distinct(values)
        words = [None if v == MISSING else v for v in found.tolist()]
        pairs, codes = distinct(codes * max(len(words), 1) + inverse)
        combinations = [(*combinations[p // len(words)], words[p % len(words)]) for p in pairs.tolist()]
    return combinations, codes


def streams_table(tables: dict[str, pa.Table], rank: int | None) -> pa.Table:
    """Build `streams`: every stream that an operation, a synchronization or an event record names."""
    names = ("device_id", "context_id", "stream_id")
    found: set[tuple[int | None, ...]] = set()
    for table in ("ops", "syncs", "event_records"):
        found.update(
            key for key in distinct_rows(tables[table], names)[0] if table == "ops" or key[2] is not None
        )
    ordered = sorted(found, key=lambda key: [(v is None, v or 0) for v in key])
    columns: dict[str, list[Any]] = {"rank": [rank] * len(ordered)}
    for k, name in enumerate(names):
        columns[name] = [key[k] for key in ordered]
    return table_from_columns("streams", columns)


def threads_table(rows: Rows, host_rows: Array, rank: int | None) -> pa.Table:
    """Build `threads`: every host thread that has rows, with the names that metadata records give.

    Args:
        rows: The rows.
        host_rows: Mask of the rows that belong to host threads.
        rank: Rank of the file.
    """
    used = np.zeros(len(rows.strings), bool)
    used[rows.thread[host_rows]] = True
    pairs = zip(*(values.tolist() for values in rows.threads(np.flatnonzero(used))), strict=True)
    found = {
        (process, None if thread == MISSING else thread) for process, thread in pairs if process != MISSING
    }
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    records = np.flatnonzero(rows.phase == ord("M"))
    owner, thread = rows.threads(rows.thread[records])
    for row, process, number in zip(records.tolist(), owner.tolist(), thread.tolist(), strict=True):
        kind = rows.text(int(rows.name[row]))
        if kind == "process_name":
            processes[process] = rows.text(int(rows.template[row]))
        elif kind == "thread_name":
            threads[process, number] = rows.text(int(rows.template[row]))
    ordered = sorted(found, key=lambda key: [(v is None, v or 0) for v in key])
    columns = {
        "rank": [rank] * len(ordered),
        "process_id": [process for process, _ in ordered],
        "thread_id": [number for _, number in ordered],
        "process_name": [processes.get(process) for process, _ in ordered],
        "name": [None if number is None else threads.get((process, number)) for process, number in ordered],
    }
    return table_from_columns("threads", columns)
