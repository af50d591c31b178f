"""The operations page and the step picker, by their callbacks."""

from __future__ import annotations

import threading

import pytest

from callbacks.conftest import settle, text_of
from overlane.ui.links import parse_search
from overlane.ui.shell import follow_address
from overlane.ui.steps import list_steps, window_words
from overlane.ui.store import TraceStore

READY = {"trace": "small", "state": "ready", "rank": None, "other_trace": None, "window": None}


def ask(callbacks, *, by="name", state=None, path="/operations"):
    return until_done(
        callbacks,
        "ov-ops-grid.rowData",
        "ov-ops-again.data",
        ov_open__data=READY | (state or {}),
        ov_ops_by__value=by,
        ov_at_operations__data=path,
    )


def until_done(callbacks, output, again, **values):
    """Call a callback until it does not ask to be called again, as the page does."""
    for _ in range(600):
        answer = callbacks.call(output, **values)
        if answer.get(again) is None:
            return answer
        threading.Event().wait(0.1)
    raise AssertionError(f"{output} never came")


def test_rows_of_the_grid(callbacks):
    answer = ask(callbacks)
    rows = {row["label"]: row for row in answer["ov-ops-grid.rowData"]}
    assert [*rows] == ["Memcpy HtoD", "add(float*)", "<b>mul</b>"]
    copy = rows["Memcpy HtoD"]
    assert (copy["op_count"], copy["work_ns"], copy["bytes"], copy["bandwidth"]) == (1, 3000, 6000, 2.0)
    assert copy["engine"] == "copy H2D"
    assert rows["add(float*)"]["bandwidth"] is None
    assert rows["add(float*)"]["grid_blocks"] == [64, 64]
    assert "sel=ops:1" in copy["href"]
    assert "3 operations, 6.000 µs of work; 3 rows." in answer["ov-ops-said.children"]
    hidden = {one["field"] for one in answer["ov-ops-grid.columnDefs"] if one["hide"]}
    assert {"shapes", "registers", "occupancy_fraction"} <= hidden
    assert not {"label", "bandwidth", "grid_blocks"} & hidden


def test_each_column_has_one_unit_that_its_heading_names(callbacks):
    columns = {one["field"]: one for one in ask(callbacks)["ov-ops-grid.columnDefs"]}
    assert columns["work_ns"]["headerName"] == "total, µs"
    assert columns["work_ns"]["valueFormatter"]["function"] == "overlaneScaled(params.value, 1000, 3)"
    assert columns["bandwidth"]["headerName"] == "rate, GB/s"
    assert columns["bytes"]["headerName"] == "bytes, KiB"
    assert columns["op_count"]["headerName"] == "count"


def test_rows_of_a_window(callbacks):
    answer = ask(callbacks, state={"window": [2500, 4000]})
    assert {row["label"]: row["work_ns"] for row in answer["ov-ops-grid.rowData"]} == {
        "add(float*)": 500,
        "Memcpy HtoD": 1500,
    }
    assert answer["ov-ops-said.children"].startswith("Only 2.50 µs → 4.00 µs (1.500 µs).")


def test_a_window_without_work_says_so(callbacks):
    answer = ask(callbacks, state={"window": [5200, 5300]})
    assert answer["ov-ops-grid.rowData"] == []
    assert answer["ov-ops-grid-box.style"] == {"display": "none"}
    assert "Nothing ran on a device in it." in text_of(answer["ov-ops-said.children"])


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"trace": "host"}, "No GPU work."),
        ({"trace": "broken"}, "cannot be opened"),
        ({"state": "none", "trace": None}, "No trace is open yet."),
        ({"state": "loading"}, "No trace is open yet."),
    ],
)
def test_what_is_missing_is_said(callbacks, state, words):
    answer = ask(callbacks, state=state)
    assert answer["ov-ops-grid.rowData"] == []
    assert words in text_of(answer["ov-ops-said.children"])


