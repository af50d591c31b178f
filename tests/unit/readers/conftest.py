"""Fixtures that write small traces and read them."""

import gzip
import json

import pytest

from overlane.readers import open_trace

SOURCES = ("ops", "api_calls", "syncs", "event_records", "ranges", "instants", "counters", "overheads")


@pytest.fixture
def read(tmp_path):
    """Write text (or bytes, or a list of events) to a file and read it; `gz` writes it gzipped."""

    def reader(content, *, name="trace.json", gz=False):
        if isinstance(content, list | dict):
            content = json.dumps(content)
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / (name + (".gz" if gz else ""))
        path.write_bytes(gzip.compress(data) if gz else data)
        return open_trace(path)

    return reader


@pytest.fixture
def table():
    """Return some columns of a table as a list of tuples."""

    def columns(trace, name, *wanted):
        values = [trace.table(name)[column].to_pylist() for column in wanted]
        return list(zip(*values, strict=True))

    return columns


@pytest.fixture
def adds_up():
    """Check that every event is in one row or in a counted reason; `derived` rows are no events."""

    def check(trace, events, derived=0):
        header = trace.header
        rows = sum(trace.table(name).num_rows for name in SOURCES)
        assert derived == sum(header.extra.get("derived_rows", {}).values())
        assert header.source_events == events
        assert rows - derived + sum(header.dropped.values()) == events

    return check
