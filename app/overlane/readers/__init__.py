"""Readers: file -> validated `Trace`."""

from __future__ import annotations

from pathlib import Path

from overlane.readers.base import Head, Progress, Reader
from overlane.trace import Trace

__all__ = ["Head", "Progress", "Reader", "open_trace"]


def open_trace(path: str | Path, *, progress: Progress | None = None) -> Trace:
    """Read a trace file of any known format.

    Args:
        path: The file.
        progress: Called with the fraction that is done, 0 to 1; what it raises ends the reading.

    Returns:
        The validated trace.

    Raises:
        TraceUnreadableError: The file cannot be read as a trace; the sentence says what it is and what to do.

    Example:
        >>> from overlane.samples import sample_path
        >>> open_trace(sample_path("torch_cudagraph")).header.format
        'kineto'
    """
    # The registry imports every reader, and so this module.
    from overlane.readers.registry import Registry  # noqa: PLC0415

    return Registry().find(Path(path)).read(Path(path), progress)
