"""Compiled steps against plain Python."""

import json
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlane.readers.kineto.compiled import count_overlaps, match_pairs, nesting_levels
from overlane.readers.kineto.text import BROKEN, CUT, MISSING, PADDING, integer, nanoseconds, skip_value


def on_text(function, text):
    data = text.encode()
    buffer = np.frombuffer(
        data + b'"]} ' * (PADDING // 4), np.uint8
    )  # what stands behind the end must not matter
    return function(buffer.ctypes.data, buffer.ctypes.data + len(data)), buffer.ctypes.data


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.decimals(allow_nan=False, allow_infinity=False).map(str),
        st.from_regex(r"-?[0-9]{1,22}(\.[0-9]{0,8})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
    )
)
@example("1718293847561234.5675")
@example("0.00049999999999999999999")
@example("0.0005")
@example("-0.0005")
@example("2305843009213693.9515")
@example("9" * 40 + "e-30")
def test_numbers_of_microseconds_are_exact(text):
    (value, stop), base = on_text(nanoseconds, text)
    try:
        exact = (
            (Decimal(text) * 1000).to_integral_value(ROUND_HALF_UP)
            if abs(Decimal(text)) < Decimal(10) ** 20
            else None
        )
    except InvalidOperation:
        exact = None
    assert stop - base == len(text)
    if exact is None or abs(exact) >= 1 << 61:
        assert value == MISSING
    else:
        assert value == int(exact)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.integers(), st.integers(-(2**64), 2**64), st.floats(), st.text(max_size=5)))
@example(2**63 - 1)
@example(2**63)
@example(-(2**63))
@example(10**19)
def test_only_plain_integers_are_cut_out(value):
    text = json.dumps(value)
    (found, stop), base = on_text(integer, text)
    if isinstance(value, int) and abs(value) < 2**63:
        assert (found, stop - base) == (value, len(text))
    else:
        assert stop == CUT


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(values, st.booleans(), st.sampled_from([None, 1, 2]))
def test_a_value_is_skipped_to_its_end_and_no_shorter(value, escapes, indent):
    text = json.dumps(value, ensure_ascii=escapes, indent=indent)
    stop, base = on_text(skip_value, text + ",")
    assert stop - base == len(text.encode())
    if text[0] in '"[{':
        cut, _ = on_text(skip_value, text[:-1])
        assert cut in {CUT, BROKEN}


intervals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.one_of(st.just(-1), st.integers(0, 20))), max_size=14
)


def levels_by_hand(rows):
    """Compare every pair of a lane."""
    found = []
    for k, (lane, start, end) in enumerate(rows):
        if end is None:
            found.append(-1)
            continue
        level, is_clean = 0, True
        for j, (other_lane, low, high) in enumerate(rows):
            if j == k or other_lane != lane or high is None:
                continue
            if j < k and high > start:
                level += 1
            first, second = ((low, high), (start, end)) if j < k else ((start, end), (low, high))
            if second[0] < first[1] < second[1]:
                is_clean = False
        found.append(level if is_clean else -1)
    return found


@settings(max_examples=300, deadline=None)
@given(intervals)
def test_nesting_levels_equal_a_comparison_of_all_pairs(drawn):
    rows = sorted(
        ((lane, start, None if length < 0 else start + length) for lane, start, length in drawn),
        key=lambda r: (r[1], -(r[2] if r[2] is not None else 10**9)),
    )
    starts = np.array([r[1] for r in rows], np.int64)
    ends = np.array([MISSING if r[2] is None else r[2] for r in rows], np.int64)
    levels = nesting_levels(np.array([r[0] for r in rows], np.int32), 3, starts, ends)
    assert levels.tolist() == levels_by_hand(rows)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=20))
def test_pairs_equal_a_stack_per_thread(drawn):
    stacks, partner = {}, [-1] * len(drawn)
    for k, (thread, is_begin) in enumerate(drawn):
        if is_begin:
            stacks.setdefault(thread, []).append(k)
        elif stacks.get(thread):
            begin = stacks[thread].pop()
            partner[begin], partner[k] = k, begin
    found = match_pairs(np.array([t for t, _ in drawn], np.int32), 3, np.array([b for _, b in drawn], bool))
    assert found.tolist() == partner


@settings(deadline=None)
@given(intervals)
def test_overlaps_are_counted_once_per_later_operation(drawn):
    rows = sorted((start, lane, start + max(length, 0)) for lane, start, length in drawn)
    expected = sum(
        any(other == lane and high > start for _, other, high in rows[:k]) and end > start
        for k, (start, lane, end) in enumerate(rows)
    )
    columns = [np.array([r[c] for r in rows], t) for c, t in ((1, np.int32), (0, np.int64), (2, np.int64))]
    assert count_overlaps(columns[0], 3, columns[1], columns[2]) == expected
