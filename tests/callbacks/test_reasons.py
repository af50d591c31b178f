"""The routes and panels of causes: what they say is what the analyses found."""

from __future__ import annotations

import time

import numpy as np
import pytest

from callbacks.conftest import WAIT_S, Callbacks, links_of, settle, words
from overlane.analysis.barriers import barriers
from overlane.analysis.causes import CAUSES
from overlane.analysis.critical_path import critical_path
from overlane.analysis.dependencies import dependencies
from overlane.analysis.idle import idle
from overlane.analysis.waits import waits
from overlane.figures.units import format_ns
from overlane.samples import sample_path
from overlane.timeline import encode_tile
from overlane.ui.server import create_app
from overlane.ui.store import TraceStore

NAME = "default-stream-legacy"
ADDRESS = f"/api/traces/{NAME}"


@pytest.fixture(scope="module")
def legacy(cache):
    """A store of one recording in which the legacy default stream held another, and its client."""
    store = TraceStore([sample_path(NAME)], cache=cache)
    store.request(NAME)
    settle(store, NAME)
    client = create_app(store).server.test_client()
    until = time.monotonic() + WAIT_S
    while client.get(f"{ADDRESS}/reasons").status_code == 202:
        assert time.monotonic() < until
        time.sleep(0.05)
    yield store, client
    store.close()


@pytest.fixture(scope="module")
def found(legacy):
    trace = legacy[0].opened(NAME).trace
    deps = dependencies(trace)
    waited = waits(trace, deps)
    idled = idle(trace, deps, waited)
    return trace, deps, waited, idled, barriers(trace, deps, waited, idled)


def test_the_state_names_all_causes(legacy):
    body = legacy[1].get(f"{ADDRESS}/reasons").json
    assert body["state"] == "ready"
    assert [cause["name"] for cause in body["causes"]] == [cause.name for cause in CAUSES]


def test_an_operation_says_its_parts_and_edges(legacy, found):
    trace, deps, waited, _, _ = found
    for op in range(trace.table("ops").num_rows):
        body = legacy[1].get(f"{ADDRESS}/reasons/op?op={op}").json
        mine = np.flatnonzero(waited.op == op)
        assert [(p["start_ns"], p["end_ns"], p["cause"]) for p in body["parts"]] == [
            (waited.start_ns[at], waited.end_ns[at], waited.cause[at]) for at in mine
        ]
        edges = [(edge.source, edge.kind) for edge in deps.of(op)]
        assert sorted((e["op"] or -1, e["kind"]) for e in body["waited_for"]) == sorted(
            (source or -1, kind) for source, kind in edges
        )
        ends = [e["end_ns"] or 0 for e in body["waited_for"]]
        assert ends == sorted(ends, reverse=True), "what ended last comes first"
        assert body["waiting_count"] == len(deps.successors(op))


def test_no_such_operation_is_said(legacy):
    answer = legacy[1].get(f"{ADDRESS}/reasons/op?op=999")
    assert answer.status_code == 404
    assert "no operation 999" in answer.json["error"]


def test_barriers_of_a_window_are_the_costliest_with_their_lanes(legacy, found):
    trace, deps, *_, all_barriers = found
    body = legacy[1].get(f"{ADDRESS}/barriers?t0=0&t1={trace.span_ns}&limit=3").json
    holding = [one for one in map(all_barriers.__getitem__, range(len(all_barriers))) if one.streams_held]
    assert body["total"] == len(holding)
    assert [b["lost_ns"] for b in body["barriers"]] == [one.lost_ns for one in holding[:3]]
    first = holding[0]
    streams = {f"s:0:1:{deps.streams[key].stream_id}" for key in first.streams_held}
    assert set(body["barriers"][0]["lanes"]) == streams
    assert body["barriers"][0]["ops_held"] == len(first.ops_held)
    before = legacy[1].get(f"{ADDRESS}/barriers?t0=0&t1={first.start_ns}").json["barriers"]
    assert first.proof_row not in {b["proof_row"] for b in before if b["kind"] == first.kind}


def tile(client, lanes, layer="reasons"):
    """(wire lane, start, end, category) of the items of the overlay, in ns."""
    data = client.get(f"{ADDRESS}/tile?t0=0&t1=142540664&px=16000&layer={layer}&lanes={lanes}").data
    count = int(np.frombuffer(data, "<u4", 1, 4)[0])
    at = 48
    start, end = np.frombuffer(data, "<f4", count, at), np.frombuffer(data, "<f4", count, at + 4 * count)
    lane = np.frombuffer(data, "<u2", count, at + 20 * count)
    category = np.frombuffer(data, "<u1", count, at + 23 * count)
    return list(zip(lane.tolist(), start.tolist(), end.tolist(), category.tolist(), strict=True))


