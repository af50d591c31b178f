"""Opening a trace that is dropped on the page."""

from __future__ import annotations

import base64

import pytest
from playwright.sync_api import expect

DROP = """([name, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    for (const each of [].concat(name)) transfer.items.add(new File([bytes], each));
    const options = {bubbles: true, cancelable: true, dataTransfer: transfer};
    for (const kind of ['dragenter', 'dragover', 'drop']) {
        document.body.dispatchEvent(new DragEvent(kind, options));
    }
}"""


@pytest.fixture
def page(dashboard):
    dashboard.open_timeline("known")
    return dashboard.page


def drop(page, name, data):
    page.evaluate(DROP, [name, base64.b64encode(data).decode()])


def test_a_dropped_trace_is_shown(dashboard, page, traces):
    drop(page, "mine.overlane", (traces / "known.overlane").read_bytes())
    dashboard.wait_until(lambda: dashboard.query.get("trace", "").startswith("mine"), "its address is shown")
    expect(page.locator(".ov-pill-name")).to_have_text("mine")
    timeline = dashboard.timeline()
    assert len(timeline.lanes) > 3
    expect(page.locator(".ov-drop")).to_have_count(0)


def test_what_is_no_trace_is_refused_in_words(dashboard, page):
    drop(page, "<b>beach</b>.json", b"holiday")
    expect(page.locator("#ov-notice")).to_contain_text("cannot be opened")
    expect(page.locator("#ov-notice b")).to_have_count(0)


def test_an_empty_file_and_several_are_refused_at_once(page):
    drop(page, "nothing.json", b"")
    box = page.locator(".ov-drop-failed")
    expect(box).to_contain_text("nothing.json is empty")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    drop(page, ["a.json", "b.json"], b"{}")
    expect(box).to_contain_text("one trace at a time")
    box.get_by_role("button").click()
    expect(box).to_have_count(0)


def test_sending_is_cancelled(dashboard, page):
    page.route("**/api/traces?name=*", lambda _route: None)  # the server does not answer
    drop(page, "slow.json", b"x" * 100_000)
    box = page.locator(".ov-drop-busy")
    expect(box).to_contain_text("Sending slow.json")
    box.get_by_role("button", name="Cancel").click()
    expect(box).to_have_count(0)
    assert "slow" not in dashboard.query.get("trace", "")


def test_the_place_to_drop_is_shown_and_goes_away(page):
    page.evaluate("""() => {
        const transfer = new DataTransfer();
        transfer.items.add(new File(['x'], 'x.json'));
        document.body.dispatchEvent(new DragEvent('dragenter', {bubbles: true, dataTransfer: transfer}));
        window.dragged = transfer;
    }""")
    expect(page.locator(".ov-drop-target")).to_contain_text("at most 1.0 GiB")
    page.evaluate("""() => document.body.dispatchEvent(
        new DragEvent('dragleave', {bubbles: true, dataTransfer: window.dragged})
    )""")
    expect(page.locator(".ov-drop-target")).to_have_count(0)
