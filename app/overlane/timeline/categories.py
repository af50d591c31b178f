"""What a drawn slice can be; the codes are part of the wire format."""

from __future__ import annotations

__all__ = ["CATEGORIES", "CATEGORY_LIMIT", "CODES"]

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
