"""Records of a real H200 (tests/gpu/programs/streams_program.py), of two versions of libcupti.

The program launches once on each kind of stream, orders two streams by an event, copies each way, waits for a
value, and replays a graph twice; what the tables must hold is read off its source.
"""

from pathlib import Path

import pytest

from overlane.validation import validate
from overlane_collect.decoding import decode_journal
from overlane_collect.journal import JournalReader

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = ("13.4", "13.0")


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def decoded(version):
    trace = decode_journal(JournalReader(FIXTURES / f"h200-cupti-{version}.journal"))
    validate(version, trace.header, trace.tables)
    return trace


def rows(table, *names):
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_every_kind_of_stream_is_told(version):
    streams = rows(decoded(version).tables["streams"], "context_id", "stream_kind", "priority")
    assert sorted(streams, key=str) == sorted(
        [
            (1, "legacy_default", 0),
            (1, "per_thread_default", 0),
            (1, "blocking", 0),
            (1, "nonblocking", 0),
            (1, "nonblocking", -5),
            (2, "nonblocking", 0),  # of the green context
        ],
        key=str,
    )


def test_every_operation_is_there_with_its_engine(version):
    ops = rows(decoded(version).tables["ops"], "engine", "src_memory", "dst_memory")
    assert ops.count(("compute", None, None)) == 7 + 2 + 1 + 4
    assert ops.count(("copy_h2d", "pinned", "device")) == 1
    assert ops.count(("copy_h2d", "pageable", "device")) == 1
    assert ops.count(("copy_d2h", "device", "pageable")) == 1
    assert ops.count(("copy_d2d", "device", "device")) == 1
    assert ops.count(("memset", None, "device")) == 1
    assert len(ops) == 19


def test_the_wait_names_the_record_that_it_waits_for(version):
    tables = decoded(version).tables
    (record,) = tables["event_records"].to_pylist()
    waits = [s for s in tables["syncs"].to_pylist() if s["sync_kind"] == "stream_wait_event"]
    assert [w["waits_on_correlation_id"] for w in waits] == [record["correlation_id"]]
    assert [w["waits_on_stream_id"] for w in waits] == [record["stream_id"]]
    producer = [
        op
        for op in tables["ops"].to_pylist()
        if op["stream_id"] == record["stream_id"] and op["kind"] == "kernel"
    ][1]
    assert producer["end_ns"] <= record["device_ns"] < producer["end_ns"] + 10_000
    consumers = [op for op in tables["ops"].to_pylist() if op["stream_id"] == waits[0]["stream_id"]]
    assert consumers[-1]["start_ns"] >= record["device_ns"]


def test_synchronizations_and_queries_are_told_apart(version):
    kinds = rows(decoded(version).tables["syncs"], "sync_kind", "result")
    assert kinds.count(("context", 0)) == 8
    assert kinds.count(("event", 0)) == 1
    assert kinds.count(("stream", 0)) == 2
    assert kinds.count(("stream_wait_event", 0)) == 1
    assert kinds.count(("event_query", 600)) == 1
    assert kinds.count(("event_query", 0)) == 1
    assert kinds.count(("stream_query", 600)) == 1


def test_work_of_the_green_context_is_in_its_partition(version):
    tables = decoded(version).tables
    (whole, green) = tables["partitions"].to_pylist()
    assert (whole["sm_granted"], whole["parent_context_id"]) == (132, None)
    assert (green["sm_granted"], green["parent_context_id"]) == (8, 1)
    assert tables["ops"]["partition_id"].to_pylist().count(1) == 1


def test_nodes_of_a_graph_share_a_correlation_and_carry_no_launch_stamp(version):
    nodes = [op for op in decoded(version).tables["ops"].to_pylist() if op["graph_node_id"] is not None]
    assert len(nodes) == 4
    assert len({op["correlation_id"] for op in nodes}) == 2
    assert {op["queued_ns"] for op in nodes} == {None}


def test_a_kernel_held_by_a_value_was_queued_before_it_was_let_go(version):
    ops = [op for op in decoded(version).tables["ops"].to_pylist() if op["queued_ns"] is not None]
    assert len(ops) == 10
    assert all(op["queued_ns"] < op["start_ns"] for op in ops)


def test_stream_ordered_allocations_name_their_stream_and_others_none(version):
    allocations = rows(decoded(version).tables["allocations"], "memory_kind", "freed", "stream_id")
    assert allocations == [
        ("device", False, None),
        ("pinned", False, None),
        ("device", False, None),
        ("device", False, 14),
        ("device", True, 14),
        ("device", True, None),
    ]


def test_what_a_version_does_not_record_is_null_and_said():
    new, old = decoded("13.4"), decoded("13.0")
    assert new.tables["partitions"]["tpc_mask"].to_pylist()[1] is not None
    assert old.tables["partitions"]["tpc_mask"].to_pylist() == [None, None]
    assert (new.header.capabilities["tpc_masks"].proven, old.header.capabilities["tpc_masks"].proven) == (
        True,
        False,
    )
    assert "NOT_COMPATIBLE" in old.header.capabilities["tpc_masks"].reason
    # This driver gives submissions to the older library only; a zero must not become a time.
    assert new.tables["ops"]["submitted_ns"].null_count == 19
    assert not new.header.capabilities["submission_times"].proven
    assert old.header.capabilities["submission_times"].proven
    status = [{c.check: c.status for c in t.header.integrity}["cupti_version"] for t in (new, old)]
    assert status == ["ok", "warning"]


def test_the_header_keeps_versions_and_a_tight_clock(version):
    header = decoded(version).header
    assert header.driver_version == "580.159.04"
    assert header.extra["cupti_version"] == {"13.4": 130401, "13.0": 130001}[version]
    assert header.extra["driver_cuda_version"] == "13.0"
    assert 0 < header.clocks[0].fit_error_ns < 20_000
    assert header.dropped == {}
