"""The compare page by its callbacks."""

from __future__ import annotations

import json

import pytest

from callbacks.conftest import settle, text_of
from overlane.analysis.study import Study
from overlane.figures.units import format_ns
from overlane.ui.compared import parse_wish, sides_of
from overlane.ui.compared_charts import offer_roles, show_idle, show_waits
from overlane.ui.pages.compare import follow, show_choices, show_tables
from overlane.ui.store import TraceStore

MODES = "base=green-context-b&runs=green-context-a,green-context-c"


@pytest.fixture(scope="module")
def modes(samples, cache):
    """A store over the three modes of the green-context workload, all of them open."""
    store = TraceStore([samples[f"green-context-{mode}.overlane"] for mode in "ABC"], cache=cache)
    for mode in "abc":
        settle(store, f"green-context-{mode}")
    yield store
    store.close()


def seen(store, search):
    """What is compared, whether there is nothing to ask for again, and what is missing."""
    state, again, said = follow(store, f"?{search}", "/compare", None, None)
    for _ in range(600):
        if again is None or "Aligning" not in text_of(plain(said)):
            break
        state, again, said = follow(store, f"?{search}", "/compare", again, None)
    return state, again is None, said


def compared(store, state):
    """Ask for the comparison until it is there, as the page does."""
    turn = None
    for _ in range(400):
        *found, turn = show_tables(store, state, turn)
        if turn is None:
            keys = (
                "metrics",
                "columns",
                "metrics_box",
                "operations",
                "",
                "operations_box",
                "style",
                "charts",
                "said",
            )
            return dict(zip(keys, found, strict=True))
    raise AssertionError("the comparison never came")


def plain(component):
    return json.loads(json.dumps(component.to_plotly_json(), default=lambda x: x.to_plotly_json()))


@pytest.mark.parametrize(
    ("search", "baseline", "runs"),
    [
        ("", ("first",), ()),
        ("?trace=a&with=b", ("a",), ("b",)),
        ("?base=a,b&runs=c", ("a", "b"), ("c",)),
        ("?base=a,,a&runs=a,b", ("a",), ("b",)),
        ("?trace=z&base=a&runs=b&with=y", ("a",), ("b",)),
    ],
)
def test_the_address_says_what_is_compared(search, baseline, runs):
    wish = parse_wish(search, "first")
    assert (wish.baseline, wish.runs, wish.are_repeats, wish.align) == (baseline, runs, False, "start")


def test_runs_of_their_own_and_captures_of_one_run():
    assert sides_of(parse_wish("?base=a&runs=b,c", None)) == [("a",), ("b",), ("c",)]
    assert sides_of(parse_wish("?base=a&runs=b,c&repeats=1", None)) == [("a",), ("b", "c")]
    assert sides_of(parse_wish("", None)) == []
    assert parse_wish("?align=range:step 3", None).align == "range:step 3"
    assert parse_wish("?align=<script>", None).align == "start"


def test_three_modes_side_by_side(modes):
    state, is_done, _ = seen(modes, MODES)
    assert (is_done, state["ready"]) == (True, True)
    assert [one["label"] for one in state["shown"]] == [
        "baseline: green-context-B", "compared: green-context-A", "compared: green-context-C",
    ]  # fmt: skip
    found = compared(modes, state)
    metrics, columns, operations, said = (found[key] for key in ("metrics", "columns", "operations", "said"))
    assert found["style"] == {}
    window = next(row for row in metrics if row["what"] == "GPU 0 · window")
    assert (window["baseline"], window["candidate_0"], window["candidate_1"]) == (
        "303.5 ms",
        "322.6 ms",
        "302.5 ms",
    )
    assert (window["verdict_0"], window["verdict_1"]) == ("slower", "no difference beyond noise")
    assert "change of each round *" in json.dumps(columns)
    critical = next(row for row in operations if row["stream_role"] == "critical")
    assert critical["verdict_0"] == "faster"
    assert critical["baseline_count"] == critical["count_0"] == critical["count_1"] == 10
    assert "sel=ops:" in critical["href"]
    words = text_of(plain(said))
    assert "green-context-A against green-context-B" in words
    assert "The workloads differ in mode B → A." in words
    assert "give three or more captures a side (overlane run WORKLOAD --repeat 5 makes five)" in words
    assert critical["pairs_0"] == 10
    assert "It rests on 10 pairs, 10 of them after the same operation." in critical["reason_0"]


