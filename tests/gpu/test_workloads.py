"""Every workload on a GPU: right and wrong results, and traces that show what the workload is for."""

import json

import pytest

from overlane_collect.workloads import WORKLOADS
from overlane_collect.writer import read_members

QUICK = {
    "vector-add": ["elements=262144"],
    "priority": ["rounds=3"],
    "green-context": ["rounds=3"],
    "launch-bound": ["launches=500"],
}


def run(collect, name, *settings, out="a.overlane"):
    arguments = ["run", name, "--json", "-o", out]
    for setting in settings:
        arguments += ["--set", setting]
    done = collect(*arguments)
    return done, json.loads(done.stdout) if done.stdout else None


def opened(path):
    header, tables = read_members(path)
    failed = [check for check in header.integrity if check.status == "failed"]
    assert not failed, failed
    return header, tables


def by_name(tables, name):
    return [op for op in tables["ops"].to_pylist() if op["name"] == name]


@pytest.mark.parametrize("workload", [w.name for w in WORKLOADS if w.name != "two-gpu"])
def test_it_is_right_records_and_fails_when_told_to(collect, tmp_path, workload):
    done, said = run(collect, workload, *QUICK.get(workload, []))
    assert (done.returncode, said and said["correct"]) == (0, True), done.stderr + done.stdout
    header, tables = opened(tmp_path / "a.overlane")
    assert header.parameters["workload"] == workload
    assert header.extra["correct"] is True
    assert header.extra["kernel_sha256"]
    assert header.driver_version
    kernels = [op for op in tables["ops"].to_pylist() if op["kind"] == "kernel"]
    assert kernels
    if workload != "graph-replay":
        assert all(op["external_id"] is not None for op in kernels)
        declared = set(tables["accesses"]["op_id"].to_pylist())
        names = tables["ops"]["name"].to_pylist()
        assert {names[row] for row in declared if row is not None} >= {op["name"] for op in kernels}
    done, said = run(collect, workload, *QUICK.get(workload, []), "expect=wrong", out="b.overlane")
    assert (done.returncode, said and said["correct"]) == (1, False), done.stderr + done.stdout


@pytest.mark.parametrize(("mode", "held"), [("legacy", True), ("nonblocking", False), ("per-thread", False)])
def test_the_default_stream_holds_blocking_streams_only(collect, tmp_path, mode, held):
    done, _ = run(collect, "default-stream", f"mode={mode}")
    assert done.returncode == 0, done.stderr
    _, tables = opened(tmp_path / "a.overlane")
    first, second, default, again = sorted(by_name(tables, "stamped_spin"), key=lambda op: op["external_id"])
    kinds = {
        (s["context_id"], s["stream_id"]): (s["stream_kind"], s["name"])
        for s in tables["streams"].to_pylist()
    }
    kind = {"legacy": "legacy_default", "nonblocking": "legacy_default", "per-thread": "per_thread_default"}[
        mode
    ]
    assert kinds[default["context_id"], default["stream_id"]][0] == kind
    blocking = "nonblocking" if mode == "nonblocking" else "blocking"
    assert kinds[first["context_id"], first["stream_id"]] == (blocking, "first")
    assert (default["start_ns"] >= max(first["end_ns"], second["end_ns"])) == held
    assert (again["start_ns"] >= default["end_ns"]) == held


def test_blocks_prove_that_a_partition_held(collect, tmp_path):
    done, said = run(collect, "green-context", "mode=A")
    assert done.returncode == 0, done.stderr
    _, tables = opened(tmp_path / "a.overlane")
    ops = tables["ops"].to_pylist()
    where = {"stamped_critical": set(), "stamped_bulk": set()}
    for block in tables["blocks"].to_pylist():
        op = ops[block["op_id"]]
        where[op["name"]].add(block["sm_id"])
        assert op["start_ns"] - 2_000 <= block["start_ns"] <= block["end_ns"] <= op["end_ns"] + 2_000
    assert 1 <= len(where["stamped_critical"]) <= said["critical_sms"]
    assert len(where["stamped_bulk"]) > said["critical_sms"]
    assert not where["stamped_critical"] & where["stamped_bulk"]
    partitions = {p["name"]: p for p in tables["partitions"].to_pylist()}
    assert partitions["critical"]["sm_granted"] == said["critical_sms"]
    assert partitions["critical"]["tpc_mask"]
    streams = {s["name"]: s for s in tables["streams"].to_pylist()}
    assert streams["critical"]["priority"] < streams["bulk"]["priority"]


def test_no_critical_kernel_starts_before_it_is_let_go(collect, tmp_path):
    done, _ = run(collect, "green-context", "mode=C")
    assert done.returncode == 0, done.stderr
    _, tables = opened(tmp_path / "a.overlane")
    released = [a["at_ns"] for a in tables["accesses"].to_pylist() if a["at_ns"] is not None]
    critical = by_name(tables, "stamped_critical")[1:]
    assert len(released) == len(critical) == 9
    assert all(op["start_ns"] >= at for op, at in zip(critical, released, strict=True))


def test_partitions_make_the_critical_kernel_quick(collect):
    """Sizes, not timings of ours: the GPU's own latency in three modes, far apart."""
    medians = {}
    for mode in "ABC":
        _, said = run(collect, "green-context", f"mode={mode}", "iterations=4000", out=f"{mode}.overlane")
        medians[mode] = sorted(said["critical_us"])[4]
    assert medians["A"] < 6
    assert medians["A"] < medians["B"] < medians["C"]
    assert medians["C"] > 100 * medians["A"]


