# ruff: noqa: PLR1714 - compiled code compares one by one
"""Compiled steps over JSON bytes: strings, values, numbers.

The compiled code of the reader works on addresses, not on arrays: passing an array from one compiled function
to another counts its references with atomic instructions, which took half of the time and stalled the threads
on each other. Whoever calls keeps the arrays alive and gives addresses inside them; text has at least
`PADDING` readable bytes behind its end, so that 32 bytes can be looked at at once. A position at or past
`end` is never reported as found.

Results below zero are not positions: `CUT` when the text ends before the value does, `BROKEN` when it is not
JSON, `DEEP` when it is nested deeper than the reader follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overlane.readers.kineto.memory import (
    WIDTH,
    blanks,
    byte,
    lowest,
    marks_of,
    quote_or_backslash,
    scalar_bytes,
    word,
)

__all__ = [
    "BROKEN", "CUT", "DEEP", "MAX_DEPTH", "MAX_SPAN_NS", "MISSING", "PADDING",
    "count_bytes", "has_backslash", "integer", "is_oversized", "nanoseconds", "skip_value", "space",
    "string_end",
]  # fmt: skip

PADDING = 64
"""Readable bytes that every buffer has behind its last byte of text."""

CUT = -1
BROKEN = -2
DEEP = -4

MISSING = -(1 << 63)
"""Stands for an unknown number inside the reader; becomes null in the tables."""

MAX_DEPTH = 62
_MAX_NS = 1 << 61
"""Stamps stay below this (the year 2043, counted from 1970)."""
MAX_SPAN_NS = 1 << 59
"""Durations, and stamps before zero, stay below this: 18 years, longer than any recording. The trace then
spans at most 2^61 + 2 * 2^59 ns, less than the 2^62 ns that a view of it may end at."""

_ZEROS = np.uint64(0x3030303030303030)
"""Eight digits 0; a word of digits xor this holds their values."""

_TENS = tuple(10**k for k in range(9))

_MAX_KEPT = 900_000_000_000_000_000
"""A number up to this takes one more decimal digit without overflow."""


@njit("int64(int64, int64)", cache=True, nogil=True)
def space(at: int, end: int) -> int:
    """Return the first position from `at` on that holds no white space, or `end`."""
    if byte(at) > 32:
        return at
    # One blank is what usually stands there; guessing that is faster than looking.
    if byte(at) == 32 and byte(at + 1) > 32 and at < end:
        return at + 1
    while at < end:
        step = blanks(at)
        at += step
        if step < WIDTH:
            break
    return min(at, end)


@njit("int64(int64, int64)", cache=True, nogil=True)
def string_end(at: int, end: int) -> int:
    """Return the position of the closing quote of the string whose first character is at `at`, or CUT."""
    while at < end:
        step = quote_or_backslash(at)
        at += step
        if step < 32 and at < end:
            if byte(at) == 34:
                return at
            at += 2
    return CUT


@njit("int64(int64, int64)", cache=True, nogil=True)
def _skip_brackets(at: int, end: int) -> int:
    """Return the position behind the bracket that matches the one at `at`, or CUT, BROKEN or DEEP.

    The marks of 32 bytes are looked up at once and walked bit by bit; a string that ends among them takes no
    look-up of its own.
    """
    one = np.uint64(1)
    depth = 0
    objects = np.uint64(0)  # one bit per open bracket: 1 for {, 0 for [
    while at < end:
        block = at
        at = block + WIDTH
        marks = np.uint64(marks_of(block))
        ends = marks >> np.uint64(32)
        marks &= np.uint64(0xFFFFFFFF)
        while marks != np.uint64(0):
            place = lowest(marks)
            if block + place >= end:
                return CUT
            marks &= marks - one
            c = byte(block + place)
            if c == 34:
                later = lowest((ends >> np.uint64(place + 1)) << np.uint64(place + 1))
                if later < WIDTH and byte(block + later) == 34:
                    marks = (marks >> np.uint64(later)) << np.uint64(later)
                    marks &= marks - one
                    continue
                at = string_end(block + place + 1, end)
                if at < 0:
                    return CUT
                at += 1
                break
            if c == 123 or c == 91:
                if depth >= MAX_DEPTH:
                    return DEEP
                objects = (objects << one) | np.uint64(1 if c == 123 else 0)
                depth += 1
                continue
            if (objects & one) != np.uint64(1 if c == 125 else 0):
                return BROKEN
            objects >>= one
            depth -= 1
            if depth == 0:
                return block + place + 1
    return CUT


@njit("int64(int64, int64)", cache=True, nogil=True)
def skip_value(at: int, end: int) -> int:
    """Return the position behind the value at `at`, or CUT, BROKEN (brackets do not match) or DEEP."""
    if byte(at) == 34:
        close = string_end(at + 1, end)
        return close + 1 if close >= 0 else CUT
    if byte(at) != 123 and byte(at) != 91:
        start = at
        while at < end:
            step = scalar_bytes(at)
            at += step
            if step < WIDTH and at < end:
                c = byte(at)
                return at if at > start and (c == 44 or c == 125 or c == 93 or c <= 32) else BROKEN
        return CUT
    return _skip_brackets(at, end)


@njit("int64(uint64)", cache=True, nogil=True)
def _digit_count(word: Any) -> int:
    """Return how many of eight bytes, the lowest first, are digits; `word` holds them xor `_ZEROS`."""
    return lowest(((word + np.uint64(0x7676767676767676)) | word) & np.uint64(0x8080808080808080)) >> 3


@njit("int64(uint64, int64)", cache=True, nogil=True)
def _number(word: Any, count: int) -> Any:
    """Return the number that the first `count` (1 to 8) digits of `word` make, three sums at a time."""
    word <<= np.uint64(64 - 8 * count)
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return np.int64((word * np.uint64(10000) + (word >> np.uint64(32))) & np.uint64(0xFFFFFFFF))


@njit("UniTuple(int64, 2)(int64, int64)", cache=True, nogil=True)
def integer(at: int, end: int) -> tuple[int, int]:
    """Parse a plain integer (`-?[1-9][0-9]*` or `0`, up to 2^63 - 1 in size).

    Returns:
        Value and the position behind it; position CUT when there is none (a fraction, an exponent, text, too
        large).
    """
    negative = at < end and byte(at) == 45
    if negative:
        at += 1
    start = at
    digits = word(at) ^ _ZEROS
    count = min(_digit_count(digits), end - at)
    if count <= 0:
        return 0, CUT
    value = _number(digits, count)
    at += count
    while count == 8 and at < end and at - start < 19 and byte(at) >= 48 and byte(at) <= 57:
        value = value * 10 + (byte(at) - 48)
        at += 1
    if byte(start) == 48 and (at - start > 1 or negative):
        return 0, CUT
    if value < 0:  # 19 digits fit into 64 bits, so that those beyond 63 show as a sign
        return 0, CUT
    if at < end and (byte(at) == 46 or byte(at) == 69 or byte(at) == 101 or byte(at) == 43 or byte(at) == 45):
        return 0, CUT
    if at - start == 19 and at < end and byte(at) >= 48 and byte(at) <= 57:
        return 0, CUT
    return (-value if negative else value), at


@njit("boolean(int64, int64)", cache=True, nogil=True)
def is_oversized(at: int, end: int) -> bool:
    """Tell whether an integer of 19 digits or more stands at `at`, or a text of one (`"stream 9..."`)."""
    if at < end and byte(at) == 34:
        at += 1
        while at < end and byte(at) >= 97 and byte(at) <= 122:  # "stream 9223372036854775808"
            at += 1
        at = space(at, end)
    if at < end and byte(at) == 45:
        at += 1
    start = at
    while at < end and byte(at) >= 48 and byte(at) <= 57:
        at += 1
    if at >= end or at - start < 19:
        return False
    return byte(at) <= 34 or byte(at) == 44 or byte(at) == 93 or byte(at) == 125


@njit("boolean(int64, int64)", cache=True, nogil=True)
def has_backslash(at: int, stop: int) -> bool:
    """Tell whether the inside of a string that ends at `stop` holds an escape."""
    while at < stop:
        step = quote_or_backslash(at)
        if step < 32:
            return at + step < stop
        at += 32
    return False


@njit("int64(int64, int64, int64)", cache=True, nogil=True)
def count_bytes(at: int, stop: int, wanted: int) -> int:
    """Return how often a byte stands between two positions."""
    count = 0
    while at < stop:
        if byte(at) == wanted:
            count += 1
        at += 1
    return count


@njit("UniTuple(int64, 2)(int64, int64)", cache=True, nogil=True)
def _any_nanoseconds(at: int, end: int) -> tuple[int, int]:  # noqa: C901, PLR0912, PLR0915 - one walk
    """Parse a decimal number of microseconds to nanoseconds, halves away from zero, without a float.

    Returns:
        Value and the position behind it; value MISSING when the number is too large for the trace's time,
        position CUT when there is no number.
    """
    negative = at < end and byte(at) == 45
    if negative:
        at += 1
    value = 0
    dropped = 0  # digits before the point that were not kept
    places = 0  # kept digits behind the point
    after_point = False
    any_digit = False
    last = -1  # the digit behind the last one of the value, -1 for none
    while at < end:
        c = byte(at)
        if c == 46 and not after_point:
            after_point = True
        elif c >= 48 and c <= 57:
            any_digit = True
            if value <= _MAX_KEPT:
                value = value * 10 + (c - 48)
                if after_point:
                    places += 1
            else:
                if last < 0:
                    last = c - 48
                if not after_point:
                    dropped += 1
        else:
            break
        at += 1
    if not any_digit:
        return 0, CUT
    exponent = 0
    if at < end and (byte(at) == 69 or byte(at) == 101):
        at += 1
        down = at < end and byte(at) == 45
        if at < end and (byte(at) == 43 or byte(at) == 45):
            at += 1
        start = at
        while at < end and byte(at) >= 48 and byte(at) <= 57:
            exponent = min(exponent * 10 + (byte(at) - 48), 9999)
            at += 1
        if at == start:
            return 0, CUT
        if down:
            exponent = -exponent
    shift = 3 - places + dropped + exponent
    while shift > 0 and value > 0:
        if value > _MAX_NS // 10:
            return MISSING, at
        value *= 10
        shift -= 1
    while shift < 0:
        last = value % 10
        value //= 10
        shift += 1
        if value == 0 and shift < 0:
            last = 0
            break
    if last >= 5:
        value += 1
    if value >= _MAX_NS:
        return MISSING, at
    return (-value if negative else value), at


@njit("UniTuple(int64, 2)(int64, int64)", cache=True, nogil=True)
def nanoseconds(at: int, end: int) -> tuple[int, int]:
    """Parse as `_any_nanoseconds` does: at once what is written as usual, 1 to 16 digits and up to 3 more."""
    negative = byte(at) == 45
    start = at + negative
    digits = word(start) ^ _ZEROS
    count = _digit_count(digits)
    if count > 0:
        value = _number(digits, count)
        stop = start + count
        if count == 8:
            digits = word(stop) ^ _ZEROS
            count = _digit_count(digits)
            if count > 0:
                value = value * _TENS[count] + _number(digits, count)
                stop += count
        value *= 1000
        if byte(stop) == 46:
            digits = word(stop + 1) ^ _ZEROS
            count = _digit_count(digits)
            if count == 0 or count > 3:
                return _any_nanoseconds(at, end)
            kept = np.uint64((1 << (8 * count)) - 1)
            value += _number((digits & kept), 3)
            stop += 1 + count
        c = byte(stop)
        if (
            stop <= end
            and value < _MAX_NS
            and (c == 44 or c == 34 or c == 125 or c == 10)
            and stop - start <= 20
        ):
            return (-value if negative else value), stop
    return _any_nanoseconds(at, end)
