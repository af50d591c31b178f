"""Zoom, pan, keys, minimap, folding: what the user's hands do to the view."""

from __future__ import annotations

import numpy as np
import pytest

from browser.known_traces import ATTENTION, D2H, GEMM_LATE, GEMM_LONG, H2D, MS, SPAN_NS
from browser.pixels import is_category
from overlane.readers import open_trace


def test_first_paint_shows_the_whole_trace(dashboard, traces):
    timeline = dashboard.open_timeline("known")
    assert timeline.view == pytest.approx((0, SPAN_NS), abs=1)
    assert int(timeline.attribute("rects")) > 5
    assert {timeline.lane_of_stream(n) for n in (7, 13, 20)} <= set(timeline.lanes)
    # Where the tables put the middle of a slice, its colour is seen on the page.
    picture, box = np.asarray(timeline.screenshot()), timeline.plot_box
    ops = open_trace(traces / "known.overlane").table("ops").to_pylist()
    for row in (GEMM_LONG, H2D, ATTENTION, GEMM_LATE, D2H):
        op = ops[row]
        lane = timeline.lanes[timeline.lane_of_stream(op["stream_id"])]
        x = box["x"] + (op["start_ns"] + op["end_ns"]) / 2 / SPAN_NS * box["width"]
        column = picture[round(box["y"] + lane.y) : round(box["y"] + lane.y + lane.h), round(x)]
        # Words may cover the middle, never the edges.
        assert is_category(column, op["engine"]).sum() >= lane.h / 3, op["name"]


def test_order_of_lanes_from_the_pixels_alone(dashboard, traces):
    # Nothing here asks the page where a lane lies: a column of the screenshot is scanned from top to bottom.
    timeline = dashboard.open_timeline("known")
    picture = np.asarray(timeline.screenshot())
    ops = open_trace(traces / "known.overlane").table("ops").to_pylist()
    streams = sorted({op["stream_id"] for op in ops})
    places = ((450, {7: "compute", 13: "copy_h2d"}), (3_700, {7: "compute", 20: "copy_d2h"}))
    for at_ms, expected in places:
        open_then = [op for op in ops if op["start_ns"] <= at_ms * MS < op["end_ns"]]
        assert {op["stream_id"]: op["engine"] for op in open_then} == expected
        wanted = [expected[stream] for stream in streams if stream in expected]
        x = round(timeline.plot_box["x"] + at_ms / 4_000 * timeline.plot_box["width"])
        runs = colour_runs(picture[150:, x], ["compute", "copy_h2d", "copy_d2h"])
        # First the lane of all work, then each engine's, then the streams, which have the same order here.
        assert runs == ["compute", *wanted, *wanted]


def colour_runs(column, categories):
    """Return the categories whose colours stand in a column of pixels, each stretch once, from the top."""
    found, shown = [], np.full(len(column), -1)
    for number, name in enumerate(categories):
        shown[is_category(column, name)] = number
    starts = np.flatnonzero(np.diff(shown, prepend=-1))
    ends = np.append(starts[1:], len(shown))
    for start, end in zip(starts, ends, strict=True):
        # Thin stretches are edges of letters and of round corners.
        if shown[start] >= 0 and end - start >= 4:
            name = categories[shown[start]]
            is_same = found and found[-1][0] == name and start - found[-1][1] < 12  # a word lies between
            if is_same:
                found[-1] = (name, end)
            else:
                found.append((name, end))
    return [name for name, _ in found]


def test_wheel_zooms_at_the_cursor(dashboard):
    timeline = dashboard.open_timeline("known")
    at = 2_500 * MS
    x, y = timeline.point(at, timeline.lane_of_stream(7))
    dashboard.page.mouse.move(x, y)
    for _ in range(8):
        dashboard.page.mouse.wheel(0, -120)
    timeline.settle()
    assert timeline.span < SPAN_NS / 2
    box, (t0, t1) = timeline.plot_box, timeline.view
    under_the_cursor = t0 + (x - box["x"]) / box["width"] * (t1 - t0)
    assert under_the_cursor == pytest.approx(at, abs=SPAN_NS / box["width"])
    for _ in range(20):
        dashboard.page.mouse.wheel(0, 120)
    timeline.settle()
    assert timeline.view == pytest.approx((0, SPAN_NS), abs=1)


