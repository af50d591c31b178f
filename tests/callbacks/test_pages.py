"""What the pages say, asked as the browser asks: by posting to the update route."""

from __future__ import annotations

import json
import re
import threading

import pytest

from callbacks.conftest import Callbacks, links_of, settle, words, write_host_only, write_small
from overlane.ui.server import create_app
from overlane.ui.store import TraceStore

READY = {
    "trace": "small",
    "name": "small",
    "state": "ready",
    "progress": 1.0,
    "reason": "",
    "rank": None,
    "window": None,
    "other_trace": None,
    "other_name": "",
    "other_state": "none",
    "other_progress": 0.0,
    "other_reason": "",
}


# ---- which trace is shown


def follow(callbacks, search):
    return callbacks.call("ov-open.data", ov_url__search=search)["ov-open.data"]


def test_without_a_wish_the_first_trace_is_shown(callbacks):
    assert follow(callbacks, "") == READY


@pytest.mark.parametrize(
    ("search", "trace", "state"),
    [
        ("?trace=host", "host", "ready"),
        ("?trace=broken", "broken", "failed"),
        ("?trace=nobody", "nobody", "failed"),
        ("?trace=%3Cscript%3E", "<script>", "failed"),
        ("?" + "&".join(f"a{i}=1" for i in range(40)), "small", "ready"),
    ],
)
def test_the_address_chooses_the_trace(callbacks, search, trace, state):
    found = follow(callbacks, search)
    assert (found["trace"], found["state"]) == (trace, state)
    assert bool(found["reason"]) == (state == "failed")


def test_the_address_chooses_the_second_trace_and_the_rank(callbacks):
    found = follow(callbacks, "?trace=small&with=host&rank=3")
    assert (found["trace"], found["other_trace"], found["other_state"], found["rank"]) == (
        "small",
        "host",
        "ready",
        3,
    )
    assert follow(callbacks, "?trace=small&rank=x")["rank"] is None


def test_a_listed_trace_is_opened_and_polled_until_it_is_ready(callbacks, store):
    answer = callbacks.call("ov-open.data", ov_url__search="?trace=second")
    assert answer["ov-open.data"]["state"] in {"loading", "ready"}
    settle(store, "second")
    answer = callbacks.call("ov-open.data", ov_url__search="?trace=second")
    assert answer["ov-open.data"]["state"] == "ready"
    assert answer["ov-poll.disabled"] is True


def test_nothing_new_is_not_sent_again(callbacks):
    answer = callbacks.call("ov-open.data", ov_url__search="?trace=small", ov_open__data=READY)
    assert "ov-open.data" not in answer


# ---- the header


def test_the_header_says_device_driver_producer_and_what_is_proven(callbacks):
    answer = callbacks.call("ov-header-trace.children", ov_open__data=READY)
    assert words(answer["ov-header-trace.children"]) == "small Test GPU · CUDA driver 580.1 · a test"
    badge = words(answer["ov-capabilities.children"])
    assert "✓ launch times" in badge
    assert "– sync ids the profiler recorded none" in badge
    assert "! launches one operation has no launch" in badge
    assert answer["ov-nav-overlap.href"] == "/overlap?trace=small"


def test_the_header_offers_the_other_traces_that_can_be_read(callbacks):
    tools = callbacks.call("ov-header-trace.children", ov_open__data=READY)["ov-header-tools.children"]
    (choice,) = [x["props"] for x in tools if x["props"]["id"] == "ov-compare"]
    assert [x["value"] for x in choice["data"]] == ["host", "second"]


# ---- the details


def details(callbacks, table, row, trace="small"):
    selection = {"trace": trace, "rank": None, "table": table, "row": row, "n": 1}
    return callbacks.call("ov-details.children", ov_selection__data=selection, ov_open__data=READY)[
        "ov-details.children"
    ]


def test_details_hold_every_column_of_the_row(callbacks):
    panel = details(callbacks, "ops", 0)
    said = words(panel)
    for expected in (
        "add(float*)",
        "1.00 µs → 3.00 µs",
        "duration 2.000 µs",
        "stream 7 · blocking",
        "engine compute",
        "kind kernel",
        "grid 64 × 1 × 1",
        "correlation id 11",
        "occupancy 50",
        "columns are unknown here",
        "previous none on this track",
    ):
        assert expected in said, said


def test_details_of_a_copy_give_its_throughput(callbacks):
    said = words(details(callbacks, "ops", 1))
    assert "moved 5.859 KiB at 2.000 GB/s" in said
    assert "bytes 5.859 KiB" in said
    assert "13 · kind not recorded" in said


