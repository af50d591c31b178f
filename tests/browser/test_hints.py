"""The hints of the demo: shown where the address asks for them, beside the data, until they are dismissed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect


@pytest.fixture
def timeline(dashboard):
    return dashboard.open_timeline("green-context-C", hints=1)


@pytest.fixture
def hints(dashboard, timeline):
    shown = dashboard.page.get_by_role("region", name="First steps")
    expect(shown).to_be_visible()
    return shown


def test_three_numbered_hints_stand_above_the_canvas(hints, timeline):
    expect(hints.locator("li")).to_have_count(3)
    assert [one.inner_text() for one in hints.locator("li b").all()] == ["1", "2", "3"]
    strip, canvas = hints.bounding_box(), timeline.locator.bounding_box()
    assert strip["y"] + strip["height"] <= canvas["y"] + 1, "never over the data"


def test_no_hints_where_the_address_does_not_ask(dashboard):
    dashboard.open_timeline("green-context-C")
    expect(dashboard.page.locator(".ov-hints")).to_be_hidden()


@pytest.mark.parametrize("way", ["button", "escape on a hint", "escape on the canvas"])
def test_dismissed_hints_stay_away(dashboard, timeline, hints, way):
    if way == "button":
        dashboard.page.get_by_role("button", name="Dismiss the hints").click()
    elif way == "escape on a hint":
        dashboard.page.get_by_role("link", name="Open advice").focus()
        dashboard.page.keyboard.press("Escape")
    else:
        timeline.locator.focus()
        dashboard.page.keyboard.press("Escape")
    expect(hints).to_be_hidden()
    expect(timeline.locator).to_be_focused()
    dashboard.page.reload()
    dashboard.timeline()
    expect(dashboard.page.locator(".ov-hints")).to_be_hidden()


def test_the_first_hint_selects_a_kernel_that_waited_for_room(dashboard, hints):
    dashboard.page.get_by_role("button", name="Show one").press("Enter")
    expect(dashboard.details).to_contain_text("Why it waited")
    expect(dashboard.details).to_contain_text("stamped_critical")


def test_the_other_hints_lead_to_their_pages(dashboard, hints):
    dashboard.page.get_by_role("link", name="Open advice").press("Enter")
    expect(dashboard.page.locator("#page-advice")).to_be_visible()
    assert "trace=green-context-c" in dashboard.page.url
    dashboard.page.go_back()
    dashboard.page.get_by_role("link", name="Compare with A").press("Enter")
    expect(dashboard.page.locator("#page-compare")).to_be_visible()
    assert "base=green-context-c&runs=green-context-a" in dashboard.page.url
