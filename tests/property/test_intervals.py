"""The interval algebra against sets of unit cells on a small grid, and hand-worked cases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane import intervals

GRID = 24
# Any order, overlapping, touching, nested, zero-length, empty: the small grid makes all of these common.
ANY = st.lists(
    st.tuples(st.integers(0, GRID), st.integers(0, GRID)).map(lambda pair: (min(pair), max(pair))), max_size=8
)
WINDOW = st.tuples(st.integers(0, GRID), st.integers(0, GRID))


def arrays(pairs):
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def pairs(result):
    return [(int(a), int(b)) for a, b in zip(*result, strict=True)]


def cells(pairs):
    """The unit cells [t, t + 1) that some interval covers."""
    return {t for start, end in pairs for t in range(start, end)}


def runs(covered):
    """Maximal runs of covered cells, as sorted intervals."""
    starts = sorted(t for t in covered if t - 1 not in covered)
    ends = sorted(t + 1 for t in covered if t + 1 not in covered)
    return list(zip(starts, ends, strict=True))


@settings(deadline=None)  # the first call compiles
@given(ANY)
def test_union(a):
    assert pairs(intervals.union(arrays(a))) == runs(cells(a))
    assert intervals.union_length(arrays(a)) == len(cells(a))


@settings(deadline=None)  # the first call compiles
@given(ANY, ANY)
def test_intersection_and_difference(a, b):
    assert cells(pairs(intervals.intersect(arrays(a), arrays(b)))) == cells(a) & cells(b)
    assert intervals.summed_length(intervals.intersect(arrays(a), arrays(b))) == len(cells(a) & cells(b))
    assert pairs(intervals.subtract(arrays(a), arrays(b))) == runs(cells(a) - cells(b))


@settings(deadline=None)  # the first call compiles
@given(ANY, ANY)
def test_results_are_sorted_and_disjoint(a, b):
    start, end = intervals.intersect(arrays(a), arrays(b))
    assert (start < end).all()
    assert (start[1:] >= end[:-1]).all()


@settings(deadline=None)  # the first call compiles
@given(ANY, WINDOW)
def test_gaps_fill_the_window(a, window):
    whole = set(range(*window))
    assert pairs(intervals.complement(arrays(a), window)) == runs(whole - cells(a))


@settings(deadline=None)  # the first call compiles
@given(ANY, WINDOW)
def test_clip_keeps_each_interval_apart(a, window):
    expected = [(max(s, window[0]), min(e, window[1])) for s, e in a]
    assert pairs(intervals.clip(arrays(a), window)) == [(s, e) for s, e in expected if s < e]


@settings(deadline=None)  # the first call compiles
@given(ANY, WINDOW)
def test_concurrency_counts_open_intervals_per_cell(a, window):
    counts = [sum(s <= t < e for s, e in a) for t in range(*window)]
    levels, longest = intervals.concurrency(arrays(a), window)
    assert levels.tolist() == [counts.count(level) for level in range(max(counts, default=0) + 1)]
    for level, (start, end) in enumerate(longest.tolist()):
        stretches = runs({t for t, count in zip(range(*window), counts, strict=True) if count == level})
        assert end - start == max((b - a for a, b in stretches), default=0)
        assert end == start or (start, end) in stretches


@settings(deadline=None)  # the first call compiles
@given(ANY, st.lists(st.booleans(), min_size=8, max_size=8), st.integers(0, GRID))
def test_unfinished_intervals_end_when_the_recording_did(a, unfinished, at):
    mask = np.array(unfinished[: len(a)], bool)
    start, end = arrays(a)
    closed = intervals.close_unfinished(start, end, mask, at)
    assert closed.tolist() == [max(s, at) if u else e for (s, e), u in zip(a, mask, strict=True)]
    assert (closed >= start).all()


@pytest.mark.parametrize(
    ("a", "b", "union", "both", "only_a"),
    [
        ([], [], [], [], []),
        ([(3, 3)], [(0, 9)], [], [], []),  # zero-length holds no time
        ([(0, 4), (4, 8)], [(4, 4)], [(0, 8)], [], [(0, 8)]),  # touching intervals join
        ([(0, 9), (2, 3)], [(2, 3)], [(0, 9)], [(2, 3)], [(0, 2), (3, 9)]),  # nested
        (
            [(5, 9), (0, 2)],
            [(2, 5)],
            [(0, 2), (5, 9)],
            [],
            [(0, 2), (5, 9)],
        ),  # unsorted, touching the other set
    ],
)
def test_hand_worked_cases(a, b, union, both, only_a):
    assert pairs(intervals.union(arrays(a))) == union
    assert pairs(intervals.intersect(arrays(a), arrays(b))) == both
    assert pairs(intervals.subtract(arrays(a), arrays(b))) == only_a


def test_times_beyond_float_precision_stay_exact():
    base = 2**62
    a = (np.array([base, base + 2]), np.array([base + 1, base + 3]))
    assert intervals.union_length(a) == 2
    assert pairs(intervals.complement(a, (base, base + 3))) == [(base + 1, base + 2)]


def test_arguments_are_not_changed():
    start, end = np.array([5, 0]), np.array([7, 3])
    intervals.union((start, end))
    assert (start.tolist(), end.tolist()) == ([5, 0], [7, 3])
