"""The string table of one scanning thread, and the merging of several into one."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numba import njit

from overlane.readers.kineto.keys import CATEGORIES
from overlane.readers.kineto.layout import FULL, INFO_WIDTH, Kind, State
from overlane.readers.kineto.memory import get, get_int32, put, put_int32
from overlane.readers.kineto.steps import intern
from overlane.readers.kineto.text import PADDING

__all__ = ["StringTable", "decode_name", "mend_escapes", "merge_tables"]

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
"""A whole escape, or a backslash that begins none; in `\\\\U` two backslashes are one escape, U is plain."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class StringTable:
    """Interned strings of one scanning thread, and the state of its scanner.

    Attributes:
        state: int64 array, see `scan.State`.
        info: int64 array, shape (capacity, 5): place, length, hash, kind, extra.
        arena: uint8 array of the strings' bytes.
    """

    def __init__(self) -> None:
        self.state = np.zeros(len(State), np.int64)
        self._slots = np.full(1 << 13, -1, np.int32)
        self.info = np.zeros((1 << 12, INFO_WIDTH), np.int64)
        self.arena = np.zeros(1 << 18, np.uint8)
        self.state[State.LAST_PROCESS] = self.state[State.LAST_THREAD] = -2
        self._publish()
        for name, kind in CATEGORIES.items():
            self.info[self.add(Kind.CATEGORY, name.encode()), 4] = kind

    def __len__(self) -> int:
        return int(self.state[State.STRINGS])

    @property
    def address(self) -> int:
        """Address of the state, for compiled code."""
        return self.state.ctypes.data

    def _publish(self) -> None:
        state = self.state
        state[State.SLOTS_AT], state[State.SLOTS_MASK] = self._slots.ctypes.data, self._slots.size - 1
        state[State.INFO_AT], state[State.INFO_SIZE] = self.info.ctypes.data, self.info.shape[0]
        state[State.ARENA_AT], state[State.ARENA_SIZE] = self.arena.ctypes.data, self.arena.size

    def add(self, kind: Kind, content: bytes) -> int:
        """Intern `content` and return its id."""
        source = np.frombuffer(content + bytes(PADDING), np.uint8)
        while (code := int(intern(int(kind), source.ctypes.data, len(content), self.address))) == FULL:
            self.grow(len(content))
        return code

    def grow(self, needed_bytes: int = 0) -> None:
        """Make room: more ids where half are used, a larger arena where it is three quarters full."""
        used = int(self.state[State.USED])
        if used + needed_bytes > self.arena.size - (self.arena.size >> 2):
            arena = np.zeros(max(self.arena.size, needed_bytes) * 2, np.uint8)
            arena[:used] = self.arena[:used]
            self.arena = arena
        count = len(self)
        if count * 2 > self.info.shape[0]:
            info = np.zeros((self.info.shape[0] * 2, INFO_WIDTH), np.int64)
            info[:count] = self.info[:count]
            self.info = info
            self._slots = np.full(self.info.shape[0] * 2, -1, np.int32)
            _rehash(self.info.ctypes.data, count, self._slots.ctypes.data, self._slots.size - 1)
        self._publish()

    def contents(self, codes: np.ndarray[Any, Any]) -> list[bytes]:
        """Return the bytes of several strings."""
        view = memoryview(self.arena.data)
        starts, lengths = self.info[codes, 0].tolist(), self.info[codes, 1].tolist()
        return [bytes(view[start : start + length]) for start, length in zip(starts, lengths, strict=True)]

    def content(self, code: int) -> bytes:
        """Return the bytes of one string."""
        start, length = self.info[code, :2]
        return self.arena[start : start + length].tobytes()


@njit("void(int64, int64, int64, int64)", cache=True, nogil=True)
def _rehash(info: int, count: int, slots: int, mask: int) -> None:
    for code in range(count):
        slot = (get(info + 8 * INFO_WIDTH * code + 16) >> 7) & mask
        while get_int32(slots + 4 * slot) >= 0:
            slot = (slot + 1) & mask
        put_int32(slots + 4 * slot, code)


@njit("int64(int64, int64, int64, int64, int64, int64, int64)", cache=True, nogil=True)
def _merge(first: int, count: int, info: int, arena: int, mapping: int, state: int, target_info: int) -> int:  # noqa: PLR0917 - plain numbers
    """Intern strings `first` to `count` of another table; return how far it came before it was full."""
    for code in range(first, count):
        entry = info + 8 * INFO_WIDTH * code
        found = intern(get(entry + 24), arena + get(entry), get(entry + 8), state)
        if found < 0:
            return code
        put(target_info + 8 * INFO_WIDTH * found + 32, get(entry + 32))
        put_int32(mapping + 4 * code, found)
    return count


def merge_tables(target: StringTable, other: StringTable) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Enter all strings of `other` into `target`.

    Returns:
        int32 array: id in `other` to id in `target`.
    """
    count = len(other)
    mapping = np.zeros(count, np.int32)
    done = 0
    while done < count:
        done = int(
            _merge(
                done,
                count,
                other.info.ctypes.data,
                other.arena.ctypes.data,
                mapping.ctypes.data,
                target.address,
                target.info.ctypes.data,
            )
        )
        if done < count:
            target.grow(int(other.info[done, 1]))
    return mapping


def mend_escapes(text: str) -> str:
    """Double every backslash of a JSON string's inside that begins no escape (unescaped Windows paths)."""
    return _ESCAPE.sub(lambda found: found.group() if len(found.group()) > 1 else r"\\", text)


def decode_name(raw: bytes) -> str:
    """Return the text of a JSON string's inside.

    Bytes that are not UTF-8 and lone surrogates become U+FFFD; control characters stay; a backslash before a
    letter that JSON knows no escape for is kept as text (unescaped Windows paths).
    """
    text = raw.decode("utf-8", "replace")
    if "\\" in text:
        text = json.loads(f'"{mend_escapes(text)}"', strict=False)
        text = _LONE_SURROGATE.sub("\ufffd", text)
    return text
