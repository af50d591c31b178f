"""What a reader is, and the first bytes of a file that readers are chosen by."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from overlane.errors import TraceUnreadableError
from overlane.trace import Trace

__all__ = ["GZIP_SIGNATURE", "HEAD_BYTES", "Head", "Progress", "Reader"]

Progress = Callable[[float], object]
"""Called with the fraction that is done, 0 to 1; what it raises ends the reading."""

HEAD_BYTES = 1 << 16

GZIP_SIGNATURE = b"\x1f\x8b"
_BLANK = b" \t\r\n"
_BYTE_ORDER_MARKS = {b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"}


@dataclass(frozen=True)
class Head:
    """The first bytes of a file, by which readers tell whether it is theirs.

    Attributes:
        path: The file.
        head: First 64 KiB, inflated when the file is gzipped.
        is_gzip: The file is gzipped (by its content).
        size: Bytes of the file on disk.
    """

    path: Path
    head: bytes
    is_gzip: bool
    size: int

    @classmethod
    def of(cls, path: Path) -> Head:
        """Read the head of a file.

        Raises:
            TraceUnreadableError: There is no such file, it is a folder or not a plain file, may not be read,
                is empty, or starts like gzip but is not. A plain file that is called .gz is taken as it is.
        """
        try:
            if path == Path():
                raise TraceUnreadableError(
                    "the name of the trace is empty (or names the current folder); name one file"
                )
            if path.is_dir():
                raise TraceUnreadableError(f"{path} is a folder, not a trace; name one file inside it")
            if path.exists() and not path.is_file():
                raise TraceUnreadableError(
                    f"{path} is no plain file (a pipe, socket or device); save the trace to a file first"
                )
            size = path.stat().st_size
            with path.open("rb") as file:
                raw = file.read(HEAD_BYTES)
        except FileNotFoundError:
            raise TraceUnreadableError(f"there is no file {path}; check the name and the folder") from None
        except PermissionError:
            raise TraceUnreadableError(
                f"{path} may not be read by this user; change its permissions or copy it"
            ) from None
        except (OSError, ValueError) as error:
            raise TraceUnreadableError(
                f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; check its disk"
            ) from None
        if not raw:
            raise TraceUnreadableError(f"{path.name} is empty; record it again, or look for a copy")
        if not raw.startswith(GZIP_SIGNATURE):
            _refuse_blank(path, raw)
            return cls(path, raw, False, size)
        try:
            inflated = zlib.decompressobj(wbits=31).decompress(raw, HEAD_BYTES)
        except zlib.error as error:
            raise TraceUnreadableError(
                f"{path.name} is damaged: gzip reports {error} near its start; copy or record it again"
            ) from None
        if not inflated and size < HEAD_BYTES:
            raise TraceUnreadableError(
                f"{path.name} is a gzip file without content, or cut; fetch or record it again"
            )
        _refuse_blank(path, inflated)
        return cls(path, inflated, True, size)


def _refuse_blank(path: Path, content: bytes) -> None:
    if len(content) < HEAD_BYTES and content.strip(_BLANK) in _BYTE_ORDER_MARKS:
        raise TraceUnreadableError(
            f"{path.name} is empty but for white space; record it again, or look for a copy"
        )


class Reader(Protocol):
    """Turns files of one format into traces.

    Attributes:
        name: Name of the format, as `Header.format` gives it.
        description: One sentence for lists of formats.
    """

    name: str
    description: str

    def sniff(self, head: Head) -> bool:
        """Tell whether the file is of this format, by its content."""
        ...

    def read(self, path: Path, progress: Progress | None = None) -> Trace:
        """Read the file and return the validated trace.

        Raises:
            TraceUnreadableError: The file cannot be read as this format; the sentence says what to do.
        """
        ...
