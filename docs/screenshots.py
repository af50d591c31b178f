# ruff: noqa: INP001 - a script, not a package
"""Take the pictures of the documentation from the running dashboard: `python docs/screenshots.py`.

Serves the bundled samples, drives Chromium and writes PNG files of every page, light and dark, at 1440x900 to
`docs/images/` and at 1920x1080 to `docs/images/1920x1080/`. `--size` takes one size alone, `--only` some
pictures, and `--out` writes to another folder. Colours are reduced to a palette of 256, which
nobody sees and which makes files less than half as large. Needs the `test` extra and a Chromium
(`OVERLANE_CHROMIUM` names another one).
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SIZES = {"1440x900": IMAGES, "1920x1080": IMAGES / "1920x1080"}
TRAINING = "torch-train-pinned"
SETTLE_MS = 1_500  # after the last picture: panels and charts fill
FILLED_MS = 240_000  # at worst, the analyses are compiled first
COLOURS = 256


@dataclass(frozen=True)
class Picture:
    """One picture, taken light and dark.

    Attributes:
        name: Name of its files, without the theme.
        address: What to open.
        filled: What is there once the page shows its content; None for a timeline alone, which says so.
        click: A lane and a time in ns to select, None for no selection.
    """

    name: str
    address: str
    filled: str | None = None
    click: tuple[str, int] | None = None


# In the order of the tutorial.
PICTURES = (
    Picture("timeline-zoomed-out", f"/timeline?trace={TRAINING}"),
    Picture(
        "timeline-zoomed-in",
        f"/timeline?trace={TRAINING}&t0=54380000&t1=55480000",
        click=("s:0:1:7", 54_520_000),
    ),
    Picture("advice", "/advice?trace=vector-add-pageable", "#ov-advice section"),
    Picture("overlap", "/overlap?trace=vector-add-pinned", ".js-plotly-plot:visible"),
    Picture(
        "timeline-reasons",
        "/timeline?trace=default-stream-legacy&t0=140480000&t1=142300000",
        click=("s:0:1:13", 141_900_000),
    ),
    Picture("waits", "/waits?trace=default-stream-legacy", "#ov-waits .ov-block"),
    Picture(
        "compare-default-stream",
        "/compare?base=default-stream-legacy&runs=default-stream-nonblocking",
        "#ov-cmp-tables",
    ),
    Picture("path", "/path?trace=event-chain", "#ov-path .ov-block"),
    Picture("partitions", "/partitions?trace=green-context-a", "#ov-partitions .ov-block"),
    Picture("hazards", "/hazards?trace=stream-contract-missing-wait", "#ov-hazards .ov-block"),
    Picture(
        "compare", "/compare?base=green-context-c&runs=green-context-a&align=range:round 3", "#ov-cmp-tables"
    ),
    Picture("operations", f"/operations?trace={TRAINING}", "#ov-ops-grid .ag-row"),
    Picture("library", "/", ".ov-card"),
)
REPORTS = ("report-page", "green-context-C.overlane", "#t0=347000000&t1=350600000")
"""Picture of a report as a file: its name, the sample, and where it is opened."""


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


def shoot(browser: Browser, server: str, folders: dict[str, Path], only: list[str]) -> None:
    """Write every picture at every size."""
    for picture in PICTURES:
        if only and picture.name not in only:
            continue
        for theme in ("light", "dark"):
            with opened(browser, theme) as page:
                page.set_viewport_size(box(next(iter(folders))))
                page.goto(server + picture.address)
                settle(page, picture)
                if picture.click is not None:
                    select(page, *picture.click)
                save(page, picture.name, theme, folders)


def shoot_report(browser: Browser, folders: dict[str, Path]) -> None:
    """Write the pictures of a report as a file."""
    name, sample, place = REPORTS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        command = [sys.executable, "-m", "overlane", "report", f"sample_traces/{sample}", "--html", str(path)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)  # noqa: S603
        for theme in ("light", "dark"):
            with opened(browser, theme) as page:
                page.goto(path.as_uri() + place)
                page.locator('#canvas[data-ready="1"]').wait_for()
                save(page, name, theme, folders)


@contextmanager
def opened(browser: Browser, theme: str) -> Iterator[Page]:
    """Give a fresh page of a theme."""
    context = browser.new_context(color_scheme="dark" if theme == "dark" else "light")
    yield context.new_page()
    context.close()


def box(size: str) -> ViewportSize:
    """Return a size like 1440x900 as the browser takes it."""
    width, height = (int(part) for part in size.split("x"))
    return {"width": width, "height": height}


def save(page: Page, name: str, theme: str, folders: dict[str, Path]) -> None:
    """Write what a page shows at every size, with a palette."""
    for size, folder in folders.items():
        page.set_viewport_size(box(size))
        page.wait_for_timeout(SETTLE_MS)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        path = folder / f"{name}-{theme}.png"
        picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def settle(page: Page, picture: Picture) -> None:
    """Wait until what is shown is final."""
    if "/timeline" in page.url:
        page.locator('#timeline[data-ready="1"][data-reasons="ready"]').wait_for(timeout=FILLED_MS)
    if picture.filled is not None:
        page.locator(picture.filled).first.wait_for(timeout=FILLED_MS)


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
    parser.add_argument("--size", choices=SIZES, help="take this size alone; by default both")
    parser.add_argument("--out", type=Path, help="folder for the PNG files; by default docs/images")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="take this picture alone; repeatable"
    )
    arguments = parser.parse_args()
    folders = {size: folder for size, folder in SIZES.items() if arguments.size in {None, size}}
    if arguments.out is not None:
        folders = {size: arguments.out / size for size in folders}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which(os.environ.get("OVERLANE_CHROMIUM", "chromium"))
    with dashboard() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        shoot(browser, server, folders, arguments.only)
        if not arguments.only or REPORTS[0] in arguments.only:
            shoot_report(browser, folders)
        browser.close()


if __name__ == "__main__":
    main()
