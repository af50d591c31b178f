"""Numbers in words, the palette, and figures made from numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import overlane.ui
from overlane.figures.overlap import busy_bars, concurrency_bars, overlap_heatmap
from overlane.figures.palette import COLOURS, colour, engine_label
from overlane.figures.units import (
    exact_ns,
    format_bytes,
    format_count,
    format_fraction,
    format_ns,
    format_rate,
    format_stamp,
    format_stamps,
)

UNITS = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "unknown"),
        (0, "0"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (9_999, "9.999 µs"),
        (10_004, "10.00 µs"),
        (999_949, "999.9 µs"),
        (999_951, "1.000 ms"),
        (6_823_000, "6.823 ms"),
        (999_999_999, "1.000 s"),
        (599_000_000_000, "599.0 s"),
        (600_000_000_000, "10 min 0 s"),
        (7_260_000_000_000, "2 h 1 min"),
        (-1_500, "-1.500 µs"),
    ],
)
def test_times(ns, text):
    assert format_ns(ns) == text


@given(st.integers(1, 599 * 10**9))
def test_times_are_off_by_less_than_a_thousandth(ns):
    number, unit = format_ns(ns).split()
    assert abs(float(number) * UNITS[unit] - ns) <= ns * 0.0006


@given(st.integers(0, 10**15))
def test_stamps_lose_no_nanosecond(ns):
    number, _, unit = format_stamp(ns).partition(" ")
    whole, _, decimals = number.partition(".")
    factor = UNITS.get(unit, 1)
    assert int(whole) * factor + (int(decimals) * factor // 10 ** len(decimals) if decimals else 0) == ns


@given(st.integers(0, 10**12), st.integers(1, 10**11))
def test_the_ends_of_an_interval_read_differently(start, length):
    first, last = format_stamps(start, start + length).split(" → ")
    assert first != last


def test_exact_numbers_are_grouped():
    assert exact_ns(13_587_412).replace("\u202f", " ") == "13 587 412 ns"
    assert format_count(1_234_567).replace("\u202f", " ") == "1 234 567"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.000 KiB"),
        (8 << 20, "8.000 MiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_sizes(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "ns", "text"),
    [(50, 1, "50.00 GB/s"), (1, 1000, "1.000 MB/s"), (None, 5, "unknown"), (5, 0, "unknown")],
)
def test_rates(count, ns, text):
    assert format_rate(count, ns) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, "unknown"),
        (0.0, "0 %"),
        (1e-9, "< 0.1 %"),
        (0.5, "50.0 %"),
        (0.9999999, "> 99.9 %"),
        (1.0, "100 %"),
    ],
)
def test_shares_never_round_to_none_or_all(fraction, text):
    assert format_fraction(fraction) == text


def test_the_canvas_has_the_same_colours():
    css = (Path(overlane.ui.__file__).parent / "assets" / "overlane.css").read_text("utf-8")
    light, dark = css.split('[data-mantine-color-scheme="dark"]', 1)
    for name, (on_light, on_dark) in COLOURS.items():
        variable = f"--ov-{name.replace('_', '-')}"
        assert re.search(rf"{variable}: (#\w+);", light).group(1) == on_light
        assert re.search(rf"{variable}: (#\w+);", dark).group(1) == on_dark


def test_unknown_categories_look_like_other():
    assert colour("nothing known", "dark") == COLOURS["other"][1]
    assert engine_label(None) == "engine not recorded"
    assert engine_label("copy_h2d") == "copy H2D"


def test_busy_bars_are_shares_in_the_engines_colours():
    (bar,) = busy_bars({"compute": 30, "copy_h2d": 10, None: 0}, 40, theme="light").data
    assert list(bar.x) == [0, 25, 75], "drawn from below"
    assert list(bar.y) == ["engine not recorded", "copy H2D", "compute"]
    assert list(bar.marker.color) == ["#b0b7c1", "#e0943a", "#4c78a8"]
    assert bar.text[2] == "75.0 % · 30 ns"


def test_the_matrix_is_symmetric_with_busy_on_its_diagonal():
    pairs = {("compute", "copy_h2d"): 10, ("compute", "compute"): 30, ("copy_h2d", "copy_h2d"): 20}
    figure = overlap_heatmap(["compute", "copy_h2d"], pairs, window_ns=40, theme="dark")
    assert [list(row) for row in figure.data[0].z] == [[0.75, 0.25], [0.25, 0.5]]
    texts = {(note.y, note.x): note.text for note in figure.layout.annotations}
    assert texts["compute", "copy H2D"] == texts["copy H2D", "compute"] == "10 ns"


def test_concurrency_adds_up_to_all_time():
    (bar,) = concurrency_bars({0: 10, 1: 60, 3: 30}, theme="light").data
    assert list(bar.x) == ["idle", "1", "3"]
    assert sum(bar.y) == pytest.approx(100)
