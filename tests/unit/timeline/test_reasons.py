"""Waits, gaps and the critical path as intervals on lanes: against plain loops over the operations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlane.timeline.reasons import NO_WAIT, gap_layer, main_causes, path_layer, wait_layer


def arrays(*columns):
    return tuple(np.array(column, np.int64) for column in columns)


def told(layer):
    rows = (layer.lane, layer.start, layer.end, layer.category, layer.row)
    return list(zip(*(values.tolist() for values in rows), strict=True))


def test_a_wait_is_shown_from_the_start_of_the_operation_before():
    # Operation 0 runs from 10, 1 from 50, issued at 5 and 6; 1 waited for 0 until 40, then 10 for a copy.
    parts = arrays([0, 1, 1], [5, 6, 40], [10, 40, 50], [14, 0, 7])
    layer = wait_layer(parts, np.array([10, 50]), np.array([0, 0], np.int32))
    assert told(layer) == [(0, 5, 10, 14, 0), (0, 10, 40, 0, 1), (0, 40, 50, 7, 1)]


def test_streams_do_not_cut_each_other_and_rows_without_lane_are_left_out():
    parts = arrays([0, 1, 2], [0, 0, 0], [10, 20, 30], [0, 1, 2])
    layer = wait_layer(parts, np.array([10, 20, 30]), np.array([0, 1, -1], np.int32), first_lane=4)
    assert told(layer) == [(4, 0, 10, 0, 0), (5, 0, 20, 1, 1)]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=12)
)
def test_waits_of_a_lane_never_overlap_and_nothing_uncovered_is_lost(ops):
    ops = sorted(ops, key=lambda op: op[1])
    lane = np.array([op[0] for op in ops], np.int32)
    start = np.array([op[1] for op in ops], np.int64)
    # Streams start their operations in the order in which they were issued.
    issued = np.minimum(np.maximum.accumulate(start - np.array([op[2] for op in ops])), start)
    for k in range(3):
        issued[lane == k] = np.minimum(np.maximum.accumulate(issued[lane == k]), start[lane == k])
    parts = (np.arange(len(ops)), issued, start, np.zeros(len(ops), np.int64))
    layer = wait_layer(parts, start, lane)
    for k in range(3):
        mine = [(s, e) for at, s, e, *_ in told(layer) if at == k]
        assert all(a[1] <= b[0] for a, b in pairwise(mine))
        waiting = {t for i in range(len(ops)) if lane[i] == k for t in range(issued[i], start[i])}
        assert {t for s, e in mine for t in range(s, e)} == waiting


def test_gaps_lie_on_the_lane_of_the_operation_after_them():
    parts = arrays([1, -1, 1], [30, 90, 20], [40, 99, 30], [19, 19, 16])
    layer = gap_layer(parts, np.array([3, 5], np.int32), first_lane=10)
    assert told(layer) == [(15, 20, 30, 16, 1), (15, 30, 40, 19, 1)]


def test_the_path_goes_over_calls_and_operations():
    links = arrays([-1, 0, -1], [2, -1, -1], [0, 10, 20], [10, 20, 30])
    layer = path_layer(links, np.array([1], np.int32), np.array([0, 0, 4], np.int32))
    assert told(layer) == [(4, 0, 10, 0, 2), (1, 10, 20, 0, 0)]


def test_the_main_cause_is_that_of_the_longest_part():
    parts = arrays([0, 0, 2, 2, 2], [0, 5, 0, 10, 20], [5, 20, 10, 20, 20], [3, 7, 9, 4, 1])
    assert main_causes(parts, 4).tolist() == [7, NO_WAIT, 4, NO_WAIT]