def test_details_lead_to_launch_operator_and_neighbour(callbacks):
    links = dict(links_of(details(callbacks, "ops", 0)))
    assert links["cudaLaunchKernel · 400\u00a0ns"].endswith("&sel=api_calls:0")
    assert links["aten::add · 950\u00a0ns"].endswith("&sel=ranges:0")
    assert links["<b>mul</b> · 1.000\u00a0µs"].endswith("&sel=ops:2")
    assert all(href.startswith("/timeline?trace=small&t0=") for href in links.values())


def test_details_of_a_call_lead_to_its_operation(callbacks):
    links = dict(links_of(details(callbacks, "api_calls", 1)))
    assert links["Memcpy HtoD · 3.000\u00a0µs"].endswith("&sel=ops:1")


def test_details_of_an_operator_lead_to_its_operation(callbacks):
    assert dict(links_of(details(callbacks, "ranges", 0)))["add(float*) · 2.000\u00a0µs"].endswith(
        "&sel=ops:0"
    )


def test_names_are_text_never_markup(callbacks):
    panel = details(callbacks, "ops", 2)
    assert "<b>mul</b>" in words(panel)
    assert "dangerously" not in json.dumps(panel).lower()
    assert "Markdown" not in json.dumps(panel)


def test_without_a_selection_the_whole_trace_is_described(callbacks):
    panel = callbacks.call("ov-details.children", ov_open__data=READY)["ov-details.children"]
    said = words(panel)
    for expected in ("devices Test GPU", "operations 3", "span 7.000 µs", "stream 7 2 1.000 µs 7.000 µs"):
        assert expected in said, said


@pytest.mark.parametrize(("table", "row"), [("ops", 99), ("ops", -1), ("nothing", 0)])
def test_a_selection_that_is_not_there_is_a_sentence(callbacks, table, row):
    assert "cannot be found" in words(details(callbacks, table, row))


def test_a_selection_of_another_trace_is_not_mixed_in(callbacks):
    assert "devices Test GPU" in words(details(callbacks, "ranges", 0, trace="host"))


# ---- the range


def marked(callbacks, t0, t1, state=READY):
    data = {"trace": "small", "rank": None, "t0_ns": t0, "t1_ns": t1, "n": 1}
    answer = callbacks.call("ov-range-panel.children", ov_range__data=data, ov_open__data=state)
    return answer["ov-range-panel.children"]


def test_a_range_is_measured_by_union(callbacks):
    # [2000, 4000): compute [2000, 3000), copy [2000, 4000)
    said = words(marked(callbacks, 2000, 4000))
    for expected in (
        "Marked range 2.000 µs",
        "busy 2.000 µs · 100 %",
        "idle 0 · 0 %",
        "compute 1.000 µs 50.0 %",
        "copy H2D 2.000 µs 100 %",
        "compute and copy H2D 1.000 µs 50.0 %",
    ):
        assert expected in said, said


def test_an_empty_range_is_idle(callbacks):
    said = words(marked(callbacks, 5000, 6000))
    assert "busy 0 · 0 %" in said
    assert "idle 1.000 µs · 100 %" in said


def test_a_range_of_a_trace_that_is_no_longer_shown_is_forgotten(callbacks):
    assert "Shift-drag" in words(marked(callbacks, 2000, 4000, {**READY, "trace": "host"}))


def test_no_range_gives_a_hint(callbacks):
    assert "Shift-drag" in words(callbacks.call("ov-range-panel.children")["ov-range-panel.children"])


# ---- the notices


def test_a_trace_without_gpu_work_says_so(callbacks):
    state = {**READY, "trace": "host", "name": "host"}
    assert "No GPU work" in words(
        callbacks.call("ov-notice.children", ov_open__data=state)["ov-notice.children"]
    )
    overlap = shown(callbacks, "overlap", state)
    assert "No GPU work" in words(overlap)
    assert "Graph" not in json.dumps(overlap), "no empty axes"


def test_a_failed_trace_says_why(callbacks):
    state = follow(callbacks, "?trace=broken")
    said = words(callbacks.call("ov-notice.children", ov_open__data=state)["ov-notice.children"])
    assert "broken cannot be opened." in said
    assert "broken.overlane" in said


def test_a_ready_trace_has_no_notice(callbacks):
    assert callbacks.call("ov-notice.children", ov_open__data=READY)["ov-notice.children"] is None


# ---- the overlap page


