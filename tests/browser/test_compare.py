"""The compare page in a real browser: runs under each other, shifted, with their verdicts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser.driver import COMPILED_MS, Timeline


def open_page(dashboard, **query):
    words = {
        "base": dashboard.trace_id("known"),
        "runs": dashboard.trace_id("second"),
        **query,
    }
    text = "&".join(f"{key}={value}" for key, value in words.items())
    dashboard.page.goto(f"{dashboard.server}/compare?{text}")
    expect(dashboard.page.locator("#ov-cmp-said .ov-card")).to_be_visible(timeout=COMPILED_MS)
    for place in (0, 1):
        Timeline(dashboard.page, dashboard.server, f"compare-{place}").settle()
    return dashboard.page


def line(dashboard, place):
    return Timeline(dashboard.page, dashboard.server, f"compare-{place}")


@pytest.fixture
def page(dashboard):
    return open_page(dashboard)


def test_two_equal_runs_show_no_difference(dashboard, page):
    expect(page.locator("#ov-cmp-said")).to_contain_text("second against known")
    expect(page.locator("#ov-cmp-metrics")).to_contain_text("GPU 0 · window")
    expect(page.locator("#ov-cmp-ops .ag-center-cols-container .ag-row").first).to_be_visible()
    assert page.locator("#page-compare .ov-chip-bad").count() == 0


def test_timelines_share_zoom_and_cursor(dashboard, page):
    first, second = line(dashboard, 0), line(dashboard, 1)
    before = first.view
    assert second.view == pytest.approx(before, abs=2)
    first.hold("w", 300)
    second.settle()
    assert first.span < before[1] - before[0]
    assert second.view == pytest.approx(first.view, abs=2)


def test_the_view_is_kept_in_the_address_and_restored(dashboard, page):
    first = line(dashboard, 0)
    for _ in range(4):
        first.hold("w", 300)
    dashboard.wait_until(lambda: "c0" in dashboard.query, "the address tells the view")
    page.wait_for_timeout(600)
    view = first.view
    page.reload()
    expect(page.locator("#ov-cmp-said .ov-card")).to_be_visible(timeout=COMPILED_MS)
    dashboard.wait_until(
        lambda: abs(line(dashboard, 0).view[0] - view[0]) < 1000, "the view is the one before"
    )
    assert line(dashboard, 1).view == pytest.approx(view, abs=1000)


def test_runs_are_aligned_by_a_chosen_operation(dashboard):
    dashboard.page.goto(
        f"{dashboard.server}/compare?base={dashboard.trace_id('h200')}&runs={dashboard.trace_id('known')}"
    )
    # They have no operation in common but their starts, and are no runs of one workload.
    expect(dashboard.page.locator("#ov-cmp-said")).to_contain_text("not comparable", timeout=COMPILED_MS)
    first, second = line(dashboard, 0), line(dashboard, 1)
    first.settle()
    second.settle()
    shift = first.view[0] - second.view[0]
    assert first.span == pytest.approx(second.span)
    starts = [page_first_start(dashboard, name) for name in ("h200", "known")]
    assert shift == pytest.approx(starts[0] - starts[1], abs=2)


def page_first_start(dashboard, name):
    trace = dashboard.trace_id(name)
    answer = dashboard.page.request.get(f"{dashboard.server}/api/traces/{trace}/row?table=ops&row=0").json()
    return int(answer["columns"]["start_ns"])


def test_choosing_runs_writes_the_address(dashboard):
    dashboard.page.goto(f"{dashboard.server}/compare?trace={dashboard.trace_id('known')}")
    page = dashboard.page
    expect(page.locator("#ov-cmp-said")).to_contain_text("Nothing to compare yet", timeout=COMPILED_MS)
    page.locator("#ov-cmp-runs").click()
    page.get_by_role("option", name=re.compile("second")).click()
    expect(page.locator("#ov-cmp-said .ov-card")).to_be_visible(timeout=COMPILED_MS)
    assert dashboard.query["runs"] == dashboard.trace_id("second")
    expect(page.locator("#compare-side-1")).to_be_visible()
    expect(page.locator("#compare-side-2")).not_to_be_visible()


def test_a_row_leads_to_the_timeline(dashboard, page):
    page.locator("#ov-cmp-ops .ag-center-cols-container").get_by_role("link").first.click()
    dashboard.timeline()
    assert dashboard.query["sel"].startswith("ops:")
