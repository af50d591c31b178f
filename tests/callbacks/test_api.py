"""The JSON and binary routes."""

from __future__ import annotations

import json
import struct

import pytest

from callbacks.conftest import settle, write_small
from overlane import open_trace
from overlane.ui.api import row_json
from overlane.ui.server import create_app


def test_traces_are_listed_with_their_state(client):
    traces = client.get("/api/traces").json["traces"]
    assert [(x["id"], x["name"], x["state"]) for x in traces] == [
        ("small", "small", "ready"),
        ("broken", "broken", "failed"),
        ("host", "host", "ready"),
        ("second", "second", "listed"),
    ]
    assert "broken.overlane" in traces[1]["reason"]
    assert not any("path" in x for x in traces), "places on the machine are nobody's business"


def test_timeline_says_lanes_and_span(client):
    meta = client.get("/api/traces/small/timeline").json
    assert meta["trace"] == "small"
    assert meta["span_ns"] == 7001  # what happens at 7000 is in view
    assert {lane["label"] for lane in meta["lanes"] if lane["kind"] == "stream"} == {"stream 7", "stream 13"}


def test_tile_holds_every_slice_exactly(client):
    lanes = client.get("/api/traces/small/timeline").json["lanes"]
    wires = [lane["first"] for lane in lanes if lane["kind"] == "stream"]
    query = f"t0=0&t1=7000&px=1000&lanes={','.join(map(str, wires))}"
    answer = client.get(f"/api/traces/small/tile?{query}")
    assert answer.mimetype == "application/octet-stream"
    magic, count, t0, t1 = struct.unpack_from("<IIdd", answer.data)
    assert (magic, count, t0, t1) == (0x3154564F, 3, 0, 7000)
    starts = struct.unpack_from("<3f", answer.data, 48)
    ends = struct.unpack_from("<3f", answer.data, 60)
    assert sorted(zip(starts, ends, strict=True)) == [(1000, 3000), (2000, 5000), (6000, 7000)]


def test_row_says_everything(client):
    row = client.get("/api/traces/small/row?table=ops&row=0").json
    assert row["columns"]["name"] == "add(float*)"
    assert (row["columns"]["start_ns"], row["columns"]["end_ns"]) == (1000, 3000)
    assert row["attributes"] == {"occupancy": 50}
    assert [(x["kind"], x["table"], x["row"], x["text"]) for x in row["links"]] == [
        ("launched by", "api_calls", 0, "cudaLaunchKernel"),
        ("operator", "ranges", 0, "aten::add"),
    ]
    assert "queued_ns" in row["unknown"]
    assert isinstance(row["lane"], int)


def test_a_row_with_numbers_that_json_cannot_say_is_strict_json(tmp_path):
    path = tmp_path / "odd.json"
    event = (
        '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"x":NaN,"y":[-Infinity]}}'
    )
    path.write_text(f"[{event}]")

    def refuse(word):
        raise ValueError(word)

    said = json.dumps(row_json(open_trace(path), "ops", 0))
    row = json.loads(said, parse_constant=refuse)
    assert row["attributes"] == {"x": "NaN", "y": ["-Infinity"]}


@pytest.mark.parametrize(
    ("address", "status", "word"),
    [
        ("/api/traces/nobody/timeline", 404, "nobody"),
        ("/api/traces/broken/timeline", 422, "broken.overlane"),
        ("/api/traces/../../etc/passwd", 404, "api/traces"),
        ("/api/traces/%2e%2e%2f%2e%2e%2fetc%2fpasswd/timeline", 404, ""),
        ("/api/nothing", 404, "/api/nothing"),
        ("/api/traces/small/timeline?rank=7", 400, "no rank 7"),
        ("/api/traces/small/timeline?rank=x", 400, "whole number"),
        ("/api/traces/small/tile?t0=0&t1=10&px=0", 400, "px"),
        ("/api/traces/small/tile?t0=0&t1=10&px=99999999", 400, "px"),
        ("/api/traces/small/tile?t0=0&t1=10", 400, "px"),
        ("/api/traces/small/tile?t0=10&t1=10&px=5", 400, "later"),
        ("/api/traces/small/tile?t0=0.5&t1=10&px=5", 400, "t0"),
        ("/api/traces/small/tile?t0=0&t1=99999999999999999999&px=5", 400, "t1"),
        ("/api/traces/small/tile?t0=0&t1=10&px=5&lanes=a", 400, "lanes"),
        ("/api/traces/small/tile?t0=0&t1=10&px=5&lanes=9-3", 400, "lanes"),
        ("/api/traces/small/tile?t0=0&t1=10&px=5&lanes=60000", 400, "lanes"),
        ("/api/traces/small/row?table=secrets&row=0", 400, "secrets"),
        ("/api/traces/small/row?table=ops&row=3", 404, "3 rows"),
        ("/api/traces/small/row?table=ops&row=-1", 400, "row"),
        ("/api/traces/small/row?table=ops", 400, "row"),
    ],
)
def test_nonsense_gets_one_sentence(client, address, status, word):
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    sentence = answer.json["error"]
    assert word in sentence
    assert "Traceback" not in answer.text
    assert "\n" not in sentence


