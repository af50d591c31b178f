# ruff: noqa: PLR0917, PLR1714, SIM109 - compiled code takes plain numbers and compares them one by one
"""The compiled scanner: JSON text of trace events -> narrow rows, without a Python object per event.

One call of `scan` walks a piece of the event array. Each kept event becomes one row (see `keys.Column`), and
one wide row when it names a device, a stream or a launch. Names and the like are interned in a string table
(`strings.StringTable`): rows hold ids. All members without a column of their own are copied to a canonical
JSON object in which top-level integers are replaced by the byte `HOLE`; that template is interned, the
integers go to a pool of packed numbers.

Nothing is committed before an event is complete, so `FULL` (a buffer must grow) and `CUT` (the piece ends)
leave the position at the start of the event. Buffers are addressed as `text` says; their addresses and sizes
stand in the state.
"""

from __future__ import annotations

from numba import njit

from overlane.readers.kineto.guess import (
    G_CLOSE,
    G_ENTRY,
    G_KEY,
    G_LENGTH,
    START,
    is_next,
    learn,
    next_of,
)
from overlane.readers.kineto.keys import ARGS_SCOPE, META_SCOPE
from overlane.readers.kineto.layout import (
    A_ARGS,
    A_CATEGORY,
    A_CORRELATION,
    A_DUR,
    A_EXTERNAL,
    A_META,
    A_NAME,
    A_NONE,
    A_NUMBER,
    A_NUMBER_KEPT,
    A_PHASE,
    A_PROCESS,
    A_SCOPE,
    A_THREAD,
    A_TRIPLE,
    A_TS,
    C_DEVICE,
    C_KERNEL,
    C_OTHER,
    C_PLAIN,
    FULL,
    HOLE,
    I_EXTRA,
    INFO_BYTES,
    K_CATEGORY,
    K_META,
    K_NAME,
    K_TEMPLATE,
    ODD,
    R_CATEGORY,
    R_CORRELATION,
    R_DUR,
    R_EXTERNAL,
    R_NAME,
    R_TEMPLATE,
    R_THREAD,
    R_TS,
    R_WHAT,
    ROOM,
    ROW_BYTES,
    S_ABSURD,
    S_AFTER,
    S_EMPTY,
    S_EVENTS,
    S_FLOW,
    S_GUESSES_AT,
    S_INFO_AT,
    S_KEYS_AT,
    S_LOST_OPS,
    S_METADATA,
    S_MISTIMED,
    S_NOT_OBJECT,
    S_OTHER_PHASE,
    S_OVERSIZED,
    S_PIECE,
    S_PLAIN,
    S_POOL_AT,
    S_POOL_SIZE,
    S_POOLED,
    S_POSITION,
    S_ROWS,
    S_ROWS_AT,
    S_ROWS_SIZE,
    S_SCRATCH_AT,
    S_SCRATCH_SIZE,
    S_STRINGS,
    S_UNTIMED,
    S_WIDE,
    S_WIDE_AT,
    S_WIDE_SIZE,
    WIDE_COLUMNS,
)
from overlane.readers.kineto.memory import byte, get, put, put_byte
from overlane.readers.kineto.steps import (
    find_key,
    identity,
    intern,
    keep,
    push,
    thread_code,
    time,
    triple,
)
from overlane.readers.kineto.text import (
    BROKEN,
    CUT,
    MAX_SPAN_NS,
    MISSING,
    count_bytes,
    has_backslash,
    integer,
    is_oversized,
    skip_value,
    space,
    string_end,
)

__all__ = ["scan"]


@njit("boolean(int64)", cache=True, nogil=True)
def _is_instant(phase: int) -> bool:
    return phase == 105 or phase == 73 or phase == 82  # i, I, R


@njit("boolean(int64)", cache=True, nogil=True)
def _is_flow(phase: int) -> bool:
    return phase == 115 or phase == 116 or phase == 102  # s, t, f


