"""Rows of findings against the same sums made by hand from the analyses' own lists."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import overlane
from overlane.analysis.rows.barriers import barrier_rows, barrier_sums
from overlane.analysis.rows.hazards import hazard_rows, hazard_sides
from overlane.analysis.rows.naming import row_name
from overlane.analysis.rows.path import (
    longest_links,
    path_by_kind,
    path_by_name,
    path_rows,
    slack_counts,
    slack_rows,
)
from overlane.analysis.rows.waits import QUANTILES, wait_spreads
from overlane.analysis.study import Study
from overlane.samples import sample_path

NAMES = ("synthetic_barriers", "green-context-A", "stream-contract-early-free", "torch_train_pageable")


@pytest.fixture(scope="module", params=NAMES)
def study(request):
    return Study(overlane.open_trace(sample_path(request.param)))


@pytest.fixture(scope="module")
def unordered():
    return Study(overlane.open_trace(sample_path("stream-contract-early-free")))


def length(row):
    return row["end_ns"] - row["start_ns"]


def name_of(study, row):
    if row["op_id"] is not None:
        return study.trace.row("ops", row["op_id"])["name"]
    return "-" if row["call_id"] is None else study.trace.row("api_calls", row["call_id"])["name"]


def test_the_path_by_kind_and_by_name_is_that_of_its_links(study):
    by_kind, by_name = Counter(), Counter()
    links = path_rows(study)
    for link in links:
        by_kind[link["kind"]] += length(link)
        by_name[link["kind"], name_of(study, link)] += length(link)
    assert {row["kind"]: row["ns"] for row in path_by_kind(study)} == by_kind
    assert {(row["kind"], row["name"]): row["ns"] for row in path_by_name(study)} == by_name
    for rows in (path_by_kind(study), path_by_name(study)):
        assert sum(row["fraction"] for row in rows) == pytest.approx(1)
        assert sum(row["count"] for row in rows) == len(links)
        assert [row["ns"] for row in rows] == sorted((row["ns"] for row in rows), reverse=True)
        assert all(row["longest"] in links for row in rows)


def test_the_longest_links_are_the_longest(study):
    lengths = sorted((length(link) for link in path_rows(study)), reverse=True)
    found = longest_links(study, 5)
    assert [length(row) for row in found] == lengths[:5]
    assert all(row["name"] == name_of(study, row) for row in found)


def test_slack_by_name_counts_every_operation_once(study):
    slack = study.critical_path.slack_ns.tolist()
    known = [op for op, value in enumerate(slack) if value >= 0]
    rows = slack_rows(study)
    assert sum(row["op_count"] for row in rows) == len(known) == slack_counts(study)["known_count"]
    tight = sum(slack[op] == 0 for op in known)
    assert sum(row["tight_count"] for row in rows) == tight == slack_counts(study)["tight_count"]
    for row in rows:
        mine = sorted(slack[op] for op in known if study.trace.row("ops", op)["name"] == row["name"])
        assert (row["least_slack_ns"], row["most_slack_ns"]) == (mine[0], mine[-1])
        assert row["median_slack_ns"] == mine[(len(mine) - 1) // 2]
        assert slack[row["least_op_id"]] == mine[0]


def test_barriers_by_kind_add_up_to_the_barriers(study):
    lost, count, held = Counter(), Counter(), {}
    for row in barrier_rows(study):
        if row["lost_ns"]:
            lost[row["kind"]] += row["lost_ns"]
            count[row["kind"]] += 1
            held.setdefault(row["kind"], set()).update(row["ops_held"])
    found = {row["kind"]: row for row in barrier_sums(study)}
    assert {kind: row["lost_ns"] for kind, row in found.items()} == lost
    assert {kind: row["count"] for kind, row in found.items()} == count
    assert {kind: row["op_count"] for kind, row in found.items()} == {k: len(v) for k, v in held.items()}
    assert barrier_rows(study, most=2) == barrier_rows(study)[:2]


def test_quantiles_of_waits_are_waits_that_were_observed(study):
    waits, keys = study.waits.wait_ns.tolist(), study.dependencies.stream_key.tolist()
    groups = {}
    for op, wait in enumerate(waits):
        if wait >= 0:
            groups.setdefault(keys[op], []).append(wait)
    rows = [row for row in wait_spreads(study) if row["scope"] == "stream"]
    assert sorted(row["op_count"] for row in rows) == sorted(map(len, groups.values()))
    for row in rows:
        mine = sorted(groups[keys[row["max_op_id"]]])
        assert row["max_ns"] == mine[-1]
        for point, share in zip(row["quantiles"], QUANTILES, strict=True):
            assert waits[point["op_id"]] == point["ns"]
            assert sum(wait <= point["ns"] for wait in mine) >= share * len(mine)
            assert sum(wait < point["ns"] for wait in mine) <= share * len(mine)


def test_partitions_have_the_waits_of_their_streams():
    study = Study(overlane.open_trace(sample_path("green-context-A")))
    rows = wait_spreads(study)
    per_partition = Counter()
    for row in rows:
        if row["scope"] == "stream":
            per_partition[row["partition_id"]] += row["op_count"]
    assert {r["partition_id"]: r["op_count"] for r in rows if r["scope"] == "partition"} == per_partition


def test_a_window_keeps_the_operations_that_start_in_it():
    trace = overlane.open_trace(sample_path("synthetic_barriers"))
    window = (trace.span_ns // 4, trace.span_ns // 2)
    starts = [row["start_ns"] for row in trace.table("ops").to_pylist()]
    inside = [op for op, start in enumerate(starts) if window[0] <= start < window[1]]
    study = Study(trace, window=window)
    waits = Study(trace).waits.wait_ns
    known = [op for op in inside if waits[op] >= 0]
    assert sum(row["op_count"] for row in wait_spreads(study) if row["scope"] == "stream") == len(known) > 0
    shown = {row["longest"]["op_id"] for row in path_by_name(study)} - {None}
    ends = [row["end_ns"] for row in trace.table("ops").to_pylist()]
    assert all(starts[op] < window[1] and ends[op] > window[0] for op in shown)


def test_both_sides_of_a_hazard_are_drawn_with_their_streams(unordered):
    rows = hazard_rows(unordered)
    assert rows
    for row in rows:
        sides = hazard_sides(unordered, row)
        for side in ("first", "second"):
            op = row[f"{side}_op_id"]
            assert sides[side]["op_id"] == op
            if op is not None:
                values = unordered.trace.row("ops", op)
                assert sides[side]["name"] == values["name"]
                assert sides[side]["start_ns"] == values["start_ns"]
                assert str(values["stream_id"]) in sides[side]["lane"]
        ids = [each["op_id"] for each in sides["around"]]
        assert len(ids) == len(set(ids))
        assert not {row["first_op_id"], row["second_op_id"]} & set(ids)


def test_a_free_is_a_side_without_an_operation(unordered):
    row = next(row for row in hazard_rows(unordered) if row["second_table"] == "allocations")
    side = hazard_sides(unordered, row)["second"]
    assert (side["lane"], side["name"], side["op_id"]) == ("allocations", "free", None)
    assert side["start_ns"] == unordered.trace.row("allocations", row["second_row"])["at_ns"]


def test_rows_are_json(study):
    json.dumps(
        [path_rows(study), path_by_name(study), barrier_rows(study), wait_spreads(study), slack_rows(study)]
    )


def test_rows_without_a_name_are_called_nothing():
    trace = overlane.open_trace(sample_path("green-context-A"))
    assert row_name(trace, "syncs", 0) == ""
    assert row_name(trace, "ops", 0) == trace.row("ops", 0)["name"]
