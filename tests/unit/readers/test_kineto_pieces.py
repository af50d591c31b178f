# ruff: noqa: E501 - traces stand as text, one event a line
"""A file gives the same tables however it is cut into pieces, on however many threads, plain or gzipped."""

import gzip
import json
import random
from pathlib import Path

import pytest

from overlane.readers.kineto import source
from overlane.readers.kineto.assemble import assemble
from overlane.readers.kineto.parallel import scan_file
from overlane_collect.schema import TABLES

TRAPS = [
    '},{"ph": "X"', '},\n  {\n    "ph": "X", "cat": "kernel", "name": "false", "ts": 1', '}, {"name": ', "]}", "],", "\\", '"', '\\\\"', "[{",
    "\u00e9\u4e2d\U0001f600", "x" * 900, "",
]  # fmt: skip


def events(count, seed):
    """Events whose names and members hold what looks like borders between events."""
    pick = random.Random(seed)
    for k in range(count):
        cat = pick.choice(["cpu_op", "kernel", "cuda_runtime", "user_annotation", "python_function"])
        event = {"ph": "X", "cat": cat, "name": f"{pick.choice(TRAPS)} {k % 40}", "pid": k % 3, "tid": k % 5, "ts": pick.randrange(10**6) / 8,
                 "dur": pick.randrange(1000) / 4, "args": {"External id": k, "text": pick.choice(TRAPS), "n": pick.randrange(-(10**12), 10**12),
                 "list": [{"ph": "X", "name": pick.choice(TRAPS)}, {"ph": "i"}]}}  # fmt: skip
        if cat == "kernel":
            event["args"] |= {"device": k % 2, "stream": k % 7, "correlation": k // 3, "grid": [k, 1, 1]}
        yield event
        if k % 11 == 0:
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": k % 3,
                "tid": k % 5,
                "args": {"name": f"thread {k % 5}"},
            }
        if k % 13 == 0:
            yield {"ph": "s", "id": k, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": pick.choice(TRAPS)}


def read(path, threads):
    return assemble(Path("same.json"), scan_file(path, is_gzip=path.suffix == ".gz", threads=threads))


@pytest.mark.parametrize("form", [{"indent": 2}, {"separators": (",", ":")}, {}])
def test_pieces_threads_and_gzip_do_not_change_a_table(tmp_path, monkeypatch, form):
    found = list(events(600, seed=5))
    text = json.dumps(
        {
            "schemaVersion": 1,
            "traceEvents": found,
            "deviceProperties": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}],
        },
        **form,
    ).encode()
    plain, packed = tmp_path / "t.json", tmp_path / "t.json.gz"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    whole = read(plain, 1)
    assert whole.header.source_events == len(found)
    assert whole.table("ops")["name"].to_pylist().count("false") == 0
    for piece_bytes, threads, path in (
        (1 << 12, 1, plain),
        (1500, 2, plain),
        (700, 3, packed),
        (97, 2, plain),
        (1 << 14, 2, packed),
    ):
        monkeypatch.setattr(source, "PIECE_BYTES", piece_bytes)
        again = read(path, threads)
        assert again.header == whole.header
        for table in TABLES:
            assert again.table(table).to_pylist() == whole.table(table).to_pylist(), (table, piece_bytes)


def test_a_border_inside_a_string_is_found_out(tmp_path, monkeypatch):
    """The cut falls into a text that looks exactly like the next event."""
    inner = '},\n  {"ph": "X", "cat": "kernel", "name": "false", "pid": 0, "tid": 0, "ts": 1, "dur": 1, "args": {}'
    event = {"ph": "X", "cat": "cpu_op", "name": inner * 30, "pid": 1, "tid": 1, "ts": 2, "dur": 1}
    path = tmp_path / "t.json"
    text = json.dumps([event] * 20).replace(json.dumps(inner)[1:-1], inner.replace('"', '\\"'))
    path.write_text(text)
    monkeypatch.setattr(source, "PIECE_BYTES", 500)
    monkeypatch.setattr(source, "_BORDER", source.re.compile(rb"\}\s*,\s*(?=\{)"))
    trace = read(path, 2)
    assert trace.table("ops").num_rows == 0
    assert trace.table("ranges").num_rows == 20


def test_an_event_longer_than_every_buffer(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "PIECE_BYTES", 1000)
    long = {"ph": "X", "cat": "cpu_op", "name": "n" * 3_000_000, "pid": 1, "tid": 1, "ts": 1, "dur": 1,
            "args": {"stack": "s" * 2_000_000} | {f"k{k}": k for k in range(50_000)}}  # fmt: skip
    path = tmp_path / "t.json"
    path.write_text(json.dumps([long, {**long, "name": "short", "ts": 2}]))
    trace = read(path, 2)
    assert [len(name) for name in trace.table("ranges")["name"].to_pylist()] == [3_000_000, 5]
    assert trace.attributes("ranges", 1)["k49999"] == 49_999


def test_a_head_with_lists_that_look_like_events(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "PIECE_BYTES", 300)
    head = [{"id": k, "name": f"GPU {k}"} for k in range(60)]
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps(
            {
                "deviceProperties": head,
                "traceEvents": [
                    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 1, "ts": 1, "dur": 1}
                ],
                "tail": head,
            }
        )
    )
    trace = read(path, 2)
    assert trace.table("devices").num_rows == 60
    assert trace.table("ops").num_rows == 1


def test_many_distinct_names_and_templates(tmp_path):
    """The string tables grow several times, and those of the threads are merged."""
    path = tmp_path / "t.json"
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": f"op {k}", "pid": 1, "tid": k % 400, "ts": k, "dur": 1, "args": {"text": f"value {k}", "n": k}}
        for k in range(20_000)
    ]  # fmt: skip
    path.write_text(json.dumps(rows))
    trace = read(path, 2)
    assert trace.table("ranges")["name"].to_pylist() == [f"op {k}" for k in range(20_000)]
    assert [trace.attributes("ranges", k) for k in (0, 7777, 19_999)] == [
        {"text": f"value {k}", "n": k} for k in (0, 7777, 19_999)
    ]