@njit("int64(int64, int64, int64, int64, int64, int64, int64)", cache=True, nogil=True)
def _row(state: int, ts: int, dur: int, what: int, category: int, name: int, thread: int) -> int:
    """Write a row without ids and template; return its address."""
    row = get(state + S_ROWS_AT) + get(state + S_ROWS) * ROW_BYTES
    put(state + S_ROWS, get(state + S_ROWS) + 1)
    put(row + R_TS, ts)
    put(row + R_DUR, dur)
    put(row + R_WHAT, what)
    put(row + R_CATEGORY, category)
    put(row + R_NAME, name)
    put(row + R_THREAD, thread)
    return row


@njit("int64(int64, int64, int64, int64, int64)", cache=True, nogil=True)
def _metadata(name: int, meta: int, process: int, thread: int, state: int) -> int:
    """Take in a metadata record that names something, each distinct one once per piece; return 0 or FULL."""
    code = thread_code(process, thread, state)
    scratch = get(state + S_SCRATCH_AT)
    put(scratch, code)
    put(scratch + 8, name)
    put(scratch + 16, meta)
    seen = intern(K_META, scratch, 24, state)
    if code < 0 or seen < 0:
        return FULL
    extra = get(state + S_INFO_AT) + seen * INFO_BYTES + I_EXTRA
    if get(extra) != get(state + S_PIECE):
        put(extra, get(state + S_PIECE))
        row = _row(state, 0, MISSING, 77, -1, name, code)
        put(row + R_CORRELATION, MISSING)
        put(row + R_EXTERNAL, MISSING)
        put(row + R_TEMPLATE, meta)
    return 0


