"""What is said of a file rests on what its events show: proven, guessed, left out or not understood."""

import json

import pytest

from helpers.kineto import document, kernel, launch

BARE = {"traceEvents": []}


def found(trace):
    """The counts of the checks that are not ok."""
    return {check.check: check.count for check in trace.header.integrity if check.status != "ok"}


def sentence(trace, name):
    return next(check.detail for check in trace.header.integrity if check.check == name)


@pytest.mark.parametrize(("of_call", "of_kernel", "is_proven"), [(1, 77, 0), (77, 77, 1), (-1, -1, 0)])
def test_launch_times_are_proven_by_an_operation_of_a_recorded_call(read, of_call, of_kernel, is_proven):
    call = launch("1", "1", correlation=of_call)
    trace = read(document(call, kernel("3", "1", correlation=of_kernel)))
    assert trace.header.capabilities["launch_times"].proven is bool(is_proven)
    assert found(trace).get("operations_without_launch", 0) == 1 - is_proven


@pytest.mark.parametrize("rank", ["3", '"3"', "3.0", '" 3 "', "3e0"])
def test_rank_and_world_may_be_text(read, rank):
    trace = read(f'{{"distributedInfo": {{"rank": {rank}, "world_size": "8"}}, "traceEvents": []}}')
    assert trace.header.world_size == 8
    assert "header_values" not in found(trace)
    with_ops = read(document(kernel("1", "1"), before={"distributedInfo": {"rank": json.loads(rank)}}))
    assert with_ops.ranks == (3,)


@pytest.mark.parametrize("rank", ["true", '"third"', "3.5", "[3]", "-2", "99999999999", "NaN", "{}"])
def test_a_rank_that_is_none_is_said(read, rank):
    trace = read(f'{{"distributedInfo": {{"rank": {rank}, "world_size": 8}}, "traceEvents": []}}')
    assert found(trace)["header_values"] == 1
    assert sentence(trace, "header_values").endswith(": rank")


@pytest.mark.parametrize(
    ("written", "base_ns"),
    [
        ("1712000000000000123", 1_712_000_000_000_000_123),
        ('"1712000000000000123"', 1_712_000_000_000_000_123),
        ("1.7e18", 1_700_000_000_000_000_000),
        ("1712000000000000123.0", 1_712_000_000_000_000_123),  # a float of 64 bits would say ...128
        ("4611686018427387903", 2**62 - 1),
    ],
)
@pytest.mark.parametrize("is_before", [True, False])
def test_a_base_is_exact_however_it_is_written(read, written, base_ns, is_before):
    event = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 1}'
    events, base = f'"traceEvents": [{event}]', f'"baseTimeNanoseconds": {written}'
    trace = read(f"{{{base}, {events}}}" if is_before else f"{{{events}, {base}}}")
    assert trace.header.origin_unix_ns == base_ns + 5000
    assert "header_values" not in found(trace)


@pytest.mark.parametrize("written", ["1e300", "99999999999999999999", "17.5", '"soon"', "[1]", "true", "NaN"])
def test_a_base_that_is_no_time_is_said(read, written):
    trace = read(f'{{"baseTimeNanoseconds": {written}, "traceEvents": []}}')
    assert trace.header.origin_unix_ns is None
    assert sentence(trace, "header_values").endswith(": baseTimeNanoseconds")


def test_a_member_that_is_no_json_is_said(read):
    trace = read('{"schemaVersion": 1, "odd": {"a" "b"}, "traceEvents": [], "distributedInfo": "rank 3"}')
    assert sentence(trace, "header_values").endswith(": distributedInfo, odd")


def test_nothing_is_said_of_a_header_that_says_nothing(read):
    assert "header_values" not in found(read({**BARE, "distributedInfo": {"rank": -1}}))
    assert "header_values" not in found(read({**BARE, "distributedInfo": {"rank": None}}))


HOST_SPAN = {
    "ph": "X", "cat": "my_host_span", "name": "prefetch for device 0", "pid": 77, "tid": 1,
    "ts": 0, "dur": 100,
}  # fmt: skip


@pytest.mark.parametrize("arguments", [{"device": 0}, {"stream": 7}, {"device": 0, "stream": -1}, {}])
def test_a_device_alone_does_not_make_a_category_device_work(read, table, arguments):
    trace = read(document(HOST_SPAN | {"args": arguments}, kernel("10", "5")))
    assert table(trace, "ops", "name") == [("k",)]
    assert table(trace, "ranges", "name", "track", "domain") == [
        ("prefetch for device 0", "other", "my_host_span")
    ]
    assert "unknown_categories" not in found(trace)


