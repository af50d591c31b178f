"""Every tile against the brute-force oracle: nothing lost, nothing of a pixel merged, busy time exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.timeline import CATEGORIES, encode_tile
from overlane.timeline import timeline as timeline_module
from unit.timeline.oracle import Drawn, check_lane, decode, first_fit, union_length, union_runs
from unit.timeline.traces import lane, make_trace, open_timeline

ENGINES = ("compute", "copy_h2d", "memset")
YEAR = 365 * 86_400 * 10**9

durations = st.one_of(
    st.just(0),
    st.integers(1, 30),
    st.integers(1, 30),
    st.integers(1, 3_000),
    st.integers(1, 6 * 10**9),
    st.none(),
)
starts = st.one_of(
    st.integers(0, 300), st.integers(0, 10_000), st.integers(0, 10**10), st.integers(0, 3 * YEAR)
)
op = st.tuples(starts, durations, st.integers(0, 1), st.sampled_from(ENGINES))


def crowd(seed):
    """Return hundreds of short operations, so that the summary trees have several levels.

    So few that no stream needs more sublanes than a lane may have, however much they overlap.
    """
    rng = np.random.default_rng(seed)
    size = int(rng.integers(100, 400))
    begin = rng.integers(0, int(rng.integers(100, 10**6)), size).tolist()
    engine = rng.integers(0, 3, size).tolist()
    duration = rng.integers(0, int(rng.integers(1, 3_000)), size).tolist()
    return [(s, d, s % 2, ENGINES[e]) for s, d, e in zip(begin, duration, engine, strict=True)]


ops_strategy = st.one_of(st.lists(op, min_size=1, max_size=40), st.integers(0, 10**6).map(crowd))


def trace_of(ops):
    return make_trace(ops=[
        {"start_ns": s, "end_ns": None if d is None else s + d, "stream_id": n, "engine": e,
         "device_id": 0, "context_id": 1}
        for s, d, n, e in ops
    ])  # fmt: skip


def expected_lanes(trace):
    """Return the slices of each lane id and sublane, from the table's rows alone."""
    rows = trace.table("ops").to_pylist()
    drawn = [
        Drawn(
            r["start_ns"],
            trace.span_ns if r["end_ns"] is None else r["end_ns"],
            i,
            CATEGORIES.index(r["engine"]),
        )
        for i, r in enumerate(rows)
    ]
    lanes = {}
    for stream in {r["stream_id"] for r in rows}:
        mine = [d for d, r in zip(drawn, rows, strict=True) if r["stream_id"] == stream]
        for d, sub in zip(mine, first_fit([(d.start, d.end) for d in mine]), strict=True):
            lanes.setdefault((f"s:0:1:{stream}", sub), []).append(d)
    for engine in {r["engine"] for r in rows}:
        mine = [d for d, r in zip(drawn, rows, strict=True) if r["engine"] == engine]
        lanes["e:0:" + engine, 0] = union_runs(mine)
    lanes["u:0", 0] = union_runs(drawn)
    return lanes


def check(timeline, lanes, t0, t1, px, **options):
    tile = timeline.tile(t0, t1, px)
    order = list(zip(tile.lane.tolist(), tile.start_ns.tolist(), strict=True))
    assert order == sorted(order)
    assert sum(each["sublanes"] for each in timeline.meta()["lanes"]) == len(lanes) == timeline.wire_lanes
    for (lane_id, sub), slices in lanes.items():
        check_lane(tile, lane(timeline, lane_id)["first"] + sub, slices, **options)
    return tile


@settings(max_examples=150, deadline=None)
@given(ops_strategy, st.data())
def test_every_window_shows_what_the_tables_hold(ops, data):
    trace = trace_of(ops)
    timeline = open_timeline(trace)
    lanes = expected_lanes(trace)
    span = trace.span_ns
    for _ in range(6):
        t0 = data.draw(st.one_of(st.integers(-5, span + 5), st.sampled_from([s for s, *_ in ops])))
        width = data.draw(st.one_of(st.integers(1, 50), st.integers(1, 5_000), st.integers(1, 2 * span + 10)))
        px = data.draw(st.sampled_from([1, 2, 7, 40, 1_400]))
        check(timeline, lanes, t0, t0 + width, px)


