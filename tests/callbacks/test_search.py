"""Search: what lines of words mean, and which rows they find, against loops over the rows."""

from __future__ import annotations

import numpy as np
import pytest

from overlane.readers import open_trace
from overlane.ui.search import KINDS, NAMES, Query, QueryError, find_rows, parse_query


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("", Query()),
        ("gemm fwd", Query(text="gemm fwd")),
        ("stream:7 Gemm", Query(text="Gemm", streams=(7,))),
        ("kind:kernel kind:MEMCPY", Query(kinds=("kernel", "memcpy"))),
        (">10us", Query(least_ns=10_001)),
        (">=10us <1ms", Query(least_ns=10_000, most_ns=999_999)),
        ("1.5us..2ms", Query(least_ns=1_500, most_ns=2_000_000)),
        ("cause:event_wait", Query(causes=("event_wait",))),
        ('"kind:kernel"', Query(text="kind:kernel")),
        ("at::add", Query(text="at::add")),
        ("a<b>", Query(text="a<b>")),
    ],
)
def test_lines_become_queries(line, query):
    assert parse_query(line) == query


@pytest.mark.parametrize(
    ("line", "word"),
    [("kind:thing", "known: operation"), ("stream:x", "stream:7"), ("cause:rain", "known: stream_order"),
     ("2ms..1ms", "shorter duration first")],
)  # fmt: skip
def test_lines_that_make_no_sense_are_refused_in_words(line, word):
    with pytest.raises(QueryError, match=word):
        parse_query(line)


def slow(trace, query):
    """Every row that a query holds for, by looking at each."""
    found = []
    for table, name in NAMES.items():
        for row, values in enumerate(trace.table(table).to_pylist()):
            start = values.get("start_ns", values.get("at_ns"))
            end = values.get("end_ns", start)
            length = max((trace.span_ns if end is None else end) - start, 0)
            kinds = [KINDS[word] for word in query.kinds]
            if query.text.casefold() not in (values[name] or "").casefold():
                continue
            if query.text and values[name] is None:
                continue
            if kinds and not any(t == table and k in {None, values.get("kind")} for t, k in kinds):
                continue
            if query.streams and values.get("stream_id") not in query.streams:
                continue
            if length < query.least_ns or (query.most_ns is not None and length > query.most_ns):
                continue
            found.append((start, table, row))
    return sorted(found, key=lambda item: (item[0], list(NAMES).index(item[1]), item[2]))


@pytest.mark.parametrize(
    "line",
    ["a", "memcpy", "kind:kernel", "kind:call kind:kernel", "stream:7", "stream:7 >2us", "<1us",
     "kind:operation 1us..2us", "no such name"],
)  # fmt: skip
def test_a_search_finds_what_a_loop_finds(client, folder, line):
    trace = open_trace(folder / "small.overlane")
    query = parse_query(line)
    expected = [(table, row) for _, table, row in slow(trace, query)]
    hits = find_rows(trace, query, of_rank=lambda _column: None)
    assert [(hits.tables[t], r) for t, r in zip(hits.table, hits.row, strict=True)] == expected
    answer = client.get("/api/traces/small/search", query_string={"q": line}).json
    assert answer["total"] == len(expected)
    assert [(x["table"], x["row"]) for x in answer["hits"]] == expected


def test_pages_of_hits_follow_one_another(client):
    whole = client.get("/api/traces/small/search?q=a").json
    assert whole["total"] > 2
    parts = [client.get(f"/api/traces/small/search?q=a&limit=1&offset={at}").json["hits"] for at in range(9)]
    assert [hit for part in parts for hit in part] == whole["hits"]


def test_an_empty_search_finds_nothing(client):
    assert client.get("/api/traces/small/search?q=").json["total"] == 0


def test_causes_that_are_not_known_are_not_nothing(client):
    answer = client.get("/api/traces/small/search?q=cause:event_wait")
    assert answer.status_code == 400
    assert "not known yet" in answer.json["error"]


def test_senseless_searches_are_refused(client):
    assert client.get("/api/traces/small/search?q=kind:thing").status_code == 400
    assert client.get("/api/traces/small/search", query_string={"q": "x" * 500}).status_code == 400


def wires(client):
    lanes = client.get("/api/traces/small/timeline").json["lanes"]
    return {lane["id"]: lane["first"] for lane in lanes}


def slices(client, query):
    """(wire lane, row) of each item of a tile."""
    data = client.get(f"/api/traces/small/tile?t0=0&t1=7000&px=1000&{query}").data
    count = int(np.frombuffer(data, "<u4", 1, 4)[0])
    row = np.frombuffer(data, "<u4", count, 48 + 8 * count)
    lane = np.frombuffer(data, "<u2", count, 48 + 20 * count)
    return set(zip(lane.tolist(), row.tolist(), strict=True))


def test_the_overlay_of_a_search_has_its_slices_on_the_same_lanes(client):
    known = wires(client)
    streams = [wire for lane, wire in known.items() if lane.startswith("s:")]
    everything = slices(client, f"lanes={','.join(map(str, streams))}")
    found = slices(client, "layer=found&q=mul")
    assert found
    assert found < everything
    assert {row for _, row in found} == {2}
    assert slices(client, "layer=found&q=no%20such%20name") == set()


def test_an_unknown_overlay_is_refused(client):
    answer = client.get("/api/traces/small/tile?t0=0&t1=7000&px=1000&layer=rain")
    assert answer.status_code == 400
    assert "known: found" in answer.json["error"]
