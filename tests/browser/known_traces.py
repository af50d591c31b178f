"""Traces made by hand for the browser tests: what the page must show is known before it is asked.

`known` has one GPU with three streams (times in ms unless said):

    stream 7 (compute)   gemm_long  [10, 500)    attention [600, 900)
                         tiny_fill  1000 kernels of 10 us every 40 us from 1000 on
                         lone_kernel [2500, 2500.005)    gemm_late [3200, 3999)
    stream 13 (H2D)      Memcpy HtoD [400, 700)
    stream 20 (D2H)      Memcpy DtoH [3500, 4000)

So compute is busy 490 + 300 + 10 + 0.005 + 799, H2D 300, D2H 500. Compute and H2D overlap in [400, 500)
and [600, 700), compute and D2H in [3500, 3999). Copies without compute are [500, 600) and [3999, 4000). The
device is busy in [10, 900), for 10.005 in the burst and the lone kernel, and in [3200, 4000): 1700.005 of its
window [10, 4000), so idle for 2289.995.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from overlane.tables import table_from_columns
from overlane_collect.model import Header
from overlane_collect.writer import write_trace

TWINS = ("first/run.json", "other/run.json", "twin.json", "twin.trace.json")

US = 1_000
MS = 1_000_000
SPAN_NS = 4_000 * MS

TINY_COUNT = 1_000
TINY_FIRST_NS, TINY_STEP_NS, TINY_LENGTH_NS = 1_000 * MS, 40 * US, 10 * US

MARKUP_NAME = '<img src=x onerror="window.hostile = 1"><script>window.hostile = 2</script>'
LONG_NAME = "void very::long_kernel<" + ", ".join(f"Argument{i}<float>" for i in range(300)) + ">()"
ARABIC_NAME = "نواة طويلة (int)"
EMOJI_NAME = "🔥 fused 🚀 kernel"
HOSTILE_NAMES = (MARKUP_NAME, LONG_NAME, ARABIC_NAME, EMOJI_NAME)
HOSTILE_FILE = "<b>bold<img src=x onerror=window.hostile=3> & 'quotes'.overlane"


def _operations() -> list[tuple[str, str, str, int, int, int, int | None]]:
    """Return (name, engine, kind, stream, start, end, correlation) of the known trace's device work."""
    rows: list[tuple[str, str, str, int, int, int, int | None]] = [
        ("gemm_long", "compute", "kernel", 7, 10 * MS, 500 * MS, 1),
        ("Memcpy HtoD (Pinned -> Device)", "copy_h2d", "memcpy", 13, 400 * MS, 700 * MS, 2),
        ("attention", "compute", "kernel", 7, 600 * MS, 900 * MS, 3),
    ]
    for i in range(TINY_COUNT):
        start = TINY_FIRST_NS + i * TINY_STEP_NS
        rows.append(("tiny_fill", "compute", "kernel", 7, start, start + TINY_LENGTH_NS, None))
    rows += [
        ("lone_kernel", "compute", "kernel", 7, 2_500 * MS, 2_500 * MS + 5 * US, 4),
        ("gemm_late", "compute", "kernel", 7, 3_200 * MS, 3_999 * MS, 5),
        ("Memcpy DtoH (Device -> Pinned)", "copy_d2h", "memcpy", 20, 3_500 * MS, 4_000 * MS, 6),
    ]
    return rows


# Row ids of the known trace's operations: positions by start.
GEMM_LONG, H2D, ATTENTION, FIRST_TINY = 0, 1, 2, 3
LONE = FIRST_TINY + TINY_COUNT
GEMM_LATE, D2H = LONE + 1, LONE + 2


def _ops_table(rows: list[tuple[str, str, str, int, int, int, int | None]]) -> pa.Table:
    names, engines, kinds, streams, starts, ends, correlations = zip(*rows, strict=True)
    count = len(rows)
    return table_from_columns(
        "ops",
        {
            "device_id": [0] * count,
            "context_id": [1] * count,
            "stream_id": list(streams),
            "engine": list(engines),
            "kind": list(kinds),
            "name": list(names),
            "start_ns": list(starts),
            "end_ns": list(ends),
            "correlation_id": list(correlations),
            "bytes": [1 << 20 if kind == "memcpy" else None for kind in kinds],
        },
    )


