"""The pages of findings, by their callbacks: what they say, where they lead, what they do meanwhile."""

from __future__ import annotations

import json
import threading

import pytest

from callbacks.conftest import Callbacks, links_of, settle, words
from helpers.happens import Act, trace_of
from overlane.samples import sample_path
from overlane.ui.pages.partitions import number_ranges
from overlane.ui.server import create_app
from overlane.ui.store import TraceStore
from overlane.ui.studies import Studies
from overlane_collect.schema import TABLES
from overlane_collect.writer import write_trace

PAGES = ("advice", "waits", "path", "partitions", "hazards")
READY = {"trace": "small", "state": "ready", "rank": None, "other_trace": None, "window": None}
SAMPLES = ("default-stream-legacy", "green-context-A", "stream-contract-missing-wait")


@pytest.fixture(scope="module")
def samples(cache):
    store = TraceStore([sample_path(name) for name in SAMPLES], cache=cache)
    for listing in store.listings():
        settle(store, listing.trace_id)
    yield store
    store.close()


@pytest.fixture(scope="module")
def asked(samples):
    return Callbacks(create_app(samples).server.test_client())


def ask(callbacks, store, page, *, theme="light", shown=None, **state):
    """Return the answer of a page once it is computed."""
    state = READY | state
    values = {
        "ov_open__data": state,
        "ov_theme__data": theme,
        f"ov_at_{page}__data": f"/{page}",
        f"ov_{page}_shown__data": shown,
    }
    for _ in range(200):
        answer = callbacks.call(f"ov-{page}.children", **values)
        if answer.get(f"ov-{page}-poll.disabled") is not False:
            return answer
        threading.Event().wait(0.1)
    raise AssertionError(f"{page} is still computing")


def said(answer, page):
    return words(answer[f"ov-{page}.children"])


def figures_of(component):
    """Return all Plotly figures of a component as JSON."""
    if isinstance(component, list):
        return [figure for each in component for figure in figures_of(each)]
    if not isinstance(component, dict):
        return []
    props = component.get("props", {})
    own = [props["figure"]] if component.get("type") == "Graph" else []
    return own + figures_of(props.get("children"))


def grids_of(component):
    """Return the rows of all grids of a component as JSON."""
    if isinstance(component, list):
        return [grid for each in component for grid in grids_of(each)]
    if not isinstance(component, dict):
        return []
    props = component.get("props", {})
    own = [props["rowData"]] if component.get("type") == "AgGrid" else []
    return own + grids_of(props.get("children"))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_answers_on_a_small_trace(callbacks, store, page):
    answer = ask(callbacks, store, page)
    assert answer[f"ov-{page}-poll.disabled"] is True
    assert said(answer, page)
    assert answer[f"ov-{page}-shown.data"]["window"] is None


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"trace": "host"}, "No GPU work."),
        ({"trace": "broken"}, "There is nothing to show."),
        ({"trace": None, "state": "none"}, "No trace is open yet."),
    ],
)
def test_what_is_missing_is_said(callbacks, store, page, state, expected):
    assert expected in said(ask(callbacks, store, page, **state), page)


@pytest.mark.parametrize("page", PAGES)
def test_another_page_costs_nothing(callbacks, page):
    answer = callbacks.call(f"ov-{page}.children", ov_open__data=READY, ov_theme__data="light")
    assert answer == {f"ov-{page}-poll.disabled": True}


@pytest.mark.parametrize("page", PAGES)
def test_what_is_shown_already_is_not_sent_again(callbacks, store, page):
    shown = ask(callbacks, store, page)[f"ov-{page}-shown.data"]
    assert f"ov-{page}.children" not in ask(callbacks, store, page, shown=shown)
    assert f"ov-{page}.children" in ask(callbacks, store, page, shown=shown, theme="dark")


