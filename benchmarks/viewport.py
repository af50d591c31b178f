"""Measure the timeline index: building it, answering viewports, opening it again.

    python benchmarks/viewport.py --slices 1e6 1e7 1e8 --json OUT

The slices are made up: log-normal durations of some microseconds with gaps on 64 lanes, or the same in
bursts that fill 1 % of the span. Each answer is for all lanes and 1,400 pixels and is timed with its
encoding.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from overlane.tables import empty_table, null_array, table_from_columns
from overlane.timeline import Timeline, encode_tile
from overlane.timeline.index import Layer
from overlane.timeline.lanes import Group, Lane, Tracks
from overlane.timeline.timeline import write_timeline
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.model import Header
from overlane_collect.schema import TABLES, arrow_schema

PX = 1_400
LANES = 64
CATEGORIES = 4
"""Categories on each lane, as on a stream with kernels, copies both ways and memsets."""

SHARES = {"full": 1.0, "10%": 0.1, "1%": 0.01, "0.01%": 1e-4}
SWEEP = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
POSITIONS = 8


def make_slices(slices: int, *, bursty: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return made-up lanes, starts, ends and categories, sorted by (lane, start)."""
    rng = np.random.default_rng(3)
    per = slices // LANES
    lane = np.repeat(np.arange(LANES, dtype=np.int32), per)
    start = np.empty(per * LANES, np.int64)
    end = np.empty(per * LANES, np.int64)
    category = rng.integers(1, 1 + CATEGORIES, per * LANES, dtype=np.uint8)
    for at in range(LANES):
        duration = np.minimum(rng.lognormal(8.6, 1.2, per), 5e6).astype(np.int64) + 200
        gap = (rng.exponential(3_000, per) * (rng.random(per) < 0.7)).astype(np.int64) + rng.integers(
            0, 500, per
        )
        begins = np.cumsum(gap + np.concatenate([[0], duration[:-1]]))
        if bursty:
            # One burst in the middle fills 1 % of the span; one slice stands at each end.
            length = int(begins[-1])
            begins[1:] += 49 * length
            begins[-1] += 50 * length
        mine = slice(at * per, (at + 1) * per)
        start[mine] = begins
        end[mine] = begins + duration
    return lane, start, end, category


def _timed(work: Any, repeats: int) -> list[tuple[float, float]]:
    """Return wall time and processor time (of all threads) of each run, in ms."""
    taken = []
    for _ in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        work()
        taken.append(((time.perf_counter() - began) * 1e3, (time.process_time() - used) * 1e3))
    return taken


def _quantiles(taken: list[tuple[float, float]]) -> dict[str, float]:
    wall = [run[0] for run in taken]
    processor = [run[1] for run in taken]
    return {
        "p50_ms": round(statistics.median(wall), 2),
        "p95_ms": round(float(np.quantile(wall, 0.95)), 2),
        "max_ms": round(max(wall), 2),
        "processor_p50_ms": round(statistics.median(processor), 2),
        "processor_p95_ms": round(float(np.quantile(processor, 0.95)), 2),
    }


def measure_queries(timeline: Timeline, span: int, *, bursty: bool, repeats: int = 3) -> dict[str, Any]:
    """Time full answers at several widths of the window, each at some random positions."""
    rng = np.random.default_rng(5)
    answers: dict[str, Any] = {}
    windows = list(SHARES.items()) + [(f"sweep {share:g}", share) for share in SWEEP]
    everything: list[tuple[float, float]] = []
    for name, share in windows:
        width = max(int(span * share), 1)
        taken: list[tuple[float, float]] = []
        size = items = 0
        for _ in range(POSITIONS):
            if bursty:  # elsewhere there is nothing to draw
                t0 = min(max(int(span * rng.uniform(0.49, 0.5)) - width // 2, 0), span - width)
            else:
                t0 = int(rng.integers(0, span - width + 1))

            def answer(t0: int = t0, width: int = width) -> None:
                nonlocal size, items
                tile = timeline.tile(t0, t0 + width, PX)
                size, items = max(size, len(encode_tile(tile))), max(items, len(tile))

            taken.extend(_timed(answer, repeats))
        answers[name] = {**_quantiles(taken), "items": items, "bytes": size}
        everything.extend(taken)
    answers["all"] = _quantiles(everything)
    return answers


def make_trace(lane: Any, start: Any, end: Any, category: Any) -> Trace:
    """Return a trace with these operations, one stream per lane, in order of start."""
    order = np.lexsort((end, start))
    engines = pa.array(["compute", "copy_h2d", "copy_d2h", "copy_d2d"])
    names = pa.array([f"void kernel_{n}<float>(float*, int)" for n in range(12)])
    rows = len(start)
    columns: dict[str, Any] = {
        "device_id": np.zeros(rows, np.int32),
        "context_id": np.ones(rows, np.int64),
        "stream_id": lane[order].astype(np.int64),
        "engine": pa.DictionaryArray.from_arrays((category[order] - 1).astype(np.int32), engines),
        "kind": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["kernel"])),
        "name": pa.DictionaryArray.from_arrays((order % 12).astype(np.int32), names),
        "start_ns": start[order],
        "end_ns": end[order],
    }
    tables = {name: empty_table(name) for name in TABLES}
    tables["ops"] = table_from_columns("ops", columns, is_sorted=True)
    return validate("synthetic", Header("benchmark", synthetic=True), tables)


