"""Over-strong synchronizations: random programs against an explicit graph, and small ones by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlane
from helpers.blueprint import blueprint
from helpers.happens import Act, programs, trace_of, truth_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.order import happens_before
from overlane.analysis.over_strong import over_strong
from overlane.analysis.redundant_waits import redundant_waits
from overlane.analysis.rows.over_strong import checked_words, over_strong_counts, over_strong_rows
from overlane.analysis.study import Study
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.schema import TABLES

DOCUMENT = Path(__file__).parents[3] / "docs" / "report.md"
STRONG = ("stream_sync", "context_sync", "device_sync")
ITEMS = ("op", "programmatic", "copy_back", "copy_out", "host")
KINDS = (
    *["op"] * 6, "programmatic", "copy_back", *["copy_out"] * 2, *["record"] * 3, *["wait"] * 3, "event_sync",
    *["stream_sync"] * 3, "context_sync", "device_sync", "device_sync", "stream_query", "host",
)  # fmt: skip
SMALL = programs(18, least=6, kinds=KINDS, few=True, touches=(1, 1))
MIXED = SMALL | programs(20, least=6, kinds=KINDS) | programs(20, least=6, kinds=KINDS, touches=(1, 2))


def begun(acts):
    """Let each thread wait for all streams first, as nothing is known of what came before the recording."""
    threads = sorted({act.thread for act in acts})
    return [Act("device_sync", thread, stream) for thread in threads for stream in (4, 6)] + acts


def of_acts(acts):
    """Return the operation whose event would do in place of each that is found, and those checked."""
    trace, op_of, _ = trace_of(acts)
    deps = dependencies(trace)
    order = happens_before(trace, deps)
    gone = redundant_waits(trace, deps, order)
    found = over_strong(trace, deps, order, gone)
    act_of = [ns // 10 for ns in trace.table("syncs")["start_ns"].to_pylist()]
    act_of_op = {op: act for act, op in op_of.items()}
    rows = [found.row(place) for place in range(len(found))]
    event = {act_of[row.sync_id]: None if row.op_id is None else act_of_op[row.op_id] for row in rows}
    silent = {act_of[row] for row in gone.sync[gone.is_certain].tolist() if acts[act_of[row]].kind in STRONG}
    return event, silent, {act_of[row] for row, code in enumerate(found.reason.tolist()) if code == 0}


def overlaps(a, b):
    return any(
        x[0] < y[0] + y[1] and y[0] < x[0] + x[1] and (x[2] or y[2]) for x, y in product(a.touches, b.touches)
    )


def conflicts(a, b):
    """Tell whether two actions may touch the same bytes, one of them writing; an operation may hide that."""
    hidden = [act.kind != "host" and not act.touches for act in (a, b)]
    return overlaps(a, b) or (
        any(hidden) and all(h or act.touches for h, act in zip(hidden, (a, b), strict=True))
    )


def is_for_host(acts, i):
    """Tell whether the host may need what an operation writes: the target of a copy, or what is not told."""
    act = acts[i]
    if act.kind == "host":
        return False
    told = {byte for a in acts if a.kind == "host" for t in a.touches for byte in range(t[0], t[0] + t[1])}
    writes = [t for t in act.touches if t[2]]
    if act.kind in {"op", "programmatic"}:
        return not act.touches
    return not writes or any(byte not in told for t in writes for byte in range(t[0], t[0] + t[1]))


def kept(acts, truth, *, at_end=True):
    """Return what has to be so: pairs of items in order, and items that a thread knows to be over by then."""
    items = [i for i, act in enumerate(acts) if act.kind in ITEMS and (act.touches or act.kind != "host")]
    found = {
        ("before", a, b)
        for a, b in product(items, items)
        if a < b and truth.before(a, b) and conflicts(acts[a], acts[b])
    }
    ends = {act.thread: i for i, act in enumerate(acts)}
    for a, (i, act) in product(items, enumerate(acts)):
        if act.kind in {*STRONG, "event_sync", "copy_back", "stream_query"} or (
            at_end and ends[act.thread] == i
        ):
            is_needed = is_for_host(acts, a) or (at_end and ends[act.thread] == i)
            if is_needed and truth.reach[truth.end[a], truth.done[i]]:
                found.add(("over", a, i))
    return found


@settings(max_examples=150, deadline=None)
@given(MIXED)
def test_events_in_place_of_all_that_are_found_keep_every_conflict_in_order(acts):
    acts = begun(acts)
    event, silent, checked = of_acts(acts)
    assert set(event) <= checked
    full, rest = kept(acts, truth_of(acts)), kept(acts, truth_of(acts, instead=event, mute=silent))
    assert full <= rest, (event, sorted(full - rest))


WEAK = tuple(kind for kind in KINDS if kind not in STRONG)
FEW = programs(12, least=4, kinds=WEAK, few=True, touches=(1, 1))


def is_raced(acts, truth):
    items = [i for i, act in enumerate(acts) if act.kind in ITEMS]
    return any(
        a < b and conflicts(acts[a], acts[b]) and not truth.before(a, b) for a, b in product(items, items)
    )


def can_be_weakened(acts, truth, i):
    """Tell whether an event behind some operation in place of a wait keeps all, and does not wait for all."""
    told = [
        a
        for a in truth.end
        if acts[a].kind != "host"
        and truth.reach[truth.end[a], truth.done[i]]
        and not truth.reach[truth.end[a], truth.done[i - 1]]
    ]
    whole = kept(acts, truth)
    for j in [None, *(a for a in truth.end if a < i and acts[a].kind != "host")]:
        less = truth_of(acts, instead={i: j})
        if whole <= kept(acts, less) and any(not less.reach[less.end[a], less.done[i]] for a in told):
            return True
    return False


@settings(max_examples=100, deadline=None)
@given(FEW, st.integers(2, 12), st.sampled_from(STRONG))
def test_a_single_one_is_found_exactly_where_some_event_would_do(acts, k, kind):
    at = min(k, len(acts) - 1)
    acts = [replace(act, thread=0) for act in acts]
    acts = begun([*acts[:at], Act(kind, 0, acts[at - 1].stream), *acts[at:]])
    at += 2
    truth = truth_of(acts)
    event, silent, checked = of_acts(acts)
    if at in checked and at not in silent and not is_raced(acts, truth):
        assert (at in event) == can_be_weakened(acts, truth, at)


def op(stream, *touches, kind="op"):
    return Act(kind, 0, stream, touches=touches)


ALL, LEFT, RIGHT = Act("device_sync"), (0, 8, True), (8, 8, True)
READ = (0, 8, False)


def events(*acts):
    return of_acts([ALL, *acts, ALL])[0]


def test_the_operation_that_a_later_one_needs_is_named():
    assert events(op(4, LEFT), op(3, RIGHT), ALL, op(2, READ)) == {3: 1}


def test_what_the_host_may_read_is_needed():
    assert events(op(4, LEFT, kind="copy_out"), op(3, RIGHT), ALL, op(2, RIGHT)) == {}
    assert events(op(4, LEFT, kind="copy_out"), op(3, RIGHT), ALL, op(3, RIGHT)) == {3: 1}


def test_declared_reads_of_the_host_say_when_it_reads():
    copy, read = op(4, LEFT, kind="copy_out"), Act("host", touches=(READ,))
    assert events(copy, op(3, RIGHT), ALL, op(3, RIGHT), ALL, read) == {3: None}


def test_nothing_is_named_where_nothing_needs_the_wait():
    assert events(op(4, LEFT), op(3, RIGHT), ALL, op(4, LEFT), op(3, RIGHT)) == {3: None}


def test_an_operation_that_declares_nothing_needs_all():
    assert events(op(4, LEFT), op(3, RIGHT), ALL, op(2)) == {}


def test_needs_in_several_streams_take_an_event_behind_all_of_them():
    both = (op(4, LEFT), Act("record", 0, 4, 1), op(3, RIGHT), Act("record", 0, 3, 2))
    joined = (Act("wait", 0, 2, 1), Act("wait", 0, 2, 2), op(2, (16, 1, True)))
    uses = op(5, (0, 16, True))
    assert events(*both, ALL, uses) == {}
    assert events(*both, *joined, ALL, uses) == {}  # the event waits for all that the whole wait does
    assert events(*both, *joined, op(2, (17, 1, True)), ALL, uses, op(2, (17, 1, True))) == {9: 7}


def test_what_an_open_hazard_touches_is_not_judged():
    acts = [ALL, op(4, LEFT), op(3, READ), ALL, op(4, RIGHT), op(3, (16, 8, True)), ALL]
    trace, _, _ = trace_of(acts)
    assert Study(trace).over_strong.unchecked() == {"first_wait": 1, "open_hazard": 1}


def test_rows_say_what_to_do_and_keep_to_the_window():
    trace, op_of, _ = trace_of([ALL, op(4, LEFT), op(3, RIGHT), ALL, op(2, READ), ALL])
    (row,) = over_strong_rows(Study(trace))
    assert (row["op_id"], row["more_count"], row["more_op_id"]) == (op_of[1], 1, op_of[2])
    assert (row["more_streams"], row["start_ns"], row["certainty"]) == ([23], 30, "likely")
    assert row["change"].startswith("Record an event in stream 1/24 after op (0), and wait for that event")
    section = DOCUMENT.read_text(encoding="utf-8").split("## over_strong\n")[1].split("\n## ")[0]
    assert set(row) == set(re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE))
    assert over_strong_rows(Study(trace, window=(40, 50))) == []
    assert over_strong_counts(Study(trace)) == {
        "over_strong_left_out": 0, "over_strong_unchecked": {"first_wait": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [("", "no_accesses"), ("call 9 cudaLaunchHostFunc 300-310", "hidden_work"),
     ("call 9 cudaIpcGetMemHandle 300-310", "shared_memory")],
)  # fmt: skip
def test_what_cannot_be_checked_is_counted_with_its_reason(line, reason):
    text = """
        call 1 cudaLaunchKernel 0-5
        op 1 s1 kernel 10-100
        call 2 cudaDeviceSynchronize 6-105
        sync 2 device - 6-105
        call 3 cudaDeviceSynchronize 120-125
        sync 3 device - 120-125
    """
    trace = blueprint(text + line)
    if line:
        columns = {"op_id": [0], "address": [0], "bytes": [8], "mode": ["read"], "certainty": ["declared"]}
        tables = {name: trace.table(name) for name in TABLES}
        trace = validate("made", trace.header, tables | {"accesses": table_from_columns("accesses", columns)})
    found = Study(trace).over_strong
    assert found.unchecked()[reason] == 2 - (
        reason == "hidden_work" and found.unchecked().get("first_wait", 0)
    )
    assert "0 of 2 synchronizations" in checked_words(Study(trace))


def test_waiting_in_every_step_is_too_much_where_the_host_reads_only_at_the_end(samples):
    trace = overlane.open_trace(samples["sync-scope-device.overlane"])
    end = max(trace.table("syncs")["end_ns"].to_pylist())
    thread = trace.table("syncs")["thread_id"][0].as_py()
    engine = trace.table("ops")["engine"].to_pylist()
    rows = trace.table("accesses").to_pylist()
    at_host = {"copy_h2d": "read", "copy_d2h": "write"}
    of_host = [r for r in rows if r["op_id"] is not None and r["mode"] == at_host.get(engine[r["op_id"]])]
    rows += [r | {"op_id": None, "thread_id": thread, "at_ns": end + 1, "mode": "read"} for r in of_host]
    columns = {name: [row[name] for row in rows] for name in trace.table("accesses").schema.names}
    tables = {name: trace.table(name) for name in TABLES}
    made = validate("made", trace.header, tables | {"accesses": table_from_columns("accesses", columns)})
    found = Study(made).over_strong
    assert sorted(found.sync.tolist()) == list(range(1, 12))
    assert {found.row(place).op_id for place in range(len(found))} == {None}
    assert int(found.sooner_ns.sum()) > 4_000_000