def test_groups_by_operator(callbacks):
    answer = ask(callbacks, by="operator")
    rows = {row["label"]: row["op_count"] for row in answer["ov-ops-grid.rowData"]}
    assert rows == {"aten::add": 2, "launched by no operator": 1}
    assert "does not record the shapes" in answer["ov-ops-said.children"]


def test_other_pages_cost_nothing(callbacks):
    assert ask(callbacks, path="/timeline") == {}


def flame(callbacks, **values):
    return until_done(
        callbacks,
        "ov-flame.figure",
        "ov-flame-again.data",
        ov_open__data=READY | values.pop("state", {}),
        ov_flame_by__value=values.pop("weight", "device"),
        ov_theme__data="light",
        ov_at_operations__data="/operations",
    )


def test_the_flame_view_has_names_as_text(callbacks):
    answer = flame(callbacks)
    trace = answer["ov-flame.figure"]["data"][0]
    assert trace["labels"][1:] == ["aten::add"]
    assert trace["values"][0] == 5000  # add and the copy, both launched within aten::add
    assert "1.000 µs of work launched outside of any range" in answer["ov-flame-said.children"]


def test_a_trace_without_ranges_says_how_to_get_them(callbacks, own_store):
    answer = flame(callbacks, state={"window": [5200, 5300]})
    assert answer["ov-flame-box.style"] == {"display": "none"}
    assert "look at the time on the host" in answer["ov-flame-said.children"]


def test_pages_answer_at_once_while_an_analysis_takes_long(callbacks, store):
    with store.studies._quick_turn:
        rows = callbacks.call(
            "ov-ops-grid.rowData",
            ov_open__data=READY,
            ov_ops_by__value="family",
            ov_at_operations__data="/operations",
            ov_ops_turn__data=4,
        )
        drawn = callbacks.call(
            "ov-flame.figure",
            ov_open__data=READY,
            ov_flame_by__value="host",
            ov_theme__data="dark",
            ov_at_operations__data="/operations",
        )
        overlap = callbacks.call(
            "ov-overlap.children",
            ov_open__data=READY,
            ov_theme__data="light",
            ov_at_overlap__data="/overlap",
        )
    assert (rows["ov-ops-again.data"], rows["ov-ops-grid.rowData"]) == (5, [])
    assert rows["ov-ops-said.children"] == "Grouping the operations …"
    assert (drawn["ov-flame-again.data"], drawn["ov-flame-box.style"]) == (1, {"display": "none"})
    assert overlap["ov-overlap-poll.disabled"] is False
    assert "Measuring the engines" in text_of(overlap["ov-overlap.children"])
    assert [row["label"] for row in ask(callbacks, by="family")["ov-ops-grid.rowData"]]


def test_the_window_stands_in_the_address(store):
    assert parse_search("?trace=a&window=5-90").window == (5, 90)
    for bad in ("", "5", "9-5", "5-5", "-3-5", "a-b", "1e3-2e3", "5-90;", "٣-٩"):
        assert parse_search(f"?window={bad}").window is None
    assert follow_address(store, "?trace=small&window=5-90")["window"] == [5, 90]
    assert follow_address(store, "?trace=small")["window"] is None
    assert window_words((1000, 3000)) == "Only 1.00 µs → 3.00 µs (2.000 µs)."
    assert window_words(None) == ""


def test_the_picker_lists_steps_and_ranges(samples, cache):
    store = TraceStore([samples["torch_train_pinned.json.gz"]], cache=cache)
    settle(store, "torch-train-pinned")
    state = READY | {"trace": "torch-train-pinned"}
    found = list_steps(store, state, None)
    groups = {group["group"]: [item["label"] for item in group["items"]] for group in found["groups"]}
    assert [label.partition(" · ")[0] for label in groups["Steps"]] == [f"step {k}" for k in range(10)]
    values = [item["value"] for group in found["groups"] for item in group["items"]]
    assert len(set(values)) == len(values)
    assert all(parse_search(f"?window={value}").window for value in values)
    store.close()


def test_the_picker_is_empty_without_a_trace(store):
    assert list_steps(store, None, None) is None
    assert list_steps(store, READY | {"trace": "broken"}, None) is None
