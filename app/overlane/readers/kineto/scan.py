"""The compiled scanner: JSON text of trace events -> narrow rows, without a Python object per event.

One call of `scan` walks a piece of the event array. Each kept event becomes one row (see `keys.Column`), and one wide row
when it names a device, a stream or a launch. Names and the like are interned in a string table (`strings.StringTable`):
rows hold ids. All members without a column of their own are copied to a canonical JSON object in which top-level
integers are replaced by the byte `HOLE`; that template is interned, the integers go to a pool of packed numbers.

Nothing is committed before an event is complete, so `FULL` (a buffer must grow) and `CUT` (the piece ends) leave the
position at the start of the event. Buffers are addressed as `text` says; their addresses and sizes stand in the state.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit

from overlane.readers.kineto.keys import ARGS_SCOPE, KEY_WORDS, META_SCOPE, SLOTS, Act, Class, Column, Wide
from overlane.readers.kineto.text import (
    BROKEN,
    CUT,
    MISSING,
    byte,
    get,
    get_int32,
    integer,
    nanoseconds,
    put,
    put_byte,
    put_int32,
    skip_value,
    space,
    string_end,
    word,
)

__all__ = ["FULL", "HOLE", "Kind", "State", "Status", "intern", "scan"]

FULL = -3
HOLE = 1
"""Byte that stands for an integer in a template; it cannot occur outside a string of JSON text."""


class Status(IntEnum):
    """Why `scan` returned."""

    CUT = CUT
    BROKEN = BROKEN
    FULL = FULL
    MORE = 0
    """All of the piece is consumed; the next piece continues the array."""
    END = 1
    """The array ended."""
    FLUSH = 2
    """The row buffers are full."""


class Kind(IntEnum):
    """Kinds of interned strings; the same bytes under two kinds are two strings."""

    NAME = 0
    CATEGORY = 1
    TEMPLATE = 2
    THREAD = 3
    META = 4


class State(IntEnum):
    """Slots of the scanner's state, an int64 array: position, fill levels, counts of this piece, then the buffers."""

    POSITION = 0
    AFTER_VALUE = 1
    STRINGS = 2
    USED = 3
    POOLED = 4
    ROWS = 5
    WIDE = 6
    LAST_PROCESS = 7
    LAST_THREAD = 8
    LAST_CODE = 9
    PIECE = 10
    EVENTS = 11
    EMPTY = 12
    FLOWS = 13
    METADATA = 14
    UNTIMED = 15
    OTHER_PHASE = 16
    NOT_OBJECT = 17
    ABSURD = 18
    KEYS_AT = 19
    SLOTS_AT = 20
    SLOTS_MASK = 21
    INFO_AT = 22
    INFO_SIZE = 23
    ARENA_AT = 24
    ARENA_SIZE = 25
    POOL_AT = 26
    POOL_SIZE = 27
    SCRATCH_AT = 28
    SCRATCH_SIZE = 29
    ROWS_AT = 30
    ROWS_SIZE = 31
    WIDE_AT = 32
    WIDE_SIZE = 33


COUNTS = slice(State.EVENTS, State.KEYS_AT)
"""The counts within the state."""

INFO_WIDTH = 5
"""Per string: place, length, hash, kind, extra (class of a category, integers of a template, piece of a record)."""

# The compiled code knows state slots, columns and string facts by their byte offsets.
_POSITION, _AFTER, _STRINGS, _USED, _POOLED, _ROWS, _WIDE = (8 * s for s in range(7))
_LAST_PROCESS, _LAST_THREAD, _LAST_CODE, _PIECE, _EVENTS, _EMPTY, _FLOW, _METADATA = (
    8 * s for s in range(7, 15)
)
_UNTIMED, _OTHER_PHASE, _NOT_OBJECT, _ABSURD, _KEYS_AT = (8 * s for s in range(15, 20))
_SLOTS_AT, _SLOTS_MASK, _INFO_AT, _INFO_SIZE, _ARENA_AT, _ARENA_SIZE = (8 * s for s in range(20, 26))
_POOL_AT, _POOL_SIZE, _SCRATCH_AT, _SCRATCH_SIZE = (8 * s for s in range(26, 30))
_ROWS_AT, _ROWS_SIZE, _WIDE_AT, _WIDE_SIZE = (8 * s for s in range(30, 34))
_TS, _DUR, _WHAT, _CATEGORY, _NAME, _THREAD, _CORRELATION, _EXTERNAL, _TEMPLATE = (8 * c for c in Column)
_ROW_BYTES, _WIDE_COLUMNS, _INFO_BYTES, _KEY_BYTES = (
    8 * len(Column),
    len(Wide),
    8 * INFO_WIDTH,
    8 * (4 + KEY_WORDS),
)
_LENGTH, _HASH, _KIND, _EXTRA = 8, 16, 24, 32
_NAME_KIND, _CATEGORY_KIND, _TEMPLATE_KIND, _THREAD_KIND, _META_KIND = (int(k) for k in Kind)
(_A_NONE, _A_PHASE, _A_CATEGORY, _A_NAME, _A_PROCESS, _A_THREAD, _A_TS, _A_DUR, _A_ARGS, _A_SCOPE, _A_CORRELATION, _A_EXTERNAL,
 _A_META, _A_NUMBER, _A_NUMBER_KEPT, _A_TEXT_KEPT, _A_TRIPLE) = (int(a) for a in Act)  # fmt: skip
