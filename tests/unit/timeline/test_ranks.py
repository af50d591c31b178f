"""Two ranks of one trace that use the same numbers: each one's lanes tell its own facts."""

from __future__ import annotations

import pytest

from unit.timeline.traces import make_trace, open_timeline, tree

HERE = {"device_id": 0, "context_id": 1, "stream_id": 7}
HOST = {"process_id": 5, "thread_id": 6}


def of_both(rows_of):
    """Return the rows that a function makes for rank 0, and then those for rank 1."""
    return [{"rank": rank, **row} for rank in (0, 1) for row in rows_of(rank)]


@pytest.fixture(scope="module")
def twins():
    """Return a trace in which everything of rank 1 has the same numbers and says something else."""
    return make_trace(
        devices=of_both(lambda r: [{"device_id": 0, "name": f"GPU of {r}", "sm_count": 100 + r}]),
        partitions=of_both(lambda r: [{"device_id": 0, "context_id": 1, "sm_granted": 100 + r}]),
        streams=of_both(lambda r: [{**HERE, "name": f"stream of {r}", "priority": -r}]),
        threads=of_both(lambda r: [{**HOST, "process_name": f"program of {r}", "name": f"thread of {r}"}]),
        ops=of_both(
            lambda r: [
                {**HERE, "engine": "compute", "start_ns": at, "end_ns": at + 1, "partition_id": r}
                for at in range(r + 1)
            ]
        ),
        api_calls=of_both(lambda r: [{**HOST, "start_ns": at, "end_ns": at + 1} for at in range(r + 1)]),
        syncs=of_both(lambda r: [{**HOST, "start_ns": at, "end_ns": at + 1} for at in range(r + 1)]),
        overheads=of_both(lambda r: [{**HOST, "start_ns": at, "end_ns": at + 1} for at in range(r + 1)]),
        instants=of_both(lambda r: [{**HOST, "at_ns": at} for at in range(r + 1)]),
        ranges=of_both(lambda r: [{**HOST, "start_ns": at, "end_ns": at + 1} for at in range(r + 1)]),
        counters=of_both(
            lambda r: [{"process_id": 5, "at_ns": 0, "value": 10.0 * (r + 1), "unit": f"W{r}"}] * (r + 1)
        ),
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_shows_its_own_facts(twins, rank):
    timeline = open_timeline(twins, rank)
    rows = rank + 1
    device = f"Rank {rank} · GPU 0 · GPU of {rank}"
    process = f"Rank {rank} · program of {rank} · process 5"
    thread = f"{process} / thread of {rank} · thread 6"
    assert tree(timeline) == [
        f"{device} / all work ({rows})",
        f"{device} / Engines / compute ({rows})",
        f"{device} / Whole device · {100 + rank} SMs / stream 7 ({rows})",
        f"{process} / power ({rows})",
        f"{thread} / calls ({rows})",
        f"{thread} / synchronizations ({rows})",
        f"{thread} / annotations ({rows})",
        f"{thread} / overheads ({rows})",
        f"{thread} / instants ({rows})",
    ]
    meta = timeline.meta()
    lanes = {lane["id"]: lane for lane in meta["lanes"]}
    assert lanes["s:0:1:7"]["sublabel"] == f"stream of {rank} · priority {-rank}"
    assert (lanes["n:5:None:power"]["max"], lanes["n:5:None:power"]["unit"]) == (10.0 * rows, f"W{rank}")
    assert meta["groups"][0]["sublabel"] == f"{100 + rank} SMs"


def test_the_partition_of_a_context_is_looked_up_within_the_rank(twins):
    """Operations that name no partition stand under their context's, of their own rank."""
    tables = {
        "partitions": twins.table("partitions").to_pylist(),
        "ops": of_both(lambda _: [{**HERE, "engine": "compute", "start_ns": 0, "end_ns": 1}]),
    }
    trace = make_trace(**tables)
    for rank in (0, 1):
        stream = tree(open_timeline(trace, rank))[-1]
        assert stream == f"Rank {rank} · GPU 0 / Whole device · {100 + rank} SMs / stream 7 (1)"


def test_contexts_of_another_rank_do_not_split_the_streams():
    trace = make_trace(
        ops=[
            {**HERE, "rank": 0, "start_ns": 0, "end_ns": 1},
            {**HERE, "rank": 1, "context_id": 2, "start_ns": 0, "end_ns": 1},
        ]
    )
    assert tree(open_timeline(trace, 0))[-1] == "Rank 0 · GPU 0 / Streams / stream 7 (1)"


def test_a_fact_without_rank_is_every_ranks_until_one_has_its_own():
    trace = make_trace(
        devices=[
            {"device_id": 0, "name": "shared"},
            {"rank": 1, "device_id": 0, "name": "own"},
        ],
        ops=of_both(lambda _: [{**HERE, "engine": "compute", "start_ns": 0, "end_ns": 1}]),
    )
    assert tree(open_timeline(trace, 0))[0] == "Rank 0 · GPU 0 · shared / all work (1)"
    assert tree(open_timeline(trace, 1))[0] == "Rank 1 · GPU 0 · own / all work (1)"


def test_a_trace_that_names_no_rank_shows_none():
    trace = make_trace(
        devices=[{"device_id": 0, "name": "NVIDIA H200"}],
        ops=[{**HERE, "engine": "compute", "start_ns": 0, "end_ns": 1}],
        api_calls=[{**HOST, "start_ns": 0, "end_ns": 1}],
    )
    labels = [group["label"] for group in open_timeline(trace).meta()["groups"]]
    assert labels[0] == "GPU 0 · NVIDIA H200"
    assert "process 5" in labels
