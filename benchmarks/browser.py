"""The timeline in a real Chromium: first paint, frames, detail after a zoom, click to details."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import prepared
from measure import DATA, HERE, ChildFailedError, Figure, figure_of, percentile, run_worker

PART = "browser"
PAINT_BUDGET_SECONDS = 2.0
FRAMES_BUDGET = 55.0
DETAIL_MEDIAN_BUDGET_MS, DETAIL_P95_BUDGET_MS = 100.0, 200.0
CLICK_BUDGET_MS = 250.0
VIEWPORT = {"width": 1400, "height": 1000}
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

FIND_SLICE = "([left, width, y]) => window.recorder.findSlice(left, width, y)"
RECORDER = HERE / "recorder.js"

Page = Any  # Playwright's; imported where used, so that the other parts run without it
Motion = Callable[[Page], list[list[float]]]


def measure(*, is_quick: bool) -> list[Figure]:
    """Return the browser's figures for 1 M, 10 M and 100 M operations over 64 lanes, prepared before."""
    figures: list[Figure] = []
    for count in (1_000_000,) if is_quick else (1_000_000, 10_000_000, 100_000_000):
        figures += _figures(count, repeats=3 if is_quick else 5)
    return figures


def _figures(count: int, repeats: int) -> list[Figure]:
    label = f"{count // 1_000_000} M"
    path, cache = prepared.trace_file(count), DATA / "cache-of-browser"
    run_worker("open_cached", path, cache)  # prepared: the cache has its entry
    with server(path, cache) as address, chromium() as browser:
        paints = [_first_paint(browser, address) for _ in range(repeats)]
        page = _open(browser, address)
        moved = [frames(page, label, words, act) for words, act in MOTIONS]
        details = _detail_times(page, 10 * repeats)
        clicks = click_times(page, 3 * repeats)
    shutil.rmtree(cache)
    return [
        figure_of(PART, f"{label}: page open to first slices", paints, "s", budget=PAINT_BUDGET_SECONDS),
        *(figure for pair in moved for figure in pair),
        figure_of(
            PART,
            f"{label}: end of a zoom to its detail, median",
            details,
            "ms",
            budget=DETAIL_MEDIAN_BUDGET_MS,
            note=f"{details.count(0.0)} were in detail at once",
        ),
        Figure(
            PART,
            f"{label}: end of a zoom to its detail, p95",
            percentile(details, 0.95),
            "ms",
            DETAIL_P95_BUDGET_MS,
        ),
        figure_of(PART, f"{label}: click to filled details", clicks, "ms", budget=CLICK_BUDGET_MS),
    ]