def test_timelines_are_drawn_before_it_is_known_what_aligns_them(modes):
    search = f"?{MODES}&align=op:fill&window=5-90"
    modes.studies._shelves.clear()
    with modes.studies._quick_turn:
        state, again, said = follow(modes, search, "/compare", 6, None)
        assert "Aligning" in text_of(plain(said))
        chosen = show_choices(modes, state, search)
    assert (again, state["ready"], state["align"]) == (7, False, "op:fill")
    assert len(state["shown"]) == 3
    assert state["shifts"] != [0, 0, 0], "by the start of their work"
    assert chosen[-1] == "op:fill", "the address keeps what it asks for"
    assert {"value": "op:fill", "label": "fill"} in chosen[-2]
    assert seen(modes, f"{MODES}&align=op:fill")[0]["is_aligned"]


def test_the_waits_of_the_critical_stream_are_drawn_for_each_mode(modes):
    state, _, _ = seen(modes, MODES)
    values = compared(modes, state)["charts"]
    labels, role, style = offer_roles(values, None)
    assert (role, style) == ("GPU 0 · critical · for room", {})
    role = "GPU 0 · critical · from issue"
    assert {"GPU 0 · bulk · from issue", role} <= set(labels)
    drawn = plain(show_waits(values, "light", role))
    text = text_of(drawn)
    assert all(f"green-context-{mode}" in text for mode in "ABC")
    for place, mode in enumerate("BAC"):
        trace = modes.opened(f"green-context-{mode.lower()}").trace
        waits = Study(trace).waits.wait_ns
        streams = [
            row["stream_id"] for row in trace.table("streams").to_pylist() if row["name"] == "critical"
        ]
        mine = [
            wait
            for wait, stream in zip(waits.tolist(), trace.table("ops")["stream_id"].to_pylist(), strict=True)
            if stream in streams and wait >= 0
        ]
        curve = values["waits"][role][str(place)]
        assert curve["count"] == len(mine)
        assert (curve["points"][0][1], curve["points"][-1][1]) == (min(mine), max(mine))
        assert f"sel=ops:{waits.tolist().index(max(mine))}" in curve["points"][-1][2]
    assert offer_roles(values, "GPU 0 · bulk · for room")[1] == "GPU 0 · bulk · for room"
    assert show_waits(values, "light", "nobody") is None
    idle = text_of(plain(show_idle(values, "dark")))
    assert "late launch" in idle
    assert all(f"green-context-{mode}" in idle for mode in "ABC")


def test_a_partition_of_its_own_shortens_the_wait_for_room(modes):
    """Kernels of the critical stream find room at once where it has SMs of its own, as the rounds show."""
    state, _, _ = seen(modes, MODES)
    found = compared(modes, state)
    row = next(
        row for row in found["metrics"] if row["what"] == "GPU 0 · wait for room, 90th percentile · critical"
    )
    assert row["verdict_0"] == "faster"
    curves = found["charts"]["waits"]["GPU 0 · critical · for room"]
    longest = {place: dict(point[:2] for point in curve["points"]) for place, curve in curves.items()}
    assert longest["1"][0.5] < longest["0"][0.5] / 4


def test_only_the_picked_step_is_compared(modes):
    trace = modes.opened("green-context-b").trace
    rounds = {
        row["name"]: row for row in trace.table("ranges").to_pylist() if row["name"].startswith("round")
    }
    low, high = rounds["round 3"]["start_ns"], rounds["round 3"]["end_ns"]
    state, _, _ = seen(modes, f"{MODES}&window={low}-{high}")
    assert state["narrowed"].startswith("Only round 3 of each")
    found = compared(modes, state)
    window = next(row for row in found["metrics"] if row["what"] == "GPU 0 · window")
    lengths = []
    for mode in "BAC":
        rows = modes.opened(f"green-context-{mode.lower()}").trace.table("ranges").to_pylist()
        one = next(row for row in rows if row["name"] == "round 3")
        lengths.append(format_ns(one["end_ns"] - one["start_ns"]))
    assert [window["baseline"], window["candidate_0"], window["candidate_1"]] == lengths
    critical = next(row for row in found["operations"] if row["stream_role"] == "critical")
    assert (critical["baseline_count"], critical["count_0"]) == (1, 1)
    assert "Only round 3 of each" in text_of(plain(found["said"]))
    state, _, _ = seen(modes, f"{MODES}&window={low}-{high - 1}")
    starts = [int(modes.opened(f"green-context-{mode}").trace.column("ops", "start_ns")[0]) for mode in "bac"]
    assert [side[0][0] - start for side, start in zip(state["windows"], starts, strict=True)] == [
        low - starts[0]
    ] * 3


