"""Matching, measures and verdicts of comparisons: planted answers, and how often verdicts are wrong."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overlane
from overlane.analysis.compare import compare, compare_studies
from overlane.analysis.engines import engine_report
from overlane.analysis.matching import group, pair, plain_name
from overlane.analysis.measures import measure
from overlane.analysis.study import Study
from overlane.errors import OverlaneError
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Header, IntegrityCheck

HEADER = Header("made", driver_version="580.1", parameters={"workload": "made", "mode": "a"})


def trace_of(ops, *, header=HEADER, streams=(), ranges=(), device="GPU X", name="made"):
    """Operations are (stream, name, start, end) or (stream, name, start, end, further columns)."""
    rows = [(*op, {})[:5] if len(op) == 4 else op for op in ops]
    columns = {
        "device_id": [0] * len(rows),
        "context_id": [1] * len(rows),
        "stream_id": [row[0] for row in rows],
        "engine": ["copy_h2d" if row[1].startswith("Memcpy") else "compute" for row in rows],
        "kind": ["memcpy" if row[1].startswith("Memcpy") else "kernel" for row in rows],
        "name": [row[1] for row in rows],
        "start_ns": [int(row[2]) for row in rows],
        "end_ns": [int(row[3]) for row in rows],
    }
    for extra in {key for row in rows for key in row[4]}:
        columns[extra] = [row[4].get(extra) for row in rows]
    tables = {
        "ops": table_from_columns("ops", columns),
        "devices": table_from_columns("devices", {"device_id": [0], "name": [device], "sm_count": [132]}),
        "streams": table_from_columns(
            "streams",
            {
                "device_id": [0] * len(streams),
                "context_id": [1] * len(streams),
                "stream_id": [one[0] for one in streams],
                "name": [one[1] for one in streams],
                "stream_kind": [one[2] if len(one) > 2 else None for one in streams],
            },
        ),
        "ranges": table_from_columns(
            "ranges",
            {
                "thread_id": [1] * len(ranges),
                "track": ["annotation"] * len(ranges),
                "name": [one[0] for one in ranges],
                "start_ns": [int(one[1]) for one in ranges],
                "end_ns": [int(one[2]) for one in ranges],
            },
        ),
    }
    return validate(name, header, tables)


def run_of(generator, *, factor=1.0, kernels=("gemm", "add", "norm"), steps=0, count=40, spread=0.03):
    """A run of kernels one after the other, with spread durations; `factor` stretches the first kernel."""
    ops, ranges, now = [], [], 1000.0
    for turn in range(count):
        since = now
        for kernel in kernels:
            length = 10_000 * np.exp(generator.normal(0, spread)) * (factor if kernel == kernels[0] else 1)
            ops.append((7, kernel, now, now + length))
            now += length + 500
        if turn < steps:
            ranges.append((f"step {turn}", since - 200, now - 200))
    return trace_of(ops, ranges=ranges)


def words(comparison):
    return {row.name: row.verdict.word for row in comparison.operations}


# ---- how often verdicts are right


def test_equal_runs_are_hardly_ever_told_apart():
    generator = np.random.default_rng(11)
    trials, wrong_rows, wrong_wholes = 120, 0, 0
    for _ in range(trials):
        sides = (run_of(generator, steps=12, count=12) for _ in range(2))
        found = compare(*sides, least_fraction=0)
        wrong_rows += any(word in {"faster", "slower"} for word in words(found).values())
        wrong_wholes += any(x.verdict.word in {"faster", "slower"} for x in found.metrics)
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
    assert wrong_rows / trials <= allowed
    assert wrong_wholes / trials <= allowed


def test_a_planted_tenth_is_found_and_nothing_else():
    generator = np.random.default_rng(12)
    trials, found = 40, Counter()
    for _ in range(trials):
        one = compare(run_of(generator, factor=1.1, steps=30), run_of(generator, steps=30))
        found.update(f"{name} {word}" for name, word in words(one).items())
        found[f"whole {one.verdict}"] += 1
    assert found["gemm slower"] == trials
    assert found["whole slower"] >= 0.9 * trials
    assert (
        found["add slower"] + found["add faster"] + found["norm slower"] + found["norm faster"]
        <= 0.1 * trials
    )


def test_captures_that_differ_as_wholes_are_not_taken_for_a_change():
    """Clocks of runs differ by 3 %: occurrences of two captures tell them apart, five captures do not."""
    generator = np.random.default_rng(13)

    def side():
        return [run_of(generator, count=20, spread=0.005) for _ in range(5)]

    def clocked(trace, factor):
        ops = trace.table("ops").to_pylist()
        return trace_of([(7, op["name"], op["start_ns"] * factor, op["end_ns"] * factor) for op in ops])

    trials, single, several = 30, 0, 0
    for _ in range(trials):
        sides = [[clocked(one, np.exp(generator.normal(0, 0.03))) for one in side()] for _ in range(2)]
        single += words(compare(sides[0][0], sides[1][0]))["gemm"] in {"faster", "slower"}
        several += words(compare(sides[0], sides[1]))["gemm"] in {"faster", "slower"}
    assert single > trials / 2, "the planted difference of clocks is there"
    assert several / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_the_basis_is_said():
    generator = np.random.default_rng(14)
    one = compare(run_of(generator), run_of(generator))
    assert (one.operation_basis, one.metric_basis) == ("pairs", "none")
    assert one.verdict == "not comparable"
    assert "noise is not known" in one.metrics[0].verdict.reason
    for said in (one.basis_sentence, one.metrics[0].verdict.reason):
        assert "three or more captures a side (`overlane run WORKLOAD --repeat 5`" in said
    assert {row.basis for row in one.operations} == {"pairs"}
    steps = compare(run_of(generator, steps=10), run_of(generator, steps=10))
    assert (steps.metric_basis, steps.step) == ("steps", "step *")
    three = compare([run_of(generator) for _ in range(3)], [run_of(generator) for _ in range(4)])
    assert (three.operation_basis, three.metric_basis, three.step) == ("captures", "captures", "")
    assert three.basis_sentence == "Intervals rest on 4 and 3 captures."
    assert three.operations[0].judgement.units == (4, 3)
    assert three.metrics[0].judgement.units == (4, 3)


def steps_with_a_copy(length, *, projected=False):
    """Steps on the host with a copy before each one, and kernels that lag behind the host by two steps."""
    ops, ranges = [], []
    for k in range(10):
        begin = 10_000 * k
        ops += [
            (13, "Memcpy HtoD", begin, begin + length + k % 3),
            (7, "gemm", begin + 20_000, begin + 25_000 + k % 2),
        ]
        ranges.append((f"step {k}", begin + 4000, begin + 6000))
    trace = trace_of(ops, ranges=ranges)
    if not projected:
        return trace
    tables = {name: trace.table(name) for name in ("ops", "devices")}
    names = [one[0] for one in ranges] * 2
    tables["ranges"] = table_from_columns(
        "ranges",
        {
            "thread_id": [1] * 10 + [None] * 10,
            "track": ["annotation"] * 10 + ["device_annotation"] * 10,
            "name": names,
            "start_ns": [one[1] for one in ranges] + [20_000 + 10_000 * k for k in range(10)],
            "end_ns": [one[2] for one in ranges] + [25_000 + 10_000 * k for k in range(10)],
        },
    )
    return validate("made", HEADER, tables)


def test_nothing_falls_between_two_steps():
    found = compare(steps_with_a_copy(1000), steps_with_a_copy(3000))
    change = next(x for x in found.metrics if (x.metric, x.of) == ("engine_busy_ns", "copy_h2d"))
    assert change.verdict.word == "faster"
    assert change.judgement.change == pytest.approx(-2000, abs=2)
    assert change.judgement.units == (8, 8)


def test_steps_are_those_of_the_device_where_it_tells():
    found = compare(*(steps_with_a_copy(1000, projected=True) for _ in range(2)))
    change = next(x for x in found.metrics if (x.metric, x.of) == ("engine_busy_ns", "compute"))
    # Each step of the device holds its kernel; on the host's the first two steps would hold none.
    assert change.judgement.baseline == pytest.approx(5000, abs=1)
    assert change.verdict.word == "no difference beyond noise"


def test_a_sure_change_of_next_to_nothing_does_not_count():
    def run(length):
        ops = [(7, "gemm", 100_000 * k, 100_000 * k + 90_000 + k % 3) for k in range(12)]
        ops += [(13, "Memcpy HtoD", 100_000 * k + 95_000, 100_000 * k + 95_000 + length) for k in range(12)]
        return trace_of(ops, ranges=[(f"step {k}", 100_000 * k, 100_000 * k + 600) for k in range(12)])

    found = compare(run(40), run(20))
    change = next(x for x in found.metrics if (x.metric, x.of) == ("engine_busy_ns", "copy_h2d"))
    assert change.verdict.word == "no difference beyond noise"
    assert "less than 0.1 % of the window" in change.verdict.reason


def test_a_number_that_lies_outside_of_the_steps_is_not_judged_by_them():
    def run(length):
        ops = [(7, "gemm", 1000 * k, 1000 * k + 500 + k % 3) for k in range(12)]
        ops += [(13, "Memcpy HtoD", 50_000, 50_000 + length)]
        return trace_of(ops, ranges=[(f"step {k}", 1000 * k, 1000 * k + 600) for k in range(12)])

    found = compare(run(100), run(9000))
    change = next(x for x in found.metrics if (x.metric, x.of) == ("engine_busy_ns", "copy_h2d"))
    assert (change.verdict.word, change.verdict.reason) == (
        "not comparable",
        "Most of it lies outside of the steps.",
    )


def test_a_change_that_is_too_small_to_count():
    generator = np.random.default_rng(15)
    sides = run_of(generator, factor=1.004, spread=1e-4), run_of(generator, spread=1e-4)
    row = next(row for row in compare(*sides).operations if row.name == "gemm")
    assert row.verdict.word == "no difference beyond noise"
    assert "does not count" in row.verdict.reason
    assert words(compare(*sides, least_fraction=0.001))["gemm"] == "slower"


# ---- what forbids a verdict


def headed(**changes):
    return {"header": dataclasses.replace(HEADER, **changes)}


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("devices", {"device": "GPU Y"}, r"devices differ: GPU X \(132 SMs\) against GPU Y"),
        ("drivers", headed(driver_version="590.2"), "drivers differ: 580.1 against 590.2"),
        ("workloads", headed(parameters={"workload": "other"}), "workloads differ: made against other"),
        (
            "integrity",
            headed(integrity=(IntegrityCheck("dropped_records", "failed", 3, "gone"),)),
            "fails dropped records",
        ),
    ],
)
def test_runs_that_must_not_be_compared(kind, change, sentence):
    ops = [(7, "gemm", 1000 * k, 1000 * k + 100 + k % 3) for k in range(20)]
    slower = [(7, "gemm", 1000 * k, 1000 * k + 200 + k % 3) for k in range(20)]
    found = compare(trace_of(slower, **change), trace_of(ops))
    assert [reason.kind for reason in found.reasons] == [kind]
    assert found.reasons[0].sentence
    assert re.search(sentence, found.reasons[0].sentence)
    assert words(found) == {"gemm": "not comparable"}
    assert found.operations[0].verdict.reason == found.reasons[0].sentence
    assert found.operations[0].judgement.change > 1.9, "the numbers are shown all the same"
    accepted = compare(trace_of(slower, **change), trace_of(ops), accept=[kind])
    assert (accepted.reasons, words(accepted)) == ((), {"gemm": "slower"})


def test_runs_with_little_work_in_common_are_different_workloads():
    ops = [(7, "gemm", 1000 * k, 1000 * k + 100) for k in range(9)]
    other = [(7, "conv", 1000 * k, 1000 * k + 100) for k in range(8)] + [(7, "gemm", 9000, 9020)]
    found = compare(trace_of(other), trace_of(ops))
    assert [reason.kind for reason in found.reasons] == ["workloads"]
    assert "2 % of the candidate's" in found.reasons[0].sentence
    empty = compare(trace_of([]), trace_of(ops))
    assert "holds no device operation" in empty.reasons[-1].sentence
    assert empty.verdict == "not comparable"


def test_occurrences_of_different_work_are_not_compared_one_by_one():
    def copies(count, size):
        return [
            (7, "Memcpy HtoD (Pinned -> Device)", 1000 * k, 1000 * k + 100 + k % 2, {"bytes": size})
            for k in range(count)
        ]

    found = compare(trace_of(copies(4, 4_000_000)), trace_of(copies(16, 1_000_000)))
    (row,) = found.operations
    assert (row.baseline_count, row.candidate_count, row.verdict.word) == (16, 4, "not comparable")
    assert "1,000,000 bytes against 4,000,000" in row.verdict.reason
    assert row.difference_ns == (4 * 100 + 2) - (16 * 100 + 8)

    def launches(blocks):
        return [
            (7, "add", 1000 * k, 1000 * k + 100, {"grid": [blocks, 1, 1], "block": [64, 1, 1]})
            for k in range(5)
        ]

    (row,) = compare(trace_of(launches(2)), trace_of(launches(8))).operations
    assert "512 threads against 128" in row.verdict.reason


def test_too_few_occurrences():
    (row,) = compare(trace_of([(7, "a", 0, 5), (7, "a", 9, 15)]), trace_of([(7, "a", 0, 5)] * 4)).operations
    assert (row.verdict.word, row.judgement) == ("not comparable", None)
    assert "4 against 2 times" in row.verdict.reason


def layers(factor, *, order="abc" * 8, noise=0):
    """Kernels of one name whose sizes differ a hundredfold by what they follow, as layers do."""
    lengths, ops, now = {"a": 1_000, "b": 20_000, "c": 100_000}, [], 0
    generator = np.random.default_rng(noise)
    for letter in order:
        length = lengths[letter] * factor * np.exp(generator.normal(0, 0.01))
        ops += [(7, f"before {letter}", now, now + 100), (7, "gemm", now + 200, now + 200 + length)]
        now += 300 + int(length)
    return trace_of(ops)


def test_pairs_tell_a_change_that_the_spread_of_sizes_hides():
    (row,) = [x for x in compare(layers(1.03, noise=1), layers(1)).operations if x.name == "gemm"]
    assert (row.pair_count, row.same_dependency_count, row.basis) == (24, 24, "pairs")
    assert row.verdict.word == "slower"
    assert 1.01 < row.judgement.low < row.judgement.change < row.judgement.high < 1.05
    assert row.judgement.units == (20, 20)


def test_pairs_hold_when_launches_are_left_out():
    """Without the third of its layers the candidate is as fast: partners are those that follow the same."""
    (row,) = [
        x for x in compare(layers(1, order="ac" * 8, noise=2), layers(1)).operations if x.name == "gemm"
    ]
    assert (row.baseline_count, row.candidate_count) == (24, 16)
    assert (row.pair_count, row.same_dependency_count) == (16, 16)
    assert row.verdict.word == "no difference beyond noise"
    assert 0.98 < row.judgement.change < 1.02


def test_occurrences_are_used_where_most_have_no_partner():
    ops = [(7, "gemm", 1000 * k, 1000 * k + 100 + k % 3) for k in range(40)]
    (row,) = compare(trace_of(ops[:10]), trace_of(ops)).operations
    assert (row.pair_count, row.basis, row.judgement.units) == (10, "occurrences", (20, 10))


# ---- windows


def test_only_what_lies_in_the_windows_is_compared():
    def run(lengths):
        return trace_of([(7, "gemm", 1000 * k, 1000 * k + length) for k, length in enumerate(lengths)])

    # The windows hold the four that differ and one more.
    baseline = run([100] * 10 + [101, 102, 103, 104] + [100] * 10)
    candidate = run([100] * 4 + [201, 202, 203, 204] + [100] * 2)
    found = compare_studies(
        [Study(candidate, window=(4000, 8100))], [Study(baseline, window=(10_000, 14_100))], least_fraction=0
    )
    (row,) = found.operations
    assert (row.baseline_count, row.candidate_count, row.pair_count) == (5, 5, 5)
    assert (row.baseline_work_ns, row.candidate_work_ns) == (510, 910)
    assert row.verdict.word == "slower"
    values = {x.metric: (x.baseline, x.candidate) for x in found.metrics}
    assert values["window_ns"] == (4100, 4100)
    assert values["busy_ns"] == (510, 910)
    assert values["idle_ns"] == (4100 - 510, 4100 - 910)


def test_what_appeared_and_vanished():
    found = compare(
        trace_of([(7, "a", 0, 50), (7, "new", 60, 90)]), trace_of([(7, "a", 0, 50), (7, "old", 60, 80)])
    )
    assert [(row.name, row.candidate_work_ns) for row in found.appeared] == [("new", 30)]
    assert [(row.name, row.baseline_work_ns, row.candidate_op) for row in found.vanished] == [
        ("old", 20, None)
    ]
    assert [row.name for row in found.operations] == ["a"]


def test_what_one_side_does_not_have_is_none_and_not_zero():
    found = compare(
        trace_of([(7, "a", 0, 50), (7, "Memcpy HtoD", 60, 90)]), trace_of([(7, "a", 0, 50), (7, "a", 60, 80)])
    )
    values = {(x.metric, x.of): (x.baseline, x.candidate, x.ratio) for x in found.metrics}
    assert values["engine_busy_ns", "copy_h2d"] == (None, 30, None)
    assert values["exposed_copy_ns", ""] == (None, 30, None)
    assert values["engine_busy_ns", "compute"] == (70, 50, 50 / 70)
    assert values["idle_ns", ""] == (10, 10, 1)


def test_waits_that_only_one_side_has_get_no_verdict():
    """Streams of other roles: the waits of one are no waits of 0 of the other."""

    def run(name, wait):
        ops = [(7, "a", 1000 * k, 1000 * k + 50, {"correlation_id": k}) for k in range(1, 9)]
        trace = trace_of(ops, streams=[(7, name)])
        calls = {
            "api": ["runtime"] * 8,
            "thread_id": [1] * 8,
            "name": ["cudaLaunchKernel"] * 8,
            "start_ns": [1000 * k - wait - 10 for k in range(1, 9)],
            "end_ns": [1000 * k - wait for k in range(1, 9)],  # issued
            "correlation_id": list(range(1, 9)),
        }
        tables = {table: trace.table(table) for table in ("ops", "devices", "streams", "ranges")}
        return validate("made", HEADER, tables | {"api_calls": table_from_columns("api_calls", calls)})

    found = compare([run("other", 300)] * 3, [run("first", 100)] * 3)
    waits = {x.of: x for x in found.metrics if x.metric == "wait_p50_ns"}
    assert {role: (x.baseline, x.candidate) for role, x in waits.items()} == {
        "first": (100, None),
        "other": (None, 300),
    }
    assert {x.verdict.word for x in waits.values()} == {"not comparable"}
    assert {x.verdict.reason for x in waits.values()} == {
        "Only one side has operations whose waits are known here."
    }


def test_parameters_that_differ_are_listed():
    other = dataclasses.replace(HEADER, parameters={"workload": "made", "mode": "b", "n": 3})
    found = compare(trace_of([(7, "a", 0, 5)], header=other), trace_of([(7, "a", 0, 5)]))
    assert [(p.name, p.baseline, p.candidate) for p in found.parameters] == [
        ("mode", "a", "b"),
        ("n", "not given", "3"),
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"level": 1.0}, "level 1.0"),
        ({"least_fraction": -1}, "least change -1"),
        ({"accept": ["x"]}, "'x' cannot"),
    ],
)
def test_arguments_out_of_range(options, sentence):
    with pytest.raises(OverlaneError, match=sentence):
        compare(trace_of([]), trace_of([]), **options)


def test_a_side_without_captures():
    with pytest.raises(OverlaneError, match="the baseline has no captures"):
        compare(trace_of([]), [])


# ---- matching


def test_streams_are_matched_by_what_they_do():
    one = trace_of(
        [(7, "gemm", 0, 5), (13, "Memcpy HtoD (Pageable -> Device)", 6, 9), (20, "reduce", 10, 12)]
    )
    other = trace_of(
        [(30, "reduce", 0, 5), (31, "gemm", 6, 9), (32, "Memcpy HtoD (Pinned -> Device)", 10, 12)]
    )
    groups = group([one, other])
    assert [sorted(Counter(capture.group.tolist()).values()) for capture in groups.captures] == [[1] * 3] * 2
    assert {key[1:] for key in groups.keys} == {
        ("stream 7", "kernel", "gemm"), ("stream 20", "kernel", "reduce"),
        ("stream 13", "memcpy", "Memcpy HtoD"),
    }  # fmt: skip


def test_named_streams_and_the_default_stream_keep_their_roles():
    one = trace_of(
        [(7, "a", 0, 1), (8, "a", 2, 3), (9, "a", 4, 5)],
        streams=[(7, None, "legacy_default"), (8, "chunks 0"), (9, "chunks 1")],
    )
    other = trace_of([(1, "b", 0, 1), (2, "a", 2, 3)], streams=[(1, None, "legacy_default"), (2, "chunks 0")])
    assert {key[1:] for key in group([one, other]).keys} == {
        ("default stream", "kernel", "a"), ("default stream", "kernel", "b"), ("chunks", "kernel", "a"),
    }  # fmt: skip


def test_a_stream_that_nothing_resembles_gets_a_role_of_its_own():
    groups = group([trace_of([(7, "a", 0, 1)]), trace_of([(7, "b", 0, 1)])])
    assert [key[1] for key in groups.keys] == ["stream 7", "stream 7 (another)"]


def test_occurrences_are_paired_by_what_they_follow_then_by_their_order():
    one = trace_of([(7, name, 10 * k, 10 * k + 5) for k, name in enumerate("abacab")])
    other = trace_of([(7, name, 10 * k, 10 * k + 5) for k, name in enumerate("acabb")])
    found = pair(*group([one, other]).captures)
    pairs = dict(zip(found.first.tolist(), found.second.tolist(), strict=True))
    # one: a0 b1 a2 c3 a4 b5; other: a0 c1 a2 b3 b4
    assert pairs == {0: 0, 1: 3, 3: 1, 4: 2, 5: 4}
    assert found.same_dependency.tolist() == [True, True, True, True, False]


LETTERS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2])), max_size=14)


@settings(deadline=None)
@given(LETTERS, LETTERS)
def test_pairs_against_counting(first, second):
    streams = [(1, "one"), (2, "two")]
    sides = [
        trace_of([(s, n, 10 * k, 10 * k + 5) for k, (n, s) in enumerate(x)], streams=streams)
        for x in (first, second)
    ]
    groups = group(sides)
    found = pair(*groups.captures)
    assert len(set(found.first.tolist())) == len(set(found.second.tolist())) == len(found.first)
    counts = [Counter(x) for x in (first, second)]
    assert len(found.first) == sum((counts[0] & counts[1]).values()), "every occurrence that can be paired is"
    for a, b in zip(found.first.tolist(), found.second.tolist(), strict=True):
        assert first[a] == second[b]

    def follows(rows, at):
        before = [n for n, s in rows[:at] if s == rows[at][1]]
        return before[-1] if before else None

    contexts = [Counter((x[k], follows(x, k)) for k in range(len(x))) for x in (first, second)]
    assert int(found.same_dependency.sum()) == sum((contexts[0] & contexts[1]).values())


@pytest.mark.parametrize(
    ("name", "kind", "plain"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "memcpy", "Memcpy HtoD"),
        ("Memset (Device)", "memset", "Memset"),
        ("memcpy_kernel (int)", "kernel", "memcpy_kernel (int)"),
        ("Memcpy", "memcpy", "Memcpy"),
    ],
)
def test_plain_names(name, kind, plain):
    assert plain_name(name, kind) == plain


# ---- measures


@pytest.mark.parametrize(
    "sample", ["torch_train_pinned.json.gz", "green-context-A.overlane", "vector-add-pinned.overlane"]
)
def test_measures_are_the_numbers_of_the_report(samples, sample):
    trace = overlane.open_trace(samples[sample])
    groups = group([trace])
    roles = groups.captures[0].group, [key[1] for key in groups.keys]
    window = (trace.span_ns // 3, trace.span_ns // 2)
    narrowed = {(m.measure.name, m.of): m for m in measure(Study(trace, window=window), roles=roles)}
    found = {(m.measure.name, m.of): m for m in measure(Study(trace), roles=roles, windows=[window])}
    (whole,) = engine_report(trace).devices
    (part,) = engine_report(trace, window=window).devices
    for name, of, ask in [
        ("busy_ns", "", lambda d: d.busy_ns),
        ("idle_ns", "", lambda d: d.idle_ns),
        ("exposed_copy_ns", "", lambda d: d.exposed_copy_ns),
        *[
            (
                "engine_busy_ns",
                use.engine,
                lambda d, e=use.engine: sum(u.busy_ns for u in d.engines if u.engine == e),
            )
            for use in whole.engines
        ],
        *[
            (
                "overlap_ns",
                f"{x.engine_a}+{x.engine_b}",
                lambda d, x=x: sum(
                    y.overlap_ns for y in d.overlap if (y.engine_a, y.engine_b) == (x.engine_a, x.engine_b)
                ),
            )
            for x in whole.overlap
        ],
    ]:
        assert found[name, of].value == ask(whole), (name, of)
        assert found[name, of].steps.tolist() == [ask(part)], (name, of)
        assert narrowed[name, of].value == ask(part) if (name, of) in narrowed else not ask(part), (name, of)
    assert found["window_ns", ""].value == whole.window_ns
    causes = [one for (name, _), one in found.items() if name == "idle_cause_ns"]
    assert sum(one.value for one in causes) == whole.idle_ns
    causes_inside = [one.value for (name, _), one in narrowed.items() if name == "idle_cause_ns"]
    assert sum(causes_inside) == narrowed["idle_ns", ""].value == part.idle_ns
    low, high = max(window[0], whole.window[0]), min(window[1], whole.window[1])
    inside = max(high - low, 0)
    assert sum(one.steps[0] for one in causes) == part.idle_ns - (window[1] - window[0]) + inside
    barriers = Study(trace).barriers
    lost = [one.value for (name, _), one in found.items() if name == "barrier_lost_ns"]
    every = [barriers[place] for place in range(len(barriers))]
    assert sum(lost) == sum(one.lost_ns for one in every if one.ops_held)
    assert found["idle_ns", ""].proof == tuple(whole.idle_longest)


def test_json_is_plain_and_complete():
    generator = np.random.default_rng(16)
    found = compare(run_of(generator, steps=6), run_of(generator, steps=6))
    values = json.loads(json.dumps(found.to_json()))
    assert values["schema"] == 1
    assert values["verdict"] == found.verdict
    assert {row["name"] for row in values["operations"]} == {"gemm", "add", "norm"}
    assert values["metrics"][0]["verdict"]["reason"]


def test_the_public_function_opens_paths(samples):
    found = overlane.compare(samples["green-context-A.overlane"], [samples["green-context-B.overlane"]])
    critical = next(row for row in found.operations if row.stream_role == "critical")
    assert (critical.baseline_count, critical.candidate_count) == (10, 10)
    assert critical.verdict.word == "faster"
    assert [(p.name, p.baseline, p.candidate) for p in found.parameters] == [("mode", "B", "A")]
