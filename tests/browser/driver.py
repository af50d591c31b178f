"""What a user does on the dashboard, in words, and what a screenshot of it shows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from PIL import Image
from playwright.sync_api import Locator, Page

COMPILED_MS = 240_000
"""Until an answer of the analyses is there, at worst: after an install they are compiled first."""


@dataclass(frozen=True)
class Lane:
    """Where a lane lies on the page, in CSS pixels."""

    y: float
    h: float

    @property
    def middle(self) -> float:
        return self.y + self.h / 2


class Dashboard:
    """One browser page on the server.

    Attributes:
        expected_errors: Parts of console messages that a test provokes on purpose.
    """

    def __init__(self, page: Page, server: str, errors: list[str]) -> None:
        self.page = page
        self.server = server
        self.errors = errors
        self.expected_errors: list[str] = []

    def trace_id(self, name: str) -> str:
        """Return the id under which the server lists the trace that it calls `name`."""
        listed = self.page.request.get(f"{self.server}/api/traces").json()["traces"]
        (found,) = [item["id"] for item in listed if item["name"] == name]
        return found

    def open_timeline(self, name: str, **query: object) -> Timeline:
        """Open the timeline page of a trace and wait until it shows its final picture."""
        words = urlencode({"trace": self.trace_id(name), **query})
        self.page.goto(f"{self.server}/timeline?{words}")
        return self.timeline()

    def timeline(self, element: str = "timeline") -> Timeline:
        """Return a timeline of the page that is shown, once its final picture is drawn."""
        timeline = Timeline(self.page, self.server, element)
        timeline.settle()
        return timeline

    def switch_theme(self) -> None:
        self.page.get_by_label("Change between light and dark").click()

    @property
    def theme(self) -> str:
        return self.page.evaluate("document.documentElement.dataset.mantineColorScheme")

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        """Ask again until something is so.

        Playwright's own wait for a condition evaluates text, which the page's security policy refuses.
        """
        for _ in range(100):
            if is_so():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"not within 10 s: {what}")

    @property
    def details(self) -> Locator:
        return self.page.locator("#ov-details")

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the address that the browser shows."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.page.url).query).items()}


class Timeline:
    """One canvas timeline on a page."""

    def __init__(self, page: Page, server: str, element: str) -> None:
        self.page = page
        self.server = server
        self.element = element
        self.locator = page.locator(f"#{element}")

    def attribute(self, name: str) -> str:
        return self.locator.get_attribute(f"data-{name}") or ""

    def settle(self) -> None:
        """Wait until nothing moves and all is drawn in detail, the causes too."""
        still = self.page.evaluate(
            """async (id) => {
                const frame = () => new Promise((done) => requestAnimationFrame(done));
                let still = 0;
                let before = null;
                const end = performance.now() + 120000; // the first causes are compiled, too
                while (still < 12 && performance.now() < end) {
                    await frame();
                    const data = document.getElementById(id)?.dataset ?? {};
                    const now = `${data.t0} ${data.t1} ${data.lanes} ${data.draws}`;
                    const isDone = data.ready === '1' && data.reasons !== 'computing';
                    still = now === before && isDone ? still + 1 : 0;
                    before = now;
                }
                return still;
            }""",
            self.element,
        )
        assert still >= 12, f"#{self.element} was not drawn within 120 s: {self.locator.inner_text()!r}"

    @property
    def view(self) -> tuple[float, float]:
        return float(self.attribute("t0")), float(self.attribute("t1"))

    @property
    def span(self) -> float:
        t0, t1 = self.view
        return t1 - t0

    @property
    def lanes(self) -> dict[str, Lane]:
        """The visible lanes by id, measured from the element's top."""
        return {lane: Lane(at["y"], at["h"]) for lane, at in json.loads(self.attribute("lanes")).items()}

    @property
    def meta(self) -> dict[str, Any]:
        """What the server says of the trace's lanes."""
        trace, rank = self.attribute("trace"), self.attribute("rank")
        return self.page.request.get(f"{self.server}/api/traces/{trace}/timeline?rank={rank}").json()

    def lane(self, kind: str, label: str) -> str:
        """Return the id of the lane of a kind whose label holds a text."""
        found = [lane["id"] for lane in self.meta["lanes"] if lane["kind"] == kind and label in lane["label"]]
        assert len(found) == 1, f"lanes of kind {kind} with {label!r}: {found} of {self.meta['lanes']}"
        return found[0]

    def lane_of_stream(self, stream: int) -> str:
        return self.lane("stream", f"stream {stream}")

    @property
    def plot_box(self) -> dict[str, float]:
        """The part of the page that slices are drawn in; `y` is the element's top."""
        box, plot = self.locator.bounding_box(), json.loads(self.attribute("plot"))
        assert box is not None
        return {"x": box["x"] + plot["x"], "y": box["y"], "width": plot["w"]}

    def point(self, time_ns: float, lane: str) -> tuple[float, float]:
        """Return where a time of a lane lies on the page."""
        box, (t0, t1) = self.plot_box, self.view
        return box["x"] + (time_ns - t0) / (t1 - t0) * box["width"], box["y"] + self.lanes[lane].middle

    def click(self, time_ns: float, lane: str) -> None:
        self.page.mouse.click(*self.point(time_ns, lane))

    def drag(self, start: tuple[float, float], by: float, *, modifier: str = "") -> None:
        """Press at a point of the page, move sideways by whole pixels, let go."""
        if modifier:
            self.page.keyboard.down(modifier)
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(start[0] + by / 2, start[1], steps=5)
        self.page.mouse.move(start[0] + by, start[1], steps=5)
        self.page.mouse.up()
        if modifier:
            self.page.keyboard.up(modifier)
        self.settle()

    def press(self, key: str) -> None:
        """Press a key while the timeline has the focus."""
        self.locator.focus()
        self.page.keyboard.press(key)
        self.settle()

    def hold(self, key: str, milliseconds: int) -> None:
        """Hold a key down for a while."""
        self.locator.focus()
        self.page.keyboard.down(key)
        self.page.wait_for_timeout(milliseconds)
        self.page.keyboard.up(key)
        self.settle()

    def screenshot(self) -> Image.Image:
        """Return the page as it is shown, the mouse out of the way."""
        self.page.mouse.move(0, 0)
        self.settle()
        return Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