@njit("int64(int64, int64, int64)", cache=True, nogil=True)
def _event(at: int, end: int, state: int) -> int:  # noqa: C901, PLR0912, PLR0915 - one walk, see below
    """Take in the event whose `{` is at `at`; return the position behind it, or a `Status`.

    Longer than 50 lines: one loop over members, so that an event is walked once; members of `args` are taken
    by the same loop. When `args` stands before the category, it is skipped and taken at the end.
    What would slow the loop is left to `spelling` (ODD): escapes in names and classifying values, members
    that stand twice where the order would matter, and the byte `HOLE` inside a string.
    """
    at += 1
    wide = get(state + S_WIDE_AT) + get(state + S_WIDE) * (8 * WIDE_COLUMNS)
    keys = get(state + S_KEYS_AT)
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
    absurd = 0  # the duration is impossible
    mistimed = 0  # the stamp is
    oversized = 0
    has_wide = 0
    template = get(state + S_SCRATCH_AT)
    tail = template
    holes = 0
    pool = get(state + S_POOL_AT) + get(state + S_POOLED)
    scope = 0
    deferred = 0
    resume = 0
    seen_args = False
    members = 0
    after_value = False
    plain = get(state + S_PLAIN) == 1
    guesses = get(state + S_GUESSES_AT)
    guess = guesses + START
    begin = at  # behind the last value or opening bracket
    where = 0
    while True:
        link = next_of(guess, kind)
        if at == begin:
            where = scope + (1 if after_value else 0)
        if at == begin and is_next(get(link), at, end, where):
            guess = get(link)
            key, close, entry = at + get(guess + G_KEY), at + get(guess + G_CLOSE), get(guess + G_ENTRY)
            at += get(guess + G_LENGTH)
        else:
            at = space(at, end)
            if at >= end:
                return CUT
            c = byte(at)
            if c == 125:
                at += 1
                begin = at
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
                at = begin = deferred
                after_value = False
                scope = META_SCOPE if phase == 77 else ARGS_SCOPE
                kind = C_PLAIN if _is_instant(phase) or phase == 67 else max(kind, C_OTHER)
                continue
            if c == 44 and after_value:
                after_value = False
                at += 1
                continue
            if after_value or c != 34:
                return BROKEN
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
            entry = find_key(key, close - key, scope, keys)
            if entry == 0 and not plain and has_backslash(key, close):
                return ODD
            guess = guesses
            if not plain:
                guess = learn(guesses, begin, at, where, key, close, entry)
                put(link, guess)
        members += 1
        after_value = True
        act = 0
        column = 0
        if entry != 0 and (scope != ARGS_SCOPE or (get(entry + 24) >> kind) & 1):
            act = get(entry + 8)
            column = wide + 8 * get(entry + 16)
        c = byte(at)
        if scope == 0 and act >= A_CATEGORY and act <= A_DUR and _is_flow(phase):
            act = A_NONE  # nobody asks for the members of an arrow
        behind = CUT  # position behind the value once it is taken; CUT: not taken, it goes to the template
        if act >= A_NUMBER and has_wide == 0:
            has_wide = 1 << 16
            for k in range(WIDE_COLUMNS):
                put(wide + 8 * k, MISSING)
        if act == A_TS or act == A_DUR:
            value, behind = time(at, end)
            if act == A_TS:
                ts = value if behind >= 0 and value > -MAX_SPAN_NS else MISSING
                mistimed = 0 if ts != MISSING or (c == 110 and byte(at + 1) == 117) else 1
            elif behind >= 0 and value > -MAX_SPAN_NS and value < MAX_SPAN_NS:
                dur = value
            elif not (c == 110 and byte(at + 1) == 117):  # null says nothing; anything else is odd
                absurd = 1
                dur = 0
        elif act == A_PROCESS or act == A_THREAD:
            value, behind = identity(at, end)
            if behind >= 0:
                if act == A_PROCESS:
                    process = value
                else:
                    thread = value
            elif is_oversized(at, end):
                oversized += 1
                act = A_NONE
        elif act == A_CORRELATION or act == A_EXTERNAL or act == A_NUMBER or act == A_NUMBER_KEPT:
            value, behind = identity(at, end)
            if behind >= 0:
                if act == A_CORRELATION:
                    correlation = value
                elif act == A_EXTERNAL:
                    external = value
                else:
                    put(column, value)
                    if act == A_NUMBER_KEPT and value != 0:
                        behind = CUT
            elif is_oversized(at, end):
                oversized += 1
        elif act == A_TRIPLE:
            behind = triple(at, end, column)
            if behind < 0:
                put(column, MISSING)
        elif act == A_ARGS:
            if seen_args and not plain:
                return ODD
            seen_args = True
            if c == 123 and resume == 0 and deferred == 0:
                if phase == 0 or (kind < 0 and phase != 77):
                    deferred = at + 1
                    behind = skip_value(at, end)
                    if behind < 0:
                        return behind
                else:
                    scope = META_SCOPE if phase == 77 else ARGS_SCOPE
                    if _is_instant(phase) or phase == 67:
                        kind = C_PLAIN
                    after_value = False
                    behind = at + 1
        elif act != A_NONE and c == 34:
            closing = string_end(at + 1, end)
            if closing < 0:
                return CUT
            behind = closing + 1
            length = closing - at - 1
            if not plain and (
                (act == A_PHASE and (phase != 0 or length != 1))
                or (act == A_SCOPE and length != 1)
                or (act == A_CATEGORY and category >= 0)
            ):
                return ODD
            if act == A_PHASE:
                phase = byte(at + 1) if length == 1 else 63
            elif act == A_SCOPE:
                if length == 1 and (phase == 0 or _is_instant(phase)):
                    letter = byte(at + 1)
                else:
                    behind = CUT
            else:
                code = intern(K_CATEGORY if act == A_CATEGORY else K_NAME, at + 1, length, state)
                if code < 0:
                    return FULL
                if act == A_CATEGORY:
                    category = code
                    kind = get(get(state + S_INFO_AT) + code * INFO_BYTES + I_EXTRA)
                    if kind == C_OTHER and not plain and has_backslash(at + 1, closing):
                        return ODD
                elif act == A_NAME:
                    name = code
                elif act == A_META:
                    meta = code
                else:
                    put(column, code)
                    behind = CUT
        if behind < 0:
            value, stop = integer(at, end) if c <= 57 else (0, CUT)
            if stop >= 0 and stop < end and (byte(stop) == 44 or byte(stop) <= 32 or byte(stop) == 125):
                behind = stop
            else:
                stop = CUT
                behind = skip_value(at, end)
                if behind < 0:
                    return behind
            # times and ids that are none say nothing; nobody asks for the members of arrows and metadata
            if not (_is_flow(phase) or phase == 77 or (act >= A_PROCESS and act <= A_DUR)):
                room = template + get(state + S_SCRATCH_SIZE) - tail
                if close - key + behind - at + ROOM > room or pool + ROOM > get(state + S_POOL_AT) + get(
                    state + S_POOL_SIZE
                ):
                    return FULL
                if stop == behind:
                    tail = keep(key, close, at, 0, template, tail)
                    pool = push(pool, value)
                    holes += 1
                else:
                    tail = keep(key, close, at, behind, template, tail)
        at = begin = behind
    # The event is complete: count it, or write its row.
    if members == 0:
        put(state + S_EMPTY, get(state + S_EMPTY) + 1)
    elif _is_flow(phase):
        put(state + S_FLOW, get(state + S_FLOW) + 1)
    elif phase == 77:
        if meta >= 0 and name >= 0 and _metadata(name, meta, process, thread, state) < 0:
            return FULL
        put(state + S_METADATA, get(state + S_METADATA) + 1)
    elif ts == MISSING:
        put(state + S_UNTIMED, get(state + S_UNTIMED) + 1 - mistimed)
        put(state + S_MISTIMED, get(state + S_MISTIMED) + mistimed)
        if kind >= C_KERNEL and kind <= C_DEVICE:
            put(state + S_LOST_OPS, get(state + S_LOST_OPS) + 1)
    elif not (phase == 88 or phase == 66 or phase == 69 or phase == 67 or _is_instant(phase)) and (
        dur == MISSING
        or phase == 98
        or phase == 110
        or phase == 101  # b, n, e of asynchronous pairs are no intervals
    ):
        put(state + S_OTHER_PHASE, get(state + S_OTHER_PHASE) + 1)
    else:
        pattern = -1
        if tail > template:
            put_byte(tail, 125)
            known = get(state + S_STRINGS)
            pattern = intern(K_TEMPLATE, template, tail + 1 - template, state)
            if pattern < 0:
                return FULL
            extra = get(state + S_INFO_AT) + pattern * INFO_BYTES + I_EXTRA
            if pattern == known:  # it is new: does the mark stand for integers only?
                put(extra, holes if count_bytes(template, tail, HOLE) == holes else -1)
            if get(extra) < 0:
                return ODD
        code = thread_code(process, thread, state)
        if code < 0:
            return FULL
        if _is_instant(phase):
            dur = letter
            kind = C_PLAIN
            absurd = 0
        elif phase == 67:
            kind = C_PLAIN
        row = _row(state, ts, dur, phase | (max(kind, 0) << 8) | has_wide, category, name, code)
        put(row + R_CORRELATION, correlation)
        put(row + R_EXTERNAL, external)
        put(row + R_TEMPLATE, pattern)
        put(state + S_WIDE, get(state + S_WIDE) + (has_wide >> 16))
        put(state + S_POOLED, pool - get(state + S_POOL_AT))
        put(state + S_ABSURD, get(state + S_ABSURD) + absurd)
        put(state + S_OVERSIZED, get(state + S_OVERSIZED) + oversized)
    put(state + S_EVENTS, get(state + S_EVENTS) + 1)
    return at


