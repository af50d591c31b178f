"""Names of traces: what to show for a file, what to call it in addresses, how to list several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["enumerated", "short_name", "slug", "told_apart"]

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


def told_apart(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Return the names of files, those that several have with as much of their paths as tells them apart.

    Example:
        >>> told_apart(["run", "run", "x"], [Path("a/run.overlane"), Path("b/run.overlane"), Path("x.json")])
        ['a/run.overlane', 'b/run.overlane', 'x']
    """
    found = list(names)
    for name in {name for name in names if names.count(name) > 1}:
        places = [place for place, one in enumerate(names) if one == name]
        parts = [paths[place].absolute().parts for place in places]
        if len(set(parts)) == 1:  # one file, named several times
            continue
        for depth in range(1, max(map(len, parts)) + 1):
            tails = ["/".join(one[-depth:]) for one in parts]
            if len(set(tails)) == len(set(parts)):
                break
        for place, tail in zip(places, tails, strict=True):
            found[place] = tail
    return found


def slug(name: str) -> str:
    """Return a name as it stands in addresses."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "trace"


def enumerated(names: Iterable[str]) -> str:
    """Return the first few of some names as words."""
    shown = list(names)
    more = f" and {len(shown) - _NAMES_SHOWN} more" if len(shown) > _NAMES_SHOWN else ""
    return ", ".join(shown[:_NAMES_SHOWN]) + more