@pytest.mark.parametrize("page", PAGES)
def test_the_window_narrows_every_page_and_its_links(asked, samples, page):
    window = [170_000_000, 260_000_000]
    answer = ask(asked, samples, page, trace="green-context-a", window=window)
    assert "Only 170" in said(answer, page)
    for _, href in links_of(answer[f"ov-{page}.children"]):
        assert not href.startswith("/timeline") or "window=170000000-260000000" in href


def test_a_name_of_a_trace_is_text_and_never_markup(callbacks, store):
    """The small trace has a kernel called <b>mul</b>."""
    answer = ask(callbacks, store, "path")
    (_names, slack) = grids_of(answer["ov-path.children"])
    assert "<b>mul</b>" in {row["name"] for row in slack}
    for page in PAGES:
        text = json.dumps(figures_of(ask(callbacks, store, page)[f"ov-{page}.children"]))
        assert "<b>mul" not in text


# ---- waits


def test_the_legacy_default_stream_is_the_costliest_kind_of_wait(asked, samples):
    answer = ask(asked, samples, "waits", trace="default-stream-legacy")
    (rows,) = grids_of(answer["ov-waits.children"])
    assert [row["lost_ns"] for row in rows] == sorted((row["lost_ns"] for row in rows), reverse=True)
    held = [row for row in rows if row["kind"] == "legacy default stream"]
    assert held
    assert all(row["op_count"] >= 1 and "sel=" in row["href"] for row in held)
    text = said(answer, "waits")
    assert "legacy default stream" in text
    assert "Waits by stream and cause" in text


def test_idle_bars_hold_what_the_table_says(asked, samples):
    answer = ask(asked, samples, "waits", trace="default-stream-legacy")
    bars, spreads = figures_of(answer["ov-waits.children"])
    found = samples.studies.answer(samples.opened("default-stream-legacy"), None, "waits", lambda _: None)
    shares = sum(sum(trace["x"]) for trace in bars["data"])
    idle = [row for row in found["idle"] if row["scope"] != "partition"]
    windows = {row["scope"]: next(iter(found["windows"].values())) for row in idle}
    expected = sum(100 * row["idle_ns"] / windows[row["scope"]] for row in idle)
    assert shares == pytest.approx(expected)
    assert all(point[0].startswith("/timeline?") for trace in bars["data"] for point in trace["customdata"])
    assert spreads["layout"]["yaxis"]["type"] == "log"
    for trace in spreads["data"]:
        assert trace["x"] == sorted(trace["x"])
        assert trace["y"] == sorted(trace["y"])


def test_without_launches_the_page_says_so(callbacks, store, tmp_path, cache):
    from overlane.tables import table_from_columns  # noqa: PLC0415
    from overlane_collect.model import Header  # noqa: PLC0415 - this test alone writes a trace
    from overlane_collect.writer import write_trace  # noqa: PLC0415

    ops = {"device_id": [0], "context_id": [1], "stream_id": [7], "engine": ["compute"], "kind": ["kernel"],
           "name": ["k"], "start_ns": [10], "end_ns": [20]}  # fmt: skip
    write_trace(
        tmp_path / "bare.overlane", Header(format="overlane"), {"ops": table_from_columns("ops", ops)}
    )
    bare = TraceStore([tmp_path / "bare.overlane"], cache=cache)
    settle(bare, "bare")
    text = said(ask(Callbacks(create_app(bare).server.test_client()), bare, "waits", trace="bare"), "waits")
    assert "missing: launch_times" in text
    assert "Record host calls" in text
    bare.close()


# ---- advice


def test_findings_stand_with_cost_change_source_and_links(asked, samples):
    answer = ask(asked, samples, "advice", trace="stream-contract-missing-wait")
    text = said(answer, "advice")
    for expected in ("1 Accesses to the same bytes are not ordered", "results or measurements may be wrong",
                     "Change:", "Rule:", "Not checked", "(missing: collectives)"):  # fmt: skip
        assert expected in text
    links = links_of(answer["ov-advice.children"])
    assert any("sel=ops:" in href for _, href in links)
    assert any("range=" in href for _, href in links)


