"""Marks with notes, pinned and moved lanes: made on the canvas, kept by the server, there after a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser.driver import COMPILED_MS
from browser.known_traces import MS


@pytest.fixture
def timeline(dashboard):
    timeline = dashboard.open_timeline("second")
    yield timeline
    notes = f"{dashboard.server}/api/traces/{dashboard.trace_id('second')}/notes"
    revision = dashboard.page.request.get(notes).json()["revision"]
    dashboard.page.request.put(notes, data={"revision": revision, "marks": [], "pinned": [], "order": []})


def stored(dashboard):
    return dashboard.page.request.get(
        f"{dashboard.server}/api/traces/{dashboard.trace_id('second')}/notes"
    ).json()


def focus_lane(dashboard, timeline, lane):
    """Click on a lane's name."""
    box = timeline.locator.bounding_box()
    dashboard.page.mouse.click(box["x"] + 60, box["y"] + timeline.lanes[lane].middle)


def test_a_note_is_written_and_kept(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    timeline.press("m")
    timeline.press("k")
    box = dashboard.page.get_by_role("dialog", name="Marks and notes")
    expect(box.get_by_label("Label of the mark")).to_have_value("1 attention")
    box.get_by_label("Note on 1 attention").fill("<b>why</b> so long?")
    box.get_by_label("Label of the mark").fill("slow")
    dashboard.page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    dashboard.wait_until(lambda: [m["label"] for m in stored(dashboard)["marks"]] == ["slow"], "it is kept")
    assert stored(dashboard)["marks"][0] == {
        "t0_ns": 600 * MS, "t1_ns": 900 * MS, "label": "slow", "note": "<b>why</b> so long?",
    }  # fmt: skip
    dashboard.page.reload()
    again = dashboard.timeline()
    again.press("k")
    expect(box.locator("textarea")).to_have_value("<b>why</b> so long?")
    box.get_by_role("button", name="Delete slow").click()
    expect(box).to_contain_text("No marks yet")
    dashboard.wait_until(lambda: stored(dashboard)["marks"] == [], "it is deleted")


def test_a_lane_is_pinned_to_the_top_and_let_go(dashboard, timeline):
    lane = timeline.lane_of_stream(20)
    before = timeline.lanes[lane].y
    focus_lane(dashboard, timeline, lane)
    timeline.press("p")
    top = timeline.lanes[lane].y
    assert top < min(at.y for other, at in timeline.lanes.items() if other != lane)
    dashboard.wait_until(lambda: stored(dashboard)["pinned"] == [lane], "it is kept")
    dashboard.page.reload()
    again = dashboard.timeline()
    dashboard.wait_until(lambda: again.lanes[lane].y == top, "it is still at the top")
    # What is drawn on it is still its own: its copy can be clicked there.
    again.click(3_750 * MS, lane)
    expect(dashboard.details).to_contain_text("Memcpy DtoH")
    focus_lane(dashboard, again, lane)
    again.press("p")
    assert again.lanes[lane].y == before


def test_lanes_are_moved_by_keys_and_by_dragging(dashboard, timeline):
    first, second, third = (timeline.lane_of_stream(stream) for stream in (7, 13, 20))

    def order():
        return sorted((first, second, third), key=lambda lane: timeline.lanes[lane].y)

    assert order() == [first, second, third]
    focus_lane(dashboard, timeline, first)
    timeline.press("Shift+ArrowDown")
    assert order() == [second, first, third]
    box = timeline.locator.bounding_box()
    x, y = box["x"] + 60, box["y"] + timeline.lanes[third].middle
    dashboard.page.mouse.move(x, y)
    dashboard.page.mouse.down()
    dashboard.page.mouse.move(x, box["y"] + timeline.lanes[second].y + 2, steps=12)
    dashboard.page.mouse.up()
    timeline.settle()
    assert order() == [third, second, first]
    dashboard.wait_until(lambda: stored(dashboard)["order"], "the order is kept")
    dashboard.page.reload()
    timeline = dashboard.timeline()
    dashboard.wait_until(lambda: order() == [third, second, first], "the order is still there")


@pytest.mark.parametrize(
    ("page", "said"), [("operations", "#ov-ops-said"), ("overlap", "#ov-overlap"), ("waits", "#ov-waits")]
)
def test_a_mark_narrows_every_page(dashboard, timeline, page, said):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    timeline.press("m")
    dashboard.wait_until(lambda: stored(dashboard)["marks"], "the mark is kept")
    dashboard.page.locator(f"#ov-nav-{page}").click()
    expect(dashboard.page.locator(said)).not_to_be_empty(timeout=COMPILED_MS)
    expect(dashboard.page.locator(said)).not_to_contain_text("Only ")
    dashboard.page.locator("#ov-step").click()
    dashboard.page.get_by_role("option", name="mark 1 attention").click()
    expect(dashboard.page.locator(said)).to_contain_text("Only 600 ms → 900 ms", timeout=COMPILED_MS)
    assert dashboard.query["window"] == f"{600 * MS}-{900 * MS}"