def test_a_trace_is_opened_when_asked_for(client, store):
    assert store.listing("second").state == "listed"
    first = client.get("/api/traces/second/timeline")
    assert first.status_code in {200, 503}, "ready, or: ask again"
    if first.status_code == 503:
        assert first.headers["Retry-After"]
        assert json.loads(first.data)["state"] == "loading"
    settle(store, "second")
    assert client.get("/api/traces/second/timeline").status_code == 200


def test_two_traces_keep_apart(client, store):
    settle(store, "second")
    for trace in ("small", "second"):
        assert client.get(f"/api/traces/{trace}/timeline").json["trace"] == trace
    assert client.get("/api/traces/host/row?table=ops&row=0").status_code == 404


@pytest.mark.parametrize(
    ("method", "address"),
    [("delete", "/api/traces"), ("delete", "/api/traces/small/row"), ("put", "/api/nothing")],
)
def test_other_methods_are_refused_as_json(client, method, address):
    answer = getattr(client, method)(address)
    assert answer.status_code == 405
    assert "is refused" in answer.json["error"]
    assert "GET" in answer.headers["Allow"]


def test_a_fault_is_answered_as_json(client, store, monkeypatch, caplog):
    def fail(*_args, **_options):
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr(store, "listings", fail)
    answer = client.get("/api/traces")
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.json["error"]
    assert "please report it" in answer.json["error"]
    assert "secret of the house" in caplog.text


@pytest.mark.parametrize("lanes", ["9" * 5000, f"0-{'9' * 5000}", f"{'9' * 5000}-0"])
def test_endless_lanes_get_our_own_sentence(client, lanes):
    answer = client.get(f"/api/traces/small/tile?t0=0&t1=10&px=5&lanes={lanes}")
    assert answer.status_code == 400
    assert answer.json["error"].startswith("lanes must rise and stay below 65536")
    assert len(answer.json["error"]) < 200


def test_endless_numbers_are_not_repeated(client):
    answer = client.get(f"/api/traces/small/tile?t0=0&t1={'9' * 4000}&px=5")
    assert answer.status_code == 400
    assert len(answer.json["error"]) < 200


def test_refusals_do_not_say_where_files_lie(client, shared_folder):
    answer = client.get("/api/traces/broken/timeline")
    assert answer.status_code == 422
    assert "broken.overlane" in answer.json["error"]
    assert str(shared_folder) not in answer.text
    assert str(shared_folder) not in client.get("/api/traces").text


def test_a_file_that_went_away_is_named_without_its_folder(own_store, folder):
    (folder / "library" / "second.overlane").unlink()
    settle(own_store, "second")
    answer = create_app(own_store).server.test_client().get("/api/traces/second/timeline")
    assert answer.status_code == 422
    assert answer.json["error"].startswith("second.overlane cannot be opened")
    assert str(folder) not in answer.text


def test_a_file_that_was_repaired_is_tried_again(own_store, folder):
    client = create_app(own_store).server.test_client()
    bad = folder / "library" / "bad.overlane"
    bad.write_bytes(b"PK\x03\x04 cut")
    own_store.rescan()
    settle(own_store, "bad")
    assert client.get("/api/traces/bad/timeline").status_code == 422
    write_small(bad)
    own_store.opened("bad", wait_s=60)
    assert client.get("/api/traces/bad/timeline").status_code == 200
