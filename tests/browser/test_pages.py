"""Library, overlap page, hostile names and bad files, seen in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from browser import known_traces as known
from browser.driver import COMPILED_MS
from browser.known_traces import MS


def expect_all(listed, folder):
    """Each file of the library is listed; what other tests have dropped on the page stands beside them."""
    names = [path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".notes"]
    expect(listed.nth(len(names) - 1)).to_be_attached(timeout=30_000)
    texts = listed.all_inner_texts()
    assert len(set(texts)) == len(texts)
    assert not [name for name in names if not any(name in text for text in texts)]


def test_library_lists_all_traces_and_what_is_wrong_with_one(dashboard, traces):
    dashboard.page.goto(f"{dashboard.server}/library?trace={dashboard.trace_id('broken')}")
    cards = dashboard.page.locator("#ov-library .ov-card")
    expect_all(cards, traces)
    broken = cards.filter(has_text="broken.json")
    expect(broken).to_contain_text("Cannot be opened")
    sentence = broken.locator(".ov-notice").inner_text()
    assert "broken.json" in sentence
    assert "Traceback" not in sentence
    # The others work on.
    dashboard.open_timeline("known")


def test_library_opens_a_trace_and_the_way_back(dashboard):
    dashboard.page.goto(dashboard.server)
    card = dashboard.page.locator("#ov-library .ov-card").filter(has_text="known.overlane")
    card.get_by_role("link", name="Timeline").click()
    timeline = dashboard.timeline()
    assert timeline.attribute("trace") == dashboard.trace_id("known")
    dashboard.page.locator("#ov-nav-library").click()
    expect(dashboard.page.locator("#ov-library")).to_be_visible()
    expect(dashboard.page.locator("#timeline")).not_to_be_visible()
    expect(card).to_contain_text("Known GPU")
    dashboard.page.locator("#ov-nav-timeline").click()
    dashboard.timeline()


def open_by_name(dashboard, name: str) -> None:
    field = dashboard.page.locator("#ov-library-name")
    field.fill(name)
    dashboard.page.keyboard.press("Escape")  # the suggestions
    dashboard.page.locator("#ov-library-open").click()


def test_open_by_name_shows_the_timeline(dashboard):
    dashboard.page.goto(dashboard.server)
    expect(dashboard.page.locator("#ov-library .ov-card").first).to_be_visible()
    open_by_name(dashboard, "known.overlane")
    expect(dashboard.page.locator("#page-timeline")).to_be_visible()
    expect(dashboard.page.locator("#page-library")).not_to_be_visible()
    assert dashboard.timeline().attribute("trace") == dashboard.trace_id("known")
    assert dashboard.query["trace"] == dashboard.trace_id("known")


def test_open_by_name_says_why_a_bad_file_is_not_shown(dashboard):
    dashboard.page.goto(dashboard.server)
    for _ in range(2):  # the second time the address is one that failed before
        dashboard.page.locator("#ov-nav-library").click()
        expect(dashboard.page.locator("#ov-library .ov-card").first).to_be_visible()
        open_by_name(dashboard, "broken.json")
        expect(dashboard.page.locator("#ov-notice")).to_be_visible()
        expect(dashboard.page.locator("#ov-notice")).to_contain_text("broken cannot be opened")
        expect(dashboard.page.locator("#ov-notice")).to_contain_text("broken.json")


def test_open_by_name_suggests_each_trace_once_and_refuses_what_is_ambiguous(dashboard, traces):
    dashboard.page.goto(dashboard.server)
    expect(dashboard.page.locator("#ov-library .ov-card").first).to_be_visible()
    dashboard.page.locator("#ov-library-name").click()
    options = dashboard.page.get_by_role("option")
    expect_all(options, traces)
    assert set(known.TWINS) < set(options.all_inner_texts())
    open_by_name(dashboard, "run.json")
    found = dashboard.page.locator("#ov-library-found")
    expect(found).to_contain_text("first/run.json, other/run.json")
    expect(dashboard.page.locator("#page-library")).to_be_visible()
    open_by_name(dashboard, "other/run.json")
    assert dashboard.timeline().attribute("trace") == dashboard.trace_id("other/run")


def test_integrity_of_a_trace_is_shown_and_its_reasons_open_by_key(dashboard):
    dashboard.open_timeline("h200")
    dashboard.page.locator("#ov-nav-library").click()
    card = dashboard.page.locator("#ov-library .ov-card").filter(has_text="h200.json.gz")
    expect(card).to_contain_text(re.compile(r"integrity: \d+ checks? ok"))
    reasons = card.locator(".ov-proof-text")
    expect(reasons).not_to_be_visible()
    card.locator("summary").focus()
    dashboard.page.keyboard.press("Enter")
    expect(reasons).to_be_visible()
    expect(reasons).to_contain_text("What this file can prove")
    expect(reasons).to_contain_text("Integrity")
    # Making the cards anew, as while another trace is being opened, closes nothing.
    with dashboard.page.expect_response("**/_dash-update-component*"):
        dashboard.page.locator("#ov-library-rescan").click()
    dashboard.page.wait_for_timeout(500)
    expect(reasons).to_be_visible()
    card.locator("summary").click()
    expect(reasons).not_to_be_visible()


def test_bad_trace_says_why_on_the_timeline_page(dashboard):
    dashboard.page.goto(f"{dashboard.server}/timeline?trace={dashboard.trace_id('broken')}")
    notice = dashboard.page.locator("#ov-notice")
    expect(notice).to_contain_text("cannot be opened")
    assert "Traceback" not in notice.inner_text()


@pytest.mark.parametrize(
    ("page", "left_out"),
    [("timeline", "#ov-range-panel"), ("operations", "#ov-ops-by"), ("operations", "#ov-flame-by")],
)
def test_a_bad_trace_leaves_only_the_reason_and_the_way_back(dashboard, page, left_out):
    dashboard.page.goto(f"{dashboard.server}/{page}?trace={dashboard.trace_id('broken')}")
    shown = dashboard.page.locator(f"#page-{page}")
    expect(shown.locator(".ov-notice-failed")).to_be_visible(timeout=COMPILED_MS)
    expect(dashboard.page.locator(left_out)).not_to_be_visible()
    shown.get_by_role("link", name="All traces").click()
    expect(dashboard.page.locator("#page-library .ov-card").first).to_be_visible()


def test_trace_without_gpu_work_says_so(dashboard):
    timeline = dashboard.open_timeline("no-gpu")
    expect(dashboard.page.locator("#ov-notice")).to_contain_text("No GPU work")
    assert int(timeline.attribute("rects")) > 0  # what the host recorded is drawn


@pytest.fixture
def overlap(dashboard):
    """The overlap page of the known trace."""
    dashboard.page.goto(f"{dashboard.server}/overlap?trace={dashboard.trace_id('known')}")
    page = dashboard.page.locator("#ov-overlap")
    expect(page).to_contain_text("Known GPU", timeout=COMPILED_MS)
    return page


# Worked out by hand in known_traces.py, as a reader of the page sees them: four digits.
OVERLAP_ROWS = {
    "compute": ["1.599 s", "40.1 %", "1004"],
    "copy H2D": ["300.0 ms", "7.5 %", "1"],
    "copy D2H": ["500.0 ms", "12.5 %", "1"],
    "compute and copy H2D": ["200.0 ms", "5.0 %"],
    "compute and copy D2H": ["499.0 ms", "12.5 %"],
    "copy H2D and copy D2H": ["0", "0 %"],
    # Two are open where compute and a copy overlap (200 + 499), none in the idle time.
    "0": ["2.290 s", "57.4 %"],
    "1": ["1.001 s", "25.1 %"],
    "2": ["699.0 ms", "17.5 %"],
}


def test_overlap_page_equals_hand_worked_numbers(overlap):
    shown = {}
    for row in overlap.locator("tbody tr").all():
        name, *cells = [re.sub(r"(?<=\d)\s(?=\d)", "", text) for text in row.locator("td").all_inner_texts()]
        assert name not in shown
        shown[name] = cells[: len(OVERLAP_ROWS.get(name, cells))]
    assert shown == OVERLAP_ROWS


def test_overlap_page_tells_window_busy_idle_and_exposed_copies(overlap):
    text = " ".join(overlap.inner_text().split())
    for words in ("window 3.990 s", "busy 1.700 s", "idle 2.290 s", "exposed copies 101.0 ms"):
        assert words in text


def test_overlap_number_leads_to_the_longest_stretch_that_proves_it(dashboard, overlap):
    # Compute and D2H overlap once, in [3500, 3999) ms.
    overlap.get_by_role("link", name="499.0 ms").first.click()
    timeline = dashboard.timeline()
    expect(dashboard.page.locator("#timeline")).to_be_visible()
    t0, t1 = timeline.view
    assert t0 <= 3_500 * MS
    assert t1 >= 3_999 * MS
    assert t1 - t0 < 1_500 * MS


def click_chart(dashboard, overlap, heading: str, point) -> None:
    """Click a chart at a share of its plot's width and height."""
    block = overlap.locator(".ov-charts > div", has=dashboard.page.get_by_role("heading", name=heading))
    index = [words.strip().lower() for words in block.locator("h2").all_inner_texts()].index(heading.lower())
    plot = block.locator(".js-plotly-plot").nth(index).locator(".nsewdrag").bounding_box()
    x, y = plot["x"] + point[0] * plot["width"], plot["y"] + point[1] * plot["height"]
    dashboard.page.mouse.move(x - 3, y)
    dashboard.page.mouse.move(x, y)
    dashboard.page.mouse.click(x, y)