def _identity_tables(streams: list[int]) -> dict[str, pa.Table]:
    return {
        "devices": table_from_columns(
            "devices", {"device_id": [0], "name": ["Known GPU"], "sm_count": [132]}
        ),
        "streams": table_from_columns(
            "streams",
            {"device_id": [0] * len(streams), "context_id": [1] * len(streams), "stream_id": streams},
        ),
    }


def write_known(path: Path) -> None:
    """Write the trace of the module's docstring, with the host's calls and nested ranges."""
    calls = [  # name, start, end, correlation
        ("cudaLaunchKernel", 0, 20 * US, 1),
        ("cudaMemcpyAsync", 390 * MS, 391 * MS, 2),
        ("cudaLaunchKernel", 590 * MS, 591 * MS, 3),
        ("cudaLaunchKernel", 2_400 * MS, 2_400 * MS + 8 * US, 4),
        ("cudaLaunchKernel", 3_190 * MS, 3_191 * MS, 5),
        ("cudaMemcpyAsync", 3_490 * MS, 3_491 * MS, 6),
    ]
    ranges = [  # track, name, start, end, nesting level
        ("annotation", "epoch 1", 0, 4_000 * MS, 0),
        ("operator", "step", 0, 1_000 * MS, 0),
        ("operator", "forward", 5 * MS, 500 * MS, 1),
        ("operator", "linear", 10 * MS, 250 * MS, 2),
        ("operator", "backward", 510 * MS, 990 * MS, 1),
    ]
    tables = {
        "ops": _ops_table(_operations()),
        "api_calls": table_from_columns(
            "api_calls",
            {
                "process_id": [100] * len(calls),
                "thread_id": [100] * len(calls),
                "api": ["runtime"] * len(calls),
                "name": [call[0] for call in calls],
                "start_ns": [call[1] for call in calls],
                "end_ns": [call[2] for call in calls],
                "correlation_id": [call[3] for call in calls],
            },
        ),
        "ranges": table_from_columns(
            "ranges",
            {
                "process_id": [100] * len(ranges),
                "thread_id": [100] * len(ranges),
                "track": [item[0] for item in ranges],
                "name": [item[1] for item in ranges],
                "start_ns": [item[2] for item in ranges],
                "end_ns": [item[3] for item in ranges],
                "nesting_level": [item[4] for item in ranges],
            },
        ),
        "threads": table_from_columns(
            "threads", {"process_id": [100], "thread_id": [100], "process_name": ["python"], "name": ["main"]}
        ),
        **_identity_tables([7, 13, 20]),
    }
    write_trace(path, Header(format="overlane", producer="known answers", synthetic=True), tables)


def write_hostile(path: Path) -> None:
    """Write a trace whose names try to be more than text: kernels of 100 ms, one after another."""
    rows = [
        (name, "compute", "kernel", 7, i * 200 * MS, i * 200 * MS + 100 * MS, None)
        for i, name in enumerate(HOSTILE_NAMES)
    ]
    header = Header(format="overlane", producer=MARKUP_NAME, synthetic=True)
    write_trace(path, header, {"ops": _ops_table(rows), **_identity_tables([7])})


def write_without_gpu_work(path: Path) -> None:
    """Write a profiler file of a program that never used a GPU."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10.0 * i, "dur": 5.0}
        for i in range(20)
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


def write_twins(folder: Path) -> None:
    """Write traces that share a stem, and two of one name in two folders."""
    for name in TWINS:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        write_without_gpu_work(path)


def write_broken(path: Path) -> None:
    """Write a profiler file that was cut in the middle."""
    path.write_text(
        '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "cut", "pid": 0, "ti'
    )
