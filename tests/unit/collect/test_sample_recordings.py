"""The recordings of our own workloads that are bundled: each holds what its workload is there to show."""

import itertools
import json
from pathlib import Path

import pytest

from overlane.samples import sample_folder
from overlane.validation import validate
from overlane_collect.workloads import WORKLOADS
from overlane_collect.writer import read_members

ENTRIES = [
    entry
    for entry in json.loads((sample_folder() / "MANIFEST.json").read_text("utf-8"))["traces"]
    if entry["made_by"].startswith("overlane run ")
]
NAMED = {
    "default-stream-legacy",
    "default-stream-nonblocking",
    "default-stream-per-thread",
    "green-context-A",
    "green-context-B",
    "green-context-C",
    "stream-contract-clean",
    "stream-contract-missing-wait",
    "stream-contract-early-record",
    "stream-contract-wrong-event",
    "stream-contract-early-reuse",
    "stream-contract-host-overwrite",
    "stream-contract-early-free",
    "vector-add-pinned",
    "vector-add-pageable",
}


def opened(name):
    header, tables = read_members(sample_folder() / f"{name}.overlane")
    validate(name, header, tables)
    return header, tables


def operations(tables, name):
    rows = [op for op in tables["ops"].to_pylist() if op["name"] == name]
    return sorted(rows, key=lambda op: op["external_id"] or 0)


def test_every_workload_has_a_sample():
    made = {entry["made_by"].split()[2] for entry in ENTRIES}
    assert made == {workload.name for workload in WORKLOADS}
    assert {Path(entry["file"]).stem for entry in ENTRIES} >= NAMED


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e["file"])
def test_it_is_whole_and_names_no_place(entry):
    header, _ = opened(Path(entry["file"]).stem)
    assert not [check for check in header.integrity if check.status == "failed"]
    assert header.command.startswith("overlane run ")
    for private in ("/tmp", "/home", "/root", "/usr", "/opt", "/work"):
        assert private not in json.dumps(header.to_json())


@pytest.mark.parametrize(
    ("mode", "barrier"), [("legacy", True), ("nonblocking", False), ("per-thread", False)]
)
def test_the_default_stream_is_a_barrier_or_not(mode, barrier):
    _, tables = opened(f"default-stream-{mode}")
    first, second, default, again = operations(tables, "stamped_spin")
    assert (default["start_ns"] >= max(first["end_ns"], second["end_ns"])) == barrier
    assert (again["start_ns"] >= default["end_ns"]) == barrier
    assert again["start_ns"] >= first["end_ns"]


def test_a_partition_a_priority_and_neither_differ_by_an_order_each():
    medians = {
        mode: sorted(opened(f"green-context-{mode}")[0].extra["measured"]["critical_us"])[4] for mode in "ABC"
    }
    assert medians["A"] < 6
    assert 3 * medians["A"] < medians["B"] < 100
    assert medians["C"] > 100 * medians["A"]


def test_blocks_of_the_partitions_share_no_sm():
    _, tables = opened("green-context-A")
    names = tables["ops"]["name"].to_pylist()
    where = {}
    for block in tables["blocks"].to_pylist():
        where.setdefault(names[block["op_id"]], set()).add(block["sm_id"])
    assert len(where["stamped_bulk"]) == 124
    assert not where["stamped_bulk"] & where["stamped_critical"]
    masks = {p["name"]: int(p["tpc_mask"], 16) for p in tables["partitions"].to_pylist() if p["tpc_mask"]}
    assert masks["critical"] & masks["bulk"] == 0
    assert masks["critical"].bit_count() == 4


def test_pinned_chunks_overlap_kernels_and_both_copies_and_pageable_ones_nothing():
    for name, overlaps in (("vector-add-pinned", {"compute", "copy_d2h"}), ("vector-add-pageable", set())):
        _, tables = opened(name)
        ops = tables["ops"].to_pylist()
        up = [op for op in ops if op["engine"] == "copy_h2d"]
        beside = {
            op["engine"]
            for op in ops
            for copy in up
            if op["engine"] != "copy_h2d"
            and copy["start_ns"] < op["end_ns"]
            and op["start_ns"] < copy["end_ns"]
        }
        assert beside == overlaps
        assert {op["src_memory"] for op in up} == {name.removeprefix("vector-add-")}


def test_a_missing_wait_is_missing_and_a_clean_run_has_it():
    for name, waits in (("stream-contract-clean", True), ("stream-contract-missing-wait", False)):
        _, tables = opened(name)
        consumer = operations(tables, "plus_one")[0]["stream_id"]
        found = [
            sync
            for sync in tables["syncs"].to_pylist()
            if sync["sync_kind"] == "stream_wait_event" and sync["stream_id"] == consumer
        ]
        assert bool(found) == waits


def test_programmatic_launches_overlap_in_their_stream_and_ordinary_ones_do_not():
    for mode, overlaps in (("programmatic", True), ("ordinary", False)):
        _, tables = opened(f"programmatic-launch-{mode}")
        firsts, seconds = operations(tables, "early_trigger"), operations(tables, "late_wait")
        assert any(b["start_ns"] < a["end_ns"] for a, b in zip(firsts, seconds, strict=True)) == overlaps


