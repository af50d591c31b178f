"""Click, details, links, search, range, help: what is known of a trace and where the page shows it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from browser import known_traces as known
from browser.known_traces import MS, SPAN_NS
from overlane_collect.schema import TABLES


@pytest.fixture
def timeline(dashboard):
    return dashboard.open_timeline("known")


def expect_selected(dashboard, row: str) -> None:
    """Wait until the address, which follows a little later, names a selection as in `ops:3`."""
    dashboard.wait_until(lambda: dashboard.query.get("sel") == row, f"the address names {row}")


def test_click_selects_and_fills_the_details(dashboard, timeline):
    timeline.click(250 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("gemm_long")
    expect_selected(dashboard, f"ops:{known.GEMM_LONG}")
    text = dashboard.details.inner_text()
    for word in ("490", "compute", "kernel", "7"):  # its length in ms, engine, kind and stream
        assert word in text


def test_details_name_every_column(dashboard, timeline):
    timeline.click(250 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("gemm_long")
    dashboard.details.locator("summary").click()
    words = {word.strip().lower() for word in dashboard.details.locator("dt").all_inner_texts()}
    trace = timeline.attribute("trace")
    row = dashboard.page.request.get(f"{dashboard.server}/api/traces/{trace}/row?table=ops&row=0").json()
    assert set(row["columns"]) == {column.name for column in TABLES["ops"].columns}
    for column in TABLES["ops"].columns:
        if column.name in {"start_ns", "end_ns"}:
            assert "start → end" in words
        else:
            assert column.name.replace("_", " ") in words
    known_count = sum(value is not None for value in row["columns"].values())
    assert len(row["unknown"]) == len(TABLES["ops"].columns) - known_count


def test_link_to_the_launch_and_back(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    dashboard.details.locator("a.ov-goto", has_text="cudaLaunchKernel").first.click()
    expect(dashboard.details).to_contain_text("api_calls 2")
    timeline.settle()
    expect_selected(dashboard, "api_calls:2")
    t0, t1 = timeline.view
    assert t0 <= 590 * MS
    assert t1 >= 591 * MS
    dashboard.details.locator("a.ov-goto", has_text="attention").first.click()
    expect(dashboard.details).to_contain_text(f"ops {known.ATTENTION}")


def test_links_to_the_neighbours(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    # On the stream the burst's first kernel comes next; the copy between them is on another stream.
    dashboard.details.locator(".ov-fact", has=dashboard.page.locator("dt", has_text="next")).locator(
        "a"
    ).click()
    expect(dashboard.details).to_contain_text("tiny_fill")
    expect_selected(dashboard, f"ops:{known.FIRST_TINY}")
    dashboard.details.locator(".ov-fact", has=dashboard.page.locator("dt", has_text="previous")).locator(
        "a"
    ).click()
    expect(dashboard.details).to_contain_text("attention")
    expect_selected(dashboard, f"ops:{known.ATTENTION}")


def test_arrow_keys_step_along_the_track(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    timeline.press("ArrowLeft")
    expect(dashboard.details).to_contain_text("gemm_long")


def test_click_on_many_slices_selects_the_longest_of_them(dashboard, timeline):
    timeline.click(1_020 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("tiny_fill")


def test_lone_kernel_can_be_clicked_in_the_whole_trace(dashboard, timeline):
    timeline.click(2_500 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("lone_kernel")
    expect_selected(dashboard, f"ops:{known.LONE}")


def test_click_beside_everything_clears_the_selection(dashboard, timeline):
    lane = timeline.lane_of_stream(7)
    timeline.click(750 * MS, lane)
    expect(dashboard.details).to_contain_text("attention")
    timeline.click(2_000 * MS, lane)
    expect(dashboard.details).not_to_contain_text("attention")
    dashboard.wait_until(lambda: "sel" not in dashboard.query, "the address names no selection")


def test_search_jumps_to_the_hit(dashboard, timeline):
    dashboard.page.locator("body").press("/")
    box = dashboard.page.locator("#ov-search")
    expect(box).to_be_focused()
    box.fill("LONE")
    expect(dashboard.page.locator("#ov-search-panel")).to_contain_text("1 hit")
    box.press("Enter")
    expect(dashboard.details).to_contain_text("lone_kernel")
    timeline.settle()
    t0, t1 = timeline.view
    assert 2_499 * MS < t0 <= 2_500 * MS < t1 < 2_501 * MS


def test_search_counts_all_and_says_when_there_is_none(dashboard, timeline):
    box = dashboard.page.locator("#ov-search")
    box.fill("tiny_fill")
    expect(dashboard.page.locator("#ov-search-panel")).to_contain_text(re.compile("1\\D?000 hits"))
    box.fill("no such name")
    expect(dashboard.page.locator("#ov-search-panel")).to_contain_text("Nothing holds")


def test_search_results_are_closed_and_come_back(dashboard, timeline):
    lane = timeline.lane_of_stream(7)
    timeline.click(750 * MS, lane)
    expect_selected(dashboard, f"ops:{known.ATTENTION}")
    field, panel = dashboard.page.locator("#ov-search"), dashboard.page.locator("#ov-search-panel")
    field.fill("tiny_fill")
    expect(panel).to_contain_text("hits")
    # Esc in the field closes the results alone; the next one clears the selection.
    field.press("Escape")
    expect(panel).not_to_be_visible()
    expect(field).to_have_value("tiny_fill")
    expect(dashboard.details).to_contain_text("attention")
    dashboard.page.keyboard.press("Escape")
    expect(dashboard.details).not_to_contain_text("attention")
    # Going back to the field shows them again; they stay while the timeline is used.
    dashboard.page.locator("body").press("/")
    expect(panel).to_be_visible()
    timeline.click(750 * MS, lane)
    expect(panel).to_be_visible()
    # With the focus on the canvas, Esc closes them first, too.
    dashboard.page.keyboard.press("Escape")
    expect(panel).not_to_be_visible()
    expect(dashboard.details).to_contain_text("attention")
    field.click()
    # New words show new results.
    field.fill("lone")
    expect(panel).to_contain_text("1 hit")


def marker_columns(image, box, top, bottom):
    """Return the columns of the plot that have the colour of a marker's edge from top to bottom."""
    left, right = round(box["x"]), round(box["x"] + box["width"])
    pixels = np.asarray(image)[round(top) : round(bottom), left:right].astype(int)
    # The marker's #7b61c9 has 104 more blue than green, the ground 4; an edge may lie on two columns.
    return np.flatnonzero((pixels[..., 2] - pixels[..., 1] > 30).all(axis=0))


