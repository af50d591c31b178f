"""The list of readers, and the choice of one by a file's content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from overlane.errors import OverlaneError, TraceUnreadableError
from overlane.readers.base import GZIP_SIGNATURE, Head, Reader
from overlane.readers.kineto import KinetoReader
from overlane.readers.native import NativeReader

__all__ = ["READERS", "Registry"]

READERS: tuple[Reader, ...] = (NativeReader(), KinetoReader())
"""All readers, asked in this order."""

_SQLITE = b"SQLite format 3\x00"
_PACKED = {GZIP_SIGNATURE: "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_WIDE_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_ADVICE = "record the program with PyTorch's profiler (export_chrome_trace) or with overlane"


class Registry:
    """A list of readers.

    Example:
        >>> [reader.name for reader in Registry()]
        ['overlane', 'kineto']
    """

    def __init__(self, readers: Sequence[Reader] = READERS) -> None:
        self._readers = tuple(readers)

    def __iter__(self) -> Iterator[Reader]:
        return iter(self._readers)

    def get(self, name: str) -> Reader:
        """Return the reader of a format.

        Raises:
            OverlaneError: No reader has this name; the known ones are listed.
        """
        for reader in self._readers:
            if reader.name == name:
                return reader
        raise OverlaneError(
            f"no reader is called {name}; known: {', '.join(reader.name for reader in self._readers)}"
        )

    def find(self, path: Path) -> Reader:
        """Return the reader for a file, chosen by its content.

        Raises:
            TraceUnreadableError: The file cannot be opened, or no reader knows it; the sentence says what it
                looks like.
        """
        head = Head.of(Path(path))
        for reader in self._readers:
            if reader.sniff(head):
                return reader
        raise TraceUnreadableError(
            f"{head.path.name} is not a trace that Overlane reads: {_looks_like(head)}"
        )


def _looks_like(head: Head) -> str:
    name, content = head.path.name, head.head
    if content.startswith(_SQLITE):
        return (
            f"it is an SQLite database (Nsight Systems, rocpd), for which there is no reader yet; {_ADVICE}"
        )
    if name.endswith((".nsys-rep", ".qdrep")):
        return f"it is a report of Nsight Systems, which only nsys itself can read; {_ADVICE}"
    if name.endswith(".ncu-rep"):
        return f"it is a report of Nsight Compute, which holds counters and no timeline; {_ADVICE}"
    if name.endswith((".xplane.pb", ".pb")):
        return f"it looks like an XPlane of JAX or TensorFlow, for which there is no reader yet; {_ADVICE}"
    if name.endswith((".pftrace", ".perfetto-trace")):
        return f"it looks like a Perfetto protobuf trace, for which there is no reader yet; {_ADVICE}"
    for signature, packer in _PACKED.items():
        if content.startswith(signature):
            inside = " inside gzip" if head.is_gzip else ""
            return f"it is packed with {packer}{inside}; unpack it, or pack it with gzip once"
    if head.path.suffix == ".gz" and not head.is_gzip:
        return "it is called .gz but is not gzipped; fetch it again"
    encoding = _wide_encoding(content)
    if encoding is not None:
        return f"it is text in {encoding}; save it as UTF-8 (PowerShell: Set-Content -Encoding utf8)"
    if content.startswith(b"PK"):
        return "it is a ZIP archive; unpack it and name the trace inside"
    if (
        content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1].isascii()
        and b"\0" not in content[:4096]
        and b"," in content[:200]
    ):
        return f"it looks like text, perhaps CSV, but holds no JSON; {_ADVICE}"
    return f"its content is of no known format; {_ADVICE}"


def _wide_encoding(content: bytes) -> str | None:
    """Return UTF-16 or UTF-32 for text with a byte order mark, or that starts with two ASCII characters."""
    for mark, encoding in _WIDE_MARKS.items():
        if content.startswith(mark):
            return encoding
    zeros = tuple(byte == 0 for byte in content[:8])
    if zeros in {(False, True, True, True) * 2, (True, True, True, False) * 2}:
        return "UTF-32"
    return "UTF-16" if zeros[:4] in {(False, True) * 2, (True, False) * 2} else None
