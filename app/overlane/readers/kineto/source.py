"""The bytes of a trace file as pieces that end between events, read or inflated when they are asked for."""

from __future__ import annotations

import queue
import re
import zlib
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overlane.errors import TraceUnreadableError
from overlane.readers.base import GZIP_SIGNATURE
from overlane.readers.kineto.grown import mapped
from overlane.readers.kineto.text import PADDING

if TYPE_CHECKING:
    from io import BufferedIOBase

Array = np.ndarray[Any, np.dtype[np.uint8]]

__all__ = ["PIECE_BYTES", "Piece", "pieces"]

PIECE_BYTES = 2 << 20
"""Text of one piece: Python's share per piece stays under a hundredth, and the cache holds it."""

_CARRY_BYTES = 1 << 16
"""Room for the text that a block leaves behind its last border; more of it takes a new buffer."""

_GZIP = 31
"""How zlib is told of gzip's frame."""

_BORDER = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id)"\s*:)')
"""What usually stands between two events; only likely (it may lie inside a string), the scanner proves it."""


class Piece:
    """Some text of the file.

    Attributes:
        buffer: uint8 array: the text and at least `text.PADDING` more bytes.
        size: Bytes of text.
        offset: Place of the text within the unpacked file.
        is_last: Nothing follows.
        done_fraction: Share of the file that was read when the piece was made.
    """

    def __init__(
        self,
        buffer: Array,
        size: int,
        offset: int,
        *,
        is_last: bool,
        done_fraction: float,
        spare: queue.SimpleQueue[Array] | None = None,
    ) -> None:
        self.buffer = buffer
        self.size = size
        self.offset = offset
        self.is_last = is_last
        self.done_fraction = done_fraction
        self._spare = spare

    def release(self) -> None:
        """Give the buffer back to be filled again; the piece must not be used afterwards."""
        if self._spare is not None:
            self._spare.put(self.buffer)

    def text(self, start: int = 0) -> bytes:
        """Return the bytes from `start` on."""
        return self.buffer[start : self.size].tobytes()

    def joined(self, start: int, following: Piece) -> Piece:
        """Return what is left of this piece from `start` on, with the next piece behind it."""
        content = self.text(start) + following.text()
        buffer = np.zeros(len(content) + PADDING, np.uint8)
        buffer[: len(content)] = np.frombuffer(content, np.uint8)
        return Piece(
            buffer,
            len(content),
            self.offset + start,
            is_last=following.is_last,
            done_fraction=following.done_fraction,
        )


def _open(path: Path, *, is_gzip: bool) -> BufferedIOBase:
    if is_gzip:
        from isal import igzip  # noqa: PLC0415 - plain files do not need it

        return igzip.open(path, "rb")  # type: ignore[no-any-return, no-untyped-call]
    return path.open("rb", buffering=0)  # type: ignore[return-value]


def _unbuffered(stream: BufferedIOBase) -> BufferedIOBase:
    """Return what inflates straight into a buffer: a gzip file itself makes two copies on the way."""
    return getattr(getattr(stream, "_buffer", None), "raw", stream)


def _border(buffer: Array, size: int) -> int:
    """Return the last likely border between two events in the text, 0 when there is none."""
    window = 1 << 12
    while True:
        start = max(0, size - window)
        found = deque(_BORDER.finditer(buffer[start:size].tobytes()), maxlen=1)
        if found:
            return start + found[0].end()
        if start == 0:
            return 0
        window <<= 3


def _buffer(spare: queue.SimpleQueue[Array], size: int) -> Array:
    """Return a buffer of at least `size` bytes, one that was used before where it is large enough."""
    try:
        buffer = spare.get_nowait()
    except queue.Empty:
        buffer = np.empty(0, np.uint8)
    return buffer if buffer.size >= size else mapped(size + _CARRY_BYTES, np.uint8)


def _fill(stream: BufferedIOBase, buffer: Array, start: int, stop: int) -> int:
    """Read until `buffer[start:stop]` is full or the file ends; return where the bytes end."""
    view = memoryview(buffer.data)
    while start < stop:
        count = stream.readinto(view[start:stop])
        if not count:
            break
        start += count
    return start


def _damage(path: Path, error: Exception) -> TraceUnreadableError:
    if _goes_on(path):
        return TraceUnreadableError(
            f"{path.name} goes on behind the end of its gzip stream, with something that is not gzipped; "
            "cut that off, or copy or record it again"
        )
    if isinstance(error, EOFError):
        return TraceUnreadableError(
            f"{path.name} is cut: its gzip stream ends without its end mark; copy or record it again"
        )
    return TraceUnreadableError(f"{path.name} is damaged: gzip reports {error}; copy or record it again")


def _goes_on(path: Path) -> bool:
    """Tell whether something else follows a whole gzip stream; inflates again, as the error does not say."""
    inflater = zlib.decompressobj(wbits=_GZIP)
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 16):
                while chunk:
                    inflater.decompress(chunk, PIECE_BYTES)
                    chunk = inflater.unconsumed_tail
                    if inflater.eof:
                        chunk = (inflater.unused_data or file.read(1 << 16)).lstrip(b"\0")
                        if not GZIP_SIGNATURE.startswith(chunk[:2]):
                            return True
                        inflater = zlib.decompressobj(wbits=_GZIP)
    except (OSError, zlib.error):
        pass
    return False


def _position(raw: Any, plain: int, *, is_gzip: bool) -> int:
    if not is_gzip:
        return plain
    inner = getattr(raw, "raw", raw)
    try:
        return int(getattr(inner, "fp", inner).tell())
    except (AttributeError, OSError, ValueError):
        return 0


def pieces(path: Path, *, is_gzip: bool) -> Generator[Piece, None, None]:
    """Yield the unpacked text of a file in pieces that end where an event probably starts.

    Args:
        path: File to read.
        is_gzip: Inflate it; several members in a row are one text.

    Raises:
        TraceUnreadableError: The gzip stream is cut or damaged, or the file cannot be read.
    """
    try:
        yield from _pieces(path, is_gzip=is_gzip)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        if is_gzip and not (isinstance(error, OSError) and error.errno):
            raise _damage(path, error) from error
        raise TraceUnreadableError(
            f"{path.name} cannot be read: {error}; check the file and its disk"
        ) from error


def _pieces(path: Path, *, is_gzip: bool) -> Generator[Piece, None, None]:
    offset, total = 0, path.stat().st_size
    rest = b""
    spare: queue.SimpleQueue[Array] = queue.SimpleQueue()
    with _open(path, is_gzip=is_gzip) as stream:
        raw = getattr(stream, "fileobj", None) or stream
        source = _unbuffered(stream)
        ended = False
        while not ended:
            capacity = len(rest) + PIECE_BYTES
            buffer = _buffer(spare, capacity + PADDING)
            buffer[: len(rest)] = np.frombuffer(rest, np.uint8)
            size = _fill(source, buffer, len(rest), capacity)
            ended = size < capacity
            buffer[size : size + PADDING] = 0
            border = size if ended else _border(buffer, size)
            if not ended and border == 0:  # one event, or the head, is longer than the buffer: read on
                rest = buffer[:size].tobytes()
                continue
            rest = buffer[border:size].tobytes()
            # what follows the border in the buffer is text too: it must not be seen as the padding's
            done = min(1.0, _position(raw, offset + size, is_gzip=is_gzip) / max(total, 1))
            yield Piece(buffer, border, offset, is_last=ended, done_fraction=done, spare=spare)
            offset += border