# ---- path


def test_the_path_leads_to_its_longest_links(asked, samples):
    answer = ask(asked, samples, "path", trace="green-context-a")
    text = said(answer, "path")
    assert "links in 322.6 ms, without a gap" in text
    (figure,) = figures_of(answer["ov-path.children"])
    assert sum(trace["x"][0] for trace in figure["data"]) == pytest.approx(100)
    names, slack = grids_of(answer["ov-path.children"])
    assert names[0]["name"] == "bulk"
    assert "sel=ops:" in names[0]["href"]
    assert sum(row["fraction"] for row in names) == pytest.approx(1)
    assert sum(row["op_count"] for row in slack) == 206


# ---- partitions


def test_partitions_say_what_was_asked_granted_and_seen(asked, samples):
    answer = ask(asked, samples, "partitions", trace="green-context-a")
    text = said(answer, "partitions")
    layout = ("critical (1) 8 8 1 10", "bulk (2) 124 124 124 182", "9–10, 12, 15", "0–8, 11, 13–14, 16–65")
    for expected in (*layout, "alone on the device", "beside kernels of others"):
        assert expected in text
    granted, tpcs, sms, isolation = figures_of(answer["ov-partitions.children"])
    assert granted["data"][0]["x"] == [132, 8, 124]
    assert granted["data"][1]["x"] == [8, 124]
    critical, bulk = tpcs["data"][0]["z"]
    assert [at for at, cell in enumerate(critical) if cell] == [9, 10, 12, 15]
    assert not any(a and b for a, b in zip(critical, bulk, strict=True))
    assert sum(bool(cell) for cell in sms["data"][0]["z"][1]) == 124
    assert len(isolation["data"]) == 4
    assert ("compare page", "/compare?base=green-context-a&trace=green-context-a") in links_of(
        answer["ov-partitions.children"]
    )


def test_a_trace_without_partitions_says_how_to_get_them(callbacks, store):
    text = said(ask(callbacks, store, "partitions"), "partitions")
    assert "No partition is known." in text
    assert "overlane record" in text


@pytest.mark.parametrize(("numbers", "expected"), [([], ""), ([3], "3"), ([5, 4, 1, 9, 8], "1, 4–5, 8–9")])
def test_numbers_are_drawn_together(numbers, expected):
    assert number_ranges(numbers) == expected


# ---- hazards


def test_a_hazard_is_drawn_with_its_missing_edge_and_fix(asked, samples):
    answer = ask(asked, samples, "hazards", trace="stream-contract-missing-wait")
    text = said(answer, "hazards")
    assert "120 pairs of accesses, 12 with a fix of their own." in text
    assert "Fix: Record an event in stream 13 (producer) after operation 1 (twice)" in text
    rows, redundant = grids_of(answer["ov-hazards.children"])
    assert [rows[0][key] for key in ("kind", "certainty", "first", "second", "bytes")] == [
        "RAW",
        "proven",
        "twice (1)",
        "plus_one (2)",
        4,
    ]
    assert {row["fixed_by"] for row in rows[:12]} == {""}
    assert rows[12]["fixed_by"] == "# 1"
    (figure,) = figures_of(answer["ov-hazards.children"])
    (arrow,) = [one for one in figure["layout"]["annotations"] if one.get("arrowhead")]
    lanes = figure["layout"]["yaxis"]["categoryarray"]
    assert (lanes[int(arrow["ay"])], lanes[int(arrow["y"])]) == ("producer 13", "consumer 14")
    assert [(row["wait"], row["known"]) for row in redundant] == [("context (16)", "syncs 15")]
    assert "sel=syncs:16" in redundant[0]["href"]
    assert "8 of 9 synchronizations of a stream, context or device could be checked" in text


