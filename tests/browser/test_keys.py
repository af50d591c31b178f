"""Working without a mouse: every control is reached by Tab, says where the focus is, and answers to keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser.known_traces import MS


@pytest.fixture
def timeline(dashboard):
    return dashboard.open_timeline("known")


def focused(page):
    """Return words for what has the focus, and the outline by which it shows."""
    return page.evaluate(
        """() => {
            const at = document.activeElement;
            const style = getComputedStyle(at);
            const name = at.getAttribute('aria-label') || at.innerText || at.id || at.tagName;
            const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
            return {name: name.trim().slice(0, 60), seen, colour: style.outlineColor, tag: at.tagName};
        }"""
    )


def walk(page, steps=80):
    """Press Tab from the start of the page until the focus has gone around; what had it, in order."""
    page.evaluate("document.activeElement.blur()")
    found = []
    for _ in range(steps):
        page.keyboard.press("Tab")
        at = focused(page)
        if at["tag"] == "BODY":
            break
        found.append(at)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_control_of_the_timeline_is_reached_by_tab_and_shows_its_focus(dashboard, timeline, theme):
    if dashboard.theme != theme:
        dashboard.switch_theme()
        dashboard.wait_until(lambda: dashboard.theme == theme, "the theme is another")
        dashboard.page.reload()  # so that the way through the page begins at its top
        dashboard.timeline()
    found = walk(dashboard.page)
    names = [at["name"] for at in found]
    for wanted in (
        "overlane", "Library", "Advice", "Compare", "Search all names of the trace",
        "Change between light and dark", "Timeline. Arrow keys", "Back to the view before", "Zoom in",
        "Fit the range", "What is shown", "All keys and mouse actions", "stream 7",
    ):  # fmt: skip
        assert any(name.startswith(wanted) for name in names), (wanted, names)
    accent = dashboard.page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--ov-accent').trim()"
    )
    rgb = f"rgb({', '.join(str(int(accent[i : i + 2], 16)) for i in (1, 3, 5))})"
    assert not [at for at in found if not at["seen"] or at["colour"] != rgb], "the focus does not show"


def test_a_range_is_measured_and_stretched_by_keys(dashboard, timeline):
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    expect(dashboard.details).to_contain_text("attention")
    timeline.press("r")
    panel = dashboard.page.locator("#ov-range-panel")
    expect(panel).to_contain_text("300.0 ms")
    timeline.press("Shift+ArrowRight")  # a fiftieth of the view of 4 s
    expect(panel).to_contain_text("380.0 ms")
    timeline.press("Shift+ArrowLeft")
    timeline.press("Shift+ArrowLeft")
    expect(panel).to_contain_text("220.0 ms")
    timeline.press("Escape")
    timeline.press("Escape")
    timeline.press("r")
    expect(panel).to_contain_text("4.000 s")


def test_the_menu_of_what_is_shown_is_worked_by_keys(dashboard, timeline):
    timeline.press("v")
    menu = dashboard.page.get_by_role("dialog", name="What the timeline shows")
    expect(menu.get_by_role("radio", name="engine")).to_be_focused()
    dashboard.page.keyboard.press("ArrowDown")
    expect(menu.get_by_role("radio", name="name")).to_be_checked()
    dashboard.page.keyboard.press("Tab")
    waits = menu.get_by_role("checkbox", name="waits")
    expect(waits).to_be_focused()
    dashboard.page.keyboard.press("Space")
    expect(waits).not_to_be_checked()
    dashboard.page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(timeline.locator).to_be_focused()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (1280, 420)])
def test_the_help_fits_the_window_and_its_end_is_reached_by_keys(dashboard, timeline, width, height):
    dashboard.page.set_viewport_size({"width": width, "height": height})
    timeline.settle()
    timeline.press("?")
    help_box = dashboard.page.get_by_role("dialog", name="Keys and mouse actions")
    box = help_box.bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= height
    if height >= 720:
        assert help_box.evaluate("one => one.scrollHeight <= one.clientHeight"), "nothing is cut"
        return
    last = help_box.get_by_text("scroll the lanes", exact=True)
    expect(last).not_to_be_in_viewport()
    dashboard.page.keyboard.press("Tab")
    expect(help_box).to_be_focused()
    dashboard.page.keyboard.press("End")
    expect(last).to_be_in_viewport()
    dashboard.page.keyboard.press("Escape")
    expect(help_box).to_have_count(0)
    expect(timeline.locator).to_be_focused()


def test_the_canvas_has_a_table_of_what_it_shows(dashboard, timeline):
    table = dashboard.page.locator("#timeline-table table")
    expect(table.locator("caption")).to_contain_text("known: slices in view, 4.000 s from 0")
    rows = table.locator("tr", has_text=re.compile(r"^stream 7"))
    for name, start, length in (("gemm_long", "10.00 ms", "490.0 ms"), ("attention", "600.0 ms", "300.0 ms")):
        row = rows.filter(has_text=name).locator("td")
        assert row.nth(2).text_content() == start
        assert row.nth(3).text_content() == length
    timeline.click(750 * MS, timeline.lane_of_stream(7))
    timeline.press("f")
    expect(rows.filter(has_text="gemm_long")).to_have_count(0)
    expect(rows.filter(has_text="attention")).to_have_count(1)
