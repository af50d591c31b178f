"""What is drawn equals what the tables hold: told by the pixels of screenshots, at several zoom levels."""

from __future__ import annotations

import numpy as np
import pytest

from browser import known_traces
from browser.driver import Lane
from browser.known_traces import MS, SPAN_NS, US
from browser.pixels import cover, is_category, lane_pixels, spread
from overlane.readers import open_trace

NEAR = 2  # columns beside a slice's edge that may belong to either side


def stream_rows(trace, stream_id, engine=None):
    ops = trace.table("ops")
    keep = ops["stream_id"].to_numpy() == stream_id
    if engine:
        keep &= np.array(ops["engine"].to_pylist()) == engine
    return trace.column("ops", "start_ns")[keep], trace.column("ops", "end_ns")[keep]


def check_lane(timeline, lane_id, rows, category, view, *, theme="light"):
    """Compare every pixel column of a lane with the tables; return how many were full, empty, in between."""
    start, end = rows
    t0, t1 = view
    box = timeline.plot_box
    pixels = lane_pixels(timeline.screenshot(), box, timeline.lanes[lane_id])
    columns = pixels.shape[1]
    share = cover(start, end, t0, t1, columns)
    shown = is_category(pixels, category, theme)
    full = ~spread(
        share < 0.999, NEAR + 3
    )  # three more for round corners and the pixel between touching slices
    empty = ~spread(share > 0, NEAR)
    inner = slice(NEAR, columns - NEAR)
    full, empty = full[inner], empty[inner]
    shown_inner = shown[:, inner]
    # Text is drawn over the middle of slices; four pixels above their lower edge there is none.
    if full.any():
        bottom = int(np.flatnonzero(shown_inner[:, full].any(axis=1)).max())
        assert shown_inner[bottom - 4, full].all(), "a covered column is not drawn in the engine's colour"
    assert not shown_inner[:, empty].any(), "something is drawn where the tables hold nothing"
    drawn = shown_inner.any(axis=0)
    busy = share[inner] > 0
    lost = busy & ~spread(drawn, NEAR)
    assert not lost.any(), "a column with work shows nothing"
    return int(full.sum()), int(empty.sum()), int((~full & ~empty).sum())


@pytest.mark.parametrize(
    ("view", "least_full", "least_empty"),
    [
        ((0, SPAN_NS), 300, 300),  # everything
        ((395 * MS, 710 * MS), 200, 100),  # two kernels and the gap between them
        ((1_000 * MS, 1_001 * MS), 0, 300),  # single kernels of the burst, ten pixels wide
    ],
)
def test_compute_stream_equals_the_tables(dashboard, traces, view, least_full, least_empty):
    trace = open_trace(traces / "known.overlane")
    timeline = dashboard.open_timeline("known", t0=view[0], t1=view[1])
    full, empty, _ = check_lane(timeline, timeline.lane_of_stream(7), stream_rows(trace, 7), "compute", view)
    assert full >= least_full
    assert empty >= least_empty


@pytest.mark.parametrize(("stream", "category"), [(13, "copy_h2d"), (20, "copy_d2h")])
def test_copy_streams_have_their_own_colours(dashboard, traces, stream, category):
    trace = open_trace(traces / "known.overlane")
    timeline = dashboard.open_timeline("known")
    lane = timeline.lane_of_stream(stream)
    full, empty, _ = check_lane(timeline, lane, stream_rows(trace, stream), category, (0, SPAN_NS))
    assert full > 40
    assert empty > 300
    pixels = lane_pixels(timeline.screenshot(), timeline.plot_box, timeline.lanes[lane])
    assert not is_category(pixels, "compute").any()


def test_burst_zoomed_out_is_as_high_as_it_is_busy(dashboard):
    # 1000 kernels of 10 us every 40 us: a quarter busy, at 40 columns and more per pixel of any of them.
    view = (990 * MS, 1_050 * MS)
    timeline = dashboard.open_timeline("known", t0=view[0], t1=view[1])
    box, lane = timeline.plot_box, timeline.lanes[timeline.lane_of_stream(7)]
    shown = is_category(lane_pixels(timeline.screenshot(), box, lane), "compute").sum(axis=0)
    dashboard.open_timeline("known", t0=100 * MS, t1=200 * MS)
    full = is_category(lane_pixels(timeline.screenshot(), box, lane), "compute").any(axis=1).sum()
    per_ms = box["width"] / 60
    inside = shown[round(11 * per_ms) : round(49 * per_ms)]
    assert 0.15 < inside.mean() / full < 0.35
    assert inside.max() / full <= 0.55


def test_lone_short_kernel_is_seen_in_an_empty_second(dashboard):
    # 5 us in a view of 600 ms, about a hundredth of a pixel, with nothing else on its stream.
    view = (2_200 * MS, 2_800 * MS)
    timeline = dashboard.open_timeline("known", t0=view[0], t1=view[1])
    box = timeline.plot_box
    shown = is_category(
        lane_pixels(timeline.screenshot(), box, timeline.lanes[timeline.lane_of_stream(7)]), "compute"
    )
    columns = np.flatnonzero(shown.any(axis=0))
    assert 1 <= len(columns) <= 2
    assert abs(columns[0] - 300 / 600 * box["width"]) <= 1.5
    assert shown[:, columns[0]].sum() >= 8  # tall enough to be seen


def test_lone_short_kernel_is_seen_in_the_whole_trace(dashboard):
    timeline = dashboard.open_timeline("known")
    box = timeline.plot_box
    pixels = lane_pixels(timeline.screenshot(), box, timeline.lanes[timeline.lane_of_stream(7)])
    at = round(2_500 / 4_000 * box["width"])
    assert is_category(pixels[:, at - 2 : at + 3], "compute").any()


