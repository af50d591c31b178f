"""The `.overlane` file: bytes per operation and write rate."""

from __future__ import annotations

from pathlib import Path

import load
import prepared
from measure import DATA, HERE, Figure, figure_of, run_worker

PART = "file"
SIZE_BUDGET = 10.0  # bytes per operation of a typical trace
RATE_BUDGET = 3.0e6  # rows/s
SAMPLE = HERE.parent / "sample_traces" / "torch_train_pinned.json.gz"


def measure(*, is_quick: bool) -> list[Figure]:
    """Return size and rate for synthetic operations, for a recording and for generated profiler JSON."""
    count, repeats = (1_000_000, 3) if is_quick else (10_000_000, 5)
    label = f"{count // 1_000_000} M operations"
    detailed = prepared.trace_file(count, is_detailed=True)
    return [
        *_figures(
            detailed, f"{label}, all columns of a profiler", repeats, unit="operation", is_typical=True
        ),
        *_figures(prepared.trace_file(count), f"{label}, times and names only", repeats, unit="operation"),
        *_figures(SAMPLE, "H200 training sample", repeats, unit="row"),
        *_figures(load.trace_file(1_000_000), "1 M events of Kineto JSON with shapes", repeats, unit="row"),
    ]


def _figures(source: Path, words: str, repeats: int, *, unit: str, is_typical: bool = False) -> list[Figure]:
    target = DATA / "written.overlane"
    answers = [run_worker("write_file", source, target).answer for _ in range(repeats)]
    target.unlink()
    first = answers[0]
    size, note = first["file_bytes"] / first["rows"], f"{first['rows']:,} rows in all tables"
    return [
        Figure(PART, f"{words}: size", size, f"bytes/{unit}", SIZE_BUDGET if is_typical else None, note=note),
        figure_of(
            PART,
            f"{words}: write rate",
            [answer["rows"] / answer["seconds"] for answer in answers],
            "rows/s",
            budget=RATE_BUDGET if is_typical else None,
            better="higher",
        ),
    ]