def test_pinned_chunks_on_four_streams_beat_pageable_serial_ones(collect):
    serial = ["memory=pageable", "streams=1", "chunks=1"]
    _, slow = run(collect, "vector-add", "elements=67108864", *serial)
    _, fast = run(collect, "vector-add", "elements=67108864", out="b.overlane")
    assert min(slow["milliseconds"]) > 5 * min(fast["milliseconds"])


@pytest.mark.parametrize("fault", ["missing-wait", "early-record", "wrong-event"])
def test_a_planted_fault_leaves_no_order_between_producer_and_consumer(collect, tmp_path, fault):
    run(collect, "stream-contract", "elements=4096", "items=1", f"fault={fault}")
    _, tables = opened(tmp_path / "a.overlane")
    (producer,) = by_name(tables, "twice")
    (consumer,) = by_name(tables, "plus_one")
    waits = [
        s
        for s in tables["syncs"].to_pylist()
        if s["sync_kind"] == "stream_wait_event" and s["stream_id"] == consumer["stream_id"]
    ]
    records = {r["correlation_id"]: r for r in tables["event_records"].to_pylist()}
    calls = {c["correlation_id"]: c for c in tables["api_calls"].to_pylist()}
    launched = calls[producer["correlation_id"]]["start_ns"]
    for wait in waits:
        record = records[wait["waits_on_correlation_id"]]
        assert record["stream_id"] != producer["stream_id"] or record["at_ns"] < launched
    accessed = {(a["op_id"], a["mode"]) for a in tables["accesses"].to_pylist()}
    for name, mode in (("twice", "write"), ("plus_one", "read")):
        rows = [row for row, op in enumerate(tables["ops"].to_pylist()) if op["name"] == name]
        assert (rows[0], mode) in accessed


def test_repeats_make_one_folder_with_every_variant(collect, tmp_path):
    done = collect(
        "run", "default-stream", "--repeat", "2", "--set", "mode=legacy,nonblocking", "-o", "many", "--json"
    )
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "many").iterdir())
    assert names == [f"default-stream-{m}-{i}.overlane" for m in ("legacy", "nonblocking") for i in (0, 1)]
    header, _ = opened(tmp_path / "many" / names[1])
    assert header.repeat_index == 1


STREAM_ORDERED = [w.name for w in WORKLOADS if w.name not in {"two-gpu", "implicit-sync", "lazy-load"}]


@pytest.mark.parametrize("workload", STREAM_ORDERED)
def test_events_bracket_what_cupti_records(collect, tmp_path, workload):
    quick = QUICK.get(workload, [])
    done, _ = run(collect, workload, *quick)
    assert done.returncode == 0, done.stderr
    arguments = ["run", workload, "--backend", "cuda_events", "-o", "b.overlane"]
    done = collect(*arguments, *(part for setting in quick for part in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    header, tables = opened(tmp_path / "b.overlane")
    assert not header.capabilities["device_times"].proven
    assert 0 < header.extra["event_brackets"]["empty_ns"] < 20_000
    bracketed = tables["ops"].to_pylist()
    recorded = [op for op in opened(tmp_path / "a.overlane")[1]["ops"].to_pylist() if op["external_id"]]
    if workload != "graph-replay":
        assert sorted(op["external_id"] for op in bracketed) == sorted(op["external_id"] for op in recorded)
    else:
        assert [op["kind"] for op in bracketed] == ["graph"] * 5


def test_edges_of_a_graph_join_its_two_branches(collect, tmp_path):
    run(collect, "graph-replay", "kernels=3")
    _, tables = opened(tmp_path / "a.overlane")
    nodes = {op["graph_node_id"] for op in by_name(tables, "plus_one")}
    edges = {(edge["from_node_id"], edge["to_node_id"]) for edge in tables["graph_edges"].to_pylist()}
    assert len(nodes) == 6
    assert {node for edge in edges for node in edge} <= nodes
    assert len(edges) == 4


def test_managed_memory_is_counted(collect, tmp_path):
    run(collect, "managed-memory", "mode=fault")
    _, tables = opened(tmp_path / "a.overlane")
    tracks = {row["track"]: row["value"] for row in tables["counters"].to_pylist()}
    assert tracks["managed memory to the device"] > 1 << 20
    assert tracks["page faults of the device"] > 0


def test_a_partition_each_lets_both_kernels_work_at_once(collect, tmp_path):
    _, apart = run(collect, "green-context", "mode=concurrency")
    _, shared = run(collect, "green-context", "mode=shared", out="b.overlane")
    assert apart["shared_sms"] == 0
    assert apart["beside_fraction"] > 0.9
    assert shared["exchange_waited_us"] > 2 * apart["exchange_waited_us"]


def test_two_gpus_sum_their_numbers_or_one_is_said_to_be_too_few(collect, tmp_path):
    done, said = run(collect, "two-gpu")
    if done.returncode == 3:
        assert "two-gpu needs two GPUs and this machine has 1" in done.stderr
        return
    assert (done.returncode, said["correct"]) == (0, True), done.stderr
    _, tables = opened(tmp_path / "a.overlane")
    copies = [op for op in tables["ops"].to_pylist() if op["engine"] == "copy_p2p"]
    assert len(copies) == 16
    assert {op["device_id"] for op in copies} == {0, 1}