_PLAIN, _OTHER = int(Class.PLAIN), int(Class.OTHER)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ROOM = 64
"""Bytes kept free behind whatever is appended."""


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_instant(phase: int) -> bool:
    return phase == 105 or phase == 73 or phase == 82  # i, I, R


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_flow(phase: int) -> bool:
    return phase == 115 or phase == 116 or phase == 102  # s, t, f


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _head(address: int, length: int) -> int:
    """Return the eight bytes at an address with all but the first `length` cleared."""
    value = word(address)
    if length < 8:
        value &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
    return value


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _copy(source: int, length: int, target: int) -> None:
    """Copy bytes in steps of eight; up to seven bytes behind the target are overwritten too."""
    for offset in range(0, length, 8):
        put(target + offset, np.int64(word(source + offset)))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _same(left: int, right: int, length: int) -> bool:
    for offset in range(0, length - 7, 8):
        if word(left + offset) != word(right + offset):
            return False
    rest = length & 7
    return rest == 0 or _head(left + length - rest, rest) == _head(right + length - rest, rest)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def intern(kind: int, source: int, length: int, state: int) -> int:
    """Return the id of a string, entering it when it is new, or FULL when the table must grow first.

    Args:
        kind: A `Kind`.
        source: Address of the bytes.
        length: Number of bytes.
        state: Address of the state.
    """
    h = np.uint64(kind * 0x9E3779B1 + length)
    for offset in range(0, length - 7, 8):
        h = (h ^ word(source + offset)) * _MIX
        h ^= h >> np.uint64(29)
    if length & 7:
        h = (h ^ _head(source + (length & ~7), length & 7)) * _MIX
        h ^= h >> np.uint64(29)
    mark = np.int64(h >> np.uint64(1))
    mask = get(state + _SLOTS_MASK)
    slots = get(state + _SLOTS_AT)
    slot = (mark >> 7) & mask
    while True:
        code = get_int32(slots + 4 * slot)
        if code < 0:
            break
        known = get(state + _INFO_AT) + code * _INFO_BYTES
        if (
            get(known + _HASH) == mark
            and get(known + _LENGTH) == length
            and get(known + _KIND) == kind
            and _same(source, get(state + _ARENA_AT) + get(known), length)
        ):
            return code
        slot = (slot + 1) & mask
    count = get(state + _STRINGS)
    used = get(state + _USED)
    if (
        count * 2 >= mask
        or count >= get(state + _INFO_SIZE)
        or used + length + _ROOM > get(state + _ARENA_SIZE)
    ):
        return FULL
    _copy(source, length, get(state + _ARENA_AT) + used)
    new = get(state + _INFO_AT) + count * _INFO_BYTES
    put(new, used)
    put(new + _LENGTH, length)
    put(new + _HASH, mark)
    put(new + _KIND, kind)
    put(new + _EXTRA, 0)
    put_int32(slots + 4 * slot, count)
    put(state + _STRINGS, count + 1)
    put(state + _USED, used + length)
    return count


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _find_key(at: int, length: int, scope: int, keys: int) -> int:
    """Return the address of the entry of a known member, or 0."""
    if length > 8 * KEY_WORDS or length == 0:
        return 0
    first = _head(at, length)
    slot = np.int64(((first ^ np.uint64(length + scope)) * _MIX) >> np.uint64(56))
    while True:
        entry = keys + slot * _KEY_BYTES
        size = get(entry)
        if size == 0:
            return 0
        if size == length + scope and np.uint64(get(entry + 32)) == first and _same(at, entry + 32, length):
            return entry
        slot = (slot + 1) & (SLOTS - 1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _identity(at: int, end: int) -> tuple[int, int]:
    """Parse an id given as number or as text (`7`, `"7"`, `"stream 7"`).

    Returns:
        Value, and the position behind it or CUT when it is no such id.
    """
    if byte(at) != 34:
        return integer(at, end)
    at += 1
    if end - at > 7 and _head(at, 7) == np.uint64(0x206D6165727473):  # "stream " in little-endian order
        at += 7
    value, stop = integer(at, end)
    if stop < 0 or stop >= end or byte(stop) != 34:
        return np.int64(0), np.int64(CUT)
    return value, stop + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _time(at: int, end: int) -> tuple[int, int]:
    """Parse a time given as number or as text; position CUT when it is no number."""
    if byte(at) != 34:
        return nanoseconds(at, end)
    value, stop = nanoseconds(at + 1, end)
    if stop < 0 or stop >= end or byte(stop) != 34:
        return np.int64(0), np.int64(CUT)
    return value, stop + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _triple(at: int, end: int, target: int) -> int:
    """Parse `[x, y, z]` to three int64 at `target`; return the position behind it, or CUT when it is something else."""
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


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _push(at: int, value: int) -> int:
    """Write an integer in groups of seven bits, its sign in the lowest; return the address behind it (at most 10 on)."""
    rest = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)
    while rest >= np.uint64(128):
        put_byte(at, np.int64(rest & np.uint64(127)) | 128)
        rest >>= np.uint64(7)
        at += 1
    put_byte(at, np.int64(rest))
    return at + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _thread(process: int, thread: int, state: int) -> int:
    """Return the string id of a (process, thread) pair, or FULL."""
    if process == get(state + _LAST_PROCESS) and thread == get(state + _LAST_THREAD):
        return get(state + _LAST_CODE)
    put(state + _LAST_PROCESS, process)
    put(state + _LAST_THREAD, thread)
    code = intern(_THREAD_KIND, state + _LAST_PROCESS, 16, state)
    put(state + _LAST_CODE, code)
    if code < 0:
        put(state + _LAST_PROCESS, np.int64(-2))
        put(state + _LAST_THREAD, np.int64(-2))
    return code


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _keep(key: int, close: int, at: int, behind: int, start: int, tail: int) -> int:
    """Append one member to the template; return its new end. `behind` is 0 for a value that was cut out."""
    put_byte(tail, 44 if tail > start else 123)
    _copy(key - 1, close - key + 2, tail + 1)
    tail += close - key + 3
    put_byte(tail, 58)
    if behind == 0:
        put_byte(tail + 1, HOLE)
        return tail + 2
    _copy(at, behind - at, tail + 1)
    return tail + 1 + behind - at


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _row(state: int, ts: int, dur: int, what: int, category: int, name: int, thread: int) -> int:
    """Write a row without ids and template; return its address."""
    row = get(state + _ROWS_AT) + get(state + _ROWS) * _ROW_BYTES
    put(state + _ROWS, get(state + _ROWS) + 1)
    put(row + _TS, ts)
    put(row + _DUR, dur)
    put(row + _WHAT, what)
    put(row + _CATEGORY, category)
    put(row + _NAME, name)
    put(row + _THREAD, thread)
    return row


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _metadata(name: int, meta: int, process: int, thread: int, state: int) -> int:
    """Take in a metadata record that names something; return 0 or FULL. Each distinct record is kept once per piece."""
    code = _thread(process, thread, state)
    scratch = get(state + _SCRATCH_AT)
    put(scratch, code)
    put(scratch + 8, name)
    put(scratch + 16, meta)
    seen = intern(_META_KIND, scratch, 24, state)
    if code < 0 or seen < 0:
        return FULL
    extra = get(state + _INFO_AT) + seen * _INFO_BYTES + _EXTRA
    if get(extra) != get(state + _PIECE):
        put(extra, get(state + _PIECE))
        row = _row(state, 0, MISSING, 77, -1, name, code)
        put(row + _CORRELATION, MISSING)
        put(row + _EXTERNAL, MISSING)
        put(row + _TEMPLATE, meta)
    return 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _event(at: int, end: int, state: int) -> int:  # noqa: C901, PLR0912, PLR0915
    """Take in the event whose `{` is at `at`; return the position behind it, or CUT, BROKEN or FULL.

    Longer than the house's measure: one loop over members, so that an event is walked once; members of `args` are taken
    by the same loop. When `args` stands before the category, it is skipped and taken at the end.
    """
    at += 1
    wide = get(state + _WIDE_AT) + get(state + _WIDE) * (8 * _WIDE_COLUMNS)
    keys = get(state + _KEYS_AT)
    phase = 0
    kind = -1
    category = -1
    name = -1
    meta = -1
    process = MISSING
    thread = MISSING
    ts = MISSING
    dur = MISSING
    letter = 0
    correlation = MISSING
    external = MISSING
    absurd = 0
    has_wide = 0
    template = get(state + _SCRATCH_AT)
    tail = template
    holes = 0
    pool = get(state + _POOL_AT) + get(state + _POOLED)
    scope = 0
    deferred = 0
    resume = 0
    members = 0
    after_value = False
    while True:
        at = space(at, end)
        if at >= end:
            return CUT
        c = byte(at)
        if c == 125:
            at += 1
            after_value = True
            if scope != 0:
                scope = 0
                if resume == 0:
                    continue
                at = resume
                break
            if deferred == 0:
                break
            resume = at
            at = deferred
            after_value = False
            scope = META_SCOPE if phase == 77 else ARGS_SCOPE
            kind = _PLAIN if _is_instant(phase) or phase == 67 else max(kind, _OTHER)
            continue
        if c == 44 and after_value:
            after_value = False
            at += 1
            continue
        if after_value or c != 34:
            return BROKEN
        members += 1
        after_value = True
        key = at + 1
        close = string_end(key, end)
        if close < 0:
            return CUT
        at = space(close + 1, end)
        if at >= end:
            return CUT
        if byte(at) != 58:
            return BROKEN
        at = space(at + 1, end)
        if at >= end:
            return CUT
        act = 0
        column = 0
        entry = _find_key(key, close - key, scope, keys)
        if entry != 0 and (scope != ARGS_SCOPE or (get(entry + 24) >> kind) & 1):
            act = get(entry + 8)
            column = wide + 8 * get(entry + 16)
        c = byte(at)
        behind = CUT  # position behind the value once it is taken; CUT: not taken, it goes to the template
        if act >= _A_NUMBER and has_wide == 0:
            has_wide = 1 << 16
            for k in range(_WIDE_COLUMNS):
                put(wide + 8 * k, MISSING)
        if act == _A_TS or act == _A_DUR:
            value, behind = _time(at, end)
            if act == _A_TS:
                if behind >= 0:
                    ts = value
            elif behind >= 0 and value != MISSING:
                dur = value
            elif not (c == 110 and byte(at + 1) == 117):  # null says nothing; anything else is odd
                absurd = 1
        elif act == _A_PROCESS or act == _A_THREAD:
            value, behind = _identity(at, end)
            if behind >= 0:
                if act == _A_PROCESS:
                    process = value
                else:
                    thread = value
        elif act == _A_CORRELATION or act == _A_EXTERNAL or act == _A_NUMBER or act == _A_NUMBER_KEPT:
            value, behind = _identity(at, end)
            if behind >= 0:
                if act == _A_CORRELATION:
                    correlation = value
                elif act == _A_EXTERNAL:
                    external = value
                else:
                    put(column, value)
                    if act == _A_NUMBER_KEPT and value != 0:
                        behind = CUT
        elif act == _A_TRIPLE:
            behind = _triple(at, end, column)
            if behind < 0:
                put(column, MISSING)
        elif act == _A_ARGS:
            if c == 123 and resume == 0 and deferred == 0:
                if phase == 0 or (kind < 0 and phase != 77):
                    deferred = at + 1
                    behind = skip_value(at, end)
                    if behind < 0:
                        return behind
                else:
                    scope = META_SCOPE if phase == 77 else ARGS_SCOPE
                    if _is_instant(phase) or phase == 67:
                        kind = _PLAIN
                    after_value = False
                    behind = at + 1
        elif act != _A_NONE and c == 34:
            closing = string_end(at + 1, end)
            if closing < 0:
                return CUT
            behind = closing + 1
            length = closing - at - 1
            if act == _A_PHASE:
                phase = byte(at + 1) if length == 1 else 63
            elif act == _A_SCOPE:
                if length == 1 and (phase == 0 or _is_instant(phase)):
                    letter = byte(at + 1)
                else:
                    behind = CUT
            else:
                code = intern(_CATEGORY_KIND if act == _A_CATEGORY else _NAME_KIND, at + 1, length, state)
                if code < 0:
                    return FULL
                if act == _A_CATEGORY:
                    category = code
                    kind = get(get(state + _INFO_AT) + code * _INFO_BYTES + _EXTRA)
                elif act == _A_NAME:
                    name = code
                elif act == _A_META:
                    meta = code
                else:
                    put(column, code)
                    behind = CUT
        if behind < 0:
            behind = skip_value(at, end)
            if behind < 0:
                return behind
            # times and ids that are none say nothing; nobody asks for the members of arrows and metadata
            if not (_is_flow(phase) or phase == 77 or (act >= _A_PROCESS and act <= _A_DUR)):
                room = template + get(state + _SCRATCH_SIZE) - tail
                if close - key + behind - at + _ROOM > room or pool + _ROOM > get(state + _POOL_AT) + get(
                    state + _POOL_SIZE
                ):
                    return FULL
                value, stop = integer(at, end)
                if stop == behind:
                    tail = _keep(key, close, at, 0, template, tail)
                    pool = _push(pool, value)
                    holes += 1
                else:
                    tail = _keep(key, close, at, behind, template, tail)
        at = behind
    # The event is complete: count it, or write its row.
    if members == 0:
        put(state + _EMPTY, get(state + _EMPTY) + 1)
    elif _is_flow(phase):
        put(state + _FLOW, get(state + _FLOW) + 1)
    elif phase == 77:
        if meta >= 0 and name >= 0 and _metadata(name, meta, process, thread, state) < 0:
            return FULL
        put(state + _METADATA, get(state + _METADATA) + 1)
    elif ts == MISSING:
        put(state + _UNTIMED, get(state + _UNTIMED) + 1)
    elif not (phase == 88 or phase == 66 or phase == 69 or phase == 67 or _is_instant(phase)) and (
        dur == MISSING
        or phase == 98
        or phase == 110
        or phase == 101  # b, n, e of asynchronous pairs are no intervals
    ):
        put(state + _OTHER_PHASE, get(state + _OTHER_PHASE) + 1)
    else:
        pattern = np.int64(-1)
        if tail > template:
            put_byte(tail, 125)
            pattern = intern(_TEMPLATE_KIND, template, tail + 1 - template, state)
            if pattern < 0:
                return FULL
            put(get(state + _INFO_AT) + pattern * _INFO_BYTES + _EXTRA, holes)
        code = _thread(process, thread, state)
        if code < 0:
            return FULL
        if _is_instant(phase):
            dur = letter
            kind = _PLAIN
            absurd = 0
        elif phase == 67:
            kind = _PLAIN
        row = _row(state, ts, dur, phase | (max(kind, 0) << 8) | has_wide, category, name, code)
        put(row + _CORRELATION, correlation)
        put(row + _EXTERNAL, external)
        put(row + _TEMPLATE, pattern)
        put(state + _WIDE, get(state + _WIDE) + (has_wide >> 16))
        put(state + _POOLED, pool - get(state + _POOL_AT))
        put(state + _ABSURD, get(state + _ABSURD) + absurd)
    put(state + _EVENTS, get(state + _EVENTS) + 1)
    return at


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def scan(end: int, state: int) -> int:
    """Walk the event array from the address in `State.POSITION` to `end`.

    Args:
        end: Address behind the last byte of the text.
        state: Address of the state; position, counts and fill levels are updated.

    Returns:
        A `Status`.
    """
    at = get(state + _POSITION)
    while True:
        at = space(at, end)
        put(state + _POSITION, at)
        if at >= end:
            return 0
        c = byte(at)
        if c == 93:
            put(state + _POSITION, at + 1)
            return 1
        if get(state + _AFTER) == 1:
            if c != 44:
                return BROKEN
            put(state + _AFTER, 0)
            at += 1
            continue
        if c == 123:
            if get(state + _ROWS) >= get(state + _ROWS_SIZE) or get(state + _WIDE) >= get(state + _WIDE_SIZE):
                return 2
            at = _event(at, end, state)
        elif c == 44 or c == 125 or c == 58:
            return BROKEN
        else:
            at = skip_value(at, end)
            if at >= 0:
                put(state + _EVENTS, get(state + _EVENTS) + 1)
                put(state + _NOT_OBJECT, get(state + _NOT_OBJECT) + 1)
        if at < 0:
            return at
        put(state + _AFTER, 1)
