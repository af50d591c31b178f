"""Busy, overlap, idle, exposed copies and concurrency against counting nanoseconds one by one."""

import json
from itertools import combinations, groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.analysis.engines import engine_report
from overlane.errors import OverlaneError
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Header
from overlane_collect.schema import ENGINES

GRID = 16
COPIES = {"copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p"}


def trace_of(rows, **tables):
    """Rows are (start, end, engine) or (start, end, engine, rank, device); an end of None is unknown."""
    full = [(*row, None, 0)[:3] + (row[3:] or (None, 0)) for row in rows]
    columns = {
        "start_ns": [r[0] for r in full],
        "end_ns": [r[1] for r in full],
        "engine": [r[2] for r in full],
        "rank": [r[3] for r in full],
        "device_id": [r[4] for r in full],
        "kind": ["other"] * len(full),
        "name": ["op"] * len(full),
    }
    return validate("made", Header("made"), {"ops": table_from_columns("ops", columns), **tables})


def stretches(flags, low):
    """Maximal runs of true flags, as intervals from `low` on."""
    found, at = [], low
    for value, run in groupby(flags):
        length = len(list(run))
        if value:
            found.append((at, at + length))
        at += length
    return found


def check(answer_ns, longest, flags, low):
    runs = stretches(flags, low)
    assert answer_ns == sum(flags)
    if not runs:
        assert longest is None
    else:
        assert longest in runs
        assert longest[1] - longest[0] == max(b - a for a, b in runs)


def check_device(device, rows, window):
    """Compare one device with what each nanosecond of its window says."""
    low, high = window
    engines = [e for e in (*ENGINES, None) if any(row[2] == e for row in rows)]
    open_at = [[e for s, t, e in rows if s <= now < t] for now in range(low, high)]
    check(device.busy_ns, device.busy_longest, [bool(now) for now in open_at], low)
    check(device.idle_ns, device.idle_longest, [not now for now in open_at], low)
    exposed = [bool(COPIES & set(now)) and "compute" not in now for now in open_at]
    check(device.exposed_copy_ns, device.exposed_longest, exposed, low)
    assert [use.engine for use in device.engines] == engines
    for use in device.engines:
        check(use.busy_ns, use.longest_ns, [use.engine in now for now in open_at], low)
        assert use.op_count == sum(e == use.engine for *_, e in rows)
        assert use.work_ns == sum(now.count(use.engine) for now in open_at)
        if use.engine in COPIES:
            exposed = [use.engine in now and "compute" not in now for now in open_at]
            check(use.exposed_ns, use.exposed_longest_ns, exposed, low)
        else:
            assert use.exposed_ns is None
    assert [(pair.engine_a, pair.engine_b) for pair in device.overlap] == list(combinations(engines, 2))
    for pair in device.overlap:
        both = [pair.engine_a in now and pair.engine_b in now for now in open_at]
        check(pair.overlap_ns, pair.longest_ns, both, low)
    levels = {level.level: level for level in device.concurrency}
    for number in range(max(map(len, open_at), default=0) + 2):
        flags = [len(now) == number for now in open_at]
        if any(flags):
            check(levels[number].ns, levels[number].longest_ns, flags, low)
        else:
            assert number not in levels


ENGINE = st.sampled_from([*ENGINES, None])
ROW = st.tuples(st.integers(0, GRID), st.integers(0, 6), ENGINE).map(lambda r: (r[0], r[0] + r[1], r[2]))


@settings(deadline=None, max_examples=300)  # the first call compiles
@given(st.lists(ROW, min_size=1, max_size=12))
def test_every_number_of_one_device(rows):
    report = engine_report(trace_of(rows))
    (device,) = report.devices
    assert device.window == (min(r[0] for r in rows), max(r[1] for r in rows))
    check_device(device, rows, device.window)


