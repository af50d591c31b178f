"""Synthetic traces of any number of device operations, made without going through JSON.

Eight devices with eight streams each: 64 lanes of kernels and copies, in phases of heavy and of light use, so
that a zoomed-out picture has structure and a zoomed-in one has gaps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kineto_text import kernel_names
from measure import DATA
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Header
from overlane_collect.schema import ENGINES, OP_KINDS
from overlane_collect.writer import write_trace

DEVICES, STREAMS_PER_DEVICE = 8, 8
STREAMS = DEVICES * STREAMS_PER_DEVICE
MEAN_SLOT_NS = 12_000  # every stream starts one operation per slot
CHUNK_SLOTS = 1 << 16
COPY_NAMES = ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)")
COPY_STREAMS = {6: "copy_h2d", 7: "copy_d2h"}  # stream within its device to its engine

Columns = dict[str, np.ndarray[Any, Any]]


def operations(count: int, *, seed: int = 11) -> Columns:
    """Return `start`, `end` (int64 ns, sorted), `stream` (0..63) and `name` code (int16) of each operation.

    Args:
        count: Rounded down to whole slots of 64.
        seed: Same seed, same operations.
    """
    rng = np.random.default_rng(seed)
    slots = count // STREAMS
    # A phase of 2000 slots is heavy, light or nearly idle.
    stretch = rng.choice([1, 1, 1, 4, 40], size=slots // 2000 + 1)
    width = MEAN_SLOT_NS * np.repeat(stretch, 2000)[:slots]
    slot_start = np.concatenate([[0], np.cumsum(width)])
    total = slots * STREAMS
    columns = {
        "start": np.empty(total, np.int64),
        "end": np.empty(total, np.int64),
        "stream": np.empty(total, np.int8),
        "name": np.empty(total, np.int16),
    }
    for low in range(0, slots, CHUNK_SLOTS):
        high = min(low + CHUNK_SLOTS, slots)
        _fill(columns, low, high, slot_start, rng)
    return columns


def _fill(
    columns: Columns, low: int, high: int, slot_start: np.ndarray[Any, Any], rng: np.random.Generator
) -> None:
    """Fill the slots [low, high): in each, 64 sorted starts are dealt to the streams in a random order."""
    rows = high - low
    begin, width = slot_start[low:high, None], MEAN_SLOT_NS
    # Plus the position: no two starts are equal, so the order by start is the canonical one.
    start = (
        begin + np.sort(rng.integers(0, width // 2 - STREAMS, (rows, STREAMS)), axis=1) + np.arange(STREAMS)
    )
    stream = np.argsort(rng.random((rows, STREAMS), dtype=np.float32), axis=1).astype(np.int8)
    duration = np.clip(rng.lognormal(8.3, 0.8, (rows, STREAMS)), 700, width // 2 - 1).astype(np.int64)
    names = len(kernel_names())
    name = np.minimum(rng.geometric(0.03, (rows, STREAMS)) - 1, names - 1).astype(np.int16)
    within = stream % STREAMS_PER_DEVICE
    for k, code in zip(COPY_STREAMS, (names, names + 1), strict=True):
        name[within == k] = code
    span = slice(low * STREAMS, high * STREAMS)
    columns["start"][span] = start.ravel()
    columns["end"][span] = (start + duration).ravel()
    columns["stream"][span] = stream.ravel()
    columns["name"][span] = name.ravel()


def details(stream: np.ndarray[Any, Any], name: np.ndarray[Any, Any], *, seed: int = 13) -> dict[str, Any]:
    """Return the further columns that a profiler records of each operation: launch ids, sizes, resources."""
    rng = np.random.default_rng(seed)
    count = len(stream)
    is_copy = np.isin(stream % STREAMS_PER_DEVICE, list(COPY_STREAMS))
    choices = len(kernel_names()) + len(COPY_NAMES)
    # As in recordings: resources go with the name, grids take a few values, buffers have few sizes.
    registers = rng.integers(16, 255, choices).astype(np.int32)[name]
    shared = (rng.integers(0, 9, choices) * 16_384)[name]
    grid = rng.integers(1, 4096, (choices, 4)).astype(np.int32)[name, rng.integers(0, 4, count)]
    block = (rng.integers(1, 9, choices) * 128).astype(np.int32)[name]

    def three(first: np.ndarray[Any, Any]) -> pa.Array:
        values = np.ones((count, 3), np.int32)
        values[:, 0] = first
        offsets = np.arange(0, 3 * count + 1, 3, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()), mask=pa.array(is_copy))

    return {
        "correlation_id": np.cumsum(rng.integers(2, 40, count)),
        "bytes": pa.array(rng.choice(rng.integers(1, 1 << 20, 200) * 256, count), mask=~is_copy),
        "registers": pa.array(registers, mask=is_copy),
        "shared_bytes": pa.array(shared, mask=is_copy),
        "grid": three(grid),
        "block": three(block),
    }


def tables(count: int, *, is_detailed: bool = False) -> dict[str, pa.Table]:
    """Return the tables of a trace of `count` operations, in canonical order.

    Args:
        count: Operations.
        is_detailed: With the columns of `details`; without them 100 M operations fit into memory.
    """
    made = operations(count)
    more = details(made["stream"], made["name"]) if is_detailed else {}
    stream = made.pop("stream")
    names = pa.array([*kernel_names(), *COPY_NAMES])
    within = np.arange(STREAMS) % STREAMS_PER_DEVICE
    engine_of = np.array([ENGINES.index(COPY_STREAMS.get(int(k), "compute")) for k in within], np.int32)
    kind_of = np.array(
        [OP_KINDS.index("memcpy" if int(k) in COPY_STREAMS else "kernel") for k in within], np.int32
    )
    numbers = np.arange(STREAMS)
    dictionary = pa.DictionaryArray.from_arrays
    ops = table_from_columns(
        "ops",
        {
            "device_id": (numbers // STREAMS_PER_DEVICE).astype(np.int32)[stream],
            "context_id": np.ones(len(stream), np.int64),
            "stream_id": (numbers % STREAMS_PER_DEVICE + 7)[stream],
            "engine": dictionary(pa.array(engine_of[stream]), pa.array(ENGINES)),
            "kind": dictionary(pa.array(kind_of[stream]), pa.array(OP_KINDS)),
            "name": dictionary(pa.array(made.pop("name").astype(np.int32)), names),
            "start_ns": made.pop("start"),
            "end_ns": made.pop("end"),
            **more,
        },
        is_sorted=True,
    )
    devices = np.arange(DEVICES)
    return {
        "ops": ops,
        "devices": table_from_columns(
            "devices", {"device_id": devices.astype(np.int32), "name": ["Synthetic GPU"] * DEVICES}
        ),
        "streams": table_from_columns(
            "streams",
            {
                "device_id": (numbers // STREAMS_PER_DEVICE).astype(np.int32),
                "context_id": np.ones(STREAMS, np.int64),
                "stream_id": numbers % STREAMS_PER_DEVICE + 7,
            },
        ),
    }


def trace_file(count: int, *, is_detailed: bool = False) -> Path:
    """Return a `.overlane` file of about `count` operations over 64 streams, made on first use."""
    path = DATA / f"{'detailed' if is_detailed else 'operations'}-{count}.overlane"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        print(f"  making {path.name}", file=sys.stderr)
        header = Header(format="overlane", producer="Overlane benchmarks", synthetic=True)
        trace = validate(path.stem, header, tables(count, is_detailed=is_detailed))
        write_trace(path, header, {name: trace.table(name) for name in ("ops", "devices", "streams")})
    return path