@pytest.mark.parametrize(
    ("heading", "point", "marked"),
    [
        # Rows and columns are compute, H2D, D2H: the cell at the upper right is compute and D2H.
        ("Both busy at once", (5 / 6, 1 / 6), (3_500, 3_999)),
        ("Both busy at once", (1 / 2, 1 / 2), (400, 700)),
        # The axis reaches to 136 %, so that 0.05 is 6.8 %: within each engine's bar.
        ("Busy time of each engine", (0.04, 5 / 6), (3_500, 4_000)),
        # Idle, one and two operations open; two were open longest in [3500, 3999).
        ("Operations open at once", (5 / 6, 0.97), (3_500, 3_999)),
    ],
)
def test_chart_leads_to_the_longest_stretch_that_proves_it(dashboard, overlap, heading, point, marked):
    for _ in range(2):  # a second click on the same place is one too
        expect(overlap).to_contain_text("Known GPU")
        click_chart(dashboard, overlap, heading, point)
        dashboard.page.wait_for_url("**/timeline?**")
        timeline = dashboard.timeline()
        expect(dashboard.page.locator("#page-timeline")).to_be_visible()
        dashboard.wait_until(
            lambda: dashboard.query.get("range") == f"{marked[0] * MS}-{marked[1] * MS}", "it is marked"
        )
        t0, t1 = timeline.view
        assert t0 <= marked[0] * MS
        assert t1 >= marked[1] * MS
        assert t1 - t0 < 1_600 * MS
        dashboard.page.locator("#ov-nav-overlap").click()


