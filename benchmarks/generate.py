"""Write synthetic PyTorch-profiler (Kineto) JSON of any size, with the facts that a loader must find in it.

    python benchmarks/generate.py out.json.gz --events 1000000 --compact --relative

The file imitates a launch-bound training job: per launch five framework operators with shapes, one runtime
call, one device operation and the two ends of its flow arrow, on two host threads and three streams. It has the
traps of real files: text where ids are expected, escaped quotes, names that hold the border between two events.
"""

# ruff: noqa: E501 - the closing events keep the lines of the files that they imitate

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kineto_text import (
    ANNOTATION_EVENT,
    BLOCKS,
    CALL_EVENT,
    COLLECTIVE_ARGS,
    COLLECTIVES,
    CONCRETE,
    COPIES,
    DEVICE_EVENT,
    FLOW_END,
    FLOW_START,
    GRIDS,
    HEADER,
    KERNEL_ARGS,
    MEMORY_ARGS,
    METADATA_EVENT,
    OPERATOR_EVENT,
    OPERATORS,
    SHAPES,
    SYNC_ARGS,
    TYPES,
    VIEWS,
    kernel_names,
)

EVENTS_PER_LAUNCH = 9
CLOSING_EVENTS = 24  # annotations, metadata and traps that every file ends with
PROCESS, MAIN_THREAD, BACKWARD_THREAD = 418_273, 418_273, 418_911
COMPUTE_STREAM, COLLECTIVE_STREAM, COPY_STREAM = 7, 20, 24
EPOCH_ORIGIN_NS = 1_718_293_847_561_234_567  # a float64 of microseconds cannot hold such a stamp
RELATIVE_ORIGIN_NS = 6_193_523_412_345_678

KERNEL, COLLECTIVE, COPY, MEMSET, STREAM_SYNC, STREAM_WAIT = range(6)
KIND_SHARES = (0.90, 0.03, 0.025, 0.025, 0.01, 0.01)
CALLS = {
    KERNEL: ("cudaLaunchKernel", 211),
    COLLECTIVE: ("cudaLaunchKernelExC", 430),
    COPY: ("cudaMemcpyAsync", 41),
    MEMSET: ("cudaMemsetAsync", 51),
    STREAM_SYNC: ("cudaStreamSynchronize", 131),
    STREAM_WAIT: ("cudaStreamWaitEvent", 147),
}


@dataclass(frozen=True)
class Facts:
    """What a loader must find in a generated file; times in ns from the earliest stamp.

    Attributes:
        events: Entries of `traceEvents`.
        ops: Device operations (kernels, copies, memsets).
        api_calls: Runtime calls.
        ops_start_sum_ns: Sum of the operations' starts: one wrong nanosecond anywhere shows.
        ops_duration_sum_ns: Sum of their durations.
    """

    events: int
    ops: int
    api_calls: int
    ops_start_sum_ns: int
    ops_duration_sum_ns: int


@dataclass(frozen=True)
class Schedule:
    """When what happens: arrays of shape (launches,), times int64 ns absolute."""

    origin_ns: int
    kind: np.ndarray[Any, Any]
    operator_start: np.ndarray[Any, Any]
    operator_duration: np.ndarray[Any, Any]
    thread: np.ndarray[Any, Any]
    call_start: np.ndarray[Any, Any]
    stream: np.ndarray[Any, Any]
    start: np.ndarray[Any, Any]
    duration: np.ndarray[Any, Any]
    bytes: np.ndarray[Any, Any]
    pick: np.ndarray[Any, Any]
    kernel: np.ndarray[Any, Any]


