"""Where the marks and notes of a trace lie: in a file `NAME.notes` beside it, else in the cache folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from overlane.folders import cache_folder

__all__ = ["MOST_BYTES", "SUFFIX", "beside", "elsewhere", "latest"]

SUFFIX = ".notes"
MOST_BYTES = 512_000
"""Of one file; larger ones are none of ours."""


def beside(trace: Path) -> Path:
    """Return the file beside a trace.

    Example:
        >>> beside(Path("run.overlane")).name
        'run.overlane.notes'
    """
    return trace.with_name(trace.name + SUFFIX)


def elsewhere(trace: Path, folder: Path | None = None) -> Path:
    """Return the file for a trace whose folder is not to be written to.

    Args:
        trace: The trace, resolved.
        folder: Where such files lie; by default in the cache folder.
    """
    folder = folder if folder is not None else cache_folder() / "notes"
    return folder / (hashlib.sha256(str(trace).encode()).hexdigest()[:32] + SUFFIX)


def latest(trace: Path, folder: Path | None = None) -> tuple[Path, str] | None:
    """Return the file with the notes of a trace that was written last, and its text; None where it has none.

    Links are not followed, and what is too large or no JSON object with a revision is passed over.

    Args:
        trace: The trace, resolved.
        folder: As for `elsewhere`.
    """
    found: list[tuple[int, Path, str]] = []
    for path in (elsewhere(trace, folder), beside(trace)):
        try:
            if path.is_symlink() or path.stat().st_size > MOST_BYTES:
                continue
            text = path.read_text(encoding="utf-8")
            found.append((int(json.loads(text)["revision"]), path, text))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return max(found, key=lambda one: one[0])[1:] if found else None
