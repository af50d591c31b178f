"""One measured job in a fresh process: `python worker.py JOB ARGUMENTS`; prints one JSON object.

Started by `measure.run_worker`, which watches its memory from outside. Imports lie in the jobs: peers run
in environments that have no Overlane, and when a job imports something is part of what it measures.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load_overlane(path: str, warm_up: str) -> dict[str, Any]:
    """Read a trace with Overlane; a small one first, which loads the compiled code."""
    begin = time.perf_counter()
    import numpy as np  # noqa: PLC0415

    from overlane.readers import open_trace  # noqa: PLC0415

    open_trace(Path(warm_up))
    cpu, started = time.process_time(), time.perf_counter()
    trace = open_trace(Path(path))
    done, cpu = time.perf_counter(), time.process_time() - cpu
    start, end = trace.column("ops", "start_ns"), trace.column("ops", "end_ns")
    return {
        "seconds": done - started,
        "cpu_seconds": cpu,
        "start_up_seconds": started - begin,
        "ops": len(start),
        "api_calls": trace.table("api_calls").num_rows,
        "ops_start_sum_ns": int(np.sum(start)),
        "ops_duration_sum_ns": int(np.sum(end - start)),
    }


def load_stdlib(path: str) -> dict[str, Any]:
    """Read a trace with the standard library's json into NumPy columns, times as the floats that it gives."""
    import gzip  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    started = time.perf_counter()
    with gzip.open(path, "rb") if path.endswith(".gz") else Path(path).open("rb") as file:
        rows = json.load(file)["traceEvents"]
    start = np.array([row["ts"] for row in rows])
    duration = np.array([row.get("dur", -1.0) for row in rows])
    args = [row.get("args", {}) for row in rows]
    for key in ("stream", "device", "correlation", "bytes"):
        np.array([values.get(key, -1) for values in args])
    names: dict[str, int] = {}
    np.array([names.setdefault(row.get("name", ""), len(names)) for row in rows])
    done = time.perf_counter()
    kinds = [row.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"} for row in rows]
    origin = int(start.min() * 1000)
    return {
        "seconds": done - started,
        "ops": sum(kinds),
        "ops_start_sum_ns": round(float((start[kinds] * 1000 - origin).sum())),
        "ops_duration_sum_ns": round(float(duration[kinds].sum() * 1000)),
    }


def load_hta(path: str) -> dict[str, Any]:
    """Read a trace with HolisticTraceAnalysis, with its defaults."""
    import logging  # noqa: PLC0415

    logging.disable(logging.CRITICAL)
    from hta.common.trace import parse_trace_file  # noqa: PLC0415

    started = time.perf_counter()
    _, frame, _ = parse_trace_file(path)
    return {"seconds": time.perf_counter() - started, "rows": len(frame)}


def open_cached(path: str, folder: str, warm_up: str = "") -> dict[str, Any]:
    """Open a trace through the cache and answer one viewport over its whole span, as the server does.

    Args:
        path: Trace to open.
        folder: Cache folder.
        warm_up: A small trace to open and answer for before the clock starts: a server that runs already.
    """
    begin = time.perf_counter()
    from overlane.cache import TraceCache  # noqa: PLC0415
    from overlane.timeline import Timeline, encode_tile  # noqa: F401, PLC0415 - loaded here, not on first use

    def answer(trace: str) -> tuple[int, int]:
        opened = TraceCache(Path(folder)).open(Path(trace))
        timeline = opened.timeline(opened.trace.ranks[0])
        tile = encode_tile(timeline.tile(0, opened.trace.span_ns, 1400, None))
        return opened.trace.table("ops").num_rows, len(tile)

    imported = time.perf_counter()
    if warm_up:
        answer(warm_up)
    cpu, started = time.process_time(), time.perf_counter()
    ops, answer_bytes = answer(path)
    return {
        "import_seconds": imported - begin,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "answer_bytes": answer_bytes,
        "ops": ops,
    }


def engine_report(path: str) -> dict[str, Any]:
    """Compute engines and overlaps of a trace; a microsecond of it first, which loads the compiled code."""
    from overlane.analysis.engines import engine_report as report  # noqa: PLC0415
    from overlane.readers import open_trace  # noqa: PLC0415

    trace = open_trace(Path(path))
    report(trace, window=(0, 1_000))
    started = time.perf_counter()
    result = report(trace).to_json()
    return {
        "seconds": time.perf_counter() - started,
        "ops": trace.table("ops").num_rows,
        "devices": len(result["devices"]),
    }


def write_file(source: str, target: str) -> dict[str, Any]:
    """Read a trace and write it as `.overlane`; only the writing is timed."""
    from overlane.readers import open_trace  # noqa: PLC0415
    from overlane_collect.schema import TABLES  # noqa: PLC0415
    from overlane_collect.writer import write_trace  # noqa: PLC0415

    trace = open_trace(Path(source))
    tables = {name: trace.table(name) for name in TABLES}
    started = time.perf_counter()
    write_trace(Path(target), trace.header, tables)
    seconds = time.perf_counter() - started
    rows = {name: table.num_rows for name, table in tables.items()}
    return {
        "seconds": seconds,
        "rows": sum(rows.values()),
        "ops": rows["ops"],
        "file_bytes": Path(target).stat().st_size,
    }


def viewport_index(slices: str, fill: str) -> dict[str, Any]:
    """Build an index of made-up slices and time its answers."""
    from viewport import measure_index  # noqa: PLC0415

    return dict(measure_index(int(slices), bursty=fill == "bursty"))


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    job.__name__: job
    for job in (load_overlane, load_stdlib, load_hta, open_cached, engine_report, write_file, viewport_index)
}


if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
