"""What stands around the event array: members of the top-level object before and behind it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, auto
from typing import Any

import numpy as np

from overlane.readers.kineto.strings import decode_name, mend_escapes
from overlane.readers.kineto.text import CUT, DEEP, PADDING, skip_value, space, string_end

__all__ = ["BASE_KEYS", "Cursor", "Envelope", "Fault", "NotJsonError", "repaired", "take_head", "take_tail"]

BASE_KEYS = ("baseTimeNanoseconds", "baseTimeNanosecond")
"""Members that are read exactly however they are written: a float of 64 bits would lose nanoseconds."""
_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",:\[\]{}]+', re.DOTALL)
_LITERAL = re.compile(
    r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|NaN|-?Infinity|\x01"
)
_CONTROL = re.compile(r"[\x00-\x1f]")


class Fault(Enum):
    """Why a text is no trace."""

    CUT = auto()
    """It ends too early."""
    BROKEN = auto()
    """It breaks JSON's rules."""
    DEEP = auto()
    """It is nested deeper than the reader follows."""
    NO_LIST = auto()
    """`traceEvents` is no list."""
    TWO_LISTS = auto()
    """`traceEvents` stands twice."""


class NotJsonError(Exception):
    """The text cannot be read as the JSON of a trace.

    Attributes:
        position: Byte within the text.
        fault: What is wrong there.
    """

    def __init__(self, position: int, fault: Fault = Fault.BROKEN) -> None:
        super().__init__(position, fault)
        self.position = position
        self.fault = fault


@dataclass
class Envelope:
    """The top level of a trace file.

    Attributes:
        is_list: The file is a bare list of events.
        members: Members of the top-level object but the events.
        unreadable: Names of members whose values could not be parsed.
        events: Where the events start, behind `[`.
        found: The events were found.
    """

    is_list: bool = False
    members: dict[str, Any] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    events: int = 0
    found: bool = False


def repaired(text: str) -> str:
    """Return JSON text with usual faults mended: bare words, control characters, wrong escapes."""

    def mend(match: re.Match[str]) -> str:
        token = match.group()
        if not token.startswith('"'):
            return token if _LITERAL.fullmatch(token) else json.dumps(token)
        inside = mend_escapes(token[1:-1])
        return '"' + _CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", inside) + '"'

    return _TOKEN.sub(mend, text)


def _value(envelope: Envelope, name: str, raw: bytes) -> None:
    text = raw.decode("utf-8", "replace")
    parse_float = Decimal if name in BASE_KEYS else float
    for mend in (str, repaired):
        try:
            envelope.members[name] = json.loads(mend(text), strict=False, parse_float=parse_float)
        except (ValueError, RecursionError):
            continue
        return
    envelope.unreadable.append(name)


class Cursor:
    """Steps over JSON text with the compiled functions, in positions from 0."""

    def __init__(self, buffer: np.ndarray[Any, np.dtype[np.uint8]], size: int) -> None:
        self.buffer = buffer
        self.base = buffer.ctypes.data
        self.size = size

    @classmethod
    def over(cls, text: bytes) -> Cursor:
        """Return a cursor over a copy of `text`."""
        return cls(np.frombuffer(text + bytes(PADDING), np.uint8), len(text))

    def space(self, at: int) -> int:
        """Return the first position from `at` on that holds no white space."""
        at = int(space(self.base + at, self.base + self.size)) - self.base
        if at >= self.size:
            raise NotJsonError(self.size, Fault.CUT)
        return at

    def byte(self, at: int) -> int:
        """Return the byte at a position."""
        return int(self.buffer[at])

    def value(self, at: int) -> int:
        """Return the position behind a value."""
        stop = int(skip_value(self.base + at, self.base + self.size))
        if stop == CUT:
            raise NotJsonError(self.size, Fault.CUT)
        if stop < 0:
            raise NotJsonError(at, Fault.DEEP if stop == DEEP else Fault.BROKEN)
        return stop - self.base

    def string(self, at: int) -> tuple[str, int]:
        """Return a string's text and the position behind it."""
        if self.byte(at) != ord('"'):
            raise NotJsonError(at)
        stop = int(string_end(self.base + at + 1, self.base + self.size))
        if stop == CUT:
            raise NotJsonError(self.size, Fault.CUT)
        stop -= self.base
        return decode_name(self.buffer[at + 1 : stop].tobytes()), stop + 1

    def expect(self, at: int, character: str) -> int:
        """Return the position behind a character that must come next."""
        at = self.space(at)
        if self.byte(at) != ord(character):
            raise NotJsonError(at)
        return at + 1


def _members(cursor: Cursor, at: int, envelope: Envelope, *, stops_at_events: bool) -> int:
    """Take in members from `at` on, before a name or the closing brace; return the position behind them."""
    while True:
        at = cursor.space(at)
        if cursor.byte(at) == ord("}"):
            return at + 1
        start = at
        name, at = cursor.string(at)
        at = cursor.space(cursor.expect(at, ":"))
        if name == "traceEvents":
            if not stops_at_events:
                raise NotJsonError(start, Fault.TWO_LISTS)
            if cursor.byte(at) != ord("["):
                raise NotJsonError(start, Fault.NO_LIST)
            envelope.events = at + 1
            envelope.found = True
            return at + 1
        stop = cursor.value(at)
        _value(envelope, name, cursor.buffer[at:stop].tobytes())
        at = cursor.space(stop)
        if cursor.byte(at) == ord(","):
            at += 1
        elif cursor.byte(at) != ord("}"):
            raise NotJsonError(at)


def take_head(buffer: np.ndarray[Any, np.dtype[np.uint8]], size: int) -> Envelope:
    """Read the top level up to the events.

    Args:
        buffer: uint8 array, `size` bytes of text and `text.PADDING` more.
        size: Bytes of text.

    Returns:
        Envelope; `found` is False when the object ended without `traceEvents`.

    Raises:
        NotJsonError: The text is no JSON, or ends before the events begin.
    """
    cursor = Cursor(buffer, size)
    envelope = Envelope()
    at = cursor.space(len(_BOM) if buffer[: len(_BOM)].tobytes() == _BOM else 0)
    if cursor.byte(at) == ord("["):
        envelope.is_list = envelope.found = True
        envelope.events = at + 1
        return envelope
    if cursor.byte(at) != ord("{"):
        raise NotJsonError(at)
    _members(cursor, at + 1, envelope, stops_at_events=True)
    return envelope


def take_tail(text: bytes, envelope: Envelope) -> None:
    """Read what follows the events into `envelope`.

    Args:
        text: All bytes behind the `]` of the events.
        envelope: As `take_head` gave it; gets the members behind the events.

    Raises:
        NotJsonError: The text is no JSON, or the top-level object does not end; position within `text`.
    """
    end = 0
    if not envelope.is_list:
        cursor = Cursor.over(text)
        at = cursor.space(0)
        if cursor.byte(at) == ord(","):
            end = _members(cursor, at + 1, envelope, stops_at_events=False)
        elif cursor.byte(at) == ord("}"):
            end = at + 1
        else:
            raise NotJsonError(at)
    rest = text[end:].lstrip(b" \t\r\n\0")
    if rest:
        raise NotJsonError(len(text) - len(rest))
