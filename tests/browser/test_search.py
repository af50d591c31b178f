"""Searching and filtering: the table of hits, the way through them, what the filter leaves on the canvas."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from browser import known_traces as known
from browser.known_traces import MS
from browser.pixels import is_category, lane_pixels


@pytest.fixture
def timeline(dashboard):
    return dashboard.open_timeline("known")


def search(dashboard, words):
    """Type a search and return its table once it says how many there are."""
    panel = dashboard.page.locator("#ov-search-panel")
    dashboard.page.locator("#ov-search").fill(words)
    expect(panel.locator(".ov-hits-at")).to_contain_text("hit")
    return panel


def test_a_long_table_holds_only_the_rows_in_sight(dashboard, timeline):
    panel = search(dashboard, "tiny_fill")
    rows = panel.locator(".ov-hits-row")
    assert rows.count() < 60
    expect(panel.locator("[role=grid]")).to_have_attribute("aria-rowcount", "1001")
    dashboard.page.locator(".ov-hits-list").press("End")
    expect(panel.locator(".ov-hits-at")).to_contain_text("1\u202f000 of 1\u202f000")
    expect(panel.locator(".ov-hits-row[aria-selected=true]")).to_have_attribute("aria-rowindex", "1001")
    expect(dashboard.details).to_contain_text(f"ops {known.FIRST_TINY + 999}")
    assert rows.count() < 60


def test_next_and_previous_go_around(dashboard, timeline):
    panel = search(dashboard, "gemm")
    field = dashboard.page.locator("#ov-search")
    for key, name in (("Enter", "gemm_long"), ("Enter", "gemm_late"), ("Enter", "gemm_long")):
        field.press(key)
        expect(dashboard.details.locator("dd").first).to_have_text(name)
    panel.get_by_role("button", name="Previous hit").click()
    expect(dashboard.details.locator("dd").first).to_have_text("gemm_late")
    expect(panel.locator(".ov-hits-at")).to_have_text("2 of 2 hits")


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        ("kind:memcpy", 2),
        ("stream:20", 1),
        ("kind:operation >100ms", 5),
        ("kind:kernel 1us..6us", 1),
        ("kind:call launch", 4),
    ],
)
def test_kinds_streams_and_durations_are_understood(dashboard, timeline, words, hits):
    panel = search(dashboard, words)
    expect(panel.locator(".ov-hits-at")).to_have_text(f"{hits} hit{'s' if hits > 1 else ''}")


def test_a_word_that_makes_no_sense_is_explained(dashboard, timeline):
    dashboard.expected_errors.append("400")
    dashboard.page.locator("#ov-search").fill("kind:thing")
    expect(dashboard.page.locator(".ov-hits-error")).to_contain_text("no kind is called 'thing'")


def columns_of(timeline, lane, category):
    pixels = lane_pixels(timeline.screenshot(), timeline.plot_box, timeline.lanes[lane])
    return is_category(pixels, category).any(axis=0)


def test_the_filter_dims_everything_else(dashboard, timeline):
    lane = timeline.lane_of_stream(7)
    box = timeline.plot_box
    before = columns_of(timeline, lane, "compute")
    panel = search(dashboard, "attention")
    panel.get_by_role("button", name="Dim everything").click()
    dashboard.page.locator("#ov-search").press("Escape")
    shown = np.flatnonzero(columns_of(timeline, lane, "compute"))
    left, right = (at / 4_000 * box["width"] for at in (600, 900))
    assert abs(shown.min() - left) <= 2
    assert abs(shown.max() - right) <= 3
    assert len(shown) < before.sum() / 2
    # The rest is dimmed, not gone: its lane is not empty where gemm_long runs.
    pixels = lane_pixels(timeline.screenshot(), box, timeline.lanes[lane])
    ground = pixels[2, round(0.5 * box["width"])]
    assert (pixels[4, round(250 / 4_000 * box["width"])] != ground).any()


def test_the_filter_hides_lanes_without_hits(dashboard, timeline):
    panel = search(dashboard, "attention")
    kept, gone = timeline.lane_of_stream(7), timeline.lane_of_stream(13)
    assert {kept, gone} <= set(timeline.lanes)
    panel.get_by_role("button", name="Hide everything").click()
    timeline.settle()
    assert kept in timeline.lanes
    assert gone not in timeline.lanes
    panel.get_by_role("button", name="Hide everything").click()
    timeline.settle()
    assert gone in timeline.lanes


def test_view_changes_are_undone_and_done_again(dashboard, timeline):
    whole = timeline.view
    dashboard.page.wait_for_timeout(700)
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    timeline.press("f")
    dashboard.page.wait_for_timeout(700)
    close = timeline.view
    assert close != whole
    timeline.press("Backspace")
    assert timeline.view == pytest.approx(whole, abs=2)
    timeline.press("Shift+Backspace")
    assert timeline.view == pytest.approx(close, abs=2)


def test_colours_by_stream_tell_the_streams_apart(dashboard, timeline):
    first, second = timeline.lane_of_stream(7), timeline.lane_of_stream(13)
    timeline.press("v")
    dashboard.page.get_by_role("radio", name="stream").check()
    dashboard.page.keyboard.press("Escape")
    assert not columns_of(timeline, first, "compute").any()
    box = timeline.plot_box
    image = timeline.screenshot()

    def pixel(lane, at_ms):
        pixels = lane_pixels(image, box, timeline.lanes[lane])
        return tuple(pixels[pixels.shape[0] - 5, round(at_ms / 4_000 * box["width"])])

    assert pixel(first, 100) == pixel(first, 800)
    assert pixel(first, 100) != pixel(second, 550)


def test_a_hit_is_shown_beside_its_list(dashboard, timeline):
    panel = search(dashboard, "attention")
    dashboard.page.locator("#ov-search").press("Enter")
    expect(panel.locator(".ov-hits-at")).to_have_text("1 of 1 hit")
    timeline.settle()
    lane = timeline.lane_of_stream(7)
    left, right = (timeline.point(at * MS, lane)[0] for at in (600, 900))
    assert timeline.plot_box["x"] < left
    assert right < panel.bounding_box()["x"], "the list covers the hit"


def test_the_list_folds_where_it_would_cover_the_hit(dashboard, timeline):
    panel = search(dashboard, "gemm_late")  # ends 1 ms before the trace does
    dashboard.page.locator("#ov-search").press("Enter")
    expect(panel.locator(".ov-hits-list")).not_to_be_visible()
    expect(panel.locator(".ov-hits-at")).to_have_text("1 of 1 hit")
    timeline.settle()
    top = panel.bounding_box()
    assert timeline.point(3_600 * MS, timeline.lane_of_stream(7))[1] > top["y"] + top["height"]
    panel.get_by_role("button", name="Show the list").click()
    expect(panel.locator(".ov-hits-list")).to_be_visible()
    panel.get_by_role("button", name="Fold the list").click()
    expect(panel.locator(".ov-hits-list")).not_to_be_visible()
    search(dashboard, "gemm")
    expect(panel.locator(".ov-hits-list")).to_be_visible()
