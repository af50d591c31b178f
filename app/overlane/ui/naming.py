"""Names of traces: what to show for a file, what to call it in addresses, how to list several."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["enumerated", "short_name", "slug"]

_NAMES_SHOWN = 8
_STEMS = (
    ".overlane",
    ".pt.trace.json.gz",
    ".pt.trace.json",
    ".trace.json.gz",
    ".trace.json",
    ".json.gz",
    ".json",
    ".gz",
    ".trace",
)


def short_name(path: Path) -> str:
    """Return the file's name without the suffixes that traces carry."""
    name = path.name
    for suffix in _STEMS:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def slug(name: str) -> str:
    """Return a name as it stands in addresses."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "trace"


def enumerated(names: Iterable[str]) -> str:
    """Return the first few of some names as words."""
    shown = list(names)
    more = f" and {len(shown) - _NAMES_SHOWN} more" if len(shown) > _NAMES_SHOWN else ""
    return ", ".join(shown[:_NAMES_SHOWN]) + more