def test_count_of_operations_leads_to_its_engine(dashboard, overlap):
    overlap.get_by_role("link", name=re.compile(r"^1\s?004$")).click()
    timeline = dashboard.timeline()
    t0, t1 = timeline.view  # compute was busy longest in [3200, 3999) ms
    assert t0 <= 3_200 * MS
    assert t1 >= 3_999 * MS


def hostile(dashboard) -> str:
    return known.HOSTILE_FILE.removesuffix(".overlane")


def assert_harmless(dashboard) -> None:
    assert dashboard.page.evaluate("typeof window.hostile") == "undefined"
    assert dashboard.page.locator("img[src='x']").count() == 0
    assert dashboard.page.locator("b", has_text="bold").count() == 0


def test_hostile_file_and_producer_are_text(dashboard):
    timeline = dashboard.open_timeline(hostile(dashboard))
    assert int(timeline.attribute("rects")) >= len(known.HOSTILE_NAMES)
    expect(dashboard.page.locator("#ov-header-trace")).to_contain_text("<b>bold<img src=x")
    assert_harmless(dashboard)
    dashboard.page.locator("#ov-nav-library").click()
    expect(dashboard.page.locator("#ov-library")).to_contain_text("<b>bold<img src=x")
    assert_harmless(dashboard)


@pytest.mark.parametrize("index", range(len(known.HOSTILE_NAMES)))
def test_hostile_names_are_text_everywhere(dashboard, index):
    name = known.HOSTILE_NAMES[index]
    timeline = dashboard.open_timeline(hostile(dashboard))
    at, lane = index * 200 * MS + 50 * MS, timeline.lane_of_stream(7)
    dashboard.page.mouse.move(*timeline.point(at, lane))  # the tip
    timeline.click(at, lane)
    expect(dashboard.details).to_contain_text(name[:60])
    dashboard.page.locator("#ov-search").fill(name[:30])
    expect(dashboard.page.locator("#ov-search-panel")).to_contain_text("1 hit")
    assert_harmless(dashboard)
    width = dashboard.page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert width <= 0, "a long name makes the page wider than the window"


def test_unknown_trace_in_the_address_is_said(dashboard):
    dashboard.page.goto(f"{dashboard.server}/timeline?trace=no-such-trace")
    expect(dashboard.page.locator("#ov-notice")).to_contain_text("no trace is called 'no-such-trace'")


def test_two_visits_at_once_do_not_disturb_each_other(dashboard, chromium):
    first = dashboard.open_timeline("known", t0=0, t1=1_000 * MS)
    second = chromium.new_page()
    second.goto(f"{dashboard.server}/timeline?trace={dashboard.trace_id('h200')}")
    second.wait_for_selector("#timeline[data-ready='1']", state="attached")
    assert first.view == pytest.approx((0, 1_000 * MS), abs=1)
    second.close()
