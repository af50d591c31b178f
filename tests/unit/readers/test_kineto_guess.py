"""Guessed members change nothing: events spelt differently from their neighbours are read as if alone."""

import json
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.readers import open_trace
from overlane_collect.schema import TABLES

SPELLINGS = (
    json.dumps,
    lambda event: json.dumps(event, separators=(",", ":")),
    lambda event: json.dumps(event, indent=2),
    lambda event: json.dumps(dict(reversed(event.items()))),
    lambda event: json.dumps(event, separators=(" ,\t", "  :\n ")),
    lambda event: json.dumps(event).replace('"name"', '"na\\u006de"'),
)
names = st.sampled_from(["aten::mm", "ts", "dur", "k" * 70])
arguments = st.dictionaries(
    st.sampled_from(["stream", "device", "correlation", "Input Dims", "ts", "x" * 60, "x" * 70, ""]),
    st.one_of(st.integers(0, 2**31 - 1), st.text(max_size=3)),
    max_size=5,
)
events = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "X", "X", "i", "s"]),
        "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "ac2g"]),
        "name": names,
        "pid": st.integers(0, 3),
        "tid": st.integers(0, 3),
        "ts": st.integers(0, 10**6),
        "dur": st.integers(0, 1000),
    },
    optional={"args": arguments, "id": st.integers(0, 9)},
)


def read(path, texts):
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + ",\n".join(texts) + "]}")
    trace = open_trace(path)
    return {name: trace.table(name).to_pylist() for name in TABLES if name != "attributes"}, [
        trace.attributes("ops", row) for row in range(trace.table("ops").num_rows)
    ]


@settings(max_examples=25, deadline=None)
@given(st.lists(events, min_size=1, max_size=20), st.lists(st.integers(0, 5), min_size=1, max_size=7))
def test_mixed_spellings_read_as_plain_ones(tmp_path_factory, drawn, order):
    folder = tmp_path_factory.mktemp("guess")
    mixed = [SPELLINGS[k](event) for event, k in zip(drawn, cycle(order), strict=False)]
    assert read(folder / "mixed.json", mixed) == read(folder / "plain.json", map(json.dumps, drawn))
