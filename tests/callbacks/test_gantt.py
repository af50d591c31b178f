"""The Gantt chart as a Plotly figure: bars are the operations, a raster is the union of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlane.errors import OverlaneError
from overlane.figures.gantt import busy_shares, gantt
from overlane.readers import open_trace


@pytest.fixture
def trace(folder):
    return open_trace(folder / "small.overlane")


def bars(figure):
    """(stream, engine, operation, start, length) of every bar, in ns."""
    found = []
    for item in figure.data:
        for y, base, x, data in zip(item.y, item.base, item.x, item.customdata, strict=True):
            found.append((y, item.name, data[3], round(base * 1000), round(x * 1000)))
    return sorted(found, key=lambda bar: bar[2])


def test_every_operation_is_a_bar_on_its_stream(trace):
    figure = trace.figure()
    assert bars(figure) == [
        ("stream 7", "compute", 0, 1000, 2000),
        ("stream 13", "copy H2D", 1, 2000, 3000),
        ("stream 7", "compute", 2, 6000, 1000),
    ]
    assert "in µs" in figure.layout.xaxis.title.text
    assert list(figure.layout.yaxis.categoryarray) == ["stream 13", "stream 7"], "drawn from below"


def test_a_window_cuts_its_operations(trace):
    figure = trace.figure((2500, 6200))
    assert [(op, start, length) for _, _, op, start, length in bars(figure)] == [
        (0, 2500, 500), (1, 2500, 2500), (2, 6000, 200),
    ]  # fmt: skip
    assert list(figure.layout.xaxis.range) == [2.5, 6.2]


def test_more_operations_than_bars_become_shares(trace):
    figure = gantt(trace, (0, 7000), most_bars=2)
    (raster,) = figure.data
    assert raster.type == "heatmap"
    width = 7000 / len(raster.z[0])
    assert list(raster.y) == ["stream 7", "stream 13"]
    assert np.asarray(raster.z).sum(axis=1) * width == pytest.approx([3000, 3000])
    assert "3 operations" in figure.layout.xaxis.title.text


def test_names_are_text(trace):
    names = [data[0] for item in trace.figure().data for data in item.customdata]
    assert "&lt;b&gt;mul&lt;/b&gt;" in names, "Plotly would take the name for markup"


def test_an_empty_window_is_refused_and_an_idle_one_is_said(trace):
    with pytest.raises(OverlaneError, match="start before its end"):
        trace.figure((10, 10))
    (note,) = trace.figure((5500, 5600)).layout.annotations
    assert "No operation" in note.text


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 40)), max_size=8))
def test_shares_are_those_of_single_nanoseconds(intervals):
    start = np.array([a for a, _ in intervals], np.int64)
    end = np.array([a + length for a, length in intervals], np.int64)
    covered = np.zeros(150, bool)
    for a, b in zip(start, end, strict=True):
        covered[a:b] = True
    edges = np.arange(0, 151, 10).astype(float)
    expected = covered.reshape(15, 10).mean(axis=1)
    assert busy_shares(start, end, edges) == pytest.approx(expected)