def shown(callbacks, page, state, theme="light", path=None):
    """Return what a page shows once it is computed."""
    for _ in range(600):
        answer = callbacks.call(
            f"ov-{page}.children",
            ov_open__data=state,
            ov_theme__data=theme,
            **{f"ov_at_{page}__data": path or f"/{page}"},
        )
        if answer[f"ov-{page}-poll.disabled"]:
            return answer.get(f"ov-{page}.children")
        threading.Event().wait(0.1)
    raise AssertionError(f"{page} is still computing")


def overlap(callbacks, theme="light", path=None):
    return shown(callbacks, "overlap", READY, theme, path)


def test_overlap_gives_the_numbers_of_the_device(callbacks):
    said = words(overlap(callbacks))
    for expected in (
        "GPU 0",
        "window 6.000 µs",
        "busy 5.000 µs 83.3 %",
        "idle 1.000 µs 16.7 %",
        "exposed copies 2.000 µs",
        "compute 3.000 µs 50.0 % 2 3.000 µs",
        "copy H2D 3.000 µs 50.0 % 1 3.000 µs",
        "compute and copy H2D 1.000 µs 16.7 %",
        "0 1.000 µs 16.7 %",
        "1 4.000 µs 66.7 %",
        "2 1.000 µs 16.7 %",
    ):
        assert expected in said, said


def test_overlap_numbers_lead_to_the_intervals_that_prove_them(callbacks):
    links = links_of(overlap(callbacks))
    assert ("1.000 µs", "/timeline?trace=small&t0=1000&t1=4000&range=2000-3000") in links, "both busy"
    assert any(href.endswith("range=5000-6000") for _, href in links), "idle"
    assert any(href.endswith("range=3000-5000") for _, href in links), "exposed copy"


def test_counts_and_sums_lead_to_where_the_engine_was_busy_longest(callbacks):
    links = links_of(overlap(callbacks))
    busy = "/timeline?trace=small&t0=0&t1=5000&range=1000-3000"
    assert links.count(("2", busy)) == 1, "operations of compute"
    assert links.count(("3.000 µs", busy)) == 2, "busy time and sum of compute"


def graphs_of(component):
    """Return the data of all charts of a component as JSON, by kind."""
    found = {}

    def walk(item):
        if isinstance(item, list):
            for each in item:
                walk(each)
        elif isinstance(item, dict):
            if item.get("type") == "Graph":
                found[item["props"]["id"]["name"].split()[0]] = item["props"]["figure"]["data"][0]
            walk(item.get("props", {}).get("children"))

    walk(component)
    return found


def test_charts_carry_the_links_of_the_tables(callbacks):
    page = overlap(callbacks)
    drawn = graphs_of(page)
    pairs = {
        (y, x): href
        for y, row in zip(drawn["pairs"]["y"], drawn["pairs"]["customdata"], strict=True)
        for x, href in zip(drawn["pairs"]["x"], row, strict=True)
    }
    busy = dict(zip(drawn["busy"]["y"], drawn["busy"]["customdata"], strict=True))
    levels = {
        x: href for x, (href, _) in zip(drawn["levels"]["x"], drawn["levels"]["customdata"], strict=True)
    }
    both = "/timeline?trace=small&t0=1000&t1=4000&range=2000-3000"
    assert pairs["compute", "copy H2D"] == pairs["copy H2D", "compute"] == both
    assert pairs["compute", "compute"] == busy["compute"]
    assert levels["idle"].endswith("range=5000-6000")
    assert levels["2"] == both
    in_tables = {href for _, href in links_of(page)}
    assert {*pairs.values(), *busy.values(), *levels.values()} <= in_tables


def test_overlap_draws_in_the_colours_of_the_theme(callbacks):
    light, dark = (json.dumps(overlap(callbacks, theme)) for theme in ("light", "dark"))
    assert "#4c78a8" in light
    assert "#6f9fd0" in dark
    assert "#4c78a8" not in dark


def test_overlap_is_not_computed_while_another_page_is_shown(callbacks):
    assert overlap(callbacks, path="/timeline") is None


# ---- the library page


def library(callbacks, **values):
    return callbacks.call("ov-library.children", ov_open__data=READY, ov_url__pathname="/library", **values)


def test_the_library_says_of_each_trace_what_it_holds(callbacks):
    cards = library(callbacks)["ov-library.children"]
    small, broken, host, second = map(words, cards)
    for expected in (
        "small",
        "device Test GPU",
        "span 7.000 µs",
        "streams 2",
        "operations 3",
        "compute 2",
        "copy H2D 1",
        "✓ launch times",
        "– sync ids",
        "! integrity: launches",
        "integrity: 2 checks ok",
        "launches: one operation has no launch",
        "order: every end follows its start",
        "sync ids: the profiler recorded none",
    ):
        assert expected in small, small
    assert "Cannot be opened. " in broken
    assert "broken.overlane" in broken
    assert "no GPU work" in host
    assert "integrity: nothing suspect found" in host
    assert "Not opened yet" in second