@pytest.mark.parametrize("by", [-300, 137, 1])
def test_drag_pans_by_exactly_that_many_pixels(dashboard, by):
    timeline = dashboard.open_timeline("known", t0=1_000 * MS, t1=2_000 * MS)
    box, before = timeline.plot_box, timeline.view
    start = (box["x"] + 600, box["y"] + timeline.lanes[timeline.lane_of_stream(13)].middle)
    # A press that moves less than four pixels is a click: go further and come back.
    dashboard.page.mouse.move(*start)
    dashboard.page.mouse.down()
    dashboard.page.mouse.move(start[0] + by + 10, start[1], steps=4)
    dashboard.page.mouse.move(start[0] + by, start[1], steps=2)
    dashboard.page.mouse.up()
    timeline.settle()
    after = timeline.view
    ns_per_pixel = 1_000 * MS / box["width"]
    assert after[1] - after[0] == pytest.approx(1_000 * MS, abs=2)
    assert (before[0] - after[0]) / ns_per_pixel == pytest.approx(by, abs=0.01)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("w", lambda a, b: b[1] - b[0] < 0.9 * (a[1] - a[0])),
        ("s", lambda a, b: b[1] - b[0] > 1.1 * (a[1] - a[0])),
        ("a", lambda a, b: b[0] < a[0] - MS and b[1] < a[1] - MS),
        ("d", lambda a, b: b[0] > a[0] + MS and b[1] > a[1] + MS),
    ],
)
def test_held_keys_move_the_view(dashboard, key, changes):
    timeline = dashboard.open_timeline("known", t0=1_900 * MS, t1=2_100 * MS)
    before = timeline.view
    timeline.hold(key, 300)
    after = timeline.view
    assert changes(before, after), (before, after)
    assert after == timeline.view, "the view goes on moving after the key was let go"


def test_f_fits_the_selection(dashboard):
    timeline = dashboard.open_timeline("known")
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    timeline.press("f")
    t0, t1 = timeline.view
    assert t0 <= 600 * MS
    assert t1 >= 900 * MS
    assert t1 - t0 < 700 * MS


def test_home_shows_everything_again(dashboard):
    timeline = dashboard.open_timeline("known", t0=1_000 * MS, t1=1_010 * MS)
    timeline.press("Home")
    assert timeline.view == pytest.approx((0, SPAN_NS), abs=1)


def test_zoom_ends_at_a_readable_size(dashboard):
    timeline = dashboard.open_timeline("known", t0=1_000 * MS, t1=1_000 * MS + 1_000)
    timeline.hold("w", 1_200)
    t0, t1 = timeline.view
    assert 1 <= t1 - t0 < 1_000
    assert 0 <= t0 < t1 <= SPAN_NS


def test_view_stays_inside_the_trace(dashboard):
    timeline = dashboard.open_timeline("known", t0=3_000 * MS, t1=3_990 * MS)
    timeline.hold("d", 900)
    t0, t1 = timeline.view
    assert t0 >= 0
    assert t1 <= SPAN_NS + 1


def test_minimap_click_moves_the_view(dashboard):
    timeline = dashboard.open_timeline("known", t0=0, t1=200 * MS)
    box = timeline.plot_box
    dashboard.page.mouse.click(box["x"] + 0.75 * box["width"], box["y"] + 23)
    timeline.settle()
    t0, t1 = timeline.view
    assert t0 < 3_000 * MS < t1
    assert t1 - t0 == pytest.approx(200 * MS, rel=0.01)


def test_minimap_handle_is_dragged(dashboard):
    timeline = dashboard.open_timeline("known", t0=1_000 * MS, t1=1_400 * MS)
    box = timeline.plot_box
    middle = box["x"] + 0.3 * box["width"]
    timeline.drag((middle, box["y"] + 23), 0.25 * box["width"])
    t0, t1 = timeline.view
    assert t0 == pytest.approx(2_000 * MS, rel=0.01)
    assert t1 - t0 == pytest.approx(400 * MS, rel=0.01)


def test_group_folds_and_unfolds(dashboard):
    timeline = dashboard.open_timeline("known")
    lane = timeline.lane_of_stream(7)
    group = next(g for g in timeline.meta["groups"] if g["kind"] == "device")
    before = timeline.lanes
    first = min(before.values(), key=lambda at: at.y)
    box = timeline.locator.bounding_box()
    header = (box["x"] + 60, box["y"] + first.y - 12)
    dashboard.page.mouse.click(*header)
    timeline.settle()
    if lane in timeline.lanes:  # the nearest header belongs to a group inside the device's
        pytest.fail(f"the header above {first} did not fold {group['label']}")
    dashboard.page.mouse.click(*header)
    timeline.settle()
    assert set(timeline.lanes) == set(before)


def test_two_timelines_share_one_view(dashboard):
    other = dashboard.trace_id("second")
    timeline = dashboard.open_timeline("known", **{"with": other})
    second = dashboard.timeline("timeline-b")
    assert second.attribute("trace") == other
    timeline.hold("w", 400)
    second.settle()
    assert timeline.span < 0.9 * SPAN_NS
    assert second.view == timeline.view
    second.hold("d", 300)
    timeline.settle()
    assert second.view == timeline.view
