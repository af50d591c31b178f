"""Zoom, pan, keys, minimap, folding: what the user's hands do to the view."""

from __future__ import annotations

import pytest

from browser.known_traces import MS, SPAN_NS


def test_first_paint_shows_the_whole_trace(dashboard):
    timeline = dashboard.open_timeline("known")
    assert timeline.view == pytest.approx((0, SPAN_NS), abs=1)
    assert int(timeline.attribute("rects")) > 5
    assert {timeline.lane_of_stream(n) for n in (7, 13, 20)} <= set(timeline.lanes)


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
