# ruff: noqa: INP001 - a script, not a package
"""Take the pictures of the documentation from the running dashboard: `python docs/screenshots.py`.

Serves the bundled samples, drives Chromium and writes PNG files to `docs/images/`, or with `--size` and
`--out` at another size to another folder. Needs the `test` extra and a Chromium (`OVERLANE_CHROMIUM` names
another one).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
TRAINING = "torch-train-pinned"
SETTLE_MS = 1_500  # after the last picture: panels and charts fill

# Name, themes, address, and what to click (a lane and a time in ns), in the order of the tutorial.
PICTURES: tuple[tuple[str, tuple[str, ...], str, tuple[str, int] | None], ...] = (
    ("timeline-zoomed-out", ("light", "dark"), f"/timeline?trace={TRAINING}", None),
    (
        "timeline-zoomed-in",
        ("light", "dark"),
        f"/timeline?trace={TRAINING}&t0=54380000&t1=55480000",
        ("s:0:1:7", 54_520_000),
    ),
    ("timeline-synthetic", ("light", "dark"), "/timeline?trace=synthetic-barriers", None),
    ("timeline-side-by-side", ("light",), "/timeline?trace=ddp-even-rank0&with=ddp-straggler-rank0", None),
    ("overlap", ("light", "dark"), f"/overlap?trace={TRAINING}", None),
    ("overlap-synthetic", ("light", "dark"), "/overlap?trace=synthetic-barriers", None),
    ("operations", ("light", "dark"), f"/operations?trace={TRAINING}", None),
    (
        "compare",
        ("light", "dark"),
        f"/compare?base=torch-train-pageable&runs={TRAINING}&align=range:step 3",
        None,
    ),
    ("library", ("light", "dark"), "/", None),
)


@contextmanager
def dashboard() -> Iterator[str]:
    """Serve the samples on a free port; yields the address."""
    command = [sys.executable, "-m", "overlane", "demo", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:  # noqa: S603
        try:
            for line in server.stdout or ():
                found = re.search(r"http://[0-9.]+:\d+", line)
                if found:
                    yield found.group()
                    return
            sys.exit("the dashboard did not start")
        finally:
            server.terminate()


def shoot(browser: Browser, server: str, out: Path, size: tuple[int, int]) -> None:
    """Write every picture at one size."""
    for name, themes, address, click in PICTURES:
        for theme in themes:
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]},
                color_scheme="dark" if theme == "dark" else "light",
            )
            page = context.new_page()
            page.goto(server + address)
            settle(page)
            if click is not None:
                select(page, *click)
                settle(page)
            page.screenshot(path=out / f"{name}-{theme}.png")
            context.close()


def settle(page: Page) -> None:
    """Wait until what is shown is final."""
    if "/timeline" in page.url:
        page.locator('#timeline[data-ready="1"]').wait_for(timeout=60_000)
    for name, filled in (("operations", "#ov-ops-grid .ag-row"), ("compare", "#ov-cmp-tables")):
        if f"/{name}?" in page.url:
            page.locator(filled).first.wait_for(timeout=60_000)
    page.wait_for_timeout(SETTLE_MS)


def select(page: Page, lane: str, at_ns: int) -> None:
    """Click a lane at a time, then take the pointer away."""
    x, y = page.evaluate(
        """([lane, at]) => {
            const timeline = document.getElementById('timeline');
            const box = timeline.getBoundingClientRect();
            const place = JSON.parse(timeline.dataset.lanes)[lane];
            return [box.x + window.overlane.timeline('timeline').xOf(at), place.y + place.h / 2 + box.y];
        }""",
        [lane, at_ns],
    )
    page.mouse.click(x, y)
    page.mouse.move(2, 2)


def main() -> None:
    """Parse the arguments and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--size", default="1440x900", help="width and height in CSS pixels")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="folder for the PNG files")
    arguments = parser.parse_args()
    width, height = (int(part) for part in arguments.size.split("x"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which(os.environ.get("OVERLANE_CHROMIUM", "chromium"))
    with dashboard() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        shoot(browser, server, arguments.out, (width, height))
        browser.close()


if __name__ == "__main__":
    main()
