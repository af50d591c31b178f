"""Write `.overlane` files, our own format (`overlane_collect.writer`)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from overlane.errors import MachineError
from overlane.trace import Trace
from overlane_collect.errors import TraceFileError
from overlane_collect.schema import TABLES
from overlane_collect.writer import write_trace

__all__ = ["NativeWriter"]


class NativeWriter:
    """Writes what `overlane.readers.native` reads back equal."""

    name = "overlane"
    description = "Overlane's own trace file: everything, compact, and safe against damage."
    suffixes: tuple[str, ...] = (".overlane",)

    def write(self, trace: Trace, path: Path) -> None:
        """Write the trace; the header keeps the name of the format that it came from.

        Raises:
            MachineError: The disk is full or not writable.
        """
        header = trace.header
        if header.format != self.name:
            header = dataclasses.replace(
                header, format=self.name, extra={**header.extra, "source_format": header.format}
            )
        try:
            write_trace(path, header, {name: trace.table(name) for name in TABLES})
        except TraceFileError as error:
            raise MachineError(str(error)) from error
