# ruff: noqa: E501 - traces stand as text, one event a line
"""Valid JSON that writers hardly ever write, and numbers at the edge of 64 bits: read as JSON says, or counted."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.analysis.engines import engine_report
from overlane.readers import open_trace

KERNEL = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1.5,"dur":2.25,"args":{"device":0,"stream":7,"n":3,"q":"v"}}'
LONGEST_US = 576460752303423  # 2^59 ns is a little more


def attributes(trace):
    return [trace.attributes("ops", row) for row in range(trace.table("ops").num_rows)]


def checks(trace):
    return {check.check: check.count for check in trace.header.integrity if check.count}


def kernel(members="", **changed):
    event = {
        "ph": '"X"',
        "cat": '"kernel"',
        "name": '"k"',
        "pid": "0",
        "tid": "7",
        "ts": "1",
        "dur": "1",
    } | changed
    return (
        "{"
        + ",".join(f'"{key}":{value}' for key, value in event.items())
        + f',"args":{{"device":0{members}}}}}'
    )


@pytest.mark.parametrize("other", [b"", b"\n", b"\x02"])
def test_a_raw_mark_inside_a_string_stays_apart_from_integers(read, other):
    line = KERNEL.encode().replace(b'"v"', b'"a\x01b' + other + b'c\\\\\x01","m":8')
    trace = read(b"[" + b",".join([line, line.replace(b'"n":3', b'"n":4'), KERNEL.encode(), line]) + b"]")
    text = f"a\x01b{other.decode()}c\\\x01"
    odd = {"n": 3, "q": text, "m": 8}
    assert attributes(trace) == [odd, odd | {"n": 4}, {"n": 3, "q": "v"}, odd]


def test_raw_marks_in_names_keys_and_lists_survive(read):
    trace = read(
        b'[{"ph":"X","cat":"kernel","name":"k\x01","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":7,"a\x01":1,"l":[2,"\x01",{"x":"\x01"}],"p":"C:\\\x01"}}]'
    )
    assert trace.row("ops", 0)["name"] == "k\x01"
    assert attributes(trace) == [{"a\x01": 1, "l": [2, "\x01", {"x": "\x01"}], "p": "C:\\\x01"}]


inner = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.text('\x00\x01\x02#\\"a\n', max_size=5))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text("\x01#xy\n", min_size=1, max_size=3).map(lambda k: "q" + k), inner, max_size=4), min_size=1, max_size=5))  # fmt: skip
def test_any_control_characters_and_integers_survive(tmp_path_factory, drawn):
    events = [json.loads(KERNEL) | {"ts": k, "args": members} for k, members in enumerate(drawn)]
    text = json.dumps(events)
    for code in (0, 1, 2):
        text = text.replace(f"\\u{code:04x}", chr(code))  # raw, as careless writers write them
    text = text.replace("\\n", "\n")
    path = tmp_path_factory.mktemp("marks") / "t.json"
    path.write_text(text, newline="")
    trace = open_trace(path)
    assert attributes(trace) == drawn


def test_ids_take_all_of_64_bits(read, table):
    big = [9223372036854775800, 9223372036854775801, 9223372036854775807, -9223372036854775807]
    events = [kernel(f',"stream":{k},"correlation":"{k}"', pid=k, tid=f'"{k}"') for k in big]
    call = f'{{"ph":"X","cat":"cuda_runtime","name":"c","pid":{big[0]},"tid":{big[2]},"ts":1,"dur":1,"args":{{"correlation":{big[1]}}}}}'
    trace = read("[" + ",".join([*events, call]) + "]")
    assert table(trace, "ops", "stream_id", "correlation_id") == [(k, k) for k in big]
    assert sorted(trace.table("streams")["stream_id"].to_pylist()) == sorted(big)
    assert table(trace, "api_calls", "process_id", "thread_id", "correlation_id") == [
        (big[0], big[2], big[1])
    ]
    assert "oversized_ids" not in checks(trace)
    assert checks(trace)["operations_without_launch"] == 3


@pytest.mark.parametrize(
    "value", ["9223372036854775808", "-9223372036854775808", "18446744073709551616", '"9223372036854775808"', "10000000000000000000"]
)  # fmt: skip
def test_ids_beyond_64_bits_stay_attributes_and_are_counted(read, value):
    trace = read("[" + kernel(f',"stream":{value},"correlation":{value}', tid=value) + "]")
    row = trace.row("ops", 0)
    assert (row["stream_id"], row["correlation_id"]) == (None, None)
    assert attributes(trace) == [{key: json.loads(value) for key in ("stream", "correlation", "tid")}]
    assert checks(trace)["oversized_ids"] == 3


def test_what_is_no_id_is_not_counted_as_a_large_one(read):
    trace = read("[" + kernel(',"stream":7.5,"correlation":"text"', tid='"Spans"') + "]")
    assert "oversized_ids" not in checks(trace)


@pytest.mark.parametrize(
    ("plain", "escaped"),
    [
        ('"ph"', r'"\u0070h"'), ('"X"', r'"\u0058"'), ('"ts"', r'"t\u0073"'), ('"kernel"', r'"kern\u0065l"'),
        ('"stream"', r'"str\u0065am"'), ('"args"', r'"\u0061rgs"'), ('"name"', r'"n\u0061me"'), ('"dur"', r'"du\u0072"'),
        ('"tid":7,', r'"tid":7,"odd \"key\"":"\\u",'),
    ],
)  # fmt: skip
def test_escaped_names_and_classes_are_recognised(read, plain, escaped):
    expected = read(f"[{KERNEL}]")
    text = KERNEL.replace(plain, escaped, 1)
    assert json.loads(text).items() >= json.loads(KERNEL).items()
    trace = read(f"[{KERNEL},{text},{KERNEL}]")
    assert trace.header.source_events == 3
    assert not trace.header.dropped
    for row in range(3):
        assert trace.row("ops", row) == expected.row("ops", 0)
    more = {'odd "key"': "\\u"} if "odd" in escaped else {}
    assert {**attributes(trace)[1], **more} == {**attributes(expected)[0], **more}


def test_escaped_names_around_and_in_metadata_are_recognised(read, table):
    trace = read(
        r'{"trace\u0045vents":[{"ph":"M","name":"process_n\u0061me","pid":1,"tid":1,"args":{"n\u0061me":"python"}},'
        r'{"ph":"X","cat":"cpu_op","name":"o","pid":1,"tid":1,"ts":1,"dur":1},{"ph":"i","\u0073":"\u0067","name":"i","pid":1,"tid":1,"ts":1}]}'
    )
    assert trace.table("threads")["process_name"].to_pylist() == ["python"]
    assert table(trace, "instants", "scope") == [("global",)]


def test_an_event_cut_or_broken_behind_an_escape_is_refused(tmp_path):
    from overlane.errors import TraceUnreadableError  # noqa: PLC0415 - used here alone

    path = tmp_path / "t.json"
    for text, word in (('[{"\\u0070h":"X","ts":', "cut"), ('[{"\\u0070h":"X" "ts":1}]', "byte 1"), ('[{"\\u0070h":' + "[" * 70 + "]" * 70 + "}]", "62 levels")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(TraceUnreadableError, match=word):
            open_trace(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"ph":"X","cat":"kernel","args":{"stream":1,"a":1},"name":"k","pid":0,"tid":7,"ts":1,"dur":1,"args":{"stream":2,"b":[2]}}',
        '{"args":{"stream":1,"a":1},"ph":"X","cat":"kernel","name":"k","args":{"stream":2,"b":[2]},"pid":0,"tid":7,"ts":1,"dur":1}',
        '{"args":{"stream":1,"a":1},"args":{"stream":2,"b":[2]},"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}',
        '{"ph":"X","cat":"kernel","args":17,"args":{"stream":2,"b":[2]},"name":"k","pid":0,"tid":7,"ts":1,"dur":1}',
        '{"ph":"M","ph":"X","cat":"cpu_op","args":{"stream":2,"b":[2]},"cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}',
    ],
)
def test_of_members_that_stand_twice_the_last_counts(read, table, text):
    trace = read(f"[{text}]")
    assert table(trace, "ops", "stream_id", "name") == [(2, "k")]
    assert attributes(trace) == [{"b": [2]}]


@pytest.mark.parametrize(
    "stamp", ["9223372036854775807", "NaN", "1e400", "-1e400", '"soon"', str(-LONGEST_US - 1)]
)
def test_an_impossible_stamp_has_its_own_reason(read, adds_up, stamp):
    trace = read("[" + kernel() + "," + kernel(ts=stamp) + "," + kernel(ts="null") + "]")
    assert trace.header.dropped == {"impossible time stamp": 1, "no time stamp": 1}
    adds_up(trace, 3)


def test_the_longest_spans_stay_below_what_a_view_takes(read):
    far = 2305843009213693  # almost 2^61 ns
    trace = read("[" + kernel(ts=-LONGEST_US) + "," + kernel(ts=far, dur=LONGEST_US) + "]")
    assert trace.table("ops").num_rows == 2
    assert 1 << 61 < trace.span_ns < 1 << 62
    trace = read("[" + kernel(dur=LONGEST_US + 1) + "," + kernel(dur=far) + "]")
    assert checks(trace)["impossible_durations"] == 2
    begin, end = (
        f'{{"ph":"{ph}","cat":"cpu_op","name":"o","pid":1,"tid":1,"ts":{ts}}}'
        for ph, ts in (("B", 0), ("E", far))
    )
    trace = read(f"[{begin},{end}]")
    assert trace.row("ranges", 0)["end_ns"] == 0
    assert checks(trace)["impossible_durations"] == 1


def test_work_beyond_64_bits_is_added_up_exactly(read):
    trace = read("[" + ",".join(kernel(dur=LONGEST_US) for _ in range(40)) + "]")
    device = engine_report(trace).to_json()["devices"][0]
    assert device["work_ns"] == 40 * LONGEST_US * 1000


def test_integers_beyond_floats_and_columns_do_not_stop_the_reading(read, adds_up):
    huge = "1" + "0" * 400
    counter = f'{{"ph":"C","name":"c","pid":1,"tid":1,"ts":1,"args":{{"v":{huge}}}}}'
    members = f',"v":{huge},"Coll\\u0065ctive name":"x","Seq":{huge},"In msg nelems":-9223372036854775807,"dtype":"Float"'
    trace = read(f"[{counter},{kernel(members)}]")
    assert trace.header.dropped == {"counter without a numeric series": 1}
    adds_up(trace, 2)
    (found,) = trace.table("collectives").to_pylist()
    assert (found["collective"], found["sequence"], found["bytes"]) == ("x", None, None)
    assert trace.attributes("ops", 0)["v"] == int(huge)


def test_copies_of_absurd_size_and_times_of_all_edges_make_a_report(read):
    size = 9223372036854775807
    copy = kernel(
        f',"bytes":{size},"stream":{size}', cat='"gpu_memcpy"', name='"Memcpy HtoD (Pageable -> Device)"'
    )
    trace = read(f"[{copy},{copy}]")
    assert trace.table("ops")["bytes"].to_pylist() == [size, size]
    assert engine_report(trace).to_json()["devices"][0]["work_ns"] == 2000