def test_cards_of_many_traces_say_the_same_in_few_elements(monkeypatch, callbacks):
    full = json.dumps(library(callbacks)["ov-library.children"][0]).count('"namespace"')
    monkeypatch.setattr("overlane.ui.pages.library._FULL_CARDS", 1)
    brief = library(callbacks)["ov-library.children"][0]
    assert json.dumps(brief).count('"namespace"') < full / 2
    said = words(brief)
    for expected in (
        "device Test GPU",
        "span 7.000 µs",
        "streams 2",
        "✓ launch times",
        "integrity: launches",
    ):
        assert expected in said


def test_the_reasons_of_a_card_open_by_keyboard_and_touch(callbacks):
    small = json.dumps(library(callbacks)["ov-library.children"][0])
    assert '"type": "Details"' in small
    assert "one operation has no launch" not in re.findall(r'"title": "([^"]*)"', small)


def test_the_library_offers_names_and_comparison(callbacks):
    answer = library(callbacks)
    assert answer["ov-library-name.data"] == [
        *("small.overlane", "broken.overlane", "host.overlane", "second.overlane"),
    ]
    assert ("Compare", "/timeline?trace=small&with=second") in links_of(answer["ov-library.children"])


def test_new_files_show_up_on_request(own_store, folder):
    write_small(folder / "library" / "third.overlane")
    callbacks = Callbacks(create_app(own_store).server.test_client())
    answer = library(callbacks, ov_library_rescan__n_clicks=1)
    assert answer["ov-library-name.data"][-1] == "third.overlane"


def test_looking_again_tries_what_failed(own_store, folder):
    write_small(folder / "broken.overlane")
    callbacks = Callbacks(create_app(own_store).server.test_client())
    callbacks.call("ov-poll.disabled", first="ov-library-rescan", ov_library_rescan__n_clicks=1)
    assert settle(own_store, "broken").state == "ready"


def test_a_trace_is_opened_by_its_name(callbacks):
    answer = callbacks.call(
        "ov-library-found.children", ov_library_open__n_clicks=1, ov_library_name__value="second"
    )
    # The pages listen to path and search; an answer that sets the whole address would show nothing.
    assert answer["ov-url.pathname"] == "/timeline"
    assert answer["ov-url.search"] == "?trace=second"
    assert answer["ov-poll.disabled"] is False
    listened = {x["property"] for one in callbacks.known for x in one["inputs"] if x["id"] == "ov-url"}
    assert {"pathname", "search"} <= listened


@pytest.mark.parametrize("name", ["../small.overlane", "/etc/passwd", "missing.json", "link.overlane", None])
def test_names_outside_the_library_get_a_sentence(callbacks, name):
    answer = callbacks.call(
        "ov-library-found.children", ov_library_open__n_clicks=1, ov_library_name__value=name
    )
    assert "Not opened. " in words(answer["ov-library-found.children"])
    assert not [name for name in answer if name.startswith(("ov-url", "ov-poll"))]


def test_an_empty_library_says_what_to_do(cache, tmp_path):
    store = TraceStore(library=tmp_path, cache=cache)
    answer = Callbacks(create_app(store).server.test_client()).call(
        "ov-library.children", ov_url__pathname="/", ov_open__data=None
    )
    said = words(answer["ov-library.children"])
    assert str(tmp_path) in said
    assert "overlane demo" in said


def test_two_servers_in_one_process_show_their_own_traces(cache, tmp_path):
    write_small(tmp_path / "one.overlane")
    write_host_only(tmp_path / "two.overlane")
    names = []
    for file in ("one", "two"):
        store = TraceStore([tmp_path / f"{file}.overlane"], cache=cache)
        answer = Callbacks(create_app(store).server.test_client()).call("ov-open.data", ov_url__search="")
        names.append(answer["ov-open.data"]["name"])
        settle(store, file)
        store.close()
    assert names == ["one", "two"]


def test_a_fault_in_a_callback_is_shown_and_logged(callbacks, store, monkeypatch, caplog):
    def fail(trace_id):
        raise ZeroDivisionError("nobody foresaw it")

    monkeypatch.setattr(store, "facts", fail)
    answer = callbacks.call("ov-header-trace.children", ov_open__data=READY)
    assert "A fault of Overlane. ZeroDivisionError: nobody foresaw it" in words(answer["ov-fault.children"])
    assert "ov-header-trace.children" not in answer
    assert "nobody foresaw it" in caplog.text