@settings(max_examples=60, deadline=None)
@given(ops_strategy, st.integers(1, 30))
def test_the_whole_trace_adds_up_to_the_union(ops, px):
    trace = trace_of(ops)
    timeline = open_timeline(trace)
    tile = timeline.tile(0, trace.span_ns + 1, px)
    for engine in ENGINES:
        times = [(s, trace.span_ns if d is None else s + d) for s, d, _, e in ops if e == engine]
        if times:
            shown = tile.busy_ns[tile.lane == lane(timeline, f"e:0:{engine}")["first"]]
            assert shown.sum() == union_length(times)


@settings(max_examples=60, deadline=None)
@given(ops_strategy, st.integers(1, 60))
def test_the_limit_holds_and_still_nothing_is_lost(ops, px):
    trace = trace_of(ops)
    timeline = open_timeline(trace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline_module, "FEWEST_ITEMS", 0)
        tile = check(timeline, expected_lanes(trace), 0, max(trace.span_ns, 1), px, whole_pixels=False)
    assert len(tile) <= timeline.wire_lanes * px


@settings(max_examples=40, deadline=None)
@given(ops_strategy, st.integers(0, 10_000), st.integers(1, 10**10))
def test_a_tile_survives_the_wire(ops, t0, width):
    timeline = open_timeline(trace_of(ops))
    tile = timeline.tile(t0, t0 + width, 100)
    got = decode(encode_tile(tile))
    assert (got["t0"], got["t1"], got["is_exact"]) == (t0, t0 + width, tile.is_exact)
    assert got["ns_per_px"] == width / 100
    for name in ("row", "count", "name", "lane", "busy", "category"):
        np.testing.assert_array_equal(got[name], getattr(tile, name))
    for name in ("start", "end"):
        # 24 bits of the distance from t0: within the window far less than a pixel.
        np.testing.assert_allclose(got[name], getattr(tile, f"{name}_ns") - t0, rtol=1e-7)


def test_a_lone_short_kernel_is_visible_in_an_empty_second():
    timeline = open_timeline(trace_of([(500_000_000, 800, 0, "compute"), (10**9, 0, 1, "compute")]))
    tile = timeline.tile(0, 10**9, 100, [lane(timeline, "s:0:1:0")["first"]])
    assert (tile.start_ns.tolist(), tile.end_ns.tolist(), tile.count.tolist()) == (
        [500_000_000],
        [500_000_800],
        [1],
    )
    assert tile.busy.tolist() == [255]


def test_a_full_second_never_looks_empty():
    rng = np.random.default_rng(1)
    edges = np.unique(np.concatenate([[0, 10**9], rng.integers(0, 10**9, 20_000)])).tolist()
    timeline = open_timeline(trace_of([(a, b - a, 0, "compute") for a, b in itertools.pairwise(edges)]))
    tile = timeline.tile(0, 10**9, 500, [lane(timeline, "s:0:1:0")["first"]])
    assert tile.start_ns[0] == 0
    assert tile.end_ns[-1] == 10**9
    assert (tile.start_ns[1:] == tile.end_ns[:-1]).all()
    assert set(tile.busy.tolist()) == {255}
    assert len(tile) <= 1_000


def test_a_long_slice_among_tiny_ones_is_sent_once_and_whole_at_every_zoom():
    tiny = [(at, 2, 0, "compute") for at in range(0, 30_000, 5)]
    later = [(at, 2, 0, "compute") for at in range(70_000, 100_000, 5)]
    trace = trace_of([*tiny, (30_000, 40_000, 0, "copy_h2d"), *later])
    timeline = open_timeline(trace)
    wire = lane(timeline, "s:0:1:0")["first"]
    for t0, t1, px in ((0, 100_000, 1_000), (0, 100_000, 3), (29_000, 31_000, 200), (50_000, 50_001, 10)):
        tile = timeline.tile(t0, t1, px, [wire])
        long = np.flatnonzero(tile.end_ns - tile.start_ns == 40_000)
        assert len(long) == 1
        assert (tile.start_ns[long[0]], tile.count[long[0]]) == (30_000, 1)