def test_the_overlay_numbers_its_lanes_by_the_timeline(legacy, found):
    trace, _, _, idled, _ = found
    lanes = legacy[1].get(f"{ADDRESS}/timeline").json["lanes"]
    names = [lane["id"] for lane in lanes]
    stream = names.index("s:0:1:13")
    gap = tile(legacy[1], len(lanes) + stream)
    of_13 = [
        (int(idled.part_start_ns[at]), int(idled.part_end_ns[at]), int(idled.cause[at]))
        for at in range(len(idled.gap))
        if idled.scope[idled.gap[at]] == 0
        and trace.table("ops")["stream_id"][int(idled.next_op[idled.gap[at]])].as_py() == 13
    ]
    long = [part for part in of_13 if part[1] - part[0] > 20_000]
    assert long
    shown = [(start, end, category) for _, start, end, category in gap if end - start > 20_000]
    assert [category for *_, category in shown] == [category for *_, category in long]
    for one, other in zip(shown, long, strict=True):
        assert one[:2] == pytest.approx(other[:2], abs=16)  # float32 over 142 ms


def test_a_trace_without_host_calls_says_what_is_missing(client, store):
    until = time.monotonic() + WAIT_S
    while client.get("/api/traces/host/reasons").status_code != 200:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert client.get("/api/traces/host/barriers?t0=0&t1=100").json["barriers"] == []


def test_operations_are_found_by_the_cause_of_their_wait(legacy, found):
    _, _, waited, *_ = found
    held = {
        int(waited.op[at])
        for at in range(len(waited.op))
        if CAUSES[waited.cause[at]].name == "legacy_default_stream"
        and waited.end_ns[at] > waited.start_ns[at]
    }
    assert held
    body = legacy[1].get(f"{ADDRESS}/search?q=cause:legacy_default_stream").json
    assert {(hit["table"], hit["row"]) for hit in body["hits"]} == {("ops", op) for op in held}


def test_a_range_has_its_idle_time_by_cause_and_its_slowest_operations(legacy, found):
    trace, _, _, idled, _ = found
    _, client = legacy
    start, end = trace.column("ops", "start_ns"), trace.column("ops", "end_ns")
    window = (int(start[1]), int(end[-1]))
    answer = Callbacks(client).call(
        "ov-range-panel.children",
        ov_range__data={"trace": NAME, "rank": None, "t0_ns": window[0], "t1_ns": window[1]},
        ov_open__data={"trace": NAME, "other_trace": None, "state": "ready", "rank": None},
    )
    text = words(answer["ov-range-panel.children"])
    expected = {}
    for at in range(len(idled.gap)):
        if idled.scope[idled.gap[at]] != 2:
            continue
        length = min(idled.part_end_ns[at], window[1]) - max(idled.part_start_ns[at], window[0])
        if length > 0:
            title = CAUSES[idled.cause[at]].title
            expected[title] = expected.get(title, 0) + int(length)
    assert expected
    for title, ns in expected.items():
        assert f"{title} {format_ns(ns)}" in text
    slowest = np.argsort(start - end, kind="stable")[0]
    assert f"Slowest of {len(start) - 1} operations" in text
    assert trace.table("ops")["name"][int(slowest)].as_py() in text


def test_the_panel_of_an_operation_says_what_proves_each_part(legacy, found):
    _, _, waited, *_ = found
    at = int(np.argmax((waited.end_ns - waited.start_ns) * (waited.proof_row >= 0)))
    op, row = int(waited.op[at]), int(waited.proof_row[at])
    answer = Callbacks(legacy[1]).call(
        "ov-details.children",
        ov_selection__data={"trace": NAME, "rank": None, "table": "ops", "row": op},
        ov_open__data={"trace": NAME, "other_trace": None, "state": "ready", "rank": None},
    )
    children = answer["ov-details.children"]
    assert "Why it waited" in words(children)
    assert CAUSES[waited.cause[at]].title in words(children)
    assert any(href.endswith(f":{row}") for _, href in links_of(children))


