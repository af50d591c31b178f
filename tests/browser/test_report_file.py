"""The report as a file: opened without a server, it zooms, selects, and keeps both in its address."""

from __future__ import annotations

import pytest

from browser import known_traces as known
from browser.conftest import VIEWPORT
from browser.known_traces import MS
from overlane.cli import main


class ReportFile:
    """A report page that was opened from the disk."""

    def __init__(self, page, address):
        self.page = page
        self.address = address
        self.canvas = page.locator("#canvas")
        self.details = page.locator("#details")

    def open(self, words=""):
        self.page.goto(self.address + words)
        self.settle()

    def settle(self):
        """Wait until the picture stands and the address says what it shows."""
        self.page.locator('#canvas[data-ready="1"]').wait_for()
        self.page.wait_for_timeout(300)

    @property
    def view(self):
        return tuple(float(self.canvas.get_attribute(f"data-t{at}")) for at in (0, 1))

    @property
    def selected(self):
        return self.canvas.get_attribute("data-selected")

    def point(self, lane, at_ns):
        """Return where a lane shows a time, on the page."""
        label = self.page.locator("#labels > div", has_text=lane).first.bounding_box()
        box = self.canvas.bounding_box()
        t0, t1 = self.view
        return box["x"] + (at_ns - t0) / (t1 - t0) * box["width"], label["y"] + 10


@pytest.fixture
def report_file(chromium, tmp_path, capsys):
    """Open the report of a trace as a file; fails on console messages and on any request but that for it."""
    contexts, wrong = [], []

    def write(make, scheme="light"):
        make(tmp_path / "made.overlane")
        target = tmp_path / "report.html"
        assert main(["report", str(tmp_path / "made.overlane"), "--html", str(target)]) == 0
        context = chromium.new_context(viewport=VIEWPORT, color_scheme=scheme, offline=True)
        contexts.append(context)
        context.on(
            "request", lambda r: None if r.url.split("#")[0] == target.as_uri() else wrong.append(r.url)
        )
        context.on("console", lambda message: wrong.append(message.text))
        context.on("weberror", lambda error: wrong.append(str(error.error)))
        return ReportFile(context.new_page(), target.as_uri())

    yield write
    for context in contexts:
        context.close()
    assert wrong == []


def test_zoom_and_selection_outlive_a_reload(report_file):
    report = report_file(known.write_known)
    report.open()
    before = report.view
    x, y = report.point("stream 7", 750 * MS)
    report.page.mouse.move(x, y)
    report.page.mouse.wheel(0, -600)
    report.settle()
    t0, t1 = report.view
    assert t1 - t0 < 0.5 * (before[1] - before[0])
    assert t0 < 750 * MS < t1, "it zooms at the pointer"
    report.page.mouse.click(*report.point("stream 7", 750 * MS))
    report.settle()
    assert report.selected == f"ops:{known.ATTENTION}"
    assert "attention" in report.details.inner_text()
    assert "300.0 ms" in report.details.inner_text()
    shown = report.view
    report.page.reload()
    report.settle()
    assert report.selected == f"ops:{known.ATTENTION}"
    assert report.view == pytest.approx(shown, abs=1)
    assert "attention" in report.details.inner_text()


def test_the_keys_walk_zoom_and_let_go(report_file):
    report = report_file(known.write_known)
    report.open(f"#t0=0&t1=1000000000&sel=ops:{known.GEMM_LONG}")
    report.canvas.focus()
    report.page.keyboard.press("ArrowRight")
    assert "attention" in report.details.inner_text()
    report.page.keyboard.press("ArrowDown")
    assert "Memcpy HtoD" in report.details.inner_text()
    report.page.keyboard.press("f")
    report.settle()
    assert report.view == pytest.approx((100 * MS, 1_000 * MS), abs=1)
    report.page.keyboard.press("w")
    report.settle()
    assert report.view == pytest.approx((250 * MS, 850 * MS), abs=1)
    report.page.keyboard.press("d")
    report.settle()
    assert report.view == pytest.approx((370 * MS, 970 * MS), abs=1)
    report.page.keyboard.press("Escape")
    report.settle()
    assert report.selected == ""
    assert "sel=" not in report.page.url


def test_dragging_moves_and_a_table_leads_to_the_timeline(report_file):
    report = report_file(known.write_known, "dark")
    report.open("#t0=0&t1=1000000000")
    x, y = report.point("stream 7", 500 * MS)
    report.page.mouse.move(x, y)
    report.page.mouse.down()
    report.page.mouse.move(x - 100, y, steps=4)
    report.page.mouse.up()
    report.settle()
    t0, t1 = report.view
    assert t1 - t0 == pytest.approx(1_000 * MS, abs=1)
    assert t0 > 50 * MS
    assert report.selected == "", "a drag selects nothing"
    link = report.page.locator("#overlap td a").first
    start, end = (int(part) for part in link.inner_text().split(":"))
    link.click()
    report.settle()
    assert report.view == pytest.approx((start, end), abs=1)
    assert report.page.locator("#timeline").bounding_box()["y"] == pytest.approx(8, abs=60)


def test_hostile_names_are_shown_as_text(report_file):
    report = report_file(known.write_hostile)
    report.open("#t0=0&t1=200000000&sel=ops:0")
    assert known.MARKUP_NAME in report.details.inner_text()
    report.page.mouse.move(*report.point("stream 7", 50 * MS))
    assert known.MARKUP_NAME in report.page.locator("#tip").inner_text()
    assert report.page.locator("img").count() == 0
    assert report.page.evaluate("window.hostile") is None


def test_the_numbers_can_be_saved(report_file, tmp_path):
    report = report_file(known.write_known)
    report.open()
    with report.page.expect_download() as download:
        report.page.get_by_role("button", name="Save the numbers as JSON").click()
    download.value.save_as(tmp_path / "saved.json")
    assert '"busy_ns": 1700005000' in (tmp_path / "saved.json").read_text()