def _bare_timeline(span: int, lanes: int, layer: Layer, folder: Path) -> Any:
    """Index one layer alone; the trace behind it has times and names for its rows and nothing else."""
    rows = len(layer.start)
    columns = {field.name: null_array(field.type, rows) for field in arrow_schema("ops")}
    columns["start_ns"], columns["end_ns"] = pa.array(layer.start), pa.array(layer.end)
    first_word = pa.Array.from_buffers(pa.int32(), rows, [None, null_array(pa.int32(), rows).buffers()[1]])
    columns["name"] = pa.DictionaryArray.from_arrays(first_word, pa.array(["kernel"]))
    tables = {name: empty_table(name) for name in TABLES}
    tables["ops"] = pa.table(columns, schema=pa.schema([f.with_nullable(True) for f in arrow_schema("ops")]))
    trace = Trace("synthetic", Header("benchmark", synthetic=True), tables)
    trace.span_ns, trace.ranks = span, (None,)
    group = Group("d0", None, "GPU 0", "device")
    described = [Lane(f"s:{n}", "d0", f"stream {n}", "stream", "ops") for n in range(lanes)]
    return trace, write_timeline(trace, None, Tracks([group], described, [layer]), folder)


def measure_index(slices: int, *, bursty: bool = False) -> dict[str, Any]:
    """Build an index of made-up slices, open it, time its answers."""
    lane, start, end, category = make_slices(slices, bursty=bursty)
    span = int(end.max())
    with tempfile.TemporaryDirectory(prefix="overlane-bench-") as name:
        folder = Path(name)
        began = time.perf_counter()
        trace, placement = _bare_timeline(span, LANES, Layer("slices", lane, start, end, category), folder)
        build_s = time.perf_counter() - began
        del lane, start, end, category
        gc.collect()
        began = time.perf_counter()
        timeline = Timeline.open(trace, None, folder)
        encode_tile(timeline.tile(0, span, PX))
        first_ms = (time.perf_counter() - began) * 1e3
        answers = measure_queries(timeline, span, bursty=bursty)
    return {
        "slices": placement.slices,
        "set": "bursty" if bursty else "even",
        "build_s": round(build_s, 2),
        "bytes_per_slice": round(placement.index_bytes / max(placement.slices, 1), 2),
        "open_to_first_answer_ms": round(first_ms, 1),
        "answers": answers,
    }


_WARM = """
import json, sys, time
began = time.perf_counter()
from overlane.cache import TraceCache
from overlane.timeline import encode_tile, warm_up
warm_up()
imported = time.perf_counter()
opened = TraceCache(sys.argv[1]).open(sys.argv[2])
timeline = opened.timeline(None)
encode_tile(timeline.tile(0, opened.trace.span_ns, 1400))
answered = time.perf_counter()
facts = {"imports_and_compiled_code_s": imported - began, "open_to_first_answer_s": answered - imported}
print(json.dumps(facts))
"""


def measure_open(slices: int, *, repeats: int = 5) -> dict[str, Any]:
    """Prepare a trace in a cache, then open it in new processes up to the first full answer."""
    from overlane import readers  # noqa: PLC0415
    from overlane.cache import TraceCache  # noqa: PLC0415

    trace = make_trace(*make_slices(slices))
    with tempfile.TemporaryDirectory(prefix="overlane-bench-") as name:
        source = Path(name) / "synthetic"
        source.write_bytes(b"stands for a source that a reader would read")
        read, readers.open_trace = readers.open_trace, lambda _path, progress=None: trace  # noqa: ARG005
        try:
            began = time.perf_counter()
            opened = TraceCache(Path(name) / "cache").open(source)
            stored_s = time.perf_counter() - began
        finally:
            readers.open_trace = read
        began = time.perf_counter()
        opened.timeline(None)
        index_s = time.perf_counter() - began
        opened.close()
        command = [sys.executable, "-c", _WARM, str(Path(name) / "cache"), str(source)]
        runs = [json.loads(subprocess.check_output(command)) for _ in range(repeats)]
    return {
        "slices": trace.table("ops").num_rows,
        "store_tables_s": round(stored_s, 2),
        "build_timeline_s": round(index_s, 2),
        **{key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]},
    }


def measure_viewport(sizes: Sequence[int], *, largest_open: int = 10_000_000) -> dict[str, Any]:
    """Run everything for some numbers of slices; returns JSON values."""
    index = [measure_index(size, bursty=bursty) for size in sizes for bursty in (False, True)]
    return {"index": index, "open": [measure_open(size) for size in sizes if size <= largest_open]}


def print_table(results: dict[str, Any]) -> None:
    """Print what `measure_viewport` returned."""
    windows = [*SHARES, "all"]
    print(
        f"{'slices':>12} {'set':>7} {'build s':>8} {'B/slice':>8}"
        + "".join(f"{w + ' p50/p95 ms':>20}" for w in windows)
    )
    for row in results["index"]:
        cells = "".join(
            f"{row['answers'][w]['p50_ms']:>12.1f}/{row['answers'][w]['p95_ms']:<7.1f}" for w in windows
        )
        print(
            f"{row['slices']:>12,} {row['set']:>7} {row['build_s']:>8.2f} "
            f"{row['bytes_per_slice']:>8.1f}{cells}"
        )
        sweep = [
            f"{name[6:]}: {a['p50_ms']:.1f}/{a['p95_ms']:.1f}"
            for name, a in row["answers"].items()
            if name[:5] == "sweep"
        ]
        print(f"{'':>12} sweep {', '.join(sweep)}")
    for row in results["open"]:
        print(
            f"{row['slices']:>12,} tables stored in {row['store_tables_s']} s, "
            f"timeline built in {row['build_timeline_s']} s, warm open to first answer "
            f"{row['open_to_first_answer_s']} s "
            f"(imports and compiled code {row['imports_and_compiled_code_s']} s before that)"
        )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--slices", nargs="+", type=float, default=[1e6, 1e7, 1e8])
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    results = measure_viewport([int(size) for size in options.slices])
    print_table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
