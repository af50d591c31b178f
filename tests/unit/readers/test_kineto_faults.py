# ruff: noqa: E501 - traces stand as text, one event a line
"""Files that cannot be read: one sentence that says what, where, and what to do; never another exception, never half a trace."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.errors import TraceUnreadableError
from overlane.readers import open_trace
from overlane.trace import Trace

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "X", "cat": "cpu_op", "name": 'a "quoted" \\ name', "pid": 1, "tid": 1, "ts": 1.5, "dur": 2, "args": {"Input Dims": [[1], []], "n": 3}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 1, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 7, "grid": [1, 2, 3]}},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 4, "dur": 2, "args": {"stream": 7, "correlation": 8}},
    {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "args": {"Bytes": -5, "x": 1.5}},
    {"ph": "C", "name": "c", "pid": 1, "tid": 1, "ts": 6, "args": {"v": 1}},
    {"ph": "B", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 7}, {"ph": "E", "pid": 1, "tid": 1, "ts": 8},
]  # fmt: skip
TEXT = json.dumps(
    {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "GPU"}],
        "traceEvents": EVENTS,
        "traceName": "t",
    },
    indent=1,
).encode()


def fails(path, *words):
    with pytest.raises(TraceUnreadableError) as caught:
        open_trace(path)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"   \n ", ["empty"]),
        (b"\xef\xbb\xbf", ["empty"]),
        (b"\xef\xbb\xbf \r\n", ["empty"]),
        (b"hello, this is text, not a trace", ["text"]),
        (b"{", ["cut", "byte 1"]),
        (b"[", ["cut"]),
        (b'{"a": 1}', ["traceEvents", "a"]),
        (b"{}", ["traceEvents", "none"]),
        (b'{"traceEvents": {"a": 1}}', ["no list of events", "byte 1"]),
        (b'{"traceEvents":null}', ["no list of events", "byte 1"]),
        (b'{"traceEvents": [{"ph": "X" "name": "x"}]}', ["not valid JSON at byte 17"]),
        (b'{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', ["not valid JSON at byte 29"]),
        (b'[{"ph":"X","name":"a "raw" quote","ts":1}]', ["not valid JSON"]),
        (b'[{"ph":"X","args":{"a":[1,2}}]', ["not valid JSON"]),
        (b'{"traceEvents": []', ["cut"]),
        (b'{"traceEvents": []} {"traceEvents": []}', ["not valid JSON at byte 20"]),
        (b'{"traceEvents": [], "traceEvents": []}', ["two lists of events", "byte 20"]),
        (b"[{}] trailing", ["not valid JSON"]),
        (b'{"traceEvents": [], "x": }', ["not valid JSON"]),
        (b'[{"args": ' + b"[" * 100000 + b"]" * 100000 + b"}]", ["62 levels", "byte 1"]),
        (b'[{"a":' + b"[" * 63 + b"]" * 63 + b"}]", ["62 levels", "byte 1"]),
        (b'{"a":' + b"[" * 63 + b"]" * 63 + b',"traceEvents":[]}', ["62 levels", "byte 5"]),
        (b'{"traceEvents":[],"a":' + b"[" * 63 + b"]" * 63 + b"}", ["62 levels", "byte 22"]),
        ('[{"ph": "X"}]'.encode("utf-16"), ["UTF-16", "UTF-8"]),
        ('[{"ph": "X"}]'.encode("utf-16-le"), ["UTF-16", "UTF-8"]),
        ('{"a": "X"}'.encode("utf-16-be"), ["UTF-16", "UTF-8"]),
        ('[{"ph": "X"}]'.encode("utf-32"), ["UTF-32", "UTF-8"]),
        ('[{"ph": "X"}]'.encode("utf-32-be"), ["UTF-32", "UTF-8"]),
        (bz2.compress(b"[]"), ["bzip2"]),
        (lzma.compress(b"[]"), ["xz"]),
    ],
)  # fmt: skip
def test_broken_text_is_refused_with_its_place(tmp_path, content, words):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    fails(path, "t.json", *words)


def test_a_cut_inside_the_last_string_is_refused(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(TEXT[: TEXT.rindex(b"name") - 3])
    fails(path, "cut")


def test_damaged_gzip_is_refused(tmp_path):
    body = gzip.compress(TEXT)
    path = tmp_path / "t.json.gz"
    path.write_bytes(body[:-12])
    fails(path, "cut", "gzip")
    path.write_bytes(body[:-6] + bytes([body[-6] ^ 255]) + body[-5:])
    fails(path, "damaged", "gzip")
    for rest in (b"not gzip at all", b"tail", b"\n", b"\x1fx"):
        path.write_bytes(body + rest)
        fails(path, "behind the end of its gzip stream")
        path.write_bytes(body + body + rest)
        fails(path, "behind the end of its gzip stream")
    path.write_bytes(gzip.compress(body))
    fails(path, "gzip inside gzip", "once")
    path.write_bytes(gzip.compress(b" \n"))
    fails(path, "empty")
    path.write_bytes(b"\x1e" + body[1:])
    fails(path, "called .gz but is not gzipped")
    path.write_bytes(TEXT[:-20])
    fails(path, "cut")
    path.write_bytes(b"\x1f\x8b\x08")
    fails(path, "gzip")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('{"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [{"ph":"X","pid":1,"tid":2,"ts":1,"dur":1,"name":"x"}, {}]}', "JAX"),
        ('[{}, {"ph":"X","pid":"2","tid":"0","ts":"1","dur":"1","name":"x"}]', "RPD"),
        ('{"traceEvents": [{"ph":"X","cat":"webkit","pid":1,"tid":2,"ts":1,"dur":1,"name":"x"}]}', "category"),
    ],
)  # fmt: skip
def test_chrome_traces_of_others_are_named_and_refused(tmp_path, content, word):
    path = tmp_path / "t.json"
    path.write_text(content)
    fails(path, "not of PyTorch", word, "export_chrome_trace")


def outcome(path):
    try:
        trace = open_trace(path)
    except TraceUnreadableError as error:
        return None if "\n" not in str(error) else error
    assert isinstance(trace, Trace)
    for table in ("ops", "ranges", "instants", "api_calls"):
        for row in range(trace.table(table).num_rows):
            trace.attributes(table, row)
    return trace


def test_every_cut_is_refused(tmp_path):
    path = tmp_path / "t.json"
    for length in range(len(TEXT.rstrip()) - 1):
        path.write_bytes(TEXT[:length])
        assert outcome(path) is None, TEXT[:length][-40:]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes_give_a_trace_or_a_sentence(tmp_path_factory, flips):
    content = bytearray(TEXT)
    for place, value in flips:
        content[place] = value
    path = tmp_path_factory.mktemp("flip") / "t.json"
    path.write_bytes(bytes(content))
    outcome(path)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=2),
    st.integers(0, 30),
)
def test_flipped_bytes_of_gzip_give_a_trace_or_a_sentence(tmp_path_factory, flips, cut):
    content = bytearray(gzip.compress(TEXT, mtime=0))
    for place, mask in flips:
        content[int(place * len(content))] ^= mask
    path = tmp_path_factory.mktemp("flip") / "t.json.gz"
    path.write_bytes(bytes(content[: len(content) - cut]))
    outcome(path)


def test_numbers_at_the_edges_do_not_overflow(tmp_path):
    edges = [
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "1e400",
        "-1e400",
        "2305843009213693.951",
        "1e-400",
        "999999999999999999999999",
    ]
    events = [
        f'{{"ph":"X","cat":"kernel","name":"k","pid":{pid},"tid":{pid},"ts":{ts},"dur":{dur},"args":{{"device":{dur},"stream":{ts},"bytes":{pid}}}}}'
        for ts in edges for dur in edges for pid in edges
    ]  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text("[" + ",".join(events) + "]")
    trace = open_trace(path)
    assert trace.table("ops").num_rows + sum(trace.header.dropped.values()) == len(events)
    assert np.all(trace.column("ops", "start_ns") >= 0)


def test_progress_ends_at_one_and_may_cancel(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)
    seen = []
    open_trace(path, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0

    def cancel(_fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_trace(path, progress=cancel)
