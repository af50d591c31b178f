"""Cold and warm open: from the file to the first answered viewport."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import load
import prepared
from measure import DATA, MB, ChildResult, Figure, figure_of, run_worker

PART = "open"
WARM_BUDGET_SECONDS = 0.3


def measure(*, is_quick: bool) -> list[Figure]:
    """Return open times in fresh processes, imports apart; cold means an empty cache of ours."""
    repeats = 3 if is_quick else 5
    figures = []
    for count in (1_000_000,) if is_quick else (1_000_000, 10_000_000):
        figures += _figures(
            prepared.trace_file(count), f"{count // 1_000_000} M operations, .overlane", repeats
        )
    count = 100_000 if is_quick else 1_000_000
    return figures + _figures(load.trace_file(count), f"{count // 1000} k events, Kineto JSON", repeats)


def _figures(path: Path, words: str, repeats: int) -> list[Figure]:
    folder = DATA / "cache-of-open"
    cold, warm = [], []
    for _ in range(repeats):
        shutil.rmtree(folder, ignore_errors=True)
        cold.append(run_worker("open_cached", path, folder))
        warm.append(run_worker("open_cached", path, folder))
    size = sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())
    shutil.rmtree(folder)
    ops = cold[0].answer["ops"]
    note = f"cache entry {size / MB:.0f} MB, {size / max(ops, 1):.0f} bytes per operation"
    return [
        figure_of(PART, f"{words}: cold", _seconds(cold), "s", note=f"{_processor_time(cold)}; {note}"),
        figure_of(
            PART,
            f"{words}: warm",
            _seconds(warm),
            "s",
            budget=WARM_BUDGET_SECONDS,
            note=_processor_time(warm),
        ),
        figure_of(PART, f"{words}: imports before it", [r.answer["import_seconds"] for r in warm], "s"),
    ]


def _seconds(results: list[ChildResult]) -> list[float]:
    return [result.answer["seconds"] for result in results]


def _processor_time(results: list[ChildResult]) -> str:
    return f"{statistics.median(result.answer['cpu_seconds'] for result in results):.2f} s of processor time"
