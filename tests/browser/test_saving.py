"""Saving the view: what is in the file is what is shown."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from browser import known_traces as known
from browser.known_traces import MS
from browser.pixels import is_category
from overlane.figures.palette import COLOURS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def save(dashboard, tmp_path):
    """Press a button of the menu and return the file that the browser saves."""

    def press(timeline, name):
        timeline.press("v")
        with dashboard.page.expect_download() as download:
            dashboard.page.get_by_role("button", name=name).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        dashboard.page.keyboard.press("Escape")
        return path

    return press


def test_a_picture_has_the_canvas_and_a_legend(dashboard, save):
    timeline = dashboard.open_timeline("known")
    shown = timeline.screenshot()
    path = save(timeline, "Save what is shown as a picture")
    assert path.name.startswith("known-0-")
    picture = Image.open(path).convert("RGB")
    box = timeline.locator.bounding_box()
    assert picture.width == round(box["width"])
    assert picture.height > round(box["height"]), "the legend stands below"
    lane = timeline.lanes[timeline.lane_of_stream(7)]
    rows = slice(round(lane.y), round(lane.y + lane.h))
    left = round(timeline.plot_box["x"] - box["x"])
    on_page = np.asarray(shown)[round(box["y"]) :, round(box["x"]) :]
    assert (np.asarray(picture)[rows, left:-20] == on_page[rows, left : picture.width - 20]).all()
    assert is_category(np.asarray(picture)[round(box["height"]) :], "copy_d2h").any()


def test_a_drawing_has_a_shape_per_slice_with_names_axis_and_legend(dashboard, save):
    timeline = dashboard.open_timeline("known", t0=395 * MS, t1=910 * MS)
    root = ET.fromstring(save(timeline, "Save what is shown as a drawing").read_text("utf-8"))
    texts = [item.text for item in root.iter(f"{SVG}text")]
    for words in ("stream 7", "attention", "500 ms", "compute", "copy H2D"):
        assert any(words in text for text in texts), words
    box, lane = timeline.plot_box, timeline.lanes[timeline.lane_of_stream(7)]
    left = box["x"] - timeline.locator.bounding_box()["x"]
    shapes = [
        (float(item.get("x")) - left, float(item.get("width")))
        for item in root.iter(f"{SVG}rect")
        if item.get("y")
        and abs(float(item.get("y")) - lane.y) < 1
        and item.get("fill") == COLOURS["compute"][0]
    ]
    per_ms = box["width"] / 515
    assert sorted(shapes) == [
        pytest.approx((0, 105 * per_ms), abs=1.5),
        pytest.approx((205 * per_ms, 300 * per_ms), abs=1.5),
    ]


def test_hostile_names_are_text_in_a_drawing(dashboard, save, traces):
    name = known.HOSTILE_FILE.removesuffix(".overlane")
    timeline = dashboard.open_timeline(name, t0=0, t1=700 * MS)
    path = save(timeline, "Save what is shown as a drawing")
    text = path.read_text("utf-8")
    ET.fromstring(text)
    assert "<img" not in text
    assert "<script" not in text
    assert not set("<>&'\"/") & set(path.name)
