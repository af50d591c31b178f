# ruff: noqa: E501 - traces stand as text, one event a line
"""Traces as PyTorch wrote them over the years."""

import json

import pytest


def test_2020_a_bare_list_with_text_ids_and_capital_categories(read, table, adds_up):
    trace = read("""[
      {"ph": "X", "cat": "Operator", "name": "aten::empty", "pid": 68753, "tid": "3340707648", "ts": 1606911006433250, "dur": 10,
       "args": {"Input dims": [[], []], "Device": 0, "External id": 2, "Trace name": "PyTorch Profiler"}},
      {"ph": "X", "cat": "Runtime", "name": "cudaMemcpyAsync", "pid": 68753, "tid": "3340707648", "ts": 1606911006433260, "dur": 4,
       "args": {"cbid": 41, "correlation": 65448, "external id": 52, "external ts": 1606911006439756}},
      {"ph": "f", "id": 65448, "pid": 0, "tid": "stream 7", "ts": 1606911006433418, "cat": "async", "name": "launch", "bp": "e"},
      {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7", "ts": 1606911006433418,
       "dur": 3486, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 65448, "external id": 52, "bytes": 19267584}},
      {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Traces", "tid": "PyTorch Profiler", "ts": 1606911006433120,
       "dur": 1086638, "args": {"Op count": 0}},
      {"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler",
       "ts": 1606911006433120}
    ]""")
    assert trace.header.origin_unix_ns == 1606911006433120_000
    assert table(trace, "ranges", "track", "process_id", "thread_id", "start_ns", "external_id") == [
        ("profiler", None, None, 0, None),
        ("operator", 68753, 3340707648, 130_000, 2),
    ]
    assert table(trace, "ops", "engine", "stream_id", "correlation_id", "bytes", "end_ns") == [
        ("copy_h2d", 7, 65448, 19267584, 298_000 + 3_486_000)
    ]
    assert trace.attributes("api_calls", 0) == {"cbid": 41, "external ts": 1606911006439756}
    adds_up(trace, 6)


@pytest.mark.parametrize("key", ["baseTimeNanoseconds", "baseTimeNanosecond"])
@pytest.mark.parametrize("is_before", [True, False])
def test_relative_times_have_a_base_before_or_behind_the_events(read, key, is_before):
    event = '{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 5173827647294.696, "dur": 2468.459}'
    base = f'"{key}": 1790857026000000000'
    text = (
        f'{{{base}, "traceEvents": [{event}]}}'
        if is_before
        else f'{{"traceEvents": [{event}], "traceName": "x", {base}}}'
    )
    trace = read(text)
    assert trace.header.origin_unix_ns == 1790857026000000000 + 5173827647294696
    assert trace.row("ranges", 0)["end_ns"] == 2468459


def test_absolute_times_are_not_moved_by_a_base(read):
    event = '{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 1718293847561234.567, "dur": 0.001}'
    trace = read(f'{{"baseTimeNanoseconds": 1712000000000000000, "traceEvents": [{event}]}}')
    assert trace.header.origin_unix_ns == 1718293847561234567


def test_relative_times_without_a_base_have_no_wall_clock(read):
    assert (
        read(
            [{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": 7, "dur": 1}]
        ).header.origin_unix_ns
        is None
    )


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        ("1718293847561234.567", 1718293847561234567),
        ("1718293847561234.5674", 1718293847561234567),
        ("1718293847561234.5675", 1718293847561234568),
        ('"1718293847561234.567"', 1718293847561234567),
        ("1718293847561234", 1718293847561234000),
        ("1.718293847561234567e15", 1718293847561234567),
        ("1718293847561234567e-3", 1718293847561234567),
    ],
)
def test_stamps_are_exact_to_the_nanosecond(read, ts, expected):
    event = f'{{"ph": "X", "cat": "cpu_op", "name": "o", "pid": 1, "tid": 1, "ts": {ts}, "dur": 1}}'
    assert read(f"[{event}]").header.origin_unix_ns == expected


@pytest.mark.parametrize("gz", [False, True])
def test_touching_neighbours_at_epoch_times_stay_touching(read, gz):
    base = 1718293847561234567
    events = ",".join(
        f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{(base + 50 * k) // 1000}.{(base + 50 * k) % 1000:03d},'
        f'"dur":0.05,"args":{{"device":0,"stream":7}}}}'
        for k in range(2000)
    )
    trace = read(f"[{events}]", gz=gz)
    starts, ends = trace.column("ops", "start_ns"), trace.column("ops", "end_ns")
    assert (starts[1:] == ends[:-1]).all()
    assert {c.check: c.count for c in trace.header.integrity}["same_stream_overlaps"] == 0


@pytest.mark.parametrize(
    "events",
    [
        '{"traceEvents": [{}, EVENT]}',
        '{"traceEvents": [EVENT, {}]}',
        '{"traceEvents": [EVENT,]}',
        '\ufeff{"traceEvents": [EVENT]}',
        ' \r\n\t{ "traceEvents" : [ EVENT ] } \n',
        '{"INFO": ["a", {"b": [1, "]}"]}], "x": -1.5e3, "y": null, "odd": N/A, "traceEvents": [EVENT], "ERROR": [], "z": {"traceEvents": []}}',
        '{"traceEvents":[EVENT],"bad \\"key\\"":inf}',
        "[EVENT,]",
    ],
)
def test_forms_of_the_envelope(read, events):
    event = json.dumps({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1})
    assert read(events.replace("EVENT", event)).table("ops").num_rows == 1


def test_a_gzip_file_of_several_members_is_one_text(tmp_path):
    import gzip  # noqa: PLC0415

    from overlane.readers import open_trace  # noqa: PLC0415

    text = json.dumps(
        [
            {"ph": "X", "cat": "kernel", "name": f"k{k}", "pid": 0, "tid": 7, "ts": k, "dur": 1}
            for k in range(100)
        ]
    ).encode()
    path = tmp_path / "members.json.gz"
    path.write_bytes(b"".join(gzip.compress(text[k : k + 777]) for k in range(0, len(text), 777)))
    assert open_trace(path).table("ops").num_rows == 100


def test_ranks_come_from_the_file(read):
    event = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}'
    assert read(f'{{"distributedInfo": {{"rank": 5}}, "traceEvents": [{event}]}}').ranks == (5,)
    assert read(f'{{"distributedInfo": {{"backend": "nccl"}}, "traceEvents": [{event}]}}').ranks == (None,)
    assert read(f"[{event}]").ranks == (None,)