def schedule(launches: int, origin_ns: int, seed: int) -> Schedule:
    """Return a job in which operations of one stream follow one another and none starts before its launch."""
    rng = np.random.default_rng(seed)
    step = rng.integers(900, 16_000, launches)
    operator_start = origin_ns + 1_000_000 + np.cumsum(step) - step
    operator_duration = (step * 0.85).astype(np.int64)
    kind = rng.choice(6, size=launches, p=KIND_SHARES)
    stream = np.full(launches, COMPUTE_STREAM)
    stream[kind == COLLECTIVE] = COLLECTIVE_STREAM
    stream[(kind == COPY) & (rng.integers(0, 3, launches) == 0)] = COPY_STREAM
    duration = np.clip(rng.lognormal(8.6, 1.0, launches), 800, 400_000)
    # Compute fills 78 % of the time, collectives half of it: enough work in flight to overlap, no endless backlog.
    for number, share in ((COMPUTE_STREAM, 0.78), (COLLECTIVE_STREAM, 0.5)):
        mask = stream == number
        if mask.any():
            duration[mask] *= share * step.sum() / duration[mask].sum()
    duration = np.maximum(duration, 768).astype(np.int64)
    call_start = operator_start + (operator_duration * 0.6).astype(np.int64)
    start = np.empty(launches, np.int64)
    for number in (COMPUTE_STREAM, COLLECTIVE_STREAM, COPY_STREAM):
        # In a stream each operation starts 4 us after its launch or 0.7 us after its predecessor, whichever is later:
        # with the work done so far taken off, that is a running maximum.
        rows = np.flatnonzero(stream == number)
        done = np.concatenate([[0], np.cumsum(duration[rows] + 700)])[:-1]
        start[rows] = np.maximum.accumulate(call_start[rows] + 4_000 - done) + done
    names = len(kernel_names())
    weight = 1 / np.arange(1, names + 1) ** 0.8
    return Schedule(
        origin_ns,
        kind,
        operator_start,
        operator_duration,
        np.where((np.arange(launches) // 400) % 3 == 2, BACKWARD_THREAD, MAIN_THREAD),
        call_start,
        stream,
        start,
        duration,
        rng.integers(1, 1 << 20, launches) * 256,
        rng.integers(0, 1000, launches),
        rng.choice(names, launches, p=weight / weight.sum()),
    )


def stamp(time_ns: int) -> str:
    """Return nanoseconds as microseconds with three decimals, as Kineto writes them."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _operators(s: Schedule, i: int) -> Iterator[tuple[Any, ...]]:
    start, duration, thread, pick = (
        int(s.operator_start[i]),
        int(s.operator_duration[i]),
        int(s.thread[i]),
        int(s.pick[i]),
    )
    nested = (
        (OPERATORS[pick % len(OPERATORS)], 0, duration),
        (VIEWS[pick % 5], duration // 20, duration // 16),
        (OPERATORS[pick * 7 % len(OPERATORS)], duration // 6, duration * 4 // 5),
        (VIEWS[(pick + 1) % 5], duration // 5, duration // 32),
        ("aten::empty", duration // 3, duration // 20),
    )
    for k, (name, offset, length) in enumerate(nested):
        yield (
            name,
            PROCESS,
            thread,
            stamp(start + offset),
            stamp(length),
            i * 5 + k + 1,
            i,
            int(thread == BACKWARD_THREAD),
            CONCRETE[(pick + k) % 4],
            TYPES[(pick + k) % 4],
            SHAPES[(pick + k + 1) % 6],
            SHAPES[(pick + k) % 6],
            i * 5 + k,
        )


def _device_event(s: Schedule, i: int, kernels: tuple[str, ...]) -> tuple[Any, ...]:
    kind, stream, pick, size, duration = (
        int(s.kind[i]),
        int(s.stream[i]),
        int(s.pick[i]),
        int(s.bytes[i]),
        int(s.duration[i]),
    )
    external, correlation = i * 5 + 3, i + 1000
    if kind in (KERNEL, COLLECTIVE):
        category, name = "kernel", kernels[s.kernel[i]] if kind == KERNEL else COLLECTIVES[pick % 3]
        args = KERNEL_ARGS % (
            external,
            stream,
            correlation,
            32 + pick % 200,
            pick % 9 * 16384,
            0.969697 * (pick % 30 + 1),
            3.878788 * (pick % 12 + 1),
            GRIDS[pick % 4],
            BLOCKS[pick // 4 % 4],
            pick % 100,
        )
        if kind == COLLECTIVE:
            args += COLLECTIVE_ARGS % (size // 2, size // 2)
    elif kind in (COPY, MEMSET):
        category, name = (
            ("gpu_memcpy", COPIES[pick % 3]) if kind == COPY else ("gpu_memset", "Memset (Device)")
        )
        args = MEMORY_ARGS % (external, stream, correlation, size, size / duration)
    else:
        category, name = "cuda_sync", "Stream Synchronize" if kind == STREAM_SYNC else "Stream Wait Event"
        args = SYNC_ARGS % (name, stream, correlation)
        if kind == STREAM_WAIT:
            args += f', "wait_on_stream": {COLLECTIVE_STREAM}, "wait_on_cuda_event_record_corr_id": {correlation - 3}, "wait_on_cuda_event_id": 12'
    return category, name, stream, stamp(int(s.start[i])), stamp(duration), args


def _closing(s: Schedule, count: int) -> Iterator[str]:
    first, last = int(s.operator_start[0]), int((s.start + s.duration).max())
    origin, steps = stamp(s.origin_ns), count - 18
    for k in range(steps):
        low, high = (first + (last - first) * n // steps for n in (k, k + 1))
        yield ANNOTATION_EVENT % (
            k + 2,
            PROCESS,
            MAIN_THREAD,
            stamp(low),
            stamp(high - low),
            10_000_000 + k,
            k,
        )
    for process, label, order in ((PROCESS, '"CPU"', PROCESS), (0, '"GPU 0"', 5_000_000)):
        yield METADATA_EVENT % ("process_name", origin, process, 0, "name", '"python3"')
        yield METADATA_EVENT % ("process_labels", origin, process, 0, "labels", label)
        yield METADATA_EVENT % ("process_sort_index", origin, process, 0, "sort_index", order)
    for stream in (COMPUTE_STREAM, COLLECTIVE_STREAM, COPY_STREAM):
        yield METADATA_EVENT % ("thread_name", origin, 0, stream, "name", f'"stream {stream} "')
    for thread in (MAIN_THREAD, BACKWARD_THREAD, BACKWARD_THREAD + 1):
        yield METADATA_EVENT % (
            "thread_name",
            origin,
            PROCESS,
            thread,
            "name",
            f'"thread {thread} (python3)"',
        )
    yield METADATA_EVENT % ("process_sort_index", origin, '"Spans"', 0, "sort_index", 536_870_912)
    yield from (
        f"""  {{
    "ph": "X", "cat": "Trace", "ts": {origin}, "dur": {stamp(last - s.origin_ns)},
    "pid": "Spans", "tid": "PyTorch Profiler",
    "name": "PyTorch Profiler (0)",
    "args": {{
      "Op count": 0
    }}
  }}""",
        f"""  {{
    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",
    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {origin}
  }}""",
        f"""  {{
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": {stamp(last)}
  }}""",
        f"""  {{
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {PROCESS}, "tid": {MAIN_THREAD}, "ts": {origin},
    "args": {{
      "Total Allocated": 1048576, "Bytes": 512, "Addr": 139903838633984, "Device Id": 0, "Device Type": 1, "Ev Idx": 7
    }}
  }}""",
        f"""  {{
    "ph": "X", "cat": "overhead", "name": "CUPTI \\"Buffer\\" Flush }},{{", "pid": -1, "tid": 0,
    "ts": {stamp(s.origin_ns + 999)}, "dur": 12.001,
    "args": {{
      "cost": "}},\\n  {{"
    }}
  }}""",
    )


def events(s: Schedule, count: int) -> Iterator[str]:
    """Yield every event's text, pretty-printed as Kineto does: operators first, then calls and device work."""
    launches, kernels = len(s.kind), kernel_names()
    for i in range(launches):
        for values in _operators(s, i):
            yield OPERATOR_EVENT % values
    for i in range(launches):
        yield DEVICE_EVENT % _device_event(s, i, kernels)
        correlation, thread, call = i + 1000, int(s.thread[i]), stamp(int(s.call_start[i]))
        name, callback = CALLS[int(s.kind[i])]
        yield FLOW_END % (correlation, int(s.stream[i]), stamp(int(s.start[i])))
        yield CALL_EVENT % (
            name,
            PROCESS,
            thread,
            call,
            stamp(int(s.operator_duration[i]) // 4),
            i * 5 + 3,
            callback,
            correlation,
        )
        yield FLOW_START % (correlation, PROCESS, thread, call)
    yield from _closing(s, count - launches * EVENTS_PER_LAUNCH)


def _facts(s: Schedule, count: int) -> Facts:
    device = s.kind <= MEMSET
    return Facts(
        events=count,
        ops=int(device.sum()),
        api_calls=len(s.kind),
        ops_start_sum_ns=int((s.start[device] - s.origin_ns).sum()),
        ops_duration_sum_ns=int(s.duration[device].sum()),
    )


def _write(out: Callable[[bytes], Any], s: Schedule, count: int, *, compact: bool) -> None:
    def layout(text: str) -> str:
        return re.sub(r"\n\s*", "", text).replace("  {", "{", 1) if compact else text

    between = "," if compact else ",\n"
    out(layout(HEADER).encode())
    batch: list[str] = []
    is_first = True
    for text in events(s, count):
        batch.append(layout(text))
        if len(batch) == 20_000:
            out((("" if is_first else between) + between.join(batch)).encode())
            batch, is_first = [], False
    if batch:
        out((("" if is_first else between) + between.join(batch)).encode())
    out(b"]}" if compact else b'\n  ],\n  "traceName": "./log/rank0.pt.trace.json"\n}\n')


def generate(
    path: Path, count: int, *, compact: bool = False, relative: bool = False, seed: int = 7
) -> Facts:
    """Write a trace and, beside it, `NAME.facts.json`; return the facts.

    Args:
        path: File to write; gzipped when its name ends in `.gz`.
        count: Events, at least 100.
        compact: No white space between tokens instead of Kineto's layout.
        relative: Stamps since a recent base, as newer Kineto writes, instead of since 1970.
        seed: Same seed, same file.
    """
    s = schedule(
        (count - CLOSING_EVENTS) // EVENTS_PER_LAUNCH,
        RELATIVE_ORIGIN_NS if relative else EPOCH_ORIGIN_NS,
        seed,
    )
    facts = _facts(s, count)
    if path.suffix == ".gz":
        with path.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1, mtime=0) as out:
            _write(out.write, s, count, compact=compact)
    else:
        with path.open("wb", buffering=1 << 22) as out:
            _write(out.write, s, count, compact=compact)
    facts_path(path).write_text(json.dumps(asdict(facts)))
    return facts


def facts_path(path: Path) -> Path:
    """Return where the facts of a generated file lie."""
    return path.with_name(path.name.removesuffix(".gz").removesuffix(".json") + ".facts.json")


def main() -> None:
    """Generate one file from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--compact", action="store_true")
    parser.add_argument("--relative", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    facts = generate(
        options.path, options.events, compact=options.compact, relative=options.relative, seed=options.seed
    )
    print(json.dumps({**asdict(facts), "file_bytes": options.path.stat().st_size}))


if __name__ == "__main__":
    main()
