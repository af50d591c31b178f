"""Write a trace in other formats: one module each, listed here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from overlane.errors import OverlaneError
from overlane.trace import Trace
from overlane.writers.chrome import ChromeWriter
from overlane.writers.csv import CsvWriter
from overlane.writers.native import NativeWriter
from overlane.writers.parquet import ParquetWriter

__all__ = ["WRITERS", "Writer", "WriterRegistry"]


class Writer(Protocol):
    """One output format.

    Attributes:
        name: Name of the format, for `--to`.
        description: One sentence for lists of formats.
        suffixes: File name endings that mean this format; empty for folders.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]

    def write(self, trace: Trace, path: Path) -> None:
        """Write a trace to `path`, which takes its name only when everything is written.

        Raises:
            OverlaneError: It cannot be written.
            OSError: The disk is full or not writable.
        """


class WriterRegistry:
    """Writers by name.

    Args:
        writers: The writers; by default all.

    Example:
        >>> WriterRegistry().for_path(Path("run.overlane")).name
        'overlane'
    """

    def __init__(self, writers: Sequence[Writer] | None = None) -> None:
        known: Sequence[Writer] = (NativeWriter(), ChromeWriter(), ParquetWriter(), CsvWriter())
        self._writers = {writer.name: writer for writer in (known if writers is None else writers)}

    def __iter__(self) -> Iterator[Writer]:
        return iter(self._writers.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all formats."""
        return tuple(self._writers)

    def find(self, name: str) -> Writer:
        """Return the writer of a format.

        Raises:
            OverlaneError: There is none; the message lists the known ones.
        """
        if name not in self._writers:
            raise OverlaneError(f"there is no format {name!r} to write; known: {', '.join(self.names)}")
        return self._writers[name]

    def for_path(self, path: Path) -> Writer:
        """Return the writer whose file name ending `path` has.

        Raises:
            OverlaneError: The name tells no format.
        """
        for writer in self:
            if path.name.lower().endswith(writer.suffixes or "\0"):
                return writer
        raise OverlaneError(
            f"the name {path.name!r} tells no format; add --to with one of {', '.join(self.names)}"
        )


WRITERS = WriterRegistry()
"""All output formats."""
