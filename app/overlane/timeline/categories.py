"""What a drawn slice can be; the codes are part of the wire format."""

from __future__ import annotations

__all__ = ["CATEGORIES", "CATEGORY_LIMIT", "CODES", "ENGINE_LABELS", "engine_label"]

CATEGORIES = (
    "other",
    "compute",
    "copy_h2d",
    "copy_d2h",
    "copy_d2d",
    "copy_p2p",
    "memset",
    "collective",
    "runtime_call",
    "driver_call",
    "sync",
    "operator",
    "annotation",
    "python",
    "profiler",
    "overhead",
    "instant",
    "counter",
)
"""Names by code: `CATEGORIES[code]`."""

CODES = {name: code for code, name in enumerate(CATEGORIES)}
"""Code of each category."""

CATEGORY_LIMIT = 32
"""Codes are below this; the compiled loops size their small arrays by it."""

ENGINE_LABELS = {
    "compute": "compute",
    "copy_h2d": "copy H2D",
    "copy_d2h": "copy D2H",
    "copy_d2d": "copy D2D",
    "copy_p2p": "copy P2P",
    "memset": "memset",
}
"""Engine to the words that lanes and pages use for it."""


def engine_label(engine: str | None) -> str:
    """Return the words for an engine; None is an operation whose engine the source does not say."""
    return "engine not recorded" if engine is None else ENGINE_LABELS.get(engine, engine)
