"""The dashboard with everything drawn: waits, gaps, barriers and arrows of a million operations.

Frames while moving, click to details, change of page, and two browsers that move while another client asks
for fifty viewports a second.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import browser as measured
from measure import DATA, ChildFailedError, Figure, figure_of, percentile

PART = "reasons"
CLICK_BUDGET_MS = 150.0
PAGE_BUDGET_MS = 500.0
QUERIES_PER_SECOND = 50
_KNOWN_SECONDS = 120  # until the causes are there, at most
_ASKED_SECONDS = 10

_CHANGE_PAGE = "([name, filled]) => window.recorder.changePage(name, filled)"
_PAGES = {
    "overlap": "#page-overlap .js-plotly-plot",
    "operations": "#page-operations .ag-row",
    **{
        name: f"#ov-{name} :is(.ov-block, .ov-advice, .ov-notice-warning)"
        for name in ("waits", "path", "partitions", "hazards", "advice")
    },
    "timeline": "#timeline[data-ready='1']",
}
"""Pages in the order in which they are opened, and what is there when they are filled."""


def measure(*, is_quick: bool) -> list[Figure]:
    """Return the figures of the dashboard with all causes drawn."""
    count, repeats = (100_000, 2) if is_quick else (1_000_000, 4)
    label, path, cache = f"{count / 1e6:g} M, causes drawn", _trace_file(count), DATA / "cache-of-reasons"
    with measured.server(path, cache) as address, measured.chromium() as browser:
        page = _open(browser, f"{address}/timeline?sel=ops:{count // 2}")
        moved = [measured.frames(page, label, words, act) for words, act in measured.MOTIONS]
        clicks = measured.click_times(page, 4 * repeats)
        first = _page_changes(page, 1)
        again = _page_changes(page, repeats)
        late, errors = _crowd(browser, address)
    shutil.rmtree(cache)
    return [
        *(figure for pair in moved for figure in pair),
        figure_of(PART, f"{label}: click to filled details", clicks, "ms", budget=CLICK_BUDGET_MS),
        figure_of(PART, f"{label}: page change, first visits", first, "ms", budget=PAGE_BUDGET_MS),
        figure_of(PART, f"{label}: page change, later visits", again, "ms", budget=PAGE_BUDGET_MS),
        Figure(
            PART,
            f"{label}: errors, two browsers and {QUERIES_PER_SECOND} queries/s",
            float(errors),
            "",
            0.0,
            note=f"{len(late)} queries answered, p95 {percentile(late, 0.95):.0f} ms",
        ),
    ]


def _trace_file(count: int) -> Path:
    """Return a trace with calls, events and synchronizations, made on first use."""
    from analyses import synthetic_trace  # noqa: PLC0415 - only where it is made
    from overlane_collect.schema import TABLES  # noqa: PLC0415
    from overlane_collect.writer import write_trace  # noqa: PLC0415

    path = DATA / f"causes-{count}.overlane"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        print(f"  making {path.name}", file=sys.stderr)
        trace = synthetic_trace(count)
        write_trace(path, trace.header, {table: trace.table(table) for table in TABLES})
    return path


def _open(browser: Any, address: str) -> Any:
    """Open the timeline and wait until the causes are drawn."""
    page = browser.new_page(viewport=measured.VIEWPORT)
    page.add_init_script(path=measured.RECORDER)
    page.goto(address)
    end = time.monotonic() + _KNOWN_SECONDS
    while page.locator("#timeline").get_attribute("data-reasons") != "ready":
        if time.monotonic() > end:
            raise ChildFailedError(f"the causes were not there within {_KNOWN_SECONDS} s")
        page.wait_for_timeout(100)
    measured.settled(page)
    return page


def _page_changes(page: Any, rounds: int) -> list[float]:
    """Return ms from the click on a page's link to the frame in which it is filled."""
    times = []
    for name, filled in [*_PAGES.items()] * rounds:
        times.append(page.evaluate(_CHANGE_PAGE, [name, filled]))
        if times[-1] is None:
            raise ChildFailedError(f"the page {name} was not filled within a minute")
    return times


def _crowd(browser: Any, address: str) -> tuple[list[float], int]:
    """Move in two browsers while fifty viewports a second are asked for: ms of each answer, and failures."""
    pages = [_open(browser, f"{address}/timeline") for _ in range(2)]
    over = threading.Event()
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(_ask, address, over)
        end = time.monotonic() + _ASKED_SECONDS
        while time.monotonic() < end:
            for page in pages:
                page.locator("#timeline").focus()
                page.keyboard.press(random.choice("wasd"))
        over.set()
        late, errors = asked.result()
    failed = [page for page in pages if page.locator("#timeline .ov-tl-error:visible").count()]
    return late, errors + len(failed)


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - the address of our own server
        return bytes(answer.read())


def _ask(address: str, over: threading.Event) -> tuple[list[float], int]:
    (trace,) = json.loads(_get(f"{address}/api/traces"))["traces"]
    of_trace = f"{address}/api/traces/{trace['id']}"
    span = json.loads(_get(f"{of_trace}/timeline"))["span_ns"]
    rng = random.Random(5)

    def one() -> float | None:
        width = span * 10 ** -rng.uniform(0, 5)
        t0 = rng.uniform(0, span - width)
        began = time.perf_counter()
        try:
            _get(f"{of_trace}/tile?t0={int(t0)}&t1={int(t0 + width) + 1}&px=1400")
        except (urllib.error.URLError, OSError):
            return None
        return (time.perf_counter() - began) * 1000

    answers = []
    with ThreadPoolExecutor(16) as pool:
        while not over.wait(1 / QUERIES_PER_SECOND):
            answers.append(pool.submit(one))
    found = [answer.result() for answer in answers]
    return [ms for ms in found if ms is not None], found.count(None)
