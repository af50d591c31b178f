"""Viewport queries in the server: what `viewport.py` measures, with its budgets."""

from __future__ import annotations

from measure import Figure, run_worker

PART = "viewport"
P95_BUDGET_MS = 15.0  # any zoom, at 100 M slices
BUILD_BUDGET_SECONDS = 6.0  # at 100 M slices
SIZE_BUDGET = 25.0  # bytes of index per slice
WINDOWS = ("full", "10%", "1%", "0.01%")


def measure(*, is_quick: bool) -> list[Figure]:
    """Return query times by zoom, build time and index size for 1 M, 10 M and 100 M slices over 64 lanes."""
    figures = []
    for count in (1_000_000,) if is_quick else (1_000_000, 10_000_000, 100_000_000):
        for fill in ("even", "bursty"):
            figures += _figures(
                f"{count // 1_000_000} M, {fill}", run_worker("viewport_index", str(count), fill).answer
            )
    return figures


def _figures(label: str, answer: dict[str, object]) -> list[Figure]:
    answers = answer["answers"]
    found = [
        Figure(
            PART,
            f"{label}: {window} of the span, p95",
            answers[window]["p95_ms"],
            "ms",
            P95_BUDGET_MS,
            note=f"median {answers[window]['p50_ms']} ms, up to {answers[window]['items']:,} slices",
        )
        for window in WINDOWS
    ]
    return [
        *found,
        Figure(
            PART,
            f"{label}: eleven zoom levels and those above, p95",
            answers["all"]["p95_ms"],
            "ms",
            P95_BUDGET_MS,
        ),
        Figure(PART, f"{label}: index built", answer["build_s"], "s", BUILD_BUDGET_SECONDS),
        Figure(PART, f"{label}: index size", answer["bytes_per_slice"], "bytes/slice", SIZE_BUDGET),
    ]
