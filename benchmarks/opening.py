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
    """Return open times, imports apart; cold means an empty cache of ours, warm a filled one."""
    repeats = 3 if is_quick else 5
    figures = []
    for count in (1_000_000,) if is_quick else (1_000_000, 10_000_000):
        figures += _figures(
            prepared.trace_file(count), f"{count // 1_000_000} M operations, .overlane", repeats
        )
    count = 100_000 if is_quick else 1_000_000
    return figures + _figures(load.trace_file(count), f"{count // 1000} k events, Kineto JSON", repeats)


def _figures(path: Path, words: str, repeats: int) -> list[Figure]:
    folder, small = DATA / "cache-of-open", load.trace_file(2_000)
    cold, first, running = [], [], []
    for _ in range(repeats):
        shutil.rmtree(folder, ignore_errors=True)
        cold.append(run_worker("open_cached", path, folder))
        first.append(run_worker("open_cached", path, folder))
        running.append(run_worker("open_cached", path, folder, small))
    size = sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())
    shutil.rmtree(folder)
    ops = cold[0].answer["ops"]
    note = f"cache of {size / MB:.0f} MB, {size / max(ops, 1):.0f} bytes per operation"
    budget = WARM_BUDGET_SECONDS
    return [
        _figure(f"{words}: cold", cold, note=note),
        _figure(f"{words}: warm, compiled code loaded (a running server)", running, budget=budget),
        _figure(f"{words}: warm, first in its process", first, budget=budget),
        figure_of(PART, f"{words}: imports before it", [r.answer["import_seconds"] for r in first], "s"),
    ]


def _figure(name: str, results: list[ChildResult], *, budget: float | None = None, note: str = "") -> Figure:
    cpu = f"{statistics.median(result.answer['cpu_seconds'] for result in results):.2f} s of processor time"
    seconds = [result.answer["seconds"] for result in results]
    return figure_of(
        PART, name, seconds, "s", budget=budget, note="; ".join(text for text in (cpu, note) if text)
    )
