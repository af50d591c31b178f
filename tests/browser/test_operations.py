"""The operations page and the step picker in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser import known_traces as known
from browser.driver import COMPILED_MS


@pytest.fixture
def page(dashboard):
    dashboard.page.goto(f"{dashboard.server}/operations?trace={dashboard.trace_id('h200')}")
    expect(dashboard.page.locator("#ov-ops-said")).to_contain_text("operations", timeout=COMPILED_MS)
    return dashboard.page


def rows(page):
    return page.locator("#ov-ops-grid .ag-center-cols-container .ag-row")


def cell(page, row, column):
    return page.locator(f"#ov-ops-grid .ag-row[row-index='{row}'] [col-id='{column}']")


def test_the_most_expensive_row_is_first_and_leads_to_its_longest_operation(dashboard, page):
    expect(cell(page, 0, "work_ns ms")).to_have_text("25.714")
    expect(cell(page, 0, "work_fraction")).to_have_text("17.6 %")
    expect(cell(page, 0, "op_count")).to_have_text("180")
    cell(page, 0, "label").get_by_role("link").click()
    timeline = dashboard.timeline()
    assert dashboard.query["sel"].startswith("ops:")
    assert timeline.span < 2_000_000
    expect(dashboard.details).to_contain_text("sm80_xmma_gemm")


def test_only_the_rows_in_view_are_drawn(page):
    expect(page.locator("#ov-ops-said")).to_contain_text("41 rows")
    assert rows(page).count() < 41


def test_grouping_is_kept_in_the_address_and_restored_from_it(dashboard, page):
    page.locator("#ov-ops-by").get_by_text("Stream", exact=True).click()
    expect(cell(page, 0, "label")).to_have_text("GPU 0 · stream 7")
    dashboard.wait_until(lambda: dashboard.query.get("by") == "stream", "the address says the grouping")
    page.reload()
    expect(cell(page, 0, "label")).to_have_text("GPU 0 · stream 7", timeout=COMPILED_MS)
    expect(rows(page)).to_have_count(3)


def test_rows_are_filtered_and_copied_as_csv(dashboard, page):
    dashboard.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#ov-ops-filter").fill("memcpy")
    expect(rows(page)).to_have_count(3)
    page.locator("#ov-ops-copy").click()
    expect(page.locator("#ov-ops-copied")).to_have_text("3 rows copied as CSV.")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].startswith("label,engine,op_count,work_ns")
    assert lines[1].startswith("Memcpy HtoD (Pinned -> Device),copy H2D,10,1537315,")
    assert len(lines) == 4


def test_the_flame_view_is_drawn_and_changes_its_weight(page):
    expect(page.locator("#ov-flame .iciclelayer .slice").first).to_be_visible()
    expect(page.locator("#ov-flame")).to_contain_text("all · 146.2 ms")
    page.locator("#ov-flame-by").get_by_text("Time on the host").click()
    expect(page.locator("#ov-flame")).not_to_contain_text("all · 146.2 ms")


def test_a_step_narrows_every_page_and_the_address_keeps_it(dashboard, page):
    page.locator("#ov-step").click()
    page.get_by_role("option", name=re.compile("^step 3 · ")).click()
    expect(page.locator("#ov-ops-said")).to_contain_text("Only ")
    window = dashboard.query["window"]
    low, high = map(int, window.split("-"))
    assert 0 < high - low < 40_000_000
    page.locator("#ov-nav-overlap").click()
    expect(page.locator("#ov-overlap")).to_contain_text("Only ", timeout=COMPILED_MS)
    assert dashboard.query["window"] == window
    page.reload()
    expect(page.locator("#ov-overlap")).to_contain_text("Only ", timeout=COMPILED_MS)
    expect(page.locator("#ov-step")).to_have_value(re.compile("^step 3 · "))
    page.locator(".ov-header .mantine-Select-root:has(#ov-step) button").click()
    expect(page.locator("#ov-overlap")).not_to_contain_text("Only ")
    assert "window" not in dashboard.query


def test_names_of_traces_are_text_in_grids_and_flames(dashboard):
    hostile = dashboard.trace_id(known.HOSTILE_FILE.removesuffix(".overlane"))
    dashboard.page.goto(f"{dashboard.server}/operations?trace={hostile}")
    expect(dashboard.page.locator("#ov-ops-said")).to_contain_text("operations", timeout=COMPILED_MS)
    assert dashboard.page.locator("#page-operations img, #page-operations script").count() == 0


def test_a_trace_without_gpu_work_says_so(dashboard):
    dashboard.page.goto(f"{dashboard.server}/operations?trace={dashboard.trace_id('no-gpu')}")
    expect(dashboard.page.locator("#ov-ops-said")).to_contain_text("No GPU work", timeout=COMPILED_MS)
    expect(dashboard.page.locator("#ov-ops-grid")).not_to_be_visible()
