"""The journal of a recording: frames appended to one file, readable up to the last whole frame after a kill.

A frame is a magic number, a type, the payload's length and CRC-32, then the payload. Each frame is handed to
the operating system in one write, so a process that is killed loses at most the frame being written; a
machine that loses power may lose more. Nothing is ever rewritten.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect.errors import CollectError, MachineError

__all__ = ["FACT", "RECORDS", "Frame", "JournalReader", "JournalWriter"]

HEAD = b"overlane journal 1\n"
_FRAME = struct.Struct("<4sIQI")  # magic, type, payload bytes, CRC-32 of the payload
_MAGIC = b"OVJ1"
_RECORD_HEAD = struct.Struct("<IIQ")  # kind, bytes of one record, records
FACT = 1
"""A JSON object with a `fact` that says what it is."""
RECORDS = 2
"""Records of one kind, back to back."""


class Frame:
    """One frame as it was read.

    Args:
        frame_type: `FACT` or `RECORDS`.
        payload: Its bytes.
    """

    def __init__(self, frame_type: int, payload: memoryview) -> None:
        self.frame_type = frame_type
        self._payload = payload

    def fact(self) -> dict[str, Any]:
        """Return the object of a `FACT` frame."""
        result: dict[str, Any] = json.loads(bytes(self._payload))
        return result

    def records(self) -> tuple[int, int, memoryview]:
        """Return kind, bytes of one record, and the records' bytes of a `RECORDS` frame."""
        kind, record_bytes, _ = _RECORD_HEAD.unpack_from(self._payload)
        return kind, record_bytes, self._payload[_RECORD_HEAD.size :]


class JournalWriter:
    """Appends frames to a new file; safe to use from several threads.

    Args:
        path: File to make; must not exist.

    Raises:
        MachineError: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes_written = 0
        self._lock = threading.Lock()
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError as error:
            raise CollectError(
                f"{path} is there already, from a recording that runs or was killed; "
                f"`overlane recover {path}` turns it into a trace, or delete it"
            ) from error
        except OSError as error:
            raise MachineError(
                f"the journal {path} cannot be made: {error.strerror}; choose another place with -o"
            ) from error
        self._write([HEAD])

    def fact(self, fact: str, **values: Any) -> None:
        """Append a `FACT` frame.

        Args:
            fact: What it is.
            values: JSON values.

        Raises:
            MachineError: The disk is full or broken.
        """
        self._frame(FACT, [json.dumps({"fact": fact, **values}).encode()])

    def records(self, kind: int, records: npt.NDArray[Any]) -> None:
        """Append a `RECORDS` frame.

        Args:
            kind: Number of the records' kind.
            records: Structured array, or words of shape (records, words per record).

        Raises:
            MachineError: The disk is full or broken.
        """
        record_bytes = records.nbytes // len(records)
        self._frame(
            RECORDS,
            [
                _RECORD_HEAD.pack(kind, record_bytes, len(records)),
                records.view(np.uint8).reshape(-1).data,
            ],
        )

    def close(self) -> None:
        """Close the file; frames may no longer be appended."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _frame(self, frame_type: int, payload: list[bytes | memoryview]) -> None:
        crc = 0
        for part in payload:
            crc = zlib.crc32(part, crc)
        length = sum(len(part) for part in payload)
        self._write([_FRAME.pack(_MAGIC, frame_type, length, crc), *payload])

    def _write(self, parts: list[bytes | memoryview]) -> None:
        with self._lock:
            if self._descriptor < 0:
                return  # a thread of the program that still annotates after the recording was closed
            try:
                _write_all(self._descriptor, parts)
            except OSError as error:
                raise MachineError(
                    f"the journal {self.path} cannot be written: {error.strerror}; free some space, then "
                    f"`overlane recover {self.path}` gives a trace of what was recorded before"
                ) from error
            self.bytes_written += sum(len(part) for part in parts)


def _write_all(descriptor: int, parts: list[bytes | memoryview]) -> None:
    written = os.writev(descriptor, parts)
    for part in parts:  # the system may take less than asked, above 2 GiB or near the end of the disk
        if written >= len(part):
            written -= len(part)
            continue
        rest = memoryview(part)[written:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        written = 0


class JournalReader:
    """Reads the whole frames of a journal, in order, one at a time.

    Args:
        path: File to read.

    Attributes:
        damage: What stopped the reading before the end of the file, or None.

    Raises:
        CollectError: It is no journal or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        try:
            with path.open("rb") as file:
                head = file.read(len(HEAD))
        except OSError as error:
            raise CollectError(f"{path} cannot be read: {error.strerror}; check its name") from error
        if head != HEAD:
            raise CollectError(
                f"{path} is not a journal of this version: it starts with {head[:18]!r}; "
                "give the .journal file that the recording left beside its trace"
            )

    def __iter__(self) -> Iterator[Frame]:
        self.damage = None
        with self.path.open("rb") as file:
            file.seek(len(HEAD))
            while head := file.read(_FRAME.size):
                payload = self._payload(file, head)
                if payload is None:
                    return
                frame_type = _FRAME.unpack(head)[1]
                yield Frame(frame_type, memoryview(payload))

    def _payload(self, file: Any, head: bytes) -> bytes | None:
        """Return the payload that follows, or None after saying in `damage` why it cannot be used."""
        position = file.tell() - len(head)
        if len(head) < _FRAME.size:
            self.damage = f"the last frame, at byte {position}, is cut"
            return None
        magic, _, length, crc = _FRAME.unpack(head)
        left = os.fstat(file.fileno()).st_size - file.tell()
        if magic != _MAGIC:
            self.damage = f"there is no frame at byte {position}"
            return None
        if length > left:
            self.damage = f"the last frame, at byte {position}, is cut"
            return None
        payload: bytes = file.read(length)
        if len(payload) != length or zlib.crc32(payload) != crc:
            self.damage = f"the frame at byte {position} is damaged"
            return None
        return payload
