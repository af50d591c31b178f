"""Where the compiled scanner keeps what: its state, kinds of strings, and the places of columns in bytes."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from overlane.readers.kineto.keys import KEY_WORDS, Act, Class, Column, Wide
from overlane.readers.kineto.text import BROKEN, CUT, DEEP

FULL = -3
ODD = -5
HOLE = 1
"""Byte that stands for an integer in a template; JSON has no such byte outside strings, and one inside a
string is escaped before it gets there (`spelling`)."""


class Status(IntEnum):
    """Why `scan` returned."""

    CUT = CUT
    BROKEN = BROKEN
    FULL = FULL
    DEEP = DEEP
    ODD = ODD
    """The event at the position must be spelt plainly first, see `spelling`."""
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
    """Slots of the scanner's state, an int64 array: position, fill levels, counts of the piece, buffers."""

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
    MISTIMED = 19
    OVERSIZED = 20
    LOST_OPS = 21
    """Device operations among those that have no time stamp or an impossible one."""
    KEYS_AT = 22
    SLOTS_AT = 23
    SLOTS_MASK = 24
    INFO_AT = 25
    INFO_SIZE = 26
    ARENA_AT = 27
    ARENA_SIZE = 28
    POOL_AT = 29
    POOL_SIZE = 30
    SCRATCH_AT = 31
    SCRATCH_SIZE = 32
    ROWS_AT = 33
    ROWS_SIZE = 34
    WIDE_AT = 35
    WIDE_SIZE = 36
    PLAIN = 37
    """1 while an event is scanned that was spelt plainly: none is ODD any more."""
    GUESSES_AT = 38


COUNTS = slice(State.EVENTS, State.KEYS_AT)
"""The counts within the state."""

INFO_WIDTH = 5
"""Per string: place, length, hash, kind, extra (class of a category, integers of a template, piece)."""

# The compiled code knows state slots (S), columns of rows (R) and facts of strings (I) by their places in
# bytes; acts (A), kinds of strings (K) and classes (C) by their numbers.
S_POSITION, S_AFTER, S_STRINGS, S_USED, S_POOLED, S_ROWS, S_WIDE = (8 * s for s in range(7))
S_LAST_PROCESS, S_LAST_THREAD, S_LAST_CODE, S_PIECE, S_EVENTS, S_EMPTY, S_FLOW, S_METADATA = (
    8 * s for s in range(7, 15)
)
S_UNTIMED, S_OTHER_PHASE, S_NOT_OBJECT, S_ABSURD, S_MISTIMED, S_OVERSIZED, S_LOST_OPS = (
    8 * s for s in range(15, 22)
)
S_KEYS_AT, S_SLOTS_AT, S_SLOTS_MASK, S_INFO_AT, S_INFO_SIZE, S_ARENA_AT, S_ARENA_SIZE = (
    8 * s for s in range(22, 29)
)
S_POOL_AT, S_POOL_SIZE, S_SCRATCH_AT, S_SCRATCH_SIZE = (8 * s for s in range(29, 33))
S_ROWS_AT, S_ROWS_SIZE, S_WIDE_AT, S_WIDE_SIZE, S_PLAIN, S_GUESSES_AT = (8 * s for s in range(33, 39))
R_TS, R_DUR, R_WHAT, R_CATEGORY, R_NAME, R_THREAD, R_CORRELATION, R_EXTERNAL, R_TEMPLATE = (
    8 * c for c in Column
)
ROW_BYTES, WIDE_COLUMNS, INFO_BYTES, KEY_BYTES = (
    8 * len(Column),
    len(Wide),
    8 * INFO_WIDTH,
    8 * (4 + KEY_WORDS),
)
I_LENGTH, I_HASH, I_KIND, I_EXTRA = 8, 16, 24, 32
K_NAME, K_CATEGORY, K_TEMPLATE, K_THREAD, K_META = (int(k) for k in Kind)
(A_NONE, A_PHASE, A_CATEGORY, A_NAME, A_PROCESS, A_THREAD, A_TS, A_DUR, A_ARGS, A_SCOPE, A_CORRELATION,
 A_EXTERNAL, A_META, A_NUMBER, A_NUMBER_KEPT, A_TEXT_KEPT, A_TRIPLE) = (int(a) for a in Act)  # fmt: skip
C_PLAIN, C_OTHER = int(Class.PLAIN), int(Class.OTHER)
C_KERNEL, C_DEVICE = int(Class.KERNEL), int(Class.DEVICE)
"""First and last of the classes of device operations."""
MIX = np.uint64(0x9E3779B97F4A7C15)
SALT = np.uint64(0xD6E8FEB86659FD93)
ROOM = 64
"""Bytes kept free behind whatever is appended."""