def test_choosing_a_row_shows_that_hazard(asked, samples):
    from overlane.ui.pages.hazards import show_chosen  # noqa: PLC0415 - pattern ids have no single output

    answer = ask(asked, samples, "hazards", trace="stream-contract-missing-wait")
    rows, _redundant = grids_of(answer["ov-hazards.children"])
    state = READY | {"trace": "stream-contract-missing-wait"}
    (detail,) = show_chosen(samples, [[rows[1]]], state, "dark")
    text = words(json.loads(json.dumps(detail, default=lambda one: one.to_plotly_json())))
    assert "after operation 5 (twice)" in text
    assert "first twice (5) producer 13" in text


def test_an_over_strong_synchronization_leads_to_the_timeline_and_says_what_would_do(tmp_path, cache):
    whole = Act("device_sync")
    acts = [Act("op", touches=((0, 8, True),)), Act("op", stream=3, touches=((8, 8, True),)), whole]
    trace, _, _ = trace_of([whole, *acts, Act("op", stream=2, touches=((0, 8, False),)), whole])
    write_trace(tmp_path / "own.overlane", trace.header, {name: trace.table(name) for name in TABLES})
    store = TraceStore([tmp_path / "own.overlane"], cache=cache)
    settle(store, "own")
    answer = ask(Callbacks(create_app(store).server.test_client()), store, "hazards", trace="own")
    store.close()
    (row,), *_ = grids_of(answer["ov-hazards.children"])
    assert (row["wait"], row["op"], row["more"]) == ("device (1)", "op (0)", 1)
    assert "sel=syncs:1" in row["href"]
    assert "wait for that event" in row["change"]


def test_a_trace_without_accesses_says_how_to_record_them(callbacks, store):
    text = said(ask(callbacks, store, "hazards"), "hazards")
    assert "cannot be told" in text
    assert "overlane record with --accesses" in text


# ---- computing in the background


def test_an_answer_is_made_once_and_waited_for_by_nobody(store):
    studies, opened = Studies(), store.opened("small")
    may_go, calls = threading.Event(), []

    def build(study):
        calls.append(study)
        may_go.wait(60)
        return {"span": study.trace.span_ns}

    assert studies.answer(opened, None, "x", build, wait_s=0) is None
    assert studies.answer(opened, None, "x", build, wait_s=0) is None
    may_go.set()
    assert studies.answer(opened, None, "x", build, wait_s=60) == {"span": 7000}
    assert calls == [studies.study(opened)]
    assert studies.study(opened, (0, 10)) is not studies.study(opened)


def test_what_needs_no_causes_does_not_stand_in_line_behind_them(store):
    studies, opened = Studies(), store.opened("small")
    may_go = threading.Event()
    assert studies.answer(opened, None, "x", lambda _: may_go.wait(60), wait_s=0) is None
    assert studies.answer(opened, None, "y", lambda _: 5, is_quick=True, wait_s=60) == 5
    assert studies.answer(opened, None, "z", lambda _: 7, wait_s=0) is None
    may_go.set()
    assert studies.answer(opened, None, "z", lambda _: 7, wait_s=60) == 7


def test_a_fault_of_an_analysis_is_said_and_hides_nothing_else(store, caplog):
    from overlane.errors import OverlaneError  # noqa: PLC0415

    def fail(_study):
        raise ZeroDivisionError

    studies, opened = Studies(), store.opened("small")
    with pytest.raises(OverlaneError, match="a fault of Overlane \\(ZeroDivisionError\\)"):
        studies.answer(opened, None, "x", fail, wait_s=60)
    assert "an analysis failed" in caplog.text
    assert studies.answer(opened, None, "y", lambda _: 3, wait_s=60) == 3


def test_what_failed_is_tried_again_when_it_is_asked_for_again(store):
    from overlane.errors import OverlaneError  # noqa: PLC0415

    answers = iter((MemoryError(), "made"))

    def build(_study):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    studies, opened = Studies(), store.opened("small")
    with pytest.raises(OverlaneError, match="do not fit into"):
        studies.answer(opened, None, "x", build, wait_s=60)
    assert studies.answer(opened, None, "x", build, wait_s=60) == "made"