def test_categories_that_were_taken_for_device_work_are_named(read, table):
    work = {"ph": "X", "name": "w", "pid": 1, "tid": 3, "ts": 3, "dur": 1}
    events = [work | {"cat": f"npu_{k}", "args": {"device": 1, "stream": 3}} for k in range(7)]
    trace = read(document(HOST_SPAN, *events))
    assert trace.table("ops").num_rows == 7
    assert found(trace)["unknown_categories"] == 7
    assert sentence(trace, "unknown_categories").endswith(": npu_0, npu_1, npu_2, npu_3, npu_4 and 2 more")


def test_operations_without_a_stream_take_the_thread_they_are_drawn_under(read, table):
    def drawn(tid, ts, **arguments):
        return {"ph": "X", "cat": "kernel", "name": f"{tid}", "pid": 0, "tid": tid, "ts": ts, "dur": 10,
                "args": arguments}  # fmt: skip

    events = [drawn(7, 0), drawn("stream 8", 5), drawn("9", 7, device=0), drawn("loose", 30), drawn(-1, 50),
              drawn(7, 70, stream=20), drawn(7, 90, stream=-1)]  # fmt: skip
    trace = read(document(*events))
    assert table(trace, "ops", "name", "device_id", "stream_id") == [
        ("7", 0, 7), ("stream 8", 0, 8), ("9", 0, 9), ("loose", 0, None), ("-1", 0, None), ("7", 0, 20),
        ("7", 0, None),
    ]  # fmt: skip
    assert "same_stream_overlaps" not in found(trace)
    assert {stream for (stream,) in table(trace, "streams", "stream_id")} == {7, 8, 9, 20, None}


@pytest.mark.parametrize(("ts", "reason"), [("1e400", "impossible time stamp"), ("null", "no time stamp")])
def test_operations_that_were_left_out_are_named(read, ts, reason):
    trace = read(document(launch("1", "1"), kernel(ts, "5"), kernel(ts, "6"), launch(ts, "1")))
    assert trace.header.dropped == {reason: 3}
    assert found(trace)["untimed_operations"] == 2
    assert "all of its 2 " in sentence(trace, "no_device_work")
    trace = read(document(kernel(ts, "5"), kernel("1", "6")))
    assert found(trace)["untimed_operations"] == 1
    assert "no_device_work" not in found(trace)


NAMED = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}


@pytest.mark.parametrize(
    ("content", "producer"),
    [
        (BARE, ""),
        ([], ""),
        ([NAMED], ""),
        ({"traceEvents": [NAMED], "displayTimeUnit": "ms"}, ""),
        ({**BARE, "schemaVersion": 1}, "PyTorch profiler (Kineto)"),
        ({**BARE, "deviceProperties": []}, "PyTorch profiler (Kineto)"),
        ({**BARE, "cupti_version": 26}, "PyTorch profiler (Kineto, CUPTI 26)"),
        ([{"ph": "i", "cat": "cpu_op", "name": "o", "ts": 1}], "PyTorch profiler (Kineto)"),
        ([{"ph": "i", "cat": "mine", "name": "o", "ts": 1}], ""),
    ],
)
def test_the_producer_is_named_where_something_says_it(read, content, producer):
    assert read(content).header.producer == producer


def test_a_plain_file_may_be_called_gz(read, table):
    trace = read(document(kernel("1", "2")), name="plain.json.gz")
    assert trace.name == "plain"
    assert table(trace, "ops", "start_ns", "end_ns") == [(0, 2000)]


def test_half_a_surrogate_pair_in_the_name_of_a_device_or_group_is_replaced(read, table):
    collective = kernel("1", "2", args={"Collective name": "allreduce", "Process Group Name": "g\ud800"})
    devices = [{"id": 0, "name": "GPU \udc00"}]
    trace = read(json.dumps({"deviceProperties": devices, "traceEvents": [collective | {"ts": 1, "dur": 2}]}))
    assert table(trace, "devices", "name") == [("GPU \ufffd",)]
    assert table(trace, "collectives", "collective", "group") == [("allreduce", "g\ufffd")]
