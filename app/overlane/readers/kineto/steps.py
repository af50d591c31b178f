# ruff: noqa: PLR0917 - compiled code takes plain numbers
"""Compiled parts of the scanner: interned strings, known members, ids, times, packed integers, templates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overlane.readers.kineto.keys import KEY_WORDS, SLOTS
from overlane.readers.kineto.layout import (
    FULL,
    HOLE,
    I_EXTRA,
    I_HASH,
    I_KIND,
    I_LENGTH,
    INFO_BYTES,
    K_THREAD,
    KEY_BYTES,
    MIX,
    ROOM,
    S_ARENA_AT,
    S_ARENA_SIZE,
    S_INFO_AT,
    S_INFO_SIZE,
    S_LAST_CODE,
    S_LAST_PROCESS,
    S_LAST_THREAD,
    S_SLOTS_AT,
    S_SLOTS_MASK,
    S_STRINGS,
    S_USED,
    SALT,
)
from overlane.readers.kineto.memory import (
    byte,
    copy,
    fold,
    get,
    get_int32,
    put,
    put_byte,
    put_int32,
    same,
    word,
)
from overlane.readers.kineto.text import CUT, integer, nanoseconds, space

__all__ = [
    "find_key",
    "head",
    "identity",
    "intern",
    "keep",
    "push",
    "thread_code",
    "time",
    "triple",
]


@njit("uint64(int64, int64)", cache=True, nogil=True)
def head(address: int, length: int) -> Any:
    """Return the eight bytes at an address with all but the first `length` cleared."""
    value: Any = word(address)
    if length < 8:
        value &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
    return value


@njit("int64(int64, int64, int64, int64)", cache=True, nogil=True)
def intern(kind: int, source: int, length: int, state: int) -> int:
    """Return the id of a string, entering it when it is new, or FULL when the table must grow first.

    Args:
        kind: A `Kind`.
        source: Address of the bytes.
        length: Number of bytes.
        state: Address of the state.
    """
    h: Any = np.uint64(kind * 0x9E3779B1 + length)
    for offset in range(0, length - 15, 16):
        h = fold(word(source + offset) ^ MIX, word(source + offset + 8) ^ h)
    rest = source + (length & ~15)
    if length & 8:
        h = fold(word(rest) ^ MIX, head(rest + 8, length & 7) ^ h)
    else:
        h = fold(head(rest, length & 7) ^ MIX, h ^ SALT)
    mark = np.int64(h >> np.uint64(1))
    mask = get(state + S_SLOTS_MASK)
    slots = get(state + S_SLOTS_AT)
    slot = (mark >> 7) & mask
    while True:
        code = get_int32(slots + 4 * slot)
        if code < 0:
            break
        known = get(state + S_INFO_AT) + code * INFO_BYTES
        if (
            get(known + I_HASH) == mark
            and get(known + I_LENGTH) == length
            and get(known + I_KIND) == kind
            and same(source, get(state + S_ARENA_AT) + get(known), length)
        ):
            return code
        slot = (slot + 1) & mask
    count = get(state + S_STRINGS)
    used = get(state + S_USED)
    if (
        count * 2 >= mask
        or count >= get(state + S_INFO_SIZE)
        or used + length + ROOM > get(state + S_ARENA_SIZE)
    ):
        return FULL
    copy(source, length, get(state + S_ARENA_AT) + used)
    new = get(state + S_INFO_AT) + count * INFO_BYTES
    put(new, used)
    put(new + I_LENGTH, length)
    put(new + I_HASH, mark)
    put(new + I_KIND, kind)
    put(new + I_EXTRA, 0)
    put_int32(slots + 4 * slot, count)
    put(state + S_STRINGS, count + 1)
    put(state + S_USED, used + length)
    return count


@njit("int64(int64, int64, int64, int64)", cache=True, nogil=True)
def find_key(at: int, length: int, scope: int, keys: int) -> int:
    """Return the address of the entry of a known member, or 0."""
    if length > 8 * KEY_WORDS or length == 0:
        return 0
    first = head(at, length)
    slot: Any = np.int64(((first ^ np.uint64(length + scope)) * MIX) >> np.uint64(56))
    while True:
        entry = keys + slot * KEY_BYTES
        size = get(entry)
        if size == 0:
            return 0
        if size == length + scope and np.uint64(get(entry + 32)) == first and same(at, entry + 32, length):
            return int(entry)
        slot = (slot + 1) & (SLOTS - 1)


@njit("UniTuple(int64, 2)(int64, int64)", cache=True, nogil=True)
def identity(at: int, end: int) -> tuple[int, int]:
    """Parse an id given as number or as text (`7`, `"7"`, `"stream 7"`).

    Returns:
        Value, and the position behind it or CUT when it is no such id.
    """
    if byte(at) != 34:
        return integer(at, end)
    at += 1
    if end - at > 7 and head(at, 7) == np.uint64(0x206D6165727473):  # "stream " in little-endian order
        at += 7
    value, stop = integer(at, end)
    if stop < 0 or stop >= end or byte(stop) != 34:
        return 0, CUT
    return value, stop + 1


@njit("UniTuple(int64, 2)(int64, int64)", cache=True, nogil=True)
def time(at: int, end: int) -> tuple[int, int]:
    """Parse a time given as number or as text; position CUT when it is no number."""
    if byte(at) != 34:
        return nanoseconds(at, end)
    value, stop = nanoseconds(at + 1, end)
    if stop < 0 or stop >= end or byte(stop) != 34:
        return 0, CUT
    return value, stop + 1


@njit("int64(int64, int64, int64)", cache=True, nogil=True)
def triple(at: int, end: int, target: int) -> int:
    """Parse `[x, y, z]` to three int64 at `target`; return the position behind it, CUT for anything else."""
    if byte(at) != 91:
        return CUT
    at += 1
    for k in range(3):
        value, at = integer(space(at, end), end)
        if at < 0:
            return CUT
        at = space(at, end)
        if at >= end or byte(at) != (93 if k == 2 else 44):
            return CUT
        at += 1
        put(target + 8 * k, value)
    return at


@njit("int64(int64, int64)", cache=True, nogil=True)
def push(at: int, value: int) -> int:
    """Write an integer in groups of seven bits, sign lowest; return the address behind it (at most 10 on)."""
    rest = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)
    while rest >= np.uint64(128):
        put_byte(at, np.int64(rest & np.uint64(127)) | 128)
        rest >>= np.uint64(7)
        at += 1
    put_byte(at, np.int64(rest))
    return at + 1


@njit("int64(int64, int64, int64)", cache=True, nogil=True)
def thread_code(process: int, thread: int, state: int) -> int:
    """Return the string id of a (process, thread) pair, or FULL."""
    if process == get(state + S_LAST_PROCESS) and thread == get(state + S_LAST_THREAD):
        return get(state + S_LAST_CODE)
    put(state + S_LAST_PROCESS, process)
    put(state + S_LAST_THREAD, thread)
    code = intern(K_THREAD, state + S_LAST_PROCESS, 16, state)
    put(state + S_LAST_CODE, code)
    if code < 0:
        put(state + S_LAST_PROCESS, np.int64(-2))
        put(state + S_LAST_THREAD, np.int64(-2))
    return code


@njit("int64(int64, int64, int64, int64, int64, int64)", cache=True, nogil=True)
def keep(key: int, close: int, at: int, behind: int, start: int, tail: int) -> int:
    """Append one member to the template; return its new end. `behind` is 0 for a value that was cut out."""
    put_byte(tail, 44 if tail > start else 123)
    copy(key - 1, close - key + 2, tail + 1)
    tail += close - key + 3
    put_byte(tail, 58)
    if behind == 0:
        put_byte(tail + 1, HOLE)
        return tail + 2
    copy(at, behind - at, tail + 1)
    return tail + 1 + behind - at
