"""Read traces of PyTorch's profiler (Kineto): Chrome trace JSON, plain or gzipped, of all ages since 2020."""

from __future__ import annotations

from pathlib import Path

from overlane.errors import TraceUnreadableError
from overlane.readers.base import Head, Progress
from overlane.trace import Trace

__all__ = ["KinetoReader"]


class KinetoReader:
    """Reads what `torch.profiler` exports.

    Every event of a file is in exactly one row, or counted in `header.dropped` with a reason:
    `source_events` equals the rows of ops, api_calls, syncs, event_records, ranges, instants, counters and
    overheads, less `extra["derived_rows"]` (rows that are no event of their own: further series of a counter,
    records of CUDA events that were derived from a call), plus the sum of `dropped`.

    Attributes:
        name: Name of the format.
        description: One sentence for lists of formats.
    """

    name = "kineto"
    description = "PyTorch profiler trace (Chrome trace JSON written by Kineto), plain or gzipped."

    def sniff(self, head: Head) -> bool:
        """Tell whether the content starts like JSON; what kind of JSON it is, reading it will tell."""
        start = head.head.removeprefix(b"\xef\xbb\xbf").lstrip()
        return start[:1] in {b"{", b"["} and start[1:2] != b"\0"  # a zero byte there is UTF-16

    def read(self, path: Path, progress: Progress | None = None) -> Trace:
        """Read the file and return the validated trace.

        Args:
            path: The file.
            progress: Called with the fraction that is done, 0 to 1; what it raises ends the reading.

        Raises:
            TraceUnreadableError: Not JSON, cut, damaged, JSON without traceEvents, or another program's
                Chrome trace.
        """
        # Compiled code is loaded when it is needed.
        from overlane.readers.kineto.assemble import assemble  # noqa: PLC0415
        from overlane.readers.kineto.parallel import scan_file  # noqa: PLC0415

        scanned = scan_file(path, is_gzip=Head.of(path).is_gzip, progress=progress)
        trace = assemble(path, scanned)
        if trace.header.dropped.get("not an object") == trace.header.source_events:
            raise TraceUnreadableError(
                f"{path.name} is JSON but no trace: its list holds no objects; "
                "name a file that PyTorch's profiler wrote"
            )
        if progress is not None:
            progress(1.0)
        return trace
