"""How commands open the trace that they were given: one argument, one progress bar."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from overlane.commands.output import printable

if TYPE_CHECKING:
    from typing import Self

    from overlane.trace import Trace

__all__ = ["Activity", "ProgressBar", "add_trace_argument", "load"]

_SHOWN_AFTER_S = 0.5  # a bar that flashes by disturbs more than it tells
_EVERY_S = 0.1
_CELLS = 30


def add_trace_argument(parser: argparse.ArgumentParser, name: str = "trace") -> None:
    """Declare the trace file that a command reads."""
    parser.add_argument(
        name,
        metavar=name.upper(),
        type=Path,
        help="trace file: .overlane, or PyTorch profiler JSON, plain or gzipped",
    )


class ProgressBar:
    """Progress of a long load, on standard error and only on a terminal.

    Args:
        words: What is being done.
        stream: Where to draw.
    """

    def __init__(self, words: str, stream: TextIO | None = None) -> None:
        self._words = words
        self._stream = stream or sys.stderr
        self._is_shown = self._stream.isatty()
        self._started = self._drawn = time.monotonic()
        self._has_drawn = False

    def __call__(self, fraction: float) -> None:
        """Draw how much is done, 0 to 1."""
        now = time.monotonic()
        if not self._is_shown or now - self._started < _SHOWN_AFTER_S or now - self._drawn < _EVERY_S:
            return
        self._drawn, self._has_drawn = now, True
        cells = int(_CELLS * min(max(fraction, 0.0), 1.0))
        bar = "#" * cells + "." * (_CELLS - cells)
        self._stream.write(f"\r{self._words} [{bar}] {100 * fraction:3.0f} %")
        self._stream.flush()

    def clear(self) -> None:
        """Take the bar away."""
        if self._has_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class Activity:
    """What is being computed, on standard error and only on a terminal, while it takes long.

    Args:
        stream: Where to write.

    Example:
        >>> with Activity() as activity:
        ...     activity("critical_path")
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._words = ""
        self._is_shown = False
        self._timer = threading.Timer(_SHOWN_AFTER_S, self._show)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Begin to show it, a moment later."""
        if self._stream.isatty():
            self._timer.start()
        return self

    def __call__(self, name: str) -> None:
        """Say what is computed from now on."""
        with self._lock:
            self._words = f"computing {name.replace('_', ' ')} …"
            self._draw()

    def __exit__(self, *_: object) -> None:
        """Take the words away."""
        self._timer.cancel()
        with self._lock:
            self._words = ""
            self._draw()
            self._is_shown = False

    def _show(self) -> None:
        with self._lock:
            self._is_shown = True
            self._draw()

    def _draw(self) -> None:
        if self._is_shown:
            self._stream.write(f"\r\x1b[K{self._words}")
            self._stream.flush()


def load(path: Path) -> Trace:
    """Open a trace, with a progress bar where it takes long.

    Raises:
        TraceUnreadableError: It cannot be read.
    """
    from overlane.readers import open_trace  # noqa: PLC0415 - help must answer without loading the readers

    bar = ProgressBar(printable(f"reading {path.name}"))
    try:
        return open_trace(path, progress=bar)
    finally:
        bar.clear()
