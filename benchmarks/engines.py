"""Engines and overlaps of ten million operations."""

from __future__ import annotations

import prepared
from measure import Figure, figure_of, run_worker

PART = "engines"
BUDGET_SECONDS = 0.5


def measure(*, is_quick: bool) -> list[Figure]:
    """Return how long the engine report takes, compiled code loaded, columns in memory."""
    count, repeats = (1_000_000, 3) if is_quick else (10_000_000, 5)
    path = prepared.trace_file(count)
    answers = [run_worker("engine_report", path).answer for _ in range(repeats)]
    name = f"engines, overlaps, concurrency of {count // 1_000_000} M operations"
    return [figure_of(PART, name, [answer["seconds"] for answer in answers], "s", budget=BUDGET_SECONDS)]
