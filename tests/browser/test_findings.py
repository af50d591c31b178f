"""The pages of findings in a real browser: what they draw, where it leads, what narrows them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser.driver import COMPILED_MS

PAGES = ("advice", "waits", "path", "partitions", "hazards")


def go(dashboard, page, name, expected, **query):
    """Open a page on a trace and wait until it is computed."""
    more = "".join(f"&{key}={value}" for key, value in query.items())
    dashboard.page.goto(f"{dashboard.server}/{page}?trace={dashboard.trace_id(name)}{more}")
    body = dashboard.page.locator(f"#ov-{page}")
    expect(body).to_contain_text(expected, timeout=COMPILED_MS)
    return body


def fits(page):
    """Tell whether nothing on the shown page runs out of it to the right."""
    return page.evaluate(
        "() => [...document.querySelectorAll('.ov-scroll')].every((x) => x.scrollWidth <= x.clientWidth + 1)"
    )


def test_barriers_lead_to_the_timeline_with_their_span_marked(dashboard):
    body = go(dashboard, "waits", "legacy", "legacy default stream")
    first = body.locator("#ov-waits-barriers .ag-row[row-index='0'] a")
    expect(first).to_be_visible()
    first.click()
    dashboard.timeline()
    assert "range" in dashboard.query
    assert "sel" in dashboard.query


def test_a_bar_of_idle_time_leads_to_the_longest_stretch(dashboard):
    body = go(dashboard, "waits", "legacy", "Idle time by cause")
    bars = body.locator(".ov-chart .barlayer .point path")
    expect(bars.first).to_be_visible()
    box = max((bar.bounding_box() for bar in bars.all()), key=lambda box: box["width"])
    dashboard.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    dashboard.page.wait_for_url(re.compile("/timeline"))
    assert "range" in dashboard.query


def test_waits_are_drawn_over_percentiles(dashboard):
    body = go(dashboard, "waits", "legacy", "How long operations waited")
    expect(body.locator(".ov-chart .scatterlayer .trace")).not_to_have_count(0)
    expect(body).to_contain_text("P99.9")


def test_the_missing_edge_of_the_chosen_hazard_is_drawn(dashboard):
    body = go(dashboard, "hazards", "unordered", "12 with a fix of their own")
    expect(body).to_contain_text("Fix: Record an event in stream 13 (producer) after operation 1 (twice)")
    expect(body.locator(".annotation-arrow-g")).to_have_count(1)
    body.locator(".ag-row[row-index='2'] [col-id='second']").click()
    expect(body).to_contain_text("Fix: Record an event in stream 13 (producer) after operation 9 (twice)")
    body.get_by_role("link", name="Both in the timeline").click()
    dashboard.timeline()
    assert dashboard.query["sel"] == "ops:9"


def test_partitions_show_their_tpcs_and_how_critical_kernels_waited(dashboard):
    body = go(dashboard, "partitions", "green", "Isolation of critical streams")
    expect(body.locator(".ov-chart")).to_have_count(4)
    expect(body).to_contain_text("0–8, 11, 13–14, 16–65")
    body.get_by_role("link", name="compare page").click()
    dashboard.page.wait_for_url(re.compile(r"/compare\?base=green"))


def test_the_critical_path_leads_to_its_longest_link(dashboard):
    body = go(dashboard, "path", "green", "without a gap")
    body.locator("#ov-path-names .ag-row[row-index='0'] a").click()
    dashboard.timeline()
    assert dashboard.query["sel"].startswith("ops:")


def test_advice_leads_to_its_evidence(dashboard):
    body = go(dashboard, "advice", "unordered", "Accesses to the same bytes are not ordered")
    body.locator(".ov-advice-proof a").first.click()
    dashboard.timeline()
    assert dashboard.query["sel"].startswith("ops:")


@pytest.mark.parametrize("page", PAGES)
def test_the_window_of_the_address_narrows_the_page(dashboard, page):
    body = go(dashboard, page, "green", "Only 170", window="170000000-260000000")
    links = [link.get_attribute("href") or "" for link in body.locator("a.ov-goto").all()]
    assert all("window=170000000-260000000" in href for href in links if href.startswith("/timeline"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_fit_from_1280_px_to_4k_in_both_themes(dashboard, theme):
    go(dashboard, "waits", "green", "Barriers by what they cost")
    if dashboard.theme != theme:
        dashboard.switch_theme()
    for width, height in ((1280, 800), (3840, 2160)):
        dashboard.page.set_viewport_size({"width": width, "height": height})
        for page in PAGES:
            dashboard.page.locator(f"#ov-nav-{page}").click()
            expect(dashboard.page.locator(f"#ov-{page} > *").first).to_be_visible(timeout=COMPILED_MS)
            assert fits(dashboard.page), f"{page} at {width} px"


def test_a_page_is_left_and_found_again_as_it_was(dashboard):
    body = go(dashboard, "waits", "legacy", "Barriers by what they cost")
    body.locator("h2").first.evaluate("(element) => { element.dataset.mine = '1'; }")
    dashboard.page.locator("#ov-nav-path").click()
    expect(dashboard.page.locator("#ov-path")).to_contain_text("without a gap", timeout=COMPILED_MS)
    dashboard.page.locator("#ov-nav-waits").click()
    expect(body.locator("h2[data-mine='1']")).to_be_visible()


def test_names_of_a_hostile_trace_stay_text(dashboard):
    from browser import known_traces  # noqa: PLC0415 - its name is needed here only

    name = known_traces.HOSTILE_FILE.removesuffix(".overlane")
    for page in ("waits", "path", "advice"):
        body = go(dashboard, page, name, re.compile(r"\S"))
        made = body.locator("script, img, b, svg a").all()
        texts = [one.evaluate("(element) => element.outerHTML") for one in made]
        assert not [text for text in texts if "onerror" in text or "hostile" in text], page
    assert dashboard.page.evaluate("() => window.hostile ?? null") is None
