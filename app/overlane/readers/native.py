"""Read `.overlane` files, our own format (`overlane_collect.writer`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from overlane.errors import TraceUnreadableError
from overlane.trace import Trace
from overlane.validation import validate
from overlane_collect.errors import TraceFileError
from overlane_collect.writer import is_trace_head, read_members

if TYPE_CHECKING:
    from overlane.readers.base import Head

__all__ = ["NativeReader"]

_ZIP_SIGNATURE = b"PK\x03\x04"


class NativeReader:
    """Reads what `overlane_collect.writer.write_trace` wrote, and refuses it when a byte differs.

    Attributes:
        name: Name of the format.
        description: One sentence for lists of formats.
    """

    name = "overlane"
    description = "Overlane's own trace file: a ZIP archive of meta.json and one Parquet file per table."

    def sniff(self, head: Head) -> bool:
        """Tell whether a file looks like ours.

        A ZIP archive called `.overlane` counts too, so that a damaged one gets this reader's own sentence.
        """
        is_named = head.path.suffix == ".overlane" and head.head.startswith(_ZIP_SIGNATURE)
        return is_trace_head(head.head) or is_named

    def read(self, path: Path, progress: Callable[[float], object] | None = None) -> Trace:
        """Return the trace.

        Args:
            path: The file.
            progress: Called with the fraction that is done, 0 to 1; what it raises ends the reading.

        Raises:
            TraceUnreadableError: Not such a file, cut, damaged, or of another version.
            TraceInvalidError: Its tables break the trace contract.
        """
        try:
            header, tables = read_members(path)
        except TraceFileError as error:
            raise TraceUnreadableError(str(error)) from error
        if progress is not None:
            progress(0.9)  # checking is the last tenth
        trace = validate(path.stem, header, tables)
        if progress is not None:
            progress(1.0)
        return trace
