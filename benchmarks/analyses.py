"""Dependencies, waits, idle, barriers, order and hazards of a synthetic trace: time, memory and growth.

    python benchmarks/analyses.py [--ops 1000000] [--growth] [--only PART ...]

Each size runs in a process of its own, compiled code loaded; memory is what the analyses add to the trace.
`--growth` runs a tenth and ten times the size too, and prints how cost grew beside n log n.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

BUDGET_OPERATIONS = 1_000_000
BUDGET_SECONDS = 5.0
BUDGET_BYTES = 1 << 30
_STREAMS = 8
_THREADS = 4
_CALLS = (
    "cuLaunchKernel",
    "cuMemcpyHtoDAsync_v2",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuStreamSynchronize",
)


def synthetic_trace(count: int, *, seed: int = 7) -> Any:
    """Return a trace of `count` operations with their calls, events, waits and synchronizations.

    Four threads launch kernels and copies on eight streams; every tenth operation is followed by a record
    that another stream waits for, every two hundredth by a stream synchronization.

    Args:
        count: Operations.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    thread = rng.integers(0, _THREADS, count)
    stream = thread * (_STREAMS // _THREADS) + rng.integers(0, _STREAMS // _THREADS, count)
    is_copy = rng.random(count) < 0.2
    call_start, call_end = _call_times(rng, thread)
    waited = _waited(rng, count, stream)
    start, end = _run(rng, call_end, stream, is_copy, waited)
    correlation = np.arange(1, count + 1)
    return _tables(rng, (thread, stream, is_copy, call_start, call_end, start, end, correlation), waited)


def _call_times(rng: np.random.Generator, thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the calls of every thread one after another, 4 to 12 microseconds apart."""
    length = rng.integers(2_000, 6_000, len(thread))
    start = np.zeros(len(thread), np.int64)
    for number in range(_THREADS):
        rows = np.flatnonzero(thread == number)
        start[rows] = np.cumsum(length[rows] + rng.integers(1_000, 30_000, len(rows)))
    order = np.argsort(start, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return start, start + length


def _waited(rng: np.random.Generator, count: int, stream: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return operations after which an event is recorded, and the stream that waits for each."""
    rows = np.flatnonzero(rng.random(count) < 0.1)
    return rows, (stream[rows] + 1 + rng.integers(0, _STREAMS - 1, len(rows))) % _STREAMS


def _run(
    rng: np.random.Generator,
    issued: np.ndarray,
    stream: np.ndarray,
    is_copy: np.ndarray,
    waited: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Let streams run in order, a launch latency after the issue; waits delay the stream that waits."""
    count = len(stream)
    length = np.where(is_copy, rng.integers(5_000, 40_000, count), rng.integers(2_000, 20_000, count))
    order = np.argsort(issued, kind="stable").tolist()
    targets = dict(zip(waited[0].tolist(), waited[1].tolist(), strict=True))
    free = [0] * _STREAMS
    start = np.zeros(count, np.int64)
    lengths, streams, issues = length.tolist(), stream.tolist(), issued.tolist()
    for op in order:
        of = streams[op]
        begin = max(free[of], issues[op]) + 1_500
        start[op] = begin
        free[of] = begin + lengths[op]
        if op in targets:
            free[targets[op]] = max(free[targets[op]], free[of])
    return start, start + length


def _tables(
    rng: np.random.Generator, columns: tuple[np.ndarray, ...], waited: tuple[np.ndarray, np.ndarray]
) -> Any:
    """Return the trace of these columns."""
    thread, stream, is_copy, call_start, call_end, start, end, correlation = columns
    count = len(stream)
    rows, targets = waited
    synced = np.flatnonzero(rng.random(count) < 0.005)
    until = np.maximum(end[synced], call_end[synced] + 60)
    at = call_end[rows] + 100
    record_ids = count + 1 + np.arange(len(rows))
    wait_ids = record_ids + count
    sync_ids = 3 * count + 1 + np.arange(len(synced))
    calls = (
        (np.where(is_copy, 1, 0), call_start, call_end, thread, correlation),
        (np.full(len(rows), 2), at, at + 300, thread[rows], record_ids),
        (np.full(len(rows), 3), at + 400, at + 700, thread[rows], wait_ids),
        (np.full(len(synced), 4), call_end[synced] + 50, until, thread[synced], sync_ids),
    )
    name, first, last, by, ids = (np.concatenate([part[k] for part in calls]) for k in range(5))
    order = np.lexsort((end, start))
    copies = is_copy[order].astype(np.int64)
    tables = {
        "ops": {
            "stream_id": stream[order],
            "kind": _words(copies, "kernel", "memcpy"),
            "engine": _words(copies, "compute", "copy_h2d"),
            "name": _words(copies, "kernel", "copy"),
            "src_memory": _words(copies * 0, "pinned"),
            "start_ns": start[order],
            "end_ns": end[order],
            "correlation_id": correlation[order],
            "grid": _triples(rng.integers(1, 200, count), copies),
            "block": _triples(np.full(count, 256), copies),
            "registers": np.full(count, 32),
        },
        "api_calls": {
            "name": _words(name, *_CALLS),
            "api": _words(name * 0, "driver"),
            "start_ns": first,
            "end_ns": last,
            "thread_id": by,
            "correlation_id": ids,
        },
        "event_records": {
            "cuda_event_sync_id": np.arange(len(rows)) + 1,
            "stream_id": stream[rows],
            "thread_id": thread[rows],
            "at_ns": at,
            "correlation_id": record_ids,
        },
        "syncs": {
            "sync_kind": _words(np.repeat([0, 1], [len(rows), len(synced)]), "stream_wait_event", "stream"),
            "stream_id": np.concatenate([targets, stream[synced]]),
            "thread_id": np.concatenate([thread[rows], thread[synced]]),
            # An id that no record has stands for none.
            "cuda_event_sync_id": np.concatenate([np.arange(len(rows)) + 1, np.full(len(synced), 1 << 40)]),
            "start_ns": np.concatenate([at + 400, call_end[synced] + 50]),
            "end_ns": np.concatenate([at + 700, until]),
            "correlation_id": np.concatenate([wait_ids, sync_ids]),
        },
        "streams": {
            "stream_id": np.arange(_STREAMS),
            "stream_kind": _words(np.zeros(_STREAMS, np.int64), "nonblocking"),
        },
        "devices": {"sm_count": [132], "compute_capability": ["9.0"]},
    }
    return _validated(tables)


def _validated(tables: dict[str, dict[str, Any]]) -> Any:
    from overlane.tables import table_from_columns  # noqa: PLC0415
    from overlane.validation import validate  # noqa: PLC0415
    from overlane_collect.model import ClockDomain, Header  # noqa: PLC0415
    from overlane_collect.schema import TABLES  # noqa: PLC0415

    made = {}
    for name, columns in tables.items():
        length = len(next(iter(columns.values())))
        known = {column.name for column in TABLES[name].columns}
        same = {"device_id": 0, "context_id": 1, "process_id": 1}
        same = {key: np.full(length, value) for key, value in same.items() if key in known}
        made[name] = table_from_columns(name, same | columns)
    clocks = (ClockDomain(name="cupti", offset_ns=0, fit_error_ns=600),)
    return validate("synthetic", Header(format="synthetic", producer="benchmark", clocks=clocks), made)


def _words(codes: np.ndarray, *found: str) -> Any:
    """Return a text column of codes."""
    import pyarrow as pa  # noqa: PLC0415

    from overlane.tables import array_of  # noqa: PLC0415

    return pa.DictionaryArray.from_arrays(
        array_of(codes.astype(np.int32), pa.int32()), array_of(found, pa.string())
    )


def _triples(first: np.ndarray, is_null: np.ndarray) -> Any:
    """Return lists (x, 1, 1), null for copies."""
    import pyarrow as pa  # noqa: PLC0415

    from overlane.tables import array_of  # noqa: PLC0415

    values = np.ones((len(first), 3), np.int32)
    values[:, 0] = first
    offsets = np.zeros(len(first) + 1, np.int32)
    np.cumsum(np.where(is_null == 1, 0, 3), out=offsets[1:])
    flat = array_of(values[is_null == 0].reshape(-1), pa.int32())
    valid = pa.py_buffer(np.packbits(is_null == 0, bitorder="little"))
    return pa.Array.from_buffers(
        pa.list_(pa.int32()), len(first), [valid, pa.py_buffer(offsets)], children=[flat]
    )


def _steps() -> dict[str, Callable[[Any, dict[str, Any]], Any]]:
    """Return the analyses in their order; each takes the trace and the results before it."""
    from overlane.analysis.barriers import barriers  # noqa: PLC0415
    from overlane.analysis.dependencies import dependencies  # noqa: PLC0415
    from overlane.analysis.hazards import hazards  # noqa: PLC0415
    from overlane.analysis.idle import idle  # noqa: PLC0415
    from overlane.analysis.order import happens_before  # noqa: PLC0415
    from overlane.analysis.waits import waits  # noqa: PLC0415

    return {
        "dependencies": lambda trace, _: dependencies(trace),
        "waits": lambda trace, done: waits(trace, done["dependencies"]),
        "idle": lambda trace, done: idle(trace, done["dependencies"], done["waits"]),
        "barriers": lambda trace, done: barriers(trace, done["dependencies"], done["waits"], done["idle"]),
        "order": lambda trace, done: happens_before(trace, done["dependencies"]),
        "hazards": lambda trace, done: hazards(trace, done["order"]),
    }


def _measure(count: int, only: Sequence[str]) -> dict[str, Any]:
    """Run the analyses on a trace of so many operations: seconds of wall and CPU, bytes beyond the trace."""
    steps = _steps()
    names = [name for name in steps if not only or name in only]
    small: dict[str, Any] = {}
    warm = synthetic_trace(2_000)
    for name in names:
        small[name] = steps[name](warm, small)
    trace = synthetic_trace(count)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done: dict[str, Any] = {}
    found: dict[str, Any] = {"count": count, "seconds": {}, "cpu_seconds": {}}
    for name in names:
        wall, cpu = time.perf_counter(), time.process_time()
        done[name] = steps[name](trace, done)
        found["seconds"][name] = time.perf_counter() - wall
        found["cpu_seconds"][name] = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["bytes"] = (peak - before) * 1024
    found["edges"] = len(done["dependencies"].op)
    return found


def _report(found: dict[str, Any]) -> None:
    total = sum(found["cpu_seconds"].values())
    each = ", ".join(f"{name} {seconds:.2f}" for name, seconds in found["cpu_seconds"].items())
    wall = sum(found["seconds"].values())
    print(f"{found['count']:>10,} operations, {found['edges']:,} edges: {wall:.2f} s")
    print(f"{'':>10} {total:.2f} s CPU ({each}),")
    print(f"{'':>10} {found['bytes'] / (1 << 20):,.0f} MiB beyond the trace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when a million operations miss the budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, default=1_000_000, help="operations")
    parser.add_argument("--growth", action="store_true", help="a tenth and ten times the size too")
    parser.add_argument("--only", action="append", default=[], help="these analyses alone (may be repeated)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(_measure(options.ops, options.only)))
        return 0
    sizes = [options.ops // 10, options.ops, options.ops * 10] if options.growth else [options.ops]
    all_found = []
    for size in sizes:
        command = [sys.executable, str(Path(__file__).resolve()), "--child", "--ops", str(size)]
        command += [word for name in options.only for word in ("--only", name)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        all_found.append(json.loads(done.stdout))
        _report(all_found[-1])
    for less, more in pairwise(all_found):
        grew = sum(more["cpu_seconds"].values()) / sum(less["cpu_seconds"].values())
        bound = more["count"] * math.log(more["count"]) / (less["count"] * math.log(less["count"]))
        print(f"{less['count']:,} to {more['count']:,}: {grew:.1f} times the time; n log n gives {bound:.1f}")
    is_late = [
        found["count"] <= BUDGET_OPERATIONS
        and (sum(found["cpu_seconds"].values()) > BUDGET_SECONDS or found["bytes"] > BUDGET_BYTES)
        for found in all_found
    ]
    return int(any(is_late))


if __name__ == "__main__":
    sys.exit(main())
