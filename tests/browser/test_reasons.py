"""Waits, gaps and dependency arrows on the canvas: where they are comes from the analyses' own numbers."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from browser.driver import COMPILED_MS
from browser.pixels import TOLERANCE
from overlane.analysis.causes import CAUSE_NAMES, CAUSES
from overlane.analysis.critical_path import critical_path
from overlane.analysis.study import Study
from overlane.figures.palette import cause_colour
from overlane.readers import open_trace

STRIP_BELOW = 1  # px between the slices of a stream and its waits
STRIP_HEIGHT = 5
NEAR = 2


@pytest.fixture(scope="module")
def study(traces):
    return Study(open_trace(traces / "legacy.overlane"))


@pytest.fixture
def timeline(dashboard, study):
    start, end = study.trace.column("ops", "start_ns"), study.trace.column("ops", "end_ns")
    room = (int(end.max()) - int(start[1])) // 10
    timeline = dashboard.open_timeline("legacy", t0=int(start[1]) - room, t1=int(end[4]) + room)
    wait_for_reasons(dashboard, timeline)
    return timeline


def wait_for_reasons(dashboard, timeline):
    # The first time they are compiled, too.
    expect(timeline.locator).to_have_attribute("data-reasons", "ready", timeout=COMPILED_MS)
    timeline.settle()


def colour_of(cause):
    return np.array([int(cause_colour(cause, "light")[at : at + 2], 16) for at in (1, 3, 5)])


def near_colour(pixels, cause):
    return (np.abs(pixels.astype(int) - colour_of(cause)) <= TOLERANCE).all(axis=-1)


def strip(timeline, lane):
    """The pixels of the waits of a stream: (height, width, 3)."""
    box, at = timeline.plot_box, timeline.lanes[lane]
    top = round(box["y"] + at.y + at.h + STRIP_BELOW)
    left = round(box["x"])
    pixels = np.asarray(timeline.screenshot())
    return pixels[top : top + STRIP_HEIGHT, left : left + round(box["width"])]


def stream_of(study, op):
    return study.trace.table("ops")["stream_id"][op].as_py()


def test_waits_are_drawn_in_the_colour_of_their_cause(study, timeline):
    waits = study.waits
    (t0, t1), width = timeline.view, timeline.plot_box["width"]
    seen = 0
    for part in range(len(waits.op)):
        op, cause = int(waits.op[part]), CAUSE_NAMES[waits.cause[part]]
        begin, end = ((int(ns) - t0) / (t1 - t0) * width for ns in (waits.start_ns[part], waits.end_ns[part]))
        if cause != "legacy_default_stream" or end - begin < 20:
            continue
        shown = near_colour(strip(timeline, timeline.lane_of_stream(stream_of(study, op))), cause)
        inside = slice(round(begin) + NEAR, round(end) - NEAR)
        assert shown[1, inside].all(), f"part {part} of operation {op} is not drawn from issue to start"
        seen += 1
    assert seen >= 2


def gap_pixels(timeline, lane, begin, end):
    box, at = timeline.plot_box, timeline.lanes[lane]
    pixels = np.asarray(timeline.screenshot()).astype(int)
    rows = slice(round(box["y"] + at.y) + 1, round(box["y"] + at.y + 4))
    return pixels[rows, round(box["x"] + begin) + NEAR : round(box["x"] + end) - NEAR]


def switch_off(dashboard, timeline, *names):
    """Switch off what the menu calls by these names."""
    timeline.press("v")
    for name in names:
        dashboard.page.get_by_role("checkbox", name=name).uncheck()
    dashboard.page.keyboard.press("Escape")
    timeline.settle()


def test_gaps_carry_a_quiet_pattern_of_their_cause(dashboard, study, timeline):
    switch_off(dashboard, timeline, "barriers")
    idle = study.idle
    (t0, t1), width = timeline.view, timeline.plot_box["width"]
    seen = set()
    for part in range(len(idle.gap)):
        gap, cause = int(idle.gap[part]), CAUSE_NAMES[idle.cause[part]]
        begin, end = (
            (int(ns) - t0) / (t1 - t0) * width for ns in (idle.part_start_ns[part], idle.part_end_ns[part])
        )
        if idle.scope[gap] != 0 or end - begin < 40 or begin < 0 or end > width:
            continue
        lane = timeline.lane_of_stream(stream_of(study, int(idle.next_op[gap])))
        pixels = gap_pixels(timeline, lane, begin, end)
        ground = np.array([251, 252, 253])
        way = colour_of(cause) - ground
        share = ((pixels - ground) @ way) / (way @ way)
        assert share.min() > 0.02, "a gap is filled"
        assert share.max() < 0.5, "and quietly"
        off = np.abs(pixels - ground - share[..., None] * way).max(axis=-1)
        assert (off <= 6).mean() > 0.97, f"in the colour of {cause}; the rest are lines of the ruler's ticks"
        seen.add(cause)
    assert {"legacy_default_stream", "host_sync"} <= seen


def test_waits_and_gaps_are_switched_off(dashboard, study, timeline):
    lane = timeline.lane_of_stream(13)
    assert near_colour(strip(timeline, lane), "legacy_default_stream").any()
    switch_off(dashboard, timeline, "waits", "gaps", "barriers")
    box, at = timeline.plot_box, timeline.lanes[lane]
    pixels = np.asarray(timeline.screenshot()).astype(int)
    area = pixels[
        round(box["y"] + at.y) : round(box["y"] + at.y + at.h + 3),
        round(box["x"]) : round(box["x"] + box["width"]),
    ]
    assert not near_colour(area, "legacy_default_stream").any()
    # The choice is kept.
    dashboard.page.reload()
    again = dashboard.timeline()
    wait_for_reasons(dashboard, again)
    assert not near_colour(strip(again, again.lane_of_stream(13)), "legacy_default_stream").any()


def held_operation(study):
    """The operation on stream 13 that the legacy default stream held longest."""
    waits = study.waits
    of_legacy = waits.cause == CAUSE_NAMES.index("legacy_default_stream")
    on_13 = np.array([stream_of(study, int(op)) == 13 for op in waits.op])
    at = int(np.argmax((waits.end_ns - waits.start_ns) * (of_legacy & on_13)))
    return int(waits.op[at])


def test_the_details_say_why_it_waited_and_for_what(dashboard, study, timeline):
    op = held_operation(study)
    start = int(study.trace.column("ops", "start_ns")[op])
    timeline.click(start + 50_000, timeline.lane_of_stream(13))
    expect(dashboard.details).to_contain_text("Why it waited")
    for code in set(study.waits.cause[study.waits.op == op].tolist()):
        expect(dashboard.details).to_contain_text(CAUSES[code].title)
    expect(dashboard.details).to_contain_text("legacy")
    expect(dashboard.details.locator(".ov-cause-bar > span")).to_have_count(
        int(((study.waits.op == op) & (study.waits.end_ns > study.waits.start_ns)).sum())
    )


def test_keys_walk_along_the_dependencies(dashboard, study, timeline):
    op = held_operation(study)
    edges = study.dependencies.of(op)
    last = max((edge for edge in edges if edge.source is not None), key=lambda edge: edge.end_ns or 0)
    timeline.click(int(study.trace.column("ops", "start_ns")[op]) + 50_000, timeline.lane_of_stream(13))
    expect(dashboard.details).to_contain_text(f"ops {op}")
    timeline.press(",")
    expect(dashboard.details).to_contain_text(f"ops {last.source}")
    timeline.press(".")
    first = study.dependencies.successors(last.source)[0]
    expect(dashboard.details).to_contain_text(f"ops {first.op}")


def test_arrows_come_with_the_selection(dashboard, study, timeline):
    op = held_operation(study)
    before = np.asarray(timeline.screenshot()).astype(int)
    timeline.click(int(study.trace.column("ops", "start_ns")[op]) + 50_000, timeline.lane_of_stream(13))
    expect(dashboard.details).to_contain_text("Why it waited")
    after = np.asarray(timeline.screenshot()).astype(int)
    # Between the streams, left of the operation's start, the arrow from the legacy stream's kernel runs.
    box = timeline.plot_box
    upper, lower = (timeline.lanes[timeline.lane_of_stream(stream)] for stream in (7, 13))
    x = timeline.point(int(study.trace.column("ops", "start_ns")[op]), timeline.lane_of_stream(13))[0]
    area = (
        slice(round(box["y"] + upper.y + upper.h), round(box["y"] + lower.y)),
        slice(round(x) - 60, round(x) + 60),
    )
    assert (np.abs(after[area] - before[area]).max(axis=-1) > 30).sum() > 5


def test_hovering_a_gap_says_why_the_stream_was_idle(dashboard, study, timeline):
    idle = study.idle
    cause = CAUSE_NAMES.index("host_sync")
    part = int(np.argmax((idle.part_end_ns - idle.part_start_ns) * (idle.cause == cause)))
    lane = timeline.lane_of_stream(stream_of(study, int(idle.next_op[idle.gap[part]])))
    middle = (int(idle.part_start_ns[part]) + int(idle.part_end_ns[part])) // 2
    dashboard.page.mouse.move(*timeline.point(middle, lane))
    tip = timeline.locator.locator(".ov-tl-tip")
    expect(tip).to_contain_text(CAUSES[cause].title)
    expect(tip).to_contain_text(CAUSES[cause].sentence)


def test_the_critical_path_is_walked_by_keys(dashboard, study, timeline):
    path = critical_path(study.trace, study.dependencies)
    ops = [int(op) for at, op in enumerate(path.op) if op >= 0 and (at == 0 or path.op[at - 1] != op)]
    first, second = ops[1], ops[2]
    start = study.trace.column("ops", "start_ns")
    timeline.click(int(start[first]) + 20_000, timeline.lane_of_stream(stream_of(study, first)))
    expect(dashboard.details).to_contain_text(f"ops {first}")
    for _ in range(12):
        timeline.press(">")
        if f"ops {second}" in dashboard.details.inner_text():
            break
    else:
        raise AssertionError(f"the walk does not come to operation {second}")


def test_the_legend_names_what_is_in_view(study, timeline):
    legend = timeline.locator.locator(".ov-tl-legend")
    for words in ("compute", "legacy default stream", "host synchronization"):
        expect(legend).to_contain_text(words)
    expect(legend).not_to_contain_text("graph order")


def test_nothing_moves_when_the_causes_arrive(dashboard):
    """Lanes and legend have their places before the causes are known."""
    held, is_over = [], []
    page = dashboard.page

    def hold(route):
        if is_over:
            route.continue_()
        else:
            held.append(route)

    page.route("**/reasons?*", hold)
    page.goto(f"{dashboard.server}/timeline?trace={dashboard.trace_id('legacy')}")
    timeline = page.locator("#timeline")
    expect(timeline).to_have_attribute("data-ready", "1", timeout=COMPILED_MS)
    legend = timeline.locator(".ov-tl-legend")
    expect(legend).to_contain_text("being computed")
    before = timeline.get_attribute("data-lanes"), legend.bounding_box()
    dashboard.wait_until(lambda: held, "the causes are asked for")
    is_over.append(True)
    for route in held:
        route.continue_()
    expect(timeline).to_have_attribute("data-reasons", "ready", timeout=COMPILED_MS)
    expect(legend).to_contain_text("legacy default stream")
    dashboard.timeline().settle()
    assert (timeline.get_attribute("data-lanes"), legend.bounding_box()) == before
