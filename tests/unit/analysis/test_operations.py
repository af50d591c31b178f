"""Groups, nesting and flames against looking at every row by itself."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.analysis.flame import flame
from overlane.analysis.nesting import nesting, stem_of
from overlane.analysis.operations import Grouping, family_of, operations
from overlane.analysis.workloads import resident_fractions
from overlane.errors import OverlaneError
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Header


def made(**tables):
    built = {name: table_from_columns(name, columns) for name, columns in tables.items()}
    return validate("made", Header("made"), built)


OPS = {
    "rank": [None] * 5,
    "device_id": [0] * 5,
    "context_id": [1] * 5,
    "stream_id": [7, 7, 13, 7, None],
    "engine": ["compute", "compute", "copy_h2d", "compute", None],
    "kind": ["kernel", "kernel", "memcpy", "kernel", "other"],
    "name": ["add<1>(int)", "add<2>(int)", "Memcpy HtoD (Pinned -> Device)", "add<1>(int)", "odd"],
    "start_ns": [0, 100, 150, 300, 400],
    "end_ns": [50, 250, 350, 310, None],
    "bytes": [None, None, 4000, None, None],
    "registers": [16, 32, None, 16, None],
    "grid": [[2, 3, 1], [4, 1, 1], None, [2, 3, 1], None],
    "correlation_id": [1, 2, 3, 4, None],
}
CALLS = {
    "api": ["runtime"] * 4,
    "process_id": [5] * 4,
    "thread_id": [1, 1, 1, 2],
    "name": ["launch"] * 4,
    "start_ns": [5, 20, 40, 60],
    "end_ns": [6, 21, 41, 61],
    "correlation_id": [1, 2, 3, 4],
}
RANGES = {
    "process_id": [5] * 5,
    "thread_id": [1, 1, 1, 2, 1],
    "track": ["annotation", "operator", "operator", "operator", "device_annotation"],
    "name": ["step 1", "aten::add", "aten::copy_", "aten::add", "step 1"],
    "start_ns": [0, 4, 38, 55, 0],
    "end_ns": [50, 30, 45, 70, 500],
}


@pytest.fixture(scope="module")
def trace():
    return made(ops=OPS, api_calls=CALLS, ranges=RANGES)


def facts(found):
    return {group.label: (group.op_count, group.work_ns) for group in found.groups}


def test_groups_of_a_trace_that_is_reckoned_by_hand(trace):
    # The last stamp is 500, so the operation without an end lasts 100.
    assert facts(operations(trace)) == {
        "Memcpy HtoD (Pinned -> Device)": (1, 200),
        "add<2>(int)": (1, 150),
        "odd": (1, 100),
        "add<1>(int)": (2, 60),
    }
    assert facts(operations(trace, by="family")) == {
        "add": (3, 210),
        "Memcpy HtoD": (1, 200),
        "odd": (1, 100),
    }
    assert facts(operations(trace, by="stream")) == {
        "GPU 0 · stream 7": (3, 210),
        "GPU 0 · stream 13": (1, 200),
        "GPU 0 · stream not recorded": (1, 100),
    }
    by_range = operations(trace, by="range")
    assert facts(by_range) == {"step *": (3, 400), "outside of any range": (2, 110)}
    assert by_range.note == "2 of 5 operations have no record of an annotation around their launch."
    assert facts(operations(trace, by="operator")) == {
        "aten::add": (3, 210),
        "aten::copy_": (1, 200),
        "launched by no operator": (1, 100),
    }


def test_what_is_said_of_a_group(trace):
    group = next(g for g in operations(trace, by="family").groups if g.label == "add")
    assert (group.kind, group.engine) == ("kernel", "compute")
    assert (group.least_ns, group.median_ns, group.most_ns) == (10, 50, 150)
    assert (group.registers, group.grid_blocks, group.shared_bytes) == ((16, 32), (4, 6), None)
    assert (group.longest_op, group.longest_start_ns, group.longest_end_ns) == (1, 100, 250)
    assert (group.bytes, group.bytes_ns) == (None, 0)
    copy = next(g for g in operations(trace).groups if g.label.startswith("Memcpy"))
    assert (copy.bytes, copy.bytes_ns) == (4000, 200)


def test_a_window_cuts_the_operations(trace):
    found = operations(trace, by="family", window=(120, 305))
    assert facts(found) == {"add": (2, 130 + 5), "Memcpy HtoD": (1, 155)}
    assert found.work_ns == 290
    assert operations(trace, window=(355, 400)).op_count == 0
    with pytest.raises(OverlaneError, match="ends before it starts"):
        operations(trace, window=(3, 2))


@pytest.mark.parametrize("by", get_args(Grouping))
def test_a_trace_without_rows_has_no_groups(by):
    found = operations(made(), by=by)
    assert (found.groups, found.work_ns) == ((), 0)


def test_shapes_tell_calls_of_one_operator_apart():
    attributes = {
        "table": ["ranges"] * 3,
        "row_id": [0, 1, 2],
        "template": ['{"Input Dims": [[#, #]]}'] * 3,
        "integers": [[2, 3], [4, 5], [2, 3]],
    }
    ranges = {
        "thread_id": [1] * 3, "track": ["operator"] * 3, "name": ["aten::mm"] * 3,
        "start_ns": [0, 10, 20], "end_ns": [9, 19, 29],
    }  # fmt: skip
    calls = {
        "api": ["runtime"] * 3, "thread_id": [1] * 3, "name": ["launch"] * 3,
        "start_ns": [1, 11, 21], "end_ns": [2, 12, 22], "correlation_id": [1, 2, 3],
    }  # fmt: skip
    ops = {
        "kind": ["kernel"] * 3, "name": ["gemm"] * 3, "start_ns": [2, 12, 22], "end_ns": [5, 18, 28],
        "correlation_id": [1, 2, 3],
    }  # fmt: skip
    found = operations(made(ops=ops, api_calls=calls, ranges=ranges, attributes=attributes), by="operator")
    assert [(g.label, g.shapes, g.op_count, g.work_ns) for g in found.groups] == [
        ("aten::mm", "[[2, 3]]", 2, 9),
        ("aten::mm", "[[4, 5]]", 1, 6),
    ]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("", ""),
        ("add", "add"),
        ("void f<a<b>, c>::g(int (*)(long))", "f::g"),
        ("void cutlass::Kernel2<cutlass_80_gemm_128x256<x> >(P)", "cutlass_#_gemm_#x#"),
        ("(anonymous namespace)::k<1>()", "anonymous::k"),
        ("<>", "<>"),
    ],
)
def test_families(name, family):
    assert family_of(name) == family


SPANS = st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from("abc"), st.integers(1, 2))


@st.composite
def nested_rows(draw):
    """Ranges that lie in one another or apart, per thread, as host threads record them."""
    rows = []
    for start, length, name, thread in draw(st.lists(SPANS, max_size=12)):
        end = start + length + 1
        if all(
            other != thread
            or e <= start
            or end <= s
            or (s <= start and end <= e)
            or (start <= s and e <= end)
            for s, e, _, other in rows
        ):
            rows.append((start, end, name, thread))
    calls = draw(st.lists(st.tuples(st.integers(0, 45), st.integers(1, 2), st.integers(1, 9)), max_size=8))
    return rows, calls


def nested_trace(rows, calls):
    ranges = {
        "thread_id": [r[3] for r in rows], "track": ["operator"] * len(rows), "name": [r[2] for r in rows],
        "start_ns": [r[0] for r in rows], "end_ns": [r[1] for r in rows],
    }  # fmt: skip
    api = {
        "api": ["runtime"] * len(calls), "thread_id": [c[1] for c in calls], "name": ["launch"] * len(calls),
        "start_ns": [c[0] for c in calls], "end_ns": [c[0] for c in calls],
        "correlation_id": list(range(len(calls))),
    }  # fmt: skip
    ops = {
        "kind": ["kernel"] * len(calls), "name": ["k"] * len(calls),
        "start_ns": [100 + 10 * i for i in range(len(calls))],
        "end_ns": [100 + 10 * i + c[2] for i, c in enumerate(calls)],
        "correlation_id": list(range(len(calls))),
    }  # fmt: skip
    return made(ranges=ranges, api_calls=api, ops=ops)


@settings(deadline=None)
@given(nested_rows())
def test_nesting_and_flames_against_looking_at_every_range(drawn):
    rows, calls = drawn
    trace = nested_trace(rows, calls)
    table = trace.table("ranges").to_pylist()

    def around(at, thread):
        """Row ids of the ranges that hold an instant, outermost first."""
        held = [
            (row["start_ns"], -row["end_ns"], i)
            for i, row in enumerate(table)
            if row["thread_id"] == thread and row["start_ns"] <= at < row["end_ns"]
        ]
        return [i for *_, i in sorted(held)]

    nested = nesting(trace)
    expected = [(around(call[0], call[1]) or [None])[-1] for call in calls]
    found = [None if place < 0 else int(nested.row[place]) for place in nested.op_range]
    assert found == expected
    device, total = defaultdict(int), 0
    for call, inner in zip(calls, expected, strict=True):
        if inner is not None:
            path = tuple(table[i]["name"] for i in around(call[0], call[1]))
            for depth in range(1, len(path) + 1):
                device[path[:depth]] += call[2]
            total += call[2]
    answer = flame(trace)
    assert paths(answer) == dict(device)
    assert (answer.total_ns, answer.left_out) == (total, 0)
    assert answer.unplaced_ns == sum(call[2] for call in calls) - total


def paths(answer):
    """The total of each path of names."""
    of_frame, found = {}, {}
    for frame in answer.frames:
        of_frame[frame.frame] = (*of_frame.get(frame.parent, ()), frame.name)
        found[of_frame[frame.frame]] = frame.total_ns
    return found


def test_time_on_the_host_adds_up(trace):
    answer = flame(trace, weight="host")
    assert paths(answer) == {
        ("step *",): 50, ("step *", "aten::add"): 26, ("step *", "aten::copy_"): 7, ("aten::add",): 15,
    }  # fmt: skip
    assert {frame.name: frame.self_ns for frame in answer.frames}["step *"] == 50 - 26 - 7
    assert answer.total_ns == 65
    cut = flame(trace, weight="host", window=(10, 40))
    assert paths(cut) == {("step *",): 30, ("step *", "aten::add"): 20, ("step *", "aten::copy_"): 2}


def test_the_lightest_frames_are_left_out_and_counted(trace):
    answer = flame(trace, weight="host", most=2)
    assert paths(answer) == {("step *",): 50, ("step *", "aten::add"): 26}
    assert answer.left_out == 2


def test_occupancy_is_what_fits_and_what_the_grid_has():
    ops = {
        "device_id": [0, 0, 0, 1], "kind": ["kernel"] * 4, "name": ["k"] * 4,
        "start_ns": [0, 1, 2, 3], "end_ns": [1, 2, 3, 4],
        "grid": [[10_000, 1, 1], [132, 1, 1], None, [1, 1, 1]],
        "block": [[256, 1, 1], [256, 1, 1], None, [32, 1, 1]],
        "registers": [64, 64, None, 16],
    }  # fmt: skip
    devices = {"device_id": [0, 1], "sm_count": [132, None], "compute_capability": ["9.0", None]}
    trace = made(ops=ops, devices=devices)
    # 64 registers of 256 threads: four blocks fit; one where the grid has one per SM.
    assert resident_fractions(trace, [0, 1, 2, 3]) == [4 * 256 / 2048, 256 / 2048, None, None]


def test_medians_of_many(samples):
    import overlane  # noqa: PLC0415

    trace = overlane.open_trace(samples["torch_train_pinned.json.gz"])
    lengths = defaultdict(list)
    for row in trace.table("ops").select(["name", "start_ns", "end_ns"]).to_pylist():
        lengths[row["name"]].append(row["end_ns"] - row["start_ns"])
    for group in operations(trace).groups:
        assert group.median_ns == int(statistics.median(lengths[group.label]))
        assert group.op_count == len(lengths[group.label])


def test_stems():
    assert [stem_of(name) for name in ("", "step", "step 10", "a#1b", "x_9")] == [
        "",
        "step",
        "step *",
        "a#1b",
        "x_*",
    ]