def test_the_critical_path_is_walked_to_both_ends(legacy, found):
    trace, deps, *_ = found
    path = critical_path(trace, deps)
    drawn = [
        ("ops", int(op)) if op >= 0 else ("api_calls", int(call))
        for op, call in zip(path.op, path.call, strict=True)
        if op >= 0 or call >= 0
    ]
    expected = [link for at, link in enumerate(drawn) if at == 0 or link != drawn[at - 1]]
    for by, goal in ((1, expected), (-1, expected[::-1])):
        seen = [goal[0]]
        place = 0 if by > 0 else len(path) - 1
        while True:
            query = f"by={by}&at=0&table={seen[-1][0]}&row={seen[-1][1]}&place={place}"
            link = legacy[1].get(f"{ADDRESS}/reasons/path?{query}").json["link"]
            if link is None:
                break
            seen.append((link["table"], link["row"]))
            place = link["place"]
            assert len(seen) <= len(goal)
        assert seen == goal
    assert len(expected) > 2


def walked(client, path, query):
    """The rows of a path from its first to its last link, as the route walks them."""
    seen, place, at = [], 0, int(path.start_ns[0]) - 1
    while True:
        begin = f"&table={seen[-1][0]}&row={seen[-1][1]}&place={place}" if seen else ""
        link = client.get(f"{ADDRESS}/reasons/path?by=1&at={at}{begin}{query}").json["link"]
        if link is None:
            return seen
        seen.append((link["table"], link["row"]))
        place = link["place"]


@pytest.mark.parametrize("passing", ["", "&passing=1"])
def test_the_critical_path_of_a_window_is_walked_and_drawn(legacy, found, passing):
    trace, deps, *_ = found
    _, client = legacy
    end = int(trace.column("ops", "end_ns")[3])
    window = (int(trace.column("ops", "start_ns")[1]), end)
    path = critical_path(trace, deps, window=window)
    rows = [int(op) for at, op in enumerate(path.op) if op >= 0 and (at == 0 or path.op[at - 1] != op)]
    query = f"&from={window[0]}&to={window[1]}{passing}"
    ops = [row for table, row in walked(client, path, query) if table == "ops"]
    assert ops == rows
    assert rows != [int(op) for op in critical_path(trace, deps).op if op >= 0], "another than of the whole"
    lanes = len(client.get(f"{ADDRESS}/timeline").json["lanes"])
    drawn = tile(client, f"0-{lanes - 1}", f"path{query}")
    links = [(s, e) for s, e in zip(path.start_ns, path.end_ns, strict=True) if e - s > 20_000]
    shown = sorted((s, e) for _, s, e, _ in drawn if e - s > 20_000)
    assert len(shown) <= len(links)
    assert max(e for _, e in shown) == pytest.approx(end, abs=16)  # float32 over 142 ms


def test_a_window_of_a_path_that_ends_before_it_starts_is_refused(legacy):
    answer = legacy[1].get(f"{ADDRESS}/reasons/path?by=1&at=0&from=20&to=10")
    assert answer.status_code == 400
    assert "later than from" in answer.json["error"]


def test_pages_and_timeline_share_one_study(legacy):
    store, _ = legacy
    opened = store.opened(NAME)
    reasons, study = store.reasons.get(opened, None), store.studies.study(opened)
    assert reasons.waits is study.waits
    assert reasons.barriers is study.barriers
    assert store.paths.get(opened, None, None).path is study.critical_path


def test_overlays_are_kept_with_the_trace(legacy, cache, monkeypatch):
    legacy[0].paths.get(legacy[0].opened(NAME), None, None)
    monkeypatch.setattr("overlane.timeline.overlay.overlay_arrays", lambda *_: pytest.fail("made again"))
    again = TraceStore([sample_path(NAME)], cache=cache)
    try:
        again.request(NAME)
        settle(again, NAME)
        opened = again.opened(NAME)
        until = time.monotonic() + WAIT_S
        while again.reasons.get(opened, None) is None or again.paths.get(opened, None, None) is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        new = again.reasons.get(opened, None).overlay.tile(0, 10**9, 1000)
        old = legacy[0].reasons.get(legacy[0].opened(NAME), None).overlay.tile(0, 10**9, 1000)
        assert encode_tile(new) == encode_tile(old)
    finally:
        again.close()


def test_the_trace_has_a_table_of_the_barriers_that_are_drawn(legacy, found):
    all_barriers = found[-1]
    answer = Callbacks(legacy[1]).call(
        "ov-details.children",
        ov_selection__data=None,
        ov_open__data={"trace": NAME, "other_trace": None, "state": "ready", "rank": None},
    )
    text = words(answer["ov-details.children"])
    first = next(one for one in map(all_barriers.__getitem__, range(len(all_barriers))) if one.streams_held)
    cost = format_ns(first.lost_ns)
    assert f"legacy default stream {cost} {len(first.ops_held)}" in text
    assert any(
        href.endswith(f"sel={first.proof_table}:{first.proof_row}")
        for _, href in links_of(answer["ov-details.children"])
    )
