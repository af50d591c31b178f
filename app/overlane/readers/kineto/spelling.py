"""Spell an event plainly: the forms that JSON allows and the compiled scanner does not follow.

Writers hardly ever use them, so they may be slow: escapes in names of members and in values that classify an
event, members that stand twice (the last counts), and the raw byte 0x01, which marks integers in templates.
"""

from __future__ import annotations

import json
import re

from overlane.readers.kineto.envelope import Cursor, NotJsonError
from overlane.readers.kineto.keys import TOP_MEMBERS
from overlane.readers.kineto.strings import decode_name

__all__ = ["plain_event"]

_MARK = re.compile(rb"(\\*)\x01")
_CLASSIFYING = (b"ph", b"cat", b"s")


def plain_event(raw: bytes) -> bytes:
    """Return the text of an event with the same content, as the scanner reads it.

    Args:
        raw: Text of one JSON object. When it is no JSON, only its bytes 0x01 are escaped.
    """
    text = _MARK.sub(_escaped, raw)
    try:
        known: dict[bytes, bytes] = {}
        others: list[tuple[bytes, bytes]] = []
        for key, value in _members(text):
            name = _plain(key)
            if name in TOP_MEMBERS:
                known[name] = _plain_value(value) if name in _CLASSIFYING else value
            else:
                others.append((name, value))
        inside = known.pop(b"args", None)
        if inside is not None:
            if inside.startswith(b"{"):
                inside = _joined([(_plain(key), value) for key, value in _members(inside)])
            others.append((b"args", inside))
        return _joined([*known.items(), *others])
    except NotJsonError:
        return text


def _escaped(found: re.Match[bytes]) -> bytes:
    """Return the escape of a byte 0x01; a backslash right before it begins no escape and is doubled."""
    before = found.group(1)
    return before + b"\\" * (len(before) % 2) + b"\\u0001"


def _members(text: bytes) -> list[tuple[bytes, bytes]]:
    """Return names and values of an object as they are written."""
    cursor = Cursor.over(text)
    at = cursor.expect(0, "{")
    found: list[tuple[bytes, bytes]] = []
    while True:
        at = cursor.space(at)
        if cursor.byte(at) == ord("}"):
            return found
        start = at + 1
        _, behind = cursor.string(at)
        at = cursor.space(cursor.expect(behind, ":"))
        stop = cursor.value(at)
        found.append((text[start : behind - 1], text[at:stop]))
        at = cursor.space(stop)
        if cursor.byte(at) == ord(","):
            at += 1
        elif cursor.byte(at) != ord("}"):
            cursor.expect(at, "}")


def _plain(inside: bytes) -> bytes:
    """Return the inside of a string with escapes only where JSON asks for them."""
    if b"\\" not in inside:
        return inside
    return json.dumps(decode_name(inside), ensure_ascii=False)[1:-1].encode()


def _plain_value(value: bytes) -> bytes:
    return b'"' + _plain(value[1:-1]) + b'"' if value.startswith(b'"') else value


def _joined(members: list[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(b'"' + key + b'":' + value for key, value in members) + b"}"