@njit("int64(int64, int64)", cache=True, nogil=True)
def scan(end: int, state: int) -> int:
    """Walk the event array from the address in `State.POSITION` to `end`.

    Args:
        end: Address behind the last byte of the text.
        state: Address of the state; position, counts and fill levels are updated.

    Returns:
        A `Status`.
    """
    at = get(state + S_POSITION)
    while True:
        at = space(at, end)
        put(state + S_POSITION, at)
        if at >= end:
            return 0
        c = byte(at)
        if c == 93:
            put(state + S_POSITION, at + 1)
            return 1
        if get(state + S_AFTER) == 1:
            if c != 44:
                return BROKEN
            put(state + S_AFTER, 0)
            at += 1
            continue
        if c == 123:
            if get(state + S_ROWS) >= get(state + S_ROWS_SIZE) or get(state + S_WIDE) >= get(
                state + S_WIDE_SIZE
            ):
                return 2
            at = _event(at, end, state)
        elif c == 44 or c == 125 or c == 58:
            return BROKEN
        else:
            at = skip_value(at, end)
            if at >= 0:
                put(state + S_EVENTS, get(state + S_EVENTS) + 1)
                put(state + S_NOT_OBJECT, get(state + S_NOT_OBJECT) + 1)
        if at < 0:
            return at
        put(state + S_AFTER, 1)