@settings(deadline=None, max_examples=200)
@given(st.lists(ROW, min_size=1, max_size=12), st.integers(0, GRID), st.integers(0, GRID))
def test_a_given_window_counts_the_parts_inside(rows, a, b):
    window = (min(a, b), max(a, b))
    (device,) = engine_report(trace_of(rows), window=window).devices
    inside = [
        (max(s, window[0]), min(t, window[1]), e)
        for s, t, e in rows
        if (s < t and max(s, window[0]) < min(t, window[1])) or (s == t and window[0] <= s < window[1])
    ]
    check_device(device, inside, window)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(ROW, st.sampled_from([None, 0, 3]), st.sampled_from([None, 0, 7])), min_size=1, max_size=12
    )
)
def test_devices_of_ranks_are_measured_apart_over_one_window(rows):
    report = engine_report(trace_of([(*row, rank, device) for row, rank, device in rows]))
    window = (min(r[0] for r, *_ in rows), max(r[1] for r, *_ in rows))
    found = [(device.rank, device.device_id) for device in report.devices]
    assert found == sorted(
        {(rank, device) for _, rank, device in rows},
        key=lambda k: (k[0] is None, k[0] or 0, k[1] is None, k[1] or 0),
    )
    for device in report.devices:
        own = [row for row, rank, number in rows if (rank, number) == (device.rank, device.device_id)]
        assert device.window == window
        check_device(device, own, window)


def test_a_worked_example():
    """compute 0-4 and 6-10, a nested one 1-3; copy 3-8; memset of zero length at 10."""
    trace = trace_of(
        [(0, 4, "compute"), (1, 3, "compute"), (3, 8, "copy_h2d"), (6, 10, "compute"), (10, 10, "memset")]
    )
    (device,) = engine_report(trace).devices
    assert (device.window, device.window_ns, device.busy_ns, device.idle_ns) == ((0, 10), 10, 10, 0)
    compute, copy, memset = device.engines
    assert (compute.busy_ns, compute.work_ns, compute.op_count, compute.longest_ns) == (8, 10, 3, (0, 4))
    assert (copy.busy_ns, copy.exposed_ns, copy.exposed_longest_ns) == (5, 2, (4, 6))
    assert (memset.busy_ns, memset.op_count, memset.longest_ns) == (0, 1, None)
    assert [(p.engine_a, p.engine_b, p.overlap_ns, p.longest_ns) for p in device.overlap] == [
        ("compute", "copy_h2d", 3, (6, 8)),
        ("compute", "memset", 0, None),
        ("copy_h2d", "memset", 0, None),
    ]
    assert [(c.level, c.ns, c.longest_ns) for c in device.concurrency] == [(1, 5, (4, 6)), (2, 5, (1, 4))]


def test_an_unfinished_operation_runs_to_the_last_stamp():
    calls = table_from_columns(
        "api_calls", {"api": ["runtime"], "name": ["c"], "start_ns": [0], "end_ns": [30]}
    )
    (device,) = engine_report(trace_of([(0, 5, "compute"), (10, None, "compute")], api_calls=calls)).devices
    assert device.unfinished_count == 1
    assert (device.window, device.busy_ns, device.idle_ns) == ((0, 30), 25, 5)


def test_many_open_operations():
    rows = [(i, 2_000 - i, "compute") for i in range(1_000)]
    (device,) = engine_report(trace_of(rows)).devices
    assert device.concurrency[-1].level == 1_000
    assert sum(level.ns for level in device.concurrency) == 2_000


def test_a_trace_without_device_work_has_no_devices():
    assert engine_report(trace_of([])).to_json() == {"schema": 1, "devices": []}


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(OverlaneError, match="the window 9:3 ends before it starts"):
        engine_report(trace_of([(0, 4, "compute")]), window=(9, 3))


def test_the_report_is_plain_json():
    report = engine_report(trace_of([(0, 4, "compute"), (2, 9, None)])).to_json()
    assert json.loads(json.dumps(report)) == report
    assert report["devices"][0]["engines"][1]["engine"] is None