@pytest.mark.parametrize("bursts", [1, 7])
def test_bursts_answer_like_everything_else(bursts):
    rng = np.random.default_rng(2)
    ops = []
    for at in range(bursts):
        begin = at * 10**9 + np.cumsum(rng.integers(1, 40, 3_000 // bursts))
        ops += [(int(s), int(rng.integers(0, 20)), 0, ENGINES[int(rng.integers(3))]) for s in begin]
    trace = trace_of(ops)
    timeline = open_timeline(trace)
    lanes = {key: slices for key, slices in expected_lanes(trace).items() if key[0] == "s:0:1:0"}
    for t0, t1 in ((0, trace.span_ns), (0, 70_000), (20_000, 21_000), (10**9, 10**9 + 50_000)):
        tile = timeline.tile(t0, t1, 300)
        for (lane_id, sub), slices in lanes.items():
            check_lane(tile, lane(timeline, lane_id)["first"] + sub, slices)


def test_the_same_question_has_the_same_answer():
    rng = np.random.default_rng(3)
    ops = [(int(s), int(rng.integers(0, 90)), int(s) % 2, "compute") for s in rng.integers(0, 10**6, 4_000)]
    messages = {encode_tile(open_timeline(trace_of(ops)).tile(1_000, 900_000, 640)) for _ in range(2)}
    assert len(messages) == 1


def test_two_threads_answer_like_one(monkeypatch):
    rng = np.random.default_rng(4)
    ops = [
        (int(s), int(rng.integers(0, 90)), int(rng.integers(2)), "compute")
        for s in rng.integers(0, 10**6, 3_000)
    ]
    timeline = open_timeline(trace_of(ops))
    alone = encode_tile(timeline.tile(0, 10**6, 640))
    monkeypatch.setattr(timeline_module, "_TWO_THREADS_FROM", 0)
    assert encode_tile(timeline.tile(0, 10**6, 640)) == alone


def test_asking_for_some_lanes_gives_those_lanes():
    timeline = open_timeline(trace_of([(at, 5, at % 2, "compute") for at in range(0, 100, 7)]))
    everything = timeline.tile(0, 200, 50)
    wire = lane(timeline, "s:0:1:1")["first"]
    some = timeline.tile(0, 200, 50, [wire])
    np.testing.assert_array_equal(some.start_ns, everything.start_ns[everything.lane == wire])
    assert len(timeline.tile(0, 200, 50, [])) == 0


@pytest.mark.parametrize(
    ("t0", "t1", "px", "lanes"), [(5, 5, 10, None), (0, 5, 0, None), (0, 5, 10, [99]), (0, 5, 10, [-1])]
)
def test_impossible_questions_are_refused(t0, t1, px, lanes):
    with pytest.raises(ValueError, match=r"window|wire lanes"):
        open_timeline(trace_of([(0, 5, 0, "compute")])).tile(t0, t1, px, lanes)


def test_what_happens_at_the_last_stamp_is_in_the_whole_view():
    kernel = {"device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute"}
    trace = make_trace(
        ops=[{**kernel, "start_ns": 0, "end_ns": 10}, {**kernel, "start_ns": 20, "end_ns": 20}],
        instants=[{"process_id": 5, "thread_id": 6, "at_ns": 20}],
    )
    timeline = open_timeline(trace)
    meta = timeline.meta()
    assert meta["first_view"] == [0, meta["span_ns"]]
    tile = timeline.tile(*meta["first_view"], 100, None)
    kinds = {lane["first"]: lane["kind"] for lane in meta["lanes"]}
    assert sum(kinds[int(lane)] == "stream" for lane in tile.lane) == 2
    assert sum(kinds[int(lane)] == "instants" for lane in tile.lane) == 1