@contextmanager
def server(path: Path, cache: Path) -> Iterator[str]:
    """Serve one trace as a user does; yield the address.

    Raises:
        ChildFailedError: The server ended before it told its address.
    """
    command = [sys.executable, "-m", "overlane", "serve", str(path), "--port", "0", "--no-browser"]
    environment = {**os.environ, "OVERLANE_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"http://[\d.]+:\d+", line):
                threading.Thread(target=process.stdout.read, daemon=True).start()
                try:
                    yield found.group()
                finally:
                    process.terminate()
                    process.wait(30)
                return
    raise ChildFailedError(f"the server did not start: {' '.join(said)}")


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the system's Chromium.

    Raises:
        ChildFailedError: There is none.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    names = (os.environ.get("OVERLANE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None:
        raise ChildFailedError("no Chromium was found; install it or set OVERLANE_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=CHROMIUM_FLAGS, headless=True)
        yield browser
        browser.close()


def _open(browser: Any, address: str) -> Page:
    page = browser.new_page(viewport=VIEWPORT)
    page.add_init_script(path=RECORDER)
    page.goto(f"{address}/timeline")
    # The page's security policy refuses Playwright's own waiting for a condition: it evaluates text.
    for _ in range(600):
        if page.evaluate("window.recorder.paint") is not None:
            return page
        page.wait_for_timeout(100)
    raise ChildFailedError("the timeline showed no slice within a minute")


def _first_paint(browser: Any, address: str) -> float:
    """Return seconds from the navigation to the frame with final slices, in a fresh profile."""
    page = _open(browser, address)
    paint = page.evaluate("window.recorder.paint")
    page.close()
    return float(paint) / 1000


def _plot(page: Page) -> tuple[float, float, float]:
    """Return left edge, width and a middle height of the plot on the page."""
    box = page.locator("#timeline").bounding_box()
    plot = json.loads(page.locator("#timeline").get_attribute("data-plot"))
    return box["x"] + plot["x"], plot["w"], box["y"] + box["height"] * 0.6


def settled(page: Page) -> None:
    """Wait until the picture is drawn in detail."""
    page.wait_for_timeout(150)
    page.wait_for_selector("#timeline[data-ready='1']", state="attached")


def _show(page: Page, share: float, at: float = 0.37) -> None:
    """Show a share of the whole trace around a place in it."""
    page.evaluate("([share, at]) => window.recorder.show(share, at)", [share, at])
    settled(page)


def _stamps(page: Page, act: Callable[[], object]) -> list[float]:
    """Return the stamps (ms) of the frames whose view changed while something was done."""
    page.evaluate("window.recorder.frames = []")
    act()
    return list(page.evaluate("window.recorder.frames"))


def _drag(page: Page) -> list[list[float]]:
    """Drag the plot to and fro: a real press, then one move in every frame."""
    left, width, y = _plot(page)
    _show(page, 0.01)
    page.mouse.move(left + width / 4, y)
    page.mouse.down()
    place = [left + width / 4, y, width / 2]
    move = "([x, y, reach]) => window.recorder.drag(x, y, reach, 240, 60)"
    stamps = _stamps(page, lambda: page.evaluate(move, place))
    page.mouse.up()
    return [stamps]


def _hold(key: str, back: str, share: float, *, milliseconds: int = 900) -> Motion:
    """Return a motion that holds two keys by turns, not long enough to reach an end of the trace."""

    def hold(page: Page, pressed: str) -> None:
        page.keyboard.down(pressed)
        page.wait_for_timeout(milliseconds)
        page.keyboard.up(pressed)

    def act(page: Page) -> list[list[float]]:
        _show(page, share, 0.5)
        page.locator("#timeline").focus()
        turns = 2 * max(1, 1800 // milliseconds)
        return [_stamps(page, partial(hold, page, back if k % 2 else key)) for k in range(turns)]

    return act


def _wheel(page: Page) -> list[list[float]]:
    """Turn the wheel in and out at the mouse, one event in every frame."""
    left, width, y = _plot(page)
    _show(page, 1.0, 0.5)
    turn = "([x, y]) => window.recorder.turnWheel(x, y, 240, 60)"
    return [_stamps(page, lambda: page.evaluate(turn, [left + width * 0.4, y]))]


MOTIONS = (
    ("panning with the keys at half the trace", _hold("d", "a", 0.5, milliseconds=250)),
    ("panning with the keys at 1 %", _hold("d", "a", 0.01)),
    ("panning with the keys at 0.01 %", _hold("d", "a", 0.0001)),
    ("zooming with the keys", _hold("w", "s", 0.2)),
    ("dragging", _drag),
    ("zooming with the wheel", _wheel),
)


def frames(page: Page, label: str, words: str, act: Motion) -> tuple[Figure, Figure]:
    """Return frames per second with a changed view while something moves, and their p95 interval."""
    steps = [b - a for stamps in act(page) for a, b in pairwise(stamps)]
    settled(page)
    return (
        Figure(
            PART,
            f"{label}: {words}",
            1000 * len(steps) / sum(steps),
            "frames/s",
            FRAMES_BUDGET,
            "higher",
            note=f"{len(steps)} frames with a changed view",
        ),
        Figure(PART, f"{label}: {words}, p95 interval", percentile(steps, 0.95), "ms"),
    )


def _detail_times(page: Page, count: int) -> list[float]:
    """Return ms from the last change of the view to the detailed picture, for zooms by the wheel."""
    left, width, y = _plot(page)
    times = []
    for k in range(count):
        _show(page, (1.0, 0.3, 0.05, 0.005)[k % 4], 0.2 + 0.6 * (k * 7 % count) / count)
        page.mouse.move(left + width * (0.2 + 0.6 * (k * 3 % 7) / 7), y)
        for _ in range(6 + k % 5):
            page.mouse.wheel(0, -120)
        settled(page)
        moved, ready = page.evaluate("[window.recorder.moved, window.recorder.ready]")
        times.append(max(0.0, ready - moved))
    return times


def click_times(page: Page, count: int) -> list[float]:
    """Return ms from a click on a slice to the frame with its details, at places all over the trace."""
    left, width, _ = _plot(page)
    times: list[float] = []
    for k in range(10 * count):
        if len(times) == count:
            break
        _show(page, 0.00002, 0.05 + 0.9 * (k * 0.618 % 1.0))
        lanes = json.loads(page.locator("#timeline").get_attribute("data-lanes"))
        streams = [at for lane, at in lanes.items() if lane.startswith("s:")]
        lane = streams[k % len(streams)]
        top = page.locator("#timeline").bounding_box()["y"]
        found = page.evaluate(FIND_SLICE, [left, width, top + lane["y"] + lane["h"] / 2])
        if found is None:
            continue  # nothing ran on this stream then
        page.mouse.move(*found)
        page.evaluate("window.recorder.watchDetails()")
        page.mouse.click(*found)
        times.append(page.evaluate("window.recorder.filled"))
    return times
