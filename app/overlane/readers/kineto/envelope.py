"""What stands around the event array: members of the top-level object before and behind it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from overlane.readers.kineto.strings import mend_escapes
from overlane.readers.kineto.text import BROKEN, CUT, PADDING, skip_value, space, string_end

__all__ = ["Envelope", "NotJsonError", "repaired", "take_head", "take_tail"]

_BOM = b"\xef\xbb\xbf"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s",:\[\]{}]+', re.DOTALL)
_LITERAL = re.compile(
    r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|NaN|-?Infinity|\x01"
)
_CONTROL = re.compile(r"[\x00-\x1f]")


class NotJsonError(Exception):
    """The text breaks JSON's rules.

    Attributes:
        position: Byte within the text.
        is_cut: The text ends too early; otherwise something else stands there.
    """

    def __init__(self, position: int, *, is_cut: bool) -> None:
        super().__init__(position, is_cut)
        self.position = position
        self.is_cut = is_cut


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
    for mend in (str, repaired):
        try:
            envelope.members[name] = json.loads(mend(text), strict=False)
        except (ValueError, RecursionError):
            continue
        return
    envelope.unreadable.append(name)


class _Cursor:
    """Steps over the text of the envelope with the compiled functions, in positions from 0."""

    def __init__(self, buffer: np.ndarray[Any, np.dtype[np.uint8]], size: int) -> None:
        self.buffer = buffer
        self.base = buffer.ctypes.data
        self.size = size

    def space(self, at: int) -> int:
        at = int(space(self.base + at, self.base + self.size)) - self.base
        if at >= self.size:
            raise NotJsonError(self.size, is_cut=True)
        return at

    def byte(self, at: int) -> int:
        return int(self.buffer[at])

    def value(self, at: int) -> int:
        stop = int(skip_value(self.base + at, self.base + self.size))
        if stop == CUT:
            raise NotJsonError(self.size, is_cut=True)
        if stop == BROKEN:
            raise NotJsonError(at, is_cut=False)
        return stop - self.base

    def string(self, at: int) -> tuple[str, int]:
        if self.byte(at) != ord('"'):
            raise NotJsonError(at, is_cut=False)
        stop = int(string_end(self.base + at + 1, self.base + self.size))
        if stop == CUT:
            raise NotJsonError(self.size, is_cut=True)
        stop -= self.base
        return self.buffer[at + 1 : stop].tobytes().decode("utf-8", "replace"), stop + 1

    def expect(self, at: int, character: str) -> int:
        at = self.space(at)
        if self.byte(at) != ord(character):
            raise NotJsonError(at, is_cut=False)
        return at + 1


def _members(cursor: _Cursor, at: int, envelope: Envelope, *, stops_at_events: bool) -> int:
    """Take in members from `at` on, before a name or the closing brace; return the position behind them."""
    while True:
        at = cursor.space(at)
        if cursor.byte(at) == ord("}"):
            return at + 1
        start = at
        name, at = cursor.string(at)
        at = cursor.space(cursor.expect(at, ":"))
        if name == "traceEvents":
            if stops_at_events and cursor.byte(at) == ord("["):
                envelope.events = at + 1
                envelope.found = True
                return at + 1
            raise NotJsonError(start, is_cut=False)
        stop = cursor.value(at)
        _value(envelope, name, cursor.buffer[at:stop].tobytes())
        at = cursor.space(stop)
        if cursor.byte(at) == ord(","):
            at += 1
        elif cursor.byte(at) != ord("}"):
            raise NotJsonError(at, is_cut=False)


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
    cursor = _Cursor(buffer, size)
    envelope = Envelope()
    at = cursor.space(len(_BOM) if buffer[: len(_BOM)].tobytes() == _BOM else 0)
    if cursor.byte(at) == ord("["):
        envelope.is_list = envelope.found = True
        envelope.events = at + 1
        return envelope
    if cursor.byte(at) != ord("{"):
        raise NotJsonError(at, is_cut=False)
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
    buffer = np.zeros(len(text) + PADDING, np.uint8)
    buffer[: len(text)] = np.frombuffer(text, np.uint8)
    end = 0
    if not envelope.is_list:
        cursor = _Cursor(buffer, len(text))
        at = cursor.space(0)
        if cursor.byte(at) == ord(","):
            end = _members(cursor, at + 1, envelope, stops_at_events=False)
        elif cursor.byte(at) == ord("}"):
            end = at + 1
        else:
            raise NotJsonError(at, is_cut=False)
    rest = text[end:].lstrip(b" \t\r\n\0")
    if rest:
        raise NotJsonError(len(text) - len(rest), is_cut=False)