def test_timelines_are_shifted_so_that_the_chosen_moments_meet(modes):
    def origins(search):
        state, _, _ = seen(modes, search)
        traces = [modes.opened(one["trace"]).trace for one in state["shown"]]
        return state, traces

    state, traces = origins(MODES)
    starts = [int(trace.column("ops", "start_ns")[0]) for trace in traces]
    assert {start + shift for start, shift in zip(starts, state["shifts"], strict=True)} == {max(starts)}
    assert min(state["shifts"]) == 0
    state, traces = origins(f"{MODES}&align=range:round 3")
    assert state["align"] == "range:round 3"
    rounds = [
        next(row["start_ns"] for row in trace.table("ranges").to_pylist() if row["name"] == "round 3")
        for trace in traces
    ]
    assert {start + shift for start, shift in zip(rounds, state["shifts"], strict=True)} == {max(rounds)}
    assert state["window"][0] < max(rounds) < state["window"][1]
    state, _ = origins(f"{MODES}&align=op:stamped_critical")
    assert state["align"] == "op:stamped_critical"
    state, _ = origins(f"{MODES}&align=op:no such operation")
    assert state["align"] == "start"


def test_the_choices_show_what_is_compared(modes):
    state, _, _ = seen(modes, MODES)
    data, base, others, runs, repeats, aligns, align = show_choices(modes, state, f"?{MODES}")
    assert [one["value"] for one in data] == ["green-context-a", "green-context-b", "green-context-c"]
    assert (base, runs, repeats, align) == (
        ["green-context-b"],
        ["green-context-a", "green-context-c"],
        "runs",
        "start",
    )
    assert "green-context-b" not in [one["value"] for one in others]
    assert {"start", "range:round 0", "op:bulk"} <= {one["value"] for one in aligns}


def test_a_baseline_alone_says_what_is_missing(modes):
    state, is_done, said = seen(modes, "base=green-context-a")
    assert is_done
    assert not state["ready"]
    assert "Choose a second run" in str(said)
    assert compared(modes, state)["style"] == {"display": "none"}


def test_traces_that_cannot_be_opened_are_named(store):
    state, is_done, said = seen(store, "base=small&runs=broken,nobody")
    assert is_done
    assert not state["ready"]
    assert "broken.overlane" in str(said)
    assert "nobody" in str(said)


def test_traces_that_are_being_opened_are_waited_for(own_store):
    state, is_done, said = seen(own_store, "base=small&runs=second")
    if not is_done:  # it may have been opened meanwhile
        assert not state["ready"]
        assert "Opening second" in str(said)
    settle(own_store, "second")
    state, is_done, _ = seen(own_store, "base=small&runs=second")
    assert is_done
    assert state["ready"]


def test_other_pages_cost_nothing(modes):
    state, again, _ = follow(modes, f"?{MODES}", "/timeline", None, None)
    assert again is None
    assert type(state).__name__ == "NoUpdate"


def test_what_appeared_and_vanished_stands_in_the_table(samples, cache):
    store = TraceStore(
        [samples["graph-replay-stream.overlane"], samples["graph-replay-graph.overlane"]], cache=cache
    )
    for name in ("graph-replay-stream", "graph-replay-graph"):
        settle(store, name)
    state, _, _ = seen(store, "base=graph-replay-stream&runs=graph-replay-graph")
    operations = compared(store, state)["operations"]
    words = {row["stream_role"]: row["verdict_0"] for row in operations if row["name"] == "plus_one"}
    assert "vanished" in words.values()
    assert "appeared" in words.values()
    store.close()