def test_m_marks_the_selection_and_the_marker_survives_a_reload(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    box = timeline.plot_box
    top = box["y"] + 82 + 26  # overview, ruler, the first group's header: nothing else is drawn there

    def shown():
        return marker_columns(timeline.screenshot(), box, top - 24, top - 2)

    assert not len(shown())
    timeline.press("m")
    left, right = (at / 4_000 * box["width"] for at in (600, 900))
    columns = shown()
    assert abs(columns.min() - left) <= 1.5
    assert abs(columns.max() - right) <= 1.5
    dashboard.page.reload()
    dashboard.timeline()
    assert list(shown()) == list(columns)
    timeline.press("m")  # the selection was restored too, so this takes the marker away
    assert not len(shown())


def test_shift_drag_marks_a_range(dashboard, timeline):
    x, y = timeline.point(1_500 * MS, timeline.lane_of_stream(20))
    timeline.drag((x, y), 200, modifier="Shift")
    assert timeline.view == pytest.approx((0, SPAN_NS), abs=1), "marking a range moves nothing"
    ns_per_pixel = SPAN_NS / timeline.plot_box["width"]

    def edges() -> list[float]:
        return [int(word) / ns_per_pixel for word in re.findall(r"\d+", dashboard.query.get("range", "0-0"))]

    # The address follows after a moment, and may be written once while the mouse is still on its way.
    dashboard.wait_until(
        lambda: edges()[1] - edges()[0] == pytest.approx(200, abs=1), "200 pixels are marked"
    )
    assert edges()[0] == pytest.approx(1_500 * MS / ns_per_pixel, abs=1)


def test_range_gives_busy_overlap_and_idle(dashboard):
    # [450, 950) ms: compute [450, 500) and [600, 900), H2D [450, 700); together [450, 900).
    dashboard.open_timeline("known", range=f"{450 * MS}-{950 * MS}")
    panel = dashboard.page.locator("#ov-range-panel")
    expect(panel).to_contain_text("500")
    text = panel.inner_text()
    numbers = [
        float(n.replace(" ", "").replace(",", "")) for n in re.findall(r"(\d[\d ,]*(?:\.\d+)?) ms", text)
    ]
    for expected in (500, 450, 50, 350, 250, 150):  # length, busy, idle, compute, H2D, overlap
        assert any(n == pytest.approx(expected, rel=1e-3) for n in numbers), (expected, text)


def test_help_lists_the_keys(dashboard, timeline):
    timeline.press("?")
    help_box = dashboard.page.locator(".ov-tl-help").first
    expect(help_box).to_be_visible()
    for word in ("W", "Shift", "zoom"):
        expect(help_box).to_contain_text(re.compile(word, re.IGNORECASE))
    dashboard.page.keyboard.press("Escape")
    expect(help_box).not_to_be_visible()


def test_hover_shows_a_tip(dashboard, timeline):
    tip = timeline.locator.locator(".ov-tl-tip")
    expect(tip).not_to_be_visible()
    dashboard.page.mouse.move(*timeline.point(250 * MS, timeline.lane_of_stream(7)))
    expect(tip).to_be_visible()
    expect(tip.locator("strong")).to_have_text("gemm_long")
    for words in ("490.0 ms", "stream 7", "10.000"):  # its length, its lane, its start
        expect(tip).to_contain_text(words)
    dashboard.page.mouse.move(5, 5)  # off the timeline: over a gap, the tip says why nothing ran
    expect(tip).not_to_be_visible()


def test_address_restores_view_and_selection(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    timeline.press("f")
    before = timeline.view
    dashboard.page.wait_for_timeout(700)  # the address follows when motion has stopped for half a second
    dashboard.page.reload()
    again = dashboard.timeline()
    assert again.view == pytest.approx(before, abs=2)
    expect(dashboard.details).to_contain_text("attention")
    expect_selected(dashboard, f"ops:{known.ATTENTION}")


def test_theme_is_switched_and_kept(dashboard, timeline):
    assert dashboard.theme == "light"
    dashboard.switch_theme()
    dashboard.wait_until(lambda: dashboard.theme == "dark", "the page is dark")
    dashboard.page.reload()
    dashboard.timeline()
    assert dashboard.theme == "dark"
