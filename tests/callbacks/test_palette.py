"""The colours of causes can be told apart, on both pages, by people with any kind of colour vision."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import overlane.ui
from overlane.analysis.causes import CAUSE_NAMES
from overlane.figures.palette import CAUSE_COLOURS, cause_colour

GROUND = {"light": "#fbfcfd", "dark": "#12161c"}
LEAST_CONTRAST = 3.0  # what WCAG asks of parts of a drawing that carry meaning
LEAST_DISTANCE = 0.1  # in OKLab, where 0.02 is just noticeable

# Linear RGB as it is seen without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
VISIONS = {
    "ordinary": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip


def linear(colour):
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    light, dark = sorted((float(linear(x) @ [0.2126, 0.7152, 0.0722]) for x in (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def oklab(rgb):
    to_lms = np.array([
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ])  # fmt: skip
    to_lab = np.array([
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ])  # fmt: skip
    return to_lab @ np.cbrt(to_lms @ np.clip(rgb, 0, 1))


def distance(a, b, vision):
    return float(np.linalg.norm(oklab(VISIONS[vision] @ linear(a)) - oklab(VISIONS[vision] @ linear(b))))


def test_every_cause_has_its_colours_in_the_order_of_the_list():
    assert tuple(CAUSE_COLOURS) == CAUSE_NAMES


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_cause_stands_out_from_the_page(theme):
    for name in CAUSE_NAMES:
        assert contrast(cause_colour(name, theme), GROUND[theme]) >= LEAST_CONTRAST, name


@pytest.mark.parametrize("vision", list(VISIONS))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_neighbours_can_be_told_apart(theme, vision):
    for one, other in pairwise(CAUSE_NAMES):
        found = distance(cause_colour(one, theme), cause_colour(other, theme), vision)
        assert found >= LEAST_DISTANCE, f"{one} and {other}"


def test_the_distance_sees_what_people_do_not():
    assert distance("#ff0000", "#7e7100", "protanopia") < distance("#ff0000", "#7e7100", "ordinary") / 2
    assert contrast("#ffffff", "#000000") == pytest.approx(21)


def test_the_canvas_has_the_same_colours():
    css = (Path(overlane.ui.__file__).parent / "assets" / "timeline_causes.css").read_text("utf-8")
    light, dark = css.split('[data-mantine-color-scheme="dark"]', 1)
    for name, (on_light, on_dark) in CAUSE_COLOURS.items():
        variable = f"--ov-cause-{name.replace('_', '-')}"
        assert re.search(rf"{variable}: (#\w+);", light).group(1) == on_light
        assert re.search(rf"{variable}: (#\w+);", dark).group(1) == on_dark


def test_a_name_that_is_no_cause_looks_like_unknown():
    assert cause_colour("nothing known", "dark") == CAUSE_COLOURS["unknown"][1]