def test_a_graph_is_one_launch_for_many_kernels():
    _, tables = opened("graph-replay-graph")
    kernels = operations(tables, "plus_one")
    assert len(kernels) == 100
    assert len({op["correlation_id"] for op in kernels}) == 5
    assert all(op["graph_node_id"] is not None for op in kernels)


def test_the_edges_of_the_graph_are_its_two_branches():
    _, tables = opened("graph-replay-graph")
    kernels = operations(tables, "plus_one")
    nodes = {op["graph_node_id"] for op in kernels}
    edges = [(edge["from_node_id"], edge["to_node_id"]) for edge in tables["graph_edges"].to_pylist()]
    assert {edge["graph_id"] for edge in tables["graph_edges"].to_pylist()} == {kernels[0]["graph_id"]}
    assert len(nodes) == 20
    assert {node for edge in edges for node in edge} == nodes
    following = dict(edges)
    assert len(edges) == len(following) == 18, "each node but the branches' last ones has one that follows"
    for replay in range(5):
        once = sorted(kernels, key=lambda op: op["start_ns"])[20 * replay : 20 * replay + 20]
        end_of = {op["graph_node_id"]: op["end_ns"] for op in once}
        start_of = {op["graph_node_id"]: op["start_ns"] for op in once}
        assert all(end_of[a] <= start_of[b] for a, b in edges)


def test_faults_move_managed_memory_that_prefetching_has_moved_before():
    _, tables = opened("managed-memory-fault")
    last = {row["track"]: row["value"] for row in tables["counters"].to_pylist()}
    assert last["managed memory to the device"] > 1 << 20
    assert last["page faults of the device"] > 0
    _, tables = opened("managed-memory-prefetch")
    last = {row["track"]: row["value"] for row in tables["counters"].to_pylist()}
    assert last.get("page faults of the device", 0) == 0


def test_two_kernels_work_at_once_on_sms_of_their_own():
    where = {}
    for mode in ("concurrency", "shared"):
        header, tables = opened(f"green-context-{mode}")
        names = tables["ops"]["name"].to_pylist()
        blocks = tables["blocks"].to_pylist()
        where[mode] = {
            name: {block["sm_id"] for block in blocks if names[block["op_id"]] == name} for name in set(names)
        }
        measured = header.extra["measured"]
        assert (measured["exchange_waited_us"] > 1000) == (mode == "shared")
    assert not where["concurrency"]["stamped_exchange"] & where["concurrency"]["stamped_product"]
    assert where["shared"]["stamped_exchange"] <= where["shared"]["stamped_product"]


def test_two_gpus_exchange_beside_their_work_or_after_it():
    for mode in ("overlap", "serial"):
        _, tables = opened(f"two-gpu-{mode}")
        ops = tables["ops"].to_pylist()
        copies = [op for op in ops if op["engine"] == "copy_p2p"]
        assert {op["device_id"] for op in copies} == {0, 1}
        beside = [
            copy
            for copy in copies
            for op in ops
            if op["name"] == "twice"
            and op["device_id"] == copy["device_id"]
            and op["start_ns"] < copy["end_ns"]
            and copy["start_ns"] < op["end_ns"]
        ]
        assert bool(beside) == (mode == "overlap")


def test_brackets_of_events_prove_no_device_times_and_lie_about_the_recorded_ones():
    for name in ("vector-add-pinned", "green-context-B"):
        header, tables = opened(f"{name}-cuda-events")
        assert not header.capabilities["device_times"].proven
        brackets = header.extra["event_brackets"]
        assert 0 < brackets["empty_ns"] < 20_000
        assert brackets["operations"] == tables["ops"].num_rows
        assert opened(name)[0].extra.get("event_brackets") is None
    lengths = {}
    for name in ("vector-add-pinned", "vector-add-pinned-cuda-events"):
        _, tables = opened(name)
        up = [op["end_ns"] - op["start_ns"] for op in tables["ops"].to_pylist() if op["engine"] == "copy_h2d"]
        lengths[name] = min(up)
    assert lengths["vector-add-pinned-cuda-events"] >= 0.9 * lengths["vector-add-pinned"]


def test_a_host_function_holds_its_stream():
    _, tables = opened("callback")
    kernels = operations(tables, "plus_one")
    held = [op for op in kernels if op["stream_id"] == kernels[0]["stream_id"]]
    assert all(after["start_ns"] - op["end_ns"] > 400_000 for op, after in itertools.pairwise(held))


def test_a_kernel_that_has_to_be_loaded_waits_for_the_running_one_within_its_launch():
    for mode in ("lazy", "eager"):
        _, tables = opened(f"lazy-load-{mode}")
        (running,), (first,) = operations(tables, "twice"), operations(tables, "plus_one")
        (launch,) = [
            call
            for call in tables["api_calls"].to_pylist()
            if call["correlation_id"] == first["correlation_id"]
        ]
        loading = [
            row
            for row in tables["overheads"].to_pylist()
            if row["kind"] == "lazy_function_loading"
            and launch["start_ns"] <= row["start_ns"] < launch["end_ns"]
        ]
        assert bool(loading) == (first["start_ns"] >= running["end_ns"]) == (mode == "lazy")