def test_dark_theme_has_its_own_colours(dashboard, traces):
    trace = open_trace(traces / "known.overlane")
    dashboard.open_timeline("known")
    dashboard.switch_theme()
    timeline = dashboard.timeline()
    timeline.settle()
    rows = stream_rows(trace, 7)
    check_lane(timeline, timeline.lane_of_stream(7), rows, "compute", (0, SPAN_NS), theme="dark")
    assert np.asarray(timeline.screenshot()).mean() < 90


@pytest.mark.parametrize("share", [1.0, 0.1, 0.01, 0.001])
def test_h200_training_trace_equals_its_tables(dashboard, traces, share):
    trace = open_trace(traces / "h200.json.gz")
    starts = trace.column("ops", "start_ns")
    # Zoomed in on the middle operation of the main stream, so that there is something to see at every level.
    start, end = stream_rows(trace, 7)
    middle = int(start[len(start) // 2])
    span = trace.span_ns
    width = int(span * share)
    t0 = 0 if share == 1.0 else middle - width // 2
    timeline = dashboard.open_timeline("h200", t0=t0, t1=t0 + width)
    assert len(starts) > 3_000
    keep = np.concatenate([[True], start[1:] >= np.maximum.accumulate(end)[:-1]])
    engines = np.array(trace.table("ops")["engine"].to_pylist())[
        trace.table("ops")["stream_id"].to_numpy() == 7
    ]
    keep &= engines == "compute"
    lane = timeline.lane_of_stream(7)
    box = timeline.plot_box
    shown = is_category(lane_pixels(timeline.screenshot(), box, timeline.lanes[lane]), "compute")
    expected = cover(start[keep], end[keep], t0, t0 + width, shown.shape[1]) > 0
    drawn = shown.any(axis=0)
    all_work = cover(*merged(start, end), t0, t0 + width, shown.shape[1]) > 0
    assert not (expected & ~spread(drawn, NEAR)).any(), "a column with work shows nothing"
    assert not (drawn & ~spread(all_work, NEAR)).any(), "something is drawn where the tables hold nothing"
    assert expected.sum() > 20


@pytest.mark.parametrize("share", [1.0, 0.3, 0.1])
def test_h200_training_trace_is_as_high_as_it_is_busy(dashboard, traces, share):
    # Zoomed out, a column's height is the share of its time in which the stream was busy, at least 15 %.
    trace = open_trace(traces / "h200.json.gz")
    width = int(trace.span_ns * share)
    t0 = 0 if share == 1.0 else trace.span_ns // 2
    timeline = dashboard.open_timeline("h200", t0=t0, t1=t0 + width)
    lane = timeline.lanes[timeline.lane_of_stream(7)]
    pixels = lane_pixels(timeline.screenshot(), timeline.plot_box, lane)
    is_work = np.any(
        [is_category(pixels, name) for name in ("compute", "copy_d2d", "copy_d2h", "memset")], axis=0
    )
    drawn = is_work.sum(axis=0) / pixels.shape[0]
    busy = cover(*merged(*stream_rows(trace, 7)), t0, t0 + width, pixels.shape[1])
    expected = np.where(busy > 0, np.maximum(busy, 0.15), 0)
    # Over 41 columns: what one column has too much its neighbour lacks, as bins lie on their own grid.
    window = np.ones(41) / 41
    drawn, expected = (np.convolve(values, window, "valid") for values in (drawn, expected))
    assert np.abs(drawn - expected).max() < 0.25
    assert abs((drawn - expected).mean()) < 0.1
    assert np.corrcoef(drawn, expected)[0, 1] > 0.95
    assert expected.max() - expected.min() > 0.3  # busy and idle stretches are both in view


def merged(start, end):
    """Return the union of sorted intervals as intervals."""
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], reach[last]


def test_nested_ranges_stand_below_one_another(dashboard):
    timeline = dashboard.open_timeline("known")
    lane_id = timeline.lane("ranges", "operator")
    (sublanes,) = [lane["sublanes"] for lane in timeline.meta["lanes"] if lane["id"] == lane_id]
    assert sublanes == 3
    first, box = timeline.lanes[lane_id], timeline.plot_box
    whole = Lane(first.y, sublanes * (first.h + 1))  # one pixel between sublanes
    shown = is_category(lane_pixels(timeline.screenshot(), box, whole), "operator")
    per_ms = box["width"] / 4_000
    heights = [shown[:, round(at * per_ms)].sum() for at in (995, 700, 375, 1_500)]
    # "step" alone, with "backward", with "forward" after "linear" has ended, and nothing.
    assert heights[0] < heights[1]
    assert heights[1] == heights[2]
    assert heights[3] == 0
    assert shown[-5, round(50 * per_ms) : round(200 * per_ms)].all()  # "linear" is the lowest


def test_unit_is_one_microsecond_exactly(dashboard):
    # At 1 us per pixel the third kernel of the burst lies where its nanoseconds say.
    timeline = dashboard.open_timeline("known")
    width = int(timeline.plot_box["width"])
    t0 = known_traces.TINY_FIRST_NS
    timeline = dashboard.open_timeline("known", t0=t0, t1=t0 + width * US)
    shown = is_category(
        lane_pixels(timeline.screenshot(), timeline.plot_box, timeline.lanes[timeline.lane_of_stream(7)]),
        "compute",
    )
    drawn = shown.any(axis=0)
    for k in (1, 2, 5):
        assert drawn[40 * k + 1 : 40 * k + 9].all()
        assert not drawn[40 * k + 12 : 40 * k + 38].any()
